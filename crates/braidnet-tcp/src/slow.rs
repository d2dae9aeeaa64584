//! Timers that run for seconds to hours and hardly ever expire: the last stay of a connection, silence of a peer (RFC 9293
//! §3.8.4), data that nobody takes (RFC 5482), and a close that a user waits for.
//!
//! Nothing starts them anew when a segment arrives. One that expires looks at what has happened since, and sleeps on if that was
//! enough; so a connection pays for them when they expire, and for one comparison of the earliest in
//! [`deadline`](crate::Tcb::deadline).

use crate::config::{Config, Keepalive};
use crate::state::State;
use crate::timers::{Timer, nanos};
use crate::{Events, Payload, Tcb};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use braidnet_wire::time::{Duration, Instant};

/// What a slow timer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Slow {
    /// The end of TIME-WAIT, or of a FIN-WAIT-2 that nobody cares for.
    Lifetime,
    /// The peer has been silent.
    Keepalive,
    /// What is to be sent has not been acknowledged (RFC 5482).
    UserTimeout,
    /// The user has closed, and waits no longer.
    Linger,
    /// A path that was found narrow is to be tried for more (RFC 4821 §7.3).
    Path,
}

/// One timer for each purpose.
#[derive(Debug)]
pub(crate) struct SlowTimers {
    each: [Timer; 5],
    earliest: Timer,
}

impl Default for SlowTimers {
    fn default() -> Self {
        SlowTimers {
            each: [Timer::OFF; 5],
            earliest: Timer::OFF,
        }
    }
}

impl SlowTimers {
    pub(crate) fn set(&mut self, slow: Slow, timer: Timer) {
        self.each[slow as usize] = timer;
        self.earliest = self.each.into_iter().fold(Timer::OFF, Timer::earliest);
    }

    /// Expires `duration` after `now`.
    pub(crate) fn start(&mut self, slow: Slow, now: Instant, duration: Duration) {
        self.set(slow, Timer::after(now, nanos(duration)));
    }

    pub(crate) fn clear(&mut self) {
        *self = SlowTimers::default();
    }

    pub(crate) fn is_running(&self, slow: Slow) -> bool {
        self.each[slow as usize].is_armed()
    }

    #[inline]
    pub(crate) fn earliest(&self) -> Timer {
        self.earliest
    }

    /// Whether it has expired; then it is off.
    fn take_due(&mut self, slow: Slow, now: Instant) -> bool {
        let due = self.each[slow as usize].is_due(now);
        if due {
            self.set(slow, Timer::OFF);
        }
        due
    }
}

/// How long the oldest sequence number may stay unacknowledged (RFC 5482 §3.1).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct UserTimeout {
    /// REMOTE_UTO, as the option says it: what the peer has asked for; 0 if nothing.
    remote: u16,
    /// The peer has not been told of ours since it was set.
    pub(crate) untold: bool,
    /// The oldest sequence number when a timer last expired over it, and since when it has been so.
    stuck: Option<(SeqNumber, Instant)>,
}

impl UserTimeout {
    /// USER_TIMEOUT; `None` leaves it to the number of timeouts.
    pub(crate) fn limit(&self, config: &Config) -> Option<Duration> {
        let advertised = config.advertised_user_timeout;
        config.user_timeout.or_else(|| {
            let (least, most) = config.user_timeout_limits;
            let remote = user_timeout_of(self.remote);
            let longest = remote.into_iter().chain(advertised).max()?;
            Some(longest.max(least).min(most))
        })
    }
}

/// The option's field for a timeout: seconds, or minutes with the highest bit set (RFC 5482 §3.2), rounded up; never 0, which
/// means nothing.
fn user_timeout_field(timeout: Duration) -> u16 {
    const MINUTES: u16 = 1 << 15;
    let seconds = timeout
        .as_secs()
        .saturating_add(u64::from(timeout.subsec_nanos() > 0));
    match u16::try_from(seconds.max(1)) {
        Ok(seconds) if seconds < MINUTES => seconds,
        _ => MINUTES | seconds.div_ceil(60).min(u64::from(MINUTES - 1)) as u16,
    }
}

/// The timeout that the option's field says; `None` for 0, which is reserved.
fn user_timeout_of(field: u16) -> Option<Duration> {
    let value = u64::from(field & 0x7fff);
    let seconds = if field & 0x8000 != 0 {
        60 * value
    } else {
        value
    };
    (value > 0).then(|| Duration::from_secs(seconds))
}

impl<P: Payload> Tcb<P> {
    /// How a silent peer is asked: [`Config::keepalive`] unless set otherwise.
    pub fn keepalive(&self) -> Keepalive {
        self.connection.config.keepalive
    }

    /// Turns keepalive on or off, or sets its times (RFC 9293 §3.8.4, MUST-24 and MUST-27).
    pub fn set_keepalive(&mut self, now: Instant, keepalive: Keepalive) {
        self.connection.set().keepalive = keepalive;
        self.connection.keepalive_probes = 0;
        self.watch_peer(now);
    }

    /// Sets [`Config::user_timeout`] (RFC 9293 §3.9.1.1, RFC 5482 §3).
    pub fn set_user_timeout(&mut self, timeout: Option<Duration>) {
        self.connection.set().user_timeout = timeout;
        self.restart_user_timeout();
    }

