//! What comes in any order goes on in the order of its tickets, behind a lock or in one's own hands.
//!
//! A [`Rejoin`] lies inside whatever keeps threads apart, so it has no atomics. Who brings something whose turn it is sees it go on
//! at once, and after it what waited for it; what comes early waits in a place.
//!
//! A ticket that stays away would hold up those behind it for as long as its bearer is preempted. Where order is a courtesy, the
//! missing ones are *passed over*, when there is no place left ([`arrive`](Rejoin::arrive)) or what waits has
//! waited for long enough ([`pass_over`](Rejoin::pass_over)); what comes after it was passed over is *late*, and goes on at once. Where order is a
//! promise, neither is called: then what finds no place is given back ([`try_arrive`](Rejoin::try_arrive)), and how many can be under way is
//! for the caller to bound. Either way everything goes on exactly once, since there is one [`Ticket`] of each number.

use core::fmt;

use crate::ticket::Ticket;

/// Puts items back into the order of their tickets, which count from 0.
///
/// `N` is a time, of which the rejoin knows only what comes first; `()` where nothing is passed over.
///
/// ```
/// use braidnet_sync::{rejoin::{Arrival, Rejoin}, ticket::Tickets};
/// let (tickets, mut rejoin) = (Tickets::default(), Rejoin::new(4));
/// let (first, second) = (tickets.draw(), tickets.draw());
/// let mut order = Vec::new();
/// assert_eq!(rejoin.arrive(second, "second", 30, |item| order.push(item)), Arrival::Waits);
/// assert_eq!(rejoin.deadline(), Some(30));
/// assert_eq!(rejoin.arrive(first, "first", 35, |item| order.push(item)), Arrival::InTurn);
/// assert_eq!(order, ["first", "second"]);
/// ```
pub struct Rejoin<T, N = u64> {
    /// The ticket whose turn it is.
    next: u64,
    /// How many wait.
    waiting: usize,
    /// The earliest time until which one of them does; earlier if a panic has ended a release.
    deadline: Option<N>,
    /// Since it was last asked for.
    disorder: Disorder,
    /// A power of two of them. What has the ticket `t` waits at `t` modulo that, while `t` is ahead of `next` by less than that.
    places: Box<[Option<Waiting<T, N>>]>,
}

struct Waiting<T, N> {
    /// Nothing, if there is nothing to go on with this ticket.
    item: Option<T>,
    until: N,
}

/// What became of something that was brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Arrival {
    /// It was its turn, or became it when others were passed over: it went on, and after it what waited for it.
    InTurn,
    /// It waits for its turn.
    Waits,
    /// It came after it had been passed over: it went on, behind what it belonged before.
    Late,
}

/// What did not go on in the order of its tickets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Disorder {
    /// How many tickets have been passed over.
    pub passed_over: u64,
    /// How many of those came later.
    pub late: u64,
}

/// There was no place.
#[derive(PartialEq, Eq, Debug, thiserror::Error)]
#[error("ticket {} is too far ahead of those that are missing", ticket.number())]
pub struct NoPlace<T> {
    /// The ticket, to be brought again when others have gone on.
    pub ticket: Ticket,
    /// What was brought with it.
    pub item: T,
}

impl<T, N: Copy + Ord> Rejoin<T, N> {
    /// A rejoin with at least so many places, at least one.
    pub fn new(places: usize) -> Self {
        Rejoin {
            next: 0,
            waiting: 0,
            deadline: None,
            disorder: Disorder::default(),
            places: (0..places.max(1).next_power_of_two())
                .map(|_| None)
                .collect(),
        }
    }

    /// Brings an item. If it has to wait it does so `until` somebody calls [`pass_over`](Self::pass_over) with that time or a later one, or there is
    /// no place for what comes: then the first tickets that are missing are passed over.
    ///
    /// # Panics
    ///
    /// If something with this number waits already, so that one of them must be of another order.
    #[inline]
    pub fn arrive(&mut self, ticket: Ticket, item: T, until: N, release: impl FnMut(T)) -> Arrival {
        self.bring(ticket, Some(item), until, release)
    }

    /// Brings a ticket with which nothing goes on. What waited for it does.
    #[inline]
    pub fn skip(&mut self, ticket: Ticket, until: N, release: impl FnMut(T)) -> Arrival {
        self.bring(ticket, None, until, release)
    }

