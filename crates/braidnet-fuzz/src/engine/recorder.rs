//! Sessions between the engine under test and another one, over a link that loses, repeats and delays, as inputs: what fuzzing begins with.

use super::driver::{Driver, cookie};
use super::input::{Kind, RECORD, Record};
use braidnet_tcp::{Config, EcnMode, KnownServer, Payload, Tcb};
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use braidnet_wire::time::{Duration, Instant};
use std::sync::Arc;

/// Most records of a session.
const RECORDS: usize = 150;

/// Octets that nobody looks at.
struct Octets(usize);

impl Payload for Octets {
    fn len(&self) -> usize {
        self.0
    }

    fn trim_front(&mut self, n: usize) {
        self.0 -= n;
    }

    fn truncate(&mut self, n: usize) {
        self.0 = n;
    }
}

/// A segment, when it arrives.
type Packet = (Instant, TcpHeader, usize);

struct Session {
    input: Vec<u8>,
    driver: Driver,
    peer: Option<Tcb<Octets>>,
    peer_config: Config,
    to_peer: Vec<Packet>,
    to_us: Vec<Packet>,
    now: Instant,
    random: u64,
}

/// The input that a session leaves; which one, `seed` says.
pub fn session(seed: u64) -> Vec<u8> {
    let mut session = Session::open(seed);
    while session.input.len() < RECORDS * RECORD && session.step() {}
    session.input
}

impl Session {
    fn open(seed: u64) -> Session {
        let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut setup = [0; RECORD];
        let active = next(&mut random, 2) == 1;
        // Not yet shaken hands; we wait, or begin.
        setup[0] = 129 + u8::from(active);
        setup[1] = next(&mut random, 256) as u8 & !0x60;
        setup[2] = next(&mut random, 8) as u8;
        setup[4] = next(&mut random, 3) as u8;
        setup[6..8].copy_from_slice(&[1, 44]);
        setup[8] = 2;
        setup[10..12].copy_from_slice(&[0x0f, 0xa0]);
        setup[12] = next(&mut random, 256) as u8;
        setup[13] = next(&mut random, 4) as u8;
        // What an opener makes of congestion notification, and whether data travel with the SYN.
        setup[9] = next(&mut random, 4) as u8 * 0x20;
        let octets = (next(&mut random, 2) == 1).then(|| next(&mut random, 200) as u8);
        if let Some(octets) = octets {
            setup[9] |= 4;
            setup[15] = octets;
        }
        let driver = Driver::open(Record(&setup));
        let peer_config = Config {
            receive_buffer_bytes: 4000,
            receive_buffer_max_bytes: 4000 << 5,
            ecn: match active {
                true => EcnMode::Accurate,
                false => EcnMode::Passive,
            },
            ..Config::default()
        };
        let now = driver.now();
        let iss = driver.irs();
        let peer = (!active).then(|| {
            let mut peer = Tcb::connect(&Arc::new(peer_config), iss, 300, now);
            if let Some(octets) = octets {
                let known = KnownServer {
                    cookie: cookie(),
                    mss: 300,
                };
                peer.ask_fast_open(Some(known));
                peer.send(octets.into());
            }
            peer
        });
        let mut session = Session {
            input: setup.to_vec(),
            driver,
            peer,
            peer_config,
            to_peer: Vec::new(),
            to_us: Vec::new(),
            now,
            random,
        };
        session.poll_peer();
        // Its SYN is the one that has opened the connection.
        session.to_us.clear();
        session.collect();
        session
    }

    /// The next thing that happens; false if nothing would.
    fn step(&mut self) -> bool {
        match next(&mut self.random, 12) {
            0 => self.say(Kind::Send, [0, 0]),
            1 => self.say(Kind::Receive, [0, 0]),
            2 if self.input.len() > RECORDS * RECORD / 2 => self.say(Kind::Call, [0, 0]),
            3..=5 => {
                let bytes = next(&mut self.random, 1200) as u32;
                if let Some(peer) = &mut self.peer {
                    let fits = bytes.min(peer.send_space());
                    peer.send(fits);
                    if self.input.len() > RECORDS * RECORD * 3 / 4 {
                        peer.close(self.now);
                    }
                }
                self.poll_peer();
            }
            _ => return self.pass(),
        }
        true
    }

