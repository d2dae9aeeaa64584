//! ARP (RFC 826): which station has an address.
//!
//! Its core owns the neighbour table and runs in [`BucketId::DEVICE`], whatever the architecture. What comes up
//! to it from [`Link`](crate::ethernet::Link) is ARP packets, and IP packets whose station is not known; what comes down
//! from [`Ip`](crate::ip::Ip) says through which station a packet from beyond our networks came. What the table knows
//! is published as a snapshot whenever it changes.
//!
//! # Stations that are learned from traffic
//!
//! Without [routes](crate::route), packets for hosts beyond our networks go to the station that packets from them came through. Who
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
use braidnet_message::{Message, Run};
use braidnet_stream::{BucketId, Context, Counter, Direction, Key, Module, Stages, State};
use braidnet_wire::address::Address;
use braidnet_wire::arp::{self, ArpError, ArpPacket, Operation, PACKET_LEN};
use braidnet_wire::ethernet::{MacAddress, ether_type};
use braidnet_wire::time::Instant;
use std::sync::Arc;
use table::{Effect, Origin, Reason, Table};

/// What may be known of neighbours, and wait for them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Resolution {
    /// Neighbours in the table: 1,024 by default, 1 to 16,384. Of one more, one that is not used gives way, or the newcomer is turned away. Each
    /// that becomes known, and each that is forgotten, costs time for all that are.
    pub neighbours: usize,
    /// Packets that wait for one neighbour to answer: 16 by default, 1 to 1,024 (RFC 1122 §2.3.2.2 asks for one at least). Of one more, the
    /// oldest is dropped.
    pub waiting: usize,
    /// Packets that wait for all neighbours together: 512 by default, 1 to 65,536. One more is dropped.
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
    station: MacAddress,
    neighbours: Arc<Neighbours>,
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
        /// ARP packets from our own station.
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
    /// ARP for the station `station` on `interface`, that publishes what it knows in `neighbours`, within these limits, which may change.
    pub(crate) fn new(
        interface: Arc<Interface>,
        station: MacAddress,
        neighbours: Arc<Neighbours>,
        limits: Arc<Live<InetLimits>>,
    ) -> Arp {
        Arp {
            interface,
            station,
            neighbours,
            limits,
        }
    }

    /// An ARP packet arrived.
    fn arrive(&self, table: &mut Table, mut message: Message, cx: &mut Context<'_>) {
        message.pull_up(PACKET_LEN, cx.pool());
        let packet = match arp::parse(message.bytes()) {
            Ok(packet) => packet,
            Err(refusal) => return cx.drop(message, Counted::refusal(refusal)),
        };
        let reason = self.believe(table, &packet, cx);
        cx.drop(message, reason.counter());
    }

    /// Does what RFC 826 says, and says what became of the packet.
    fn believe(&self, table: &mut Table, packet: &ArpPacket, cx: &mut Context<'_>) -> Counted {
        if packet.sender_hardware == self.station {
            return Counted::OwnPacket;
        }
        if self.interface.is_local(&packet.sender) {
            return Counted::AddressConflict;
        }
        if !packet.is_probe() && !self.interface.is_peer(&packet.sender) {
            return Counted::BadSender;
        }
        let asks_for_us =
            packet.operation == Operation::Request && self.interface.is_local(&packet.target);
        if !packet.is_probe() {
            let origin = match packet.operation {
                Operation::Request => Origin::Request,
                Operation::Reply => Origin::Reply,
            };
            // Behind gateways there are no neighbours.
            let near = self.interface.is_on_link(&packet.sender) || self.interface.learns();
            let neighbour = (packet.sender, packet.sender_hardware);
            let now = cx.now();
            table.hear(neighbour, origin, asks_for_us && near, now, &mut |effect| {
                self.act(effect, cx)
            });
        }
        if asks_for_us {
            self.reply(packet, cx);
        }
        Counted::Taken
    }

    fn reply(&self, request: &ArpPacket, cx: &mut Context<'_>) {
        let reply = ArpPacket {
            operation: Operation::Reply,
            sender_hardware: self.station,
            sender: request.target,
            target_hardware: request.sender_hardware,
            target: request.sender,
        };
        self.send(&reply, request.sender_hardware, Counted::Replies, cx);
    }

    fn request(&self, target: Address, station: Option<MacAddress>, cx: &mut Context<'_>) {
        let request = ArpPacket {
            operation: Operation::Request,
            sender_hardware: self.station,
            sender: self.interface.source_for(&target),
            target_hardware: MacAddress::ZERO,
            target,
        };
        self.send(
            &request,
            station.unwrap_or(MacAddress::BROADCAST),
            Counted::Requests,
            cx,
        );
    }

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
        message.set_note(Frame {
            station,
            ether_type: ether_type::ARP,
            ..Frame::default()
        });
        cx.count(counted.counter(), 1);
        cx.down(message);
    }

    /// Does what the table wants done.
    fn act(&self, effect: Effect, cx: &mut Context<'_>) {
        match effect {
            Effect::Send(mut message, station) => {
                message.note_mut::<Frame>().station = station;
                cx.down(message);
            }
            Effect::Request(address, station) => self.request(address, station, cx),
            Effect::Drop(message, reason) => cx.drop(message, reason.into()),
            Effect::Count(reason) => cx.count(reason.into(), 1),
        }
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
        if bucket == BucketId::DEVICE {
            Box::new(Table::new(
                self.neighbours.clone(),
                self.interface.gateways().into(),
                self.limits.clone(),
            ))
        } else {
            Box::new(())
        }
    }

    fn core(
        &self,
        state: &mut dyn State,
        direction: Direction,
        run: &mut Run,
        cx: &mut Context<'_>,
    ) {
        let Some(table) = table(state, cx) else {
            debug_assert!(false, "neighbours belong to the device's bucket");
            return run
                .drain()
                .for_each(|message| cx.drop(message, Counted::Misdirected.counter()));
        };
        let now = cx.now();
        for message in run.drain() {
            let frame = message.note::<Frame>();
            match (direction, frame.ether_type) {
                (Direction::Down, _) => {
                    let neighbour = (frame.hop, frame.station);
                    table.hear(neighbour, Origin::Traffic, true, now, &mut |effect| {
                        self.act(effect, cx)
                    });
                    cx.drop(message, Counted::Learned.counter());
                }
                (Direction::Up, ether_type::ARP) => self.arrive(table, message, cx),
                (Direction::Up, _) => {
                    table.send(frame.hop, message, now, &mut |effect| self.act(effect, cx));
                }
            }
        }
        wake(table, cx);
    }

    fn settle(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        if let Some(table) = table(state, cx) {
            table.publish();
        }
    }

    fn expire(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        if let Some(table) = table(state, cx) {
            let now = cx.now();
            table.expire(now, &mut |effect| self.act(effect, cx));
            wake(table, cx);
        }
    }
}

/// The table, which the device's bucket has and no other.
fn table<'a>(state: &'a mut dyn State, cx: &Context<'_>) -> Option<&'a mut Table> {
    (cx.bucket() == Some(BucketId::DEVICE)).then(|| state.of::<Table>())
}

fn wake(table: &Table, cx: &mut Context<'_>) {
    if table.next() < Instant::MAX {
        cx.wake_at(table.next());
    }
}

#[cfg(test)]
mod tests;
