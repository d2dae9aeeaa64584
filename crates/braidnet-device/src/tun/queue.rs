//! The two directions of an open TUN or TAP device.

use super::Attachment;
use crate::{Counters, DeviceError, DropReason, RECEIVE_HEADROOM, Receiver, Transmitter};
use braidnet_message::{Message, Pool, Run};
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// Blocks of one message that go to the system without being gathered first.
const BLOCKS_MAX: usize = 16;

/// The way in: one `read` per packet, straight into a pool's buffer.
pub struct TunReceiver {
    attachment: Arc<Attachment>,
    packet_max: usize,
    gone: bool,
    counters: Counters,
}

/// What one `read` gave.
enum Read {
    Packet(Message),
    Dropped,
    Nothing,
}

impl TunReceiver {
    pub fn new(attachment: Arc<Attachment>, packet_max: usize) -> Self {
        TunReceiver {
            attachment,
            packet_max,
            gone: false,
            counters: Counters::default(),
        }
    }

    fn read(&mut self, pool: &mut Pool) -> Read {
        // The system cuts what does not fit without a word: one byte more than can be shows it.
        let room = self.packet_max + 1;
        let Some(mut message) = pool.allocate(RECEIVE_HEADROOM, room) else {
            return Read::Nothing;
        };
        let Some(buffer) = message.append(room) else {
            return Read::Nothing;
        };
        match retry(|| rustix::io::read(&self.attachment.fd, &mut *buffer)) {
            Ok(length) if length > self.packet_max => {
                self.counters.count_drop(DropReason::ReceiveOversize);
                Read::Dropped
            }
            Ok(length) => {
                message.truncate(length);
                self.counters.count_packet(length);
                Read::Packet(message)
            }
            Err(Errno::BADFD | Errno::BADF | Errno::NODEV) => {
                self.gone = true;
                Read::Nothing
            }
            // EAGAIN: nothing waits. Anything else passes (the interface is down, memory is short) and loses nothing.
            Err(_) => Read::Nothing,
        }
    }
}

impl Receiver for TunReceiver {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let mut taken = 0;
        while taken < max && !self.gone {
            match self.read(pool) {
                Read::Packet(message) => {
                    into.push(message);
                    taken += 1;
                }
                Read::Dropped => {}
                Read::Nothing => break,
            }
        }
        taken
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.attachment.fd.as_fd())
    }

    fn is_gone(&self) -> bool {
        self.gone
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// A way out: one `writev` per packet, without copying its blocks together.
pub struct TunTransmitter {
    attachment: Arc<Attachment>,
    packet_max: usize,
    /// Where messages of more than [`BLOCKS_MAX`] blocks are put together.
    gathered: Vec<u8>,
    counters: Counters,
}

/// What became of one packet.
enum Written {
    Sent(usize),
    Dropped(DropReason),
    Later,
}

impl TunTransmitter {
    pub fn new(attachment: Arc<Attachment>, packet_max: usize) -> Self {
        TunTransmitter {
            attachment,
            packet_max,
            gathered: Vec::new(),
            counters: Counters::default(),
        }
    }

    fn write(&mut self, message: &Message) -> Written {
        let length = message.total_len();
        if length == 0 {
            return Written::Dropped(DropReason::TransmitEmpty);
        }
        if length > self.packet_max {
            return Written::Dropped(DropReason::TransmitOversize);
        }
        let mut slices = [IoSlice::new(&[]); BLOCKS_MAX];
        let mut count = 0;
        for block in message.blocks() {
            if let Some(slice) = slices.get_mut(count) {
                *slice = IoSlice::new(block);
            }
            count += 1;
        }
        let result = match slices.get(..count) {
            Some(slices) => retry(|| rustix::io::writev(&self.attachment.fd, slices)),
            None => {
                self.gathered.clear();
                message
                    .blocks()
                    .for_each(|block| self.gathered.extend_from_slice(block));
                retry(|| rustix::io::write(&self.attachment.fd, &self.gathered))
            }
        };
        match result {
            Ok(_) => Written::Sent(length),
            Err(Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM) => Written::Later,
            Err(error) => Written::Dropped(reason(error)),
        }
    }
}

/// What the driver means by its errors (`tun_get_user`).
fn reason(error: Errno) -> DropReason {
    match error {
        Errno::IO => DropReason::InterfaceDown,
        Errno::BADFD | Errno::BADF | Errno::NODEV => DropReason::DeviceGone,
        Errno::INVAL => DropReason::TransmitMalformed,
        Errno::MSGSIZE | Errno::TOOBIG => DropReason::TransmitOversize,
        _ => DropReason::TransmitRefused,
    }
}

impl Transmitter for TunTransmitter {
    fn transmit(&mut self, run: &mut Run) {
        let mut taken = 0;
        for message in run.iter() {
            match self.write(message) {
                Written::Sent(length) => self.counters.count_packet(length),
                Written::Dropped(reason) => self.counters.count_drop(reason),
                Written::Later => break,
            }
            taken += 1;
        }
        drop_front(run, taken);
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        Ok(Box::new(TunTransmitter::new(
            self.attachment.clone(),
            self.packet_max,
        )))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.attachment.fd.as_fd())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}

/// Drops the first `count` messages of `run`.
fn drop_front(run: &mut Run, count: usize) {
    if count == run.len() {
        run.clear();
        return;
    }
    let mut seen = 0;
    run.retain_mut(|_| {
        seen += 1;
        seen > count
    });
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_message::Arena;

    #[test]
    fn what_was_not_taken_stays_in_order() {
        let mut pool = Pool::new(&Arena::new(1 << 20));
        for count in 0..=4 {
            let mut run: Run = (0..4u8)
                .map(|number| pool.copy_from_slice(0, &[number]).expect("room"))
                .collect();
            drop_front(&mut run, count);
            let left: Vec<u8> = run.iter().map(|message| message.bytes()[0]).collect();
            assert_eq!(left, (count as u8..4).collect::<Vec<_>>());
        }
    }

    #[test]
    fn every_error_of_the_driver_has_a_name() {
        let rows = [
            (Errno::IO, DropReason::InterfaceDown),
            (Errno::BADFD, DropReason::DeviceGone),
            (Errno::INVAL, DropReason::TransmitMalformed),
            (Errno::MSGSIZE, DropReason::TransmitOversize),
            (Errno::PERM, DropReason::TransmitRefused),
        ];
        for (error, expected) in rows {
            assert_eq!(reason(error), expected);
        }
    }
}
