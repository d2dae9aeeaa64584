//! The command as a person and a script meet it: what it prints, and how it ends.

use serde_json::Value;
use std::fs;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Measurements too small to mean anything, but whole: every layer, every byte.
const SMOKE: [&str; 6] = ["--messages", "200", "--warmup", "50", "--fill", "1ms"];

fn braidnet(arguments: &[&str]) -> Output {
    command(arguments).output().expect("the program starts")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_braidnet"));
    command.args(arguments);
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("text")
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).expect("text")
}

/// What a command that must succeed prints. In a pipe it says nothing beside its answer.
fn answer(arguments: &[&str]) -> String {
    let output = braidnet(arguments);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{arguments:?}: {}",
        stderr(&output)
    );
    assert_eq!(stderr(&output), "", "{arguments:?}");
    stdout(&output)
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&answer(arguments)).expect("JSON")
}

#[test]
fn help_teaches() {
    let rows: [(&[&str], &[&str]); 4] = [
        (
            &["--help"],
            &["The first thing to run: braidnet compare", "ttcp", "serve"],
        ),
        (
            &["compare", "--help"],
            &[
                "--grid",
                "figure 7]",
                "--perimeters",
                "--waits",
                "--work",
                "--processors <LIST>",
                "--connections <LIST>",
                "--lock <NAME>",
                "--json",
                "[PLP §4.3]",
                "Examples:",
            ],
        ),
        (
            &["ttcp", "--help"],
            &[
                "--architecture",
                "--processors",
                "--connections",
                "--transport",
                "--messages",
                "--warmup",
                "--size",
                "--mtu",
                "--window",
                "--checksum",
                "--presentation",
                "--direction",
                "--mode",
                "--lock",
                "--tcp-locks",
                "[PLP §5.1]",
                "--span <NAME>",
                "--batch",
                "--device-queues",
                "--agents",
                "--threads",
                "--thread-per-connection",
                "--wait",
                "[CP/MP §3.1, ASX §2.1]",
                "[ASX §2.6.1]",
                "--work <TIME>",
                "--skew <SHARE>",
                "--impair <WORD=VALUE,...>",
                "--impair-back <WORD=VALUE,...>",
                "--counts <NAME>",
                "--caches <on|off>",
                "--one-behind <on|off>",
                "[PLP §5.2]",
                "[PLP §6, CP/MP §3.3.2]",
                "--state <NAME>",
                "--pin",
                "--json",
                "[default: 4352]",
                "[default: 1M]",
                "[CP/MP §3.3, ASX §3.3; function: PPF §3.2]",
                "Examples:",
            ],
        ),
        (&["serve", "--help"], &["--tun"]),
    ];
    for (arguments, parts) in rows {
        // However wide the terminal is that it was wrapped for.
        let text = answer(arguments);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in parts {
            assert!(text.contains(part), "{arguments:?} lacks {part}:\n{text}");
        }
    }
    assert!(answer(&["--version"]).starts_with("braidnet "));
}

