//! How long to spin before doing something else.

use crate::primitives::{pause, yield_now};

/// Pauses in a bounded row, so that no wait burns a processor that the awaited thread may need.
pub(crate) struct Spin {
    left: u32,
}

impl Spin {
    /// At most `pauses` pauses.
    #[inline]
    pub(crate) fn at_most(pauses: u32) -> Self {
        Spin { left: pauses }
    }

    /// Pauses once; `false` when the bound is reached.
    #[inline]
    pub(crate) fn again(&mut self) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        pause();
        true
    }
}

/// Waits for a step that another thread has already begun and ends within a few instructions unless it is preempted
/// there: spins, and after a while gives the processor away between looks, since the other may need this one.
#[inline]
pub(crate) fn until_some<T>(mut look: impl FnMut() -> Option<T>) -> T {
    /// A preempted thread is gone for far longer than this; a running one is done much sooner.
    const PAUSES: u32 = if crate::primitives::IS_MODEL { 0 } else { 128 };

    let mut spin = Spin::at_most(PAUSES);
    loop {
        if let Some(found) = look() {
            return found;
        }
        if !spin.again() {
            yield_now();
        }
    }
}
