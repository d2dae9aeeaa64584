//! The way out of an interface that is the stack's alone.

use super::socket::Outward;
use crate::passage::Passage;
use crate::{Counters, DeviceError, Transmitter};
use braidnet_message::{Message, Run};
use core::sync::atomic::{AtomicBool, Ordering};
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::xdp::{XdpDesc, XdpDescOptions};
use rustix::net::{SendFlags, send};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Calls that have the kernel send what waits: it sends 32 at a time where it copies.
const CALLS_MAX: usize = 2048 / 32;

/// A queue's way out, which all who send by it share: the ring has one producer, so they take turns.
pub struct Sending {
    socket: Arc<OwnedFd>,
    outward: Mutex<Outward>,
    /// Whether something waits that the kernel would not take: only a hint, what it is about is behind the lock.
    is_left: AtomicBool,
}

impl Sending {
    pub fn new(outward: Outward) -> Sending {
        Sending {
            socket: outward.socket.clone(),
            outward: Mutex::new(outward),
            is_left: AtomicBool::new(false),
        }
    }

    /// Offers the kernel once more what it would not take; whether something is left.
    pub fn goes_on(&self) -> bool {
        if self.is_left.load(Ordering::Relaxed)
            && let Some(mut outward) = self.outward.try_lock()
        {
            self.send(&mut outward);
        }
        self.is_left.load(Ordering::Relaxed)
    }

    /// Has the kernel send what waits.
    fn send(&self, outward: &mut Outward) {
        outward.waiting.publish();
        let mut is_taken = true;
        if outward.waiting.needs_wakeup() {
            for _ in 0..CALLS_MAX {
                let result = send(&self.socket, &[], SendFlags::DONTWAIT);
                is_taken = outward.waiting.is_taken();
                // EAGAIN: it has sent as many as it does at a time.
                if is_taken || !matches!(result, Ok(_) | Err(Errno::AGAIN | Errno::INTR)) {
                    break;
                }
            }
        }
        self.is_left.store(!is_taken, Ordering::Relaxed);
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
        let mut outward = self.sending.outward.lock();
        let mut taken = 0;
        for message in run.iter() {
            match self.passage.leaving(message) {
                Ok(_) if outward.put(message) => self.counters.count_packet(message.total_len()),
                Ok(_) => break,
                Err(reason) => {
                    let packets = message.segments() as u64;
                    self.counters.count_drops(reason, packets);
                }
            }
            taken += 1;
        }
        self.sending.send(&mut outward);
        drop(outward);
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
