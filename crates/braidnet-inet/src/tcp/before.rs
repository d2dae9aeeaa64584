//! The order-free part on the way up.

use super::{BAD_ADDRESS, BAD_CHECKSUM, MALFORMED, Tcp};
use crate::notes::{Arrival, Datagram};
use crate::sum;
use braidnet_message::{Message, Run};
use braidnet_stream::{Context, Counter};
use braidnet_wire::address::Tuple;
use braidnet_wire::checksum::Sum;
use braidnet_wire::tcp::{self, PROTOCOL, Parsed};

impl Tcp {
    /// Parses and verifies a run, and leaves an [`Arrival`] in each message of it; the rest is dropped by name.
    pub(super) fn parse(&self, run: &mut Run, cx: &mut Context<'_>) {
        run.retain_mut(|message| match self.parse_one(message, cx) {
            Ok(()) => true,
            Err(reason) => {
                cx.count(reason, 1);
                false
            }
        });
    }

    #[inline]
    fn parse_one(&self, message: &mut Message, cx: &mut Context<'_>) -> Result<(), Counter> {
        let datagram = message.note::<Datagram>();
        if message.len() < tcp::MIN_HEADER_LEN && !message.pull_up(tcp::MIN_HEADER_LEN, cx.pool()) {
            return Err(MALFORMED);
        }
        match tcp::parse_usual(message.bytes()) {
            Some(parsed) => self.enter(parsed, &datagram, message),
            None => self.parse_unusual(&datagram, message, cx),
        }
    }

    /// A header with options other than the usual ones. If they lie in a later block, it is gathered.
    #[inline(never)]
    fn parse_unusual(
        &self,
        datagram: &Datagram,
        message: &mut Message,
        cx: &mut Context<'_>,
    ) -> Result<(), Counter> {
        let wanted = usize::from(message.bytes()[12] >> 4) * 4;
        message.pull_up(wanted, cx.pool());
        let parsed = tcp::parse(message.bytes()).map_err(|_| MALFORMED)?;
        self.enter(parsed, datagram, message)
    }

    /// Verifies a segment whose header is parsed, and leaves its [`Arrival`]. Inlined where the header was parsed, so that
    /// it goes from there to the note without a stop.
    #[inline(always)]
    fn enter(
        &self,
        parsed: Parsed,
        datagram: &Datagram,
        message: &mut Message,
    ) -> Result<(), Counter> {
        let Parsed {
            source_port,
            destination_port,
            header,
            header_len,
        } = parsed;
        if !self.leaves_checksums && !is_intact(message, datagram) {
            return Err(BAD_CHECKSUM);
        }
        if source_port == 0 || destination_port == 0 || datagram.flags & Datagram::BROADCAST != 0 {
            return Err(BAD_ADDRESS);
        }
        let tuple = Tuple {
            local: datagram.destination,
            remote: datagram.source,
            local_port: destination_port,
            remote_port: source_port,
        };
        let (bucket, hash) = self.flows.bucket_of(&tuple, PROTOCOL);
        message.strip(header_len);
        message.set_note(Arrival {
            header,
            tuple,
            hash,
        });
        message.set_bucket(bucket.0);
        Ok(())
    }
}

/// Whether the checksum over pseudo-header, header and data holds (RFC 9293 §3.1).
#[inline(always)]
fn is_intact(message: &Message, datagram: &Datagram) -> bool {
    let len = message.total_len() as u32;
    Sum::pseudo_header(&datagram.source, &datagram.destination, PROTOCOL, len)
        .combine(sum::read(message))
        .is_valid()
}
