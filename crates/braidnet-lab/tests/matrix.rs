//! Every architecture, transport, presentation and direction, at smoke size: every byte arrives, and is the same byte whoever
//! carried it.

use braidnet_lab::{
    Agents, Counts, Direction, Mode, Order, OrderAbove, Perimeter, Place, Presentation, RunResult,
    Span, Transport, TtcpConfig, Wait, run,
};
use braidnet_process::Architecture;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Enough for every connection to pass through its window several times.
fn smoke() -> TtcpConfig {
    TtcpConfig {
        connections: 3,
        messages: 3_000,
        warmup: 500,
        window_bytes: 64 << 10,
        min_duration: Duration::from_millis(1),
        ..TtcpConfig::default()
    }
}

/// The architectures under which this can be measured: all, but `function` where there is no work to divide.
fn architectures(config: &TtcpConfig) -> impl Iterator<Item = Architecture> {
    let of = |architecture| TtcpConfig {
        architecture,
        ..config.clone()
    };
    let can_be = move |architecture: &Architecture| of(*architecture).validate().is_ok();
    Architecture::ALL.into_iter().filter(can_be)
}

fn count(result: &RunResult, name: &str) -> u64 {
    result
        .counters
        .iter()
        .filter(|(counter, _)| counter.ends_with(name))
        .map(|(_, value)| value)
        .sum()
}

/// Runs every architecture on one and on more processors and compares what was received.
fn same_bytes(config: &TtcpConfig) {
    let mut hashes = BTreeMap::new();
    for architecture in architectures(config) {
        for (processors, device_queues) in [(1, 1), (2, 1), (3, 1), (2, 2)] {
            let config = TtcpConfig {
                architecture,
                processors,
                device_queues,
                ..config.clone()
            };
            if device_queues > config.takers() {
                continue;
            }
            let what = format!("{architecture} on {processors}, {config:?}");
            let result = run(&config).unwrap_or_else(|error| panic!("{what}: {error}"));
            assert!(result.messages >= config.messages, "{what}");
            assert_eq!(result.bytes, result.messages * config.size as u64);
            assert!(
                result.throughput_gbps > 0.0 && result.cpu_ns_per_message > 0.0,
                "{what}"
            );
            for fault in [
                ".disorder",
                ".lost",
                ".unframed",
                ".undecoded",
                "bad_checksum",
                "tcp_checksum_wrong",
                "tcp_truncated",
                "no_buffer",
            ] {
                assert_eq!(
                    count(&result, fault),
                    0,
                    "{fault} of {what}: {:?}",
                    result.counters
                );
            }
            hashes
                .entry(result.payload_hash)
                .or_insert_with(Vec::new)
                .push(what);
        }
    }
    assert_eq!(hashes.len(), 1, "{hashes:#?}");
}

fn every_load(transport: Transport, presentation: Presentation) {
    for direction in Direction::ALL {
        same_bytes(&TtcpConfig {
            transport,
            presentation,
            direction: *direction,
            ..smoke()
        });
    }
}

#[test]
fn raw_streams() {
    every_load(Transport::Tcp, Presentation::None);
}

#[test]
fn records() {
    every_load(Transport::Tcp, Presentation::Xdr);
}

#[test]
fn raw_datagrams() {
    every_load(Transport::Udp, Presentation::None);
}

#[test]
fn datagrams_of_samples() {
    every_load(Transport::Udp, Presentation::Xdr);
}

#[test]
fn odd_sizes_and_small_packets() {
    for (size, mtu, presentation) in [
        (4097, 1501, Presentation::None),
        (9_000, 576, Presentation::Xdr),
    ] {
        for direction in Direction::ALL {
            same_bytes(&TtcpConfig {
                size,
                mtu,
                presentation,
                direction: *direction,
                messages: 500,
                ..smoke()
            });
        }
    }
}

#[test]
fn checksums_left_to_the_device() {
    for transport in Transport::ALL {
        for direction in Direction::ALL {
            same_bytes(&TtcpConfig {
                transport: *transport,
                direction: *direction,
                checksum: false,
                messages: 1_000,
                ..smoke()
            });
        }
    }
}

#[test]
fn one_connection_has_its_share_whoever_is_served_faster() {
    for (transport, presentation) in [
        (Transport::Tcp, Presentation::None),
        (Transport::Tcp, Presentation::Xdr),
        (Transport::Udp, Presentation::None),
    ] {
        for share in ["0.8", "0.1"] {
            let config = TtcpConfig {
                transport,
                presentation,
                connections: 5,
                skew: Some(share.parse().unwrap()),
                ..smoke()
            };
            same_bytes(&config);
            for architecture in Architecture::UNDIVIDED {
                let config = TtcpConfig {
                    architecture,
                    processors: 2,
                    messages: 20_000,
                    ..config.clone()
                };
                let result = run(&config).unwrap();
                let favoured = count(&result, "far.favoured") as f64;
                let found = favoured / count(&result, "far.made") as f64;
                let wanted = config.skew.unwrap().value();
                assert!((found - wanted).abs() < 0.02, "{found} under {config:?}");
            }
        }
    }
}

