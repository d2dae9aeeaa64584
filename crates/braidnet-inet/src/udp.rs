//! UDP (RFC 768): ports and a checksum.
//!
//! It keeps nothing per flow and has no core. A datagram that comes up has its flow in a note
//! ([`UdpFlow`]) and its flow's bucket; one that goes down says its flow in the same note. Which
//! ports are open says [`UdpPorts`].
//!
//! Datagrams of one flow and one length travel below it as one message, a [train](Message::segment_bytes), where the device takes and hands up such
//! ([`Offload::Datagrams`]). Here it ends: what stands above gets them one by one.

mod apart;
mod ports;

pub use ports::{BindError, UdpPorts};

use crate::counters::counters;
use crate::flows::Flows;
use crate::interface::Interface;
use crate::notes::{Datagram, News, UdpFlow};
use crate::offload::Offload;
use crate::room;
use crate::sift::{Verdict, sift};
use crate::sum;
use braidnet_message::{Checksum, Kind, Message, Pool, Run};
use braidnet_stream::{Context, Control, Direction, Module, Stages, Trace, Verb};
use braidnet_wire::address::Tuple;
use braidnet_wire::checksum::Sum;
use braidnet_wire::ipv4;
use braidnet_wire::udp::{self, HEADER_LEN, PROTOCOL, UdpError, UdpHeader};
use std::sync::Arc;

/// The lower link to IP.
pub(crate) const DOWN_IP: u8 = 0;
/// The lower link to ICMP, for datagrams that are refused.
pub(crate) const DOWN_ICMP: u8 = 1;

/// The UDP module.
pub struct Udp {
    interface: Arc<Interface>,
    flows: Flows,
    ports: Arc<UdpPorts>,
}

counters! {
    /// What UDP counts.
    enum Counted with UdpError {
        /// Datagrams that came in trains.
        ReceivedInTrains: "received_in_trains",
        /// Datagrams that left in trains.
        SentInTrains: "sent_in_trains",
        /// To port 0.
        PortZero: "port_zero",
        /// What ICMP says of a datagram from a port that is not open.
        ReportStale: "report_stale",
        /// To a port that is not open.
        PortClosed: "port_closed",
        /// On the way down: more than a datagram holds.
        TooLong: "too_long",
        /// On the way down: no data.
        NotData: "not_data",
        /// No buffer for a header.
        NoBuffer: "no_buffer",
    }
}

impl Udp {
    /// UDP on `interface`, for the ports that are open in `ports`.
    pub(crate) fn new(interface: Arc<Interface>, flows: Flows, ports: Arc<UdpPorts>) -> Udp {
        Udp {
            interface,
            flows,
            ports,
        }
    }

    /// The network says something of a datagram of ours: whoever has its port open is told (RFC 1122 §4.1.3.3).
    #[cold]
    fn hear(&self, message: &mut Message) -> Verdict {
        let News {
            arrival,
            what,
            path_mtu,
        } = message.note();
        if !self.ports.is_open(arrival.tuple.local_port) {
            return Verdict::drop(Counted::ReportStale);
        }
        let why = match what {
            News::REFUSED => Control::REFUSED,
            News::UNREACHABLE => Control::UNREACHABLE,
            News::TOO_LONG => Control::TOO_LONG,
            _ => Control::LOST,
        };
        let told = Control::new(Verb::Undelivered)
            .detail(why)
            .value(path_mtu.into())
            .tuple(arrival.tuple);
        message.set_bucket(self.flows.bucket_of(&arrival.tuple, PROTOCOL).0.0);
        message.set_note(told);
        Verdict::Stay
    }

    /// A datagram arrived.
    #[inline]
    fn arrive(&self, message: &mut Message, cx: &mut Context<'_>) -> Verdict {
        if message.kind() != Kind::Data {
            return self.hear(message);
        }
        let Datagram { local, remote, .. } = message.note();
        // What is too short is refused by the parser.
        message.pull_up(HEADER_LEN, cx.pool());
        let header = match parse_front(message.bytes(), message.total_len()) {
            Ok(header) => header,
            Err(refusal) => return Verdict::Drop(Counted::refusal(refusal)),
        };
        message.truncate(usize::from(header.len));
        let has_checksum = message.bytes()[udp::CHECKSUM_OFFSET..HEADER_LEN] != [0, 0];
        if !self.interface.offload().verifies(message) {
            // The device has, or nobody does.
        } else if has_checksum {
            let pseudo = Sum::pseudo_header(&remote, &local, PROTOCOL, header.len.into());
            if !pseudo.combine(sum::read(message)).is_valid() {
                return Verdict::Drop(Counted::refusal(UdpError::Checksum));
            }
        } else if !remote.is_v4() {
            return Verdict::Drop(Counted::refusal(UdpError::ChecksumMissing));
        }
        if header.destination_port == 0 {
            return Verdict::drop(Counted::PortZero);
        }
        let tuple = Tuple {
            local,
            remote,
            local_port: header.destination_port,
            remote_port: header.source_port,
        };
        message.set_bucket(self.flows.bucket_of(&tuple, PROTOCOL).0.0);
        if !self.ports.is_open(header.destination_port) {
            let datagrams = message.segments() as u64;
            cx.count_dropped(Trace::of(message), Counted::PortClosed.counter(), datagrams);
            return Verdict::Down(DOWN_ICMP);
        }
        message.strip(HEADER_LEN);
        message.set_note(UdpFlow {
            tuple,
            ..UdpFlow::default()
        });
        if message.segment_bytes() != 0 {
            return Verdict::Split(apart::hand_up);
        }
        // What was said of its checksum is spent: it may be sent on as it is.
        message.clear_segmentation();
        Verdict::Stay
    }

