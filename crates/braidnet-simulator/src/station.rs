//! A host as long as it is up: its stack, its end of the wire, and its applications.

use crate::application::{Act, Application, Over};
use crate::case::{Case, HostCase, SECOND, nanos};
use crate::content::Stream;
use crate::fault::Fault;
use crate::law::{Law, Verdict, Violation, demand};
use crate::ledger::{FORGED, Seen, Visit};
use crate::network::{Packet, address};
use crate::random::Random;
use crate::shared::Shared;
use crate::trace;
use braidnet::device::{Capabilities, Device, QueuePair, memory};
use braidnet::inet::tcp::Listening;
use braidnet::message::{Arena, Pool, Run};
use braidnet::stream::Next;
use braidnet::tcp::{State, TcpInfo};
use braidnet::wire::address::{Address, Tuple};
use braidnet::{Duration, Event, Instant, Secrets, Stack, StackConfig};
use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;

/// The port that all servers listen on.
pub(crate) const PORT: u16 = 7;
/// Buckets of a stack.
const BUCKETS: u32 = 2;
/// Most bytes that a connection is opened with.
const FIRST_BYTES: u64 = 4000;
/// More turns than a stack takes at one time.
const ENDLESS: usize = 500_000;
/// How many packets a wire holds: more than a stack sends in a turn.
const WIRE: usize = 4096;

/// See the module.
pub(crate) struct Station {
    pub(crate) number: usize,
    pub(crate) host: usize,
    pub(crate) address: Address,
    /// The network leads to it.
    pub(crate) is_attached: bool,
    pub(crate) stack: Stack,
    pub(crate) applications: Vec<Application>,
    wire: QueuePair,
    pool: Pool,
    inbox: VecDeque<Packet>,
    looks_at: Option<u64>,
    wakes_at: Option<u64>,
    /// When its next timer is due, by its own clock: it wakes then, or somewhat later.
    due_at: Option<Instant>,
    /// What a [fault](Fault::SpeaksAfterReset) sends once more.
    sent_last: HashMap<Tuple, Vec<u8>>,
    /// Connections in TIME-WAIT, and since when.
    time_waits: HashMap<Tuple, Instant>,
    settings: Rc<HostCase>,
    random: Random,
}

impl Station {
    pub(crate) fn new(
        (number, host): (usize, usize),
        name: u8,
        case: &Case,
        (random, fault): (&mut Random, Option<Fault>),
    ) -> Result<Station, Violation> {
        let mut settings = case.hosts[host].clone();
        let address = address(host, name);
        let [a, b, c, d] = address.as_v4().unwrap_or_default();
        let mut config = StackConfig::new(std::net::Ipv4Addr::new(a, b, c, d).into());
        config.buckets = BUCKETS;
        config.memory_bytes = settings.memory_bytes;
        config.connections = settings.connections;
        config.tcp = settings.engine;
        config.batch = settings.batch;
        config.listening = Listening::default();
        // Who was refused tries again within a run.
        config.fast_opening.pause = Duration::from_secs(2);
        config.secrets = Secrets {
            flow_key: [random.word(), random.word()],
            isn_key: [random.word(), random.word()],
        };
        if let Some(fault) = fault {
            fault.set(&mut config.tcp, &mut settings);
        }
        let mtu = case.topology.links.first().map_or(1500, |link| link.mtu);
        let (near, far) = memory::wire(Capabilities::ip(mtu), WIRE);
        let broken = |what: String| Violation {
            law: Law::Endless,
            detail: what,
        };
        let mut stack = Stack::new(&config, near).map_err(|error| broken(error.to_string()))?;
        stack
            .listen(PORT, settings.backlog)
            .map_err(|error| broken(error.to_string()))?;
        let mut queues = Box::new(far)
            .open()
            .map_err(|error| broken(error.to_string()))?;
        Ok(Station {
            number,
            host,
            address,
            is_attached: true,
            stack,
            applications: Vec::new(),
            wire: queues.remove(0),
            pool: Pool::new(&Arena::new(64 << 20)),
            inbox: VecDeque::new(),
            looks_at: None,
            wakes_at: None,
            due_at: None,
            sent_last: HashMap::new(),
            time_waits: HashMap::new(),
            settings: Rc::new(settings),
            random: random.fork(),
        })
    }

