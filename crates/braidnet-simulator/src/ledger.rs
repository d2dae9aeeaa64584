//! What is known from outside of every connection: who began when, what was sent and what arrived.
//!
//! A *life* is one incarnation of one side of a connection, from its SYN on. Whatever is sent bears the number of the life that it
//! was sent in, so that what arrives late, after a reboot say, can be told from what belongs there.

use crate::case::HostCase;
use crate::checkers;
use crate::checkers::{acknowledgment, congestion, ecn, reduction, timeout, window};
use crate::law::Verdict;
use braidnet::Instant;
use braidnet::tcp::TcpInfo;
use braidnet::wire::address::Tuple;
use braidnet::wire::seq::SeqNumber;
use braidnet::wire::tcp::{TcpFlags, TcpHeader};
use std::collections::HashMap;

/// What forged packets bear for a birth: no life.
pub(crate) const FORGED: u32 = u32::MAX;

/// A segment as it leaves or reaches a host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// From the host's side.
    pub(crate) tuple: Tuple,
    pub(crate) header: TcpHeader,
    /// Bytes of data.
    pub(crate) len: u32,
    /// The life that it was sent in; 0: none.
    pub(crate) birth: u32,
}

impl Seen {
    pub(crate) fn has(&self, flag: TcpFlags) -> bool {
        self.header.flags.contains(flag)
    }

    /// Sequence numbers that it takes.
    pub(crate) fn octets(&self) -> u32 {
        let one = |flag| u32::from(self.has(flag));
        self.len + one(TcpFlags::SYN) + one(TcpFlags::FIN)
    }
}

/// One incarnation of one side of a connection. Places are counted from its SYN, which has place 0.
#[derive(Debug)]
pub(crate) struct Life {
    pub(crate) id: u32,
    pub(crate) iss: SeqNumber,
    pub(crate) syn_sent: TcpHeader,
    /// The other side's life, and the SYN that it began with.
    pub(crate) peer: Option<(u32, TcpHeader)>,
    /// One past the highest place that it sent.
    pub(crate) sent: u32,
    /// The stack has said how it stands.
    was_there: bool,
    /// It has sent or got a RST and was gone.
    pub(crate) is_reset: bool,
    /// Something of an older life lay in its window by chance (RFC 9293 §3.4.3: what the quiet time is there for).
    pub(crate) is_tainted: bool,
    /// How it stood when it was last looked at.
    pub(crate) last: Option<TcpInfo>,
    pub(crate) window: window::Account,
    pub(crate) congestion: congestion::Account,
    pub(crate) reduction: reduction::Account,
    pub(crate) ecn: ecn::Account,
    pub(crate) timeout: timeout::Account,
    pub(crate) acknowledgment: acknowledgment::Account,
}

impl Life {
    fn new(id: u32, syn: TcpHeader) -> Life {
        Life {
            id,
            iss: syn.seq,
            syn_sent: syn,
            peer: None,
            sent: 0,
            was_there: false,
            is_reset: false,
            is_tainted: false,
            last: None,
            window: Default::default(),
            congestion: Default::default(),
            reduction: Default::default(),
            ecn: Default::default(),
            timeout: Default::default(),
            acknowledgment: Default::default(),
        }
    }

    /// The same numbers once more.
    fn begin_again(&mut self) {
        let (id, sent, peer) = (self.id, self.sent, self.peer);
        let window = std::mem::take(&mut self.window);
        let ecn = self.ecn.begin_again();
        *self = Life {
            sent,
            peer,
            window,
            ecn,
            ..Life::new(id, self.syn_sent)
        };
    }

    /// Whether both SYNs have this option.
    pub(crate) fn agreed(&self, bit: u8) -> bool {
        self.syn_sent.has(bit) && self.peer.is_some_and(|(_, syn)| syn.has(bit))
    }
}

