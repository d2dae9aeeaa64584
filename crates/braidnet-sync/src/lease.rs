//! What is one processor's own until others ask for a share in it.
//!
//! The *home* has a value to itself: plain loads and stores, no lock. Others may ask to be its *guests*; while there is a guest, home
//! and guests have the value in common, so it must be one that can be shared, by locks or delegation inside it. When the last has
//! left, it is the home's own again. Nobody is stopped, and nobody waits.
//!
//! # The protocol
//!
//! Two words, each on a line of its own, with a bit for each guest.
//!
//! - *Ask*: the guest sets its bit in `asked`. That is only a wish and orders nothing. It is *withdrawn* by clearing the bit; who finds
//!   it cleared already has been admitted, or is about to be.
//! - *Admit*: the home, between two uses of the value, takes all bits out of `asked` and sets them in `admitted`. Release: the
//!   guest finds all that the home did while it was alone. Only the home sets bits there, one for each time of asking.
//! - *Enter*: the guest looks for its own bit in `admitted`, acquire, and uses the value from when it has found it. It looks when it likes, as the home does: what
//!   it does between two looks it does as a guest or not, all of it.
//! - *Leave*: the guest, between two uses, clears its bit. Release. Only the guest clears it.
//! - *Look*: the home reads `admitted`. Acquire. If no bit is set, it is alone: all that guests did happened before, and since
//!   nobody else sets bits, that holds until it admits somebody itself.
//!
//! So each use by a guest lies between the home's setting of its bit and its own clearing of it, each use by the home alone outside
//! of that, and every border is a release that the other side acquires. A guest that is preempted keeps the home from being
//! alone for so long; it does not keep it from its work.

use core::fmt;

use crossbeam_utils::CachePadded;

use crate::primitives::{Arc, AtomicU64, Ordering, UnsafeCell};

/// Most guests that one home can have.
pub const GUESTS: usize = 64;

struct Leased<T> {
    asked: CachePadded<AtomicU64>,
    admitted: CachePadded<AtomicU64>,
    /// How much there is to do at home, for those who consider whether to ask.
    load: CachePadded<AtomicU64>,
    value: UnsafeCell<T>,
}

// SAFETY: shared references to the value are given out on several threads, hence `Sync`; exclusive ones to the home, which can move
// from thread to thread, hence `Send`. The protocol keeps the two apart.
unsafe impl<T: Send + Sync> Sync for Leased<T> {}

// SAFETY: the value goes wherever the last handle goes.
unsafe impl<T: Send + Sync> Send for Leased<T> {}

/// The one to whom the value belongs.
pub struct Home<T> {
    leased: Arc<Leased<T>>,
    /// The guests that were there at the last look, or have been admitted since.
    guests: u64,
    /// Whether some have left that were there at the last look.
    have_left: bool,
}

/// Somebody who may become a guest.
pub struct Guest<T> {
    leased: Arc<Leased<T>>,
    bit: u64,
    asks: bool,
    /// Whether the last look has found it admitted, and it has not left since.
    is_in: bool,
}

