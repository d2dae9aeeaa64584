//! A first come, first served lock of two counters: whoever comes draws a number and waits until it is called.
//!
//! # The protocol
//!
//! `next` is the ticket that is drawn next, `turn` the one whose holder has the lock. A ticket is a number of
//! 22 bits that wraps, in the upper bits of a word. So two who wait never have the same one: there are as many tickets
//! as Linux can have threads (`PID_MAX_LIMIT`), and each waits with one at most. The lower ten bits of `turn` are
//! *lanes*: a bit in them says that a waiter may sleep whose ticket is the lane's number modulo ten.
//!
//! - *Take*: add one to `next`; what was there is the own ticket. Then look at `turn` (acquire: what the last holder
//!   wrote is seen). The lock is free if the ticket is there.
//! - *Try*: look at `turn`, and draw the ticket that is there if it is the next. Should others have drawn all 22 bits' worth
//!   of tickets between the two, the ticket is not called yet, and is waited for.
//! - *Sleep*: set the own lane in `turn` as seen, then wait in that lane while `turn` is exactly that. Every give-back
//!   changes `turn`, so the kernel refuses the wait if one came between.
//! - *Give back*: one compare-and-swap of `turn` to the following ticket, that one's lane cleared. Release. If the lane was set,
//!   wake the lane. Only those sleep in it who set it before that swap, or they are refused; those of them whose
//!   turn has not come set it again and sleep on. So everybody who sleeps has its lane set in the word that its
//!   give-back will find.
//!
//! # The bound
//!
//! A waiter with as many others before it as there are processors knows that one of them is not running, and sleeps at
//! once. Nearer ones spin for some microseconds, longer than a handoff between running processors and a short
//! hold take, and then sleep. So a lock with many waiters passes at the pace of wake-ups, never of time slices, and since
//! a wake names a lane, it wakes the next in line and not the whole queue: every tenth behind it in the worst case.

use crate::primitives::{AtomicU32, Futex, Ordering, processors};
use crate::spin::Spin;

/// Lanes, each a bit at the bottom of the word.
const LANES: u32 = if cfg!(loom) { 2 } else { 10 };
/// The lanes' place in `turn`; nothing in `next`.
const LANE_MASK: u32 = (1 << TICKET_SHIFT) - 1;
const TICKET_SHIFT: u32 = 10;
/// From one ticket to the following.
const ONE: u32 = 1 << TICKET_SHIFT;

/// A waiter spins at most this many pauses; some microseconds on the machines we know.
const MOST_PAUSES: u32 = if crate::primitives::IS_MODEL { 1 } else { 256 };

/// A first come, first served lock whose waiters watch one word, and sleep after a bound.
///
/// Taking and giving back a free lock is one atomic operation each. All waiters watch the same line, so a handoff
/// costs more the more of them spin; [`Mcs`](super::Mcs) has a line for each. Eight bytes; not padded to a cache line.
/// It is not poisoned by a panic.
///
/// ```
/// use braidnet_sync::lock::Ticket;
/// let counter = lock_api::Mutex::<Ticket, u64>::new(1);
/// *counter.lock() += 1;
/// assert_eq!(counter.into_inner(), 2);
/// ```
#[derive(Debug)]
pub struct Ticket {
    next: AtomicU32,
    turn: Futex,
}

