//! The stack under test on threads each step of which a seed puts in its place (`--cfg shuttle`).
//!
//! Everything is what ships: workers, the threads that carry them and how those sleep, suspend and end, junctions, perimeters, buffers.
//! Atomics and threads are the scheduler's, the clock is the run's own. Each run has one seed, which draws its order and the sizes
//! of reads and writes; what fails says which.

use crate::bench::{Setup, Shared};
use crate::script::Length;
use crate::threads::on_threads;
use crate::turned::{Observed, Turned};
use crate::{difference, tasks_on};
use braidnet_inet::tcp::TcpLocks;
use braidnet_process::{Agents, Architecture, Idle, RunningConfig};
use braidnet_stream::{Arrival, Exclusion};
use braidnet_sync::lock::LockKind;
use braidnet_sync::schedules::{Draw, run, seeds};
use std::sync::{Arc, Mutex};

/// Steps of a run that goes round in circles.
const ENDLESS: usize = 20_000_000;

/// Orders of each kind that are drawn for each setup.
const SEEDS: u64 = 12;

/// Those of all legal combinations on two processors.
fn setups(which: impl Fn(&Setup) -> bool) -> Vec<Setup> {
    let chosen: Vec<_> = (Setup::all(2).into_iter().filter(which))
        .map(|setup| Setup {
            length: Length::Short,
            batch: 4,
            ..setup
        })
        .collect();
    assert!(!chosen.is_empty(), "there is nothing of the kind");
    chosen
}

/// The first of each architecture.
fn one(architecture: Architecture) -> Setup {
    setups(|setup| setup.architecture == architecture)[0]
}

fn message(which: impl Fn(&Setup) -> bool) -> Vec<Setup> {
    setups(|setup| setup.architecture == Architecture::Message && which(setup))
}

/// What all these do in every order: that of a stack on one processor, turned by the test.
fn reference() -> Observed {
    let setup = Setup {
        processors: 1,
        ..one(Architecture::Connection)
    };
    let (observed, _) = Turned::new(&setup, false)
        .play()
        .expect("the laws of the wire hold");
    Observed {
        verdicts: Vec::new(),
        ..observed
    }
}

/// Every order of every one of these ends, with the same bytes, events and states as the reference. What processors
/// have shared in all of them.
fn do_the_same(setups: &[Setup], agents: Agents, suspensions: bool) -> Shared {
    let mut shared = Shared::default();
    let reference = reference();
    let config = RunningConfig {
        agents,
        idle: Idle::SLEEP,
        ..RunningConfig::default()
    };
    for setup in setups {
        for seed in seeds(SEEDS) {
            for draw in Draw::ALL {
                let more = usize::from(seed / 4 % 2 == 1);
                let setup = Setup {
                    processors: setup.processors.max(2 + more),
                    ..*setup
                };
                // Applications that send are woken by nobody.
                let setup = Setup {
                    outside: false,
                    ..setup.drawn(seed)
                };
                let (observed, of_one) = observe(setup, &config, suspensions, draw);
                shared += of_one;
                let difference = difference(&reference, &observed);
                assert_eq!(difference, None, "{setup:?}, {draw:?}");
            }
        }
    }
    shared
}

fn observe(
    setup: Setup,
    config: &RunningConfig,
    suspensions: bool,
    draw: Draw,
) -> (Observed, Shared) {
    let found = Arc::new(Mutex::new(None));
    let (finds, config) = (found.clone(), config.clone());
    run(draw, setup.seed, ENDLESS, move || {
        let observed = on_threads(&setup, &config, suspensions);
        *finds.lock().expect("nobody else looks") = Some(observed);
    });
    let found = found.lock().expect("nobody else looks").take();
    found
        .expect("a run that ends has been observed")
        .unwrap_or_else(|broken| panic!("{setup:?}, {draw:?}: {broken}"))
}

#[test]
fn message_behind_every_lock() {
    let setups = message(|setup| {
        setup.exclusion != Exclusion::Delegation
            && setup.arrival == Arrival::AsItComes
            && setup.tcp_locks == TcpLocks::One
    });
    do_the_same(&setups, Agents::Threads, false);
}

#[test]
fn message_in_order() {
    let setups = message(|setup| {
        setup.exclusion != Exclusion::Delegation
            && setup.arrival != Arrival::AsItComes
            && setup.tcp_locks == TcpLocks::One
    });
    do_the_same(&setups, Agents::Threads, false);
}

#[test]
fn message_with_more_locks_in_tcp() {
    let setups = message(|setup| {
        setup.exclusion == Exclusion::Lock(LockKind::Mcs) && setup.tcp_locks != TcpLocks::One
    });
    do_the_same(&setups, Agents::Threads, false);
}

#[test]
fn message_delegated() {
    let setups = message(|setup| setup.exclusion == Exclusion::Delegation);
    do_the_same(&setups, Agents::Threads, false);
}

#[test]
fn connection() {
    do_the_same(&[one(Architecture::Connection)], Agents::Threads, false);
}

#[test]
fn task() {
    do_the_same(&[one(Architecture::Task)], Agents::Threads, false);
}

#[test]
fn function() {
    do_the_same(&[one(Architecture::Function)], Agents::Threads, false);
}

#[test]
fn braid() {
    let braid = |eager| {
        setups(|setup| {
            setup.architecture == Architecture::Braid && (setup.sharing == Setup::EAGER) == eager
        })
    };
    do_the_same(&braid(false), Agents::Threads, false);
    let eager = braid(true);
    let many = eager.iter().map(|setup| Setup {
        processors: 3,
        ..*setup
    });
    let eager: Vec<_> = eager.iter().copied().chain(many).collect();
    let shared = do_the_same(&eager, Agents::Threads, false);
    // In one order, or a few, there may be no time for it.
    assert!(
        shared.admitted > 0 || seeds(SEEDS).count() < SEEDS as usize,
        "nobody was ever a guest"
    );
}

#[test]
fn tasks_on_few_threads() {
    let setups = Architecture::ALL.map(one);
    do_the_same(&setups, tasks_on(2), false);
}

#[test]
fn suspended_again_and_again() {
    let mut setups = Architecture::ALL.map(one).to_vec();
    setups.extend(self::setups(|setup| setup.sharing == Setup::EAGER));
    do_the_same(&setups, Agents::Threads, true);
}
