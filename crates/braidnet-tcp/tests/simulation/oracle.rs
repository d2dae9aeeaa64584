//! What must hold, checked from outside the engine: the oracle knows both streams, every segment that was sent and every
//! segment that was taken, and asks the engine only for what cannot be seen on the wire.

use braidnet_tcp::{TcpInfo, Transmit};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use braidnet_wire::time::{Duration, Instant};
use std::fmt;

/// The laws.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Law {
    /// What is delivered is the peer's stream, in order, byte for byte; what is sent is one's own.
    Bytes,
    /// Bytes are released only after the peer has delivered them.
    Released,
    /// The end of data comes once, after all data; no event comes that nothing has caused.
    Events,
    /// Acknowledgments never go back (RFC 9293 §3.8).
    AckMonotone,
    /// Only what has arrived is acknowledged, selectively or not (RFC 2018 §4).
    AckOfArrived,
    /// Nothing but single octets is sent beyond the right edge that the peer has announced (RFC 9293 §3.8.6).
    Window,
    /// The announced right edge never moves back (RFC 9293 §3.8.6, SHLD-14), but for what the shift rounds off.
    RightEdge,
    /// No more is announced than there is room for.
    Promise,
    /// No more is on the way than the congestion window allows when new data is sent (RFC 5681 §3.1).
    Congestion,
    /// No segment is longer than the peer and the path can take (RFC 9293 §3.7.1).
    SegmentSize,
    /// Once agreed on, timestamps are in each segment, and never go back (RFC 7323 §3.2, §5.4).
    Timestamps,
    /// A segment is called a retransmission if any of it was sent before.
    Label,
    /// What is held out of order fits the receive buffer and the limit of pieces.
    Memory,
    /// What is taken for a round trip has taken no longer than since the oldest octet that is acknowledged was last sent
    /// (Karn's rule, RFC 6298 §3).
    RoundTrip,
    /// Something happens within the stated time, and a timer runs while something is awaited.
    Progress,
    /// A perfect link sees nothing twice.
    Waste,
    /// TIME-WAIT lasts as long as it should (RFC 9293 §3.4.2).
    TimeWait,
    /// Everything ends.
    Endless,
}

/// A law that was broken, and how.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    pub law: Law,
    pub detail: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.law, self.detail)
    }
}

pub type Verdict = Result<(), Violation>;

/// `holds`, or this law is broken.
pub fn demand(holds: bool, law: Law, detail: impl FnOnce() -> String) -> Verdict {
    if holds {
        Ok(())
    } else {
        Err(Violation {
            law,
            detail: detail(),
        })
    }
}

/// One host as seen from outside. Places are counted from a SYN, which has place 0; the first byte has place 1.
pub struct Account {
    iss: SeqNumber,
    stream: Vec<u8>,
    /// Bytes that its application has handed over, and whether the FIN follows them.
    pub written: usize,
    pub closed: bool,
    /// The first SYN that it sent.
    syn: Option<TcpHeader>,
    /// One past the highest place that it sent.
    sent: u32,
    /// When it sent which places, as far as they are not acknowledged, in the order of time.
    sendings: Vec<Sending>,
    /// Places that it sent more than once, but for one at the start of a segment: it may be a probe of a closed window.
    pub wasted: u32,
    /// The probe of the tail that is out was new data beyond the window.
    tail_probed: bool,
    /// What was fed to it of the peer's places.
    heard: Ranges,
    /// Places that came more than once.
    twice: Ranges,
    /// Its latest acknowledgment, and the right edge that went with it, in the peer's places.
    acked: u32,
    announced: u32,
    /// The furthest right edge that was fed to it, in its own places.
    edge_heard: u32,
    timestamp: Option<u32>,
    /// Bytes of the peer's stream that its application has got, and has taken.
    pub delivered: usize,
    pub taken: usize,
    receive_buffer: u32,
    mss: u16,
}

/// Places from `start` to `end`, sent when its clock showed `at`.
struct Sending {
    start: u32,
    end: u32,
    at: Instant,
}

/// The accounts of both hosts.
pub struct Oracle {
    pub accounts: [Account; 2],
}

impl Account {
    pub fn new(iss: u32, stream: Vec<u8>, receive_buffer: u32, mss: u16) -> Account {
        Account {
            iss: SeqNumber::new(iss),
            stream,
            written: 0,
            closed: false,
            syn: None,
            sent: 0,
            sendings: Vec::new(),
            wasted: 0,
            tail_probed: false,
            heard: Ranges::default(),
            twice: Ranges::default(),
            acked: 0,
            announced: 0,
            edge_heard: 0,
            timestamp: None,
            delivered: 0,
            taken: 0,
            receive_buffer,
            mss,
        }
    }

