//! ICMP for IPv4 (RFC 792).
//!
//! ```
//! use braidnet_wire::icmpv4::{self, Echo, Icmpv4};
//!
//! let request = Icmpv4::EchoRequest(Echo { identifier: 7, sequence: 1, data: b"ping" });
//! let mut message = [0; 12];
//! assert_eq!(icmpv4::emit(&request, &mut message), 12);
//! assert_eq!(icmpv4::parse(&message), Ok(request));
//!
//! icmpv4::answer_echo(&mut message).expect("a request");
//! let reply = Icmpv4::EchoReply(Echo { identifier: 7, sequence: 1, data: b"ping" });
//! assert_eq!(icmpv4::parse(&message), Ok(reply));
//! ```

mod quoted;

pub use quoted::Quoted;

use crate::bytes::u16_at;
use crate::checksum::{Sum, copy_and_sum};
use crate::refusal::refusals;

/// ICMP's protocol number (RFC 792).
pub const PROTOCOL: u8 = 1;
/// Length in bytes of what stands before an echo's data or a quoted packet.
pub const HEADER_LEN: usize = 8;
/// The most bytes of a packet that an error quotes, so that the error with its headers stays within 576 bytes (RFC 1812
/// §4.3.2.3).
pub const MAX_QUOTED_LEN: usize = 576 - 20 - HEADER_LEN;

const ECHO_REPLY: u8 = 0;
const UNREACHABLE: u8 = 3;
const ECHO_REQUEST: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;

/// Codes of "destination unreachable" (RFC 792, RFC 1122 §3.2.2.1).
pub mod unreachable {
    /// Network unreachable.
    pub const NETWORK: u8 = 0;
    /// Host unreachable.
    pub const HOST: u8 = 1;
    /// The host does not speak the protocol.
    pub const PROTOCOL: u8 = 2;
    /// Nobody listens on the port.
    pub const PORT: u8 = 3;
    /// Too long for a link, and not to be fragmented (RFC 1191 §4).
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    /// The network is forbidden (RFC 1122 §3.2.2.1).
    pub const NETWORK_PROHIBITED: u8 = 9;
    /// The host is forbidden (RFC 1122 §3.2.2.1).
    pub const HOST_PROHIBITED: u8 = 10;
    /// Forbidden by a filter (RFC 1812 §5.2.7.1).
    pub const ADMINISTRATIVELY_PROHIBITED: u8 = 13;
}

refusals! {
    /// Why an ICMP message is refused.
    pub enum Icmpv4Error {
        /// Fewer than 8 bytes.
        Truncated: "icmpv4_truncated", "shorter than an ICMP header";
        /// The checksum does not match.
        Checksum: "icmpv4_checksum_wrong", "ICMP checksum wrong";
        /// A type that this stack has no use for (RFC 1122 §3.2.2: silently discarded).
        UnknownType: "icmpv4_type_unknown", "unknown ICMP type";
        /// An echo with a code other than 0.
        EchoCode: "icmpv4_echo_code_wrong", "ICMP echo with a code other than 0";
        /// A quoted packet without a whole IP header and 8 bytes of its payload (RFC 792).
        QuotedTruncated: "icmpv4_quoted_truncated", "ICMP error quotes too little";
        /// A quoted packet that is not IPv4, or whose header length is less than 5 words.
        QuotedHeader: "icmpv4_quoted_header_bad", "ICMP error quotes no IPv4 packet";
        /// An error about an error, which no host sends (RFC 1122 §3.2.2).
        ErrorAboutError: "icmpv4_error_about_error", "ICMP error about an ICMP error";
    }
}

/// An ICMP message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Icmpv4<'a> {
    /// Please send this back.
    EchoRequest(Echo<'a>),
    /// Sent back.
    EchoReply(Echo<'a>),
    /// The quoted packet was not delivered.
    Unreachable {
        /// Why: a value of [`mod@unreachable`] or another.
        code: u8,
        /// The next hop's MTU in bytes with [`unreachable::FRAGMENTATION_NEEDED`], as on the wire: 0 from routers that
        /// do not know RFC 1191, and anything from forgers. Unused with other codes.
        next_hop_mtu: u16,
        /// The packet that it is about.
        quoted: Quoted<'a>,
    },
    /// The quoted packet ran out of hops (code 0) or waited too long for its other fragments (code 1).
    TimeExceeded {
        /// 0 or 1, unless the sender errs.
        code: u8,
        /// The packet that it is about.
        quoted: Quoted<'a>,
    },
    /// The quoted packet's header is wrong.
    ParameterProblem {
        /// 0 if `pointer` tells where.
        code: u8,
        /// Which byte of the quoted packet is wrong.
        pointer: u8,
        /// The packet that it is about.
        quoted: Quoted<'a>,
    },
}

/// What an echo carries to and fro.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Echo<'a> {
    /// Tells pinging processes apart.
    pub identifier: u16,
    /// Tells their pings apart.
    pub sequence: u16,
    /// To be sent back as it is.
    pub data: &'a [u8],
}

