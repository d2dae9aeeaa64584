//! Whole comparisons over planted figures.

use super::testing::{Asked, Planted, Watched};
use super::*;
use crate::{
    Agents, Counts, Direction, Mode, Order, OrderAbove, Perimeter, Presentation, TtcpConfig, Wait,
};
use braidnet_process::Architecture;
use braidnet_sync::lock::LockKind;
use braidnet_tcp::CongestionControl;
use std::collections::BTreeMap;
use std::time::{Duration, UNIX_EPOCH};

fn machine() -> Machine {
    let provenance = Provenance {
        commit: Some("0123456789ab".to_owned()),
        command_line: "braidnet compare".to_owned(),
    };
    Machine {
        cpu_model: "Planted Processor".to_owned(),
        allowed_processors: 2,
        processor_numbers: vec![0, 1],
        kernel: "Linux 6.18.0".to_owned(),
        ..Machine::read(&provenance, UNIX_EPOCH)
    }
}

fn two_processors() -> CompareConfig {
    CompareConfig {
        processors: vec![1, 2],
        ..CompareConfig::default()
    }
}

fn measured(config: &CompareConfig, laboratory: &mut Planted) -> Report {
    compare_with(config, machine(), laboratory, &mut ()).expect("everything is planted")
}

#[test]
fn every_cell_is_measured_five_times_and_sampled_once_in_rounds() {
    let mut laboratory = Planted::new(2);
    let mut watched = Watched::default();
    let report = compare_with(&two_processors(), machine(), &mut laboratory, &mut watched)
        .expect("everything is planted");
    assert_eq!(report.runs.len(), 32);
    let planned = 32 * 6 + 8 + 4;
    assert_eq!((watched.expected, watched.ended), (planned, planned));
    let runs = laboratory.runs();
    for round in 0..5 {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for config in &runs[32 * round..32 * (round + 1)] {
            assert_eq!(
                (config.mode, config.direction),
                (Mode::Bulk, Direction::Receive)
            );
            assert!(!config.sync_sampling);
            *counts.entry(format!("{config:?}")).or_default() += 1;
        }
        assert_eq!(counts.len(), 32, "every cell once in round {round}");
    }
    assert_ne!(
        runs[..32],
        runs[32..64],
        "each round has an order of its own"
    );
    let echoes = runs.iter().filter(|config| config.mode == Mode::Echo);
    assert_eq!(echoes.count(), 8);
    assert_eq!(
        runs.iter().filter(|config| config.sync_sampling).count(),
        32
    );
    let alone: Vec<_> = (runs.iter())
        .filter(|config| config.order_free_sampling)
        .map(|config| (config.architecture, config.processors, config.sync_sampling))
        .collect();
    assert_eq!(alone, [(Architecture::Connection, 1, false); 4]);
}

/// 0.4 is planted: two processors that share that do 2 / (2 - 0.4) times the work of one.
#[test]
fn the_share_of_order_free_functions_is_told_with_what_it_allows() {
    let report = measured(&two_processors(), &mut Planted::new(2));
    assert!(
        report
            .runs
            .iter()
            .all(|run| run.order_free_share == Some(0.4))
    );
    let text = table(&report);
    let terms = text.lines().filter(|line| line.starts_with("order-free "));
    assert_eq!(terms.clone().count(), 4, "one for each load: {text}");
    for line in terms {
        assert!(
            line.contains(" 0.40 ") && line.contains(" 1.25 times "),
            "{line}"
        );
    }
    let config = TtcpConfig {
        architecture: Architecture::Braid,
        processors: 4,
        ..TtcpConfig::default()
    };
    let run = single(&mut Planted::new(4), &config, true).expect("everything is planted");
    assert!(describe(&run).contains("0.40 of one processor's time: shared, at most 1.43 times"));
    assert_eq!(run.sync_ns_per_message, Some(7.5));
}

