//! For tests: one end that sends as much as it may to another, over a path with a bottleneck, in virtual time.

use crate::Config;
use crate::testing::{End, Random, Wire};
use braidnet_wire::time::{Duration, Instant};
use std::collections::BTreeMap;

/// Headers below and of TCP, which take time on the line too.
const HEADERS: usize = 66;

/// What the path does to what is sent; acknowledgments only take their time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Path {
    pub(super) config: Config,
    /// Bits per second.
    pub(super) rate: u64,
    /// Bytes that wait in front of the bottleneck at most.
    pub(super) queue_bytes: u64,
    /// There and back, without a queue.
    pub(super) rtt: Duration,
    /// Per mille of what is sent.
    pub(super) loss: u64,
}

impl Path {
    /// Bytes that fill the path without a queue.
    pub(super) fn bdp(&self) -> u64 {
        self.rate / 8 * self.rtt.as_millis() as u64 / 1000
    }
}

/// A transfer under way.
pub(super) struct Transfer {
    path: Path,
    pub(super) now: Instant,
    start: Instant,
    /// The ends' clocks move in such steps, in nanoseconds.
    pub(super) step: u64,
    pub(super) sender: End,
    receiver: End,
    /// On their way, by time and a number that tells them apart; true for those to the receiver.
    under_way: BTreeMap<(Instant, u64), (bool, Wire)>,
    number: u64,
    /// When the bottleneck will have sent all that it has.
    busy_until: Instant,
    random: Random,
    pub(super) overflowed: u64,
    pub(super) lost: u64,
    /// The longest queue since this was last reset, in bytes.
    pub(super) longest_queue: u64,
    /// Data that left: when, and bytes.
    pub(super) departures: Vec<(Instant, u64)>,
}

impl Transfer {
    pub(super) fn open(path: Path) -> Transfer {
        let start = Instant::from_millis(1000);
        let mut sender = End::connect(&path.config, 1, start);
        let syn = sender.poll(start).remove(0);
        sender.longest_train = 65_000;
        let receiver = Config {
            receive_buffer_bytes: 16 << 20,
            ..path.config
        };
        let receiver = End::accept(&receiver, 1, &syn, start);
        Transfer {
            path,
            now: start,
            start,
            step: 1,
            sender,
            receiver,
            under_way: BTreeMap::new(),
            number: 0,
            busy_until: start,
            random: Random::new(7),
            overflowed: 0,
            lost: 0,
            longest_queue: 0,
            departures: Vec::new(),
        }
    }

    /// Runs until so long after the start, or until `done`; how many bytes have arrived meanwhile.
    pub(super) fn run(&mut self, millis: u64, done: impl Fn(&Transfer) -> bool) -> u64 {
        let until = self.start + Duration::from_millis(millis);
        let before = self.receiver.received.len();
        self.turn();
        while !done(self) {
            let arrival = self.under_way.first_key_value().map(|((at, _), _)| *at);
            let deadlines = [self.sender.tcb.deadline(), self.receiver.tcb.deadline()];
            // A deadline has come once the clock says so.
            let deadlines = deadlines.map(|at| at.map(|at| at.nanos().next_multiple_of(self.step)));
            let deadlines = deadlines.into_iter().flatten().map(Instant::from_nanos);
            let next = deadlines.chain(arrival).min();
            let next = next.expect("something is due");
            let next = next.max(self.now);
            if next > until {
                self.now = until;
                break;
            }
            self.now = next;
            let clock = self.clock();
            while let Some(entry) = self.under_way.first_entry()
                && entry.key().0 <= self.now
            {
                let (to_receiver, wire) = entry.remove();
                let end = if to_receiver {
                    &mut self.receiver
                } else {
                    &mut self.sender
                };
                end.arrive(clock, &wire);
            }
            for end in [&mut self.sender, &mut self.receiver] {
                if end.tcb.deadline().is_some_and(|at| at <= clock) {
                    end.expire(clock);
                }
            }
            self.turn();
        }
        (self.receiver.received.len() - before) as u64
    }

    /// The share of the bottleneck that a transfer of `millis` more uses, headers not counted.
    pub(super) fn share(&mut self, millis: u64) -> f64 {
        let since = self.now;
        let until = self.now.since(self.start).as_millis() as u64 + millis;
        let bytes = self.run(until, |_| false);
        let seconds = self.now.since(since).as_secs_f64();
        bytes as f64 * 8.0 / seconds / self.path.rate as f64 * (1460.0 + HEADERS as f64 - 12.0)
            / 1448.0
    }

    /// What the ends' clocks say.
    fn clock(&self) -> Instant {
        Instant::from_nanos(self.now.nanos() / self.step * self.step)
    }

    fn turn(&mut self) {
        let room = self.sender.tcb.send_space() as usize;
        if room > 0 {
            self.sender.send(&vec![7; room]);
        }
        self.receiver.take(usize::MAX);
        for wire in self.sender.poll(self.clock()) {
            self.offer(wire);
        }
        for wire in self.receiver.poll(self.clock()) {
            self.number += 1;
            let at = self.now + self.path.rtt / 2;
            self.under_way.insert((at, self.number), (false, wire));
        }
    }

    fn offer(&mut self, wire: Wire) {
        if !wire.data.is_empty() {
            self.departures.push((self.now, wire.data.len() as u64));
        }
        if self.random.chance(self.path.loss) {
            self.lost += 1;
            return;
        }
        let waits = self.busy_until.since(self.now);
        let queued = waits.as_nanos() as u64 * self.path.rate / 8 / 1_000_000_000;
        let bytes = (wire.data.len() + HEADERS) as u64;
        if queued + bytes > self.path.queue_bytes {
            self.overflowed += 1;
            return;
        }
        self.longest_queue = self.longest_queue.max(queued + bytes);
        let takes = Duration::from_nanos(bytes * 8 * 1_000_000_000 / self.path.rate);
        self.busy_until = self.busy_until.max(self.now) + takes;
        self.number += 1;
        let at = self.busy_until + self.path.rtt / 2;
        self.under_way.insert((at, self.number), (true, wire));
    }
}
