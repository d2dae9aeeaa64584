//! The far end of UDP: datagrams without end, and a place where they end.

use super::frame::{Framer, Refused, unwrap};
use super::mix::FAVOURED;
use super::payload::Payload;
use super::{Counts, Role, Shared};
use crate::content::NUMBER_BYTES;
use crate::load::datagrams::split_number;
use crate::tally::Tally;
use braidnet_device::{Counters, DeviceError, Receiver, Transmitter};
use braidnet_message::{Message, Pool, Run};
use braidnet_sync::parker::Unparker;
use braidnet_wire::udp::{HEADER_LEN, PROTOCOL};
use core::sync::atomic::{AtomicU64, Ordering};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Datagrams of one pair of ports before it is the next one's turn.
const BURST: usize = 16;

/// The simulated sender's half of one device queue; the simulated receiver's says nothing.
pub(super) struct DatagramReceiver {
    shared: Arc<Shared>,
    queue: usize,
    framer: Option<Framer>,
    payload: Option<Payload>,
    /// The pairs of ports of this queue, and the number of each one's next datagram.
    mine: Vec<(u32, u64)>,
    turn: usize,
    counters: Counters,
}

impl DatagramReceiver {
    pub(super) fn new(shared: Arc<Shared>, queue: usize) -> DatagramReceiver {
        let sends = shared.role == Role::Sender;
        let numbers = if sends {
            shared.lines.of_queue(queue)
        } else {
            Vec::new()
        };
        let first = numbers
            .first()
            .map(|number| shared.lines.get(*number).tuple);
        DatagramReceiver {
            queue,
            framer: first.map(|tuple| Framer::new(&tuple, PROTOCOL)),
            payload: first.map(|_| Payload::new(shared.content.clone(), shared.mss)),
            mine: numbers.into_iter().map(|number| (number, 0)).collect(),
            turn: 0,
            counters: Counters::default(),
            shared,
        }
    }

    #[inline]
    fn make(&self, line: u32, number: u64, pool: &mut Pool) -> Option<Message> {
        let shared = &self.shared;
        let body = shared.mss.saturating_sub(NUMBER_BYTES);
        let position = number.wrapping_mul(body as u64);
        let sum = shared.content.sum(shared.content.place(position), body);
        let tuple = &shared.lines.get(line).tuple;
        let number = number.to_be_bytes();
        let mut message =
            self.framer
                .as_ref()?
                .datagram(tuple, &number, (body, sum), shared.checksum, pool)?;
        self.payload
            .as_ref()?
            .put_behind(&mut message, position, body, pool)
            .then_some(message)
    }
}

impl Receiver for DatagramReceiver {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let floor = self.shared.mix.as_ref().map_or(0.0, |mix| {
            mix.wakes(self.queue);
            mix.floor()
        });
        let (mut made, mut in_vain, mut favoured) = (0, 0, 0);
        while made < max && in_vain < self.mine.len() {
            let (line, next) = self.mine[self.turn];
            let most = BURST.min(max - made) as u64;
            let burst = match &self.shared.mix {
                None => most,
                Some(mix) => {
                    let reach = mix.reach(line, floor) / self.shared.mss as u64;
                    most.min(reach.saturating_sub(next))
                }
            };
            let mut number = next;
            while number < next + burst {
                let Some(message) = self.make(line, number, pool) else {
                    break;
                };
                self.counters.count_packet(message.total_len());
                into.push(message);
                number += 1;
            }
            self.mine[self.turn].1 = number;
            made += (number - next) as usize;
            if let Some(mix) = &self.shared.mix {
                mix.note(line, number * self.shared.mss as u64);
                favoured += if line == FAVOURED { number - next } else { 0 };
            }
            if number < next + burst {
                Counts::add(&self.shared.counts.no_buffer, 1);
                break;
            }
            in_vain = if burst == 0 { in_vain + 1 } else { 0 };
            self.turn = if self.turn + 1 == self.mine.len() {
                0
            } else {
                self.turn + 1
            };
        }
        if let Some(mix) = self.shared.mix.as_ref().filter(|_| made > 0) {
            mix.moved();
        }
        Counts::add(&self.shared.counts.favoured, favoured);
        Counts::add(&self.shared.counts.made, made as u64);
        made
    }

    /// In a mix, whether a pair may go on.
    fn has_waiting(&self) -> bool {
        let unit = self.shared.mss as u64;
        let sent = (self.mine.iter()).map(|(line, number)| (*line, number * unit));
        (self.shared.mix.as_ref()).is_some_and(|mix| !mix.rests(self.queue, sent))
    }

    fn wake_with(&mut self, unparker: Unparker) -> bool {
        if let Some(mix) = &self.shared.mix {
            mix.wake_with(self.queue, unparker);
        }
        true
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// A way out of the stack for datagrams.
pub(super) struct DatagramTransmitter {
    shared: Arc<Shared>,
    /// For each pair of ports the number after that of the latest datagram.
    latest: Arc<[AtomicU64]>,
    counters: Counters,
}

#[derive(Default)]
struct Found {
    taken: u64,
    bytes: u64,
    out_of_order: u64,
    tally: Tally,
}

impl DatagramTransmitter {
    pub(super) fn new(shared: Arc<Shared>) -> DatagramTransmitter {
        let latest = (0..shared.lines.len()).map(|_| AtomicU64::new(0)).collect();
        DatagramTransmitter {
            shared,
            latest,
            counters: Counters::default(),
        }
    }

    #[inline]
    fn hear(&self, message: &mut Message, found: &mut Found) -> Result<(), Refused> {
        unwrap(message, PROTOCOL, self.shared.checksum)?;
        let Some(&[_, _, high, low, ..]) = message.bytes().first_chunk::<HEADER_LEN>() else {
            return Err(Refused::Unreadable);
        };
        let port = u16::from_be_bytes([high, low]);
        let Some((line, _)) = self.shared.lines.by_port(port) else {
            return Err(Refused::Unreadable);
        };
        message.strip(HEADER_LEN);
        found.taken += 1;
        found.bytes += message.total_len() as u64;
        let (number, content) = split_number(message.bytes());
        let latest = &self.latest[line as usize];
        if latest.load(Ordering::Relaxed) != number {
            found.out_of_order += 1;
        }
        latest.store(number + 1, Ordering::Relaxed);
        found
            .tally
            .datagram(&self.shared.scope, line, number, content);
        Ok(())
    }
}

impl Transmitter for DatagramTransmitter {
    fn transmit(&mut self, run: &mut Run) {
        let mut found = Found::default();
        for mut message in run.drain() {
            self.counters.count_packet(message.total_len());
            match self.hear(&mut message, &mut found) {
                Ok(()) => {}
                Err(Refused::Unreadable) => Counts::add(&self.shared.counts.unknown, 1),
                Err(Refused::Checksum) => Counts::add(&self.shared.counts.bad_checksum, 1),
            }
        }
        let counts = &self.shared.counts;
        Counts::add(&counts.taken, found.taken);
        Counts::add(&counts.out_of_order, found.out_of_order);
        Counts::add(&counts.bytes, found.bytes);
        if found.tally.samples > 0 {
            counts.hash.fetch_add(found.tally.hash, Ordering::Relaxed);
            counts
                .samples
                .fetch_add(found.tally.samples, Ordering::Release);
        }
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        Ok(Box::new(DatagramTransmitter {
            shared: self.shared.clone(),
            latest: self.latest.clone(),
            counters: Counters::default(),
        }))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
