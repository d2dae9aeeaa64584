//! A ring from many producers to one consumer.
//!
//! # The protocol
//!
//! `tail` counts slots ever reserved, `head` items ever popped; both wrap. Each slot carries a *stamp*: the position
//! of the item in it, plus one (mod the word), once that item is written. Positions are reserved in runs, and items
//! leave in the order of their positions, so each producer's items, and each run, stay in order and together.
//!
//! - *Reserve*: from `tail` and a value of `head`, find the room; compare-and-swap `tail` ahead by at most that.
//!   The swap needs no order of its own: it gives a producer positions, and what makes their slots safe to write is that the
//!   consumer has moved `head` past their last use (release) and the producer has seen that (acquire). A producer may
//!   use an old value of `head`, which shows too little room, never too much; each handle keeps one and looks again when
//!   it seems short. A ring is called full only if `head` has not moved in between.
//! - *Write*: the slots, each followed by its stamp. Release.
//! - *Pop*: while the stamp at `head` is the one due (acquire), read the slot. After the run, store `head`. Release.
//!
//! A reservation that is not written yet holds up what lies behind it: a producer that is preempted there, for
//! the length of a few moves, delays the others' items but loses none, and the consumer is told "nothing ready" and never
//! waits. A reservation is always filled: items come from a vector, whose length is known and whose moves cannot fail.
//!
//! A stamp of an earlier lap differs from the one due by a multiple of the number of slots, and the initial 0 would be due at
//! position `usize::MAX` only, by when the slot has long carried others.

use core::fmt;
use core::mem::MaybeUninit;

use crossbeam_utils::CachePadded;

use crate::primitives::{Arc, AtomicBool, AtomicUsize, Ordering, UnsafeCell};

/// A ring that holds up to `capacity` items. Clone the producer for each thread that pushes.
///
/// # Panics
///
/// If `capacity` is 0 or above half the address space.
///
/// ```
/// let (mut producer, mut consumer) = braidnet_sync::ring::mpsc::ring(4);
/// let mut other = producer.clone();
/// producer.push('a').unwrap();
/// assert_eq!(other.push_from(&mut vec!['b', 'c']), 2);
/// let mut got = Vec::new();
/// assert_eq!(consumer.pop_into(&mut got, 10), 3);
/// assert_eq!(got, ['a', 'b', 'c']);
/// ```
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    assert!(
        capacity > 0 && capacity <= usize::MAX / 2,
        "a ring holds at least one item and at most half of memory"
    );
    let slots = (0..capacity.next_power_of_two())
        .map(|_| Slot {
            stamp: AtomicUsize::new(0),
            item: UnsafeCell::new(MaybeUninit::uninit()),
        })
        .collect();
    let shared = Arc::new(Shared {
        tail: CachePadded::new(AtomicUsize::new(0)),
        head: CachePadded::new(AtomicUsize::new(0)),
        producers: AtomicUsize::new(1),
        consumer_gone: AtomicBool::new(false),
        capacity,
        slots,
    });
    let consumer = Consumer {
        shared: Arc::clone(&shared),
        head: 0,
    };
    (
        Producer {
            shared,
            head_seen: 0,
        },
        consumer,
    )
}

struct Slot<T> {
    stamp: AtomicUsize,
    item: UnsafeCell<MaybeUninit<T>>,
}

struct Shared<T> {
    tail: CachePadded<AtomicUsize>,
    head: CachePadded<AtomicUsize>,
    producers: AtomicUsize,
    consumer_gone: AtomicBool,
    capacity: usize,
    /// A power of two of them, at least `capacity`.
    slots: Box<[Slot<T>]>,
}