#[test]
fn every_repetition_on_several_processors_stands_between_two_probes_of_its_load() {
    let mut laboratory = Planted::new(4);
    let config = CompareConfig {
        processors: vec![1, 2, 4],
        ..CompareConfig::default()
    };
    measured(&config, &mut laboratory);
    let asked = &laboratory.asked;
    let bulk = |asked: &Asked| match asked {
        Asked::Run(config) if config.mode == Mode::Bulk && !config.sync_sampling => {
            Some((config.processors, (config.connections, config.presentation)))
        }
        _ => None,
    };
    let mut shared = 0;
    for (index, question) in asked.iter().enumerate() {
        let Some((processors, load)) = bulk(question).filter(|(processors, _)| *processors > 1)
        else {
            continue;
        };
        assert_eq!(asked[index - 1], Asked::Ceiling(processors, load));
        assert_eq!(asked[index - 2], Asked::Latency(0, processors - 1));
        assert_eq!(asked[index + 1], Asked::Latency(0, processors - 1));
        assert_eq!(asked[index + 2], Asked::Ceiling(processors, load));
        shared += usize::from(asked.get(index + 3).and_then(bulk) == Some((processors, load)));
    }
    let probes = asked
        .iter()
        .filter(|asked| matches!(asked, Asked::Ceiling(..)));
    assert!(shared > 0, "neighbours share a probe");
    assert_eq!(probes.count(), 2 * 32 * 5 - shared);
}

#[test]
fn what_the_machine_moved_under_is_measured_again_and_kept() {
    let mut laboratory = Planted::new(2);
    // The first probe reads 200 ns, all others 65: the first repetition on two processors is not settled.
    laboratory.latencies.push_back(200.0);
    let report = measured(&two_processors(), &mut laboratory);
    let again: Vec<&Run> = (report.runs.iter())
        .filter(|run| run.repetitions.len() > 5)
        .collect();
    assert_eq!(again.len(), 1);
    let run = again[0];
    assert_eq!((run.repetitions.len(), run.counted_repetitions), (6, 5));
    assert_eq!(run.repetitions.iter().filter(|one| !one.settled).count(), 1);
    assert!(run.settled);
    assert_eq!(run.latency_probe_ns, Some(65.0));
}

#[test]
fn a_machine_that_never_settles_is_given_up_on_and_said_so() {
    let mut laboratory = Planted::new(2);
    laboratory.latencies = [65.0, 27.0].into_iter().cycle().take(10_000).collect();
    let report = measured(&two_processors(), &mut laboratory);
    for run in report.runs.iter().filter(|run| run.processors == 2) {
        assert_eq!((run.repetitions.len(), run.counted_repetitions), (8, 8));
        assert!(!run.settled);
    }
    let text = table(&report);
    assert!(text.contains("~80.0"), "{text}");
    assert!(text.contains("\n~  "), "{text}");
}

#[test]
fn the_budget_ends_what_is_measured_again_but_not_what_was_planned() {
    let mut laboratory = Planted::new(2);
    laboratory.latencies = [65.0, 27.0].into_iter().cycle().take(10_000).collect();
    let config = CompareConfig {
        budget: Duration::from_millis(1),
        ..two_processors()
    };
    let report = measured(&config, &mut laboratory);
    assert!(report.runs.iter().all(|run| run.repetitions.len() == 5));
}

#[test]
fn speed_up_needs_a_base() {
    let mut laboratory = Planted::new(2);
    let report = measured(&two_processors(), &mut laboratory);
    for run in &report.runs {
        let (speedup, ceiling) = match run.processors {
            1 => (1.0, 1.0),
            _ => (2.0, 1.95),
        };
        assert_eq!((run.speedup, run.ceiling), (Some(speedup), Some(ceiling)));
        assert_eq!(run.efficiency, Some(1.0));
        assert_eq!(run.p50_ns, Some(1000 * run.processors as u64));
        assert_eq!(run.sync_ns_per_message, Some(7.5));
        assert_eq!((run.messages, run.voluntary_switches), (100_000, 200));
        assert_eq!(run.payload_hash, "0000000000000b1d");
    }
    let config = CompareConfig {
        processors: vec![2],
        ..two_processors()
    };
    let report = measured(&config, &mut laboratory);
    for run in &report.runs {
        assert_eq!(
            (run.speedup, run.ceiling, run.efficiency),
            (None, None, None)
        );
        assert_eq!(run.latency_probe_ns, Some(65.0));
    }
}

