//! ICMP for IPv4 (RFC 792): echoes are answered, refused datagrams reported, reports taken in.
//!
//! It keeps no state on the data path, so that any processor answers. Datagrams that nobody here wants come from
//! [`Ip`](crate::ip::Ip) (an unknown protocol, a packet for another host that cannot go on) and from UDP (a closed port); what may be said about them RFC 1122 §3.2.2
//! rules, and a limit how often.
//!
//! Errors that arrive are checked as far as can be done without the connection that they are about. What is about a segment of TCP, or a datagram of
//! UDP, goes on to it as a control message ([`News`]); anybody may forge one, so the connection itself finds out whether it is about a segment
//! that is on its way (RFC 5927 §4.1), and who sent datagrams whether any went there. What is about anything else is counted.

mod limit;

use crate::counters::counters;
use crate::flows::Flows;
use crate::interface::Interface;
use crate::limits::InetLimits;
use crate::live::Live;
use crate::notes::{Arrival, Datagram, News, Refusal};
use crate::room::{self, HEADROOM};
use crate::sift::{Verdict, sift};
use crate::sum;
use braidnet_message::{Kind, Message, Run};
use braidnet_stream::{Context, Direction, Module, Stages};
use braidnet_wire::checksum::Sum;
use braidnet_wire::icmpv4::{
    self, HEADER_LEN, Icmpv4, Icmpv4Error, MAX_QUOTED_LEN, PROTOCOL, Quoted, unreachable,
};
use braidnet_wire::ipv4;
use braidnet_wire::tcp::TcpHeader;
pub use limit::ErrorRate;
use limit::Limiter;
use std::sync::Arc;

/// The upper link to UDP.
pub(crate) const UP_UDP: u8 = 0;
/// The upper link to TCP.
pub(crate) const UP_TCP: u8 = 2;

/// The type of an echo request.
const ECHO_REQUEST: u8 = 8;

/// The ICMP module. It has no core.
pub struct Icmp {
    interface: Arc<Interface>,
    flows: Flows,
    limiter: Limiter,
}

counters! {
    /// What ICMP counts.
    enum Counted with Icmpv4Error {
        /// Echo requests answered.
        EchoAnswered: "echo_answered",
        /// Echo requests to a broadcast address (RFC 1122 §3.2.2.6 leaves them to us).
        EchoToBroadcast: "echo_to_broadcast",
        /// Echo replies: nobody here asks.
        EchoReply: "echo_reply",
        /// Errors that came to a broadcast address.
        ErrorToBroadcast: "error_to_broadcast",
        /// Errors about packets that this host did not send, or not to there.
        NotOurPacket: "quoted_not_ours",
        /// "Fragmentation needed" about a packet that is no longer than what it says there is room for.
        NotTooLong: "quoted_not_too_long",
        /// "Destination unreachable" about a packet of ours.
        Unreachable: "unreachable_received",
        /// "Fragmentation needed" about a packet of ours.
        FragmentationNeeded: "fragmentation_needed_received",
        /// "Time exceeded" about a packet of ours.
        TimeExceeded: "time_exceeded_received",
        /// "Parameter problem" about a packet of ours.
        ParameterProblem: "parameter_problem_received",
        /// Refused datagrams reported to their senders.
        UnreachableSent: "unreachable_sent",
        /// Datagrams whose other fragments did not come in time, and packets for others that had no hop left, reported to their senders.
        TimeExceededSent: "time_exceeded_sent",
        /// Refused datagrams not reported: too many were.
        Limited: "unreachable_limited",
        /// Refused datagrams not reported: they came to a broadcast address (RFC 1122 §3.2.2).
        Forbidden: "unreachable_forbidden",
        /// Refused datagrams not reported: the IP header is not in front of them any more, or they are too short to
        /// quote.
        Unquotable: "unreachable_unquotable",
        /// No buffer.
        NoBuffer: "no_buffer",
    }
}

