//! Segments for which there is no connection (RFC 9293 §3.10.7.1), what a listener makes of one (§3.10.7.2), and the resets of connections.

use crate::{DropReason, Events, Payload, Tcb};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use braidnet_wire::time::Instant;

/// The RST that answers a segment without a connection (RFC 9293 §3.10.7.1), or `None`: a RST is never answered.
///
/// `payload_len` is the length of the segment's data in bytes. A segment with timestamps, unless it is a SYN-ACK, is answered with some: 0, and an echo of its own
/// (RFC 7323 §5.2).
///
/// ```
/// use braidnet_tcp::reset_for;
/// use braidnet_wire::{seq::SeqNumber, tcp::{TcpFlags, TcpHeader}};
/// let syn = TcpHeader { seq: SeqNumber::new(99), flags: TcpFlags::SYN, ..TcpHeader::default() };
/// let reset = reset_for(&syn, 0).expect("a SYN is answered");
/// assert_eq!((reset.seq, reset.ack), (SeqNumber::new(0), SeqNumber::new(100)));
/// ```
pub fn reset_for(header: &TcpHeader, payload_len: u32) -> Option<TcpHeader> {
    if header.flags.contains(TcpFlags::RST) {
        return None;
    }
    let syn = u32::from(header.flags.contains(TcpFlags::SYN));
    let fin = u32::from(header.flags.contains(TcpFlags::FIN));
    let mut reset = match header.flags.contains(TcpFlags::ACK) {
        true => TcpHeader {
            seq: header.ack,
            flags: TcpFlags::RST,
            ..TcpHeader::default()
        },
        false => TcpHeader {
            seq: SeqNumber::new(0),
            ack: header.seq + payload_len + syn + fin,
            flags: TcpFlags::RST.union(TcpFlags::ACK),
            ..TcpHeader::default()
        },
    };
    if let Some(echo) = echo_in_reset(header) {
        put_echo(&mut reset, echo);
    }
    Some(reset)
}

/// What a RST that answers this segment echoes: its timestamp (RFC 7323 §5.2).
///
/// Nothing of a SYN-ACK: Linux, in SYN-RECEIVED, holds the timestamp of a RST against the one of the SYN, takes 0 for an old one, and goes on sending.
fn echo_in_reset(header: &TcpHeader) -> Option<u32> {
    let syn_ack = TcpFlags::SYN.union(TcpFlags::ACK);
    let has_one = header.has(TcpHeader::HAS_TIMESTAMPS) && !header.flags.contains(syn_ack);
    has_one.then_some(header.ts_value)
}

/// Puts the timestamps of an answer on a RST: its own is 0 (RFC 7323 §5.2).
fn put_echo(reset: &mut TcpHeader, echo: u32) {
    reset.present |= TcpHeader::HAS_TIMESTAMPS;
    (reset.ts_value, reset.ts_echo) = (0, echo);
}

/// A RST of a connection that waits to be sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reset {
    seq: SeqNumber,
    /// With an ACK of RCV.NXT.
    with_ack: bool,
    cause: Cause,
}

/// Why a RST is sent, which says what timestamps it has.
#[derive(Clone, Copy, Debug)]
enum Cause {
    /// The user aborts, or time is up: those of any other segment (RFC 7323 §3.2).
    Ours,
    /// It answers a segment, of which it echoes this (§5.2).
    Segment(Option<u32>),
}

impl<P: Payload> Tcb<P> {
    /// The connection is over, and the peer is told by a RST.
    pub(crate) fn reset_peer(&mut self, events: &mut Events) {
        self.end(events);
        self.connection.reset = Some(Reset {
            seq: self.sender.snd_nxt,
            with_ack: true,
            cause: Cause::Ours,
        });
    }

    /// The same, because of this segment.
    pub(crate) fn reset_sender_of(&mut self, header: &TcpHeader, events: &mut Events) {
        self.end(events);
        let echo = echo_in_reset(header).filter(|_| self.connection.timestamps);
        self.connection.reset = Some(Reset {
            seq: self.sender.snd_nxt,
            with_ack: true,
            cause: Cause::Segment(echo),
        });
    }

    /// Before the handshake is over, what acknowledges something else is answered with a RST, and nothing changes here.
    pub(crate) fn refuse_ack(&mut self, header: &TcpHeader) {
        self.connection.reset = Some(Reset {
            seq: header.ack,
            with_ack: false,
            cause: Cause::Segment(echo_in_reset(header)),
        });
    }