    /// What its clock shows.
    pub(crate) fn clock(&self, now: u64) -> Instant {
        let granularity = nanos(self.settings.engine.clock_granularity).max(1);
        Instant::from_nanos((SECOND + self.settings.clock_start + now) / granularity * granularity)
    }

    /// When its clock shows `at` or later.
    fn when(&self, at: Instant) -> u64 {
        let granularity = nanos(self.settings.engine.clock_granularity).max(1);
        let shown = at.nanos().div_ceil(granularity).saturating_mul(granularity);
        shown.saturating_sub(SECOND + self.settings.clock_start)
    }

    /// When it next has something to do.
    pub(crate) fn next(&self) -> Option<u64> {
        let acts = self.applications.iter().filter(|one| one.wants);
        let acts = acts.map(|one| one.acts_at);
        acts.chain(self.looks_at).chain(self.wakes_at).min()
    }

    /// A packet has come.
    pub(crate) fn gather(&mut self, now: u64, packet: Packet) {
        self.inbox.push_back(packet);
        if self.looks_at.is_none() {
            self.looks_at = Some(now + self.random.below(self.settings.coalescing + 1));
        }
    }

    /// Calls somebody; the application begins once that is answered.
    pub(crate) fn call(&mut self, talk: (u32, u32), to: Address, shared: &mut Shared) -> bool {
        let [a, b, c, d] = to.as_v4().unwrap_or_default();
        let to = SocketAddr::from(([a, b, c, d], PORT));
        let plan = &shared.case.talks[talk.0 as usize];
        // Some of what is to be sent may travel with the SYN.
        let mut first = vec![0; plan.bytes[0].min(self.random.sized(FIRST_BYTES)) as usize];
        let stream = Stream {
            talk: talk.0,
            attempt: talk.1,
            back: false,
        };
        stream.fill(0, &mut first);
        let opened = match self.settings.engine.fast_open.connects() {
            true => self.stack.connect_with(to, &first),
            false => (self.stack.connect(to)).map(|connection| (connection, 0)),
        };
        let Ok((connection, sent)) = opened else {
            return false;
        };
        let (number, tuple) = (self.number, self.stack.tuple(connection));
        if let Some(attempt) = shared.attempts.get_mut(&talk) {
            attempt.client = tuple.map(|tuple| (number, tuple));
        }
        let plan = &shared.case.talks[talk.0 as usize];
        let mut application = Application::new(connection, false, plan.habits[0].clone());
        application.talk = Some(talk);
        application.sent = sent as u64;
        [application.outgoing, application.incoming] = plan.bytes;
        self.applications.push(application);
        // The SYN leaves with the next turn.
        self.looks_at = Some(shared.now);
        true
    }

    /// Does what is due.
    pub(crate) fn step(&mut self, shared: &mut Shared) -> Verdict {
        let now = shared.now;
        for _ in 0..ENDLESS {
            let looks = self.looks_at.is_some_and(|at| at <= now);
            let is_due = looks || self.wakes_at.is_some_and(|at| at <= now);
            let acted = self.act(shared)?;
            if !is_due && !acted {
                return Ok(());
            }
            let mut fed = Vec::new();
            if looks {
                let batch = self.settings.batch.min(self.inbox.len());
                fed.extend(self.inbox.drain(..batch));
                self.looks_at = (!self.inbox.is_empty()).then_some(now);
            }
            self.turn((fed, acted), shared)?;
            self.hear(shared)?;
        }
        demand(false, Law::Endless, || {
            format!(
                "host {} has something to do for ever at {now} ns",
                self.host
            )
        })
    }