impl Icmp {
    /// ICMP for `interface`, within these limits, which may change.
    pub(crate) fn new(
        interface: Arc<Interface>,
        flows: Flows,
        limits: Arc<Live<InetLimits>>,
    ) -> Icmp {
        Icmp {
            interface,
            flows,
            limiter: Limiter::new(limits),
        }
    }

    /// A datagram arrived: an ICMP message, or one for a protocol that nobody speaks.
    fn arrive(&self, message: &mut Message, cx: &mut Context<'_>) -> Verdict {
        let datagram = message.note::<Datagram>();
        if let Some(refused) = Refused::on_its_way(&datagram) {
            return self.report(message, refused, cx);
        }
        if datagram.protocol != PROTOCOL {
            return self.report(message, Refused::Protocol, cx);
        }
        // What is too short is refused by the parser.
        message.pull_up(HEADER_LEN, cx.pool());
        if message.bytes().first() == Some(&ECHO_REQUEST) {
            return self.answer(message, &datagram, cx);
        }
        if !message.pull_up(message.total_len(), cx.pool()) {
            return Verdict::drop(Counted::NoBuffer);
        }
        let (counted, news) = match icmpv4::parse(message.bytes()) {
            Ok(parsed) => self.judge(&parsed, &datagram),
            Err(refusal) => return Verdict::Drop(Counted::refusal(refusal)),
        };
        let Some((link, news)) = news else {
            return Verdict::drop(counted);
        };
        cx.count(counted.counter(), 1);
        message.truncate(0);
        message.set_kind(Kind::Control);
        message.set_note(news);
        Verdict::Up(link)
    }

    /// Turns an echo request into its reply, in place where the message may be written.
    fn answer(&self, message: &mut Message, datagram: &Datagram, cx: &mut Context<'_>) -> Verdict {
        if datagram.flags & Datagram::BROADCAST != 0 {
            return Verdict::drop(Counted::EchoToBroadcast);
        }
        let Some(mut header) = message.bytes().first_chunk::<HEADER_LEN>().copied() else {
            return Verdict::Drop(Counted::refusal(Icmpv4Error::Truncated));
        };
        if !sum::read(message).is_valid() {
            return Verdict::Drop(Counted::refusal(Icmpv4Error::Checksum));
        }
        if let Err(refusal) = icmpv4::answer_echo(&mut header) {
            return Verdict::Drop(Counted::refusal(refusal));
        }
        message.strip(HEADER_LEN);
        let Some(front) = room::prepend(message, HEADER_LEN, cx.pool()) else {
            return Verdict::drop(Counted::NoBuffer);
        };
        front.copy_from_slice(&header);
        message.set_note(Datagram {
            local: datagram.local,
            remote: datagram.remote,
            protocol: PROTOCOL,
            // RFC 1349 §5.1, RFC 1812 §4.3.2.5.
            differentiated_services: datagram.differentiated_services,
            ..Datagram::default()
        });
        cx.count(Counted::EchoAnswered.counter(), 1);
        Verdict::Down(0)
    }

    /// What a message that asks for no answer is counted as, and what it says of a segment of ours.
    fn judge(&self, message: &Icmpv4<'_>, datagram: &Datagram) -> (Counted, Option<(u8, News)>) {
        let (counted, what, quoted) = match message {
            Icmpv4::EchoRequest(_) | Icmpv4::EchoReply(_) => return (Counted::EchoReply, None),
            Icmpv4::Unreachable {
                code: unreachable::FRAGMENTATION_NEEDED,
                quoted,
                ..
            } => (Counted::FragmentationNeeded, News::TOO_LONG, quoted),
            Icmpv4::Unreachable { code, quoted, .. } => {
                (Counted::Unreachable, what_code_says(*code), quoted)
            }
            Icmpv4::TimeExceeded { quoted, .. } => {
                (Counted::TimeExceeded, News::UNDELIVERED, quoted)
            }
            Icmpv4::ParameterProblem { quoted, .. } => {
                (Counted::ParameterProblem, News::UNDELIVERED, quoted)
            }
        };
        if datagram.flags & Datagram::BROADCAST != 0 {
            return (Counted::ErrorToBroadcast, None);
        }
        if !self.sent(quoted, datagram) {
            return (Counted::NotOurPacket, None);
        }
        let mut path_mtu = 0;
        if let Icmpv4::Unreachable { next_hop_mtu, .. } = message
            && what == News::TOO_LONG
        {
            // RFC 1191 §5: a router says how long a packet may be that is shorter than the one it has dropped, or nothing.
            if *next_hop_mtu >= quoted.total_len() {
                return (Counted::NotTooLong, None);
            }
            path_mtu = u32::from(*next_hop_mtu);
        }
        // A flow has ports: it is one of TCP, whose numbers then are there, or of UDP.
        let news = quoted.tuple().map(|tuple| {
            let seq = quoted.tcp_seq();
            let link = if seq.is_some() { UP_TCP } else { UP_UDP };
            let header = TcpHeader {
                seq: seq.unwrap_or_default(),
                ..TcpHeader::default()
            };
            let arrival = Arrival {
                tuple,
                header,
                hash: 0,
            };
            let news = News {
                arrival,
                what,
                path_mtu,
            };
            (link, news)
        });
        (counted, news)
    }

