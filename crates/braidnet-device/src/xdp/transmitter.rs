//! The way out of an interface that is the stack's alone.

use super::socket::Outward;
use crate::passage::Passage;
use crate::{Alarm, Counters, DeviceError, DropReason, Transmitter};
use braidnet_message::{Message, Run};
use braidnet_sync::clock::Clock;
use braidnet_sync::primitives::{AtomicBool, Ordering};
use braidnet_wire::time::{Duration, Instant};
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use rustix::net::{SendFlags, send};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Calls that have the kernel send what waits: it sends 32 at a time where it copies.
const CALLS_MAX: usize = 2048 / 32;

/// How soon what the kernel has not taken is offered to it again.
pub const AGAIN: Duration = Duration::from_millis(1);

/// A queue's way out, which all who send by it share: the ring has one producer, so they take turns.
pub struct Sending {
    socket: Arc<OwnedFd>,
    outward: Mutex<Way>,
    /// Whether something waits that the kernel has not taken, but may soon: only a hint, what it is about is behind the lock.
    is_left: AtomicBool,
    clock: Clock,
    /// The queue's: whoever turns it offers the kernel what is left.
    alarm: Alarm,
}

/// What is behind the lock.
struct Way {
    outward: Outward,
    /// Why the kernel took nothing when it was last asked, if the interface is why: what is to be sent then is dropped for that, lest it be offered for ever.
    refusal: Option<DropReason>,
}

impl Sending {
    pub fn new(outward: Outward) -> Sending {
        Sending {
            socket: outward.socket.clone(),
            outward: Mutex::new(Way {
                outward,
                refusal: None,
            }),
            is_left: AtomicBool::new(false),
            clock: Clock::shared(),
            alarm: Alarm::new(),
        }
    }

    /// When the queue wants to be looked after.
    pub fn alarm(&self) -> &Alarm {
        &self.alarm
    }

    /// Offers the kernel once more what it has not taken: if it wants to be asked, or the time for that `is_due`, as it is by and by where the interface is why.
    pub fn goes_on(&self, is_due: bool) {
        if !is_due && !self.is_left.load(Ordering::Relaxed) {
            return;
        }
        let Some(mut way) = self.outward.try_lock() else {
            return;
        };
        if way.outward.waiting.is_taken() {
            self.is_left.store(false, Ordering::Relaxed);
        } else {
            self.send(&mut way, is_due);
        }
    }

    /// Has the kernel send what waits. It is asked if it wants to be, or `anyway`.
    fn send(&self, way: &mut Way, anyway: bool) {
        let waiting = &mut way.outward.waiting;
        waiting.publish();
        if anyway || waiting.needs_wakeup() {
            for _ in 0..CALLS_MAX {
                let result = send(&self.socket, &[], SendFlags::DONTWAIT);
                way.refusal = result.err().and_then(refusal);
                // EAGAIN: it has sent as many as it does at a time.
                let goes_on = matches!(result, Ok(_) | Err(Errno::AGAIN | Errno::INTR));
                if waiting.is_taken() || !goes_on || !waiting.needs_wakeup() {
                    break;
                }
            }
        }
        let is_left = way.refusal.is_none() && !waiting.is_taken();
        self.is_left.store(is_left, Ordering::Relaxed);
        if is_left {
            let now = Instant::from_nanos(self.clock.now_nanos());
            self.alarm.set(Some(now + AGAIN));
        }
    }
}

/// What it says of the interface that the kernel sends nothing (`xsk_check_common`).
fn refusal(error: Errno) -> Option<DropReason> {
    match error {
        Errno::NETDOWN => Some(DropReason::InterfaceDown),
        Errno::NXIO | Errno::NODEV | Errno::BADF => Some(DropReason::DeviceGone),
        _ => None,
    }
}

impl Outward {
    /// A frame that waits for nothing, if there is one.
    fn take_frame(&mut self) -> Option<u64> {
        if self.free.is_empty() {
            while let Some(address) = self.sent.front() {
                self.free.push(self.frames.frame_of(address));
                self.sent.release();
            }
            self.sent.publish();
        }
        self.free.pop()
    }

    /// Copies a packet into a frame, and puts it into the ring; `false` if there is no room.
    fn put(&mut self, message: &Message) -> bool {
        let Some(address) = self.take_frame() else {
            return false;
        };
        let length = message.total_len();
        let Some(mut frame) = self.frames.bytes_mut(address, length) else {
            return false;
        };
        for block in message.blocks() {
            let (front, rest) = frame.split_at_mut(block.len());
            front.copy_from_slice(block);
            frame = rest;
        }
        let is_in = self.waiting.push(XdpDesc {
            addr: address,
            len: length as u32,
            options: XdpDescOptions::empty(),
        });
        if !is_in {
            self.free.push(address);
        }
        is_in
    }
}

/// One handle on a queue's way out.
pub struct XdpTransmitter {
    sending: Arc<Sending>,
    passage: Passage,
    counters: Counters,
}

impl XdpTransmitter {
    pub fn new(sending: Arc<Sending>, passage: Passage) -> XdpTransmitter {
        XdpTransmitter {
            sending,
            passage,
            counters: Counters::default(),
        }
    }
}

impl Transmitter for XdpTransmitter {
    fn transmit(&mut self, run: &mut Run) {
        if run.is_empty() {
            return;
        }
        let mut way = self.sending.outward.lock();
        if way.refusal.is_some() {
            // It may be up again.
            self.sending.send(&mut way, true);
        }
        let mut taken = 0;
        let mut is_full = false;
        for message in run.iter() {
            let leaving = self.passage.leaving(message);
            match leaving.and(way.refusal.map_or(Ok(()), Err)) {
                Ok(()) if way.outward.put(message) => {
                    self.counters.count_packet(message.total_len());
                }
                Ok(()) => {
                    is_full = true;
                    break;
                }
                Err(reason) => {
                    let packets = message.segments() as u64;
                    self.counters.count_drops(reason, packets);
                }
            }
            taken += 1;
        }
        if way.refusal.is_none() {
            self.sending.send(&mut way, is_full);
        }
        drop(way);
        run.drain_front(taken);
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        let sending = self.sending.clone();
        Ok(Box::new(XdpTransmitter::new(sending, self.passage)))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.sending.socket.as_fd())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_interface_is_a_reason_to_drop() {
        let rows = [
            (Errno::NETDOWN, Some(DropReason::InterfaceDown)),
            (Errno::NXIO, Some(DropReason::DeviceGone)),
            (Errno::BADF, Some(DropReason::DeviceGone)),
            (Errno::AGAIN, None),
            (Errno::NOBUFS, None),
        ];
        for (error, expected) in rows {
            assert_eq!(refusal(error), expected, "{error}");
        }
    }
}
