//! Faults planted between a stack and the world, to see that the checkers find them.

use crate::case::HostCase;
#[cfg(test)]
use crate::law::Law;
use braidnet::tcp::{Config, CongestionControl, EcnMode, PathProbing, TcpInfo};
use braidnet::wire::checksum::Sum;
use braidnet::wire::ipv4;
use braidnet::wire::tcp::{self, TcpFlags, TcpHeader};
use std::time::Duration;

/// What a faulty host does wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub(crate) enum Fault {
    /// It takes windows for wider than they are.
    WindowIgnored,
    /// It never sends an ACK of its own.
    AckWithheld,
    /// It delays ACKs for longer than it is set to.
    AckLate,
    /// Its timeout is shorter than it is set to.
    TimeoutShort,
    /// TIME-WAIT is shorter than it is set to.
    TimeWaitShort,
    /// It keeps more out of order than it is set to.
    Hoards,
    /// What it sends when a timer expires is lost before it leaves: it is silent for ever.
    Mute,
    /// After the RST that ends a connection it sends once more what it had sent last on that.
    SpeaksAfterReset,
    /// It takes any RST for the next that it expects, whatever its sequence number.
    TakesAnyReset,
    /// It never finds that its segments are too long.
    NeverShortens,
    /// It changes the last byte of what it receives.
    ChangesData,
    /// Its window is not cut by what is lost, but follows a model of the path.
    LossUncut,
    /// It does not hear of marks.
    MarksUnheeded,
    /// It does not tell of marks.
    MarksUntold,
}

impl Fault {
    /// Every fault, and the laws of which it breaks one.
    #[cfg(test)]
    pub(crate) const ALL: [(Fault, &'static [Law]); 14] = [
        (Fault::WindowIgnored, &[Law::Window]),
        (Fault::AckWithheld, &[Law::Acknowledgment]),
        (Fault::AckLate, &[Law::Acknowledgment]),
        (Fault::TimeoutShort, &[Law::Timeout]),
        (Fault::TimeWaitShort, &[Law::TimeWait]),
        (Fault::Hoards, &[Law::Memory]),
        (Fault::Mute, &[Law::Stall, Law::Ends, Law::Timeout]),
        (Fault::SpeaksAfterReset, &[Law::Reset]),
        (Fault::TakesAnyReset, &[Law::Incarnation]),
        (Fault::NeverShortens, &[Law::Stall, Law::Ends]),
        (Fault::ChangesData, &[Law::Bytes]),
        (Fault::LossUncut, &[Law::Congestion]),
        (Fault::MarksUnheeded, &[Law::Congestion]),
        (Fault::MarksUntold, &[Law::Ecn]),
    ];

    /// Sets a stack otherwise than the checkers know of.
    pub(crate) fn set(self, engine: &mut Config, told: &mut HostCase) {
        match self {
            Fault::AckLate => {
                engine.delayed_ack = Duration::from_millis(400);
                told.engine.delayed_ack = told.engine.delayed_ack.min(Duration::from_millis(40));
            }
            Fault::TimeoutShort => engine.min_rto = Duration::from_millis(20),
            Fault::TimeWaitShort => {
                engine.time_wait = told.engine.time_wait / 2;
            }
            Fault::Hoards => {
                engine.reassembly_segments = 8192;
                told.engine.reassembly_segments = 2;
            }
            Fault::NeverShortens => engine.path_probing = PathProbing::Off,
            Fault::LossUncut => {
                engine.congestion = CongestionControl::Bbr;
                told.engine.congestion = CongestionControl::NewReno;
            }
            Fault::MarksUnheeded | Fault::MarksUntold => {
                (engine.ecn, told.engine.ecn) = (EcnMode::On, EcnMode::On);
            }
            Fault::WindowIgnored
            | Fault::AckWithheld
            | Fault::Mute
            | Fault::SpeaksAfterReset
            | Fault::TakesAnyReset
            | Fault::ChangesData => {}
        }
    }

    /// Changes a packet that arrives for a connection that stands like this.
    pub(crate) fn on_arrival(self, packet: &[u8], stands: Option<&TcpInfo>) -> Vec<u8> {
        let Some((_, header, len)) = crate::trace::parse(packet) else {
            return packet.to_vec();
        };
        match (self, stands) {
            (Fault::WindowIgnored, _) => changed(packet, |segment| segment[14..16].fill(0xff)),
            (Fault::TakesAnyReset, Some(status)) if header.flags.contains(TcpFlags::RST) => {
                let expected = status.rcv_nxt.value().to_be_bytes();
                changed(packet, |segment| segment[4..8].copy_from_slice(&expected))
            }
            (Fault::ChangesData, _) if len > 0 => changed(packet, |segment| {
                segment[segment.len() - 1] ^= 1;
            }),
            (Fault::MarksUnheeded, Some(_)) if !header.flags.contains(TcpFlags::SYN) => {
                changed(packet, |segment| segment[13] &= !TcpFlags::ECE.0)
            }
            (Fault::MarksUntold, _) if header.ecn() == TcpHeader::CE => {
                let mut bytes = packet.to_vec();
                crate::network::change(&mut bytes, 1, |tos| tos & !3);
                bytes
            }
            _ => packet.to_vec(),
        }
    }

    /// Whether what was sent last on a connection follows this segment.
    pub(crate) fn repeats_after(self, header: &TcpHeader) -> bool {
        self == Fault::SpeaksAfterReset && header.flags.contains(TcpFlags::RST)
    }

    /// Whether a segment that leaves is lost before anybody sees it.
    pub(crate) fn swallows(self, header: &TcpHeader, len: usize) -> bool {
        let is_bare = len == 0 && header.flags.0 == TcpFlags::ACK.0;
        match self {
            Fault::AckWithheld => is_bare,
            Fault::Mute => len > 0,
            _ => false,
        }
    }
}

/// A packet whose segment is changed, with the checksum that it has then.
fn changed(packet: &[u8], how: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let mut bytes = packet.to_vec();
    if let Ok(header) = ipv4::parse(packet)
        && let Some(segment) = bytes.get_mut(header.payload_range())
    {
        how(segment);
        segment[16..18].fill(0);
        let len = segment.len() as u32;
        let pseudo = Sum::pseudo_header(&header.source, &header.destination, tcp::PROTOCOL, len);
        let sum = pseudo.combine(Sum::of(segment)).finish_bytes();
        segment[16..18].copy_from_slice(&sum);
    }
    bytes
}