    /// Whether this host may have sent the quoted packet: whole, from the address that the error came to, to another host.
    fn sent(&self, quoted: &Quoted<'_>, datagram: &Datagram) -> bool {
        quoted.source == datagram.local
            && quoted.fragment_offset == 0
            && !quoted.destination.is_unspecified()
            && !self.interface.is_local(&quoted.destination)
    }

    /// Makes of a datagram that is refused the report to its sender.
    fn report(&self, message: &mut Message, refused: Refused, cx: &mut Context<'_>) -> Verdict {
        let datagram = message.note::<Datagram>();
        if datagram.flags & Datagram::BROADCAST != 0 {
            return Verdict::drop(Counted::Forbidden);
        }
        let pair = self.flows.pair_hash(datagram.local, datagram.remote);
        if !self.limiter.allows(pair, cx.now()) {
            return Verdict::drop(Counted::Limited);
        }
        if !restore_header(message, &datagram) {
            return Verdict::drop(Counted::Unquotable);
        }
        let mut start = [0; MAX_QUOTED_LEN];
        let len = message.copy_to_slice(&mut start);
        // It names an error about an error too, which no host sends.
        let quoted = match Quoted::parse(&start[..len]) {
            Ok(quoted) => quoted,
            Err(_) => return Verdict::drop(Counted::Unquotable),
        };
        let (error, counted) = refused.error(quoted);
        let len = icmpv4::message_len(&error);
        let Some(mut report) = cx.pool().allocate(HEADROOM, len) else {
            return Verdict::drop(Counted::NoBuffer);
        };
        if let Some(body) = report.append(len) {
            icmpv4::emit(&error, body);
        }
        report.set_bucket(message.bucket());
        let local = match datagram.refusal {
            0 => datagram.local,
            // Of an address that it leaves from (RFC 1812 §4.3.2.4).
            _ => self.interface.source_for(&datagram.remote),
        };
        report.set_note(Datagram {
            local,
            remote: datagram.remote,
            protocol: PROTOCOL,
            ..Datagram::default()
        });
        *message = report;
        cx.count(counted.counter(), 1);
        Verdict::Down(0)
    }
}

/// What a code of "destination unreachable" says of a segment (RFC 1122 §4.2.3.9: 2 and 3 are for good, 0, 1 and 5 may pass). What is forbidden
/// stays so.
fn what_code_says(code: u8) -> u32 {
    match code {
        unreachable::PORT => News::REFUSED,
        unreachable::PROTOCOL
        | unreachable::NETWORK_PROHIBITED
        | unreachable::HOST_PROHIBITED
        | unreachable::ADMINISTRATIVELY_PROHIBITED => News::UNREACHABLE,
        _ => News::UNDELIVERED,
    }
}

