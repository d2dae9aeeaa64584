//! The one place where this crate's synchronisation types come from, so that a model checker can replace them.

pub(crate) use core::sync::atomic::{
    AtomicI64, AtomicPtr, AtomicU8, AtomicU32, AtomicUsize, Ordering,
};
