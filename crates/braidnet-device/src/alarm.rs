//! When a device is to be asked again though nothing arrives.

use braidnet_sync::primitives::{AtomicU64, Ordering};
use braidnet_wire::time::Instant;
use std::sync::Arc;

/// When a queue of a device wants to be asked again though nothing arrives: it holds packets that are not due yet.
///
/// The queue's ends set it, whoever turns the queue reads it before it sleeps. Both may be several. Who hands the device a
/// packet that it holds back has set the alarm by then, and so does not sleep past it; who sleeps already need not hear of
/// that. What the alarm is for travels behind the device's own locks; the time alone needs no order.
#[derive(Clone, Debug)]
pub struct Alarm {
    at: Arc<AtomicU64>,
    /// Whichever of these and itself is the sooner.
    others: Vec<Alarm>,
}

impl Alarm {
    /// One that is not set.
    pub fn new() -> Alarm {
        Alarm {
            at: Arc::new(AtomicU64::new(Instant::MAX.nanos())),
            others: Vec::new(),
        }
    }

    /// One that says the soonest of what these say; `None` if there are none.
    pub(crate) fn soonest(mut alarms: Vec<Alarm>) -> Option<Alarm> {
        let mut first = alarms.pop()?;
        first.others.extend(alarms);
        Some(first)
    }

    /// Sets it to this time, or to none.
    pub fn set(&self, at: Option<Instant>) {
        let at = at.unwrap_or(Instant::MAX);
        self.at.store(at.nanos(), Ordering::Relaxed);
    }

    /// When the queue wants to be asked, on the clock by which it is turned; in the past: now.
    #[inline]
    pub fn next(&self) -> Option<Instant> {
        let own = Instant::from_nanos(self.at.load(Ordering::Relaxed));
        let others = self.others.iter().filter_map(Alarm::next);
        let at = others.fold(own, Instant::min);
        (at < Instant::MAX).then_some(at)
    }
}

impl Default for Alarm {
    fn default() -> Alarm {
        Alarm::new()
    }
}
