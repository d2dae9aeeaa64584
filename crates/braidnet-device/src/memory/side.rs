//! The two ends of one direction of one queue.

use super::bell::{Bell, LastRing};
use crate::{Counters, DeviceError, DropReason, Receiver, Transmitter};
use braidnet_message::{Drain, Message, Pool, Run};
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use braidnet_sync::parker::Unparker;
use braidnet_sync::ring::spsc::{Consumer, Producer, ring};
use std::cell::RefCell;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::{iter, mem};

/// A direction for `depth` packets of at most `packet_max` bytes.
pub fn direction(depth: usize, packet_max: usize) -> (MemoryTransmitter, MemoryReceiver) {
    let (producer, consumer) = ring(depth.max(1));
    let bell = Arc::new(Bell::default());
    let line = Line {
        producer,
        bell: LastRing(bell.clone()),
    };
    let transmitter = MemoryTransmitter {
        way: RefCell::new(Way::Alone(line)),
        gate: Gate {
            packet_max,
            counters: Counters::default(),
        },
    };
    let receiver = MemoryReceiver {
        ring: consumer,
        bell,
        counters: Counters::default(),
    };
    (transmitter, receiver)
}

/// The sending half of a direction. When it is dropped the ring says so, and then the bell rings (in the fields' order).
struct Line {
    producer: Producer<Message>,
    bell: LastRing,
}

/// The way into the ring.
enum Way {
    /// This transmitter's own.
    Alone(Line),
    /// Shared with other transmitters.
    Shared(Arc<Lock<Line>>),
    /// On its way from the first to the second; never seen outside [`Way::share`].
    Moving,
}

impl Way {
    /// A second way, through the same line.
    fn share(&mut self) -> Way {
        let shared = match mem::replace(self, Way::Moving) {
            Way::Alone(line) => Arc::new(Lock::new(LockKind::Adaptive, LockClass::Queue, line)),
            Way::Shared(shared) => shared,
            Way::Moving => return Way::Moving,
        };
        *self = Way::Shared(shared.clone());
        Way::Shared(shared)
    }
}

/// The sender's end.
pub struct MemoryTransmitter {
    /// A cell because [`Transmitter::another`] changes it through a shared reference. Transmitting borrows it
    /// exclusively and pays nothing for it.
    way: RefCell<Way>,
    gate: Gate,
}

impl MemoryTransmitter {
    /// Sends packets of up to so many bytes.
    pub fn set_packet_max(&mut self, packet_max: usize) {
        self.gate.packet_max = packet_max;
    }
}

impl Line {
    /// Takes packets off the front of `run` until it is empty or the ring full, and wakes the receiver. It is the whole of
    /// both ways to transmit.
    #[inline(always)]
    fn send(&mut self, gate: &mut Gate, run: &mut Run) {
        if self.producer.is_abandoned() {
            return gate.lose(run);
        }
        if self.producer.room_for(run.len()) >= run.len() {
            let mut packets = run.drain();
            self.push(gate, &mut packets);
            if !packets.as_slice().is_empty() {
                self.push_admitted(gate, packets);
            }
        } else {
            self.fill_up(gate, run);
        }
        self.bell.0.ring();
    }

    /// Takes as many packets as the ring has room for: several times where some are dropped, which take none.
    #[cold]
    fn fill_up(&mut self, gate: &mut Gate, run: &mut Run) {
        while !run.is_empty() {
            let room = self.producer.room_for(run.len());
            if room == 0 {
                break;
            }
            self.push_admitted(gate, run.drain_front(room));
        }
    }

    /// Takes packets for which there is room, up to the first that is to be dropped: usually all.
    #[inline]
    fn push(&mut self, gate: &mut Gate, packets: &mut Drain<'_>) {
        let mut bytes = 0;
        let count = self.producer.push_iter(&mut iter::from_fn(|| {
            bytes += gate.length_of(packets.as_slice().first()?)?;
            packets.next().map(as_received)
        }));
        gate.counters.count_packets(count, bytes);
    }

