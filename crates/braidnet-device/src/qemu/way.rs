//! The socket, and what it has not taken yet of a frame that has begun.
//!
//! Frames lie behind each other in a stream, so a frame of which the socket took a part must be finished before anything else: its rest is kept here, one frame's at most, and
//! goes in front of the next, or as soon as the socket has room. Nobody waits for that room with packets in hand, and nobody stops reading for it: of two sides that wait
//! for each other to read, neither would.
//!
//! The rest is behind a lock, which transmitters hold while they send. The receiver only tries it: whoever holds it has begun with the rest, and what is left then the
//! wakening still tells.

use super::LENGTH_LEN;
use braidnet_message::Message;
use parking_lot::{Mutex, MutexGuard};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Blocks of one message that go to the system without being gathered first.
const BLOCKS_MAX: usize = 16;

/// The stream that all handles write to, one at a time, and one reads.
pub struct Way {
    socket: OwnedFd,
    /// An epoll instance of the socket alone: readable when something has arrived, and, while a rest is kept, when there is room for it.
    wakening: OwnedFd,
    rest: Mutex<Vec<u8>>,
}

/// What became of bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    All,
    /// So many, and no more now.
    Some(usize),
    /// The peer takes nothing any more.
    Gone,
}

/// The right to send, with what is kept of a frame.
pub struct Turn<'a> {
    way: &'a Way,
    rest: MutexGuard<'a, Vec<u8>>,
}

impl Way {
    /// Frames of at most `packet_max` bytes over `socket`, whose calls do not wait.
    pub fn new(socket: OwnedFd, packet_max: usize) -> io::Result<Way> {
        let wakening = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&wakening, &socket, EventData::new_u64(0), EventFlags::IN)?;
        Ok(Way {
            socket,
            wakening,
            rest: Mutex::new(Vec::with_capacity(LENGTH_LEN + packet_max)),
        })
    }

    /// Waits for the others who send.
    pub fn turn(&self) -> Turn<'_> {
        Turn {
            way: self,
            rest: self.rest.lock(),
        }
    }

    /// The same, if nobody sends.
    pub fn try_turn(&self) -> Option<Turn<'_>> {
        let rest = self.rest.try_lock()?;
        Some(Turn { way: self, rest })
    }

    /// Reads what has arrived.
    pub fn read(&self, buffer: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(&self.socket, buffer)
    }

    /// Ends the stream, both ways.
    pub fn shut_down(&self) {
        // If it fails, the peer has done so.
        let _ = rustix::net::shutdown(&self.socket, Shutdown::Both);
    }

    /// What becomes readable when there is something to read, or to finish.
    pub fn wakening(&self) -> BorrowedFd<'_> {
        self.wakening.as_fd()
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends what it can, in one call unless a signal interrupts it.
    fn send(&self, slices: &[IoSlice<'_>]) -> Sent {
        let total: usize = slices.iter().map(|slice| slice.len()).sum();
        loop {
            let none = &mut SendAncillaryBuffer::default();
            return match sendmsg(&self.socket, slices, none, SendFlags::NOSIGNAL) {
                Ok(sent) if sent == total => Sent::All,
                Ok(sent) => Sent::Some(sent),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => Sent::Some(0),
                Err(_) => Sent::Gone,
            };
        }
    }

    /// What wakes from now on.
    fn wake_by(&self, events: EventFlags) {
        // Changing what is there asks for no memory. If it failed, the rest would leave with the next frame either way.
        let _ = epoll::modify(&self.wakening, &self.socket, EventData::new_u64(0), events);
    }
}

impl Turn<'_> {
    /// Sends what is left of an earlier frame; what became of it.
    pub fn go_on(&mut self) -> Sent {
        if self.rest.is_empty() {
            return Sent::All;
        }
        let sent = self.way.send(&[IoSlice::new(&self.rest)]);
        match sent {
            Sent::Some(sent) => drop(self.rest.drain(..sent)),
            Sent::All | Sent::Gone => {
                self.rest.clear();
                self.way.wake_by(EventFlags::IN);
            }
        }
        sent
    }

    /// Sends a frame, where nothing is left of an earlier one. What the socket takes only a part of is kept.
    pub fn frame(&mut self, message: &Message) -> Sent {
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
        let sent = match slices.get(..count) {
            Some(slices) => self.way.send(slices),
            None => {
                self.keep(&length, message, 0);
                let sent = self.way.send(&[IoSlice::new(&self.rest)]);
                self.rest.clear();
                sent
            }
        };
        if let Sent::Some(part @ 1..) = sent {
            self.keep(&length, message, part);
            self.way.wake_by(EventFlags::IN | EventFlags::OUT);
        }
        sent
    }

    /// Keeps a frame but for its first `sent` bytes.
    fn keep(&mut self, length: &[u8; LENGTH_LEN], message: &Message, sent: usize) {
        self.rest.extend_from_slice(length);
        for block in message.blocks() {
            self.rest.extend_from_slice(block);
        }
        self.rest.drain(..sent);
    }
}