// SAFETY: every slot belongs to one thread at a time, its reserver or the consumer, and changes hands with release and
// acquire, so sharing the ring amounts to sending items through it.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above; the ring itself is plain memory.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    #[inline(always)]
    fn slot(&self, position: usize) -> &Slot<T> {
        let index = position & (self.slots.len() - 1);
        debug_assert!(index < self.slots.len());
        // SAFETY: there is a power of two of slots and at least one, so masking by that number less one stays below it.
        unsafe { self.slots.get_unchecked(index) }
    }

    /// Writes the item of a reserved position and stamps it.
    ///
    /// # Safety
    ///
    /// The caller must have reserved the position and not have written it yet.
    #[inline(always)]
    unsafe fn write(&self, position: usize, item: T) {
        let slot = self.slot(position);
        slot.item.with_mut(|slot| {
            // SAFETY: the reservation makes the slot the caller's, so nothing else refers to it.
            unsafe { slot.write(MaybeUninit::new(item)) }
        });
        slot.stamp
            .store(position.wrapping_add(1), Ordering::Release);
    }

    /// The item at `position`, if it has been written.
    ///
    /// # Safety
    ///
    /// The caller must be the consumer, or alone, and must not have read the position before.
    #[inline(always)]
    unsafe fn read(&self, position: usize) -> Option<T> {
        let slot = self.slot(position);
        if slot.stamp.load(Ordering::Acquire) != position.wrapping_add(1) {
            return None;
        }
        Some(slot.item.with_mut(|slot| {
            // SAFETY: the stamp says that the item is written, and the slot is the consumer's from then on.
            let item = unsafe { slot.read() };
            // SAFETY: as above.
            unsafe { item.assume_init() }
        }))
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // All handles are gone, so every reservation is written; counting down their references has ordered it all.
        let mut position = self.head.load(Ordering::Relaxed);
        // SAFETY: nobody else is left, and every position is read once.
        while let Some(item) = unsafe { self.read(position) } {
            drop(item);
            position = position.wrapping_add(1);
        }
    }
}

/// An end that puts items in; one per thread, by cloning.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    /// A past value of the shared `head`.
    head_seen: usize,
}

impl<T: Send> Producer<T> {
    /// Puts one item in.
    ///
    /// # Errors
    ///
    /// Hands the item back if the ring is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        let Some((position, _)) = self.reserve(1) else {
            return Err(item);
        };
        // SAFETY: the position was just reserved.
        unsafe { self.shared.write(position, item) };
        Ok(())
    }

    /// Moves items from the front of `items` into the ring as one run, as many as fit, and answers how many.
    #[inline]
    pub fn push_from(&mut self, items: &mut Vec<T>) -> usize {
        if items.is_empty() {
            return 0;
        }
        let Some((start, count)) = self.reserve(items.len()) else {
            return 0;
        };
        for (offset, item) in items.drain(..count).enumerate() {
            // SAFETY: `count` positions from `start` were just reserved, and each is written once.
            unsafe { self.shared.write(start.wrapping_add(offset), item) };
        }
        count
    }

    /// How many items the ring holds at most.
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// Whether the consumer is gone: what is pushed will never be popped.
    pub fn is_abandoned(&self) -> bool {
        self.shared.consumer_gone.load(Ordering::Acquire)
    }

    /// Reserves up to `wanted` positions, at least one: the first and how many; none if the ring is full.
    #[inline]
    fn reserve(&mut self, wanted: usize) -> Option<(usize, usize)> {
        let shared = &*self.shared;
        let mut tail = shared.tail.load(Ordering::Relaxed);
        loop {
            // Others may have reserved by a newer `head`, so that by this one more than everything is in use.
            let room = shared
                .capacity
                .saturating_sub(tail.wrapping_sub(self.head_seen));
            if room < wanted {
                let head = shared.head.load(Ordering::Acquire);
                if head != self.head_seen {
                    self.head_seen = head;
                    // A tail from before that head could lie behind it.
                    tail = shared.tail.load(Ordering::Relaxed);
                    continue;
                }
                if room == 0 {
                    return None;
                }
            }
            let count = room.min(wanted);
            let ahead = tail.wrapping_add(count);
            match shared.tail.compare_exchange_weak(
                tail,
                ahead,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Some((tail, count)),
                Err(moved) => tail = moved,
            }
        }
    }
}

impl<T> Clone for Producer<T> {
    fn clone(&self) -> Self {
        // As for any count of references: a new one is made from one that exists, which orders enough.
        self.shared.producers.fetch_add(1, Ordering::Relaxed);
        Producer {
            shared: Arc::clone(&self.shared),
            head_seen: self.head_seen,
        }
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.producers.fetch_sub(1, Ordering::Release);
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("capacity", &self.shared.capacity)
            .finish_non_exhaustive()
    }
}

/// The end that takes items out.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    /// Items ever popped; the shared `head`, but for a run that is being read.
    head: usize,
}