/// What the home has of its value.
pub enum Access<'a, T> {
    /// All of it.
    Alone(&'a mut T),
    /// As much as its guests have.
    Shared(&'a T),
}

/// A value, and so many handles for guests-to-be, at most [`GUESTS`].
///
/// # Panics
/// If that many guests cannot be told apart.
///
/// ```
/// use braidnet_sync::lease::{Access, lease};
/// use std::sync::atomic::{AtomicU32, Ordering};
///
/// let (mut home, mut guests) = lease(AtomicU32::new(1), 1);
/// let guest = &mut guests[0];
/// let Access::Alone(value) = home.access() else { unreachable!() };
/// *value.get_mut() += 1;
/// assert!(guest.access().is_none());
///
/// guest.ask();
/// home.admit();
/// assert!(guest.look());
/// guest.access().unwrap().fetch_add(1, Ordering::Relaxed);
/// assert!(matches!(home.access(), Access::Shared(_)));
///
/// guest.leave();
/// assert!(home.look() && home.is_alone());
/// let Access::Alone(value) = home.access() else { unreachable!() };
/// assert_eq!(*value.get_mut(), 3);
/// ```
pub fn lease<T: Send + Sync>(value: T, guests: usize) -> (Home<T>, Vec<Guest<T>>) {
    assert!(
        guests <= GUESTS,
        "{guests} guests, where there is room for {GUESTS}"
    );
    let leased = Arc::new(Leased {
        asked: CachePadded::new(AtomicU64::new(0)),
        admitted: CachePadded::new(AtomicU64::new(0)),
        load: CachePadded::new(AtomicU64::new(0)),
        value: UnsafeCell::new(value),
    });
    let guests = (0..guests)
        .map(|guest| Guest {
            leased: Arc::clone(&leased),
            bit: 1 << guest,
            asks: false,
            is_in: false,
        })
        .collect();
    let home = Home {
        leased,
        guests: 0,
        have_left: false,
    };
    (home, guests)
}

impl<T> Home<T> {
    /// Looks which guests there are, and whether the home is alone therefore until it admits one; whether some have left since the
    /// last look, be they back or not.
    #[inline]
    pub fn look(&mut self) -> bool {
        // Nobody but the home adds to them.
        if self.guests == 0 {
            return false;
        }
        let guests = self.leased.admitted.load(Ordering::Acquire);
        let have_left = core::mem::replace(&mut self.guests, guests) != guests;
        core::mem::take(&mut self.have_left) | have_left
    }

    /// Whether the last look found no guest, and none has been admitted since.
    #[inline]
    pub fn is_alone(&self) -> bool {
        self.guests == 0
    }

    /// Those guests, a bit for each handle in their order.
    #[inline]
    pub fn guests(&self) -> u64 {
        self.guests
    }

    /// The value.
    #[inline]
    pub fn access(&mut self) -> Access<'_, T> {
        if self.is_alone() {
            Access::Alone(self.leased.value.with_mut(|value| {
                // SAFETY: no guest has been admitted since the look that found none, and this is the only home, borrowed
                // exclusively for as long as the reference lives.
                unsafe { &mut *value }
            }))
        } else {
            Access::Shared(self.leased.value.with(|value| {
                // SAFETY: whoever is not the home has shared references only.
                unsafe { &*value }
            }))
        }
    }

    /// Whether somebody asks.
    #[inline]
    pub fn is_asked(&self) -> bool {
        self.leased.asked.load(Ordering::Relaxed) != 0
    }

    /// Admits all who ask.
    pub fn admit(&mut self) {
        let guests = self.leased.asked.swap(0, Ordering::Relaxed);
        if guests != 0 {
            let there = self.leased.admitted.fetch_or(guests, Ordering::AcqRel);
            // Some may have left since the last look and be back by now.
            self.have_left |= self.guests & !there != 0;
            self.guests |= guests;
        }
    }

    /// Says how much there is to do, in a measure that the guests understand.
    #[inline]
    pub fn publish(&mut self, load: u64) {
        // A line that others read is written only when there is something new.
        if self.leased.load.load(Ordering::Relaxed) != load {
            self.leased.load.store(load, Ordering::Relaxed);
        }
    }
}

impl<T> Guest<T> {
    /// What the home last published.
    #[inline]
    pub fn load(&self) -> u64 {
        self.leased.load.load(Ordering::Relaxed)
    }

    /// Asks to be admitted; asking again changes nothing.
    pub fn ask(&mut self) {
        if !self.asks {
            self.asks = true;
            self.leased.asked.fetch_or(self.bit, Ordering::Relaxed);
        }
    }

    /// Whether it has asked, and not left since.
    #[inline]
    pub fn asks(&self) -> bool {
        self.asks
    }

    /// Looks whether it has been admitted.
    #[inline]
    pub fn look(&mut self) -> bool {
        if self.asks && !self.is_in {
            // Nobody else clears it.
            self.is_in = self.leased.admitted.load(Ordering::Acquire) & self.bit != 0;
        }
        self.is_in
    }

    /// The value, if the last look has found that the guest is admitted.
    #[inline]
    pub fn access(&self) -> Option<&T> {
        if !self.is_in {
            return None;
        }
        Some(self.leased.value.with(|value| {
            // SAFETY: the bit is set, so the home has shared references only until `leave` has cleared it, which takes this
            // handle exclusively.
            unsafe { &*value }
        }))
    }

    /// Gives up its share, or its wish for one; whether it had a share. Who is being admitted at this moment still
    /// [`asks`](Guest::asks) afterwards, and must leave again.
    pub fn leave(&mut self) -> bool {
        if !self.look() {
            self.withdraw();
            return false;
        }
        (self.asks, self.is_in) = (false, false);
        self.leased.admitted.fetch_and(!self.bit, Ordering::Release);
        true
    }

    fn withdraw(&mut self) {
        if self.asks {
            let asked = self.leased.asked.fetch_and(!self.bit, Ordering::Relaxed);
            self.asks = asked & self.bit == 0;
        }
    }
}

