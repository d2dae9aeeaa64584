//! What all hosts have in common: the network, the accounts, and who talks to whom.

use crate::application::{Application, Over};
use crate::case::{Case, SECOND};
use crate::fault::Fault;
use crate::law::{Law, Verdict, Violation, demand};
use crate::ledger::{Key, Ledger};
use crate::network::{Fate, Network, Packet, Witness};
use crate::trace::Trace;
use braidnet::CloseReason;
use braidnet::wire::address::Tuple;
use std::collections::BTreeMap;
use std::rc::Rc;

/// How long a SYN cookie is good at least, in nanoseconds.
const COOKIE_LEAST: u64 = 128 * SECOND;

/// One attempt of a talk.
#[derive(Debug, Default)]
pub(crate) struct Attempt {
    /// When it was begun.
    pub(crate) began: u64,
    /// The caller's station, and the connection's ends from there.
    pub(crate) client: Option<Key>,
    /// How its sides ended.
    pub(crate) ends: [Option<Over>; 2],
    /// The server has read which talk it is.
    pub(crate) is_served: bool,
    /// One of its hosts lost its state, or nobody was there, or somebody who was not meant.
    pub(crate) is_disturbed: bool,
    /// Its server has given cookies: for a while what looks as if it followed one is not answered.
    pub(crate) has_cookies: bool,
    /// Its hosts cannot reach each other any more.
    pub(crate) is_cut: bool,
    /// It waits for what will not come, as it may: nothing is on its way.
    pub(crate) is_idle: bool,
    /// Bytes that each side has got.
    pub(crate) received: [u64; 2],
    /// What was last seen of it, and since when.
    pub(crate) mark: (u64, u64),
}

impl Attempt {
    /// Nobody waits for anything any more.
    pub(crate) fn is_over(&self) -> bool {
        let [client, server] = self.ends;
        client.is_some() && (server.is_some() || !self.is_served)
    }
}

/// See the module.
pub(crate) struct Shared {
    pub(crate) now: u64,
    pub(crate) case: Rc<Case>,
    pub(crate) ledger: Ledger,
    pub(crate) network: Network,
    pub(crate) trace: Trace,
    /// Which lines are down.
    pub(crate) down: Vec<bool>,
    pub(crate) attempts: BTreeMap<(u32, u32), Attempt>,
    pub(crate) fault: Option<Fault>,
    pub(crate) packets: u64,
    pub(crate) turns: u64,
    /// Bytes that applications have got.
    pub(crate) bytes: u64,
    pub(crate) completed: u64,
}

impl Shared {
    /// A host sends a packet.
    pub(crate) fn carry(&mut self, host: usize, is_attached: bool, packet: Packet) {
        let Shared {
            network,
            trace,
            down,
            now,
            ..
        } = self;
        match is_attached {
            true => network.send((*now, down), host, packet, trace),
            false => trace.lost(*now, &packet, Fate::NobodyThere),
        }
    }

    /// A forged SYN has taken a place that the connection between these ends, seen from the server, had before: its client hears of nothing
    /// else as long as that is half-open.
    pub(crate) fn disturb_by_forgery(&mut self, tuple: &Tuple) {
        let ends = tuple.reversed();
        for attempt in self.attempts.values_mut() {
            attempt.is_disturbed |= attempt.client.is_some_and(|(_, client)| client == ends);
        }
    }

    /// A server has read which talk it is in; whether it is the first there.
    pub(crate) fn name(
        &mut self,
        host: usize,
        application: &mut Application,
        takes_data_on_syns: bool,
    ) -> Result<bool, Violation> {
        let Some(talk) = application.talk else {
            return Ok(true);
        };
        let plan = self.case.talks.get(talk.0 as usize);
        let attempt = self.attempts.get_mut(&talk);
        let (Some(plan), Some(attempt)) = (plan.filter(|plan| plan.server == host), attempt) else {
            demand(false, Law::Bytes, || {
                format!("host {host} has read that it is in talk {talk:?}")
            })?;
            return Ok(true);
        };
        // An old SYN whose data come with a cookie of Fast Open opens the connection anew (RFC 7413 §2.1).
        demand(!attempt.is_served || takes_data_on_syns, Law::Bytes, || {
            format!("host {host} serves talk {talk:?} twice")
        })?;
        if attempt.is_served {
            application.talk = None;
            return Ok(false);
        }
        attempt.is_served = true;
        application.habit = plan.habits[1].clone();
        [application.incoming, application.outgoing] = plan.bytes;
        application.wants = true;
        Ok(true)
    }

    /// An application is done with its connection.
    pub(crate) fn over(&mut self, host: usize, application: &Application, over: Over) -> Verdict {
        let Some(talk) = application.talk else {
            return Ok(());
        };
        self.trace.note(self.now, host, || {
            let (sent, received) = (application.sent, application.received);
            format!("talk {talk:?} over: {over:?}, {sent} bytes sent, {received} received")
        });
        let plan = &self.case.talks[talk.0 as usize];
        let hosts = [plan.client, plan.server].map(|host| &self.case.hosts[host]);
        let has_patience_limit = hosts.iter().any(|host| host.engine.user_timeout.is_some());
        let (is_rude, side) = (plan.is_rude(), usize::from(application.is_server));
        let Some(attempt) = self.attempts.get_mut(&talk) else {
            return Ok(());
        };
        attempt.ends[side] = Some(over);
        // Who has given up may not reach the other any more.
        attempt.is_disturbed |= over == Over::Gone(CloseReason::TimedOut) && has_patience_limit;
        attempt.received[side] = application.received;
        self.bytes += application.received;
        // A cookie is good for a while (RFC 4987 §3.6): who has found the accept queue full for longer is reset.
        let is_stale = attempt.has_cookies
            && !attempt.is_served
            && over == Over::Gone(CloseReason::Reset)
            && self.now >= attempt.began + COOKIE_LEAST;
        let is_excused = attempt.is_disturbed || is_rude || has_patience_limit || is_stale;
        let is_whole = application.sent == application.outgoing
            && application.received == application.incoming;
        let is_good = over == Over::Gone(CloseReason::Closed) && is_whole;
        self.completed += u64::from(is_good);
        demand(is_good || is_excused, Law::Ends, || {
            format!(
                "host {host}, talk {talk:?} at {} ns: {over:?} after {} of {} bytes sent and {} of {} received, and nothing has befallen it",
                self.now,
                application.sent,
                application.outgoing,
                application.received,
                application.incoming
            )
        })
    }
}