/// A knob is there because a paper measured it, or says what the papers left open.
#[test]
fn every_knob_of_a_measurement_names_its_section() {
    let help = answer(&["ttcp", "--help"]);
    let knobs: Vec<&str> = help.split("\n      --").skip(1).collect();
    assert!(knobs.len() >= 25, "{help}");
    for knob in knobs {
        // However wide the terminal is that it was wrapped for.
        let knob = knob.split_whitespace().collect::<Vec<_>>().join(" ");
        let name = knob.split_whitespace().next().unwrap_or_default();
        let cites = ["[CP/MP §", "[PLP §", "[PPF §", "[DEMUX §", "[ASX §"];
        let names_one = cites.iter().any(|cite| knob.contains(cite));
        assert!(names_one || name == "json", "--{knob}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_a_sentence_and_2() {
    let rows: [(&[&str], &str); 26] = [
        (&[], "Usage: braidnet"),
        (&["compere"], "unrecognized subcommand 'compere'"),
        (&["ttcp", "--fast"], "unexpected argument '--fast'"),
        (
            &["ttcp", "--architecture", "both"],
            "[possible values: task, connection, message, braid, function]",
        ),
        (
            &["ttcp", "--lock", "bakery"],
            "[possible values: adaptive, tas, ticket, mcs]",
        ),
        (
            &["ttcp", "--congestion", "newreno"],
            "[possible values: cubic, new-reno, bbr]",
        ),
        (
            &["serve", "--congestion", "newreno"],
            "[possible values: cubic, new-reno, bbr]",
        ),
        (&["ttcp", "--checksum", "maybe"], "invalid value 'maybe'"),
        (&["ttcp", "--size", "4Q"], "no unit is called `Q`"),
        (
            &["ttcp", "--window", "8G"],
            "8G is more than can be counted here",
        ),
        (
            &["ttcp", "--fill", "3"],
            "a unit is missing: write for example 2us, 300ms or 2s",
        ),
        (
            &["ttcp", "--connections", "0"],
            "braidnet: connections cannot be 0: from 1 to 10000",
        ),
        (
            &["ttcp", "--mtu", "64K"],
            "braidnet: the MTU cannot be 65536",
        ),
        (
            &["ttcp", "--transport", "udp", "--size", "8K"],
            "braidnet: a UDP message of 8192 bytes does not fit into a packet of 4352",
        ),
        (
            &["ttcp", "--device-queues", "2"],
            "braidnet: 2 device queues for 1 processor",
        ),
        (
            &["ttcp", "--tcp-locks", "2", "--architecture", "task"],
            "braidnet: TCP locks `2` divide a connection's lock, and under task there is none",
        ),
        (
            &["ttcp", "--architecture", "function"],
            "braidnet: under function processors share in the work on one message: it needs work that can be divided",
        ),
        (
            &["compare", "--architecture", "function"],
            "braidnet: function on 1 processor, 1 connection: under function processors share in the work",
        ),
        (
            &["ttcp", "--perimeter", "delegated"],
            "braidnet: delegated perimeters can be chosen where",
        ),
        (
            &["ttcp", "--architecture", "braid", "--order", "waiting"],
            "under braid that is not so: choose message",
        ),
        (
            &["ttcp", "--lock", "mcs"],
            "braidnet: lock mcs has nothing to lock under connection",
        ),
        (
            &["ttcp", "--architecture", "braid", "--processors", "66"],
            "braidnet: braid shares work among 65 processors at most",
        ),
        (&["compare", "--processors", "1,x"], "invalid value 'x'"),
        (
            &["compare", "--processors", "100000"],
            "braidnet: 100000 processors cannot be compared here",
        ),
        (
            &["compare", "--repetitions", "1"],
            "braidnet: 1 repetitions are too few",
        ),
        (
            &["compare", "--connections", "1,0"],
            "braidnet: task on 1 processor, 0 connections: connections cannot be 0",
        ),
    ];
    for (arguments, sentence) in rows {
        let output = braidnet(arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(sentence), "{arguments:?}: {said}");
        assert_eq!(stdout(&output), "", "{arguments:?}");
    }
}

#[test]
fn ttcp_measures_every_architecture_both_ways() {
    let mut hashes = Vec::new();
    for architecture in ["task", "connection", "message", "braid"] {
        for direction in ["receive", "send", "both"] {
            let knobs = [
                "ttcp",
                "--json",
                "--architecture",
                architecture,
                "--direction",
                direction,
            ];
            let run = json(&[&knobs[..], &SMOKE].concat());
            assert_eq!(run["architecture"], architecture);
            assert_eq!(run["direction"], direction);
            assert_eq!(run["window_bytes"], 1 << 20);
            assert!(run["messages"].as_u64().expect("a count") >= 200, "{run}");
            assert!(run["throughput_gbps"]["median"].as_f64().expect("a figure") > 0.0);
            assert!(run["speedup"].is_null() && run["p50_ns"].is_null());
            if direction == "receive" {
                hashes.push(run["payload_hash"].clone());
            }
        }
    }
    assert_eq!(
        (&hashes[0], &hashes[0], &hashes[0]),
        (&hashes[1], &hashes[2], &hashes[3]),
        "the same bytes"
    );
}

#[test]
fn ttcp_prints_what_a_person_can_read() {
    let text = answer(&[&["ttcp", "--presentation", "xdr"], &SMOKE[..]].concat());
    for part in [
        "connection on 1 processor",
        "throughput",
        "Gbit/s",
        "ns/message",
        "payload hash",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let echo = json(
        &[
            &["ttcp", "--mode", "echo", "--size", "1", "--json"],
            &SMOKE[..],
        ]
        .concat(),
    );
    for key in ["p50_ns", "p99_ns", "p999_ns", "round_trips_per_second"] {
        assert!(echo[key].as_f64().expect(key) > 0.0, "{echo}");
    }
}

/// What is printed is what was done: the class of a connection's lock is metered only where it is taken, delegation only where it is.
#[test]
fn ttcp_enters_connections_as_it_was_told_to_and_says_so() {
    let rows = [
        ("locked", "none", "lock mcs"),
        ("locked", "numbered", "lock mcs, order numbered"),
        (
            "delegated",
            "waiting",
            "perimeters delegated, order waiting",
        ),
    ];
    for (perimeter, order, words) in rows {
        let lock = if perimeter == "locked" {
            "mcs"
        } else {
            "adaptive"
        };
        let knobs = format!(
            "ttcp --sync --architecture message --processors 2 --perimeter {perimeter} --order {order} --lock {lock}"
        );
        let knobs: Vec<&str> = knobs.split_whitespace().collect();
        let text = answer(&[&knobs[..], &SMOKE].concat());
        assert!(text.contains(words), "{text}");
        let run = json(&[&knobs[..], &["--json"], &SMOKE].concat());
        assert_eq!(
            (&run["perimeter"], &run["order"]),
            (&perimeter.into(), &order.into())
        );
        let is_locked = run["locks_per_message"]["connection"].is_object();
        assert_eq!(is_locked, perimeter == "locked", "{run}");
        assert_eq!(run["delegation_per_message"].is_null(), is_locked, "{run}");
        assert!(run["sync_ns_per_message"].is_number(), "{run}");
        assert_eq!(run["lock"].as_str(), is_locked.then_some("mcs"));
        if order == "waiting" {
            assert_eq!(run["out_of_order_percent"], 0.0);
        }
    }
}

#[test]
fn a_skewed_comparison_leaves_out_one_connection_and_says_so() {
    let narrowed = ["compare", "--skew", "0.8", "--architecture", "connection"];
    let more = ["--processors", "1", "--presentation", "none"];
    let text = answer(&[&narrowed[..], &more, &SMOKE].concat());
    assert!(text.contains("1 connection is left out"), "{text}");
    assert!(text.contains("20 connections, no presentation"), "{text}");
}

#[test]
fn the_grid_of_connections_is_announced_and_has_a_row_for_each() {
    let narrowed = [
        "compare",
        "--grid",
        "--connections",
        "1,2,3",
        "--architecture",
        "connection,message,braid",
        "--work",
        "1us",
    ];
    let output = braidnet(&[&narrowed[..], &SMOKE].concat());
    let (text, said) = (stdout(&output), stderr(&output));
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("9 cells: about "), "{said}");
    assert!(text.contains("with 1 µs of work each"), "{text}");
    let rows: Vec<&str> = (text.lines())
        .skip_while(|line| !line.starts_with("connections"))
        .take(4)
        .map(|line| line.split_whitespace().next().unwrap_or_default())
        .collect();
    assert_eq!(rows, ["connections", "1", "2", "3"], "{text}");
    assert!(text.contains("the better of `connection` and `message`"));
    let output = braidnet(&[&narrowed[..], &["--json"], &SMOKE].concat());
    let report: Value = serde_json::from_str(&stdout(&output)).expect("JSON");
    let runs = report["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 9);
    for run in runs {
        assert_eq!(
            (&run["presentation"], &run["work_ns"]),
            (&"none".into(), &1000.into())
        );
    }
}

/// What a knob does stands in one line, with the section of the paper that it comes from.
#[test]
fn every_knob_names_its_paper() {
    let help = answer(&["ttcp", "--help"]);
    let mut knobs = 0;
    for block in help.split("\n      --").skip(1) {
        let name = block.split_whitespace().next().unwrap_or_default();
        if ["json", "help"].contains(&name) {
            continue;
        }
        // Lines may break within a reference.
        let block = block.split_whitespace().collect::<Vec<_>>().join(" ");
        let papers = ["[PLP §", "[CP/MP §", "[ASX §", "[DEMUX §", "[PPF §"];
        assert!(papers.iter().any(|paper| block.contains(paper)), "{block}");
        knobs += 1;
    }
    assert!(knobs > 25, "{knobs}");
}

#[test]
fn trials_have_a_row_for_each_way() {
    let narrowed = ["compare", "--connections", "1,2", "--presentation", "none"];
    let report = json(&[&narrowed[..], &["--perimeters", "--json"], &SMOKE].concat());
    let runs = report["runs"].as_array().expect("runs");
    assert_eq!(runs.len() % 8, 0);
    for (run, perimeter) in runs.iter().zip(["locked", "delegated"].iter().cycle()) {
        assert_eq!(
            (&run["architecture"], &run["perimeter"]),
            (&"message".into(), &(*perimeter).into())
        );
    }
    let text = answer(&[&narrowed[..], &["--waits"], &SMOKE].concat());
    for architecture in ["task", "message"] {
        for wait in ["sleep", "spin", "spin-sleep"] {
            let row = format!("\n{architecture}, {wait} ");
            assert_eq!(text.matches(&row).count(), 2, "{text}");
        }
    }
    assert!(
        text.lines().all(|line| line.chars().count() <= 120),
        "{text}"
    );
    let refused = braidnet(&["compare", "--waits", "--grid"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn compare_reports_every_cell() {
    let grid = [
        "compare",
        "--processors",
        "1",
        "--connections",
        "1,3",
        "--size",
        "1K",
    ];
    let report = json(&[&grid[..], &["--json"], &SMOKE].concat());
    let keys: Vec<&String> = report.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["advice", "machine", "runs"]);
    for key in [
        "cpu_model",
        "allowed_processors",
        "kernel",
        "version",
        "date",
        "command_line",
    ] {
        assert!(!report["machine"][key].is_null(), "{key}");
    }
    let runs = report["runs"].as_array().expect("runs");
    assert_eq!(runs.len(), 4 * 2 * 2);
    for run in runs {
        for key in [
            "architecture",
            "processors",
            "connections",
            "transport",
            "presentation",
            "message_bytes",
            "messages",
            "mtu",
            "window_bytes",
            "checksum",
            "tcp_locks",
            "device_queues",
            "agents",
            "thread_per_connection",
            "wait",
            "batch",
            "cpu_ns_per_message",
            "user_ms",
            "system_ms",
            "speedup",
            "ceiling",
            "efficiency",
            "voluntary_switches",
            "involuntary_switches",
            "sync_ns_per_message",
            "locks_per_message",
            "out_of_order_percent",
            "direction",
            "mode",
            "p50_ns",
            "p99_ns",
        ] {
            assert!(!run[key].is_null(), "{key} of {run}");
        }
        for key in ["median", "min", "max", "mean", "ci90"] {
            assert!(run["throughput_gbps"][key].is_number(), "{key}");
        }
        assert!(
            run["latency_probe_ns"].is_null(),
            "one processor has nobody to talk to"
        );
        assert_eq!(run["message_bytes"], 1024);
        assert_eq!(run["repetitions"].as_array().expect("all").len(), 5);
    }
    let advice = report["advice"].as_array().expect("sentences");
    assert_eq!(
        advice.len(),
        3,
        "few and many connections, and all: {advice:?}"
    );
    let text = answer(&[&grid[..], &SMOKE].concat());
    assert!(text.contains("3 connections, presentation xdr"), "{text}");
    assert!(
        text.contains("For many connections (3) on 1 processor"),
        "{text}"
    );
}

#[test]
fn ctrl_c_ends_a_comparison_with_130() {
    let mut child = command(&["compare", "--processors", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    wait_until_interrupt_is_caught(&mut child);
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.expect("kill is there").success());
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(
        (stdout(&output), stderr(&output)),
        (String::new(), String::new())
    );
}

/// Looks at the kernel's list of caught signals until SIGINT is among them.
fn wait_until_interrupt_is_caught(child: &mut Child) {
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(20) {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        if caught.unwrap_or(0) & (1 << (2 - 1)) != 0 {
            return;
        }
        assert!(
            child.try_wait().expect("a child").is_none(),
            "it ended too early"
        );
        std::thread::yield_now();
    }
    panic!("SIGINT is not caught");
}
