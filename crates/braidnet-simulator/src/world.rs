//! One run: hosts, network, virtual time, and what befalls them.

mod inspection;

use crate::case::{Case, SECOND, What};
use crate::fault::Fault;
use crate::law::{Law, Verdict, Violation, demand};
use crate::ledger::{FORGED, Ledger};
use crate::network::{Network, Packet, address};
use crate::random::Random;
use crate::shared::{Attempt, Shared};
use crate::station::{PORT, Station};
use crate::trace::Trace;
use braidnet::tcp::State;
use braidnet::wire::address::{Address, Tuple};
use braidnet::wire::checksum::Sum;
use braidnet::wire::ipv4::{self, Ipv4Header};
use braidnet::wire::seq::SeqNumber;
use braidnet::wire::tcp::{self, TcpFlags, TcpHeader};
use braidnet_impair::Tally;
use std::collections::BTreeMap;
use std::rc::Rc;

/// More steps than any run takes.
const ENDLESS: u64 = 1_000_000;

/// What a run was like that broke no law.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    pub(crate) tally: Tally,
    pub(crate) packets: u64,
    pub(crate) turns: u64,
    pub(crate) bytes: u64,
    pub(crate) attempts: u64,
    pub(crate) completed: u64,
    /// Segments of older lives, or forged, that lay in a window by chance.
    pub(crate) chances: u64,
    /// How often somebody was told of a mark anew.
    pub(crate) heeded: u64,
    pub(crate) elapsed: u64,
}

/// Something that is to happen.
#[derive(Clone, Debug)]
enum Due {
    /// A talk is begun, or begun anew.
    Talk(u32, u32),
    Trouble(usize),
    LineUp(usize),
    Boot(usize),
    Syn(usize, u32),
    Forgery(usize, u32),
    Inspection,
}

/// See the module.
pub(crate) struct World {
    shared: Shared,
    /// All that there ever were; those are gone whose hosts have lost all state.
    stations: Vec<Option<Station>>,
    /// The station that each host is now, if it is up, and how many it has been.
    current: Vec<Option<usize>>,
    names: Vec<u8>,
    agenda: BTreeMap<(u64, u64), Due>,
    order: u64,
    random: Random,
    /// When the last trouble is over.
    heals_at: u64,
    closing_since: Option<u64>,
}

impl World {
    pub(crate) fn new(case: Case, fault: Option<Fault>, is_traced: bool) -> World {
        let case = Rc::new(case);
        let mut random = Random::new(case.seed ^ 0x5EED);
        let shared = Shared {
            now: 0,
            network: Network::new(&case.topology),
            ledger: Ledger::default(),
            trace: Trace {
                is_on: is_traced,
                entries: Vec::new(),
            },
            down: vec![false; case.topology.links.len()],
            attempts: BTreeMap::new(),
            fault,
            packets: 0,
            turns: 0,
            bytes: 0,
            completed: 0,
            case: case.clone(),
        };
        World {
            shared,
            stations: Vec::new(),
            current: vec![None; case.topology.hosts],
            names: vec![1; case.topology.hosts],
            agenda: BTreeMap::new(),
            order: 0,
            random: random.fork(),
            heals_at: 0,
            closing_since: None,
        }
    }

    /// Runs until everything is over, or a law is broken. What was traced comes with it.
    pub(crate) fn finish(mut self) -> (Result<Report, Violation>, Trace) {
        let verdict = self.run();
        let shared = &mut self.shared;
        if let Err(violation) = &verdict {
            for station in self.stations.iter().flatten() {
                let counters = station.stack.counters();
                let said = || format!("{counters:?}");
                shared.trace.note(shared.now, station.host, said);
            }
            shared.trace.headline(shared.now, || violation.to_string());
        }
        let report = verdict.map(|()| self.report());
        (report, self.shared.trace)
    }

    fn report(&self) -> Report {
        let mut tally = Tally::default();
        for one in self.shared.network.tallies() {
            tally.offered += one.offered;
            tally.lost += one.lost;
            tally.lost_in_bursts += one.lost_in_bursts;
            tally.queue_full += one.queue_full;
            tally.duplicated += one.duplicated;
            tally.corrupted += one.corrupted;
            tally.held_back += one.held_back;
            tally.marked += one.marked;
        }
        Report {
            tally,
            packets: self.shared.packets,
            turns: self.shared.turns,
            bytes: self.shared.bytes,
            attempts: self.shared.attempts.len() as u64,
            completed: self.shared.completed,
            chances: self.shared.ledger.chances,
            heeded: self.shared.ledger.heeded,
            elapsed: self.shared.now,
        }
    }

    fn run(&mut self) -> Verdict {
        let case = self.shared.case.clone();
        for host in 0..case.topology.hosts {
            self.boot(host)?;
        }
        for (talk, plan) in case.talks.iter().enumerate() {
            self.plan(plan.begins, Due::Talk(talk as u32, 0));
        }
        for (number, trouble) in case.troubles.iter().enumerate() {
            self.plan(trouble.at, Due::Trouble(number));
        }
        self.plan(SECOND, Due::Inspection);
        for _ in 0..ENDLESS {
            if self.is_over() {
                return Ok(());
            }
            self.step()?;
        }
        demand(false, Law::Endless, || {
            let stations = self.stations.iter().flatten();
            let next: Vec<_> = stations.map(|one| (one.host, one.next())).collect();
            format!(
                "still not over at {} ns; next are {next:?} and {:?}",
                self.shared.now,
                self.shared.network.next()
            )
        })
    }