impl<T: Send> Consumer<T> {
    /// Takes the oldest item out.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        // SAFETY: this is the consumer, and the head moves past every position it reads.
        let item = unsafe { self.shared.read(self.head) }?;
        self.head = self.head.wrapping_add(1);
        self.shared.head.store(self.head, Ordering::Release);
        Some(item)
    }

    /// Moves up to `max` items, oldest first, to the end of `items`, and answers how many.
    ///
    /// Allocates only if `items` has no capacity left for them.
    #[inline]
    pub fn pop_into(&mut self, items: &mut Vec<T>, max: usize) -> usize {
        let start = self.head;
        let most = max.min(self.shared.tail.load(Ordering::Relaxed).wrapping_sub(start));
        items.reserve(most);
        for _ in 0..most {
            // SAFETY: this is the consumer, and the head moves past every position it reads; the vector has room, so
            // nothing interrupts this before the head is published.
            let Some(item) = (unsafe { self.shared.read(self.head) }) else {
                break;
            };
            self.head = self.head.wrapping_add(1);
            items.push(item);
        }
        if self.head != start {
            self.shared.head.store(self.head, Ordering::Release);
        }
        self.head.wrapping_sub(start)
    }

    /// Whether nothing is ready at this moment. This is the look to take between announcing sleep and sleeping.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shared.slot(self.head).stamp.load(Ordering::Acquire) != self.head.wrapping_add(1)
    }

    /// How many positions are taken: what can be popped, and what producers have reserved and not written yet. Whatever
    /// was pushed before something that this thread has acquired is among them, so if fewer can be popped, somebody is
    /// still writing in front of it or into it.
    #[inline]
    pub fn reserved(&self) -> usize {
        let tail = self.shared.tail.load(Ordering::Relaxed);
        tail.wrapping_sub(self.head)
    }

    /// How many items the ring holds at most.
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// Whether every producer is gone. What they pushed before can still be popped, and a look at the ring after
    /// this answered `true` sees all of it.
    pub fn is_abandoned(&self) -> bool {
        self.shared.producers.load(Ordering::Acquire) == 0
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.shared.consumer_gone.store(true, Ordering::Release);
    }
}

