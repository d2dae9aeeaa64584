//! A ring between one producer and one consumer.
//!
//! # The protocol
//!
//! `tail` counts items ever pushed and is written by the producer only; `head` counts items ever popped and is written by the
//! consumer only; both wrap. The slots from `head` to `tail` belong to the consumer, all others to the producer.
//!
//! - *Push*: write the slots, then store `tail`. Release. The consumer loads `tail` with acquire and so sees them.
//! - *Pop*: read the slots, then store `head`. Release. The producer loads `head` with acquire before it writes
//!   a slot again, so no slot is written before it has been read.
//! - Each side keeps its own counter in its handle, and the last value it saw of the other's: it looks again only when
//!   that says full or empty. Streaming, the lines of `head` and `tail` cross once per run, and often not even that.
//!
//! A run is published by one store, after its last item. If a caller's iterator panics, what was written so far is
//! published. Each handle says on its drop that it is gone (release), and the other can ask (acquire).

use core::fmt;
use core::mem::MaybeUninit;

use crossbeam_utils::CachePadded;

use crate::primitives::{Arc, AtomicBool, AtomicUsize, Ordering, UnsafeCell};

/// A ring that holds up to `capacity` items.
///
/// # Panics
///
/// If `capacity` is 0 or above half the address space.
///
/// ```
/// let (mut producer, mut consumer) = braidnet_sync::ring::spsc::ring(2);
/// let mut run = vec!['a', 'b', 'c'];
/// assert_eq!(producer.push_from(&mut run), 2);
/// assert_eq!(run, ['c']);
/// let mut got = Vec::new();
/// assert_eq!(consumer.pop_into(&mut got, 10), 2);
/// assert_eq!(got, ['a', 'b']);
/// ```
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    assert!(
        capacity > 0 && capacity <= usize::MAX / 2,
        "a ring holds at least one item and at most half of memory"
    );
    let slots = (0..capacity.next_power_of_two())
        .map(|_| UnsafeCell::new(MaybeUninit::uninit()))
        .collect();
    let shared = Arc::new(Shared {
        tail: CachePadded::new(AtomicUsize::new(0)),
        head: CachePadded::new(AtomicUsize::new(0)),
        producer_gone: AtomicBool::new(false),
        consumer_gone: AtomicBool::new(false),
        capacity,
        slots,
    });
    let consumer = Consumer {
        shared: Arc::clone(&shared),
        head: 0,
        tail_seen: 0,
    };
    (
        Producer {
            shared,
            tail: 0,
            head_seen: 0,
        },
        consumer,
    )
}

struct Shared<T> {
    tail: CachePadded<AtomicUsize>,
    head: CachePadded<AtomicUsize>,
    producer_gone: AtomicBool,
    consumer_gone: AtomicBool,
    capacity: usize,
    /// A power of two of them, at least `capacity`.
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
}

// SAFETY: every slot belongs to one side at a time and changes sides with release and acquire, so sharing the ring
// amounts to sending items through it.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above; the ring itself is plain memory.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Shared<T> {
    #[inline(always)]
    fn slot(&self, position: usize) -> &UnsafeCell<MaybeUninit<T>> {
        let index = position & (self.slots.len() - 1);
        debug_assert!(index < self.slots.len());
        // SAFETY: there is a power of two of slots and at least one, so masking by that number less one stays below it.
        unsafe { self.slots.get_unchecked(index) }
    }

    /// # Safety
    ///
    /// The slot must belong to the caller, and hold no item.
    #[inline(always)]
    unsafe fn write(&self, position: usize, item: T) {
        self.slot(position).with_mut(|slot| {
            // SAFETY: the caller owns the slot, so nothing else refers to it.
            unsafe { slot.write(MaybeUninit::new(item)) }
        });
    }

    /// # Safety
    ///
    /// The slot must belong to the caller and hold an item, which is moved out.
    #[inline(always)]
    unsafe fn read(&self, position: usize) -> T {
        self.slot(position).with_mut(|slot| {
            // SAFETY: the caller owns the slot, so nothing else refers to it.
            let item = unsafe { slot.read() };
            // SAFETY: the caller says that it holds an item.
            unsafe { item.assume_init() }
        })
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        // Both handles are gone; counting down their references has ordered everything they did before this.
        let tail = self.tail.load(Ordering::Relaxed);
        let mut position = self.head.load(Ordering::Relaxed);
        while position != tail {
            // SAFETY: slots between head and tail hold items, and nobody else is left.
            drop(unsafe { self.read(position) });
            position = position.wrapping_add(1);
        }
    }
}

