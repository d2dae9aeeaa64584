//! The way out: frames one behind the other, of which the socket may take a part.

use super::way::{Sent, Way};
use crate::{Counters, DeviceError, DropReason, Transmitter};
use braidnet_message::{Message, Run};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A way out. What the socket has no room for waits in the [`Way`]'s queue.
pub struct QemuTransmitter {
    way: Arc<Way>,
    packet_max: usize,
    counters: Counters,
}

impl QemuTransmitter {
    pub fn new(way: Arc<Way>, packet_max: usize) -> QemuTransmitter {
        QemuTransmitter {
            way,
            packet_max,
            counters: Counters::default(),
        }
    }

    /// Why a packet cannot leave.
    fn refusal(&self, message: &Message) -> Option<DropReason> {
        match message.total_len() {
            0 => Some(DropReason::TransmitEmpty),
            length if length > self.packet_max => Some(DropReason::TransmitOversize),
            _ => None,
        }
    }
}

impl Transmitter for QemuTransmitter {
    /// Takes everything.
    fn transmit(&mut self, run: &mut Run) {
        if run.is_empty() {
            return;
        }
        let way = self.way.clone();
        let mut turn = way.turn();
        // Those that wait make room first.
        let earlier = turn.send();
        for message in run.drain() {
            if let Some(reason) = self.refusal(&message) {
                self.counters.count_drop(reason);
                continue;
            }
            let bytes = message.total_len();
            match turn.push(message) {
                Ok(()) => self.counters.count_packet(bytes),
                Err(_) => self.counters.count_drop(DropReason::TransmitFull),
            }
        }
        let later = match earlier {
            Sent::Part => Sent::Part,
            Sent::All | Sent::Gone(_) => turn.send(),
        };
        for sent in [earlier, later] {
            if let Sent::Gone(frames) = sent {
                self.counters
                    .count_drops(DropReason::DeviceGone, frames as u64);
            }
        }
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        let way = self.way.clone();
        Ok(Box::new(QemuTransmitter::new(way, self.packet_max)))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.way.socket())
    }

    /// What waits counts as carried, and is counted as dropped as well where the peer leaves without it, by whichever end finds that.
    fn counters(&self) -> Counters {
        self.counters
    }
}
