//! The smallest case that still fails in the same way.

use crate::case::Case;
use crate::fault::Fault;
use crate::law::Law;
use crate::world::World;
use braidnet_impair::{Impairments, Share};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Leaves out one thing after the other, for as long as the same law is broken.
pub(crate) fn smallest(case: Case, law: Law, fault: Option<Fault>) -> Case {
    let mut smallest = case;
    loop {
        let mut candidates = simpler(&smallest);
        let fails = |candidate: &Case| {
            let run = || World::new(candidate.clone(), fault, false).finish().0;
            match catch_unwind(AssertUnwindSafe(run)) {
                Ok(Ok(_)) => false,
                Ok(Err(violation)) => violation.law == law,
                Err(_) => law == Law::Panic,
            }
        };
        let Some(at) = candidates.iter().position(fails) else {
            return smallest;
        };
        smallest = candidates.swap_remove(at);
    }
}

/// The same with one thing less, the largest first.
fn simpler(case: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Case)| {
        let mut candidate = case.clone();
        change(&mut candidate);
        all.push(candidate);
    };
    let talks = case.talks.len();
    if talks > 1 {
        with(&|case| case.talks.truncate(talks / 2));
        with(&|case| drop(case.talks.drain(..talks / 2)));
        for at in 0..talks {
            with(&|case| {
                case.talks.remove(at);
            });
        }
    }
    for at in 0..case.troubles.len() {
        with(&|case| {
            case.troubles.remove(at);
        });
    }
    for at in 0..talks {
        let talk = &case.talks[at];
        if talk.again > 0 {
            with(&|case| case.talks[at].again /= 2);
        }
        for side in 0..2 {
            if talk.bytes[side] > 100 {
                with(&|case| case.talks[at].bytes[side] /= 2);
            }
            let habit = &talk.habits[side];
            if habit.long_pause.is_some() {
                with(&|case| case.talks[at].habits[side].long_pause = None);
            }
            if habit.pause > 0 {
                with(&|case| case.talks[at].habits[side].pause = 0);
            }
        }
    }
    for link in 0..case.topology.links.len() {
        for way in 0..2 {
            for calmer in calmer(&case.topology.links[link].ways[way]) {
                with(&|case| case.topology.links[link].ways[way] = calmer.clone());
            }
        }
    }
    for host in 0..case.hosts.len() {
        if case.hosts[host].coalescing + case.hosts[host].lateness > 0 {
            with(&|case| {
                case.hosts[host].coalescing = 0;
                case.hosts[host].lateness = 0;
            });
        }
        if case.hosts[host].engine.keepalive.on {
            with(&|case| case.hosts[host].engine.keepalive.on = false);
        }
    }
    all
}

/// What a line does, with one impairment less.
fn calmer(way: &Impairments) -> Vec<Impairments> {
    let none = Impairments::none();
    let all = [
        Impairments {
            loss: Share::NONE,
            burst_loss: None,
            ..way.clone()
        },
        Impairments {
            duplicate: Share::NONE,
            ..way.clone()
        },
        Impairments {
            corrupt: Share::NONE,
            ..way.clone()
        },
        Impairments {
            jitter: none.jitter,
            ..way.clone()
        },
        Impairments {
            reorder: none.reorder,
            ..way.clone()
        },
        Impairments {
            rate: None,
            ..way.clone()
        },
    ];
    all.into_iter().filter(|calmer| calmer != way).collect()
}
