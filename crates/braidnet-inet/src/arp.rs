//! ARP (RFC 826): which station has an address.
//!
//! Its core owns the neighbour tables, one for each device that carries Ethernet frames, and runs in [`BucketId::DEVICE`], whatever the architecture. What comes up
//! to it from [`Link`](crate::ethernet::Link) is ARP packets, and IP packets whose station is not known; what comes down
//! from [`Ip`](crate::ip::Ip) says through which station a packet from beyond our networks came. What a table knows
//! is published as a snapshot whenever it changes. A packet that was to be forwarded, and for which no neighbour answers, goes back up to IP, so that its sender hears of it.
//!
//! # Several links
//!
//! An address is asked for on the one link that its route leads to, and what is heard on a link is believed of that link only. A request is
//! answered where it asks for an address that is ours *on the device that it came by*: on another link nobody need know that we have it, and where two devices are on one
//! link, one of them answers and not both, each with its own station. Packets for any of our addresses are taken by whichever device they come.
//!
//! # Stations that are learned from traffic
//!
//! On one device without [routes](crate::route), packets for hosts beyond our networks go to the station that packets from them came through. Who
//! sends frames with a forged source address can so draw to himself what we send to that address. He must be on the link
//! to do so, and there ARP gives him the same power over any address; addresses of our own networks are never learned like
//! this, nor is one that has answered ARP; and an entry dies a minute after its last packet. Whoever does not want it names a route.
//!
//! # What is believed
//!
//! Requests and replies update neighbours that are known (RFC 826, gratuitous ones too), but not twice within a
//! second, so that two claimants cannot make us flap. A request for our own address makes its sender known; a reply that
//! was not asked for makes nothing known. Who claims our own address is counted, and not believed.

mod published;
mod table;

pub(crate) use published::{Neighbours, View};

use crate::counters::counters;
use crate::interface::Interface;
use crate::limits::{InetLimits, LimitError};
use crate::live::Live;
use crate::notes::Frame;
use crate::room::HEADROOM;
use crate::stations::{Station, Stations};
use braidnet_message::{Kind, Message, Run};
use braidnet_stream::{BucketId, Context, Counter, Direction, Key, Module, Stages, State};
use braidnet_wire::address::Address;
use braidnet_wire::arp::{self, ArpError, ArpPacket, Operation, PACKET_LEN};
use braidnet_wire::ethernet::{MacAddress, ether_type};
use braidnet_wire::ipv4;
use braidnet_wire::time::Instant;
use std::sync::Arc;
use table::{Effect, Origin, Reason, Table};

/// What may be known of neighbours, and wait for them, on each device that carries Ethernet frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resolution {
    /// Neighbours in a device's table: 1,024 by default, 1 to 16,384. Of one more, one that is not used gives way, or the newcomer is turned away. Each
    /// that becomes known, and each that is forgotten, costs time for all that are.
    pub neighbours: usize,
    /// Packets that wait for one neighbour to answer: 16 by default, 1 to 1,024 (RFC 1122 §2.3.2.2 asks for one at least). Of one more, the
    /// oldest is dropped.
    pub waiting: usize,
    /// Packets that wait for all neighbours of a device together: 512 by default, 1 to 65,536. One more is dropped.
    pub waiting_in_all: usize,
}

impl Default for Resolution {
    fn default() -> Resolution {
        Resolution {
            neighbours: 1024,
            waiting: 16,
            waiting_in_all: 512,
        }
    }
}

impl Resolution {
    /// As many neighbours as a table can be told to hold.
    pub(crate) const MOST_NEIGHBOURS: usize = 16_384;

    /// Whether each is in its range.
    ///
    /// # Errors
    /// If one is not.
    pub fn check(&self) -> Result<(), LimitError> {
        let neighbours = 1..=Resolution::MOST_NEIGHBOURS;
        LimitError::unless_in(neighbours, "resolution.neighbours", self.neighbours)?;
        LimitError::unless_in(1..=1024, "resolution.waiting", self.waiting)?;
        LimitError::unless_in(1..=65_536, "resolution.waiting_in_all", self.waiting_in_all)
    }
}

/// The ARP module.
pub struct Arp {
    interface: Arc<Interface>,
    stations: Arc<Stations>,
    limits: Arc<Live<InetLimits>>,
}

counters! {
    /// What ARP counts.
    enum Counted with ArpError {
        /// Requests sent.
        Requests: "requests",
        /// Replies sent.
        Replies: "replies",
        /// ARP packets taken in.
        Taken: "taken",
        /// ARP packets from a station of our own.
        OwnPacket: "own_packet",
        /// Another station claims an address of ours.
        AddressConflict: "address_conflict",
        /// The sender's address is not one that a neighbour can have.
        BadSender: "bad_sender",
        /// News of stations that IP packets came through.
        Learned: "learned",
        /// A reply that nobody asked for.
        Unsolicited: "unsolicited",
        /// A neighbour has another station now.
        Moved: "moved",
        /// Another station claims a neighbour's address within a second of the last.
        Flapping: "flapping",
        /// A neighbour lost its place in the table to another.
        Evicted: "evicted",
        /// There was no place in the table.
        TableFull: "table_full",
        /// A packet waited with too many others.
        WaitingFull: "waiting_full",
        /// A packet waited for a neighbour that did not answer.
        HostUnreachable: "host_unreachable",
        /// No buffer for a request or a reply.
        NoBuffer: "no_buffer",
        /// A message for another bucket than the device's: our own fault.
        Misdirected: "misdirected",
    }
}

