//! One run: two hosts, a link, virtual time.

use crate::case::{Case, SECOND, Weather, largest_receive_buffer};
use crate::damage::damage;
use crate::fault::Fault;
use crate::host::{Host, Progress, World};
use crate::link::Link;
use crate::oracle::{Account, Law, Oracle, Verdict, demand};
use crate::random::Random;
use crate::trace::Trace;
use braidnet_impair::Tally;
use braidnet_tcp::State;

/// More steps than any run takes.
const ENDLESS: u64 = 2_000_000;
/// Virtual time after which a damaged connection's users give up.
const DAMAGED_FOR: u64 = 300 * SECOND;

/// What a run that broke no law was like.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// To each host.
    pub tallies: [Tally; 2],
    pub repeated: u64,
    pub bytes: usize,
    pub elapsed: u64,
}

pub struct Run {
    case: Case,
    now: u64,
    hosts: [Host; 2],
    link: Link,
    oracle: Oracle,
    trace: Trace,
    random: Random,
    /// When something was last brought about, and what had been by then.
    last_progress: (u64, [Progress; 2]),
}

impl Run {
    pub fn new(case: Case, fault: Option<Fault>, trace: bool) -> Run {
        let mut random = Random::new(case.seed ^ 0x5EED);
        let accounts = [0, 1].map(|at| {
            let side: &crate::case::Side = &case.hosts[at];
            Account::new(
                side.iss,
                random.bytes(side.bytes),
                largest_receive_buffer(&side.config),
                side.mss,
            )
        });
        let mut forked = || Random::new(random.word());
        let hosts = [0, 1].map(|at| Host::new(at, &case.hosts[at], fault, forked()));
        Run {
            now: 0,
            hosts,
            link: Link::new(&case.paths, forked().word()),
            oracle: Oracle { accounts },
            trace: Trace { on: trace },
            random: forked(),
            last_progress: (0, [(0, 0, 0, None); 2]),
            case,
        }
    }

    /// Runs until both connections are over, or a law is broken.
    pub fn finish(mut self) -> Result<Report, crate::oracle::Violation> {
        let callers = if self.case.simultaneous_open { 2 } else { 1 };
        for at in 0..callers {
            self.with(at, Host::connect)?;
        }
        let mut steps = 0;
        while !self.is_over()? {
            self.step()?;
            steps += 1;
            demand(steps < ENDLESS, Law::Endless, || {
                self.describe("still not over")
            })?;
        }
        if self.case.damage == 0 {
            self.check_ends()?;
        }
        Ok(Report {
            tallies: self.link.tallies(),
            repeated: self.hosts.iter().map(|host| host.segments_repeated).sum(),
            bytes: self
                .oracle
                .accounts
                .iter()
                .map(|account| account.delivered)
                .sum(),
            elapsed: self.now,
        })
    }

    fn is_over(&mut self) -> Result<bool, crate::oracle::Violation> {
        if self.case.damage > 0 && self.now > DAMAGED_FOR {
            self.give_up()?;
        }
        // In simultaneous open and close, and after damage, one may be gone before the other has begun.
        let gone = self
            .hosts
            .iter()
            .all(|host| host.is_closed() || (self.case.damage > 0 && host.state().is_none()));
        Ok(gone && self.link.next().is_none())
    }

    fn give_up(&mut self) -> Verdict {
        self.with(0, Host::abort)?;
        self.with(1, Host::abort)
    }

    /// Goes on to when something is next due, and lets it happen.
    fn step(&mut self) -> Verdict {
        let hosts = self.hosts.iter().filter_map(Host::next);
        let Some(next) = hosts.chain(self.link.next()).min() else {
            if self.case.damage > 0 {
                // One side is gone and the other has nothing to ask of it.
                return self.give_up();
            }
            return demand(false, Law::Progress, || {
                self.describe("nothing will ever happen again")
            });
        };
        self.now = self.now.max(next);
        self.check_progress()?;
        while let Some((to, packet)) = self.link.arrived(self.now) {
            self.trace.arrival(self.now, to, packet.len());
            let packet = if self.random.chance(self.case.damage) {
                damage(1 - to, packet, &mut self.random)
            } else {
                packet
            };
            self.hosts[to].gather(self.now, packet);
        }
        for at in [0, 1] {
            if self.hosts[at].next().is_some_and(|next| next <= self.now) {
                self.with(at, Host::turn)?;
            }
        }
        Ok(())
    }

    fn with(
        &mut self,
        at: usize,
        act: impl FnOnce(&mut Host, &mut World<'_>) -> Verdict,
    ) -> Verdict {
        let mut world = World {
            now: self.now,
            link: &mut self.link,
            oracle: &mut self.oracle,
            trace: &mut self.trace,
            damaged: self.case.damage > 0,
        };
        act(&mut self.hosts[at], &mut world)
    }

    fn check_progress(&mut self) -> Verdict {
        if self.case.damage > 0 {
            return Ok(());
        }
        let progress = [0, 1].map(|at| self.hosts[at].progress(&self.oracle));
        let waiting = |host: &Host| matches!(host.state(), Some(State::TimeWait | State::Closed));
        if progress != self.last_progress.1 || self.hosts.iter().all(waiting) {
            self.last_progress = (self.now, progress);
        }
        let (since, _) = self.last_progress;
        demand(
            self.now - since <= self.case.patience(),
            Law::Progress,
            || self.describe("nothing is brought about"),
        )
    }

    fn check_ends(&self) -> Verdict {
        for (at, account) in self.oracle.accounts.iter().enumerate() {
            let peer = &self.oracle.accounts[1 - at];
            let all = account.closed && account.delivered == peer.stream().len();
            demand(all, Law::Bytes, || self.describe("something is missing"))?;
        }
        let wasted: u32 = self
            .oracle
            .accounts
            .iter()
            .map(|account| account.wasted)
            .sum();
        let spared = self.case.weather != Weather::Perfect || wasted == 0;
        demand(spared, Law::Waste, || {
            self.describe("something was sent twice over a perfect link")
        })
    }

    fn describe(&self, what: &str) -> String {
        let [first, second] = &self.hosts;
        format!(
            "{what} at {} ns; {}; {}",
            self.now,
            first.describe(),
            second.describe()
        )
    }
}