    pub fn stream(&self) -> &[u8] {
        &self.stream
    }

    fn has(&self, bit: u8) -> bool {
        self.syn.is_some_and(|syn| syn.has(bit))
    }
}

impl Oracle {
    /// A segment is fed to host `to`'s engine.
    pub fn fed(&mut self, to: usize, header: &TcpHeader, len: usize) {
        if header.flags.contains(TcpFlags::RST) {
            return;
        }
        let shift = self.shift(1 - to, header);
        let (own, peer) = self.pair(to);
        let start = header.seq - peer.iss;
        let end = start + octets(header, len);
        for (from, to) in own.heard.shared(start, end) {
            own.twice.add(from, to);
        }
        own.heard.add(start, end);
        if header.flags.contains(TcpFlags::ACK) {
            let edge = (header.ack - own.iss) + (u32::from(header.window) << shift);
            own.edge_heard = own.edge_heard.max(edge);
        }
    }

    /// Host `from`'s engine sends a segment with this data.
    pub fn sends(
        &mut self,
        from: usize,
        now: Instant,
        transmit: &Transmit,
        data: &[u8],
        status: &TcpInfo,
    ) -> Verdict {
        let header = &transmit.header;
        if header.flags.contains(TcpFlags::RST) {
            return Ok(());
        }
        if header.flags.contains(TcpFlags::SYN) {
            self.accounts[from].syn.get_or_insert(*header);
        }
        self.acknowledgment(from, header)?;
        self.timestamps(from, header)?;
        self.text(from, transmit, data)?;
        let (own, _) = self.pair(from);
        let probe = octets(header, data.len()) <= 1;
        let new = !transmit.retransmission && !data.is_empty() && !probe;
        let fin = u32::from(header.flags.contains(TcpFlags::FIN));
        // RFC 8985 §7.3: one new segment may probe the tail whatever the window says.
        let within = status.pipe <= status.cwnd + fin;
        let probes_tail = new && !within && status.probing_tail && !own.tail_probed;
        own.tail_probed = status.probing_tail && (own.tail_probed || probes_tail);
        demand(!new || within || probes_tail, Law::Congestion, || {
            format!("host {from}: {status:?}")
        })?;
        let start = header.seq - own.iss;
        let end = start + octets(header, data.len());
        if !status.probing_tail {
            own.wasted += own.sent.min(end).saturating_sub(start + 1);
        }
        own.sent = own.sent.max(end);
        if end > start {
            own.sendings.push(Sending {
                start,
                end,
                at: now,
            });
        }
        Ok(())
    }

    /// What host `at` knows of the line before and after a segment was fed to it.
    pub fn measures(
        &mut self,
        at: usize,
        now: Instant,
        before: &TcpInfo,
        after: &TcpInfo,
    ) -> Verdict {
        let (own, _) = self.pair(at);
        let una = before.snd_una - own.iss;
        let covers = |sending: &&Sending| sending.start <= una && una < sending.end;
        let since = own
            .sendings
            .iter()
            .rev()
            .find(covers)
            .map(|sending| now.since(sending.at));
        let acked = after.snd_una - own.iss;
        own.sendings.retain(|sending| sending.end > acked);
        let (old, new) = (before.srtt, after.srtt);
        // SRTT <- 7/8 SRTT + 1/8 R', where a first R', and one of 0, counts for itself (RFC 6298 §2.2).
        let most = match since.map(|since| since.max(Duration::from_nanos(1))) {
            None => old,
            Some(since) if old.is_zero() => since,
            Some(since) => old + since.saturating_sub(old) / 8 + Duration::from_nanos(1),
        };
        demand(new <= most, Law::RoundTrip, || {
            format!(
                "host {at}: a round trip of {old:?} becomes {new:?}; place {una} was sent {since:?} ago"
            )
        })
    }

