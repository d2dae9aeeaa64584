//! Who speaks to the stack under test in one case: an address of its own, what is sent from it, and what comes back to it.

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use crate::packet::{self, Segment};
use crate::seen::{Body, Seen};
use crate::wire::Wire;

/// The address of the stack under test, and the length of its network's prefix.
pub const SERVER: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub const PREFIX: u8 = 16;
/// Its address on the far network, where it forwards, the router beyond which it knows most others, and the longest packet there.
pub const FAR_SERVER: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 1);
pub const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 78, 0, 2);
pub const FAR_MTU: u16 = 600;

pub const ECHO: u16 = 7;
pub const DISCARD: u16 = 9;
pub const DAYTIME: u16 = 13;
pub const CHARGEN: u16 = 19;
/// Where nobody listens.
pub const CLOSED: u16 = 4;

/// How long what must come is waited for. A stack that is right never takes so long, however busy the machine.
pub const PATIENCE: Duration = Duration::from_secs(8);
/// How long a case may take: nothing comes to it after that.
const LONGEST: Duration = Duration::from_secs(60);
/// The identifier of the echo requests by which it is found out that nothing else has come.
const SETTLING: [u8; 2] = [0xb1, 0xb2];
/// Lines of an exchange that are kept for a report.
const LINES: usize = 40;

/// What a case has found.
pub type Outcome<T = ()> = Result<T, Failure>;

/// What was to come, and what did.
#[derive(Debug)]
pub struct Failure {
    pub expected: String,
    pub seen: String,
}

impl Failure {
    pub fn new(expected: impl Into<String>, seen: impl Into<String>) -> Failure {
        Failure {
            expected: expected.into(),
            seen: seen.into(),
        }
    }
}

/// Fails a case unless something holds.
pub fn ensure(holds: bool, expected: impl Into<String>, seen: impl Into<String>) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(Failure::new(expected, seen))
    }
}

/// A host of the driver's.
pub struct Peer {
    pub address: Ipv4Addr,
    /// Who speaks on the far network, where the stack forwards.
    far: Option<Box<Peer>>,
    wire: Arc<Wire>,
    inbox: Receiver<(Instant, Vec<u8>)>,
    /// What came while something else was waited for.
    early: VecDeque<(Instant, Seen)>,
    started: Instant,
    lines: VecDeque<String>,
    next_port: u16,
    next_id: u16,
    settled: u16,
}

impl Peer {
    pub fn new(address: Ipv4Addr, wire: Arc<Wire>, inbox: Receiver<(Instant, Vec<u8>)>) -> Peer {
        Peer {
            address,
            far: None,
            wire,
            inbox,
            early: VecDeque::new(),
            started: Instant::now(),
            lines: VecDeque::new(),
            next_port: 2000,
            next_id: 1,
            settled: 0,
        }
    }

    /// The same, with somebody on the far network.
    pub fn with_far(self, far: Option<Peer>) -> Peer {
        Peer {
            far: far.map(Box::new),
            ..self
        }
    }

    /// Who speaks on the far network.
    ///
    /// # Panics
    /// If the stack does not forward.
    pub fn far(&mut self) -> &mut Peer {
        let far = self.far.as_deref_mut();
        far.expect("the case is of a class that forwards")
    }

    /// The exchange so far, its last lines; behind it that of the far network.
    pub fn exchange(&self) -> Vec<String> {
        let mut lines: Vec<String> = self.lines.iter().cloned().collect();
        if let Some(far) = &self.far {
            let beyond = far.exchange();
            lines.extend(beyond.into_iter().map(|line| format!("far: {line}")));
        }
        lines
    }

    /// A port that this peer has not used lately.
    pub fn port(&mut self) -> u16 {
        self.next_port = self.next_port.wrapping_add(1);
        self.next_port
    }

    /// An identification that this peer has not used lately.
    pub fn id(&mut self) -> u16 {
        self.next_id = self.next_id.wrapping_add(1);
        self.next_id
    }

    /// A header from here to the stack.
    pub fn ip(&mut self, protocol: u8) -> etherparse::Ipv4Header {
        let id = self.id();
        packet::ip(self.address, SERVER, protocol, id)
    }

    /// Sends a packet as it is.
    pub fn send(&mut self, packet: &[u8]) -> Outcome {
        match Seen::read(packet) {
            Some(seen) => self.note("->", &seen.to_string()),
            None => self.note("->", &format!("{} bytes that are no packet", packet.len())),
        }
        self.put(packet)
    }

    /// Sends a segment.
    pub fn send_segment(&mut self, segment: &Segment) -> Outcome {
        let bytes = segment.bytes(self.address, SERVER);
        let packet = packet::packet(self.ip(6), &bytes);
        self.send(&packet)
    }

