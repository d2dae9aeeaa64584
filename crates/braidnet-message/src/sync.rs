//! The one place where this crate's synchronisation types come from, so that the model checkers can replace them.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicI64, AtomicPtr, AtomicU32, Ordering};

#[cfg(not(loom))]
pub(crate) use braidnet_sync::primitives::{
    AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering, thread_local,
};