/// Held packets go on under every architecture, and what is lost is sent again.
#[test]
fn over_a_bad_wire_every_byte_arrives() {
    let (there, back) = (
        "loss=1%,duplicate=1%,corrupt=1%,reorder=5%:200us,delay=100us,seed=3",
        "loss=1%,delay=100us,seed=3",
    );
    for architecture in Architecture::UNDIVIDED {
        for (mode, messages) in [(Mode::Bulk, 600), (Mode::Echo, 30)] {
            let config = TtcpConfig {
                architecture,
                processors: 2,
                direction: Direction::Both,
                mode,
                messages,
                warmup: 20,
                impair: Some(Box::new((there.parse().unwrap(), back.parse().unwrap()))),
                ..smoke()
            };
            let result = run(&config).unwrap();
            assert!(result.messages >= messages);
            assert_eq!(result.bytes, result.messages * config.size as u64);
            assert_eq!(count(&result, ".disorder") + count(&result, ".lost"), 0);
            if mode == Mode::Bulk {
                assert!(count(&result, ".retransmitted") > 0, "{architecture}");
                assert!(count(&result, "tcp_checksum_wrong") > 0, "{architecture}");
            }
        }
    }
}

#[test]
fn state_lies_wherever_it_was_asked_for() {
    for presentation in Presentation::ALL {
        for transport in Transport::ALL {
            same_bytes(&TtcpConfig {
                presentation: *presentation,
                transport: *transport,
                direction: Direction::Both,
                state: Place::Apart,
                ..smoke()
            });
        }
    }
}

#[test]
fn every_span_of_a_perimeter_carries_the_same_bytes() {
    for presentation in Presentation::ALL {
        for direction in Direction::ALL {
            let mut hashes = BTreeSet::new();
            for (span, perimeter) in spans() {
                for (processors, device_queues, batch) in
                    [(1, 1, 64), (2, 1, 1), (3, 1, 64), (2, 2, 64)]
                {
                    let config = TtcpConfig {
                        architecture: Architecture::Message,
                        presentation: *presentation,
                        direction: *direction,
                        span,
                        perimeter,
                        processors,
                        device_queues,
                        batch,
                        ..smoke()
                    };
                    let result = run(&config).unwrap_or_else(|error| panic!("{config:?}: {error}"));
                    for fault in [".disorder", ".lost", ".unframed", ".undecoded"] {
                        assert_eq!(count(&result, fault), 0, "{fault} under {config:?}");
                    }
                    hashes.insert(result.payload_hash);
                }
            }
            assert_eq!(hashes.len(), 1, "{presentation}, {direction}");
        }
    }
}

fn spans() -> impl Iterator<Item = (Span, Perimeter)> {
    let perimeters = |span: &Span| {
        Perimeter::ALL
            .iter()
            .map(|way| (*span, *way))
            .collect::<Vec<_>>()
    };
    Span::ALL.iter().flat_map(perimeters)
}

/// By counters, again.
#[test]
fn buffers_and_look_ups_go_the_way_that_was_asked_for() {
    let base = TtcpConfig {
        presentation: Presentation::Xdr,
        messages: 1_000,
        ..smoke()
    };
    for counts in Counts::ALL {
        for (caches, one_behind) in [(true, true), (true, false), (false, true)] {
            let config = TtcpConfig {
                counts: *counts,
                caches,
                one_behind,
                ..base.clone()
            };
            same_bytes(&config);
            for architecture in Architecture::UNDIVIDED {
                let config = TtcpConfig {
                    architecture,
                    processors: 2,
                    ..config.clone()
                };
                let result = run(&config).unwrap();
                let some = |name, wanted: bool| {
                    let found = count(&result, name);
                    assert_eq!(found >= 100, wanted, "{found} {name} under {config:?}");
                };
                some("tcp.references", *counts != Counts::Lean);
                some("records.references", *counts != Counts::Lean);
                some("buffers.from_store", !caches);
                some("tcp.walks", !one_behind);
            }
        }
    }
}