/// The end that puts items in.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    /// Items ever pushed; the shared `tail`, but for a run that is being written.
    tail: usize,
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
        if self.room_for(1) == 0 {
            return Err(item);
        }
        // SAFETY: there is room for one, so the slot at the tail is the producer's and empty.
        unsafe { self.shared.write(self.tail, item) };
        self.tail = self.tail.wrapping_add(1);
        self.shared.tail.store(self.tail, Ordering::Release);
        Ok(())
    }

    /// Moves items from the front of `items` into the ring, as many as fit, and answers how many.
    #[inline]
    pub fn push_from(&mut self, items: &mut Vec<T>) -> usize {
        let count = self.room_for(items.len()).min(items.len());
        for (offset, item) in items.drain(..count).enumerate() {
            // SAFETY: there is room for `count`, so their slots from the tail on are the producer's and empty.
            unsafe { self.shared.write(self.tail.wrapping_add(offset), item) };
        }
        self.tail = self.tail.wrapping_add(count);
        self.shared.tail.store(self.tail, Ordering::Release);
        count
    }

    /// Moves items out of `items` into the ring while there is room, and answers how many. No item is taken out of the iterator that
    /// does not fit.
    #[inline(always)]
    pub fn push_iter(&mut self, items: &mut impl Iterator<Item = T>) -> usize {
        let start = self.tail;
        let publish = Publish(self);
        let producer = &mut *publish.0;
        let mut room = producer.room_for(1);
        while room > 0 {
            let Some(item) = items.next() else { break };
            // SAFETY: there is room, so the slot at the tail is the producer's and empty.
            unsafe { producer.shared.write(producer.tail, item) };
            producer.tail = producer.tail.wrapping_add(1);
            room -= 1;
            if room == 0 {
                room = producer.room_for(1);
            }
        }
        producer.tail.wrapping_sub(start)
    }

    /// How many items fit now at least: the exact number if that seems below `wanted`.
    #[inline]
    pub fn room_for(&mut self, wanted: usize) -> usize {
        let used = self.tail.wrapping_sub(self.head_seen);
        let room = self.shared.capacity - used;
        if room >= wanted {
            return room;
        }
        self.head_seen = self.shared.head.load(Ordering::Acquire);
        self.shared.capacity - self.tail.wrapping_sub(self.head_seen)
    }

    /// How many items the ring holds at most.
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// Whether the consumer is gone: what is pushed will never be popped.
    pub fn is_abandoned(&self) -> bool {
        self.shared.consumer_gone.load(Ordering::Acquire)
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.producer_gone.store(true, Ordering::Release);
    }
}

impl<T> fmt::Debug for Producer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Producer")
            .field("capacity", &self.shared.capacity)
            .finish_non_exhaustive()
    }
}

/// Publishes what has been written, however the writing ends.
struct Publish<'a, T>(&'a mut Producer<T>);

impl<T> Drop for Publish<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.0.shared.tail.store(self.0.tail, Ordering::Release);
    }
}

/// The end that takes items out.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    /// Items ever popped; the shared `head`, but for a run that is being read.
    head: usize,
    /// A past value of the shared `tail`.
    tail_seen: usize,
}

