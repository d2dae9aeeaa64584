//! A stack under attack, a friend that it talks to all the while, and an attacker who plays the wire between them by hand.

use crate::packet::{self, ACK, FIN, Ip, SYN, Segment};
use braidnet::device::{Capabilities, Device, Medium, QueuePair, memory};
use braidnet::message::{Arena, Pool, Run};
use braidnet::stream::Next;
use braidnet::wire::ethernet::MacAddress;
use braidnet::{Connection, Duration, Event, Instant, Stack, StackConfig};
use std::collections::BTreeMap;

pub const TARGET: Ip = [10, 77, 0, 2];
pub const FRIEND: Ip = [10, 77, 0, 1];
/// An address that nobody has: the attacker's.
pub const EVIL: Ip = [10, 77, 0, 66];
/// A port that the target listens on.
pub const PORT: u16 = 7;
/// Where the target listens with a backlog of [`BACKLOG`].
pub const NARROW_PORT: u16 = 8;
pub const BACKLOG: u32 = 16;
pub const CLOSED_PORT: u16 = 9;

pub const TARGET_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub const EVIL_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x66];
const BROADCAST_MAC: [u8; 6] = [0xff; 6];
const MTU: usize = 1500;
/// Packets that each wire holds.
const DEPTH: usize = 4096;
/// Turns in which a rig must come to rest.
const PATIENCE: usize = 20_000;

/// Counters that say that something went well, whoever caused it.
const TRAFFIC: &[&str] = &[
    "tcp.walks",
    "tcp.segments_in",
    "tcp.segments_out",
    "tcp.data_segments_in",
    "tcp.opened",
    "tcp.closed",
    "arp.requests",
    "arp.replies",
    "arp.taken",
    "link.unresolved",
];

pub struct Rig {
    pub target: Stack,
    pub friend: Stack,
    target_side: QueuePair,
    friend_side: QueuePair,
    friend_mac: [u8; 6],
    ethernet: bool,
    pool: Pool,
    pub now: Instant,
    /// What the target sent to others than the friend, IP packets without their frames.
    pub captured: Vec<Vec<u8>>,
    /// The friend's connection to the target: its end at the friend, and at the target.
    friendship: (Connection, Connection),
    /// The friend's latest segment that was passed on, and the target's.
    overheard: [Option<Segment>; 2],
    events: Vec<Event>,
    /// The target's owner takes no events.
    pub nobody_accepts: bool,
    /// Bytes that went each way between friend and target.
    exchanged: u64,
}

impl Rig {
    pub fn new(ethernet: bool) -> Rig {
        Rig::with(ethernet, |_| {})
    }

    /// A rig whose target is configured by `change`.
    pub fn with(ethernet: bool, change: impl Fn(&mut StackConfig)) -> Rig {
        let capabilities = match ethernet {
            true => Capabilities::ethernet(MacAddress(TARGET_MAC), MTU),
            false => Capabilities::ip(MTU),
        };
        let mut config = StackConfig::new(TARGET.into());
        config.addresses = vec![(TARGET.into(), Some(24))];
        change(&mut config);
        let (target_end, target_side) = memory::wire(capabilities, DEPTH);
        let (friend_side, friend_end) = memory::wire(capabilities, DEPTH);
        let friend_mac = match friend_end.capabilities().medium {
            Medium::Ip => [0; 6],
            Medium::Ethernet { address } => address.0,
        };
        let mut friend_config = StackConfig::new(FRIEND.into());
        friend_config.addresses = vec![(FRIEND.into(), Some(24))];
        let mut target = Stack::new(&config, target_end.copying()).unwrap();
        let friend = Stack::new(&friend_config, friend_end.copying()).unwrap();
        target.listen(PORT, 1024).unwrap();
        target.listen(NARROW_PORT, BACKLOG).unwrap();
        let nobody = Connection::default();
        let mut rig = Rig {
            target,
            friend,
            target_side: open(target_side),
            friend_side: open(friend_side),
            friend_mac,
            ethernet,
            pool: Pool::new(&Arena::new(64 << 20)),
            now: Instant::from_millis(1000),
            captured: Vec::new(),
            friendship: (nobody, nobody),
            overheard: [None, None],
            events: Vec::new(),
            nobody_accepts: false,
            exchanged: 0,
        };
        rig.make_friends();
        rig.introduce();
        rig
    }

    fn make_friends(&mut self) {
        let to = std::net::SocketAddr::from((TARGET, PORT));
        let there = self.friend.connect(to).unwrap();
        self.settle();
        let here = self.accepted().expect("the friend is let in");
        self.friendship = (there, here);
        self.assert_undisturbed();
    }

    /// On Ethernet, lets the target know the attacker's station as any neighbour's.
    pub fn introduce(&mut self) {
        if self.ethernet {
            let request = packet::arp(1, (EVIL_MAC, EVIL), ([0; 6], TARGET));
            self.inject_frame(&packet::frame(EVIL_MAC, BROADCAST_MAC, 0x0806, &request));
            self.settle();
            self.captured.clear();
        }
    }

