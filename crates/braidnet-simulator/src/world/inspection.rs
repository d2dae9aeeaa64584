//! What goes on, and for how long nothing has; and how all of it ends.

use super::{Due, World, current};
use crate::case::{Case, SECOND, nanos};
use crate::law::{Law, Verdict, demand};
use crate::shared::Attempt;
use braidnet::tcp::State;

/// How long a cookie may be good, in nanoseconds: who brings one back waits for a place in the accept queue.
const COOKIES_LAST: u64 = 192 * SECOND;
/// How long a listener that has given cookies lets go, unanswered, what looks as if it followed one, in nanoseconds; it counts whole seconds.
const COOKIES_AWAITED: u64 = 31 * SECOND;

impl World {
    /// Looks at everything there is, and plans when to look again.
    pub(super) fn inspect(&mut self) -> Verdict {
        let now = self.shared.now;
        let case = self.shared.case.clone();
        for station in self.stations.iter_mut().flatten() {
            station.inspect(now)?;
            let host = &case.hosts[station.host];
            self.shared.ledger.inspect(station.number, now, host)?;
        }
        let all: Vec<_> = self.shared.attempts.keys().copied().collect();
        for talk in all {
            self.inspect_attempt(talk)?;
        }
        if self.closing_since.is_none() {
            self.begin_anew();
            self.close_if_done();
        }
        self.check_closing()?;
        let again = (case.patience() / 16).max(SECOND / 10);
        self.plan(now + again, Due::Inspection);
        Ok(())
    }

    /// Both ends of an attempt as the stacks have them, folded to a number; and whether anything is on its way.
    fn look(&mut self, (talk, attempt): (u32, u32)) -> (u64, bool) {
        let mut mark = 0u64;
        let mut is_busy = false;
        let mut note = |value: u64| mark = crate::random::mix(mark ^ value);
        for station in self.stations.iter_mut().flatten() {
            for number in 0..station.applications.len() {
                let application = &station.applications[number];
                if application.talk != Some((talk, attempt)) {
                    continue;
                }
                note(application.sent << 32 ^ application.received);
                note(u64::from(application.is_at_end) << 1 | u64::from(application.has_closed));
                is_busy |= application.wants;
                let Some(tuple) = station.stack.tuple(application.connection) else {
                    continue;
                };
                let Some(status) = station.stack.status(&tuple) else {
                    continue;
                };
                note(u64::from(status.snd_una.value()) << 32 ^ u64::from(status.rcv_nxt.value()));
                note(status.state as u64);
                let is_opening = matches!(status.state, State::SynSent | State::SynReceived);
                is_busy |=
                    is_opening || status.unsent_bytes > 0 || status.snd_una != status.snd_nxt;
            }
        }
        (mark, is_busy)
    }

    /// How both sides stand.
    fn describe(&mut self, talk: (u32, u32)) -> String {
        let mut text = Vec::new();
        for station in self.stations.iter_mut().flatten() {
            for application in &station.applications {
                if application.talk == Some(talk) {
                    let tuple = station.stack.tuple(application.connection);
                    let status = tuple.and_then(|tuple| station.stack.status(&tuple));
                    text.push(format!(
                        "host {}: {application:?}, {status:?}",
                        station.host
                    ));
                }
            }
        }
        text.join("; ")
    }

    fn inspect_attempt(&mut self, talk: (u32, u32)) -> Verdict {
        if self.shared.attempts.get(&talk).is_none_or(Attempt::is_over) {
            return Ok(());
        }
        let (now, case) = (self.shared.now, self.shared.case.clone());
        let (mark, is_busy) = self.look(talk);
        let sides = self.describe(talk);
        let plan = &case.talks[talk.0 as usize];
        let healed = self.heals_at;
        let is_opened_anew = self.is_opened_anew(talk);
        let server = current(&self.current, &mut self.stations, plan.server);
        let gives_cookies = server.is_some_and(|server| {
            let counters = server.stack.counters();
            counters.contains_key("tcp.cookies_sent")
        });
        let Some(attempt) = self.shared.attempts.get_mut(&talk) else {
            return Ok(());
        };
        if attempt.mark.0 != mark {
            attempt.mark = (mark, now);
            attempt.is_idle = false;
            return Ok(());
        }
        let since = attempt.mark.1.max(healed);
        let waited = now.saturating_sub(since);
        attempt.has_cookies |= gives_cookies;
        let half_open = match is_opened_anew {
            true => half_open_patience(&case, plan.server),
            false => 0,
        };
        let patience = match attempt.is_cut {
            true => cut_patience(&case, plan.client).max(cut_patience(&case, plan.server)),
            false => case.patience(),
        };
        let cookies = match (attempt.has_cookies, attempt.is_served) {
            (false, _) => 0,
            (true, false) => COOKIES_LAST,
            (true, true) => COOKIES_AWAITED,
        };
        let patience = patience + cookies;
        let patience = patience + half_open;
        if waited <= patience {
            return Ok(());
        }
        // A side may wait for ever for one that is gone and has left nothing to be acknowledged, unless it asks
        // (RFC 9293 §3.5.1, §3.8.4).
        let may_wait = attempt.is_disturbed || plan.is_rude();
        attempt.is_idle = !is_busy && may_wait;
        demand(attempt.is_idle, Law::Stall, || {
            format!(
                "talk {talk:?}: nothing is brought about since {since} ns, at {now} ns; {attempt:?}; {sides}"
            )
        })
    }