impl Ticket {
    /// A free lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        Ticket {
            next: AtomicU32::new(0),
            turn: Futex::new(0),
        }
    }

    /// A free lock.
    #[cfg(loom)]
    pub fn new() -> Self {
        Ticket {
            next: AtomicU32::new(0),
            turn: Futex::new(0),
        }
    }

    /// Takes the lock after everybody who asked before.
    ///
    /// Taking it twice on one thread waits for ever.
    #[inline]
    pub fn lock(&self) {
        let ticket = self.next.fetch_add(ONE, Ordering::Relaxed);
        if self.called() != ticket {
            self.wait(ticket);
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> bool {
        let ticket = self.called();
        let drawn = self
            .next
            .compare_exchange(
                ticket,
                ticket.wrapping_add(ONE),
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok();
        if drawn && self.called() != ticket {
            self.wait(ticket);
        }
        drawn
    }

    /// Gives the lock to whoever has waited longest.
    ///
    /// # Safety
    ///
    /// The caller must hold the lock. It may have been taken on another thread.
    #[inline]
    pub unsafe fn unlock(&self) {
        let seen = self.turn.load(Ordering::Relaxed);
        let alone = seen & LANE_MASK == 0
            && self
                .turn
                .compare_exchange(
                    seen,
                    seen.wrapping_add(ONE),
                    Ordering::Release,
                    Ordering::Relaxed,
                )
                .is_ok();
        if !alone {
            self.call();
        }
    }

    /// Whether somebody holds the lock; out of date as soon as it is known.
    pub fn is_locked(&self) -> bool {
        self.next.load(Ordering::Relaxed) != self.turn.load(Ordering::Relaxed) & !LANE_MASK
    }

    /// Whether the holder, which asks, has an odd ticket: two that follow each other differ.
    #[inline(always)]
    pub(super) fn is_odd(&self) -> bool {
        self.turn.load(Ordering::Relaxed) & ONE != 0
    }

    /// The ticket that is drawn next.
    #[cfg(all(test, not(loom)))]
    pub(super) fn drawn(&self) -> u32 {
        self.next.load(Ordering::Relaxed)
    }

    /// The ticket whose turn it is.
    #[inline(always)]
    fn called(&self) -> u32 {
        self.turn.load(Ordering::Acquire) & !LANE_MASK
    }

    #[cold]
    #[inline(never)]
    fn wait(&self, ticket: u32) {
        let processors = processors();
        let mut spin = Spin::at_most(MOST_PAUSES);
        loop {
            let before = ticket.wrapping_sub(self.called()) >> TICKET_SHIFT;
            if before == 0 {
                return;
            }
            if before >= processors || !spin.again() {
                break;
            }
        }
        let lane = lane(ticket);
        loop {
            let seen = self.turn.load(Ordering::Acquire);
            if seen & !LANE_MASK == ticket {
                return;
            }
            let marked = seen | lane;
            let announced = seen == marked
                || self
                    .turn
                    .compare_exchange(seen, marked, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok();
            if announced {
                self.turn.wait_in(lane, marked, None);
            }
        }
    }

    /// Calls the following ticket where somebody sleeps or is about to.
    #[cold]
    #[inline(never)]
    fn call(&self) {
        let mut seen = self.turn.load(Ordering::Relaxed);
        loop {
            let following = (seen & !LANE_MASK).wrapping_add(ONE);
            let lane = lane(following);
            let called = following | seen & LANE_MASK & !lane;
            match self
                .turn
                .compare_exchange(seen, called, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) if seen & lane != 0 => return self.turn.wake_lane(lane),
                Ok(_) => return,
                Err(now) => seen = now,
            }
        }
    }
}

/// The lane of a ticket.
#[inline(always)]
fn lane(ticket: u32) -> u32 {
    1 << ((ticket >> TICKET_SHIFT) % LANES)
}

impl Default for Ticket {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(not(loom))]
// SAFETY: no two who wait have the same ticket, and the lock is that one's whose ticket is in `turn`, which only its
// holder changes; acquire and release order the holders. Giving back does not depend on the thread.
unsafe impl lock_api::RawMutex for Ticket {
    const INIT: Self = Ticket::new();

    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock(&self) {
        Ticket::lock(self);
    }

    #[inline]
    fn try_lock(&self) -> bool {
        Ticket::try_lock(self)
    }

    #[inline]
    unsafe fn unlock(&self) {
        // SAFETY: the caller holds the lock, by this method's contract.
        unsafe { Ticket::unlock(self) }
    }

    fn is_locked(&self) -> bool {
        Ticket::is_locked(self)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Waiters draw one by one, more than there are lanes, and come in in that order; they wait long enough to sleep.
    /// The tickets wrap on the way.
    #[test]
    fn whoever_asked_first_is_served_first() {
        const WAITERS: u32 = 2 * LANES + 1;
        const FIRST: u32 = 0_u32.wrapping_sub(LANES * ONE);
        let ticket = Ticket {
            next: AtomicU32::new(FIRST),
            turn: Futex::new(FIRST),
        };
        let mutex = lock_api::Mutex::from_raw(ticket, Vec::new());
        // SAFETY: only looked at.
        let raw: &Ticket = unsafe { mutex.raw() };
        std::thread::scope(|scope| {
            let mut held = mutex.lock();
            for waiter in 1..=WAITERS {
                let mutex = &mutex;
                scope.spawn(move || mutex.lock().push(waiter));
                let drawn = FIRST.wrapping_add((1 + waiter) * ONE);
                while raw.next.load(Ordering::Relaxed) != drawn {
                    std::thread::yield_now();
                }
            }
            held.push(0);
            assert!(raw.is_locked() && !raw.try_lock());
        });
        assert!(!raw.is_locked());
        assert!(mutex.into_inner().into_iter().eq(0..=WAITERS));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::Ticket;
    use crate::lock::model::{excludes, tries};

    fn unlock(lock: &Ticket) {
        // SAFETY: the models call this with the lock held only.
        unsafe { lock.unlock() }
    }

    #[test]
    fn two_threads_exclude_each_other() {
        excludes(2, 2, Ticket::new, Ticket::lock, unlock);
    }

    #[test]
    fn three_threads_exclude_each_other() {
        excludes(3, 1, Ticket::new, Ticket::lock, unlock);
    }

    /// With two lanes, so that two of the waiters share one.
    #[test]
    fn four_threads_exclude_each_other() {
        excludes(4, 1, Ticket::new, Ticket::lock, unlock);
    }

    #[test]
    fn a_successful_try_excludes() {
        tries(Ticket::new, Ticket::lock, Ticket::try_lock, unlock);
    }
}
