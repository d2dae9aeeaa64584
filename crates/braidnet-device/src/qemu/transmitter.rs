//! The way out: frames one behind the other, of which the socket may take a part.

use super::LENGTH_LEN;
use crate::{Counters, DeviceError, DropReason, Transmitter};
use braidnet_message::{Message, Run};
use parking_lot::Mutex;
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Blocks of one message that go to the system without being gathered first.
const BLOCKS_MAX: usize = 16;

/// The stream that all handles write to, one at a time.
pub struct Way {
    socket: Arc<OwnedFd>,
    packet_max: usize,
    /// What the socket did not take of a frame, and what was not taken of that yet: it goes before anything else.
    rest: Mutex<Vec<u8>>,
}

/// A way out. Where the socket took a part of a frame, that stays at the front of the run until the rest has left, too.
pub struct QemuTransmitter {
    way: Arc<Way>,
    /// Whether the first message of the run has been given to the socket, or its rest to [`Way::rest`].
    is_begun: bool,
    counters: Counters,
}

/// What became of bytes.
enum Sent {
    All,
    /// So many, and no more now.
    Some(usize),
    /// The peer takes nothing any more.
    Gone,
}

impl Way {
    pub fn new(socket: Arc<OwnedFd>, packet_max: usize) -> Way {
        Way {
            socket,
            packet_max,
            rest: Mutex::new(Vec::with_capacity(LENGTH_LEN + packet_max)),
        }
    }

    /// Sends what it can, in one call unless a signal interrupts it.
    fn send(&self, slices: &[IoSlice<'_>]) -> Sent {
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        loop {
            let none = &mut SendAncillaryBuffer::default();
            return match sendmsg(&*self.socket, slices, none, SendFlags::NOSIGNAL) {
                Ok(sent) if sent == total => Sent::All,
                Ok(sent) => Sent::Some(sent),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => Sent::Some(0),
                Err(_) => Sent::Gone,
            };
        }
    }

    /// Sends what is left of an earlier frame; what became of it.
    fn go_on(&self, rest: &mut Vec<u8>) -> Sent {
        if rest.is_empty() {
            return Sent::All;
        }
        let sent = self.send(&[IoSlice::new(rest)]);
        match sent {
            Sent::All | Sent::Gone => rest.clear(),
            Sent::Some(sent) => drop(rest.drain(..sent)),
        }
        sent
    }

    /// Sends a frame; what the socket takes only a part of is kept in `rest`.
    fn frame(&self, message: &Message, rest: &mut Vec<u8>) -> Sent {
        let length = (message.total_len() as u32).to_be_bytes();
        let mut slices = [IoSlice::new(&[]); 1 + BLOCKS_MAX];
        slices[0] = IoSlice::new(&length);
        let mut count = 1;
        for block in message.blocks() {
            if let Some(slice) = slices.get_mut(count) {
                *slice = IoSlice::new(block);
            }
            count += 1;
        }
        let gather = |rest: &mut Vec<u8>| {
            rest.extend_from_slice(&length);
            message
                .blocks()
                .for_each(|block| rest.extend_from_slice(block));
        };
        let Some(slices) = slices.get(..count) else {
            gather(rest);
            return self.go_on(rest);
        };
        let sent = self.send(slices);
        if let Sent::Some(part @ 1..) = sent {
            gather(rest);
            rest.drain(..part);
        }
        sent
    }
}

impl QemuTransmitter {
    pub fn new(way: Arc<Way>) -> QemuTransmitter {
        QemuTransmitter {
            way,
            is_begun: false,
            counters: Counters::default(),
        }
    }

    /// Why a packet cannot leave.
    fn refusal(&self, message: &Message) -> Option<DropReason> {
        match message.total_len() {
            0 => Some(DropReason::TransmitEmpty),
            length if length > self.way.packet_max => Some(DropReason::TransmitOversize),
            _ => None,
        }
    }
}

impl Transmitter for QemuTransmitter {
    fn transmit(&mut self, run: &mut Run) {
        let way = self.way.clone();
        let mut rest = way.rest.lock();
        let earlier = way.go_on(&mut rest);
        let mut blocked = matches!(earlier, Sent::Some(_));
        let mut is_begun = core::mem::take(&mut self.is_begun) && !run.is_empty();
        run.retain_mut(|message| {
            if blocked {
                return true;
            }
            if let Some(reason) = self.refusal(message) {
                self.counters.count_drop(reason);
                return false;
            }
            let sent = if core::mem::take(&mut is_begun) {
                // Its rest has left just now, or when another handle was at it.
                match earlier {
                    Sent::Gone => Sent::Gone,
                    Sent::All | Sent::Some(_) => Sent::All,
                }
            } else {
                way.frame(message, &mut rest)
            };
            match sent {
                Sent::All => self.counters.count_packet(message.total_len()),
                Sent::Gone => self.counters.count_drop(DropReason::DeviceGone),
                Sent::Some(_) => {
                    blocked = true;
                    self.is_begun = !rest.is_empty();
                    return true;
                }
            }
            false
        });
        self.is_begun |= is_begun;
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        Ok(Box::new(QemuTransmitter::new(self.way.clone())))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.way.socket.as_fd())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
