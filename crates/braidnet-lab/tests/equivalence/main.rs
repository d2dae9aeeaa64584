//! The equivalence test: however the stack is turned, it does the same.
//!
//! The stack under test is `braidnet-process`'s workers over the modules of `braidnet-inet`, with services on top that
//! write down what they see. The far end is a reactive engine, a caller-turned [`braidnet::Stack`] on the other end of a
//! wire in memory, with a tap that writes down every packet.
//!
//! - **Turned by the test**, in virtual time, in an order drawn by a seed: every architecture and lock on 1, 2 and 3
//!   processors, and as many device queues as the seed draws of those that they can share; each processor reads the time a while before
//!   its turn; services send from inside their sessions, or applications do it for them. Each connection's bytes, events and end are the same on both sides, each bad packet that is injected gets
//!   the same verdict, and the laws of the wire hold ([`wire::check`]).
//! - **Byte for byte**: at batch 1, with fixed secrets and a virtual clock, each packet and each answer of a service let in
//!   only when nothing is left to run, every packet is the same; on several processors, every packet of a connection.
//! - **On threads and tasks**, with a real clock: bytes, events and ends, and the laws of the wire; also with many more of them than
//!   processors, and suspended at any time.
//! - **On threads whose every step a seed puts in its place** (`--cfg shuttle`, `cargo run -p xtask -- schedules`): the same.
//!
//! In half of all an order-free function stands between TCP and the services.
//!
//! `BRAIDNET_SEEDS=100 cargo test -p braidnet-lab --test equivalence` tries more schedules than the usual few.

mod bench;
mod cipher;
mod inject;
mod outside;
mod queues;
mod random;
mod recorder;
#[cfg(shuttle)]
mod scheduled;
mod script;
mod tap;
mod threads;
mod turned;
mod wire;

use bench::{Setup, Shared};
use braidnet_process::{Agents, Architecture, RunningConfig};
use recorder::{DISCARD, ECHO, GREET, GREETING, NOBODY, Planted};
use script::Length;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use tap::{Packets, Way};
use threads::on_threads;
use turned::{Observed, Turned};

/// Schedules that are tried of each setup.
const SEEDS: u64 = 4;

fn seeds() -> u64 {
    match std::env::var("BRAIDNET_SEEDS") {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("BRAIDNET_SEEDS is a number, not {text:?}")),
        Err(_) => SEEDS,
    }
}

fn observe(setup: &Setup) -> Observed {
    match Turned::new(setup, false).play() {
        Ok((observed, _)) => observed,
        Err(broken) => panic!("{setup:?}: {broken}"),
    }
}

/// Where two observations differ, in words short enough to read.
fn difference(one: &Observed, other: &Observed) -> Option<String> {
    for (name, one, other) in [
        ("services", &one.near, &other.near),
        ("far end", &one.far, &other.far),
    ] {
        for (port, record) in one {
            let empty = Default::default();
            let twin = other.get(port).unwrap_or(&empty);
            if record.events != twin.events {
                return Some(format!(
                    "{name}, port {port}: {:?} and {:?}",
                    record.events, twin.events
                ));
            }
            if let Some(at) = first_difference(&record.bytes, &twin.bytes) {
                return Some(format!("{name}, port {port}: other bytes from {at} on"));
            }
        }
    }
    let verdicts = one
        .verdicts
        .iter()
        .zip(&other.verdicts)
        .find(|(one, other)| one != other);
    if let Some((one, other)) = verdicts {
        return Some(format!("{one:?} and {other:?}"));
    }
    (one != other).then(|| {
        format!(
            "{} and {} connections left, or other bytes on the wire",
            one.open, other.open
        )
    })
}

fn first_difference(one: &[u8], other: &[u8]) -> Option<usize> {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    (same < one.len().max(other.len())).then_some(same)
}

fn reference() -> Observed {
    reference_of(Length::Whole)
}

