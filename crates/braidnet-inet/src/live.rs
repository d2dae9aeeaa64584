//! What may be set otherwise while a stack runs.

use arc_swap::ArcSwap;
use core::fmt;
use std::sync::Arc;

/// A setting of a running stack: its owner replaces it, and processors look at it without waiting, where something begins and not for
/// each packet. Who has just looked goes by what it has seen.
pub struct Live<T>(ArcSwap<T>);

impl<T: Copy> Live<T> {
    /// Set like this.
    pub fn new(setting: T) -> Live<T> {
        Live(ArcSwap::from_pointee(setting))
    }

    /// Set like this from now on.
    pub fn set(&self, setting: T) {
        self.0.store(Arc::new(setting));
    }

    /// How it is set.
    pub fn now(&self) -> T {
        **self.0.load()
    }
}

impl<T: Copy + fmt::Debug> fmt::Debug for Live<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.now().fmt(f)
    }
}