    /// Time passes, up to whatever comes first.
    fn pass(&mut self) -> bool {
        let arrivals = self
            .to_us
            .iter()
            .chain(&self.to_peer)
            .map(|packet| packet.0);
        let timers = [
            self.driver.deadline(),
            self.peer.as_ref().and_then(Tcb::deadline),
        ];
        let Some(at) = arrivals.chain(timers.into_iter().flatten()).min() else {
            return false;
        };
        let at = at.max(self.now);
        let steps = (at.nanos() - self.now.nanos()).div_ceil(62_500).min(0xffff) as u16;
        if steps > 0 {
            self.say(Kind::Time, steps.to_be_bytes());
        }
        let now = self.now;
        let due = |packet: &mut Packet| packet.0 <= now;
        let arrived: Vec<Packet> = self.to_us.extract_if(.., due).collect();
        for (_, header, len) in arrived {
            let record = self.driver.record_of(&header, len);
            self.put(record);
        }
        let arrived: Vec<Packet> = self.to_peer.extract_if(.., due).collect();
        for (_, header, len) in arrived {
            self.arrive_at_peer(&header, len);
        }
        if let Some(peer) = &mut self.peer
            && peer.deadline().is_some_and(|deadline| deadline <= now)
        {
            let _ = peer.on_deadline(now);
        }
        self.poll_peer();
        true
    }

    fn arrive_at_peer(&mut self, header: &TcpHeader, len: usize) {
        let (config, iss) = (self.peer_config, self.driver.irs());
        if self.peer.is_none() && header.flags.contains(TcpFlags::SYN) {
            let mut peer = Tcb::accept(&Arc::new(config), iss, 300, header, self.now);
            if header.fast_open() == Some(cookie()) {
                peer.open_early(self.now, Some(Octets(len)), &mut Vec::new());
                peer.receive(len as u32);
            }
            self.peer = Some(peer);
            return;
        }
        if let Some(peer) = &mut self.peer {
            let mut sink: Vec<Octets> = Vec::new();
            let _ = peer.on_segment(self.now, header, Some(Octets(len)), &mut sink);
            let bytes: usize = sink.iter().map(Payload::len).sum();
            peer.receive(bytes as u32);
            peer.take_acked();
        }
    }

    /// A record of a kind that takes a number.
    fn say(&mut self, kind: Kind, number: [u8; 2]) {
        let mut record = [0; RECORD];
        record[0] = kind.first_byte();
        record[2..4].copy_from_slice(&match kind {
            Kind::Time => number,
            _ => (next(&mut self.random, 2000) as u16).to_be_bytes(),
        });
        self.put(record);
    }

    fn put(&mut self, record: [u8; RECORD]) {
        self.driver.step(Record(&record));
        self.input.extend_from_slice(&record);
        self.now = self.now.max(self.driver.now());
        self.collect();
    }

    /// What we have sent goes onto the link.
    fn collect(&mut self) {
        for segment in self.driver.take_sent() {
            let packets = self.fates(segment.header, segment.len as usize);
            self.to_peer.extend(packets);
        }
    }

    fn poll_peer(&mut self) {
        let Some(mut peer) = self.peer.take() else {
            return;
        };
        while let Some(segment) = peer.poll_transmit(self.now, |_, max| max) {
            let packets = self.fates(segment.header, segment.len as usize);
            self.to_us.extend(packets);
        }
        self.peer = Some(peer);
    }

    /// When a segment arrives, and how often.
    fn fates(&mut self, header: TcpHeader, len: usize) -> Vec<Packet> {
        let copies = match next(&mut self.random, 20) {
            0 => 0,
            1 => 2,
            _ => 1,
        };
        (0..copies)
            .map(|_| {
                let late = [0, 0, 0, 30][next(&mut self.random, 4) as usize];
                let delay = Duration::from_millis(10 + next(&mut self.random, late + 1));
                (self.now + delay, header, len)
            })
            .collect()
    }
}

/// 0 to `bound` - 1 (xorshift64*).
fn next(state: &mut u64, bound: u64) -> u64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % bound
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_recorded_happens_again() {
        let mut longest = 0;
        for seed in 0..20 {
            let input = session(seed);
            assert_eq!(input, session(seed));
            crate::engine::connection(&input);
            longest = longest.max(input.len());
        }
        assert!(longest >= RECORDS * RECORD, "sessions go on");
    }
}