    /// One turn of the stack.
    fn turn(&mut self, (packets, acted): (Vec<Packet>, bool), shared: &mut Shared) -> Verdict {
        let clock = self.clock(shared.now);
        let is_prompted = acted || self.due_at.is_some_and(|at| at <= clock);
        let mut fed = Vec::new();
        let mut before = HashMap::new();
        let mut run = Run::new();
        for packet in &packets {
            shared.trace.arrived(shared.now, self.host, packet);
            let mut stands = None;
            if let Some((tuple, header, len)) = trace::parse(&packet.bytes) {
                let tuple = tuple.reversed();
                stands = self.stack.status(&tuple);
                before.insert(tuple, stands);
                fed.push(Seen {
                    tuple,
                    header,
                    len: len as u32,
                    birth: packet.birth,
                });
            }
            let bytes = shared.fault.map_or_else(
                || packet.bytes.clone(),
                |fault| fault.on_arrival(&packet.bytes, stands.as_ref()),
            );
            run.extend(self.pool.bind().copy_from_slice(64, &bytes));
        }
        self.wire.transmitter.transmit(&mut run);
        let next = self.stack.turn(clock);
        shared.turns += 1;
        self.due_at = match next {
            Next::At(at) => Some(at),
            Next::Again | Next::Idle => None,
        };
        self.wakes_at = match next {
            Next::Again => Some(shared.now),
            // What is due already waits for the clock to move, as for a real one.
            Next::At(at) => {
                let late = self.random.below(self.settings.lateness + 1);
                Some(self.when(at).max(shared.now) + late)
            }
            Next::Idle => None,
        };
        let sent = self.collect(shared);
        let causes = packets.len() + usize::from(acted);
        self.judge(shared, (causes, is_prompted), (fed, sent), before)
    }

    /// What the stack has sent.
    fn collect(&mut self, shared: &mut Shared) -> Vec<Seen> {
        let mut sent = Vec::new();
        let mut run = Run::new();
        self.wire.receiver.receive(&mut self.pool, &mut run, WIRE);
        let mut left = Vec::new();
        for message in run.drain() {
            let mut bytes = vec![0; message.total_len()];
            message.copy_to_slice(&mut bytes);
            left.push(bytes);
        }
        if let Some(fault) = shared.fault {
            self.repeat(fault, &mut left);
        }
        for bytes in left {
            let mut birth = 0;
            let parsed = trace::parse(&bytes);
            if let (Some(fault), Some((_, header, len))) = (shared.fault, &parsed)
                && fault.swallows(header, *len)
            {
                continue;
            }
            if let Some((tuple, header, len)) = parsed {
                let mut seen = Seen {
                    tuple,
                    header,
                    len: len as u32,
                    birth: 0,
                };
                birth = shared.ledger.born(self.number, &seen);
                seen.birth = birth;
                sent.push(seen);
            }
            let number = shared.packets;
            shared.packets += 1;
            let packet = Packet {
                bytes,
                birth,
                number,
            };
            shared.trace.sent(shared.now, self.host, &packet);
            shared.carry(self.host, self.is_attached, packet);
        }
        sent
    }

    /// Has what was sent last on a connection follow what leaves, where the fault is to do so.
    fn repeat(&mut self, fault: Fault, left: &mut Vec<Vec<u8>>) {
        let mut all = Vec::new();
        for bytes in left.drain(..) {
            let parsed = trace::parse(&bytes).map(|(tuple, header, _)| (tuple, header));
            all.push(bytes.clone());
            match parsed {
                Some((tuple, header)) if fault.repeats_after(&header) => {
                    all.extend(self.sent_last.get(&tuple).cloned());
                }
                Some((tuple, _)) => {
                    self.sent_last.insert(tuple, bytes);
                }
                None => {}
            }
        }
        *left = all;
    }

