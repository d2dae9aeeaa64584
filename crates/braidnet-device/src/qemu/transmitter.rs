//! The way out: frames one behind the other, of which the socket may take a part.

use super::way::{Sent, Way};
use crate::{Counters, DeviceError, DropReason, Transmitter};
use braidnet_message::{Message, Run};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A way out. Nothing waits for room in the socket but the rest of a frame that has begun, which the [`Way`] keeps: as on any wire that is slower than whoever sends, the
/// others are lost.
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
    fn transmit(&mut self, run: &mut Run) {
        if run.is_empty() {
            return;
        }
        let way = self.way.clone();
        let mut turn = way.turn();
        let mut before = turn.go_on();
        for message in run.iter() {
            if let Some(reason) = self.refusal(message) {
                self.counters.count_drop(reason);
                continue;
            }
            let sent = match before {
                Sent::All => turn.frame(message),
                // Nothing passes a frame that has begun.
                Sent::Some(_) => Sent::Some(0),
                Sent::Gone => Sent::Gone,
            };
            match sent {
                Sent::All | Sent::Some(1..) => self.counters.count_packet(message.total_len()),
                Sent::Some(0) => self.counters.count_drop(DropReason::TransmitFull),
                Sent::Gone => self.counters.count_drop(DropReason::DeviceGone),
            }
            before = sent;
        }
        run.clear();
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        let way = self.way.clone();
        Ok(Box::new(QemuTransmitter::new(way, self.packet_max)))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.way.socket())
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