/// Parses a message, which ends where the IP payload ends, and verifies its checksum.
///
/// Codes of errors are not judged, nor whether the quoted packet is one that this host sent.
///
/// # Errors
///
/// An [`Icmpv4Error`].
pub fn parse(message: &[u8]) -> Result<Icmpv4<'_>, Icmpv4Error> {
    let (fixed, data) = message
        .split_first_chunk::<HEADER_LEN>()
        .ok_or(Icmpv4Error::Truncated)?;
    if !Sum::of(message).is_valid() {
        return Err(Icmpv4Error::Checksum);
    }
    let code = fixed[1];
    let echo = || match code {
        0 => Ok(Echo {
            identifier: u16_at(fixed, 4),
            sequence: u16_at(fixed, 6),
            data,
        }),
        _ => Err(Icmpv4Error::EchoCode),
    };
    Ok(match fixed[0] {
        ECHO_REQUEST => Icmpv4::EchoRequest(echo()?),
        ECHO_REPLY => Icmpv4::EchoReply(echo()?),
        UNREACHABLE => Icmpv4::Unreachable {
            code,
            next_hop_mtu: u16_at(fixed, 6),
            quoted: Quoted::parse(data)?,
        },
        TIME_EXCEEDED => Icmpv4::TimeExceeded {
            code,
            quoted: Quoted::parse(data)?,
        },
        PARAMETER_PROBLEM => Icmpv4::ParameterProblem {
            code,
            pointer: fixed[4],
            quoted: Quoted::parse(data)?,
        },
        _ => return Err(Icmpv4Error::UnknownType),
    })
}

/// Length in bytes that [`emit`] gives this message.
pub fn message_len(message: &Icmpv4<'_>) -> usize {
    HEADER_LEN + body(message).len()
}

/// Writes the message with its checksum to the front of `out` and returns its length. Of a quoted packet at most
/// [`MAX_QUOTED_LEN`] bytes are written.
///
/// # Panics
///
/// If `out` is shorter than [`message_len`].
pub fn emit(message: &Icmpv4<'_>, out: &mut [u8]) -> usize {
    let len = message_len(message);
    let mut fixed = fixed_part(message);
    let (front, rest) = out[..len].split_at_mut(HEADER_LEN);
    let checksum = (Sum::of(&fixed) + copy_and_sum(rest, body(message))).finish_bytes();
    fixed[2..4].copy_from_slice(&checksum);
    front.copy_from_slice(&fixed);
    len
}

/// Turns an echo request into its reply, in place (RFC 1122 §3.2.2.6: with the same data). The checksum is updated, not
/// made again: if the data was damaged on the way, it stays wrong.
///
/// # Errors
///
/// [`Icmpv4Error::Truncated`], [`Icmpv4Error::EchoCode`], or [`Icmpv4Error::UnknownType`] if it is no echo request.
pub fn answer_echo(message: &mut [u8]) -> Result<(), Icmpv4Error> {
    let fixed = message
        .first_chunk_mut::<HEADER_LEN>()
        .ok_or(Icmpv4Error::Truncated)?;
    match *fixed {
        [ECHO_REQUEST, 0, high, low, ..] => {
            let request = Sum::from_checksum([high, low]);
            let reply = request.replace(Sum::of(&[ECHO_REQUEST, 0]), Sum::of(&[ECHO_REPLY, 0]));
            fixed[0] = ECHO_REPLY;
            // All ones are as good as zero, and the reply to a request of nothing but zeros needs them: bytes that are
            // all zero are not valid.
            fixed[2..4].copy_from_slice(&reply.finish_nonzero_bytes());
            Ok(())
        }
        [ECHO_REQUEST, ..] => Err(Icmpv4Error::EchoCode),
        _ => Err(Icmpv4Error::UnknownType),
    }
}

/// Whether messages of this type report an error about a packet that they quote. Types that this stack does not know
/// count too where an RFC defines them so: source quench and redirect.
pub(crate) const fn is_error(message_type: u8) -> bool {
    matches!(
        message_type,
        UNREACHABLE | 4 | 5 | TIME_EXCEEDED | PARAMETER_PROBLEM
    )
}

/// The header with a checksum of 0.
fn fixed_part(message: &Icmpv4<'_>) -> [u8; HEADER_LEN] {
    let echo = |message_type, echo: &Echo<'_>| {
        let ([a, b], [c, d]) = (echo.identifier.to_be_bytes(), echo.sequence.to_be_bytes());
        [message_type, 0, 0, 0, a, b, c, d]
    };
    match message {
        Icmpv4::EchoRequest(request) => echo(ECHO_REQUEST, request),
        Icmpv4::EchoReply(reply) => echo(ECHO_REPLY, reply),
        Icmpv4::Unreachable {
            code, next_hop_mtu, ..
        } => {
            let [high, low] = next_hop_mtu.to_be_bytes();
            [UNREACHABLE, *code, 0, 0, 0, 0, high, low]
        }
        Icmpv4::TimeExceeded { code, .. } => [TIME_EXCEEDED, *code, 0, 0, 0, 0, 0, 0],
        Icmpv4::ParameterProblem { code, pointer, .. } => {
            [PARAMETER_PROBLEM, *code, 0, 0, *pointer, 0, 0, 0]
        }
    }
}

/// What follows the header.
fn body<'a>(message: &Icmpv4<'a>) -> &'a [u8] {
    match message {
        Icmpv4::EchoRequest(echo) | Icmpv4::EchoReply(echo) => echo.data,
        Icmpv4::Unreachable { quoted, .. }
        | Icmpv4::TimeExceeded { quoted, .. }
        | Icmpv4::ParameterProblem { quoted, .. } => {
            &quoted.packet[..quoted.packet.len().min(MAX_QUOTED_LEN)]
        }
    }
}

#[cfg(test)]
mod tests;