    /// Gives the target an IP packet, in a frame from the attacker where there are frames.
    pub fn inject(&mut self, packet: &[u8]) {
        if self.ethernet {
            let frame = packet::frame(EVIL_MAC, TARGET_MAC, 0x0800, packet);
            self.inject_frame(&frame);
        } else {
            self.inject_frame(packet);
        }
    }

    /// Gives the target what the device is to deliver.
    pub fn inject_frame(&mut self, frame: &[u8]) {
        give(&mut self.target_side, &mut self.pool, frame);
    }

    /// Injects packets and turns until nothing is left to do; what the attacker gets in answer.
    pub fn attack(&mut self, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
        for packet in packets {
            self.inject(packet);
        }
        self.settle();
        std::mem::take(&mut self.captured)
    }

    /// One segment, and the segments that come in answer.
    pub fn segment(&mut self, segment: &Segment) -> Vec<Segment> {
        let answers = self.attack(&[segment.packet()]);
        answers.iter().filter_map(|p| packet::parse(p)).collect()
    }

    /// Turns everybody until nothing is left to do now.
    pub fn settle(&mut self) {
        for _ in 0..PATIENCE {
            let mut next = self.target.turn(self.now) == Next::Again;
            next |= self.friend.turn(self.now) == Next::Again;
            let moved = self.relay();
            while !self.nobody_accepts
                && let Some(event) = self.target.event()
            {
                self.events.push(event);
            }
            if !next && !moved {
                return;
            }
        }
        panic!("the stacks do not come to rest");
    }

