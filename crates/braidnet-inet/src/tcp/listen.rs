//! Ports that are listened on, known to every bucket.
//!
//! Listeners are few, change rarely and are asked only when a SYN arrives: a published snapshot that one owner replaces.
//! Their limits hold for the whole stack, so the counts are atomic and shared.

use super::awaited::Awaited;
use super::fast_open::Early;
use super::repeats::Repeats;
use super::spent::Spent;
use super::{ACCEPT_QUEUE_FULL, COOKIES_LIMITED, SYN_QUEUE_FULL};
use crate::limits::LimitError;
use arc_swap::{ArcSwap, ArcSwapOption};
use braidnet_stream::Counter;
use braidnet_tcp::Config;
use braidnet_wire::address::Address;
use braidnet_wire::time::{Duration, Instant};
use core::fmt;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

/// The set of listeners of one stack.
#[derive(Default)]
pub struct Listeners {
    all: ArcSwap<Vec<Arc<Listener>>>,
    repeats: Repeats,
    pub(super) spent: Spent,
    pub(super) awaited: Awaited,
}

/// One port that is listened on.
#[derive(Debug)]
pub struct Listener {
    /// On this address, or on all.
    address: Option<Address>,
    port: u16,
    /// Most connections that each queue holds.
    backlog: AtomicU32,
    half_open: AtomicU32,
    unaccepted: AtomicU32,
    /// How its connections are set; `None`: as all of the stack's.
    engine: ArcSwapOption<Config>,
    /// When the next SYN cookie would leave if they left evenly, in nanoseconds: what is ahead of the time was sent in advance.
    cookies_at: AtomicU64,
    /// Until when ACKs may bring cookies back, in nanoseconds.
    cookies_until: AtomicU64,
    /// Connections that data have opened before their handshake was over.
    pub(super) early: Early,
}

/// What a listener does with those who ask for a connection while it has no room for another half-open one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listening {
    /// Answers them by SYN cookies (RFC 4987 §3.6), which need no room.
    pub syn_cookies: bool,
    /// Most SYN cookies that one listener sends in a second, a tenth of them at once: what forged SYNs can make it say to others, and
    /// cost. While more ask, those whose SYN comes again after a second go first.
    pub syn_cookies_per_second: u32,
    /// Cookies that are remembered once they have opened a connection, so that none opens another: 65,536 by default, which is enough for 30,000
    /// connections in three minutes; 8 to 4,194,304, each of 8 bytes. Of more the eldest of some eight is forgotten, and good once more.
    pub spent_cookies: usize,
    /// Cookies that are remembered once something has acknowledged them that did not bring them back, so that it is answered after a while: 65,536 by
    /// default; 8 to 4,194,304, each of 8 bytes. Of more the eldest of some eight is forgotten, and what acknowledges it waits anew.
    pub awaited_cookies: usize,
}

impl Default for Listening {
    fn default() -> Self {
        Listening {
            syn_cookies: true,
            syn_cookies_per_second: 10_000,
            spent_cookies: 65_536,
            awaited_cookies: 65_536,
        }
    }
}

impl Listening {
    /// Whether each is in its range.
    ///
    /// # Errors
    /// If one is not.
    pub fn check(&self) -> Result<(), LimitError> {
        LimitError::unless_in(8..=1 << 22, "listening.spent_cookies", self.spent_cookies)?;
        LimitError::unless_in(
            8..=1 << 22,
            "listening.awaited_cookies",
            self.awaited_cookies,
        )
    }
}

/// How long after a listener has last sent a SYN cookie it looks for one in ACKs of no connection: as long as they are good. At
/// other times nobody need try to guess one.
const COOKIES_LAST: Duration = Duration::from_secs(192);

/// Why a port cannot be listened on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ListenError {
    /// Somebody listens on it already.
    InUse(u16),
    /// Port 0 cannot be listened on.
    Zero,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ListenError::InUse(port) => write!(f, "TCP port {port} is listened on already"),
            ListenError::Zero => write!(f, "TCP port 0 cannot be listened on"),
        }
    }
}

impl std::error::Error for ListenError {}

