//! The socket, and the frames that wait for room in it.
//!
//! Frames lie behind each other in the stream: what waits is one sequence of bytes, of which the socket takes from the front what it can, and stops wherever its room ends. So
//! frames stand in a queue, as the messages that they are, with how much of the first the socket has; each call offers as many as go into one.
//!
//! Nobody waits for that room with packets in hand, and nobody stops reading for it: of two sides that wait for each other to read, neither would. Nor does anybody ask for it
//! again and again: what whoever turns the device sleeps on becomes readable when there is room, too, while frames wait for it. TCP goes on no further than its windows,
//! for want of acknowledgments. What nothing holds back, answers to a peer that sends and does not read, ends at the queue's limit.
//!
//! The queue is behind a lock, which transmitters hold while they send. The receiver only tries it: whoever holds it sends what there is, and what is left then the
//! wakening still tells.

use super::LENGTH_LEN;
use braidnet_message::Message;
use parking_lot::{Mutex, MutexGuard};
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, Shutdown, sendmsg};
use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Frames, and slices of their lengths and blocks, that one call offers the system at most.
const FRAMES: usize = 32;
const SLICES: usize = 4 * FRAMES;

/// The stream that all handles write to, one at a time, and one reads.
pub struct Way {
    socket: OwnedFd,
    /// An epoll instance of the socket alone: readable when something has arrived, and, while frames wait for it, when there is room.
    wakening: OwnedFd,
    queue: Mutex<Queue>,
    /// Frames that may wait.
    limit: usize,
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Message>,
    /// Bytes of the first frame, its length counted, that the socket has taken.
    begun: usize,
    /// Whether room wakes.
    awaits_room: bool,
}

/// What became of what there was to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sent {
    All,
    /// The socket has no room for the rest.
    Part,
    /// The peer takes nothing any more: so many frames are lost.
    Gone(usize),
}

/// The right to send.
pub struct Turn<'a> {
    way: &'a Way,
    queue: MutexGuard<'a, Queue>,
}

impl Way {
    /// Over `socket`, whose calls do not wait. Up to `limit` frames wait for room in it.
    pub fn new(socket: OwnedFd, limit: usize) -> io::Result<Way> {
        let wakening = epoll::create(CreateFlags::CLOEXEC)?;
        epoll::add(&wakening, &socket, EventData::new_u64(0), EventFlags::IN)?;
        Ok(Way {
            socket,
            wakening,
            queue: Mutex::default(),
            limit,
        })
    }

    /// Waits for the others who send.
    pub fn turn(&self) -> Turn<'_> {
        Turn {
            way: self,
            queue: self.queue.lock(),
        }
    }

    /// The same, if nobody sends.
    pub fn try_turn(&self) -> Option<Turn<'_>> {
        let queue = self.queue.try_lock()?;
        Some(Turn { way: self, queue })
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

    /// What becomes readable when there is something to read, or room for what waits.
    pub fn wakening(&self) -> BorrowedFd<'_> {
        self.wakening.as_fd()
    }

    pub fn socket(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// What wakes from now on.
    fn wake_by(&self, events: EventFlags) {
        // Changing what is there asks for no memory. If it failed, frames would leave with the next ones either way.
        let _ = epoll::modify(&self.wakening, &self.socket, EventData::new_u64(0), events);
    }
}

impl Turn<'_> {
    /// Puts a frame behind those that wait; back if as many wait as may.
    pub fn push(&mut self, frame: Message) -> Result<(), Message> {
        if self.queue.frames.len() >= self.way.limit {
            return Err(frame);
        }
        self.queue.frames.push_back(frame);
        Ok(())
    }

    /// Sends what the socket has room for; what became of all.
    pub fn send(&mut self) -> Sent {
        let sent = loop {
            if self.queue.frames.is_empty() {
                break Sent::All;
            }
            match self.queue.offer(&self.way.socket) {
                Ok(true) => {}
                Ok(false) | Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => break Sent::Part,
                Err(Errno::INTR) => {}
                Err(_) => break Sent::Gone(self.queue.clear()),
            }
        };
        let awaits_room = sent == Sent::Part;
        if core::mem::replace(&mut self.queue.awaits_room, awaits_room) != awaits_room {
            self.way.wake_by(match awaits_room {
                true => EventFlags::IN | EventFlags::OUT,
                false => EventFlags::IN,
            });
        }
        sent
    }
}

impl Queue {
    /// Offers the socket the first frames; whether it took all of what it was offered.
    fn offer(&mut self, socket: &OwnedFd) -> Result<bool, Errno> {
        let mut lengths = [[0; LENGTH_LEN]; FRAMES];
        for (length, frame) in lengths.iter_mut().zip(&self.frames) {
            *length = (frame.total_len() as u32).to_be_bytes();
        }
        let framed = lengths.iter().zip(&self.frames);
        let parts =
            framed.flat_map(|(length, frame)| [&length[..]].into_iter().chain(frame.blocks()));
        let mut taken = self.begun;
        let parts = parts.filter_map(|part| {
            let left = part.get(taken..).unwrap_or_default();
            taken = taken.saturating_sub(part.len());
            (!left.is_empty()).then_some(left)
        });
        let mut slices = [IoSlice::new(&[]); SLICES];
        let (mut count, mut bytes) = (0, 0);
        for (slice, part) in slices.iter_mut().zip(parts) {
            *slice = IoSlice::new(part);
            count += 1;
            bytes += part.len();
        }
        let slices = slices.get(..count).unwrap_or_default();
        let none = &mut SendAncillaryBuffer::default();
        let sent = sendmsg(socket, slices, none, SendFlags::NOSIGNAL)?;
        self.advance(sent);
        Ok(sent == bytes)
    }

    /// So many more bytes have been taken.
    fn advance(&mut self, bytes: usize) {
        self.begun += bytes;
        while let Some(frame) = self.frames.front() {
            let length = LENGTH_LEN + frame.total_len();
            if self.begun < length {
                break;
            }
            self.begun -= length;
            self.frames.pop_front();
        }
    }

    /// Drops all that waits; how many frames.
    fn clear(&mut self) -> usize {
        self.begun = 0;
        let lost = self.frames.len();
        self.frames.clear();
        lost
    }
}