impl From<Reason> for Counter {
    fn from(reason: Reason) -> Counter {
        match reason {
            Reason::WaitingFull => Counted::WaitingFull,
            Reason::Unresolved => Counted::HostUnreachable,
            Reason::TableFull => Counted::TableFull,
            Reason::Evicted => Counted::Evicted,
            Reason::Moved => Counted::Moved,
            Reason::Flapping => Counted::Flapping,
            Reason::Unsolicited => Counted::Unsolicited,
        }
        .counter()
    }
}

impl Arp {
    /// ARP for these stations on `interface`, that publishes what it knows with them, within these limits, which may change.
    pub(crate) fn new(
        interface: Arc<Interface>,
        stations: Arc<Stations>,
        limits: Arc<Live<InetLimits>>,
    ) -> Arp {
        Arp {
            interface,
            stations,
            limits,
        }
    }

    /// An ARP packet arrived.
    fn arrive(
        &self,
        table: &mut Table,
        link: Link<'_>,
        mut message: Message,
        cx: &mut Context<'_>,
    ) {
        message.pull_up(PACKET_LEN, cx.pool());
        let packet = match arp::parse(message.bytes()) {
            Ok(packet) => packet,
            Err(refusal) => return cx.drop(message, Counted::refusal(refusal)),
        };
        let reason = self.believe(table, link, &packet, cx);
        cx.drop(message, reason.counter());
    }

    /// Does what RFC 826 says, and says what became of the packet.
    fn believe(
        &self,
        table: &mut Table,
        link: Link<'_>,
        packet: &ArpPacket,
        cx: &mut Context<'_>,
    ) -> Counted {
        if self.stations.has(packet.sender_hardware) {
            return Counted::OwnPacket;
        }
        if self.interface.is_local(&packet.sender) {
            return Counted::AddressConflict;
        }
        if !packet.is_probe() && !self.interface.is_peer(&packet.sender) {
            return Counted::BadSender;
        }
        let asks_for_us = packet.operation == Operation::Request
            && self.interface.is_local_on(link.device, &packet.target);
        if !packet.is_probe() {
            let origin = match packet.operation {
                Operation::Request => Origin::Request,
                Operation::Reply => Origin::Reply,
            };
            // Behind gateways there are no neighbours.
            let is_near = self.interface.is_near_on(link.device, &packet.sender);
            let near = is_near || self.interface.learns();
            let neighbour = (packet.sender, packet.sender_hardware);
            let now = cx.now();
            table.hear(neighbour, origin, asks_for_us && near, now, &mut |effect| {
                self.act(link, effect, cx)
            });
        }
        if asks_for_us {
            self.reply(link, packet, cx);
        }
        Counted::Taken
    }

    fn reply(&self, link: Link<'_>, request: &ArpPacket, cx: &mut Context<'_>) {
        let reply = ArpPacket {
            operation: Operation::Reply,
            sender_hardware: link.station.address,
            sender: request.target,
            target_hardware: request.sender_hardware,
            target: request.sender,
        };
        link.send(&reply, request.sender_hardware, Counted::Replies, cx);
    }

    fn request(
        &self,
        link: Link<'_>,
        target: Address,
        station: Option<MacAddress>,
        cx: &mut Context<'_>,
    ) {
        let request = ArpPacket {
            operation: Operation::Request,
            sender_hardware: link.station.address,
            sender: self.interface.source_on(link.device, &target),
            target_hardware: MacAddress::ZERO,
            target,
        };
        let station = station.unwrap_or(MacAddress::BROADCAST);
        link.send(&request, station, Counted::Requests, cx);
    }

    /// Does what the table wants done.
    fn act(&self, link: Link<'_>, effect: Effect, cx: &mut Context<'_>) {
        match effect {
            Effect::Send(mut message, station) => {
                message.note_mut::<Frame>().station = station;
                cx.down(message);
            }
            Effect::Request(address, station) => self.request(link, address, station, cx),
            Effect::Drop(mut message, Reason::Unresolved) if self.is_anothers(&message) => {
                message.set_kind(Kind::Control);
                cx.up(message);
            }
            Effect::Drop(message, reason) => cx.drop(message, reason.into()),
            Effect::Count(reason) => cx.count(reason.into(), 1),
        }
    }