impl Listeners {
    /// Listens on `port` of `address`, or of every address of the stack; at most `backlog` connections (at least 1) may
    /// be half-open at a time, and as many established and not [accepted](braidnet_stream::Verb::Accepted) yet.
    ///
    /// # Errors
    /// If the port is 0 or taken.
    pub fn listen(
        &self,
        address: Option<Address>,
        port: u16,
        backlog: u32,
    ) -> Result<(), ListenError> {
        if port == 0 {
            return Err(ListenError::Zero);
        }
        let mut taken = false;
        self.all.rcu(|all| {
            taken = all.iter().any(|listener| {
                listener.port == port
                    && (listener.address.is_none()
                        || address.is_none()
                        || listener.address == address)
            });
            let mut all = Vec::clone(all);
            if !taken {
                all.push(Arc::new(Listener {
                    address,
                    port,
                    backlog: AtomicU32::new(backlog.max(1)),
                    half_open: AtomicU32::new(0),
                    unaccepted: AtomicU32::new(0),
                    engine: ArcSwapOption::empty(),
                    cookies_at: AtomicU64::new(0),
                    cookies_until: AtomicU64::new(0),
                    early: Early::default(),
                }));
            }
            all
        });
        if taken {
            Err(ListenError::InUse(port))
        } else {
            Ok(())
        }
    }

    /// Has the connections that a listener takes from now on set like this, and not as all of the stack's; whether there is such a
    /// listener, of exactly this address.
    pub fn configure(&self, address: Option<Address>, port: u16, engine: &Config) -> bool {
        let all = self.all.load();
        let listener = all
            .iter()
            .find(|listener| listener.port == port && listener.address == address);
        if let Some(listener) = listener {
            listener.engine.store(Some(Arc::new(*engine)));
        }
        listener.is_some()
    }

    /// At most `backlog` connections (at least 1) are in each queue of a listener from now on. Where more are, they stay. Whether there is such a
    /// listener, of exactly this address.
    pub fn set_backlog(&self, address: Option<Address>, port: u16, backlog: u32) -> bool {
        let all = self.all.load();
        let listener = all
            .iter()
            .find(|listener| listener.port == port && listener.address == address);
        if let Some(listener) = listener {
            listener.set_backlog(backlog);
        }
        listener.is_some()
    }

    /// The same of every listener.
    pub fn set_every_backlog(&self, backlog: u32) {
        let all = self.all.load();
        all.iter()
            .for_each(|listener| listener.set_backlog(backlog));
    }

    /// Stops listening; connections that exist go on.
    pub fn stop(&self, address: Option<Address>, port: u16) {
        self.all.rcu(|all| {
            let mut all = Vec::clone(all);
            all.retain(|listener| listener.port != port || listener.address != address);
            all
        });
    }

    /// Stops listening on everything.
    pub fn stop_all(&self) {
        self.all.store(Arc::default());
    }

    /// Whether a SYN that finds no room at a listener, known by its keyed hash, is answered by a cookie now.
    ///
    /// # Errors
    /// What it is refused for.
    pub(super) fn take_cookie(
        &self,
        listener: &Listener,
        listening: &Listening,
        syn: impl FnOnce() -> u64,
        now: Instant,
    ) -> Result<(), Counter> {
        if !listening.syn_cookies {
            return Err(SYN_QUEUE_FULL);
        }
        match listener.take_cookie(listening, false, now) {
            Err(limited) if listening.syn_cookies_per_second > 0 => {
                let again = self.repeats.note(syn(), now);
                let second = || listener.take_cookie(listening, true, now);
                if again { second() } else { Err(limited) }
            }
            taken => taken,
        }
    }

    pub(super) fn find(&self, address: &Address, port: u16) -> Option<Arc<Listener>> {
        self.all
            .load()
            .iter()
            .find(|listener| {
                listener.port == port && listener.address.is_none_or(|own| own == *address)
            })
            .cloned()
    }
}

/// A listener's two queues (RFC 9293 leaves them to the implementation).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Queue {
    /// Connections whose handshake is under way.
    Syn,
    /// Connections that are established and not accepted yet.
    Accept,
}