/// Why a datagram's sender is told that it is refused.
#[derive(Clone, Copy)]
enum Refused {
    /// Nobody here speaks its protocol.
    Protocol,
    /// Nobody listens on its port.
    Port,
    /// The rest of it did not come in time.
    Expired,
    /// It is for another host, and has no hop left.
    TtlExceeded,
    /// It is for another host, and no route is for that.
    NoRoute,
    /// It is for another host, which is not where its address says.
    NoHost,
    /// It is for another host, and longer than this, which is what the way on carries.
    TooLong(u16),
}

impl Refused {
    /// Why one that comes down is refused.
    fn of(message: &Message) -> Refused {
        let flags = message.note_ref::<Datagram>().flags;
        if message.kind() == Kind::Control && flags & Datagram::EXPIRED != 0 {
            Refused::Expired
        } else {
            Refused::Port
        }
    }

    /// Why one that came for another host is refused, if it did.
    fn on_its_way(datagram: &Datagram) -> Option<Refused> {
        match datagram.refusal {
            Refusal::TTL_EXCEEDED => Some(Refused::TtlExceeded),
            Refusal::NO_ROUTE => Some(Refused::NoRoute),
            Refusal::NO_HOST => Some(Refused::NoHost),
            Refusal::TOO_LONG => Some(Refused::TooLong(datagram.path_mtu)),
            _ => None,
        }
    }

    /// What its sender is told of it, and what that is counted as.
    fn error(self, quoted: Quoted<'_>) -> (Icmpv4<'_>, Counted) {
        let unreachable = |code| Icmpv4::Unreachable {
            code,
            next_hop_mtu: 0,
            quoted,
        };
        match self {
            Refused::Protocol => (unreachable(unreachable::PROTOCOL), Counted::UnreachableSent),
            Refused::Port => (unreachable(unreachable::PORT), Counted::UnreachableSent),
            // RFC 792: code 1, fragment reassembly time exceeded.
            Refused::Expired => (
                Icmpv4::TimeExceeded { code: 1, quoted },
                Counted::TimeExceededSent,
            ),
            Refused::TtlExceeded => (
                Icmpv4::TimeExceeded { code: 0, quoted },
                Counted::TimeExceededSent,
            ),
            Refused::NoRoute => (unreachable(unreachable::NETWORK), Counted::UnreachableSent),
            Refused::NoHost => (unreachable(unreachable::HOST), Counted::UnreachableSent),
            // RFC 1191 §4.
            Refused::TooLong(next_hop_mtu) => (
                Icmpv4::Unreachable {
                    code: unreachable::FRAGMENTATION_NEEDED,
                    next_hop_mtu,
                    quoted,
                },
                Counted::UnreachableSent,
            ),
        }
    }
}

impl Module for Icmp {
    fn name(&self) -> &'static str {
        "icmp"
    }

    fn stages(&self) -> Stages {
        Stages::BEFORE_UP | Stages::BEFORE_DOWN
    }

    fn counters(&self) -> &'static [&'static str] {
        Counted::NAMES
    }

    /// On the way up come datagrams from IP, on the way down those that a transport refuses, and first fragments whose time is over.
    fn before(&self, direction: Direction, run: &mut Run, cx: &mut Context<'_>) {
        match direction {
            Direction::Up => sift(run, cx, |message, cx| self.arrive(message, cx)),
            Direction::Down => {
                sift(run, cx, |message, cx| {
                    self.report(message, Refused::of(message), cx)
                });
            }
        }
    }
}

/// Brings the IP header back that still stands in front of `message`, as it arrived. `false` if it does not: the message
/// was copied or is shared, and what stands there is not the header of `datagram`.
fn restore_header(message: &mut Message, datagram: &Datagram) -> bool {
    let header_len = usize::from(datagram.header_len);
    if header_len < ipv4::MIN_HEADER_LEN {
        return false;
    }
    let Some(header) = message.prepend(header_len) else {
        return false;
    };
    let is_intact = header[0] == 0x40 | (datagram.header_len / 4) && Sum::of(header).is_valid();
    // The layout is the parser's: what it would refuse is no header.
    is_intact
        && header[9] == datagram.protocol
        && header[12..16] == datagram.remote.octets()[12..]
        && header[16..20] == datagram.local.octets()[12..]
}

#[cfg(test)]
mod tests;