    /// Brings an item, if there is a place for it or it needs none. Passes nothing over.
    ///
    /// # Errors
    ///
    /// Gives ticket and item back if the ticket is ahead of the one whose turn it is by as many as there are places, or more.
    #[inline]
    pub fn try_arrive(
        &mut self,
        ticket: Ticket,
        item: T,
        until: N,
        release: impl FnMut(T),
    ) -> Result<Arrival, NoPlace<T>> {
        if ticket.0.saturating_sub(self.next) >= self.places() {
            return Err(NoPlace { ticket, item });
        }
        Ok(self.arrive(ticket, item, until, release))
    }

    /// Passes over what is missing in front of whatever has waited until `now` or an earlier time, which goes on with all in front
    /// of it and all that waited for it. Answers how many tickets were passed over.
    pub fn pass_over(&mut self, now: N, mut release: impl FnMut(T)) -> u64 {
        let before = self.disorder.passed_over;
        while self.deadline().is_some_and(|deadline| deadline <= now) {
            self.pass_over_first(&mut release);
        }
        self.disorder.passed_over - before
    }

    /// The time at which [`pass_over`](Self::pass_over) is due, if anything waits.
    #[inline]
    pub fn deadline(&self) -> Option<N> {
        if self.waiting == 0 {
            return None;
        }
        self.deadline
    }

    /// What has been passed over and what came late since this was last called; none if nothing.
    #[inline]
    pub fn take_disorder(&mut self) -> Option<Disorder> {
        if self.disorder.passed_over | self.disorder.late == 0 {
            return None;
        }
        Some(core::mem::take(&mut self.disorder))
    }

    #[inline]
    fn bring(
        &mut self,
        ticket: Ticket,
        item: Option<T>,
        until: N,
        mut release: impl FnMut(T),
    ) -> Arrival {
        if ticket.0 != self.next {
            return self.bring_out_of_turn(ticket, item, until, release);
        }
        // Whatever `release` does, the ticket is spent.
        self.next += 1;
        if let Some(item) = item {
            release(item);
        }
        if self.waiting > 0 {
            self.release_ready(&mut release);
        }
        Arrival::InTurn
    }

    #[cold]
    fn bring_out_of_turn(
        &mut self,
        ticket: Ticket,
        item: Option<T>,
        until: N,
        mut release: impl FnMut(T),
    ) -> Arrival {
        if ticket.0 < self.next {
            self.disorder.late += 1;
            if let Some(item) = item {
                release(item);
            }
            return Arrival::Late;
        }
        while ticket.0 - self.next >= self.places() {
            if self.waiting > 0 {
                self.pass_over_first(&mut release);
            } else {
                // Nobody waits behind these.
                let next = ticket.0 - self.places() + 1;
                self.disorder.passed_over += next - self.next;
                self.next = next;
            }
        }
        let place = self.place(ticket.0);
        self.deadline = Some(self.deadline().map_or(until, |other| other.min(until)));
        assert!(
            self.places[place].is_none(),
            "ticket {} has been brought before",
            ticket.0
        );
        self.places[place] = Some(Waiting { item, until });
        self.waiting += 1;
        // It may have become its turn, by what was passed over.
        self.release_ready(&mut release);
        if ticket.0 < self.next {
            Arrival::InTurn
        } else {
            Arrival::Waits
        }
    }

    /// Passes over the first missing tickets, and releases what comes next and all that waited for it. Something waits.
    fn pass_over_first(&mut self, release: &mut impl FnMut(T)) {
        while self.places[self.place(self.next)].is_none() {
            self.next += 1;
            self.disorder.passed_over += 1;
        }
        self.release_ready(release);
    }

    /// Releases what is there until the first that is missing.
    fn release_ready(&mut self, release: &mut impl FnMut(T)) {
        let first = self.next;
        while let Some(waiting) = self.take_next() {
            if let Some(item) = waiting.item {
                release(item);
            }
        }
        if self.next != first {
            let places = self.places.iter().flatten();
            self.deadline = places.map(|waiting| waiting.until).min();
        }
    }

    fn take_next(&mut self) -> Option<Waiting<T, N>> {
        let place = self.place(self.next);
        let waiting = self.places[place].take()?;
        self.waiting -= 1;
        self.next += 1;
        Some(waiting)
    }

    #[inline(always)]
    fn places(&self) -> u64 {
        self.places.len() as u64
    }

    #[inline(always)]
    fn place(&self, ticket: u64) -> usize {
        (ticket & (self.places() - 1)) as usize
    }
}