/// What everything that is as long is compared with.
fn reference_of(length: Length) -> Observed {
    let reference = observe(&Setup {
        length,
        ..Setup::all(1)[0]
    });
    // What everything is compared with is right by itself.
    assert_eq!(reference.open, 0);
    assert_eq!(reference.far.len(), 14);
    for ((port, far), (service, data)) in reference.far.iter().zip(script::calls(length)) {
        let (heard, said): (&[u8], &[u8]) = match service {
            ECHO => (&data, &data),
            DISCARD => (&data, b""),
            GREET => (b"", GREETING),
            _ => (b"", b""),
        };
        assert!(far.bytes == said, "port {port}: other bytes came back");
        let sent = reference.sent.get(port).map_or(&[][..], |sent| sent);
        assert!(sent == said, "port {port}: other bytes on the wire");
        let near = reference.near.get(port);
        assert_eq!(near.is_some(), service != NOBODY, "port {port}");
        assert!(
            near.is_none_or(|near| near.bytes == heard),
            "port {port}: other bytes went there"
        );
    }
    reference
}

#[test]
fn seeds_draw_every_number_of_queues() {
    let setups = Setup::all(3).into_iter();
    let connection = setups.filter(|setup| setup.architecture == Architecture::Connection);
    for setup in connection {
        let drawn: BTreeSet<_> = (0..SEEDS).map(|seed| setup.drawn(seed).queues).collect();
        assert_eq!(drawn, BTreeSet::from([1, 2, 3]));
    }
}

#[test]
fn every_way_of_turning_does_the_same() {
    let reference = reference();
    for processors in [1, 2, 3] {
        for setup in Setup::all(processors) {
            for seed in 0..seeds() {
                for batch in [1, 64] {
                    let setup = Setup {
                        batch,
                        ..setup.drawn(seed)
                    };
                    let difference = difference(&reference, &observe(&setup));
                    assert_eq!(difference, None, "{setup:?}");
                }
            }
        }
    }
}

/// What the other tests say of `braid` they say of buckets that are shared, too.
#[test]
fn work_is_shared_where_there_is_time_for_it() {
    for processors in [2, 3] {
        let setups = Setup::all(processors).into_iter();
        let eager = setups.filter(|setup| setup.sharing == Setup::EAGER);
        let shared = |setup: Setup| {
            let mut turned = Turned::new(&Setup { batch: 1, ..setup }, false);
            if let Err(broken) = turned.play() {
                panic!("{setup:?}: {broken}");
            }
            turned.shared()
        };
        let shared: Vec<Shared> = eager
            .flat_map(|setup| (0..SEEDS).map(move |seed| setup.drawn(seed)))
            .map(shared)
            .collect();
        // Not in each: whether anybody falls behind while another has time is the seed's choice.
        let admitting = shared.iter().filter(|it| it.admitted > 0).count();
        assert!(admitting * 2 > shared.len(), "{shared:?}");
    }
}

/// Every packet of a run in which each was let in only when nothing was left to run.
fn packets(setup: &Setup) -> Packets {
    let (_, trace) = Turned::new(setup, true)
        .play()
        .unwrap_or_else(|broken| panic!("{setup:?}: {broken}"));
    trace
}

fn assert_same(what: &str, one: &[(Way, Vec<u8>)], other: &[(Way, Vec<u8>)]) {
    let same = one.iter().zip(other).take_while(|(a, b)| a == b).count();
    assert!(
        same == one.len() && same == other.len(),
        "{what}: packet {same} of {} and {} differs:\n{:02x?}\n{:02x?}",
        one.len(),
        other.len(),
        one.get(same),
        other.get(same),
    );
}

#[test]
fn packets_are_the_same_byte_for_byte() {
    let setups = |processors| {
        let all = Setup::all(processors).into_iter();
        all.map(|setup| Setup { batch: 1, ..setup })
    };
    let expected = packets(&setups(1).next().expect("there are architectures"));
    assert!(expected.len() > 500, "{} packets", expected.len());
    for setup in setups(1) {
        assert_same(&format!("{setup:?}"), &expected, &packets(&setup));
    }
    // Several processors may find the timers of several connections due in any order: they keep to each connection's.
    let expected = wire::by_connection(&expected);
    for setup in [2, 3].into_iter().flat_map(setups) {
        let packets = wire::by_connection(&packets(&setup));
        assert_eq!(packets.len(), expected.len(), "{setup:?}");
        for (port, expected) in &expected {
            assert_same(&format!("{setup:?}, port {port}"), expected, &packets[port]);
        }
    }
}

