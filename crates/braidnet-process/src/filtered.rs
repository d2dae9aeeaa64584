//! A receive queue whose packets a packet filter tells apart: several workers take from it, and each gets its own.
//!
//! Whoever has the baton polls, keeps what it can claim and hands the others' over before it gives the baton back. So every
//! mailbox gets the packets of one queue in their order. A worker's own packets do not pass through its mailbox, so before it
//! polls it takes out what came earlier; where it cannot have all of that, it does not poll.
//!
//! What a full mailbox does not take stays with the queue, and nobody polls before it has been taken. A worker that is held up
//! takes nothing out of its mailbox: so what waits for it is bounded, and the device holds the rest.
//!
//! # Where a worker has guests
//!
//! Its guests take its packets too, and what they take has its place in the order by being taken with the baton in hand. What lies in a
//! mailbox has none. So a worker that is about to admit guests has the queues *keep* what is for it, one after the other, and
//! takes out what is in its mailbox; when that is empty, all that has come for it since lies at the queues, in order, and whoever has the baton and may enter
//! its buckets takes from there before polling. It admits guests then. When it is alone again, each queue leaves in its mailbox what it has
//! kept, and what comes after that.

use crate::exchange::{Mailbox, Owners};
use crate::plan::Classify;
use braidnet_device::Receiver;
use braidnet_message::{Message, Pool, Run, fetch};
use braidnet_stream::{BucketId, Claims};
use braidnet_sync::baton::{Baton, Turn};
use braidnet_sync::parker::Unparker;
use braidnet_sync::ring::mpsc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Packets that are kept for a worker before nobody polls the queue any more until some have been taken: several batches.
const KEPT: usize = 512;

/// A receive queue that several workers take from.
pub(crate) struct Queue {
    sorted: Baton<Sorted>,
    /// Per worker whether the queue keeps something for it. Written with the baton in hand, and read without: who looks too early is
    /// woken.
    keeps: Box<[AtomicBool]>,
    /// What wakes all who look here before they sleep.
    wakers: Box<[Unparker]>,
}

/// What is behind the baton: the queue, and the ways from it to the workers.
struct Sorted {
    receiver: Box<dyn Receiver>,
    /// Per worker.
    mailboxes: Vec<Mailbox<Message>>,
    /// Per worker what its mailbox had no room for, or what is kept for it.
    left: Vec<Vec<Message>>,
    /// Per worker whether what is for it is kept.
    kept: Vec<bool>,
    /// By bucket the worker whose packets these are, here: see [`Queue::give`].
    homes: Vec<u16>,
    /// As they were dealt at the start.
    dealt: Vec<u16>,
    /// The worker whose packets come by this queue, where each has its own.
    own: usize,
    /// How many of the buckets that were dealt to that one are elsewhere.
    strays: usize,
}

impl Queue {
    /// `own` is the worker whose packets come by it, where each has a queue of its own.
    pub(crate) fn new(
        receiver: Box<dyn Receiver>,
        mailboxes: Vec<Mailbox<Message>>,
        sorting: &Sorting,
        own: usize,
    ) -> Queue {
        let workers = mailboxes.len();
        let wakers = (mailboxes.iter().map(|mailbox| mailbox.waker.clone())).collect();
        let homes = sorting.owners.of_packets();
        Queue {
            sorted: Baton::new(Sorted {
                receiver,
                left: mailboxes
                    .iter()
                    .map(|_| Vec::with_capacity(2 * KEPT))
                    .collect(),
                kept: vec![false; workers],
                dealt: homes.clone(),
                homes,
                own,
                strays: 0,
                mailboxes,
            }),
            keeps: (0..workers).map(|_| AtomicBool::new(false)).collect(),
            wakers,
        }
    }

