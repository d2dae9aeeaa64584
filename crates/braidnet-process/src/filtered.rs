//! A receive queue whose packets a packet filter tells apart: several workers take from it, and each gets its own.
//!
//! Whoever has the baton polls, keeps what it can claim and hands the others' over before it gives the baton back. So every
//! mailbox gets the packets of one queue in their order. A worker's own packets do not pass through its mailbox, so before it
//! polls it takes out what came earlier; where it cannot have all of that, it does not poll.
//!
//! What a full mailbox does not take stays with the queue, and nobody polls before it has been taken. A worker that is held up
//! takes nothing out of its mailbox: so what waits for it is bounded, and the device holds the rest.

use crate::exchange::{Mailbox, Owners};
use crate::plan::Classify;
use braidnet_device::Receiver;
use braidnet_message::{Message, Pool, Run, fetch};
use braidnet_stream::{Claims, Cluster};
use braidnet_sync::baton::Baton;
use braidnet_sync::parker::Unparker;
use braidnet_sync::ring::mpsc;
use std::sync::Arc;

/// The queue, and the ways from it to the workers.
pub(crate) struct Sorted {
    receiver: Box<dyn Receiver>,
    /// Per worker.
    mailboxes: Vec<Mailbox<Message>>,
    /// Per worker what its mailbox had no room for.
    left: Vec<Vec<Message>>,
}

impl Sorted {
    pub(crate) fn new(receiver: Box<dyn Receiver>, mailboxes: Vec<Mailbox<Message>>) -> Sorted {
        Sorted {
            receiver,
            left: mailboxes.iter().map(|_| Vec::with_capacity(64)).collect(),
            mailboxes,
        }
    }

    /// Puts packets into the mailboxes of those whom they are for, as many as there is room for; whether all have gone.
    fn hand_over(&mut self) -> bool {
        let mut gone = true;
        for (left, mailbox) in self.left.iter_mut().zip(&mut self.mailboxes) {
            if !left.is_empty() {
                mailbox.leave(left);
                gone &= left.is_empty();
            }
        }
        gone
    }

    /// Whether it has something for some worker, as far as can be told without a system call.
    fn has_waiting(&self) -> bool {
        self.receiver.has_waiting() || self.left.iter().any(|left| !left.is_empty())
    }
}

/// Who tells packets apart, and whose they are.
#[derive(Clone)]
pub(crate) struct Sorting {
    pub(crate) filter: Arc<dyn Classify>,
    pub(crate) owners: Arc<Owners>,
}

/// One worker's part in such a queue.
pub(crate) struct Filtered {
    pub(crate) queue: Arc<Baton<Sorted>>,
    pub(crate) taker: Taker,
}

/// A worker that takes from such queues.
pub(crate) struct Taker {
    pub(crate) me: usize,
    pub(crate) sorting: Sorting,
    /// Its own packets that others have found.
    pub(crate) inbox: mpsc::Consumer<Message>,
    /// How many packets the last visit to a queue found that others have to deal with.
    pub(crate) handed: usize,
    /// What has been polled. Empty between turns, kept for its memory.
    pub(crate) unsorted: Run,
    /// Wakes another of those that share the queue; nobody, if it is one worker's own.
    pub(crate) fellow: Option<Unparker>,
}

impl Filtered {
    /// See [`Taker::receive`].
    pub(crate) fn receive(
        &mut self,
        pool: &mut Pool,
        into: &mut Run,
        max: usize,
        claims: &mut Claims<'_>,
    ) -> usize {
        self.taker.receive(&self.queue, pool, into, max, claims)
    }

    /// Appends packets of the queue as they are, where all that can come there is this worker's.
    pub(crate) fn receive_all(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let Some(mut queue) = self.queue.try_take() else {
            return 0;
        };
        // A guest may have found something for others.
        if !queue.hand_over() {
            return 0;
        }
        queue.receiver.receive(pool, into, max)
    }