    /// Place, length, content and label of what is sent.
    fn text(&mut self, from: usize, transmit: &Transmit, data: &[u8]) -> Verdict {
        let header = &transmit.header;
        let largest = self.largest_segment(from);
        let (own, _) = self.pair(from);
        let start = header.seq - own.iss;
        let end = start + octets(header, data.len());
        let what = || format!("host {from}: places {start} to {end}");
        if end > start && !header.flags.contains(TcpFlags::SYN) {
            let from_byte = start as usize - 1;
            let ours = own.stream[..own.written].get(from_byte..from_byte + data.len());
            demand(ours == Some(data), Law::Bytes, || {
                format!("{} are not from the stream", what())
            })?;
            let last = 1 + own.written as u32 + u32::from(own.closed);
            demand(end <= last, Law::Bytes, || format!("{} of {last}", what()))?;
            demand(data.len() as u32 <= largest, Law::SegmentSize, || {
                format!("{}, at most {largest}", what())
            })?;
            let inside = end <= own.edge_heard || end - start == 1;
            demand(inside, Law::Window, || {
                format!("{}, the window ends at {}", what(), own.edge_heard)
            })?;
        }
        let repeated = end > start && start < own.sent;
        demand(transmit.retransmission == repeated, Law::Label, || {
            format!("{}, {} sent before: {transmit:?}", what(), own.sent)
        })
    }

    /// What is acknowledged, selectively acknowledged and announced.
    fn acknowledgment(&mut self, from: usize, header: &TcpHeader) -> Verdict {
        if !header.flags.contains(TcpFlags::ACK) {
            return Ok(());
        }
        let shift = self.shift(from, header);
        let (own, peer) = self.pair(from);
        let ack = header.ack - peer.iss;
        demand(ack >= own.acked, Law::AckMonotone, || {
            format!("host {from}: {ack} after {}", own.acked)
        })?;
        let arrived = own.heard.prefix();
        demand(ack <= arrived, Law::AckOfArrived, || {
            format!("host {from}: {ack} of {arrived}")
        })?;
        let blocks: Vec<(u32, u32)> = (header.sack_blocks().iter())
            .map(|block| (block.left - peer.iss, block.right - peer.iss))
            .collect();
        for (at, &(left, right)) in blocks.iter().enumerate() {
            // RFC 2883 §4: the first may tell of what came twice, below the ACK or inside the second.
            let next = blocks.get(at + 1);
            let inside = next.is_some_and(|next| next.0 <= left && right <= next.1);
            let report = at == 0 && (right <= ack || inside);
            let arrived = match report {
                true => own.twice.covers(left, right),
                false => left > ack && own.heard.covers(left, right),
            };
            demand(arrived, Law::AckOfArrived, || {
                format!("host {from}: SACK of {left} to {right}, ACK {ack}")
            })?;
        }
        own.acked = ack;
        let edge = ack + (u32::from(header.window) << shift);
        let rounded = (1 << shift) - 1;
        demand(edge + rounded >= own.announced, Law::RightEdge, || {
            format!("host {from}: {edge} after {}", own.announced)
        })?;
        // SYN and FIN have places and take no room.
        let room = 2 + own.taken as u64 + u64::from(own.receive_buffer);
        demand(u64::from(edge) <= room, Law::Promise, || {
            format!("host {from}: up to {edge}, room up to {room}")
        })?;
        own.announced = own.announced.max(edge);
        Ok(())
    }

    fn timestamps(&mut self, from: usize, header: &TcpHeader) -> Verdict {
        let agreed = self.agreed(TcpHeader::HAS_TIMESTAMPS);
        let present = header.has(TcpHeader::HAS_TIMESTAMPS);
        if !header.flags.contains(TcpFlags::SYN) {
            demand(present == agreed, Law::Timestamps, || {
                format!("host {from}: agreed {agreed}, {header:?}")
            })?;
        }
        if !present {
            return Ok(());
        }
        let (own, peer) = self.pair(from);
        let later = |value: u32, than: Option<u32>| {
            than.is_none_or(|than| value.wrapping_sub(than) as i32 >= 0)
        };
        demand(
            later(header.ts_value, own.timestamp),
            Law::Timestamps,
            || format!("host {from}: {} after {:?}", header.ts_value, own.timestamp),
        )?;
        own.timestamp = Some(header.ts_value);
        let echo = header.ts_echo == 0
            || peer
                .timestamp
                .is_some_and(|latest| later(latest, Some(header.ts_echo)));
        demand(echo, Law::Timestamps, || {
            format!("host {from}: echoes {}, which was not sent", header.ts_echo)
        })
    }