impl<T> fmt::Debug for Home<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Home")
            .field("is_alone", &self.is_alone())
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Guest<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guest")
            .field("asks", &self.asks)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_guest_has_a_share_from_being_admitted_until_it_leaves() {
        let (mut home, mut guests) = lease(7, 2);
        assert!(!home.look() && home.is_alone() && !home.is_asked());
        assert!(!guests[1].leave(), "it has nothing to give up");
        guests[1].ask();
        guests[1].ask();
        assert!(home.is_asked() && home.is_alone() && !guests[1].look());
        assert!(!guests[1].leave(), "it has not been admitted");
        assert!(!guests[1].asks() && !home.is_asked(), "nor will it be");
        home.admit();
        assert!(home.is_alone());
        guests[1].ask();
        home.admit();
        assert!(!home.is_asked() && !home.is_alone());
        assert!(guests[1].access().is_none(), "not before it has looked");
        assert!(guests[1].look() && !guests[0].look());
        assert_eq!(guests[1].access(), Some(&7));
        assert!(guests[0].access().is_none());
        assert!(matches!(home.access(), Access::Shared(7)));
        assert_eq!(home.guests(), 0b10);
        assert!(!home.look());
        assert!(guests[1].leave() && guests[1].access().is_none());
        assert!(!home.is_alone(), "not before it has looked");
        assert!(home.look() && home.is_alone());
        assert!(matches!(home.access(), Access::Alone(7)));
    }

    #[test]
    fn the_load_is_what_was_published_last() {
        let (mut home, guests) = lease((), 1);
        assert_eq!(guests[0].load(), 0);
        home.publish(3);
        assert_eq!(guests[0].load(), 3);
    }

    #[test]
    fn every_guest_has_a_bit_of_its_own() {
        let (mut home, mut guests) = lease((), GUESTS);
        guests.iter_mut().for_each(Guest::ask);
        home.admit();
        for guest in &mut guests {
            assert!(!home.is_alone());
            assert!(guest.leave() && home.look());
        }
        assert!(home.is_alone());
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::{Access, Guest, Home, lease};
    use crate::primitives::{Arc, AtomicUsize, Ordering, UnsafeCell, thread};
    use loom::sync::Mutex;

    /// A value that can be shared, and a cell that only who is alone may touch.
    struct Value {
        private: UnsafeCell<usize>,
        shared: Mutex<usize>,
    }

    // SAFETY: the cell is touched through an exclusive reference only.
    unsafe impl Sync for Value {}

    fn turn(home: &mut Home<Value>) -> usize {
        home.look();
        match home.access() {
            Access::Alone(value) => {
                value.private.with_mut(|value| {
                    // SAFETY: the value is borrowed exclusively; that this is so is what the model checks.
                    unsafe { *value += 1 }
                });
                *value.shared.get_mut().unwrap() += 1;
            }
            Access::Shared(value) => {
                value.private.with(|_| ());
                *value.shared.lock().unwrap() += 1;
            }
        }
        if home.is_asked() {
            home.admit();
        }
        1
    }

    /// What a guest did while it was one.
    fn visit(guest: &mut Guest<Value>) -> usize {
        guest.ask();
        let mut done = 0;
        guest.look();
        if let Some(value) = guest.access() {
            value.private.with(|_| ());
            *value.shared.lock().unwrap() += 1;
            done = 1;
        }
        guest.leave();
        done
    }

    fn keeps_apart(guests: usize, turns: usize, visits: usize) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(3);
        builder.check(move || {
            let value = Value {
                private: UnsafeCell::new(0),
                shared: Mutex::new(0),
            };
            let done = Arc::new(AtomicUsize::new(0));
            let (mut home, guests) = lease(value, guests);
            let others: Vec<_> = guests
                .into_iter()
                .map(|mut guest| {
                    let done = Arc::clone(&done);
                    thread::spawn(move || {
                        for _ in 0..visits {
                            done.fetch_add(visit(&mut guest), Ordering::Relaxed);
                        }
                        guest
                    })
                })
                .collect();
            let mut all = 0;
            for _ in 0..turns {
                all += turn(&mut home);
            }
            let mut guests: Vec<_> = others
                .into_iter()
                .map(|other| other.join().unwrap())
                .collect();
            home.admit();
            for guest in &mut guests {
                assert!(!guest.asks() || guest.leave());
            }
            home.look();
            let Access::Alone(value) = home.access() else {
                unreachable!("it is alone")
            };
            all += done.load(Ordering::Relaxed);
            assert_eq!(*value.shared.get_mut().unwrap(), all);
        });
    }

    #[test]
    fn a_home_goes_from_alone_to_shared_and_back() {
        keeps_apart(1, 3, 2);
    }

    #[test]
    fn two_guests_keep_apart_from_a_home_that_is_alone() {
        keeps_apart(2, 3, 1);
    }

    /// A look, and what it must say: whether more of the `admitted` times that the only guest was let in are over than `ended`.
    fn look(home: &mut Home<()>, admitted: usize, ended: &mut usize) {
        let has_left = home.look();
        let before = core::mem::replace(ended, admitted - usize::from(!home.is_alone()));
        assert_eq!(has_left, *ended > before, "{before} to {ended}");
    }

    /// It takes no wish back, so that the home knows how often it was let in.
    #[test]
    fn each_leaving_is_told_once_also_if_the_guest_is_back_before() {
        loom::model(|| {
            let (mut home, mut guests) = lease((), 1);
            let mut guest = guests.pop().unwrap();
            let other = thread::spawn(move || {
                for _ in 0..3 {
                    guest.ask();
                    if guest.look() {
                        guest.leave();
                    }
                }
                guest
            });
            let (mut admitted, mut ended) = (0, 0);
            for _ in 0..3 {
                look(&mut home, admitted, &mut ended);
                if home.is_asked() {
                    home.admit();
                    admitted += 1;
                }
            }
            let mut guest = other.join().unwrap();
            look(&mut home, admitted, &mut ended);
            assert_eq!(home.is_alone(), !guest.look());
        });
    }
}