/// Processors that share one queue take from it in turn, and do not reach TCP in that order unless it is kept.
#[test]
fn numbers_from_the_device_bring_tcp_nothing_out_of_order() {
    let config = |perimeter, order| TtcpConfig {
        architecture: Architecture::Message,
        processors: 3,
        connections: 1,
        perimeter,
        order,
        batch: 4,
        ..smoke()
    };
    for perimeter in Perimeter::ALL {
        for order in Order::ALL {
            let result = run(&config(*perimeter, *order)).unwrap();
            assert_eq!(count(&result, ".disorder"), 0, "{perimeter} {order}");
            // What is missing for too long is passed over, but not by who waits for it.
            if *order == Order::Waiting {
                assert_eq!(count(&result, "tcp.out_of_order"), 0, "{perimeter}");
            }
        }
    }
}

/// An application above the order-free work gets what TCP handed up in that order, unless it has declined it.
#[test]
fn order_reaches_an_application_above_the_order_free_work() {
    for presentation in Presentation::ALL {
        for order_above in [
            OrderAbove::Numbered,
            OrderAbove::Waiting,
            OrderAbove::Declined,
        ] {
            let config = TtcpConfig {
                presentation: *presentation,
                order_above,
                work: Duration::from_micros(1),
                batch: 4,
                messages: 1_000,
                ..smoke()
            };
            same_bytes(&config);
            for (architecture, perimeter) in [
                (Architecture::Message, Perimeter::Locked),
                (Architecture::Message, Perimeter::Delegated),
                (Architecture::Braid, Perimeter::Locked),
            ] {
                let config = TtcpConfig {
                    architecture,
                    perimeter,
                    processors: 3,
                    ..config.clone()
                };
                let result = run(&config).unwrap_or_else(|error| panic!("{config:?}: {error}"));
                assert!(count(&result, "consumer.consumed") > 0, "{config:?}");
                if order_above != OrderAbove::Declined {
                    let overtaken = count(&result, "consumer.overtaken");
                    assert_eq!(overtaken, 0, "{config:?}");
                }
            }
        }
    }
}

/// By its own counters: how long it takes is the machine's affair.
#[test]
fn work_is_done_on_all_that_is_received() {
    for (transport, presentation) in [
        (Transport::Tcp, Presentation::None),
        (Transport::Tcp, Presentation::Xdr),
        (Transport::Udp, Presentation::Xdr),
    ] {
        for direction in [Direction::Receive, Direction::Both] {
            let config = TtcpConfig {
                transport,
                presentation,
                direction,
                messages: 1_000,
                work: Duration::from_micros(2),
                ..smoke()
            };
            same_bytes(&config);
            for architecture in Architecture::ALL {
                let config = TtcpConfig {
                    architecture,
                    processors: 2,
                    ..config.clone()
                };
                let result = run(&config).unwrap();
                let (worked, steps) = (count(&result, "work.bytes"), count(&result, "work.steps"));
                // The counters of one instant: a run may have been received and not worked on yet.
                assert!(worked >= result.bytes / 2, "{config:?} {worked}");
                assert!(steps * 16 >= worked / 64, "{config:?} {steps}");
            }
        }
    }
}

/// The bytes are the same whatever carries the work, however many of those there are, and however they wait.
#[test]
fn agents_of_every_kind() {
    let tasks = |threads| TtcpConfig {
        agents: Agents::Tasks,
        threads,
        ..smoke()
    };
    let each = |config| TtcpConfig {
        thread_per_connection: true,
        connections: 7,
        ..config
    };
    for direction in [Direction::Receive, Direction::Both] {
        let mut hashes = BTreeSet::new();
        for config in [smoke(), tasks(None), tasks(Some(1)), tasks(Some(3))] {
            for wait in Wait::ALL {
                for architecture in Architecture::UNDIVIDED {
                    let config = TtcpConfig {
                        architecture,
                        processors: 2,
                        direction,
                        wait: *wait,
                        ..config.clone()
                    };
                    let result = run(&config).unwrap_or_else(|error| panic!("{config:?}: {error}"));
                    hashes.insert(result.payload_hash);
                    assert!(result.cpu_ns_per_message > 0.0, "{config:?}");
                }
            }
        }
        assert_eq!(hashes.len(), 1, "{direction}");
        let mut hashes = BTreeSet::new();
        for config in [
            smoke(),
            each(smoke()),
            each(tasks(None)),
            each(tasks(Some(1))),
        ] {
            let config = TtcpConfig {
                connections: 7,
                processors: 2,
                direction,
                ..config
            };
            let result = run(&config).unwrap_or_else(|error| panic!("{config:?}: {error}"));
            hashes.insert(result.payload_hash);
            assert!(result.cpu_ns_per_message > 0.0, "{config:?}");
        }
        assert_eq!(hashes.len(), 1, "{direction}");
    }
}