impl<T> fmt::Debug for Consumer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer")
            .field("capacity", &self.shared.capacity)
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn holds_exactly_its_capacity_in_order_over_many_laps() {
        for capacity in [1, 2, 3, 5, 8] {
            let (mut producer, mut consumer) = ring(capacity);
            assert_eq!(
                (producer.capacity(), consumer.capacity()),
                (capacity, capacity)
            );
            for lap in 0..10 {
                for item in 0..capacity {
                    assert_eq!(producer.push(lap * capacity + item), Ok(()));
                }
                assert_eq!(producer.push(usize::MAX), Err(usize::MAX));
                for item in 0..capacity {
                    assert!(!consumer.is_empty());
                    assert_eq!(consumer.pop(), Some(lap * capacity + item));
                }
                assert!(consumer.is_empty());
                assert_eq!(consumer.pop(), None);
            }
        }
    }

    #[test]
    fn counters_may_wrap() {
        let (mut producer, mut consumer) = ring(4);
        let start = usize::MAX - 5;
        producer.shared.tail.store(start, Ordering::Relaxed);
        producer.shared.head.store(start, Ordering::Relaxed);
        (producer.head_seen, consumer.head) = (start, start);
        for lap in 0..4 {
            let mut run: Vec<_> = (lap..lap + 5).collect();
            assert_eq!(producer.push_from(&mut run), 4);
            assert_eq!(producer.push(0), Err(0));
            let mut items = Vec::new();
            assert_eq!(consumer.pop_into(&mut items, usize::MAX), 4);
            assert!(items.into_iter().eq(lap..lap + 4));
        }
        producer.push(1).unwrap();
    }

    #[test]
    fn runs_take_what_fits_and_leave_the_rest() {
        let (mut producer, mut consumer) = ring(3);
        let mut run: Vec<_> = (0..5).collect();
        assert_eq!(producer.push_from(&mut Vec::new()), 0);
        assert_eq!(producer.push_from(&mut run), 3);
        assert_eq!(run, [3, 4]);
        assert_eq!(producer.push_from(&mut run), 0);
        let mut items = vec![9];
        assert_eq!(consumer.pop_into(&mut items, 0), 0);
        assert_eq!(consumer.pop_into(&mut items, 2), 2);
        assert_eq!(items, [9, 0, 1]);
    }

    #[test]
    fn a_reservation_not_yet_written_holds_up_what_is_behind_it() {
        let (mut slow, mut consumer) = ring(4);
        let mut quick = slow.clone();
        let (position, count) = slow.reserve(1).unwrap();
        assert_eq!(count, 1);
        quick.push('b').unwrap();
        assert!(consumer.is_empty());
        assert_eq!(consumer.reserved(), 2);
        assert_eq!(consumer.pop_into(&mut Vec::new(), 4), 0);
        // SAFETY: reserved above.
        unsafe { slow.shared.write(position, 'a') };
        let mut items = Vec::new();
        assert_eq!(consumer.pop_into(&mut items, 4), 2);
        assert_eq!(items, ['a', 'b']);
        assert_eq!(consumer.reserved(), 0);
    }

    #[test]
    fn an_old_view_of_the_head_never_shows_too_much_room() {
        let (mut stale, mut consumer) = ring(2);
        let mut other = stale.clone();
        for lap in 0..5 {
            other.push(lap).unwrap();
            other.push(lap).unwrap();
            assert_eq!(consumer.pop(), Some(lap));
            assert_eq!(consumer.pop(), Some(lap));
        }
        assert_eq!(stale.push_from(&mut vec![7, 8, 9]), 2);
        assert_eq!(other.push(1), Err(1));
    }

    #[test]
    fn the_last_handle_drops_what_is_left() {
        let item = Arc::new(());
        let (mut producer, mut consumer) = ring(4);
        (0..4).for_each(|_| producer.push(Arc::clone(&item)).unwrap());
        drop(consumer.pop());
        let other = producer.clone();
        assert!(!consumer.is_abandoned());
        drop(producer);
        assert!(!consumer.is_abandoned());
        drop(consumer);
        assert!(other.is_abandoned());
        assert_eq!(Arc::strong_count(&item), 4);
        drop(other);
        assert_eq!(Arc::strong_count(&item), 1);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::ring;
    use crate::primitives::{Arc, thread};

    /// A run and an item at once: every item arrives once, the run together and in order.
    #[test]
    fn runs_stay_together() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring(4);
            let mut other = producer.clone();
            let runs = thread::spawn(move || {
                assert_eq!(producer.push_from(&mut vec![Box::new(10), Box::new(11)]), 2)
            });
            let items = thread::spawn(move || other.push(Box::new(20)).unwrap());
            let mut got = Vec::with_capacity(4);
            consumer.pop_into(&mut got, 4);
            runs.join().unwrap();
            items.join().unwrap();
            assert!(consumer.is_abandoned());
            consumer.pop_into(&mut got, 4);
            assert!(consumer.is_empty());
            let got: Vec<i32> = got.into_iter().map(|item| *item).collect();
            assert!(got == [10, 11, 20] || got == [20, 10, 11], "{got:?}");
        });
    }

    /// Two producers and one slot: what is accepted arrives, what is refused does not, and the first is never refused.
    #[test]
    fn a_full_ring_refuses() {
        loom::model(|| {
            let (producer, mut consumer) = ring(1);
            let producers: Vec<_> = (0..2)
                .map(|item| {
                    let mut producer = producer.clone();
                    thread::spawn(move || producer.push(Box::new(item)).is_ok())
                })
                .collect();
            let first = consumer.pop();
            let accepted: Vec<_> = producers
                .into_iter()
                .map(|producer| producer.join().unwrap())
                .collect();
            let got: Vec<_> = first
                .into_iter()
                .chain(consumer.pop())
                .map(|item| *item)
                .collect();
            assert!(consumer.pop().is_none());
            let expected = accepted.iter().filter(|&&accepted| accepted).count();
            assert!(
                expected >= 1 && got.len() == expected,
                "{accepted:?} {got:?}"
            );
            assert!(got.iter().all(|&item: &usize| accepted[item]));
        });
    }

    /// One slot, reused: a slot is not written before its last item has been read.
    #[test]
    fn a_slot_is_not_reused_early() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring(1);
            let sender = thread::spawn(move || {
                for item in 1..3 {
                    while producer.push(item).is_err() {
                        thread::yield_now();
                    }
                }
            });
            for item in 1..3 {
                loop {
                    if let Some(got) = consumer.pop() {
                        break assert_eq!(got, item);
                    }
                    thread::yield_now();
                }
            }
            sender.join().unwrap();
        });
    }

    /// Items that nobody pops are dropped once, whichever handle goes last.
    #[test]
    fn what_is_left_is_dropped() {
        loom::model(|| {
            let item = Arc::new(());
            let (mut producer, consumer) = ring(2);
            let mut other = producer.clone();
            let sender = {
                let item = Arc::clone(&item);
                thread::spawn(move || other.push(item).unwrap())
            };
            producer.push(Arc::clone(&item)).unwrap();
            drop(producer);
            drop(consumer);
            sender.join().unwrap();
            assert!(Arc::try_unwrap(item).is_ok());
        });
    }
}