    /// Takes packets for which there is room, and drops those that are to be dropped.
    #[cold]
    fn push_admitted(&mut self, gate: &mut Gate, packets: impl Iterator<Item = Message>) {
        let mut bytes = 0;
        let mut leaving = packets.filter_map(|message| gate.admit(message, &mut bytes));
        let count = self.producer.push_iter(&mut leaving);
        gate.counters.count_packets(count, bytes);
    }
}

#[inline(never)]
fn send_shared(line: &Lock<Line>, gate: &mut Gate, run: &mut Run) {
    line.with(|line| line.send(gate, run));
}

/// What decides over packets that are to leave, and counts them.
struct Gate {
    packet_max: usize,
    counters: Counters,
}

impl Gate {
    /// The length of a packet that may leave; `None` if it is to be dropped.
    #[inline]
    fn length_of(&self, message: &Message) -> Option<usize> {
        let length = message.total_len();
        (1..=self.packet_max).contains(&length).then_some(length)
    }

    /// The packet as it goes over the wire, its length added to `bytes`; `None` if it is dropped.
    fn admit(&mut self, message: Message, bytes: &mut usize) -> Option<Message> {
        let Some(length) = self.length_of(&message) else {
            self.refuse(message);
            return None;
        };
        *bytes += length;
        Some(as_received(message))
    }

    /// Drops packets that nobody will ever receive.
    #[cold]
    fn lose(&mut self, run: &mut Run) {
        for message in run.drain() {
            drop(message);
            self.counters.count_drop(DropReason::DeviceGone);
        }
    }

    #[cold]
    fn refuse(&mut self, message: Message) {
        self.counters.count_drop(match message.total_len() {
            0 => DropReason::TransmitEmpty,
            _ => DropReason::TransmitOversize,
        });
    }
}

/// The packet as the receiver finds it: what a real device would have given it.
#[inline]
fn as_received(mut message: Message) -> Message {
    message.forget();
    message
}

impl Transmitter for MemoryTransmitter {
    fn transmit(&mut self, run: &mut Run) {
        if run.is_empty() {
            return;
        }
        let gate = &mut self.gate;
        match self.way.get_mut() {
            Way::Alone(line) => line.send(gate, run),
            Way::Shared(line) => send_shared(line, gate, run),
            Way::Moving => {}
        }
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        Ok(Box::new(MemoryTransmitter {
            way: RefCell::new(self.way.borrow_mut().share()),
            gate: Gate {
                packet_max: self.gate.packet_max,
                counters: Counters::default(),
            },
        }))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        self.gate.counters
    }
}

/// The receiver's end, which passes the pointer.
pub struct MemoryReceiver {
    ring: Consumer<Message>,
    bell: Arc<Bell>,
    counters: Counters,
}

impl MemoryReceiver {
    /// Takes the next packet off the ring, uncounted.
    pub fn pop(&mut self) -> Option<Message> {
        self.ring.pop()
    }

    /// Takes up to `max` packets off the ring.
    #[inline(never)]
    fn take(&mut self, into: &mut Run, max: usize) -> usize {
        let packets = self.ring.drain(max);
        let (count, mut bytes) = (packets.size_hint().0, 0);
        for message in packets {
            bytes += message.total_len();
            into.push(message);
        }
        self.counters.count_packets(count, bytes);
        count
    }

    /// Counts a packet that was popped.
    pub fn count(&mut self, packet: &Message) {
        self.counters.count_packet(packet.total_len());
    }
}

impl Receiver for MemoryReceiver {
    #[inline]
    fn receive(&mut self, _pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        if self.ring.is_empty() {
            return 0;
        }
        self.take(into, max)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn has_waiting(&self) -> bool {
        !self.ring.is_empty()
    }

    fn wake_with(&mut self, unparker: Unparker) -> bool {
        self.bell.wake_with(unparker);
        true
    }

    fn is_gone(&self) -> bool {
        // In this order: what was sent before the last transmitter went is seen.
        self.ring.is_abandoned() && self.ring.is_empty()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