    fn try_take(&self) -> Option<Visit<'_>> {
        let sorted = self.sorted.try_take()?;
        let keeps = &self.keeps;
        Some(Visit { sorted, keeps })
    }

    /// Whether it keeps something for a worker.
    #[inline]
    pub(crate) fn keeps(&self, worker: usize) -> bool {
        self.keeps[worker].load(Ordering::Relaxed)
    }

    /// From now on keeps what is for a worker, or leaves it in its mailbox; false if somebody else is at the queue.
    pub(crate) fn keep(&self, worker: usize, keep: bool) -> bool {
        let Some(mut queue) = self.try_take() else {
            return false;
        };
        queue.sorted.kept[worker] = keep;
        self.keeps[worker].store(false, Ordering::Relaxed);
        queue.hand_over();
        drop(queue);
        self.wake_if_missed();
        true
    }

    /// From now on takes packets of these buckets for those workers', and what is kept of theirs for `from`; false if somebody else is at the
    /// queue, or it has not heard yet that they have come to `from`: it learns of a bucket's moves in their order.
    pub(crate) fn give(&self, from: usize, gifts: &[(BucketId, usize)]) -> bool {
        let Some(mut queue) = self.try_take() else {
            return false;
        };
        let homes = &queue.sorted.homes;
        let is_with = |bucket: BucketId| usize::from(homes[bucket.index()]) == from;
        if !gifts.iter().all(|(bucket, _)| is_with(*bucket)) {
            drop(queue);
            self.wake_if_missed();
            return false;
        }
        let Sorted {
            left,
            homes,
            dealt,
            own,
            strays,
            ..
        } = &mut *queue.sorted;
        for (bucket, to) in gifts {
            if usize::from(dealt[bucket.index()]) == *own {
                *strays = *strays + usize::from(from == *own) - usize::from(to == own);
            }
            homes[bucket.index()] = *to as u16;
        }
        let home = |message: &Message| usize::from(homes[usize::from(message.bucket())]);
        let mut kept = core::mem::take(&mut left[from]);
        for message in kept.extract_if(.., |message| home(message) != from) {
            left[home(&message)].push(message);
        }
        left[from] = kept;
        if left[from].is_empty() {
            self.keeps[from].store(false, Ordering::Relaxed);
        }
        queue.hand_over();
        drop(queue);
        self.wake_if_missed();
        true
    }

    /// After a visit by somebody who need not come again before it sleeps: others may have relied on that.
    pub(crate) fn wake_if_missed(&self) {
        if self.sorted.was_missed() {
            for waker in &self.wakers {
                waker.unpark();
            }
        }
    }

    /// Before sleep: whether it has something for some worker, as far as can be told without a system call. Where somebody else is at the
    /// queue, that one sees to it.
    fn has_waiting(&self) -> bool {
        self.sorted.last_look(|sorted| {
            let Sorted {
                receiver,
                left,
                kept,
                ..
            } = sorted;
            let is_left = |(left, kept): (&Vec<_>, &bool)| !left.is_empty() && !kept;
            receiver.has_waiting() || left.iter().zip(kept).any(is_left)
        })
    }
}

/// Somebody's turn at a queue.
struct Visit<'a> {
    sorted: Turn<'a, Sorted>,
    keeps: &'a [AtomicBool],
}

impl Visit<'_> {
    /// Sees to it that workers get what is for them, as far as there is room; whether all have room for more.
    fn hand_over(&mut self) -> bool {
        let Sorted {
            mailboxes,
            left,
            kept,
            ..
        } = &mut *self.sorted;
        let mut have_room = true;
        for (worker, left) in left.iter_mut().enumerate() {
            if left.is_empty() {
                continue;
            }
            let mailbox = &mut mailboxes[worker];
            if !kept[worker] {
                mailbox.leave(left);
                have_room &= left.is_empty();
                continue;
            }
            have_room &= left.len() < KEPT;
            let keeps = &self.keeps[worker];
            if !keeps.load(Ordering::Relaxed) {
                keeps.store(true, Ordering::Relaxed);
                mailbox.waker.unpark();
            }
        }
        have_room
    }

    /// Appends up to `max` packets that are kept for whom worker `me` may take from; how many.
    fn take_kept(
        &mut self,
        me: usize,
        into: &mut Run,
        max: usize,
        claims: &mut Claims<'_>,
    ) -> usize {
        let Sorted { left, kept, .. } = &mut *self.sorted;
        let mut taken = 0;
        for (worker, left) in left.iter_mut().enumerate() {
            if left.is_empty() || !kept[worker] || (worker != me && !claims.is_guest_of(worker)) {
                continue;
            }
            // Some may be of a bucket that has moved, or has not come yet; the order of the others does not depend on it. A guest leaves what lies
            // behind those, too: the bucket may come at any moment, and what is taken then would overtake them.
            let mut is_open = true;
            let ours = |message: &mut Message| {
                let is_ours = is_open && claim(me, worker, message.bucket(), claims);
                is_open = is_ours || worker == me;
                is_ours
            };
            for message in left.extract_if(.., ours).take(max - taken) {
                into.push(message);
                taken += 1;
            }
            if left.is_empty() {
                self.keeps[worker].store(false, Ordering::Relaxed);
            }
        }
        taken
    }
}

/// Whether worker `me` may keep a packet of a bucket that is at home with another, or itself, as far as the queue knows. It goes by that: whoever is
/// about to get the bucket, and that one's guests, have older packets to wait for.
#[inline]
fn claim(me: usize, home: usize, bucket: u16, claims: &mut Claims<'_>) -> bool {
    if home == me {
        claims.claim(bucket)
    } else {
        claims.claim_away(home, bucket)
    }
}

/// Who tells packets apart, and whose they are at the start.
#[derive(Clone)]
pub(crate) struct Sorting {
    pub(crate) filter: Arc<dyn Classify>,
    pub(crate) owners: Arc<Owners>,
}