#[test]
fn architectures_that_deliver_different_bytes_are_a_fault() {
    let mut laboratory = Planted::new(2);
    laboratory.hash = |config| u64::from(config.processors == 2 && config.connections == 20);
    let error = compare_with(&two_processors(), machine(), &mut laboratory, &mut ())
        .expect_err("one load has two hashes");
    assert!(
        matches!(error, CompareError::Disagreement { .. }),
        "{error}"
    );
    assert!(!error.is_usage());
    // Loads may differ from each other.
    laboratory.hash = |config| config.connections as u64;
    measured(&two_processors(), &mut laboratory);
}

#[test]
fn the_json_has_every_key_that_was_promised() {
    let report = measured(&two_processors(), &mut Planted::new(2));
    let json = serde_json::to_value(&report).expect("plain figures");
    let keys: Vec<&String> = json.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["advice", "machine", "runs"]);
    // Nothing is locked under `task`, and connections are under `message`.
    let lock = |index: usize| json["runs"][index]["lock"].as_str();
    assert_eq!((lock(0), lock(4)), (None, Some("adaptive")));
    let run = &json["runs"][1];
    for key in [
        "architecture",
        "processors",
        "connections",
        "transport",
        "presentation",
        "message_bytes",
        "warmup_messages",
        "least_messages",
        "fill_ns",
        "messages",
        "mtu",
        "window_bytes",
        "checksum",
        "pin",
        "congestion",
        "tcp_locks",
        "order",
        "order_above",
        "device_queues",
        "batch",
        "throughput_gbps",
        "cpu_ns_per_message",
        "user_ms",
        "system_ms",
        "speedup",
        "ceiling",
        "latency_probe_ns",
        "efficiency",
        "order_free_share",
        "voluntary_switches",
        "involuntary_switches",
        "sync_ns_per_message",
        "out_of_order_percent",
        "direction",
        "mode",
        "p50_ns",
        "p99_ns",
        "repetitions",
    ] {
        assert!(!run[key].is_null(), "{key}");
    }
    for key in ["median", "min", "max", "mean", "ci90"] {
        assert!(run["throughput_gbps"][key].is_number(), "{key}");
    }
    assert!(run["repetitions"][0]["probe_before"]["latency_ns"].is_number());
    assert_eq!(json["machine"]["command_line"], "braidnet compare");
    let alone = CompareConfig {
        processors: vec![2],
        ..two_processors()
    };
    let json = serde_json::to_value(measured(&alone, &mut Planted::new(2))).expect("figures");
    for key in ["speedup", "efficiency", "ceiling"] {
        assert!(json["runs"][0][key].is_null(), "{key}");
    }
}

#[test]
fn the_table_fits_its_width_and_shows_every_cell() {
    let mut report = measured(&two_processors(), &mut Planted::new(2));
    for run in &mut report.runs {
        run.throughput_gbps.median = 1234.5;
        run.throughput_gbps.ci90 = Some(123.4);
        run.settled = false;
        run.cpu_ns_per_message = 12_345.0;
        run.voluntary_switches = 123_456;
        run.sync_ns_per_message = Some(1234.0);
        run.out_of_order_percent = 100.0;
        run.p99_ns = Some(9_999_000);
    }
    let text = table(&report);
    for line in text.lines() {
        assert!(line.chars().count() <= table::MOST_COLUMNS, "{line}");
    }
    let rows = |name: &str| {
        text.lines()
            .filter(|line| line.starts_with(&format!("{name} ")))
            .count()
    };
    assert_eq!(Architecture::UNDIVIDED.map(|one| rows(one.name())), [8; 4]);
    for title in [
        "1 connection, no presentation",
        "20 connections, presentation xdr",
    ] {
        let titles = text.lines().filter(|line| *line == title);
        assert_eq!(titles.count(), 1, "{title}");
    }
    for sentence in &report.advice {
        let joined = text.replace('\n', " ");
        assert!(joined.contains(sentence.as_str()), "{sentence}");
    }
}

