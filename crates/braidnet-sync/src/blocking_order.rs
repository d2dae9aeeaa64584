//! Waiting for one's ticket to be called.
//!
//! The order of PLP §4.2 as the paper ran it: a thread that needs order waits at that point until all tickets before its own have been
//! through. It is here to be measured against a [`Release`](crate::release::Release), where nobody waits: a thread that is preempted before its turn has all
//! those behind it asleep.
//!
//! # The protocol
//!
//! One word for each of a power of two of places; ticket `t` waits at place `t` modulo that, for the lap `t` over that, plus one, counted
//! in 31 bits. The last bit says that somebody may sleep there.
//!
//! - *Wait*: look whether the lap is one's own (acquire), for a while; then set the bit, by compare-and-swap, and sleep for as
//!   long as the word stays so. Where more threads wait than there are places, one may wake another's sleeper, who looks and sleeps again.
//! - *Call*: swap in the next ticket's lap at its place (release); if the bit was set, wake all who sleep there.
//!
//! A lap is called by the bearer of the ticket before, after its own turn, so turns follow one another, each seeing the last
//! one's writes. The kernel compares the word when it puts a thread to sleep, so a call cannot fall between the look and the sleep.

use core::fmt;

use crossbeam_utils::CachePadded;

use crate::primitives::{Futex, Ordering};
use crate::spin::Spin;
use crate::ticket::Ticket;

/// The last bit of a place's word.
const SLEEPS: u32 = 1;

/// Looks before a thread goes to sleep; some microseconds.
const LOOKS: u32 = if crate::primitives::IS_MODEL {
    0
} else {
    1_000
};

/// Lets threads through one by one, in the order of their tickets, which count from 0. Each ticket has to come: those behind it
/// wait for it.
///
/// ```
/// use braidnet_sync::{blocking_order::BlockingOrder, ticket::Tickets};
/// let (tickets, order) = (Tickets::default(), BlockingOrder::new(4));
/// let (first, second) = (tickets.draw(), tickets.draw());
/// std::thread::scope(|scope| {
///     scope.spawn(|| order.pass(second, || println!("second")));
///     order.pass(first, || println!("first"));
/// });
/// ```
pub struct BlockingOrder {
    places: Box<[CachePadded<Futex>]>,
}

impl BlockingOrder {
    /// An order in which up to so many threads wait each at a place of its own.
    pub fn new(places: usize) -> Self {
        let places = places.max(1).next_power_of_two();
        BlockingOrder {
            places: (0..places)
                .map(|place| CachePadded::new(Futex::new(if place == 0 { 1 << 1 } else { 0 })))
                .collect(),
        }
    }

    /// Waits until all tickets before this one have been through, does `turn`, and calls the next ticket, after a panic too.
    pub fn pass<R>(&self, ticket: Ticket, turn: impl FnOnce() -> R) -> R {
        self.wait(&ticket);
        let _next = Call {
            order: self,
            ticket: ticket.0 + 1,
        };
        turn()
    }

    fn wait(&self, ticket: &Ticket) {
        let (place, called) = self.place(ticket.0);
        let mut spin = Spin::at_most(LOOKS);
        loop {
            let word = place.load(Ordering::Acquire);
            if word & !SLEEPS == called {
                return;
            }
            if spin.again() {
                continue;
            }
            let sleeps = word | SLEEPS;
            if word == sleeps
                || place
                    .compare_exchange(word, sleeps, Ordering::Relaxed, Ordering::Relaxed)
                    .is_ok()
            {
                place.wait(sleeps, None);
            }
        }
    }

    fn call(&self, ticket: u64) {
        let (place, called) = self.place(ticket);
        if place.swap(called, Ordering::Release) & SLEEPS != 0 {
            place.wake_all();
        }
    }

    /// Where a ticket waits, and what the word there says when it is called, but for the last bit.
    fn place(&self, ticket: u64) -> (&Futex, u32) {
        let places = self.places.len() as u64;
        let lap = (ticket / places).wrapping_add(1) as u32;
        (&self.places[(ticket % places) as usize], lap << 1)
    }
}

impl fmt::Debug for BlockingOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BlockingOrder")
            .field("places", &self.places.len())
            .finish_non_exhaustive()
    }
}

/// Calls a ticket when it is dropped.
struct Call<'a> {
    order: &'a BlockingOrder,
    ticket: u64,
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.order.call(self.ticket);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn threads_go_through_in_the_order_of_their_tickets() {
        const TICKETS: u64 = if cfg!(miri) { 40 } else { 4_000 };
        for places in [1, 2, 8] {
            let order = BlockingOrder::new(places);
            let tickets = Mutex::new(crate::ticket::Tickets::default());
            let through = Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        loop {
                            let ticket = tickets.lock().unwrap().draw();
                            let number = ticket.number();
                            // Whoever waits is waited for only by later ones, who are through when it is.
                            if number >= TICKETS {
                                break;
                            }
                            // Nobody else is here.
                            order.pass(ticket, || through.try_lock().unwrap().push(number));
                        }
                    });
                }
            });
            assert!(through.into_inner().unwrap().into_iter().eq(0..TICKETS));
        }
    }

    #[test]
    fn a_panic_calls_the_next() {
        let order = BlockingOrder::new(1);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            order.pass(Ticket(0), || panic!("planted"))
        }));
        assert!(outcome.is_err());
        assert_eq!(order.pass(Ticket(1), || 7), 7);
    }

    #[test]
    fn laps_may_wrap() {
        let order = BlockingOrder::new(2);
        let last = Ticket((u64::from(u32::MAX) << 1) | 1);
        order.call(last.0);
        order.pass(last, || ());
        order.pass(Ticket(1 << 33), || ());
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::BlockingOrder;
    use crate::primitives::{Arc, UnsafeCell, thread};
    use crate::ticket::Ticket;

    struct Shared {
        order: BlockingOrder,
        through: UnsafeCell<Vec<u64>>,
    }

    // SAFETY: `through` is touched in one's turn only; that this suffices is what the model checks.
    unsafe impl Sync for Shared {}

    /// Each thread goes through with its tickets.
    fn passes(places: usize, bearers: &'static [&'static [u64]]) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(if bearers.len() > 2 { 2 } else { 4 });
        builder.check(move || {
            let shared = Arc::new(Shared {
                order: BlockingOrder::new(places),
                through: UnsafeCell::new(Vec::new()),
            });
            let pass = move |shared: &Shared, bearer: usize| {
                for &ticket in bearers[bearer] {
                    shared.order.pass(Ticket(ticket), || {
                        shared.through.with_mut(|through| {
                            // SAFETY: it is this thread's turn.
                            unsafe { &mut *through }.push(ticket);
                        });
                    });
                }
            };
            let others: Vec<_> = (1..bearers.len())
                .map(|bearer| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || pass(&shared, bearer))
                })
                .collect();
            pass(&shared, 0);
            for other in others {
                other.join().unwrap();
            }
            let all = bearers.iter().map(|tickets| tickets.len() as u64).sum();
            shared.through.with_mut(|through| {
                // SAFETY: all others are done.
                assert!(unsafe { &*through }.iter().copied().eq(0..all));
            });
        });
    }

    #[test]
    fn two_take_turns() {
        passes(2, &[&[0, 2], &[1, 3]]);
    }

    #[test]
    fn three_share_a_place() {
        passes(1, &[&[2], &[1], &[0]]);
    }
}