/// One worker's part in such a queue.
pub(crate) struct Filtered {
    pub(crate) queue: Arc<Queue>,
    pub(crate) taker: Taker,
}

/// A worker that takes from such queues.
pub(crate) struct Taker {
    pub(crate) me: usize,
    pub(crate) filter: Arc<dyn Classify>,
    /// Its own packets that others have found.
    pub(crate) inbox: mpsc::Consumer<Message>,
    /// How many packets the last visit to a queue found that others have to deal with.
    pub(crate) handed: usize,
    /// How many packets it has found for others that nobody has counted yet: a message of many segments is as many.
    pub(crate) uncounted: u64,
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

    /// Appends packets of the queue as they are, if all that has been dealt to it is still with this worker.
    pub(crate) fn receive_all(
        &mut self,
        pool: &mut Pool,
        into: &mut Run,
        max: usize,
    ) -> Option<usize> {
        let Some(mut queue) = self.queue.try_take() else {
            return Some(0);
        };
        // A guest may have found something for others.
        if !queue.hand_over() {
            return Some(0);
        }
        if queue.sorted.strays > 0 {
            return None;
        }
        Some(queue.sorted.receiver.receive(pool, into, max))
    }

    /// Whether a packet waits, as far as can be told without a system call. Where somebody else is at the queue, that one
    /// looks.
    pub(crate) fn has_waiting(&self) -> bool {
        !self.taker.inbox.is_empty() || self.queue.keeps(self.taker.me) || self.queue.has_waiting()
    }

    /// Whether nothing will ever arrive in the queue again; not known while somebody else is at it.
    pub(crate) fn is_gone(&self) -> bool {
        let queue = self.queue.try_take();
        queue.is_some_and(|queue| queue.sorted.receiver.is_gone())
    }
}

impl Taker {
    /// Appends packets of this worker to `into`, first those that others have found, then of those that wait in the queue,
    /// unless somebody else is at it. How many it dealt with in all, at most `max`: those that it handed to others count.
    pub(crate) fn receive(
        &mut self,
        queue: &Queue,
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
        queue: &Queue,
        pool: &mut Pool,
        into: &mut Run,
        max: usize,
        claims: &mut Claims<'_>,
    ) -> Polled {
        let Some(mut queue) = queue.try_take() else {
            return Polled::default();
        };
        let have_room = queue.hand_over();
        let (mut found, all) = self.take_earlier(into, max);
        if !all {
            return Polled { found, polled: 0 };
        }
        found += queue.take_kept(self.me, into, max - found, claims);
        let max = max - found;
        if max == 0 || !have_room {
            return Polled { found, polled: 0 };
        }
        let sorted = &mut *queue.sorted;
        let polled = sorted.receiver.receive(pool, &mut self.unsorted, max);
        self.filter.classify(&mut self.unsorted);
        // The bucket that the packet before went to, if that is this worker's own: what comes behind it goes there, too.
        let mut own = None;
        for message in self.unsorted.drain() {
            let bucket = message.bucket();
            if own == Some(bucket) {
                into.push(message);
                continue;
            }
            let home = usize::from(sorted.homes[usize::from(bucket)]);
            // What is kept and could not be taken may be of the same bucket, which is coming just now.
            let has_older = sorted.kept[home] && !sorted.left[home].is_empty();
            let is_ours = !has_older && claim(self.me, home, bucket, claims);
            own = (is_ours && home == self.me).then_some(bucket);
            if is_ours {
                into.push(message);
            } else {
                self.handed += 1;
                self.uncounted += message.segments() as u64;
                sorted.left[home].push(message);
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

    /// Takes what others polled before, which came earlier, and had its place in the mailbox when the baton came to us; how much, and whether
    /// that is all. Who has the place in front of it, from another queue, may still be filling that: it will wake us.
    fn take_earlier(&mut self, into: &mut Run, max: usize) -> (usize, bool) {
        let earlier = self.inbox.reserved();
        let found = take_out(&mut self.inbox, into, earlier.min(max));
        (found, found == earlier)
    }

    /// Appends up to `max` packets that a queue keeps for this worker; how many.
    pub(crate) fn collect(
        &mut self,
        queue: &Queue,
        into: &mut Run,
        max: usize,
        claims: &mut Claims<'_>,
    ) -> usize {
        let Some(mut queue) = queue.try_take() else {
            return 0;
        };
        let (mut found, all) = self.take_earlier(into, max);
        if all {
            found += queue.take_kept(self.me, into, max - found, claims);
        }
        found
    }

    /// Whether nothing is in the mailbox, or about to be put there.
    pub(crate) fn has_taken_all(&self) -> bool {
        self.inbox.reserved() == 0
    }
}

/// What one visit to the queue has brought.
#[derive(Default)]
struct Polled {
    /// Packets that others had found before, wherever they have lain.
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

#[cfg(test)]
mod tests;
