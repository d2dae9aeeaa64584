//! Runs cases, many at a time: each from an address of its own, so that nothing which the stack remembers of one touches another.

use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Instant;

use crate::case::Case;
use crate::peer::{Failure, Outcome, Peer};
use crate::seen;
use crate::wire::{ROOM, Wire};

/// Cases that run at a time. Most of them wait.
const AT_A_TIME: usize = 64;
/// Addresses of a third octet that are used.
const ROW: usize = 250;
/// Cases that find addresses: rows from 128 on are for those who speak for somebody else.
#[cfg(test)]
pub const MOST: usize = 126 * ROW;

/// What became of a case, and the exchange.
pub struct Ran {
    pub outcome: Outcome,
    pub exchange: Vec<String>,
}

type Inbox = Receiver<(Instant, Vec<u8>)>;

/// Runs all, those that wait for timers first; what becomes of them comes in their order.
pub fn all(cases: &[&Case], wire: Wire) -> Vec<Ran> {
    let wire = Arc::new(wire);
    let mut outlets = Vec::new();
    let mut inboxes = Vec::new();
    for _ in cases {
        let (outlet, inbox) = channel();
        outlets.push(outlet);
        inboxes.push(Mutex::new(Some(inbox)));
    }
    let mut order: Vec<usize> = (0..cases.len()).collect();
    order.sort_by_key(|index| !cases[*index].is_slow);
    let next = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let results: Vec<Mutex<Option<Ran>>> = cases.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        scope.spawn(|| read(&wire, &outlets, &is_over));
        let workers: Vec<_> = (0..AT_A_TIME.min(cases.len()))
            .map(|_| {
                scope.spawn(|| {
                    while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let inbox = inboxes[index]
                            .lock()
                            .ok()
                            .and_then(|mut inbox| inbox.take());
                        let ran =
                            inbox.map(|inbox| one(cases[index], address(index), &wire, inbox));
                        if let Ok(mut result) = results[index].lock() {
                            *result = ran;
                        }
                    }
                })
            })
            .collect();
        for worker in workers {
            // A case that panics has said so; its result is missing, and that is told.
            let _ = worker.join();
        }
        is_over.store(true, Ordering::Relaxed);
    });
    let missing = || Ran {
        outcome: Err(Failure::new("a result", "none")),
        exchange: Vec::new(),
    };
    let results = results
        .into_iter()
        .map(|result| result.into_inner().ok().flatten());
    results
        .map(|result| result.unwrap_or_else(missing))
        .collect()
}

fn one(case: &Case, address: Ipv4Addr, wire: &Arc<Wire>, inbox: Inbox) -> Ran {
    let mut peer = Peer::new(address, wire.clone(), inbox);
    let outcome = catch_unwind(AssertUnwindSafe(|| (case.body)(&mut peer)));
    Ran {
        outcome: outcome.unwrap_or_else(|_| Err(Failure::new("no panic of the driver", "one"))),
        exchange: peer.exchange().map(str::to_owned).collect(),
    }
}

/// The address from which a case speaks.
fn address(index: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 1 + (index / ROW) as u8, 1 + (index % ROW) as u8)
}

/// Which case an address is of.
fn index(address: Ipv4Addr) -> Option<usize> {
    let [10, 77, row, place] = address.octets() else {
        return None;
    };
    let place = usize::from(place.checked_sub(1)?);
    (place < ROW).then_some(usize::from(row.checked_sub(1)?) * ROW + place)
}

/// Takes what comes, and gives it to whom it is for, until all is over. What is for nobody is dropped.
fn read(wire: &Wire, outlets: &[Sender<(Instant, Vec<u8>)>], is_over: &AtomicBool) {
    let mut buffer = [0; ROOM];
    while !is_over.load(Ordering::Relaxed) {
        let packet = match wire.receive(&mut buffer) {
            Ok(Some(packet)) => packet,
            Ok(None) => continue,
            Err(error) => {
                eprintln!("conformance: the device cannot be read: {error}");
                return;
            }
        };
        let at = Instant::now();
        let to = seen::destination(packet).and_then(index);
        if let Some(outlet) = to.and_then(|index| outlets.get(index))
            && seen::Seen::read(packet).is_some()
        {
            // A case that is over wants nothing more.
            let _ = outlet.send((at, packet.to_vec()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_tell_cases_apart() {
        for number in 0..MOST {
            assert_eq!(index(address(number)), Some(number));
        }
        assert_eq!(index(crate::peer::SERVER), None);
    }
}