impl<T: Send> Consumer<T> {
    /// Takes the oldest item out.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.ready(1) == 0 {
            return None;
        }
        // SAFETY: an item is ready, so the slot at the head is the consumer's and holds it.
        let item = unsafe { self.shared.read(self.head) };
        self.head = self.head.wrapping_add(1);
        self.shared.head.store(self.head, Ordering::Release);
        Some(item)
    }

    /// Moves up to `max` items, oldest first, to the end of `items`, and answers how many.
    ///
    /// Allocates only if `items` has no capacity left for them.
    #[inline]
    pub fn pop_into(&mut self, items: &mut Vec<T>, max: usize) -> usize {
        let items_before = items.len();
        items.extend(self.drain(max));
        items.len() - items_before
    }

    /// Takes up to `max` items out, oldest first, of those that are ready now. Their slots go back to the producer together,
    /// when the iterator is dropped; what has not been asked for until then stays in the ring.
    #[inline]
    pub fn drain(&mut self, max: usize) -> Drain<'_, T> {
        let count = self.ready(max).min(max);
        Drain {
            head: self.head,
            end: self.head.wrapping_add(count),
            consumer: self,
        }
    }

    /// How many items are ready, at least; the exact number if that seems below `wanted`.
    #[inline]
    pub fn ready(&mut self, wanted: usize) -> usize {
        let seen = self.tail_seen.wrapping_sub(self.head);
        if seen >= wanted {
            return seen;
        }
        self.tail_seen = self.shared.tail.load(Ordering::Acquire);
        self.tail_seen.wrapping_sub(self.head)
    }

    /// Whether nothing is ready at this moment. This is the look to take between announcing sleep and sleeping.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.shared.tail.load(Ordering::Acquire) == self.head
    }

    /// How many items the ring holds at most.
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// Whether the producer is gone. What it pushed before can still be popped, and a look at the ring after
    /// this answered `true` sees all of it.
    pub fn is_abandoned(&self) -> bool {
        self.shared.producer_gone.load(Ordering::Acquire)
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

/// Items on their way out of a ring; see [`Consumer::drain`].
pub struct Drain<'a, T> {
    consumer: &'a mut Consumer<T>,
    /// The consumer's `head` as it will be.
    head: usize,
    /// How far that may go: not beyond what the producer has published.
    end: usize,
}

impl<T> Iterator for Drain<'_, T> {
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        if self.head == self.end {
            return None;
        }
        // SAFETY: an item is ready, so the slot at the head is the consumer's and holds it; it is read once, for the head
        // moves on.
        let item = unsafe { self.consumer.shared.read(self.head) };
        self.head = self.head.wrapping_add(1);
        Some(item)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.end.wrapping_sub(self.head);
        (left, Some(left))
    }
}

impl<T> Drop for Drain<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.consumer.head = self.head;
        self.consumer
            .shared
            .head
            .store(self.head, Ordering::Release);
    }
}

