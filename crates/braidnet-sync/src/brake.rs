//! Bringing all who go round to a stop, each at its next boundary, and letting them go on.
//!
//! Whoever turns something in a loop passes the brake's *boundary* once per round. Anybody else may *hold* all of them there,
//! wait until none is within a round, *let go*, or *end* it for good: from any thread, in any order, at the same time.
//!
//! # The protocol
//!
//! One word: how many are going round, how many holds there are, and whether it has ended. That all of this is one word is what
//! makes stopping atomic: to *set off* is a compare-and-swap that counts one more as going round, from a word without a hold,
//! so nobody sets off unseen beside a hold that has just been put on.
//!
//! - *Boundary*: a load (acquire). With neither hold nor end that is all, and the line is nobody else's to write.
//! - *Stop*: one fewer goes round (release). Who finds that it was the last wakes those who wait for that. Then it sleeps on the
//!   word until there is no hold, or it has ended, and sets off again (acquire): it sees all that was done while it stood.
//! - *Hold*: one hold more; then wait, on the word, until nobody goes round (acquire): all that was done in their rounds is seen.
//!   Holds are counted, so that they nest: each needs a letting go of its own.
//! - *Let go*: one hold fewer (release); with the last, wake all.
//! - *End*: a bit that stays (release), and wakes all. It prevails over holds: who stands goes home, and takes no further round.
//!
//! The word wakes only those who sleep on it. Who sleeps elsewhere, on a [parker](crate::parker), is unparked after the word
//! has been changed, and looks at [`is_on`](Brake::is_on) between announcing its sleep and sleeping.

use crossbeam_utils::CachePadded;

use crate::primitives::{Futex, Ordering};

const ENDED: u32 = 1;
const HOLD: u32 = 1 << 1;
const HOLDS: u32 = GOING - HOLD;
const GOING: u32 = 1 << 16;

/// Most holds at a time, and most who go round: 32,767 and 65,535.
const MOST_HOLDS: u32 = HOLDS / HOLD;

/// Stops any number of loops at their boundaries.
///
/// ```
/// use braidnet_sync::brake::Brake;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// let (brake, rounds) = (Brake::new(), AtomicU64::new(0));
/// std::thread::scope(|scope| {
///     scope.spawn(|| {
///         let _going = brake.set_off();
///         while brake.boundary() {
///             rounds.fetch_add(1, Ordering::Relaxed);
///         }
///     });
///     brake.hold();
///     let held_at = rounds.load(Ordering::Relaxed);
///     std::thread::yield_now();
///     assert_eq!(rounds.load(Ordering::Relaxed), held_at);
///     brake.let_go();
///     brake.end();
/// });
/// ```
#[derive(Debug)]
pub struct Brake {
    word: CachePadded<Futex>,
}

impl Brake {
    /// A brake that is off.
    pub fn new() -> Self {
        Brake {
            word: CachePadded::new(Futex::new(0)),
        }
    }

    /// Whether somebody holds or has ended it: what who goes round looks at before it sleeps elsewhere.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.word.load(Ordering::Acquire) & (HOLDS | ENDED) != 0
    }

    /// Begins to go round, as soon as nobody holds, until the answer is dropped.
    pub fn set_off(&self) -> Going<'_> {
        self.await_release();
        Going { brake: self }
    }

    /// Between two rounds, for who goes round: stands still while somebody holds; whether to go on.
    #[inline]
    pub fn boundary(&self) -> bool {
        !self.is_on() || self.stop()
    }

    /// Holds all, and waits until nobody is within a round, or nobody holds any more. The caller must not go round itself.
    ///
    /// # Panics
    /// With more than 32,767 holds at a time.
    pub fn hold(&self) {
        self.put_on();
        self.await_stop();
    }

    /// The first half of [`hold`](Brake::hold), for who has others to wake before the second.
    pub(crate) fn put_on(&self) {
        let put_on = self.update(Ordering::AcqRel, |word| {
            ((word & HOLDS) / HOLD < MOST_HOLDS).then_some(word + HOLD)
        });
        assert!(put_on.is_some(), "a brake has 32,767 holds at most");
    }

    /// The second half: waits until nobody is within a round, or nobody holds any more.
    pub(crate) fn await_stop(&self) {
        loop {
            let word = self.word.load(Ordering::Acquire);
            if word < GOING || word & HOLDS == 0 {
                return;
            }
            self.word.wait(word, None);
        }
    }

    /// Takes one hold back; with the last, all go on. False if there was none.
    pub fn let_go(&self) -> bool {
        let before = self.update(Ordering::Release, |word| {
            (word & HOLDS > 0).then(|| word - HOLD)
        });
        if before.is_some_and(|before| before & HOLDS == HOLD) {
            self.word.wake_all();
        }
        before.is_some()
    }

    /// Lets nobody go on, ever; who stands goes home.
    pub fn end(&self) {
        if self.word.fetch_or(ENDED, Ordering::Release) & ENDED == 0 {
            self.word.wake_all();
        }
    }

    #[cold]
    fn stop(&self) -> bool {
        if self.word.load(Ordering::Acquire) & ENDED == 0 {
            self.stand();
            self.await_release();
        }
        self.word.load(Ordering::Acquire) & ENDED == 0
    }

    /// Goes round no more.
    fn stand(&self) {
        let before = self.word.fetch_sub(GOING, Ordering::Release);
        if before / GOING == 1 && before & HOLDS > 0 {
            self.word.wake_all();
        }
    }

    /// Goes round as soon as nobody holds, or to its end.
    fn await_release(&self) {
        let sets_off = |word: u32| (word & HOLDS == 0 || word & ENDED > 0).then(|| word + GOING);
        while self.update(Ordering::Acquire, sets_off).is_none() {
            let word = self.word.load(Ordering::Relaxed);
            if sets_off(word).is_none() {
                self.word.wait(word, None);
            }
        }
    }

    /// Changes the word as `change` says; what it was, or `None` if it is not to be changed.
    fn update(&self, success: Ordering, change: impl Fn(u32) -> Option<u32>) -> Option<u32> {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let changed =
                self.word
                    .compare_exchange(word, change(word)?, success, Ordering::Relaxed);
            match changed {
                Ok(before) => return Some(before),
                Err(current) => word = current,
            }
        }
    }
}