/// Sets one knob.
type Set = fn(&mut TtcpConfig);

/// A heading that hides a knob lets figures be compared that cannot be.
#[test]
fn every_knob_that_was_set_is_named() {
    let usual = two_processors();
    let without = table(&measured(&usual, &mut Planted::new(2)));
    let rows: [(&str, Set); 11] = [
        (", lock mcs,", |base| base.lock = LockKind::Mcs),
        (", perimeters delegated,", |base| {
            base.perimeter = Perimeter::Delegated;
        }),
        (", order numbered,", |base| base.order = Order::Numbered),
        (", counts atomic,", |base| base.counts = Counts::Atomic),
        (", caches off,", |base| base.caches = false),
        (", one-behind off,", |base| base.one_behind = false),
        (", congestion new-reno,", |base| {
            base.congestion = CongestionControl::NewReno;
        }),
        (", a task for each processor on 2 threads, waits", |base| {
            base.agents = Agents::Tasks;
            base.threads = Some(2);
        }),
        (", a thread for each processor, pinned,", |base| {
            base.pin = true;
        }),
        (", waits sleep", |base| base.wait = Wait::Sleep),
        (", checksums off,", |base| base.checksum = false),
    ];
    for (words, set) in rows {
        let mut config = usual.clone();
        set(&mut config.base);
        let report = measured(&config, &mut Planted::new(2));
        for text in [table(&report), by_connections(&report)] {
            assert!(text.replace('\n', " ").contains(words), "{words}: {text}");
        }
        assert!(!without.replace('\n', " ").contains(words), "{words}");
        let one = TtcpConfig {
            architecture: Architecture::Message,
            ..config.base
        };
        let run = single(&mut Planted::new(2), &one, false).expect("everything is planted");
        let text = describe(&run).replace('\n', ", ");
        assert!(text.contains(words), "{words}: {text}");
    }
    // Round trips, which a comparison has too, have no use for this one.
    let above = TtcpConfig {
        order_above: OrderAbove::Numbered,
        ..TtcpConfig::default()
    };
    let run = single(&mut Planted::new(1), &above, false).expect("everything is planted");
    assert_eq!(run.order_above, "numbered");
    assert!(describe(&run).contains(", order above numbered,"));
    let locks = |perimeter| {
        let config = TtcpConfig {
            architecture: Architecture::Message,
            perimeter,
            ..TtcpConfig::default()
        };
        let run = single(&mut Planted::new(2), &config, false).expect("everything is planted");
        describe(&run).contains(", lock ")
    };
    assert!(locks(Perimeter::Locked) && !locks(Perimeter::Delegated));
}

/// On 96 processors, where `braid` cannot be.
#[test]
fn what_is_left_out_is_told_of_and_the_rest_measured() {
    let config = CompareConfig {
        processors: vec![1, 96],
        ..CompareConfig::default()
    };
    let report = measured(&config, &mut Planted::new(96));
    assert_eq!(
        report.runs.len(),
        4 * (2 * Architecture::UNDIVIDED.len() - 1)
    );
    let last = report.advice.last().map(String::as_str).unwrap_or_default();
    assert!(
        last.starts_with("`braid` on 96 processors is left out: "),
        "{last}"
    );
}