/// What one turn of a stack was about, as far as one connection goes.
pub(crate) struct Visit<'a> {
    pub(crate) now: u64,
    /// What the host's clock showed.
    pub(crate) clock: Instant,
    pub(crate) host: &'a HostCase,
    pub(crate) tuple: Tuple,
    pub(crate) fed: Vec<Seen>,
    pub(crate) sent: Vec<Seen>,
    pub(crate) before: Option<TcpInfo>,
    pub(crate) after: Option<TcpInfo>,
    /// Segments of any connection that were fed in this turn, and one for what applications asked for: where it is one segment, what
    /// changed it has changed.
    pub(crate) causes: usize,
    /// Something was due in this turn besides what was fed: a timer, or what applications asked for.
    pub(crate) is_prompted: bool,
    /// Highest sequence number that each life has sent.
    pub(crate) ends: &'a [SeqNumber],
}

impl Visit<'_> {
    pub(crate) fn describe(&self) -> String {
        let ends = |tuple: &Tuple| {
            let side = |address: &braidnet::wire::address::Address, port: u16| {
                let [_, _, host, number] = address.as_v4().unwrap_or_default();
                format!("host {host}.{number}:{port}")
            };
            format!(
                "{} to {}",
                side(&tuple.local, tuple.local_port),
                side(&tuple.remote, tuple.remote_port)
            )
        };
        format!("{} at {} ns", ends(&self.tuple), self.now)
    }
}

/// Where a connection lives: on which station, between which ends.
pub(crate) type Key = (usize, Tuple);

/// The lives of all connections.
#[derive(Default)]
pub(crate) struct Ledger {
    lives: HashMap<Key, Vec<Life>>,
    /// By life: one past the highest sequence number that it sent. Number 0 is nobody's.
    ends: Vec<SeqNumber>,
    /// Segments that lay in a window by chance.
    pub(crate) chances: u64,
    /// How often somebody was told of a mark that had not cut its window before.
    pub(crate) heeded: u64,
}

/// Most bytes that come with a SYN and are acknowledged with it (RFC 7413 §4.2.2).
const SYN_BYTES: u32 = 65_535;
/// Lives that are remembered of each pair of ends.
const REMEMBERED: usize = 4;

impl Ledger {
    /// The life that a segment is sent in, which begins with a SYN; 0 if it is nobody's.
    pub(crate) fn born(&mut self, station: usize, seen: &Seen) -> u32 {
        if self.ends.is_empty() {
            self.ends.push(SeqNumber::new(0));
        }
        let lives = self.lives.entry((station, seen.tuple)).or_default();
        let distance = |life: &Life| seen.header.seq - life.iss;
        let known = lives.iter_mut().min_by_key(|life| distance(life));
        let is_syn = seen.has(TcpFlags::SYN);
        let found = known.filter(|life| match is_syn {
            true => life.iss == seen.header.seq,
            false => distance(life) < 1 << 30,
        });
        match (found, is_syn) {
            (Some(life), _) => {
                let end = distance(life) + seen.octets();
                life.sent = life.sent.max(end);
                self.ends[life.id as usize] = life.iss + life.sent;
                life.id
            }
            (None, true) => {
                let id = self.ends.len() as u32;
                let mut life = Life::new(id, seen.header);
                life.sent = seen.octets();
                self.ends.push(seen.header.seq + life.sent);
                if lives.len() >= REMEMBERED {
                    lives.remove(0);
                }
                lives.push(life);
                id
            }
            (None, false) => 0,
        }
    }

    /// The latest life between two ends.
    pub(crate) fn latest(&mut self, key: &Key) -> Option<&mut Life> {
        self.lives.get_mut(key)?.last_mut()
    }

    /// Holds a turn against the laws.
    pub(crate) fn visit(&mut self, station: usize, visit: Visit<'_>) -> Verdict {
        let ends = std::mem::take(&mut self.ends);
        let verdict = self.judge(
            station,
            &Visit {
                ends: &ends,
                ..visit
            },
        );
        self.ends = ends;
        verdict
    }