impl Default for Brake {
    fn default() -> Self {
        Self::new()
    }
}

/// Somebody who goes round; dropping it says that it goes round no more.
#[derive(Debug)]
#[must_use = "who goes round is counted until this is dropped"]
pub struct Going<'a> {
    brake: &'a Brake,
}

impl Drop for Going<'_> {
    fn drop(&mut self) {
        self.brake.stand();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn holds_nest_and_none_too_many_are_taken_back() {
        let brake = Brake::new();
        assert!(!brake.let_go() && !brake.is_on());
        brake.hold();
        brake.hold();
        assert!(brake.let_go() && brake.is_on());
        assert!(brake.let_go() && !brake.is_on() && !brake.let_go());
    }

    #[test]
    fn the_end_prevails_over_holds() {
        let brake = Brake::new();
        brake.hold();
        brake.end();
        let going = brake.set_off();
        assert!(!brake.boundary() && brake.is_on());
        drop(going);
        brake.hold();
        assert!(brake.let_go() && brake.let_go() && brake.is_on());
    }

    #[test]
    #[should_panic(expected = "32,767 holds at most")]
    fn the_count_of_holds_does_not_overflow() {
        let brake = Brake::new();
        (0..=MOST_HOLDS).for_each(|_| brake.hold());
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::Brake;
    use crate::primitives::{Arc, UnsafeCell, thread};

    /// A brake, and what each who goes round has for itself while it does: entered by it within a round, and by others while
    /// all stand. The model checker sees overlaps.
    struct Rounds {
        brake: Brake,
        own: Vec<UnsafeCell<usize>>,
    }

    impl Rounds {
        fn of(count: usize) -> Arc<Rounds> {
            Arc::new(Rounds {
                brake: Brake::new(),
                own: (0..count).map(|_| UnsafeCell::new(0)).collect(),
            })
        }

        fn touch(&self, whose: usize) -> usize {
            self.own[whose].with_mut(|own| {
                // SAFETY: the model is to show that nobody else is there; where somebody is, the checked cell panics.
                unsafe {
                    *own += 1;
                    *own
                }
            })
        }

        fn go(rounds: &Arc<Self>, whose: usize, most: usize) -> thread::JoinHandle<usize> {
            let rounds = Arc::clone(rounds);
            thread::spawn(move || {
                let _going = rounds.brake.set_off();
                let mut made = 0;
                while made < most && rounds.brake.boundary() {
                    rounds.touch(whose);
                    made += 1;
                }
                made
            })
        }

        fn hold_and_touch(&self) {
            self.brake.hold();
            (0..self.own.len()).for_each(|whose| {
                self.touch(whose);
            });
            assert!(self.brake.let_go());
        }
    }

    fn check(preemption_bound: Option<usize>, model: impl Fn() + Sync + Send + 'static) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = preemption_bound;
        builder.check(model);
    }

    #[test]
    fn nobody_is_within_a_round_while_it_is_held() {
        check(Some(2), || {
            let rounds = Rounds::of(2);
            let going = [Rounds::go(&rounds, 0, 1), Rounds::go(&rounds, 1, 1)];
            rounds.hold_and_touch();
            for going in going {
                assert_eq!(going.join().unwrap(), 1);
            }
            assert_eq!((rounds.touch(0), rounds.touch(1)), (3, 3));
        });
    }

    /// Letting go and holding again at once: who has not noticed the first must not set off beside the second.
    #[test]
    fn a_second_hold_waits_for_who_set_off_between() {
        check(None, || {
            let rounds = Rounds::of(1);
            let going = Rounds::go(&rounds, 0, 2);
            rounds.hold_and_touch();
            rounds.hold_and_touch();
            assert_eq!(going.join().unwrap(), 2);
            assert_eq!(rounds.touch(0), 5);
        });
    }

    /// Two holds that overlap exclude rounds, though not each other.
    #[test]
    fn holds_by_two_nest() {
        check(Some(2), || {
            let rounds = Rounds::of(1);
            let going = Rounds::go(&rounds, 0, 1);
            let other = {
                let rounds = Arc::clone(&rounds);
                thread::spawn(move || {
                    rounds.brake.hold();
                    assert!(rounds.brake.let_go());
                })
            };
            rounds.hold_and_touch();
            other.join().unwrap();
            assert_eq!(going.join().unwrap(), 1);
        });
    }

    /// An end while somebody holds sends home who stands; no round follows, and nobody sleeps on.
    #[test]
    fn the_end_races_a_hold() {
        check(Some(2), || {
            let rounds = Rounds::of(1);
            let going = Rounds::go(&rounds, 0, 2);
            let ending = {
                let rounds = Arc::clone(&rounds);
                thread::spawn(move || rounds.brake.end())
            };
            rounds.hold_and_touch();
            ending.join().unwrap();
            assert!(going.join().unwrap() <= 2);
            assert!(!rounds.brake.boundary());
        });
    }
}