impl<T, N> fmt::Debug for Rejoin<T, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rejoin")
            .field("next", &self.next)
            .field("waiting", &self.waiting)
            .field("passed_over", &self.disorder.passed_over)
            .field("late", &self.disorder.late)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use proptest::prelude::*;

    use super::*;

    /// Brings an item that is called as its ticket.
    fn arrive(rejoin: &mut Rejoin<u64>, ticket: u64, until: u64, order: &mut Vec<u64>) -> Arrival {
        rejoin.arrive(Ticket(ticket), ticket, until, |item| order.push(item))
    }

    #[test]
    fn what_is_missing_is_passed_over_where_places_are_short() {
        use Arrival::{InTurn, Late, Waits};
        let (mut rejoin, mut order) = (Rejoin::new(4), Vec::new());
        for (ticket, arrival, went_on, passed_over) in [
            (0, InTurn, &[0][..], 0),
            (2, Waits, &[], 0),
            (4, Waits, &[], 0),
            // 1 is passed over, so that there is a place; 3 is not.
            (5, Waits, &[2], 1),
            (1, Late, &[1], 1),
            (3, InTurn, &[3, 4, 5], 1),
            // Nothing waits: only as many are passed over as must be.
            (10, Waits, &[], 2),
            (6, Late, &[6], 2),
            (7, InTurn, &[7], 2),
            // 8 and 9 are passed over, and 11.
            (15, Waits, &[10], 5),
            (12, InTurn, &[12], 5),
        ] {
            order.clear();
            assert_eq!(
                arrive(&mut rejoin, ticket, 9, &mut order),
                arrival,
                "{ticket}"
            );
            assert_eq!(
                (&order[..], rejoin.disorder.passed_over),
                (went_on, passed_over)
            );
        }
        let disorder = Disorder {
            passed_over: rejoin.disorder.passed_over,
            late: 2,
        };
        assert_eq!(rejoin.take_disorder(), Some(disorder));
        assert_eq!(rejoin.take_disorder(), None);
        let mut single = Rejoin::new(0);
        assert_eq!(arrive(&mut single, 3, 9, &mut order), InTurn);
        assert_eq!((single.disorder.passed_over, single.deadline()), (3, None));
    }

    #[test]
    fn what_has_waited_until_now_goes_on_with_what_is_in_front_of_it() {
        let (mut rejoin, mut order) = (Rejoin::new(8), Vec::new());
        assert_eq!(rejoin.deadline(), None);
        for (ticket, until) in [(1, 30), (3, 20), (4, 50), (6, 40)] {
            arrive(&mut rejoin, ticket, until, &mut order);
        }
        assert_eq!(rejoin.deadline(), Some(20));
        assert_eq!(rejoin.pass_over(19, |_| panic!("not due")), 0);
        assert_eq!(rejoin.pass_over(20, |item| order.push(item)), 2);
        assert_eq!((&order[..], rejoin.deadline()), (&[1, 3, 4][..], Some(40)));
        assert_eq!(rejoin.pass_over(u64::MAX, |item| order.push(item)), 1);
        assert_eq!((&order[..], rejoin.deadline()), (&[1, 3, 4, 6][..], None));
        assert_eq!(rejoin.pass_over(u64::MAX, |_| panic!("nothing waits")), 0);
    }

    #[test]
    fn a_skipped_ticket_holds_up_nothing() {
        let (mut rejoin, mut order) = (Rejoin::new(4), Vec::new());
        arrive(&mut rejoin, 2, 9, &mut order);
        let skipped = rejoin.skip(Ticket(1), 9, |_| panic!("0 is missing"));
        assert_eq!(skipped, Arrival::Waits);
        let skipped = rejoin.skip(Ticket(0), 9, |item| order.push(item));
        assert_eq!((skipped, &order[..]), (Arrival::InTurn, &[2][..]));
    }

    #[test]
    fn a_panic_in_release_takes_one_item_with_it() {
        let (mut rejoin, mut order) = (Rejoin::new(4), Vec::new());
        for ticket in [1, 2, 3] {
            arrive(&mut rejoin, ticket, 9, &mut order);
        }
        for (ticket, panics) in [(0, 0), (4, 1)] {
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                rejoin.arrive(Ticket(ticket), ticket, 9, |item| {
                    assert_ne!(item, panics, "planted");
                })
            }));
            assert!(outcome.is_err());
        }
        assert_eq!(arrive(&mut rejoin, 5, 9, &mut order), Arrival::InTurn);
        assert_eq!((&order[..], rejoin.deadline()), (&[2, 3, 4, 5][..], None));
        // All that waited is released, and the last one panics.
        arrive(&mut rejoin, 7, 9, &mut order);
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            rejoin.pass_over(9, |_| panic!("planted"))
        }));
        assert!(outcome.is_err() && rejoin.deadline().is_none());
        assert_eq!(rejoin.pass_over(9, |_| panic!("nothing waits")), 0);
    }

    proptest! {
        #[test]
        fn any_order_that_fits_is_put_right(keys in prop::collection::vec(any::<u8>(), 1..64)) {
            // The tickets in the order of their keys.
            let mut tickets: Vec<u64> = (0..keys.len() as u64).collect();
            tickets.sort_by_key(|&ticket| keys[ticket as usize]);
            let mut rejoin = Rejoin::new(tickets.len());
            let mut order = Vec::new();
            for &ticket in &tickets {
                let arrival = rejoin.try_arrive(Ticket(ticket), ticket, (), |item| order.push(item));
                prop_assert!(matches!(arrival, Ok(Arrival::InTurn | Arrival::Waits)));
            }
            prop_assert!(order.into_iter().eq(0..keys.len() as u64));
            prop_assert_eq!(rejoin.disorder.passed_over, 0);
            prop_assert!(rejoin.deadline().is_none());
        }

        #[test]
        fn what_finds_no_place_is_given_back(
            keys in prop::collection::vec(any::<u8>(), 1..64),
            places in 1..16_usize,
        ) {
            let mut rest: Vec<(Ticket, u64)> = (0..keys.len() as u64).map(|ticket| (Ticket(ticket), ticket)).collect();
            rest.sort_by_key(|&(_, ticket)| keys[ticket as usize]);
            let (mut rejoin, mut order) = (Rejoin::new(places), Vec::new());
            let limit = places.next_power_of_two() as u64;
            while !rest.is_empty() {
                for (ticket, item) in std::mem::take(&mut rest) {
                    let fits = item < order.len() as u64 + limit;
                    match rejoin.try_arrive(ticket, item, (), |item| order.push(item)) {
                        Ok(_) => prop_assert!(fits),
                        Err(NoPlace { ticket, item }) => {
                            prop_assert!(!fits);
                            rest.push((ticket, item));
                        }
                    }
                }
            }
            prop_assert!(order.into_iter().eq(0..keys.len() as u64));
        }

        #[test]
        fn whatever_is_passed_over_all_goes_on_once(
            keys in prop::collection::vec(any::<u8>(), 1..64),
            skipped in any::<u64>(),
            places in 1..16_usize,
            turns in prop::collection::vec(prop::option::of(0..40_u64), 64),
        ) {
            let mut tickets: Vec<u64> = (0..keys.len() as u64).collect();
            tickets.sort_by_key(|&ticket| keys[ticket as usize]);
            let skipped = |ticket: u64| skipped >> ticket & 1 == 1;
            let mut rejoin = Rejoin::new(places);
            let (mut in_turn, mut late) = (Vec::new(), Vec::new());
            for (now, &ticket) in (0..).zip(&tickets) {
                let until = now + 10;
                let mut order = Vec::new();
                let arrival = if skipped(ticket) {
                    rejoin.skip(Ticket(ticket), until, |item| order.push(item))
                } else {
                    arrive(&mut rejoin, ticket, until, &mut order)
                };
                if arrival == Arrival::Late {
                    late.append(&mut order);
                }
                in_turn.append(&mut order);
                if let Some(later) = turns[now as usize] {
                    rejoin.pass_over(now + later, |item| in_turn.push(item));
                    prop_assert!(rejoin.deadline().is_none_or(|deadline| deadline > now + later));
                }
            }
            rejoin.pass_over(u64::MAX, |item| in_turn.push(item));
            prop_assert!(rejoin.deadline().is_none());
            prop_assert!(in_turn.is_sorted());
            prop_assert!(late.len() as u64 <= rejoin.disorder.late && rejoin.disorder.late <= rejoin.disorder.passed_over);
            let mut all = in_turn;
            all.append(&mut late);
            all.sort_unstable();
            prop_assert!(all.into_iter().eq((0..keys.len() as u64).filter(|&ticket| !skipped(ticket))));
        }
    }
}
