//! The far end's ear: what the stack sends over TCP.

use super::frame::{Refused, unwrap};
use super::line::Line;
use super::{Counts, Role, Shared};
use crate::tally::Tally;
use braidnet_device::{Counters, DeviceError, Transmitter};
use braidnet_message::{Message, Run};
use braidnet_wire::tcp::{self, PROTOCOL, TcpFlags, TcpHeader};
use core::sync::atomic::Ordering;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// A way out of the stack: takes everything at once, notes it in the connections' lines, and lets the receivers know.
pub(super) struct TcpTransmitter {
    shared: Arc<Shared>,
    counters: Counters,
}

/// What one call has found, added to what all share at its end.
#[derive(Default)]
struct Found {
    taken: u64,
    out_of_order: u64,
    bytes: u64,
    tally: Tally,
}

impl TcpTransmitter {
    pub(super) fn new(shared: Arc<Shared>) -> TcpTransmitter {
        TcpTransmitter {
            shared,
            counters: Counters::default(),
        }
    }
}

impl Shared {
    #[inline]
    fn hear(&self, message: &mut Message, found: &mut Found) -> Result<(), Refused> {
        unwrap(message, PROTOCOL, self.checksum)?;
        let parsed = tcp::parse(message.bytes()).map_err(|_| Refused::Unreadable)?;
        let Some((number, line)) = self.lines.by_port(parsed.destination_port) else {
            return Err(Refused::Unreadable);
        };
        let header = parsed.header;
        if header
            .flags
            .intersects(TcpFlags::SYN.union(TcpFlags::RST).union(TcpFlags::FIN))
        {
            self.hear_control(number, line, &header);
            return Ok(());
        }
        message.strip(parsed.header_len);
        let len = message.total_len();
        line.acknowledged_by(&header, len > 0);
        if len > 0 {
            self.take(number, line, (&header, message), found);
        }
        Ok(())
    }

    #[cold]
    fn hear_control(&self, number: u32, line: &Line, header: &TcpHeader) {
        if header.flags.contains(TcpFlags::RST) {
            line.set_reset();
            Counts::add(&self.counts.reset, 1);
        } else if header.flags.contains(TcpFlags::SYN.union(TcpFlags::ACK)) {
            line.opened(header);
            self.lines.mark(number);
        }
    }

    #[inline]
    fn take(
        &self,
        number: u32,
        line: &Line,
        (header, message): (&TcpHeader, &Message),
        found: &mut Found,
    ) {
        found.taken += 1;
        self.lines.mark(number);
        let Some(mut position) = line.take(header.seq.value(), message.total_len()) else {
            found.out_of_order += 1;
            return;
        };
        for block in message.blocks() {
            found.tally.stream(&self.scope, number, position, block);
            position += block.len() as u64;
            found.bytes += block.len() as u64;
        }
    }

    fn note(&self, found: &Found) {
        let counts = &self.counts;
        Counts::add(&counts.taken, found.taken);
        Counts::add(&counts.out_of_order, found.out_of_order);
        Counts::add(&counts.bytes, found.bytes);
        if found.tally.samples > 0 {
            counts.hash.fetch_add(found.tally.hash, Ordering::Relaxed);
            counts
                .samples
                .fetch_add(found.tally.samples, Ordering::Release);
        }
    }
}

impl Transmitter for TcpTransmitter {
    fn transmit(&mut self, run: &mut Run) {
        let mut found = Found::default();
        for mut message in run.drain() {
            self.counters.count_packet(message.total_len());
            match self.shared.hear(&mut message, &mut found) {
                Ok(()) => {}
                Err(Refused::Unreadable) => Counts::add(&self.shared.counts.unknown, 1),
                Err(Refused::Checksum) => Counts::add(&self.shared.counts.bad_checksum, 1),
            }
        }
        if self.shared.role == Role::Receiver {
            self.shared.note(&found);
        }
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        Ok(Box::new(TcpTransmitter::new(self.shared.clone())))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        self.counters
    }
}