    /// Sends an ICMP message.
    pub fn send_icmp(&mut self, kind: u8, code: u8, rest: [u8; 4], text: &[u8]) -> Outcome {
        let packet = packet::packet(self.ip(1), &packet::icmp(kind, code, rest, text));
        self.send(&packet)
    }

    /// Sends a UDP datagram.
    pub fn send_udp(&mut self, from: u16, to: u16, text: &[u8]) -> Outcome {
        let bytes = packet::udp((from, to), self.address, SERVER, text);
        let packet = packet::packet(self.ip(17), &bytes);
        self.send(&packet)
    }

    /// The next packet within a time, and when it came.
    pub fn next(&mut self, within: Duration) -> Option<(Instant, Seen)> {
        if let Some(early) = self.early.pop_front() {
            return Some(early);
        }
        let until = Instant::now() + within;
        loop {
            let (at, seen) = self.take(until)?;
            if self.settling(&seen).is_none() {
                return Some((at, seen));
            }
        }
    }

    /// The next packet must be this.
    ///
    /// # Errors
    /// If it is another, or none comes.
    pub fn expect(&mut self, what: &str, is: impl Fn(&Seen) -> bool) -> Outcome<Seen> {
        match self.next(PATIENCE) {
            Some((_, seen)) if is(&seen) => Ok(seen),
            Some((_, seen)) => Err(Failure::new(what, seen.to_string())),
            None => Err(Failure::new(what, "nothing")),
        }
    }

    /// Nothing else may have come of all that was sent: two echo requests, one after the other, have been answered behind it.
    ///
    /// # Errors
    /// If something has.
    pub fn expect_nothing(&mut self) -> Outcome {
        self.settle()?;
        match self.early.pop_front() {
            None => Ok(()),
            Some((_, seen)) => Err(Failure::new("nothing", seen.to_string())),
        }
    }

    /// Waits until the stack is done with all that was sent. What comes meanwhile is kept.
    ///
    /// # Errors
    /// If it answers no echo request.
    pub fn settle(&mut self) -> Outcome {
        for _ in 0..2 {
            self.settled = self.settled.wrapping_add(1);
            let [a, b] = SETTLING;
            let [c, d] = self.settled.to_be_bytes();
            let packet = packet::packet(self.ip(1), &packet::icmp(8, 0, [a, b, c, d], &[]));
            self.put(&packet)?;
            let until = Instant::now() + PATIENCE;
            loop {
                let Some((at, seen)) = self.take(until) else {
                    return Err(Failure::new("an echo reply", "nothing"));
                };
                match self.settling(&seen) {
                    Some(number) if number == self.settled => break,
                    Some(_) => {}
                    None => self.early.push_back((at, seen)),
                }
            }
        }
        Ok(())
    }

    /// What is next, once all that was sent is done with; if there is nothing, within a time.
    ///
    /// # Errors
    /// If the stack answers no echo request.
    pub fn peek(&mut self, within: Duration) -> Outcome<Option<&Seen>> {
        self.settle()?;
        if self.early.is_empty()
            && let Some(late) = self.next(within)
        {
            self.early.push_back(late);
        }
        Ok(self.early.front().map(|(_, seen)| seen))
    }

    /// Forgets what has come.
    pub fn clear(&mut self) {
        self.early.clear();
    }

    /// Which of its own echo requests this answers.
    fn settling(&self, seen: &Seen) -> Option<u16> {
        match seen.body {
            Body::Icmp {
                kind: 0,
                rest: [a, b, c, d],
                ..
            } if [a, b] == SETTLING => Some(u16::from_be_bytes([c, d])),
            _ => None,
        }
    }

    fn put(&mut self, packet: &[u8]) -> Outcome {
        let sent = self.wire.send(packet);
        sent.map_err(|error| Failure::new("the device takes a packet", error.to_string()))
    }

    fn take(&mut self, until: Instant) -> Option<(Instant, Seen)> {
        let now = Instant::now();
        if now > self.started + LONGEST {
            return None;
        }
        let left = until.saturating_duration_since(now);
        let (at, packet) = self.inbox.recv_timeout(left).ok()?;
        // The reader sends on what has an IPv4 header only.
        let seen = Seen::read(&packet)?;
        if self.settling(&seen).is_none() {
            self.note("<-", &seen.to_string());
        }
        Some((at, seen))
    }

    fn note(&mut self, way: &str, what: &str) {
        if self.lines.len() == LINES {
            self.lines.pop_front();
        }
        let ms = self.started.elapsed().as_millis();
        self.lines.push_back(format!("{ms:>6} ms {way} {what}"));
    }
}