    /// Whether a packet waits, as far as can be told without a system call. Where somebody else is at the queue, that one
    /// looks.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.taker.inbox.is_empty()
            || self
                .queue
                .try_take()
                .is_some_and(|queue| queue.has_waiting())
    }

    /// If nobody else is at the queue, lets guests in, and moves to `early` all that others have found there for this worker, claimed:
    /// so it has its place in front of whatever is taken from the queue from then on.
    pub(crate) fn admit(&mut self, early: &mut Run, cluster: &mut Cluster) -> bool {
        let Some(mut queue) = self.queue.try_take() else {
            return false;
        };
        if let Some(mut neighbours) = cluster.buckets().neighbours() {
            neighbours.admit();
        }
        while let Some(message) = self.taker.inbox.pop() {
            early.push(message);
        }
        early.extend(queue.left[self.taker.me].drain(..));
        let mut claims = cluster.claims();
        for message in early.iter_mut() {
            claims.claim(message.bucket());
        }
        true
    }

    /// Whether nothing will ever arrive in the queue again; not known while somebody else is at it.
    pub(crate) fn is_gone(&self) -> bool {
        self.queue
            .try_take()
            .is_some_and(|queue| queue.receiver.is_gone())
    }
}

impl Taker {
    /// Appends packets of this worker to `into`, first those that others have found, then of those that wait in the queue,
    /// unless somebody else is at it. How many it dealt with in all, at most `max`: those that it handed to others count.
    pub(crate) fn receive(
        &mut self,
        queue: &Baton<Sorted>,
        pool: &mut Pool,
        into: &mut Run,
        max: usize,
        claims: &mut Claims<'_>,
    ) -> usize {
        let before = into.len();
        self.handed = 0;
        let found = take_out(&mut self.inbox, into, max);
        // Who has enough to do already leaves the queue to others.
        let polled = if found < max {
            self.poll(queue, pool, into, max - found, claims)
        } else {
            Polled::default()
        };
        // In front of what was polled here, which is near.
        let found = found + polled.found;
        fetch(&into.as_slice()[before..before + found]);
        found + polled.polled
    }

    fn poll(
        &mut self,
        queue: &Baton<Sorted>,
        pool: &mut Pool,
        into: &mut Run,
        max: usize,
        claims: &mut Claims<'_>,
    ) -> Polled {
        let Some(mut queue) = queue.try_take() else {
            return Polled::default();
        };
        if !queue.hand_over() {
            return Polled::default();
        }
        // What others polled before came earlier, and had its place in the mailbox when the baton came to us. Who has
        // the place in front of it, from another queue, may still be filling that: it will wake us.
        let earlier = self.inbox.reserved();
        let found = take_out(&mut self.inbox, into, earlier.min(max));
        let max = max - found;
        if found < earlier || max == 0 {
            return Polled { found, polled: 0 };
        }
        let polled = queue.receiver.receive(pool, &mut self.unsorted, max);
        self.sorting.filter.classify(&mut self.unsorted);
        for message in self.unsorted.drain() {
            let bucket = message.bucket();
            if claims.claim(bucket) {
                into.push(message);
            } else {
                self.handed += 1;
                queue.left[self.sorting.owners.lower_of(bucket)].push(message);
            }
        }
        queue.hand_over();
        drop(queue);
        if polled == max {
            // There may be more.
            self.fellow.iter().for_each(|fellow| {
                fellow.unpark();
            });
        }
        Polled { found, polled }
    }
}

/// What one visit to the queue has brought.
#[derive(Default)]
struct Polled {
    /// Packets that others had found before.
    found: usize,
    /// Packets out of the queue, no matter whose.
    polled: usize,
}

/// Moves up to `max` messages to the end of `run`; how many.
fn take_out(inbox: &mut mpsc::Consumer<Message>, run: &mut Run, max: usize) -> usize {
    let mut taken = 0;
    while taken < max
        && let Some(message) = inbox.pop()
    {
        run.push(message);
        taken += 1;
    }
    taken
}
