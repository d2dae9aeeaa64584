//! The way in: a stream that is read ahead, and cut into frames.

use super::way::{Sent, Way};
use super::{FRAME_MAX, LENGTH_LEN};
use crate::{Counters, DropReason, RECEIVE_HEADROOM, Receiver};
use braidnet_message::{Pool, Run};
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Bytes that are read ahead at most: the longest frame and its length, and several of the usual ones.
const AHEAD: usize = 128 << 10;

const _: () = assert!(AHEAD >= FRAME_MAX + LENGTH_LEN);

/// What has been read of the stream, and not handed up yet.
pub struct QemuReceiver {
    way: Arc<Way>,
    packet_max: usize,
    buffer: Box<[u8]>,
    /// Where the unread part of `buffer` begins and ends.
    start: usize,
    end: usize,
    gone: bool,
    counters: Counters,
}

/// What stands at the front of what has been read.
enum Front {
    /// A frame of so many bytes, all of which are there.
    Frame(usize),
    /// Less than that.
    Part,
    /// A length that no frame has.
    Absurd,
}

impl QemuReceiver {
    pub fn new(way: Arc<Way>, packet_max: usize) -> QemuReceiver {
        QemuReceiver {
            way,
            packet_max,
            buffer: vec![0; AHEAD].into(),
            start: 0,
            end: 0,
            gone: false,
            counters: Counters::default(),
        }
    }

    fn unread(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    fn front(&self) -> Front {
        let Some((length, rest)) = self.unread().split_first_chunk::<LENGTH_LEN>() else {
            return Front::Part;
        };
        match u32::from_be_bytes(*length) as usize {
            length if length > FRAME_MAX => Front::Absurd,
            length if length > rest.len() => Front::Part,
            length => Front::Frame(length),
        }
    }

    /// Reads on; whether anything came.
    fn read(&mut self) -> bool {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        loop {
            match self.way.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.end_of_stream(),
                Ok(read) => {
                    self.end += read;
                    return true;
                }
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => {}
                Err(_) => self.end_of_stream(),
            }
            return false;
        }
    }

    /// Nothing more comes; a frame of which a part has come is lost.
    fn end_of_stream(&mut self) {
        self.gone = true;
        if self.start < self.end {
            self.counters
                .count_drop(DropReason::ReceiveFramingMalformed);
            self.start = self.end;
        }
    }
}

impl Receiver for QemuReceiver {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        // What waits to leave leaves as soon as it can, also if nothing else is sent.
        if let Some(mut turn) = self.way.try_turn()
            && let Sent::Gone(frames) = turn.send()
        {
            self.counters
                .count_drops(DropReason::DeviceGone, frames as u64);
        }
        let (mut taken, mut looked_at, mut has_read) = (0, 0, false);
        while looked_at < max && !self.gone {
            match self.front() {
                Front::Frame(length) => {
                    looked_at += 1;
                    let frame = &self.unread()[LENGTH_LEN..LENGTH_LEN + length];
                    if length == 0 {
                        self.counters
                            .count_drop(DropReason::ReceiveFramingMalformed);
                    } else if length > self.packet_max {
                        self.counters.count_drop(DropReason::ReceiveOversize);
                    } else {
                        let Some(message) = pool.copy_from_slice(RECEIVE_HEADROOM, frame) else {
                            break;
                        };
                        into.push(message);
                        self.counters.count_packet(length);
                        taken += 1;
                    }
                    self.start += LENGTH_LEN + length;
                }
                Front::Part => {
                    // One call, and no longer, whatever the peer goes on to send.
                    if has_read || !self.read() {
                        break;
                    }
                    has_read = true;
                }
                Front::Absurd => {
                    self.counters.count_drop(DropReason::ReceiveFramingLost);
                    self.gone = true;
                    self.start = self.end;
                    self.way.shut_down();
                }
            }
        }
        taken
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.way.wakening())
    }

    /// What has been read ahead no descriptor tells.
    fn has_waiting(&self) -> bool {
        !self.gone && !matches!(self.front(), Front::Part)
    }

    fn is_gone(&self) -> bool {
        self.gone
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
