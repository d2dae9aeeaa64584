//! Link: Ethernet frames around packets.
//!
//! On the way up it takes frames that are for this station and hands IP packets and ARP packets to the modules for them;
//! padding is theirs to cut. On the way down it finds the station that a packet goes to in the snapshot that
//! [`arp`](crate::arp) publishes; a packet whose station is not known goes to ARP's core, where it waits. Where some devices of a stack
//! carry frames and others bare IP packets, those of the latter pass.

use crate::counters::counters;
use crate::interface::Interface;
use crate::notes::Frame;
use crate::room;
use crate::sift::{Verdict, sift};
use crate::stations::{Stations, Views};
use braidnet_message::{Message, Run};
use braidnet_stream::{BucketId, Context, Direction, Module, Stages};
use braidnet_wire::address::Address;
use braidnet_wire::ethernet::{
    self, EthernetError, EthernetHeader, HEADER_LEN, MacAddress, ether_type,
};
use std::sync::Arc;

/// The upper link to IP.
pub(crate) const UP_IP: u8 = 0;
/// The upper link to ARP.
pub(crate) const UP_ARP: u8 = 1;

/// The link module of a stack of whose devices one carries Ethernet frames at least. It has no state of its own.
pub struct Link {
    interface: Arc<Interface>,
    stations: Arc<Stations>,
}

counters! {
    /// What Link counts.
    enum Counted with EthernetError {
        /// For another station: the device lets more through than is ours.
        OtherStation: "other_station",
        /// From our own station address: a loop, or a thief.
        OwnFrame: "own_frame",
        /// Neither IP nor ARP.
        UnknownType: "unknown_type",
        /// Waits for its station to be found.
        Unresolved: "unresolved",
        /// No buffer for the header.
        NoBuffer: "no_buffer",
    }
}

impl Link {
    /// Link for these stations on `interface`, that finds their neighbours with them.
    pub(crate) fn new(interface: Arc<Interface>, stations: Arc<Stations>) -> Link {
        Link {
            interface,
            stations,
        }
    }

    /// A packet arrived, in a frame where its device carries such.
    #[inline]
    fn arrive(&self, message: &mut Message, cx: &mut Context<'_>) -> Verdict {
        let device = message.device();
        let Some(station) = self.stations.on(device) else {
            message.set_note(Frame {
                ether_type: ether_type::IPV4,
                device,
                ..Frame::default()
            });
            return Verdict::Stay;
        };
        // What is too short is refused by the parser.
        message.pull_up(HEADER_LEN, cx.pool());
        let header = match ethernet::parse(message.bytes()) {
            Ok(header) => header,
            Err(refusal) => return Verdict::Drop(Counted::refusal(refusal)),
        };
        if header.source == station.address {
            return Verdict::drop(Counted::OwnFrame);
        }
        let group = header.destination.is_group();
        if !group && header.destination != station.address {
            return Verdict::drop(Counted::OtherStation);
        }
        message.strip(HEADER_LEN);
        message.set_note(Frame {
            station: header.source,
            ether_type: header.ether_type,
            flags: if group { Frame::GROUP } else { 0 },
            device,
            ..Frame::default()
        });
        match header.ether_type {
            ether_type::IPV4 | ether_type::IPV6 => Verdict::Stay,
            ether_type::ARP => {
                message.set_bucket(BucketId::DEVICE.0);
                Verdict::Up(UP_ARP)
            }
            _ => Verdict::drop(Counted::UnknownType),
        }
    }

    /// A packet is to leave, in a frame where its device carries such.
    #[inline]
    fn depart(
        &self,
        message: &mut Message,
        views: &mut Views<'_>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let frame = message.note::<Frame>();
        let Some(station) = self.stations.on(frame.device) else {
            return Verdict::Stay;
        };
        let destination = if frame.station != MacAddress::ZERO {
            Some(frame.station)
        } else {
            group_of(&frame.hop, &self.interface)
                .or_else(|| views.on(frame.device)?.station(&frame.hop))
        };
        let Some(destination) = destination else {
            message.set_bucket(BucketId::DEVICE.0);
            cx.count(Counted::Unresolved.counter(), 1);
            return Verdict::Up(UP_ARP);
        };
        let Some(front) = room::prepend(message, HEADER_LEN, cx.pool()) else {
            return Verdict::drop(Counted::NoBuffer);
        };
        let header = EthernetHeader {
            destination,
            source: station.address,
            ether_type: frame.ether_type,
        };
        ethernet::emit(&header, front);
        Verdict::Stay
    }
}

impl Module for Link {
    fn name(&self) -> &'static str {
        "link"
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
            Direction::Down => {
                let mut views = self.stations.views();
                sift(run, cx, |message, cx| self.depart(message, &mut views, cx));
            }
        }
    }
}

/// The group of stations that a packet for `address` goes to, if it goes to more than one.
#[inline]
fn group_of(address: &Address, interface: &Interface) -> Option<MacAddress> {
    let v4 = address.as_v4()?;
    if interface.is_broadcast(address) {
        return Some(MacAddress::BROADCAST);
    }
    // RFC 1112 §6.4: the low 23 bits of the group's address.
    let [224..=239, b, c, d] = v4 else {
        return None;
    };
    Some(MacAddress([0x01, 0x00, 0x5e, b & 0x7f, c, d]))
}

#[cfg(test)]
mod tests;
