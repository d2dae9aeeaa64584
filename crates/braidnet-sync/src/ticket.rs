//! Numbers that say in which order things were taken.
//!
//! What is taken from one place in order, and then worked on by many, arrives elsewhere in some other order. With a ticket drawn while
//! it is taken it can be put right: as in PLP §4.2: by a [`Rejoin`](crate::rejoin::Rejoin), by a
//! [`Release`](crate::release::Release), or by waiting for one's turn ([`BlockingOrder`](crate::blocking_order::BlockingOrder)).

use crate::primitives::{AtomicU64, Ordering};

/// Draws tickets: 0, 1, 2 and so on. What orders them is whatever keeps the takers apart where the order is made; takers who are not
/// kept apart get different ones, in no particular order.
///
/// ```
/// use braidnet_sync::ticket::Tickets;
/// let tickets = Tickets::default();
/// assert!(tickets.draw() < tickets.draw());
/// ```
#[derive(Debug, Default)]
pub struct Tickets {
    drawn: AtomicU64,
}

impl Tickets {
    /// The next ticket.
    #[inline(always)]
    pub fn draw(&self) -> Ticket {
        // One each nanosecond lasts for five hundred years.
        Ticket(self.drawn.fetch_add(1, Ordering::Relaxed))
    }
}

/// A place in an order. There is one of each, so that it cannot be brought twice.
#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
#[must_use = "those behind a ticket that is not brought wait for it"]
pub struct Ticket(pub(crate) u64);

impl Ticket {
    /// How many were drawn before it.
    pub fn number(&self) -> u64 {
        self.0
    }
}