    fn plan(&mut self, at: u64, due: Due) {
        self.order += 1;
        self.agenda.insert((at, self.order), due);
    }

    fn is_over(&mut self) -> bool {
        self.closing_since.is_some()
            && self.shared.network.next().is_none()
            && (self.stations.iter_mut().flatten())
                .all(|station| station.stack.statuses().is_empty())
    }

    /// Goes on to when something is next due, and lets it happen.
    fn step(&mut self) -> Verdict {
        let due = self.agenda.keys().next().map(|(at, _)| *at);
        let stations = self.stations.iter().flatten().filter_map(Station::next);
        let next = stations.chain(self.shared.network.next()).chain(due).min();
        let Some(next) = next else {
            return demand(false, Law::Endless, || {
                format!("nothing will happen any more at {} ns", self.shared.now)
            });
        };
        let now = self.shared.now.max(next);
        self.shared.now = now;
        while let Some(entry) = self.agenda.first_entry()
            && entry.key().0 <= now
        {
            let due = entry.remove();
            self.happen(due)?;
        }
        self.deliver();
        for station in self.stations.iter_mut().flatten() {
            if station.next().is_some_and(|next| next <= now) {
                station.step(&mut self.shared)?;
            }
        }
        Ok(())
    }

    fn deliver(&mut self) {
        let Shared {
            network,
            trace,
            down,
            now,
            ..
        } = &mut self.shared;
        while let Some((host, packet)) = network.arrived((*now, down), trace) {
            let to = ipv4::parse(&packet.bytes).map(|header| header.destination);
            let station = self.current[host].and_then(|at| self.stations.get_mut(at)?.as_mut());
            match station.filter(|station| to.is_err() || to == Ok(station.address)) {
                Some(station) => station.gather(*now, packet),
                None => {
                    use crate::network::{Fate, Witness};
                    trace.lost(*now, &packet, Fate::NobodyThere);
                }
            }
        }
    }

    fn happen(&mut self, due: Due) -> Verdict {
        match due {
            Due::Talk(talk, attempt) => self.talk(talk, attempt),
            Due::Trouble(number) => self.trouble(number)?,
            Due::LineUp(link) => {
                self.shared.down[link] = false;
                let now = self.shared.now;
                self.shared
                    .trace
                    .headline(now, || format!("line {link} is up"));
            }
            Due::Boot(host) => self.boot(host)?,
            Due::Syn(host, left) => self.forge_syn(host, left),
            Due::Forgery(host, left) => self.forge_segment(host, left),
            Due::Inspection => self.inspect()?,
        }
        Ok(())
    }

    fn boot(&mut self, host: usize) -> Verdict {
        let number = self.stations.len();
        let case = self.shared.case.clone();
        let station = Station::new(
            (number, host),
            self.names[host],
            &case,
            (&mut self.random, self.shared.fault),
        )?;
        let now = self.shared.now;
        self.shared.trace.note(now, host, || "is up".to_owned());
        self.stations.push(Some(station));
        self.current[host] = Some(number);
        Ok(())
    }

    fn talk(&mut self, talk: u32, attempt: u32) {
        let case = self.shared.case.clone();
        let plan = &case.talks[talk as usize];
        let (now, to) = (
            self.shared.now,
            address(plan.server, self.names[plan.server]),
        );
        let later = now + plan.gap.max(SECOND / 10);
        if self.current[plan.client].is_none() {
            return self.plan(later, Due::Talk(talk, attempt));
        }
        let begun = Attempt {
            is_disturbed: self.current[plan.server].is_none(),
            mark: (0, now),
            began: now,
            ..Attempt::default()
        };
        self.shared.attempts.insert((talk, attempt), begun);
        let station = current(&self.current, &mut self.stations, plan.client);
        let begins =
            station.is_some_and(|station| station.call((talk, attempt), to, &mut self.shared));
        if !begins {
            self.shared.attempts.remove(&(talk, attempt));
            self.plan(later, Due::Talk(talk, attempt));
        }
    }