    /// A datagram is to leave. It may be a train.
    #[inline]
    fn depart(&self, message: &mut Message, cx: &mut Context<'_>) -> Verdict {
        if message.kind() != Kind::Data {
            return Verdict::drop(Counted::NotData);
        }
        let mut flow: UdpFlow = message.note();
        let tuple = &mut flow.tuple;
        if tuple.remote_port == 0 {
            return Verdict::drop(Counted::PortZero);
        }
        if tuple.local.is_unspecified() {
            tuple.local = self.interface.source_for(&tuple.remote);
        }
        if message.total_len() > MAX_PAYLOAD_LEN {
            return Verdict::drop(Counted::TooLong);
        }
        let is_train = message.segment_bytes() != 0;
        // No datagram of a train is longer than the first.
        let longest = if is_train {
            message.len()
        } else {
            message.total_len()
        };
        let fits = ipv4::MIN_HEADER_LEN + HEADER_LEN + longest <= self.interface.mtu();
        let offload = self.interface.offload_towards(tuple.remote);
        // What is cut into fragments has one checksum, which no device makes, nor one of headers that lie apart.
        let completes = offload.completes() && fits && room::is_for_all(message, HEADER_LEN);
        if is_train {
            if !completes || offload != Offload::Datagrams {
                message.set_note(flow);
                return Verdict::Split(match offload {
                    Offload::LeftOut => apart::hand_down_unsealed,
                    _ => apart::hand_down,
                });
            }
            let datagrams = message.segments() as u64;
            cx.count(Counted::SentInTrains.counter(), datagrams);
        }
        let sealing = match offload {
            Offload::LeftOut => Sealing::Nobody,
            _ if completes => Sealing::ByDevice,
            _ => Sealing::Here(message.total_sum()),
        };
        match put_header(message, &flow, sealing, cx.pool()) {
            true => Verdict::Stay,
            false => Verdict::drop(Counted::NoBuffer),
        }
    }
}

impl Module for Udp {
    fn name(&self) -> &'static str {
        "udp"
    }

    fn stages(&self) -> Stages {
        Stages::BEFORE_UP | Stages::BEFORE_DOWN
    }

    fn counters(&self) -> &'static [&'static str] {
        Counted::NAMES
    }

    fn before(&self, direction: Direction, run: &mut Run, cx: &mut Context<'_>) {
        match direction {
            Direction::Up => sift(run, cx, |message, cx| self.arrive(message, cx)),
            Direction::Down => sift(run, cx, |message, cx| self.depart(message, cx)),
        }
    }
}

/// Who makes the checksum of a datagram that leaves.
enum Sealing {
    /// This stack, of this payload.
    Here(Sum),
    ByDevice,
    Nobody,
}

/// The longest payload of a datagram, and of a train (RFC 791 §3.1).
const MAX_PAYLOAD_LEN: usize = ipv4::MAX_TOTAL_LEN - ipv4::MIN_HEADER_LEN - HEADER_LEN;

/// Puts a header in front of a payload of at most [`MAX_PAYLOAD_LEN`], and leaves IP's note. False if there is no buffer for it.
#[inline]
fn put_header(message: &mut Message, flow: &UdpFlow, sealing: Sealing, pool: &mut Pool) -> bool {
    let UdpFlow { tuple, flags, .. } = *flow;
    let Tuple { local, remote, .. } = tuple;
    let len = (message.total_len() + HEADER_LEN) as u16;
    let pseudo = Sum::pseudo_header(&local, &remote, PROTOCOL, len.into());
    message.set_checksum(Checksum::Stands);
    let Some(front) = room::prepend(message, HEADER_LEN, pool) else {
        return false;
    };
    udp::emit(
        &UdpHeader {
            source_port: tuple.local_port,
            destination_port: tuple.remote_port,
            len,
        },
        front,
    );
    match sealing {
        Sealing::Here(payload) => udp::seal(front, pseudo + payload),
        Sealing::ByDevice => {
            udp::partly_seal(front, pseudo);
            message.set_checksum(Checksum::Partial);
        }
        Sealing::Nobody => {}
    }
    message.set_note(Datagram {
        local,
        remote,
        protocol: PROTOCOL,
        flags,
        ..Datagram::default()
    });
    true
}

/// Parses the header in `front` of an IP payload of `payload_len` bytes, which may lie in several blocks.
#[inline]
fn parse_front(front: &[u8], payload_len: usize) -> Result<UdpHeader, UdpError> {
    match udp::parse(front) {
        Err(UdpError::LenPastEnd) if payload_len > front.len() => {
            let Some(&[a, b, c, d, e, f, ..]) = front.first_chunk::<HEADER_LEN>() else {
                return Err(UdpError::Truncated);
            };
            let header = UdpHeader {
                source_port: u16::from_be_bytes([a, b]),
                destination_port: u16::from_be_bytes([c, d]),
                len: u16::from_be_bytes([e, f]),
            };
            if usize::from(header.len) > payload_len {
                Err(UdpError::LenPastEnd)
            } else {
                Ok(header)
            }
        }
        parsed => parsed,
    }
}

#[cfg(test)]
mod tests;