impl<T> fmt::Debug for Drain<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drain")
            .field("left", &self.size_hint().0)
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
                assert_eq!(producer.room_for(1), 0);
                assert_eq!(consumer.ready(capacity), capacity);
                for item in 0..capacity {
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
        let start = usize::MAX - 1;
        producer.shared.tail.store(start, Ordering::Relaxed);
        producer.shared.head.store(start, Ordering::Relaxed);
        (
            producer.tail,
            producer.head_seen,
            consumer.head,
            consumer.tail_seen,
        ) = (start, start, start, start);
        for lap in 0..4 {
            assert_eq!(producer.push_iter(&mut (lap..)), 4);
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
        assert_eq!(producer.push_from(&mut run), 3);
        assert_eq!(run, [3, 4]);
        assert_eq!(producer.push_from(&mut run), 0);
        let mut items = vec![9];
        assert_eq!(consumer.pop_into(&mut items, 0), 0);
        assert_eq!(consumer.pop_into(&mut items, 2), 2);
        assert_eq!(items, [9, 0, 1]);
        let mut more = 10..20;
        assert_eq!(producer.push_iter(&mut more), 2);
        assert_eq!(more.next(), Some(12));
        assert_eq!(consumer.pop_into(&mut items, 10), 3);
        assert_eq!(items, [9, 0, 1, 2, 10, 11]);
    }

    #[test]
    fn a_drain_takes_what_was_ready_and_leaves_what_nobody_asked_for() {
        let (mut producer, mut consumer) = ring(4);
        (0..4).for_each(|item| producer.push(item).unwrap());
        let mut taken = consumer.drain(3);
        assert_eq!(taken.size_hint(), (3, Some(3)));
        assert_eq!((taken.next(), taken.next()), (Some(0), Some(1)));
        drop(taken);
        assert_eq!(
            producer.room_for(4),
            2,
            "the slots are the producer's again"
        );
        producer.push(4).unwrap();
        assert!(consumer.drain(usize::MAX).eq([2, 3, 4]));
        assert!(consumer.drain(usize::MAX).next().is_none());
    }

    #[test]
    fn what_was_written_before_a_panic_is_published() {
        let (mut producer, mut consumer) = ring(8);
        let mut items = (0..4).inspect(|&item| assert_ne!(item, 2, "planted"));
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            producer.push_iter(&mut items)
        }));
        assert!(outcome.is_err());
        producer.push(7).unwrap();
        let mut got = Vec::new();
        consumer.pop_into(&mut got, 8);
        assert_eq!(got, [0, 1, 7]);
    }

    #[test]
    fn the_last_handle_drops_what_is_left() {
        let item = Arc::new(());
        let (mut producer, mut consumer) = ring(4);
        (0..4).for_each(|_| producer.push(Arc::clone(&item)).unwrap());
        drop(consumer.pop());
        assert!(!producer.is_abandoned());
        drop(consumer);
        assert!(producer.is_abandoned());
        assert_eq!(Arc::strong_count(&item), 4);
        drop(producer);
        assert_eq!(Arc::strong_count(&item), 1);
    }

    #[test]
    fn what_a_producer_left_can_be_popped() {
        let (mut producer, mut consumer) = ring(4);
        producer.push(1).unwrap();
        assert!(!consumer.is_abandoned());
        drop(producer);
        assert!(consumer.is_abandoned());
        assert_eq!(consumer.pop(), Some(1));
    }

    #[test]
    #[should_panic(expected = "at least one")]
    fn a_ring_of_nothing_is_refused() {
        let _ = ring::<u8>(0);
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::ring;
    use crate::primitives::{Arc, thread};

    /// Three items through two slots, singly and in runs: order, visibility, and no slot written too early.
    #[test]
    fn items_arrive_once_and_in_order() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring(2);
            let sender = thread::spawn(move || {
                let mut run: Vec<Box<usize>> = (1..3).map(Box::new).collect();
                while !run.is_empty() {
                    if producer.push_from(&mut run) == 0 {
                        thread::yield_now();
                    }
                }
                let mut last = Box::new(3);
                while let Err(back) = producer.push(last) {
                    last = back;
                    thread::yield_now();
                }
            });
            let mut got = Vec::with_capacity(4);
            while got.len() < 3 {
                if consumer.pop_into(&mut got, 2) == 0 {
                    thread::yield_now();
                }
            }
            assert!(got.into_iter().map(|item| *item).eq(1..4));
            sender.join().unwrap();
        });
    }

    /// Items that nobody pops are dropped once, whichever handle goes last.
    #[test]
    fn what_is_left_is_dropped() {
        loom::model(|| {
            let item = Arc::new(());
            let (mut producer, mut consumer) = ring(2);
            let sender = {
                let item = Arc::clone(&item);
                thread::spawn(move || {
                    producer.push(Arc::clone(&item)).unwrap();
                    producer.push(item).unwrap();
                })
            };
            drop(consumer.pop());
            drop(consumer);
            sender.join().unwrap();
            assert!(Arc::try_unwrap(item).is_ok());
        });
    }

    /// Whoever sees the producer gone sees everything it pushed.
    #[test]
    fn abandonment_comes_last() {
        loom::model(|| {
            let (mut producer, mut consumer) = ring(1);
            let sender = thread::spawn(move || producer.push(1).unwrap());
            if consumer.is_abandoned() {
                assert_eq!(consumer.pop(), Some(1));
            }
            sender.join().unwrap();
        });
    }
}