    fn trouble(&mut self, number: usize) -> Verdict {
        let case = self.shared.case.clone();
        let (now, what) = (self.shared.now, &case.troubles[number].what);
        self.shared.trace.headline(now, || format!("{what:?}"));
        match *what {
            What::Outage { link, lasts } => {
                self.shared.down[link] = true;
                self.heal(now + lasts);
                self.plan(now + lasts, Due::LineUp(link));
            }
            What::Reboot { host, lasts } => {
                let Some(at) = self.current[host].take() else {
                    return Ok(());
                };
                self.disturb(host, false);
                if let Some(mut station) = self.stations[at].take() {
                    station.lose(&mut self.shared)?;
                }
                self.heal(now + lasts);
                self.plan(now + lasts, Due::Boot(host));
            }
            What::Move { host } => {
                let Some(station) = current(&self.current, &mut self.stations, host) else {
                    return Ok(());
                };
                station.is_attached = false;
                self.disturb(host, true);
                self.names[host] += 1;
                self.heal(now);
                self.boot(host)?;
            }
            What::Flood { host, syns, every } => {
                self.heal(now + u64::from(syns) * every);
                for syn in 0..syns {
                    self.plan(now + u64::from(syn) * every, Due::Syn(host, syn));
                }
            }
            What::Forge {
                host,
                segments,
                every,
            } => {
                self.heal(now + u64::from(segments) * every);
                for segment in 0..segments {
                    self.plan(
                        now + u64::from(segment) * every,
                        Due::Forgery(host, segment),
                    );
                }
            }
            What::Narrow {
                link,
                mtu,
                is_silent,
            } => {
                self.heal(now);
                self.shared.network.narrow(link, mtu, is_silent);
            }
        }
        Ok(())
    }

    fn heal(&mut self, at: u64) {
        self.heals_at = self.heals_at.max(at);
    }

    /// A host's talks may end otherwise than they should.
    fn disturb(&mut self, host: usize, cut: bool) {
        let case = self.shared.case.clone();
        for ((talk, _), attempt) in &mut self.shared.attempts {
            let plan = &case.talks[*talk as usize];
            if plan.client == host || plan.server == host {
                attempt.is_disturbed = true;
                attempt.is_cut |= cut;
            }
        }
    }

    fn forge_syn(&mut self, host: usize, number: u32) {
        let Some(station) = current(&self.current, &mut self.stations, host) else {
            return;
        };
        let header = TcpHeader {
            seq: SeqNumber::new(self.random.word() as u32),
            flags: TcpFlags::SYN,
            window: 65535,
            present: TcpHeader::HAS_MSS,
            mss: 1460,
            ..TcpHeader::default()
        };
        let from = Address::v4([10, 9, (number >> 8) as u8, number as u8]);
        let port = 1024 + self.random.below(60_000) as u16;
        let tuple = Tuple {
            local: from,
            remote: station.address,
            local_port: port,
            remote_port: PORT,
        };
        self.forge(host, &tuple, &header, &[]);
    }

    /// A segment with the addresses and ports of a connection that there is, and arbitrary numbers (RFC 5961 §1.1).
    fn forge_segment(&mut self, host: usize, _: u32) {
        let Some(station) = current(&self.current, &mut self.stations, host) else {
            return;
        };
        let mut all = station.stack.statuses();
        all.retain(|(_, status)| status.state.is_synchronized() && status.state != State::TimeWait);
        if all.is_empty() {
            return;
        }
        let (tuple, _) = all[self.random.below(all.len() as u64) as usize];
        let random = &mut self.random;
        let flags = [
            TcpFlags::RST.0,
            TcpFlags::RST.0 | TcpFlags::ACK.0,
            TcpFlags::SYN.0,
            TcpFlags::SYN.0 | TcpFlags::ACK.0,
            TcpFlags::ACK.0,
            TcpFlags::ACK.0 | TcpFlags::PSH.0,
            TcpFlags::ACK.0 | TcpFlags::FIN.0,
        ];
        let header = TcpHeader {
            seq: SeqNumber::new(random.word() as u32),
            ack: SeqNumber::new(random.word() as u32),
            flags: TcpFlags(random.pick(&flags)),
            window: random.word() as u16,
            ..TcpHeader::default()
        };
        let data = vec![0x42; random.below(30) as usize];
        self.forge(host, &tuple.reversed(), &header, &data);
    }

    fn forge(&mut self, host: usize, tuple: &Tuple, header: &TcpHeader, data: &[u8]) {
        let header_len = tcp::header_len(header);
        let len = header_len + data.len();
        let mut bytes = vec![0; 20 + len];
        bytes[20 + header_len..].copy_from_slice(data);
        let rest = Sum::pseudo_header(&tuple.local, &tuple.remote, tcp::PROTOCOL, len as u32)
            .combine(Sum::of(data));
        let (source, destination) = (tuple.local_port, tuple.remote_port);
        tcp::emit_sealed(header, source, destination, rest, &mut bytes[20..]);
        let ip = Ipv4Header {
            source: tuple.local,
            destination: tuple.remote,
            protocol: tcp::PROTOCOL,
            ttl: 64,
            total_len: (20 + len) as u16,
            ..Ipv4Header::default()
        };
        ipv4::emit(&ip, &mut bytes);
        let number = self.shared.packets;
        self.shared.packets += 1;
        let packet = Packet {
            bytes,
            birth: FORGED,
            number,
        };
        let now = self.shared.now;
        if let Some(station) = current(&self.current, &mut self.stations, host) {
            station.gather(now, packet);
        }
    }
}

/// What a host is now, if it is up.
fn current<'a>(
    current: &[Option<usize>],
    stations: &'a mut [Option<Station>],
    host: usize,
) -> Option<&'a mut Station> {
    stations.get_mut((*current.get(host)?)?)?.as_mut()
}