    /// Whether a packet that waited is another host's.
    fn is_anothers(&self, message: &Message) -> bool {
        let header = ipv4::parse_front(message.bytes(), message.total_len());
        self.interface.forwards()
            && header.is_ok_and(|header| !self.interface.is_local(&header.source))
    }

    /// Each device that carries frames, with its table.
    fn each<'a>(
        &'a self,
        Tables(tables): &'a mut Tables,
    ) -> impl Iterator<Item = (Link<'a>, &'a mut Table)> {
        let stations = (0..).zip(self.stations.iter());
        (stations.zip(tables)).filter_map(|((device, station), table)| {
            let station = station?;
            Some((Link { device, station }, table.as_mut()?))
        })
    }
}

/// The neighbour tables, by device; `None` where it carries bare IP packets.
struct Tables(Box<[Option<Table>]>);

/// A device that carries frames, and our station there.
#[derive(Clone, Copy)]
struct Link<'a> {
    device: u8,
    station: &'a Station,
}

impl Link<'_> {
    fn send(
        &self,
        packet: &ArpPacket,
        station: MacAddress,
        counted: Counted,
        cx: &mut Context<'_>,
    ) {
        let Some(mut message) = cx.pool().allocate(HEADROOM, PACKET_LEN) else {
            return cx.count(Counted::NoBuffer.counter(), 1);
        };
        if let Some(body) = message.append(PACKET_LEN) {
            arp::emit(packet, body);
        }
        message.set_device(self.device);
        message.set_note(Frame {
            station,
            device: self.device,
            ether_type: ether_type::ARP,
            ..Frame::default()
        });
        cx.count(counted.counter(), 1);
        cx.down(message);
    }
}

impl Module for Arp {
    fn name(&self) -> &'static str {
        "arp"
    }

    fn stages(&self) -> Stages {
        Stages::CORE_UP | Stages::CORE_DOWN | Stages::SETTLE | Stages::EXPIRE
    }

    fn key(&self) -> Key {
        Key::Device
    }

    fn counters(&self) -> &'static [&'static str] {
        Counted::NAMES
    }

    fn open(&self, bucket: BucketId) -> Box<dyn State> {
        if bucket != BucketId::DEVICE {
            return Box::new(());
        }
        let table = |(device, station): (u8, Option<&Station>)| {
            let gateways = self.interface.gateways_on(device).collect();
            Some(Table::new(
                station?.neighbours.clone(),
                gateways,
                self.limits.clone(),
            ))
        };
        let tables = (0..).zip(self.stations.iter()).map(table);
        Box::new(Tables(tables.collect()))
    }

    fn core(
        &self,
        state: &mut dyn State,
        direction: Direction,
        run: &mut Run,
        cx: &mut Context<'_>,
    ) {
        let Some(Tables(tables)) = tables(state, cx) else {
            debug_assert!(false, "neighbours belong to the device's bucket");
            return run
                .drain()
                .for_each(|message| cx.drop(message, Counted::Misdirected.counter()));
        };
        let now = cx.now();
        let mut next = Instant::MAX;
        for message in run.drain() {
            let frame = message.note::<Frame>();
            let device = frame.device;
            let table = tables.get_mut(usize::from(device));
            let station = self.stations.on(device);
            let (Some(Some(table)), Some(station)) = (table, station) else {
                debug_assert!(false, "only frames concern neighbours");
                cx.drop(message, Counted::Misdirected.counter());
                continue;
            };
            let link = Link { device, station };
            match (direction, frame.ether_type) {
                (Direction::Down, _) => {
                    let neighbour = (frame.hop, frame.station);
                    table.hear(neighbour, Origin::Traffic, true, now, &mut |effect| {
                        self.act(link, effect, cx)
                    });
                    cx.drop(message, Counted::Learned.counter());
                }
                (Direction::Up, ether_type::ARP) => self.arrive(table, link, message, cx),
                (Direction::Up, _) => {
                    let act = &mut |effect| self.act(link, effect, cx);
                    table.send(frame.hop, message, now, act);
                }
            }
            next = next.min(table.next());
        }
        wake(next, cx);
    }

    fn settle(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        if let Some(Tables(tables)) = tables(state, cx) {
            tables.iter_mut().flatten().for_each(Table::publish);
        }
    }

    fn expire(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        if let Some(tables) = tables(state, cx) {
            let now = cx.now();
            let mut next = Instant::MAX;
            for (link, table) in self.each(tables) {
                table.expire(now, &mut |effect| self.act(link, effect, cx));
                next = next.min(table.next());
            }
            wake(next, cx);
        }
    }
}

/// The tables, which the device's bucket has and no other.
fn tables<'a>(state: &'a mut dyn State, cx: &Context<'_>) -> Option<&'a mut Tables> {
    (cx.bucket() == Some(BucketId::DEVICE)).then(|| state.of::<Tables>())
}

fn wake(next: Instant, cx: &mut Context<'_>) {
    if next < Instant::MAX {
        cx.wake_at(next);
    }
}

#[cfg(test)]
mod tests;