/// The same as the reference, on agents of this kind: nothing was injected, since a real clock knows no moment at which nothing is
/// left to run.
/// What its processors shared.
fn assert_does_the_same(
    reference: &Observed,
    setup: &Setup,
    agents: Agents,
    suspensions: bool,
) -> Shared {
    let config = RunningConfig {
        name: "equivalence".to_owned(),
        agents,
        ..RunningConfig::default()
    };
    let what = format!("{setup:?}, {agents:?}");
    let played = *setup;
    let (observed, shared) = within(PLAY, &what, move || {
        on_threads(&played, &config, suspensions)
    })
    .unwrap_or_else(|broken| panic!("{what}: {broken}"));
    let expected = Observed {
        verdicts: Vec::new(),
        ..reference.clone()
    };
    let difference = difference(&expected, &observed);
    assert_eq!(difference, None, "{what}");
    shared
}

/// Longer than a play on threads takes on any machine: fourteen connections to their end. Where nobody waits for another in vain it is over
/// in milliseconds.
const PLAY: Duration = Duration::from_secs(120);

/// What comes of `play`; fails if that is not over in time, also where it waits for ever.
fn within<T: Send + 'static>(
    limit: Duration,
    what: &str,
    play: impl FnOnce() -> T + Send + 'static,
) -> T {
    let (ends, ended) = mpsc::channel();
    let player = std::thread::spawn(move || {
        // Nobody hears it if it comes too late.
        let _ = ends.send(play());
    });
    match ended.recv_timeout(limit) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Timeout) => panic!("{what}: not over in {limit:?}"),
        Err(RecvTimeoutError::Disconnected) => match player.join() {
            Err(panicked) => std::panic::resume_unwind(panicked),
            Ok(()) => unreachable!("it sends before it ends"),
        },
    }
}

fn tasks_on(threads: usize) -> Agents {
    let threads = NonZeroUsize::new(threads).expect("some thread");
    Agents::Tasks { threads }
}

#[test]
fn threads_do_the_same() {
    let reference = reference();
    for processors in [1, 2, 3] {
        for setup in Setup::all(processors) {
            for agents in [Agents::Threads, tasks_on(2)] {
                let between = agents == Agents::Threads;
                let setup = Setup { between, ..setup };
                assert_does_the_same(&reference, &setup, agents, false);
            }
        }
    }
}

/// Sixteen processors, far more than there are, each a thread or a task on one of three, and all suspended and resumed all the
/// time: every play ends within [`PLAY`], and every byte is right. `braid` also where work is shared as soon as there is any.
#[test]
fn too_many_agents_suspended_again_and_again_do_the_same() {
    let reference = reference();
    let kinds = [Agents::Threads, tasks_on(3), tasks_on(1)];
    for setup in Setup::all(16) {
        for seed in 0..3 * seeds() / 2 {
            // Each kind of agent, with and without a function in between.
            let agents = kinds[seed as usize % 3];
            let between = seed % 2 == 1;
            let setup = Setup {
                seed,
                between,
                ..setup
            };
            assert_does_the_same(&reference, &setup, agents, true);
        }
    }
}

/// The same where work is shared and buckets are given away as soon as can be, with enough to do that both happen.
#[test]
fn buckets_that_move_between_too_many_agents_do_the_same() {
    let reference = reference_of(Length::Long);
    let mut shared = Shared::default();
    for setup in Setup::all(16) {
        if setup.sharing != Setup::EAGER {
            continue;
        }
        for seed in 0..3 * seeds() {
            let setup = Setup {
                seed,
                // A processor is behind where it finds as much again and again.
                batch: 2 << (seed % 3),
                queues: [1, 4, 16][seed as usize % 3],
                length: Length::Long,
                ..setup
            };
            for agents in [Agents::Threads, tasks_on(3), tasks_on(1)] {
                shared += assert_does_the_same(&reference, &setup, agents, true);
            }
        }
    }
    assert!(shared.admitted > 0 && shared.moved > 0, "{shared:?}");
}

/// What is planted between two modules of one way of turning the stack is found.
#[test]
fn planted_faults_are_found() {
    let reference = reference();
    for planted in [Planted::Reordering, Planted::LostByte] {
        for setup in Setup::all(2) {
            let setup = Setup {
                planted: Some(planted),
                ..setup
            };
            let played = std::panic::catch_unwind(|| Turned::new(&setup, false).play());
            let found = match played {
                // A scene that waits for the byte that is lost never ends.
                Err(_) => planted == Planted::LostByte,
                Ok(Err(_)) => false,
                Ok(Ok((observed, _))) => difference(&reference, &observed).is_some(),
            };
            assert!(found, "{setup:?}");
        }
    }
}