    /// Holds what has happened in a turn against the laws.
    fn judge(
        &mut self,
        shared: &mut Shared,
        (causes, is_prompted): (usize, bool),
        (fed, sent): (Vec<Seen>, Vec<Seen>),
        before: HashMap<Tuple, Option<TcpInfo>>,
    ) -> Verdict {
        let mut tuples: Vec<Tuple> = Vec::new();
        for seen in fed.iter().chain(&sent) {
            if !tuples.contains(&seen.tuple) {
                tuples.push(seen.tuple);
            }
        }
        let (clock, settings) = (self.clock(shared.now), self.settings.clone());
        for tuple in tuples {
            let of = |all: &[Seen]| {
                let own = all.iter().filter(|seen| seen.tuple == tuple);
                own.copied().collect::<Vec<_>>()
            };
            let after = self.stack.status(&tuple);
            let known = before.get(&tuple).copied();
            let last = || {
                let latest = shared.ledger.latest(&(self.number, tuple));
                latest.and_then(|life| life.last)
            };
            let visit = Visit {
                now: shared.now,
                clock,
                host: &settings,
                tuple,
                fed: of(&fed),
                sent: of(&sent),
                before: known.unwrap_or_else(last),
                after,
                causes,
                is_prompted,
                ends: &[],
            };
            let opens = |seen: &Seen| {
                let is_taken = |after: TcpInfo| {
                    after.state == State::SynReceived && after.rcv_nxt == seen.header.seq + 1
                };
                seen.birth == FORGED && visit.after.is_some_and(is_taken)
            };
            if visit.fed.iter().any(opens) {
                shared.disturb_by_forgery(&tuple);
            }
            self.watch_time_wait(&visit)?;
            shared.ledger.visit(self.number, visit)?;
        }
        if fed.is_empty() {
            self.sweep_time_waits(shared.now)?;
        }
        Ok(())
    }

    fn watch_time_wait(&mut self, visit: &Visit<'_>) -> Verdict {
        let is_waiting = visit
            .after
            .is_some_and(|after| after.state == State::TimeWait);
        let renewed = visit.fed.iter().any(|seen| {
            let syn = braidnet::wire::tcp::TcpFlags::SYN;
            seen.has(syn)
        });
        if is_waiting {
            // What comes again starts it anew (RFC 9293 §3.10.7.4).
            self.time_waits.entry(visit.tuple).or_insert(visit.clock);
            Ok(())
        } else if renewed {
            self.time_waits.remove(&visit.tuple);
            Ok(())
        } else {
            self.end_time_wait(&visit.tuple, visit.now)
        }
    }

    /// TIME-WAIT lasts twice the maximum segment lifetime (RFC 9293 §3.4.2).
    fn end_time_wait(&mut self, tuple: &Tuple, now: u64) -> Verdict {
        let Some(since) = self.time_waits.remove(tuple) else {
            return Ok(());
        };
        let stayed = self.clock(now).since(since);
        let asked = self.settings.engine.time_wait;
        demand(stayed >= asked, Law::TimeWait, || {
            format!("host {}: {tuple:?} for {stayed:?} of {asked:?}", self.host)
        })
    }

    fn sweep_time_waits(&mut self, now: u64) -> Verdict {
        let waiting: Vec<Tuple> = self.time_waits.keys().copied().collect();
        for tuple in waiting {
            let status = self.stack.status(&tuple);
            if status.is_none_or(|status| status.state != State::TimeWait) {
                self.end_time_wait(&tuple, now)?;
            }
        }
        Ok(())
    }