    /// An old SYN has opened a connection at the server's host in place of this talk's: one of this talk after its server has ended, or one of
    /// before a reboot (RFC 9293 §3.4.3). What lies outside its window tells it of nothing; it goes once its SYN-ACK has found no answer
    /// often enough (§3.8.3).
    fn is_opened_anew(&mut self, talk: (u32, u32)) -> bool {
        let case = self.shared.case.clone();
        let plan = &case.talks[talk.0 as usize];
        let attempt = &self.shared.attempts[&talk];
        let has_ended = attempt.ends[1].is_some();
        let Some(client) = attempt.client else {
            return false;
        };
        let server = current(&self.current, &mut self.stations, plan.server);
        let Some(status) = server.and_then(|server| server.stack.status(&client.1.reversed()))
        else {
            return false;
        };
        let life = self.shared.ledger.latest(&client);
        let is_other = life.is_some_and(|life| status.rcv_nxt != life.iss + 1);
        status.state == State::SynReceived && (has_ended || is_other)
    }

    /// Talks that are over are begun anew as often as is planned.
    fn begin_anew(&mut self) {
        let case = self.shared.case.clone();
        for (talk, plan) in case.talks.iter().enumerate() {
            let talk = talk as u32;
            let (now, gap) = (self.shared.now, plan.gap);
            let of = self.shared.attempts.range((talk, 0)..(talk + 1, 0));
            let Some(((_, latest), attempt)) = of.last() else {
                continue;
            };
            let latest = *latest;
            let is_done = attempt.is_over() || attempt.is_idle;
            let is_planned = self
                .agenda
                .values()
                .any(|due| matches!(due, Due::Talk(of, _) if *of == talk));
            if is_done && latest < plan.again && !is_planned {
                self.plan(now + gap, Due::Talk(talk, latest + 1));
            }
        }
    }

    /// When nobody has anything to do any more, who still waits is told that it is over.
    fn close_if_done(&mut self) {
        let now = self.shared.now;
        let is_done = |attempt: &Attempt| attempt.is_over() || attempt.is_idle;
        let is_planned = self
            .agenda
            .values()
            .any(|due| !matches!(due, Due::Inspection));
        let last = self.shared.attempts.values().map(|one| one.mark.1).max();
        let is_quiet = last.is_none_or(|last| now > last);
        if is_planned || !is_quiet || !self.shared.attempts.values().all(is_done) {
            return;
        }
        self.closing_since = Some(now);
        self.shared
            .trace
            .headline(now, || "closing time".to_owned());
        for station in self.stations.iter_mut().flatten() {
            station.abort_all(&mut self.shared);
        }
    }

    /// What is left then ends in its time.
    fn check_closing(&mut self) -> Verdict {
        let Some(since) = self.closing_since else {
            return Ok(());
        };
        let (now, case) = (self.shared.now, self.shared.case.clone());
        for station in self.stations.iter_mut().flatten() {
            let left = station.stack.statuses();
            let most = closing_patience(&case, station.host) + case.patience();
            demand(left.is_empty() || now - since <= most, Law::Endless, || {
                format!(
                    "host {} still has {} connections at {now} ns, closed {} ns ago, the first {:?}",
                    station.host,
                    left.len(),
                    now - since,
                    left.first()
                )
            })?;
        }
        Ok(())
    }
}

/// Until a side gives up the other that it cannot reach (RFC 9293 §3.8.3, R2).
fn cut_patience(case: &Case, host: usize) -> u64 {
    let engine = &case.hosts[host].engine;
    (u64::from(engine.retransmissions) + 3) * nanos(engine.max_rto) + case.patience()
}

/// Until a half-open connection is given up whose SYN-ACK nobody answers.
fn half_open_patience(case: &Case, host: usize) -> u64 {
    let engine = &case.hosts[host].engine;
    (u64::from(engine.syn_ack_retransmissions) + 3) * nanos(engine.max_rto)
}

/// Until nothing is left of a connection that nobody has any more.
fn closing_patience(case: &Case, host: usize) -> u64 {
    let engine = &case.hosts[host].engine;
    cut_patience(case, host) + nanos(engine.time_wait) + nanos(engine.fin_wait_2)
}