    /// The next data for host `to`'s application.
    pub fn delivers(&mut self, to: usize, data: &[u8]) -> Verdict {
        let (own, peer) = self.pair(to);
        let end = own.delivered + data.len();
        let expected = peer.stream[..peer.written].get(own.delivered..end);
        demand(expected == Some(data), Law::Bytes, || {
            let at = expected.map_or(0, |expected| {
                expected
                    .iter()
                    .zip(data)
                    .take_while(|(a, b)| a == b)
                    .count()
            });
            format!(
                "host {to}: byte {} of {} is not the one that was sent",
                own.delivered + at,
                peer.written
            )
        })?;
        own.delivered = end;
        Ok(())
    }

    /// Host `to` is told that no more data comes.
    pub fn ends(&mut self, to: usize) -> Verdict {
        let (own, peer) = self.pair(to);
        let all = peer.closed && own.delivered == peer.written;
        demand(all, Law::Events, || {
            format!(
                "host {to}: end of data after {} of {} bytes",
                own.delivered, peer.written
            )
        })
    }

    /// Host `from` lets go of its first `released` bytes.
    pub fn releases(&mut self, from: usize, released: usize) -> Verdict {
        let delivered = self.accounts[1 - from].delivered;
        demand(released <= delivered, Law::Released, || {
            format!("host {from}: {released} released, {delivered} delivered")
        })
    }

    fn pair(&mut self, own: usize) -> (&mut Account, &mut Account) {
        let [first, second] = &mut self.accounts;
        if own == 0 {
            (first, second)
        } else {
            (second, first)
        }
    }

    fn agreed(&self, bit: u8) -> bool {
        self.accounts.iter().all(|account| account.has(bit))
    }

    /// By how much the window field of this segment of host `from` is shifted (RFC 7323 §2.2).
    fn shift(&self, from: usize, header: &TcpHeader) -> u32 {
        if header.flags.contains(TcpFlags::SYN) || !self.agreed(TcpHeader::HAS_WINDOW_SCALE) {
            return 0;
        }
        self.accounts[from]
            .syn
            .map_or(0, |syn| u32::from(syn.window_scale))
    }

    fn largest_segment(&self, from: usize) -> u32 {
        let peer = self.accounts[1 - from].syn.map_or(536, |syn| syn.mss);
        let options = if self.agreed(TcpHeader::HAS_TIMESTAMPS) {
            12
        } else {
            0
        };
        u32::from(peer.min(self.accounts[from].mss)) - options
    }
}

fn octets(header: &TcpHeader, len: usize) -> u32 {
    let has = |flag| u32::from(header.flags.contains(flag));
    len as u32 + has(TcpFlags::SYN) + has(TcpFlags::FIN)
}

/// A set of places: sorted, disjoint, not touching.
#[derive(Default)]
struct Ranges(Vec<(u32, u32)>);

impl Ranges {
    fn add(&mut self, from: u32, to: u32) {
        if from >= to {
            return;
        }
        let first = self.0.partition_point(|range| range.1 < from);
        let last = first + self.0[first..].partition_point(|range| range.0 <= to);
        let mut merged = (from, to);
        for range in self.0.drain(first..last) {
            merged = (merged.0.min(range.0), merged.1.max(range.1));
        }
        self.0.insert(first, merged);
    }

    /// What of these places is among them.
    fn shared(&self, from: u32, to: u32) -> Vec<(u32, u32)> {
        let cut = (self.0.iter()).map(|range| (range.0.max(from), range.1.min(to)));
        cut.filter(|range| range.0 < range.1).collect()
    }

    /// One past the places that have come without a gap.
    fn prefix(&self) -> u32 {
        self.0
            .first()
            .filter(|range| range.0 == 0)
            .map_or(0, |range| range.1)
    }

    fn covers(&self, from: u32, to: u32) -> bool {
        from < to && self.0.iter().any(|range| range.0 <= from && to <= range.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join() {
        let mut ranges = Ranges::default();
        for (from, to, expected) in [
            (5, 7, vec![(5, 7)]),
            (9, 10, vec![(5, 7), (9, 10)]),
            (3, 3, vec![(5, 7), (9, 10)]),
            (7, 8, vec![(5, 8), (9, 10)]),
            (0, 1, vec![(0, 1), (5, 8), (9, 10)]),
            (8, 9, vec![(0, 1), (5, 10)]),
            (0, 20, vec![(0, 20)]),
        ] {
            ranges.add(from, to);
            assert_eq!(ranges.0, expected, "{from}..{to}");
        }
        assert_eq!(ranges.prefix(), 20);
        assert!(ranges.covers(3, 20) && !ranges.covers(3, 21) && !ranges.covers(3, 3));
    }
}