    /// What the stack has to tell.
    fn hear(&mut self, shared: &mut Shared) -> Verdict {
        while let Some(event) = self.stack.event() {
            let connection = event.connection();
            shared
                .trace
                .note(shared.now, self.host, || format!("{event:?}"));
            if let Event::Accepted(_) = event {
                let habit = shared.case.talks[0].habits[1].clone();
                let mut server = Application::new(connection, true, habit);
                server.acts_at = shared.now;
                self.applications.push(server);
            }
            let known = self
                .applications
                .iter_mut()
                .find(|one| one.connection == connection);
            let Some(application) = known else { continue };
            application.wants = true;
            application.acts_at = application.acts_at.max(shared.now);
            match event {
                Event::Connected(_) => application.is_connected = true,
                Event::Closed(_, reason) => {
                    application.gone = Some(reason);
                    // Who has lost its connection does not dawdle.
                    application.acts_at = shared.now;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Lets applications read, write and end; whether any did.
    fn act(&mut self, shared: &mut Shared) -> Result<bool, Violation> {
        let mut acted = false;
        let mut at = 0;
        while at < self.applications.len() {
            let application = &mut self.applications[at];
            if application.acts_at > shared.now {
                at += 1;
                continue;
            }
            let act = application.act(shared.now, &mut self.stack, &mut self.random);
            acted |= act != Act::Nothing || application.wants;
            match act {
                Act::Named => {
                    let takes = self.settings.engine.fast_open.listens();
                    if !shared.name(self.host, application, takes)? {
                        self.stack.abort(application.connection);
                        self.applications.swap_remove(at);
                        continue;
                    }
                }
                Act::Wrong(place) => {
                    let talk = application.talk;
                    let tuple = self.stack.tuple(application.connection);
                    let is_tainted = tuple.is_some_and(|tuple| {
                        let life = shared.ledger.latest(&(self.number, tuple));
                        life.is_some_and(|life| life.is_tainted)
                    });
                    demand(is_tainted, Law::Bytes, || {
                        format!(
                            "host {}, talk {talk:?} at {} ns: byte {place} of the stream is not the one that was sent",
                            self.host, shared.now
                        )
                    })?;
                }
                Act::Over(over) => {
                    let application = self.applications.swap_remove(at);
                    shared.over(self.host, &application, over)?;
                    continue;
                }
                Act::Nothing | Act::Something => {}
            }
            at += 1;
        }
        Ok(acted)
    }

    /// The applications end, whatever they wait for.
    pub(crate) fn abort_all(&mut self, shared: &mut Shared) {
        for application in self.applications.drain(..) {
            self.stack.abort(application.connection);
        }
        self.looks_at = Some(shared.now);
    }

    /// All state is lost.
    pub(crate) fn lose(&mut self, shared: &mut Shared) -> Verdict {
        for application in self.applications.drain(..) {
            shared.over(self.host, &application, Over::Lost)?;
        }
        Ok(())
    }

    /// What is kept of all connections together stays within its limits.
    pub(crate) fn inspect(&mut self, now: u64) -> Verdict {
        let settings = &self.settings;
        let within = |what: &str, is: u64, most: u64| {
            demand(is <= most, Law::Memory, || {
                format!(
                    "host {}: {is} {what} at {now} ns, at most {most}",
                    self.host
                )
            })
        };
        let poisoned = self.stack.counters().get("tcp.poisoned").copied();
        demand(poisoned.is_none(), Law::Panic, || {
            format!("host {}: {poisoned:?} connections by {now} ns", self.host)
        })?;
        let used = self.stack.used_bytes() as u64;
        let statuses = self.stack.statuses();
        let half_open = statuses.iter().filter(|(tuple, status)| {
            tuple.local_port == PORT && status.state == State::SynReceived
        });
        within("bytes", used, settings.memory_bytes as u64)?;
        within(
            "half-open connections",
            half_open.count() as u64,
            // Those that have opened early are counted for themselves (RFC 7413 §4.2).
            u64::from(settings.backlog)
                + match settings.engine.fast_open.listens() {
                    true => u64::from(settings.engine.fast_open_pending),
                    false => 0,
                },
        )?;
        let share = settings.connections / BUCKETS as usize;
        let most = BUCKETS as usize * (share + share / 2 + 16);
        within("connections", statuses.len() as u64, most as u64)
    }
}