    pub(crate) fn reset_header(&self, now: Instant, reset: Reset) -> TcpHeader {
        let mut header = TcpHeader {
            seq: reset.seq,
            flags: TcpFlags::RST,
            ..TcpHeader::default()
        };
        if reset.with_ack {
            header.flags = TcpFlags::RST.union(TcpFlags::ACK);
            header.ack = self.receiver.rcv_nxt;
        }
        match reset.cause {
            Cause::Segment(Some(echo)) => put_echo(&mut header, echo),
            Cause::Ours if self.connection.timestamps => {
                header.present |= TcpHeader::HAS_TIMESTAMPS;
                header.ts_value = self.connection.ts_value(now);
                header.ts_echo = self.receiver.ts_recent;
            }
            Cause::Ours | Cause::Segment(None) => {}
        }
        header
    }
}

/// What a listener does with a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Listen {
    /// Nothing, for this reason.
    Ignore(DropReason),
    /// Answer with [`reset_for`].
    Reset,
    /// Open a connection with [`Tcb::accept`](crate::Tcb::accept).
    Accept,
}

/// What a listener does with a segment (RFC 9293 §3.10.7.2).
///
/// A SYN is a SYN whatever else it carries: FIN, URG, PSH and the ECN bits mean nothing here.
pub fn listen(header: &TcpHeader) -> Listen {
    if header.flags.contains(TcpFlags::RST) {
        Listen::Ignore(DropReason::ResetWithoutConnection)
    } else if header.flags.contains(TcpFlags::ACK) {
        Listen::Reset
    } else if header.flags.contains(TcpFlags::SYN) {
        Listen::Accept
    } else {
        Listen::Ignore(DropReason::Closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYN: u8 = TcpFlags::SYN.0;
    const ACK: u8 = TcpFlags::ACK.0;
    const FIN: u8 = TcpFlags::FIN.0;
    const RST: u8 = TcpFlags::RST.0;
    const XMAS: u8 = FIN | TcpFlags::URG.0 | TcpFlags::PSH.0;

    fn header(flags: u8) -> TcpHeader {
        TcpHeader {
            seq: SeqNumber::new(u32::MAX),
            ack: SeqNumber::new(7),
            flags: TcpFlags(flags),
            ..TcpHeader::default()
        }
    }

    #[test]
    fn resets() {
        // Flags and length of the segment; sequence number, ACK number and flags of the answer.
        let table = [
            (RST, 0, None),
            (RST | ACK, 5, None),
            (SYN | RST, 0, None),
            (ACK, 5, Some((7, 0, RST))),
            (SYN | ACK, 0, Some((7, 0, RST))),
            (SYN, 0, Some((0, 0, RST | ACK))),
            (SYN | FIN, 1, Some((0, 2, RST | ACK))),
            (0, 0, Some((0, u32::MAX, RST | ACK))),
            (XMAS, 3, Some((0, 3, RST | ACK))),
        ];
        for (flags, len, expected) in table {
            let answer = reset_for(&header(flags), len)
                .map(|reset| (reset.seq.value(), reset.ack.value(), reset.flags.0));
            assert_eq!(answer, expected, "{flags:#x}");
        }
    }

    #[test]
    fn what_a_reset_echoes() {
        // Flags of the segment, and whether the answer has timestamps.
        let table = [
            (ACK, true),
            (FIN | ACK, true),
            (SYN, true),
            (0, true),
            (SYN | ACK, false),
        ];
        for (flags, echoed) in table {
            let mut segment = header(flags);
            let plain = reset_for(&segment, 0).unwrap();
            assert!(!plain.has(TcpHeader::HAS_TIMESTAMPS), "{flags:#x}");
            segment.present |= TcpHeader::HAS_TIMESTAMPS;
            (segment.ts_value, segment.ts_echo) = (5, 9);
            let reset = reset_for(&segment, 0).unwrap();
            assert_eq!(reset.has(TcpHeader::HAS_TIMESTAMPS), echoed, "{flags:#x}");
            let echo = if echoed { 5 } else { 0 };
            assert_eq!((reset.ts_value, reset.ts_echo), (0, echo), "{flags:#x}");
        }
    }

    #[test]
    fn listeners() {
        let table = [
            (RST, Listen::Ignore(DropReason::ResetWithoutConnection)),
            (
                SYN | RST,
                Listen::Ignore(DropReason::ResetWithoutConnection),
            ),
            (ACK, Listen::Reset),
            (SYN | ACK, Listen::Reset),
            (SYN, Listen::Accept),
            (SYN | TcpFlags::ECE.0 | TcpFlags::CWR.0, Listen::Accept),
            (SYN | FIN, Listen::Accept),
            (SYN | XMAS, Listen::Accept),
            (0, Listen::Ignore(DropReason::Closed)),
            (XMAS, Listen::Ignore(DropReason::Closed)),
        ];
        for (flags, expected) in table {
            assert_eq!(listen(&header(flags)), expected, "{flags:#x}");
        }
    }
}