#[test]
fn work_is_done_in_every_cell_and_told_of() {
    let mut laboratory = Planted::new(2);
    let mut config = two_processors();
    config.base.work = Duration::from_micros(20);
    config.architectures = CompareConfig::comparable(&config.base).to_vec();
    let report = measured(&config, &mut laboratory);
    for asked in laboratory.runs() {
        let none = asked.mode == Mode::Echo;
        let work = if none { 0 } else { 20 };
        assert_eq!(asked.work, Duration::from_micros(work), "{asked:?}");
    }
    assert!(report.runs.iter().all(|run| run.work_ns == 20_000));
    for run in &report.runs {
        assert_eq!(run.p50_ns.is_none(), run.architecture == "function");
    }
    for text in [table(&report), by_connections(&report)] {
        assert!(
            text.contains("4 KiB messages with 20 µs of work each over TCP"),
            "{text}"
        );
        assert!(text.contains("`function`") && !text.contains("Left out"));
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(table::MOST_COLUMNS), "{text}");
    }
    assert!(table(&report).contains("\nwork  "));
    let without = table(&measured(&two_processors(), &mut laboratory));
    assert!(!without.contains("\nwork  "), "{without}");
    let sentence =
        "\nLeft out: `function`, under which processors share in the work on one message.";
    assert_eq!(without.matches(sentence).count(), 1, "{without}");
}

#[test]
fn a_sweep_says_how_braid_stands_beside_few_and_many() {
    let report = measured(&CompareConfig::sweep(2), &mut Planted::new(2));
    assert_eq!(report.runs.len(), 80);
    let starts = [
        "For few connections (1) on 2 processors there",
        "For many connections (20) on 2 processors there",
        "`braid` nowhere falls below 0.93",
        "For all of these loads choose",
    ];
    assert_eq!(report.advice.len(), starts.len());
    for (sentence, start) in report.advice.iter().zip(starts) {
        assert!(sentence.starts_with(start), "{sentence}");
    }
    let text = by_connections(&report);
    let joined = text.replace('\n', " ");
    for sentence in &report.advice {
        assert!(joined.contains(sentence.as_str()), "{sentence}");
    }
}

#[test]
fn one_measurement_has_the_fields_of_a_run() {
    let mut laboratory = Planted::new(2);
    let config = TtcpConfig {
        connections: 20,
        presentation: Presentation::Xdr,
        ..TtcpConfig::default()
    };
    let run = single(&mut laboratory, &config, false).expect("everything is planted");
    assert_eq!(
        (run.speedup, run.ceiling, run.sync_ns_per_message),
        (None, None, None)
    );
    assert_eq!(run.throughput_gbps.median, 40.0);
    let text = describe(&run);
    assert!(text.starts_with("connection on 1 processor, 20 connections: 4 KiB messages over TCP, receive, presentation xdr, bulk\n"), "{text}");
    assert!(text.contains("40.0 Gbit/s, 66,667 messages/s"), "{text}");
    let sampled = single(&mut laboratory, &config, true).expect("everything is planted");
    assert_eq!(sampled.sync_ns_per_message, Some(7.5));
    let text = describe(&sampled);
    for figures in [
        ["connection", "50.0", "10.0", "7.50", "300"],
        ["delegation", "500", "125", "10.0", "200"],
    ] {
        let row = (text.lines())
            .find(|line| line.starts_with(&format!("    {}", figures[0])))
            .expect("a row for the class");
        assert_eq!(row.split_whitespace().collect::<Vec<_>>(), figures);
    }
    let what =
        "delegation      25.0 % of entries found somebody inside, what they left waited 0.80 µs";
    assert!(text.contains(what), "{text}");
    let echo = TtcpConfig {
        mode: Mode::Echo,
        ..TtcpConfig::default()
    };
    let text = describe(&single(&mut laboratory, &echo, false).expect("everything is planted"));
    assert!(
        text.contains("1.00 µs p50, 3.00 µs p99, 9.00 µs p99.9"),
        "{text}"
    );
}