    fn judge(&mut self, station: usize, visit: &Visit<'_>) -> Verdict {
        let Some(lives) = self.lives.get_mut(&(station, visit.tuple)) else {
            return Ok(());
        };
        // The life that this turn is about: that of what was sent, else the one whose numbers the stack goes by.
        let birth = visit.sent.iter().map(|seen| seen.birth).max();
        let Some(life) = (match birth.filter(|birth| *birth > 0) {
            Some(birth) => lives.iter_mut().find(|life| life.id == birth),
            None => match visit.after.or(visit.before) {
                Some(status) => lives
                    .iter_mut()
                    .min_by_key(|life| status.snd_una - life.iss),
                None => lives.last_mut(),
            },
        }) else {
            return Ok(());
        };
        // A listener that keeps nothing answers an old SYN as it did the first time.
        let is_cookie = |seen: &Seen| {
            seen.birth == life.id && seen.has(TcpFlags::SYN) && seen.has(TcpFlags::ACK)
        };
        let keeps_nothing = visit.before.is_none() && visit.after.is_none();
        if life.was_there && keeps_nothing && visit.sent.iter().any(is_cookie) {
            life.begin_again();
        }
        // Numbers begin by a clock (RFC 6528 §3): two lives within one step of it begin with the same.
        let answers_another = |seen: &Seen| {
            let known = life.peer.map(|(_, syn)| syn.seq + 1);
            let is_answer = seen.has(TcpFlags::SYN) && seen.has(TcpFlags::ACK);
            is_answer && known.is_some_and(|known| seen.header.ack - known > SYN_BYTES)
        };
        if visit.sent.iter().any(answers_another) {
            life.begin_again();
            life.peer = None;
            life.window = window::Account::default();
        }
        if let Some(after) = visit.after {
            let goes_back = |before: TcpInfo| after.rcv_nxt.is_before(before.rcv_nxt);
            let is_back = life.was_there && visit.before.is_none_or(goes_back);
            if is_back || (life.is_reset && after.state.is_synchronized()) {
                life.begin_again();
            }
            life.was_there = true;
        }
        let is_new = life.last.is_none();
        find_peer(life, visit);
        checkers::window::check(life, visit)?;
        checkers::acknowledgment::check(life, visit)?;
        checkers::reset::check(life, visit)?;
        checkers::ecn::check(life, visit)?;
        if is_new {
            checkers::timeout::begin(life, visit);
        } else {
            self.chances += checkers::incarnation::check(life, visit)?;
            checkers::congestion::check(life, visit)?;
            self.heeded += u64::from(checkers::reduction::check(life, visit)?);
            checkers::timeout::check(life, visit)?;
        }
        checkers::timeout::handshake(life, visit)?;
        checkers::memory::check(visit)?;
        life.last = visit.after;
        Ok(())
    }

    /// What waits for longer than it may, where nobody came by.
    pub(crate) fn inspect(&self, station: usize, now: u64, host: &HostCase) -> Verdict {
        for ((at, tuple), lives) in &self.lives {
            if *at == station
                && let Some(life) = lives.last()
            {
                checkers::acknowledgment::inspect(life, tuple, now, host)?;
            }
        }
        Ok(())
    }
}

/// The SYN of the other side that this life has answered, or that has answered it.
fn find_peer(life: &mut Life, visit: &Visit<'_>) {
    if life.peer.is_some() {
        return;
    }
    let answers = |seen: &Seen| {
        let acked = seen.header.ack - (life.iss + 1);
        let is_answer = seen.has(TcpFlags::ACK) && acked <= SYN_BYTES;
        let is_answered = (visit.sent.iter()).any(|sent| {
            sent.birth == life.id
                && sent.has(TcpFlags::ACK)
                && sent.header.ack - (seen.header.seq + 1) <= seen.len
        });
        // Of several SYNs, the one that was taken.
        let is_taken = visit
            .after
            .is_some_and(|after| after.rcv_nxt - (seen.header.seq + 1) < 1 << 30);
        seen.has(TcpFlags::SYN) && (is_answered || (is_answer && is_taken))
    };
    let syn = visit.fed.iter().find(|seen| answers(seen));
    life.peer = syn.map(|seen| (seen.birth, seen.header));
}