/// As many as there can be, with windows as they are by default.
#[test]
fn memory_is_enough_for_as_many_agents_as_there_can_be() {
    let most = TtcpConfig {
        connections: 255,
        processors: 2,
        thread_per_connection: true,
        window_bytes: TtcpConfig::default().window_bytes,
        agents: Agents::Tasks,
        ..smoke()
    };
    let many = |architecture| TtcpConfig {
        architecture,
        processors: 64,
        connections: 64,
        thread_per_connection: false,
        ..most.clone()
    };
    let shared = [Architecture::Message, Architecture::Braid].map(many);
    for config in [most.clone()].into_iter().chain(shared) {
        let config = TtcpConfig {
            threads: Some(2),
            ..config
        };
        let result = run(&config).unwrap_or_else(|error| panic!("{config:?}: {error}"));
        assert_eq!(count(&result, "no_buffer"), 0, "{config:?}");
    }
}

/// With so much order-free work there is hardly anything else.
#[test]
fn order_free_functions_are_timed_when_asked_for() {
    let share = |work| {
        let config = TtcpConfig {
            architecture: Architecture::Message,
            processors: 2,
            messages: 1_000,
            work: Duration::from_micros(work),
            ..smoke()
        };
        assert_eq!(run(&config).unwrap().order_free_share, None);
        run(&config.alone()).unwrap().order_free_share.unwrap()
    };
    let (none, much) = (share(0), share(50));
    assert!(none > 0.0 && none < much, "{none} {much}");
    assert!(much > 0.8 && much < 1.0, "{much}");
}

#[test]
fn round_trips() {
    for transport in Transport::ALL {
        for architecture in Architecture::UNDIVIDED {
            for processors in [1, 2] {
                let config = TtcpConfig {
                    architecture,
                    processors,
                    transport: *transport,
                    mode: Mode::Echo,
                    size: 6_000.min(4_000 * (1 + usize::from(*transport == Transport::Tcp))),
                    messages: 300,
                    warmup: 20,
                    ..smoke()
                };
                let result = run(&config).unwrap_or_else(|error| panic!("{config:?}: {error}"));
                let times = result.rtt.unwrap();
                assert!(result.messages >= config.messages, "{config:?}");
                assert!(
                    times.p50_ns > 0
                        && times.p50_ns <= times.p99_ns
                        && times.p99_ns <= times.p999_ns
                );
                assert!(times.round_trips_per_second > 0.0);
            }
        }
    }
}

#[test]
fn waits_for_locks_are_timed_when_asked_for() {
    let config = TtcpConfig {
        architecture: Architecture::Message,
        processors: 2,
        sync_sampling: true,
        ..smoke()
    };
    let result = run(&config).unwrap();
    assert!(result.sync_ns_per_message > 0.0);
    let connection = result.locks_per_message["connection"];
    assert!(connection.acquisitions > 0.0 && connection.held_ns > 0.0);
    assert!(connection.contended <= connection.acquisitions);
    let waited: f64 = (result.locks_per_message.values())
        .map(|cost| cost.waited_ns)
        .sum();
    assert!((waited - result.sync_ns_per_message).abs() <= 0.001 * waited);
    let config = TtcpConfig {
        sync_sampling: false,
        ..config
    };
    let result = run(&config).unwrap();
    assert_eq!(result.sync_ns_per_message, 0.0);
    assert!(result.locks_per_message.is_empty());
}

#[test]
fn entries_by_delegation_are_timed_when_asked_for() {
    let config = TtcpConfig {
        architecture: Architecture::Message,
        perimeter: Perimeter::Delegated,
        processors: 2,
        sync_sampling: true,
        ..smoke()
    };
    let result = run(&config).unwrap();
    let cost = result.delegation_per_message.expect("entries");
    assert!(cost.entries > 0.0 && cost.entering_ns > 0.0 && cost.inside_ns > 0.0);
    assert!(cost.left <= cost.entries && (cost.left > 0.0 || cost.deferred_ns == 0.0));
    assert!(!result.locks_per_message.contains_key("connection"));
    let waited: f64 = (result.locks_per_message.values())
        .map(|cost| cost.waited_ns)
        .sum();
    let sync = waited + cost.entering_ns;
    assert!((sync - result.sync_ns_per_message).abs() <= 0.001 * sync);
    for (perimeter, sync_sampling) in [(Perimeter::Delegated, false), (Perimeter::Locked, true)] {
        let config = TtcpConfig {
            perimeter,
            sync_sampling,
            ..config.clone()
        };
        assert_eq!(run(&config).unwrap().delegation_per_message, None);
    }
}
