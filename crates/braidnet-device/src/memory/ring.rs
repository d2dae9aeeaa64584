//! A bounded ring between one producer and one consumer.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

struct Shared<T> {
    items: Mutex<VecDeque<T>>,
    capacity: usize,
}

/// The end that items are put in.
pub struct Producer<T>(Arc<Shared<T>>);

/// The end that items are taken from.
pub struct Consumer<T>(Arc<Shared<T>>);

/// A ring for `capacity` items, at least 1.
pub fn ring<T>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let capacity = capacity.max(1);
    let items = Mutex::new(VecDeque::with_capacity(capacity));
    let shared = Arc::new(Shared { items, capacity });
    (Producer(shared.clone()), Consumer(shared))
}

impl<T> Producer<T> {
    /// How many items can be pushed now; more later, never fewer.
    pub fn room(&mut self) -> usize {
        self.0.capacity - self.0.items.lock().len()
    }

    /// Pushes what the iterator gives, which is no more than [`room`](Producer::room) said.
    pub fn push_all(&mut self, items: impl Iterator<Item = T>) {
        self.0.items.lock().extend(items);
    }

    /// Whether the consumer is gone.
    pub fn is_closed(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}

impl<T> Consumer<T> {
    /// Pops up to `max` items in order; returns how many.
    pub fn pop_each(&mut self, max: usize, each: impl FnMut(T)) -> usize {
        let mut items = self.0.items.lock();
        let count = items.len().min(max);
        items.drain(..count).for_each(each);
        count
    }

    /// Whether there is nothing to pop now.
    pub fn is_empty(&self) -> bool {
        self.0.items.lock().is_empty()
    }

    /// Whether the producer is gone.
    pub fn is_closed(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }
}