impl Listener {
    /// How its connections are set, where they are not set as all of the stack's.
    pub(super) fn engine(&self) -> Option<Arc<Config>> {
        self.engine.load_full()
    }

    fn backlog(&self) -> u32 {
        self.backlog.load(Ordering::Relaxed)
    }

    fn set_backlog(&self, backlog: u32) {
        self.backlog.store(backlog.max(1), Ordering::Relaxed);
    }

    fn count(&self, queue: Queue) -> &AtomicU32 {
        match queue {
            Queue::Syn => &self.half_open,
            Queue::Accept => &self.unaccepted,
        }
    }

    /// Whether a SYN that finds no room may be answered by a cookie now, of which one less is left then. Half of what may be sent at once
    /// is for SYNs that come `again`.
    fn take_cookie(&self, listening: &Listening, again: bool, now: Instant) -> Result<(), Counter> {
        const SECOND: u64 = 1_000_000_000;
        let rate = u64::from(listening.syn_cookies_per_second);
        let (now, burst) = (now.nanos(), if again { SECOND / 10 } else { SECOND / 20 });
        let next = |at: u64| {
            let at = at.max(now);
            let has_room = rate > 0 && at - now <= burst;
            has_room.then(|| at + SECOND / rate)
        };
        // Counts and times that nothing else hangs on.
        let taken = self
            .cookies_at
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        if taken.is_err() {
            return Err(COOKIES_LIMITED);
        }
        let until = now.saturating_add(COOKIES_LAST.as_nanos() as u64);
        // Stored once a second at most: all processors look at it.
        if self
            .cookies_until
            .load(Ordering::Relaxed)
            .saturating_add(SECOND)
            < until
        {
            self.cookies_until.fetch_max(until, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether an ACK of no connection may bring a cookie back.
    pub(super) fn heeds_cookies(&self, now: Instant) -> bool {
        now.nanos() < self.cookies_until.load(Ordering::Relaxed)
    }
}

/// A connection's place in one of its listener's queues, given back when dropped: to the listener that it was taken from, even
/// if another listens on the port by then.
#[derive(Debug)]
pub(super) struct Place {
    listener: Arc<Listener>,
    queue: Queue,
}

impl Place {
    /// How the listener has its connections set, where they are not set as all of the stack's.
    pub(super) fn engine(&self) -> Option<Arc<Config>> {
        self.listener.engine()
    }

    /// The listener, as long as the handshake is under way.
    pub(super) fn awaits_handshake(&self) -> Option<&Arc<Listener>> {
        (self.queue == Queue::Syn).then_some(&self.listener)
    }

    /// A place for a SYN.
    ///
    /// # Errors
    /// The name of the queue that is full. With no place in the accept queue, a handshake would be begun in vain.
    pub(super) fn half_open(listener: Arc<Listener>) -> Result<Place, Counter> {
        if listener.unaccepted.load(Ordering::Relaxed) >= listener.backlog() {
            return Err(ACCEPT_QUEUE_FULL);
        }
        Place::take(listener, Queue::Syn).ok_or(SYN_QUEUE_FULL)
    }

    /// A second place, in the accept queue, for a connection whose handshake is about to end.
    ///
    /// # Errors
    /// If that queue is full, its name.
    pub(super) fn established(&self) -> Result<Place, Counter> {
        Place::take(self.listener.clone(), Queue::Accept).ok_or(ACCEPT_QUEUE_FULL)
    }

    /// Whose it is.
    pub(super) fn listener(&self) -> &Arc<Listener> {
        &self.listener
    }

    /// A place in the accept queue for a connection of which nothing was kept before.
    ///
    /// # Errors
    /// If that queue is full, its name.
    pub(super) fn at_once(listener: Arc<Listener>) -> Result<Place, Counter> {
        Place::take(listener, Queue::Accept).ok_or(ACCEPT_QUEUE_FULL)
    }

    fn take(listener: Arc<Listener>, queue: Queue) -> Option<Place> {
        let backlog = listener.backlog();
        let room = |held: u32| (held < backlog).then_some(held + 1);
        let taken = listener
            .count(queue)
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, room);
        taken.ok().map(|_| Place { listener, queue })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let held = self.listener.count(self.queue);
        held.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_taken_by_one_listener_only() {
        let listeners = Listeners::default();
        let one = Address::v4([10, 0, 0, 1]);
        let two = Address::v4([10, 0, 0, 2]);
        assert_eq!(listeners.listen(None, 0, 1), Err(ListenError::Zero));
        assert_eq!(listeners.listen(Some(one), 80, 1), Ok(()));
        assert_eq!(listeners.listen(Some(two), 80, 1), Ok(()));
        assert_eq!(listeners.listen(None, 80, 1), Err(ListenError::InUse(80)));
        listeners.stop(Some(one), 80);
        assert!(listeners.find(&one, 80).is_none());
        assert!(listeners.find(&two, 80).is_some());
    }

    #[test]
    fn the_backlog_bounds_each_queue() {
        let listeners = Listeners::default();
        let address = Address::v4([10, 0, 0, 1]);
        listeners.listen(None, 7, 2).unwrap();
        let syn = || Place::half_open(listeners.find(&address, 7).unwrap());
        let (first, second) = (syn().unwrap(), syn().unwrap());
        assert_eq!(syn().err(), Some(SYN_QUEUE_FULL));
        let accepted = first.established().unwrap();
        drop(first);
        let third = syn().unwrap();
        let another = second.established().unwrap();
        // Full: who knocks is turned away, and who is half in waits.
        assert_eq!(third.established().err(), Some(ACCEPT_QUEUE_FULL));
        drop(second);
        assert_eq!(syn().err(), Some(ACCEPT_QUEUE_FULL));
        drop(accepted);
        assert!(third.established().is_ok());
        assert!(syn().is_ok());
        drop((another, third));
        let listener = listeners.find(&address, 7).unwrap();
        let held =
            [Queue::Syn, Queue::Accept].map(|queue| listener.count(queue).load(Ordering::Relaxed));
        assert_eq!(held, [0, 0]);
    }

    #[test]
    fn another_backlog_counts_for_who_comes() {
        let listeners = Listeners::default();
        let address = Address::v4([10, 0, 0, 1]);
        listeners.listen(None, 7, 3).unwrap();
        let syn = || Place::half_open(listeners.find(&address, 7).unwrap());
        let mut places: Vec<Place> = (0..3).map(|_| syn().unwrap()).collect();
        assert!(listeners.set_backlog(None, 7, 2));
        assert!(!listeners.set_backlog(Some(address), 7, 9) && !listeners.set_backlog(None, 8, 9));
        // Three stay; of two one must go before there is room for another.
        places.pop();
        assert_eq!(syn().err(), Some(SYN_QUEUE_FULL));
        let accepted: Vec<_> = places.iter().map(|place| place.established()).collect();
        assert!(accepted.iter().all(Result::is_ok));
        places.clear();
        assert_eq!(syn().err(), Some(ACCEPT_QUEUE_FULL));
        listeners.set_every_backlog(3);
        places.push(syn().unwrap());
        assert!(places[0].established().is_ok());
        assert!(listeners.set_backlog(None, 7, 0), "one at least");
        drop(accepted);
        places.clear();
        let one = syn().unwrap();
        assert_eq!(syn().err(), Some(SYN_QUEUE_FULL));
        drop(one);
    }

    #[test]
    fn a_place_goes_back_to_the_listener_that_it_is_from() {
        let listeners = Listeners::default();
        let address = Address::v4([10, 0, 0, 1]);
        let syn = || Place::half_open(listeners.find(&address, 7).unwrap());
        listeners.listen(None, 7, 1).unwrap();
        let old = syn().unwrap().established().unwrap();
        listeners.stop(None, 7);
        listeners.listen(None, 7, 1).unwrap();
        let new = syn().unwrap().established().unwrap();
        drop(old);
        assert_eq!(syn().err(), Some(ACCEPT_QUEUE_FULL));
        drop(new);
        assert!(syn().is_ok());
    }
}
