//! Numbers that say in which order things were taken.
//!
//! What is taken from one place in order, and then worked on by many, arrives elsewhere in some other order. With a ticket drawn while
//! it is taken it can be put right, as in PLP §4.2: by a [`Rejoin`](crate::rejoin::Rejoin), by a
//! [`Release`](crate::release::Release), or by waiting for one's turn ([`BlockingOrder`](crate::blocking_order::BlockingOrder)).

/// Draws tickets: 0, 1, 2 and so on. It stands where the order is made, behind whatever keeps the takers apart there.
///
/// ```
/// use braidnet_sync::ticket::Tickets;
/// let mut tickets = Tickets::default();
/// assert!(tickets.draw() < tickets.draw());
/// ```
#[derive(Debug, Default)]
pub struct Tickets {
    drawn: u64,
}

impl Tickets {
    /// The next ticket.
    #[inline(always)]
    pub fn draw(&mut self) -> Ticket {
        let ticket = Ticket(self.drawn);
        // A ticket each nanosecond for five hundred years.
        self.drawn += 1;
        ticket
    }

    /// How many have been drawn.
    pub fn drawn(&self) -> u64 {
        self.drawn
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