    /// Lets time pass, stopping wherever something is due.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            self.settle();
            let next = [self.target.turn(self.now), self.friend.turn(self.now)];
            let due = next.into_iter().filter_map(|next| match next {
                Next::At(at) => Some(at),
                _ => None,
            });
            match due.min().filter(|at| *at <= end) {
                Some(at) => self.now = at.max(self.now + Duration::from_nanos(1)),
                None => break,
            }
        }
        self.now = end;
        self.settle();
    }

    /// Carries packets between the two; whether there were any.
    fn relay(&mut self) -> bool {
        let mut run = Run::new();
        let mut moved = 0;
        moved += self
            .friend_side
            .receiver
            .receive(&mut self.pool, &mut run, 64);
        for message in run.drain() {
            let bytes: Vec<u8> = message.blocks().flatten().copied().collect();
            if let Some(segment) = packet::parse(self.payload_of(&bytes)) {
                self.overheard[0] = Some(segment);
            }
            give(&mut self.target_side, &mut self.pool, &bytes);
        }
        moved += self
            .target_side
            .receiver
            .receive(&mut self.pool, &mut run, 64);
        for message in run.drain() {
            let bytes: Vec<u8> = message.blocks().flatten().copied().collect();
            self.route(&bytes);
        }
        moved > 0
    }

    fn route(&mut self, bytes: &[u8]) {
        let payload = self.payload_of(bytes).to_vec();
        let (to_friend, to_others) = if self.ethernet {
            let to = &bytes[..6];
            (
                to == self.friend_mac || to == BROADCAST_MAC,
                to != self.friend_mac,
            )
        } else {
            let friendly = payload[16..20] == FRIEND;
            (friendly, !friendly)
        };
        if to_friend {
            if let Some(segment) = packet::parse(&payload) {
                self.overheard[1] = Some(segment);
            }
            give(&mut self.friend_side, &mut self.pool, bytes);
        }
        if to_others {
            self.captured.push(payload);
        }
    }

    fn payload_of<'a>(&self, bytes: &'a [u8]) -> &'a [u8] {
        if self.ethernet { &bytes[14..] } else { bytes }
    }

    /// The next connection that the target has accepted.
    pub fn accepted(&mut self) -> Option<Connection> {
        self.take_event(|event| match event {
            Event::Accepted(connection) => Some(connection),
            _ => None,
        })
    }

    /// Takes the first of the target's events that `wanted` wants.
    pub fn take_event<T>(&mut self, wanted: impl Fn(Event) -> Option<T>) -> Option<T> {
        let at = self
            .events
            .iter()
            .position(|event| wanted(*event).is_some())?;
        wanted(self.events.remove(at))
    }

    /// The friend and the target still exchange bytes, exactly, over the connection that they have had all the time.
    pub fn assert_undisturbed(&mut self) {
        let (there, here) = self.friendship;
        let text: Vec<u8> = (0..5000u64)
            .map(|i| (i * 7 + self.exchanged).to_le_bytes()[0] ^ (i >> 8) as u8)
            .collect();
        self.exchanged += text.len() as u64;
        assert_eq!(self.friend.send(there, &text), Ok(text.len()));
        assert_eq!(self.target.send(here, &text), Ok(text.len()));
        // Long enough for what was lost to be sent again.
        for _ in 0..100 {
            self.settle();
            if self.target.readable(here) >= text.len() && self.friend.readable(there) >= text.len()
            {
                break;
            }
            self.pass(Duration::from_millis(250));
        }
        let mut heard = vec![0; text.len() + 1];
        let n = self.target.receive(here, &mut heard).unwrap_or(0);
        let (now, counters) = (self.now, self.target.counters());
        assert!(
            heard[..n] == text,
            "at {now:?} the target hears {n} bytes of its friend's: {counters:?}"
        );
        let n = self.friend.receive(there, &mut heard).unwrap_or(0);
        assert!(
            heard[..n] == text,
            "at {now:?} the friend hears {n} bytes of the target's: {counters:?}"
        );
        self.settle();
    }

    /// A forger's view of the friend's connection: segments that look like the friend's.
    pub fn forged(&self) -> Segment {
        let [friend, target] = self.overheard.clone().map(Option::unwrap);
        let length = |s: &Segment| {
            s.data.len() as u32 + u32::from(s.flags & SYN != 0) + u32::from(s.flags & FIN != 0)
        };
        Segment {
            seq: friend.seq.wrapping_add(length(&friend)),
            ack: target.seq.wrapping_add(length(&target)),
            flags: ACK,
            data: Vec::new(),
            ..friend
        }
    }

    /// Opens a connection from the attacker's `port` by hand, with these options on its SYN. What the attacker sends next
    /// on it, and the target's end of it.
    pub fn connect_from(&mut self, port: u16, options: &[u8]) -> (Segment, Connection) {
        self.connect_at(port, 1000, options)
    }

    /// The same with this initial sequence number.
    pub fn connect_at(&mut self, port: u16, iss: u32, options: &[u8]) -> (Segment, Connection) {
        let syn = Segment {
            seq: iss,
            flags: SYN,
            ..Segment::new((EVIL, port), (TARGET, PORT))
        };
        let answers = self.segment(&syn.clone().options(options));
        let [syn_ack] = &answers[..] else {
            panic!("the SYN is answered with {answers:?}")
        };
        assert_eq!(
            (syn_ack.flags, syn_ack.ack),
            (SYN | ACK, iss.wrapping_add(1))
        );
        let next = Segment {
            seq: syn_ack.ack,
            ack: syn_ack.seq.wrapping_add(1),
            options: echoed(syn_ack),
            ..Segment::new((EVIL, port), (TARGET, PORT))
        };
        self.segment(&next);
        let connection = self.accepted().expect("the attacker is let in");
        (next, connection)
    }

    /// Everything that can be read of a connection of the target.
    pub fn read(&mut self, connection: Connection) -> Vec<u8> {
        let mut text = vec![0; self.target.readable(connection)];
        let n = self.target.receive(connection, &mut text).unwrap_or(0);
        text.truncate(n);
        text
    }

    /// Resets the attacker's connection and lets the target forget it.
    pub fn hang_up(&mut self, connection: Connection) {
        self.target.abort(connection);
        self.settle();
        self.captured.clear();
        self.events.clear();
    }

    /// What the target's counters count beside traffic that went well.
    pub fn counted(&self) -> BTreeMap<String, u64> {
        let mut counted = self.target.counters();
        counted.retain(|name, _| !TRAFFIC.contains(&name.as_str()));
        counted
    }

    /// A counter of the target.
    pub fn count(&self, name: &str) -> u64 {
        self.target.counters().get(name).copied().unwrap_or(0)
    }
}

/// What has been counted since `before`.
pub fn since(before: &BTreeMap<String, u64>, after: &BTreeMap<String, u64>) -> Vec<(String, u64)> {
    let grown = |(name, count): (&String, &u64)| {
        let more = count - before.get(name).copied().unwrap_or(0);
        (more > 0).then(|| (name.clone(), more))
    };
    after.iter().filter_map(grown).collect()
}

/// The timestamps that answer a SYN-ACK's, if it has any: those of a peer whose clock stands at 3000.
pub fn echoed(syn_ack: &Segment) -> Vec<u8> {
    let at = syn_ack.options.windows(2).position(|pair| pair == [8, 10]);
    at.map_or_else(Vec::new, |at| {
        let mut option = vec![1, 1, 8, 10, 0, 0, 0x0b, 0xb8];
        option.extend_from_slice(&syn_ack.options[at + 2..at + 6]);
        option
    })
}

fn open(end: memory::WireEnd) -> QueuePair {
    Box::new(end).open().unwrap().remove(0)
}

fn give(side: &mut QueuePair, pool: &mut Pool, bytes: &[u8]) {
    let mut run = Run::new();
    run.extend(pool.copy_from_slice(0, bytes));
    assert_eq!(run.len(), 1, "the test's own pool is large enough");
    side.transmitter.transmit(&mut run);
    assert!(run.is_empty(), "the wire is full");
}
