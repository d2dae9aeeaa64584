//! Runs cases, many at a time: each from an address of its own, so that nothing which the stack remembers of one touches another.

use std::mem::take;
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

/// The second octet of addresses on the near network, and on the far one.
const NETWORKS: [u8; 2] = [77, 78];

/// What became of a case, and the exchange.
pub struct Ran {
    pub outcome: Outcome,
    pub exchange: Vec<String>,
}

type Inbox = Receiver<(Instant, Vec<u8>)>;

type Outlet = Sender<(Instant, Vec<u8>)>;

/// Runs all, those that wait for timers first; what becomes of them comes in their order. There is a wire for each network.
pub fn all(cases: &[&Case], wires: Vec<Wire>) -> Vec<Ran> {
    let wires: Vec<Arc<Wire>> = wires.into_iter().map(Arc::new).collect();
    let mut outlets: Vec<Vec<Outlet>> = wires.iter().map(|_| Vec::new()).collect();
    let mut ends = Vec::new();
    for index in 0..cases.len() {
        let mut peers = Vec::new();
        for ((wire, outlets), network) in wires.iter().zip(&mut outlets).zip(NETWORKS) {
            let (outlet, inbox) = channel();
            outlets.push(outlet);
            peers.push((address(network, index), wire.clone(), inbox));
        }
        ends.push(Mutex::new(peers));
    }
    let mut order: Vec<usize> = (0..cases.len()).collect();
    order.sort_by_key(|index| !cases[*index].is_slow);
    let next = AtomicUsize::new(0);
    let is_over = AtomicBool::new(false);
    let results: Vec<Mutex<Option<Ran>>> = cases.iter().map(|_| Mutex::new(None)).collect();
    thread::scope(|scope| {
        for (wire, outlets) in wires.iter().zip(&outlets) {
            scope.spawn(|| read(wire, outlets, &is_over));
        }
        let workers: Vec<_> = (0..AT_A_TIME.min(cases.len()))
            .map(|_| {
                scope.spawn(|| {
                    while let Some(&index) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
                        let ends = ends[index].lock();
                        let ends = ends.map_or_else(|_| Vec::new(), |mut ends| take(&mut ends));
                        let ran = one(cases[index], ends);
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

/// Of the ends the first is on the near network; none if there is none.
fn one(case: &Case, ends: Vec<(Ipv4Addr, Arc<Wire>, Inbox)>) -> Option<Ran> {
    let mut peers = ends
        .into_iter()
        .map(|(address, wire, inbox)| Peer::new(address, wire, inbox));
    let mut peer = peers.next()?.with_far(peers.next());
    let outcome = catch_unwind(AssertUnwindSafe(|| (case.body)(&mut peer)));
    Some(Ran {
        outcome: outcome.unwrap_or_else(|_| Err(Failure::new("no panic of the driver", "one"))),
        exchange: peer.exchange(),
    })
}

/// The address from which a case speaks on a network.
fn address(network: u8, index: usize) -> Ipv4Addr {
    let (row, place) = (1 + (index / ROW) as u8, 1 + (index % ROW) as u8);
    Ipv4Addr::new(10, network, row, place)
}

/// Which case an address is of.
fn index(address: Ipv4Addr) -> Option<usize> {
    let [10, network, row, place] = address.octets() else {
        return None;
    };
    if !NETWORKS.contains(&network) {
        return None;
    }
    let place = usize::from(place.checked_sub(1)?);
    (place < ROW).then_some(usize::from(row.checked_sub(1)?) * ROW + place)
}

/// Takes what comes, and gives it to whom it is for, or else whose it was, until all is over. What is neither is dropped.
fn read(wire: &Wire, outlets: &[Outlet], is_over: &AtomicBool) {
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
        let [source, destination] = [seen::source(packet), seen::destination(packet)];
        let to = destination.and_then(index);
        let to = to.or_else(|| source.and_then(index));
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
        for network in NETWORKS {
            for number in 0..MOST {
                assert_eq!(index(address(network, number)), Some(number));
            }
        }
        assert_eq!(index(crate::peer::SERVER), None);
    }
}
