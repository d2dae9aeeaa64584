//! The two ends of one direction of one queue.

use super::ring::{Consumer, Producer, ring};
use crate::{Counters, DeviceError, DropReason, Receiver, Transmitter};
use braidnet_message::{Kind, Message, Pool, Run};
use parking_lot::Mutex;
use std::cell::RefCell;
use std::mem;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A direction for `depth` packets of at most `packet_max` bytes.
pub fn direction(depth: usize, packet_max: usize) -> (MemoryTransmitter, MemoryReceiver) {
    let (producer, consumer) = ring(depth);
    let transmitter = MemoryTransmitter {
        way: RefCell::new(Way::Alone(producer)),
        packet_max,
        held_back: Run::new(),
        counters: Counters::default(),
    };
    let receiver = MemoryReceiver {
        ring: consumer,
        counters: Counters::default(),
    };
    (transmitter, receiver)
}

/// The way into the ring.
enum Way {
    /// This transmitter's own.
    Alone(Producer<Message>),
    /// Shared with other transmitters.
    Shared(Arc<Mutex<Producer<Message>>>),
    /// On its way from the first to the second; never seen outside [`Way::share`].
    Moving,
}

impl Way {
    /// A second way, through the same producer.
    fn share(&mut self) -> Way {
        let shared = match mem::replace(self, Way::Moving) {
            Way::Alone(producer) => Arc::new(Mutex::new(producer)),
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
    packet_max: usize,
    /// Empty between calls; kept for its memory.
    held_back: Run,
    counters: Counters,
}

impl MemoryTransmitter {
    /// Takes packets out of `run` until it is empty or the ring full.
    fn push(
        counters: &mut Counters,
        packet_max: usize,
        producer: &mut Producer<Message>,
        run: &mut Run,
        held: &mut Run,
    ) {
        let closed = producer.is_closed();
        let room = producer.room();
        let mut admit = |mut message: Message| {
            let length = message.total_len();
            match refusal(length, packet_max, closed) {
                Some(reason) => {
                    counters.count_drop(reason);
                    None
                }
                None => {
                    counters.count_packet(length);
                    forget_metadata(&mut message);
                    Some(message)
                }
            }
        };
        if room >= run.len() || closed {
            producer.push_all(run.drain().filter_map(admit));
            return;
        }
        // The run lends its front only as a whole: what is behind the front is put back.
        mem::swap(run, held);
        let mut left = room;
        let mut waiting = held.drain();
        while left > 0
            && let Some(message) = waiting.next()
        {
            if let Some(message) = admit(message) {
                producer.push_all(std::iter::once(message));
                left -= 1;
            }
        }
        run.extend(waiting);
    }
}

/// Why a packet of `length` bytes never leaves.
fn refusal(length: usize, packet_max: usize, closed: bool) -> Option<DropReason> {
    if closed {
        Some(DropReason::DeviceGone)
    } else if length > packet_max {
        Some(DropReason::TransmitOversize)
    } else if length == 0 {
        Some(DropReason::TransmitEmpty)
    } else {
        None
    }
}

/// Takes off the message what the sender knew of it, so that the receiver finds what a real device would have given it.
fn forget_metadata(message: &mut Message) {
    message.set_kind(Kind::Data);
    message.set_band(0);
    message.set_bucket(0);
    message.set_connection(0);
    message.set_position(0);
    message.set_ticket(0);
    message.set_sum(None);
    let mut rest = message.take_continuation();
    while let Some(mut block) = rest {
        rest = block.take_continuation();
        block.set_sum(None);
        message.push_continuation(block);
    }
}

impl Transmitter for MemoryTransmitter {
    fn transmit(&mut self, run: &mut Run) {
        if run.is_empty() {
            return;
        }
        let MemoryTransmitter {
            way,
            packet_max,
            held_back,
            counters,
        } = self;
        match way.get_mut() {
            Way::Alone(producer) => Self::push(counters, *packet_max, producer, run, held_back),
            Way::Shared(producer) => {
                Self::push(counters, *packet_max, &mut producer.lock(), run, held_back)
            }
            Way::Moving => {}
        }
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        Ok(Box::new(MemoryTransmitter {
            way: RefCell::new(self.way.borrow_mut().share()),
            packet_max: self.packet_max,
            held_back: Run::new(),
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

/// The receiver's end, which passes the pointer.
pub struct MemoryReceiver {
    ring: Consumer<Message>,
    counters: Counters,
}

impl MemoryReceiver {
    /// Takes the next packet off the ring, uncounted.
    pub fn pop(&mut self) -> Option<Message> {
        let mut popped = None;
        self.ring.pop_each(1, |message| popped = Some(message));
        popped
    }

    /// Counts a packet that was popped.
    pub fn count(&mut self, packet: &Message) {
        self.counters.count_packet(packet.total_len());
    }
}

impl Receiver for MemoryReceiver {
    fn receive(&mut self, _pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let counters = &mut self.counters;
        self.ring.pop_each(max, |message| {
            counters.count_packet(message.total_len());
            into.push(message);
        })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn is_gone(&self) -> bool {
        // In this order: what was sent before the last transmitter went is seen.
        self.ring.is_closed() && self.ring.is_empty()
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
