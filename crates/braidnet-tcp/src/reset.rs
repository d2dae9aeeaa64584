//! Segments for which there is no connection (RFC 9293 §3.10.7.1) and what a listener makes of one (§3.10.7.2).

use crate::DropReason;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};

/// The RST that answers a segment without a connection (RFC 9293 §3.10.7.1), or `None`: a RST is never answered.
///
/// `payload_len` is the length of the segment's data in bytes.
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
    if header.flags.contains(TcpFlags::ACK) {
        return Some(TcpHeader {
            seq: header.ack,
            flags: TcpFlags::RST,
            ..TcpHeader::default()
        });
    }
    let syn = u32::from(header.flags.contains(TcpFlags::SYN));
    let fin = u32::from(header.flags.contains(TcpFlags::FIN));
    Some(TcpHeader {
        seq: SeqNumber::new(0),
        ack: header.seq + payload_len + syn + fin,
        flags: TcpFlags::RST.union(TcpFlags::ACK),
        ..TcpHeader::default()
    })
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