    /// Keepalive begins, or ends, for a connection whose handshake is over.
    pub(crate) fn watch_peer(&mut self, now: Instant) {
        let state = self.connection.state;
        let keepalive = self.connection.config.keepalive;
        let timer = if keepalive.on && state.is_synchronized() && state != State::TimeWait {
            Timer::at((self.connection.heard + keepalive.idle).max(now))
        } else {
            Timer::OFF
        };
        self.connection.slow.set(Slow::Keepalive, timer);
    }

    /// One of the slow timers has expired, or several.
    #[cold]
    pub(crate) fn on_slow(&mut self, now: Instant, events: &mut Events) {
        let slow = &mut self.connection.slow;
        if slow.take_due(Slow::Lifetime, now) {
            return self.end(events);
        }
        let impatient = slow.take_due(Slow::Linger, now);
        let stuck = slow.take_due(Slow::UserTimeout, now);
        let silent = slow.take_due(Slow::Keepalive, now);
        if slow.take_due(Slow::Path, now) {
            self.sender.search_path();
        }
        if impatient && self.waits_for_fin() {
            *events |= Events::TIMED_OUT;
            return self.reset_peer(events);
        }
        if stuck && self.is_stuck() {
            *events |= Events::TIMED_OUT;
            return self.end(events);
        }
        if silent {
            self.on_silence(now, events);
        }
    }

    /// Whether the user has closed, and the peer does not know yet.
    fn waits_for_fin(&self) -> bool {
        matches!(
            self.connection.state,
            State::SynReceived | State::FinWait1 | State::Closing | State::LastAck
        )
    }

    /// The timer over what is in flight, or waits to be, is about to expire: from when on is that?
    pub(crate) fn note_stuck(&mut self, now: Instant) {
        let una = self.sender.snd_una;
        let is_known = matches!(self.connection.user_timeout.stuck, Some((at, _)) if at == una);
        if is_known
            || self
                .connection
                .user_timeout
                .limit(&self.connection.config)
                .is_none()
        {
            return;
        }
        let since = match self.sender.flight_size() {
            // A probe of the window, whose timer runs from when that was found closed.
            0 => {
                let armed_for = Duration::from_nanos(self.sender.rtt.rto());
                self.sender.retransmit.deadline().unwrap_or(now) - armed_for
            }
            _ => self.sender.armed_at,
        };
        self.connection.user_timeout.stuck = Some((una, since));
        self.restart_user_timeout();
    }

    fn restart_user_timeout(&mut self) {
        let connection = &mut self.connection;
        let timer = match (
            connection.user_timeout.stuck,
            connection.user_timeout.limit(&connection.config),
        ) {
            (Some((una, since)), Some(limit)) if una == self.sender.snd_una => {
                Timer::at(since + limit)
            }
            _ => Timer::OFF,
        };
        connection.slow.set(Slow::UserTimeout, timer);
    }

    /// Whether what was stuck when a timer last expired is so still.
    fn is_stuck(&self) -> bool {
        let waits = self.sender.flight_size() > 0 || self.sender.unsent() > 0;
        waits
            && matches!(self.connection.user_timeout.stuck, Some((una, _)) if una == self.sender.snd_una)
    }

    /// The peer tells its user timeout (RFC 5482 §3.3): taken where ours is told and the user has not set one.
    pub(crate) fn take_user_timeout(&mut self, header: &TcpHeader) {
        let heeds = self.connection.config.advertised_user_timeout.is_some();
        if heeds && user_timeout_of(header.user_timeout).is_some() {
            self.connection.user_timeout.remote = header.user_timeout;
            self.restart_user_timeout();
        }
    }

    /// Tells the peer ours, in `header`, if it is to be told (RFC 5482 §3).
    pub(crate) fn tell_user_timeout(&mut self, header: &mut TcpHeader) {
        self.connection.user_timeout.untold = false;
        if let Some(timeout) = self.connection.config.advertised_user_timeout {
            header.present |= TcpHeader::HAS_USER_TIMEOUT;
            header.user_timeout = user_timeout_field(timeout);
        }
    }

    /// Nothing may have come for as long as a keepalive waits.
    fn on_silence(&mut self, now: Instant, events: &mut Events) {
        let keepalive = self.connection.config.keepalive;
        let connection = &mut self.connection;
        if self.sender.flight_size() > 0 || self.sender.unsent() > 0 {
            // Whoever waits for an acknowledgment learns by that whether the peer is there (MUST-26).
            connection.keepalive_probes = 0;
            return connection.slow.start(Slow::Keepalive, now, keepalive.idle);
        }
        let due = connection.heard + keepalive.idle;
        if now < due {
            connection.keepalive_probes = 0;
            return connection.slow.set(Slow::Keepalive, Timer::at(due));
        }
        if connection.keepalive_probes >= keepalive.probes.max(1) {
            *events |= Events::TIMED_OUT;
            // Should it be there after all, it is not to wait in vain.
            return self.reset_peer(events);
        }
        connection.keepalive_probes += 1;
        connection.keepalive_due = true;
        self.sender.probe_due = true;
        connection.slow.start(
            Slow::Keepalive,
            now,
            keepalive.interval.max(Duration::from_millis(1)),
        );
    }

    /// A keepalive probe, if one is due: an ACK with a sequence number that the peer has had, which it answers (RFC 9293 §3.8.4,
    /// SHLD-12).
    pub(crate) fn keepalive_probe(&mut self, now: Instant) -> Option<TcpHeader> {
        if !core::mem::take(&mut self.connection.keepalive_due) {
            return None;
        }
        Some(self.header(now, self.sender.snd_nxt - 1, TcpFlags::ACK))
    }
}

#[cfg(test)]
mod tests;
