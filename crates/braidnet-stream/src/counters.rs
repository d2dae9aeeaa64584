//! Counters with names: what was done, and every drop with its reason.
//!
//! Each processor counts in a block of its own with plain loads and stores (one writer), which anybody may read at any
//! time; sums over processors are made by the reader.

use crate::stream::Stream;
use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Index of a counter in the list that its module's [`counters`](crate::Module::counters) gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counter(pub u16);

/// What a stream counts itself, behind what its modules count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StreamCounter {
    /// `stream.poisoned`: messages that a panic has taken with it, those that the core it was in had been called with, and those on
    /// their way to other cores of the bucket.
    Poisoned,
    /// `order.late`: runs that reached a shared bucket after others had gone in front of them, and went on out of order.
    Late,
    /// `order.passed_over`: runs that others went in front of, since they had stayed away for too long.
    PassedOver,
    /// `shared.admitted`: times that a processor let others into its buckets.
    Admitted,
    /// `shared.moved`: buckets that a processor gave to another for good.
    Moved,
    /// `shared.handed`: packets that a processor took from the device and left with another, whose they are. Where each processor has a queue of its own, what
    /// the device did not [steer](https://github.com/braidnet/braidnet/blob/main/docs/decisions/009-steering.md) to its owner.
    Handed,
}

impl StreamCounter {
    /// All of them, in the order of their indices.
    pub(crate) const ALL: [StreamCounter; 6] = [
        StreamCounter::Poisoned,
        StreamCounter::Late,
        StreamCounter::PassedOver,
        StreamCounter::Admitted,
        StreamCounter::Moved,
        StreamCounter::Handed,
    ];

    /// What stands in the place of a module's name, and the counter's own.
    pub const fn name(self) -> (&'static str, &'static str) {
        match self {
            StreamCounter::Poisoned => ("stream", "poisoned"),
            StreamCounter::Late => ("order", "late"),
            StreamCounter::PassedOver => ("order", "passed_over"),
            StreamCounter::Admitted => ("shared", "admitted"),
            StreamCounter::Moved => ("shared", "moved"),
            StreamCounter::Handed => ("shared", "handed"),
        }
    }
}

/// One processor's counters of one stream.
#[derive(Debug)]
pub struct Counters {
    values: Box<[AtomicU64]>,
}

impl Counters {
    /// All at zero.
    pub fn new(stream: &Stream) -> Arc<Counters> {
        Arc::new(Counters {
            values: (0..stream.counter_count())
                .map(|_| AtomicU64::new(0))
                .collect(),
        })
    }

    /// Adds without a read-modify-write: only the owning processor writes.
    #[inline]
    pub(crate) fn add(&self, index: usize, by: u64) {
        if let Some(value) = self.values.get(index) {
            value.store(
                value.load(Ordering::Relaxed).wrapping_add(by),
                Ordering::Relaxed,
            );
        }
    }

    /// The counter `name` of module `module`, 0 if there is none.
    pub fn value(&self, stream: &Stream, module: &str, name: &str) -> u64 {
        stream
            .counter_names()
            .position(|(of, called)| of == module && called == name)
            .map_or(0, |index| self.values[index].load(Ordering::Relaxed))
    }

    /// Adds every counter that is not zero to `into`, under `module.name`.
    pub fn collect(&self, stream: &Stream, into: &mut BTreeMap<String, u64>) {
        for ((module, name), value) in stream.counter_names().zip(&self.values) {
            let value = value.load(Ordering::Relaxed);
            if value != 0 {
                let sum = into.entry(format!("{module}.{name}")).or_default();
                *sum = sum.wrapping_add(value);
            }
        }
    }
}
