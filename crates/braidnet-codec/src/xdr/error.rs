//! Why a value could not be encoded or decoded.

use thiserror::Error;

/// The caller's fault: a value does not fit where it is to be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum EncodeError {
    /// The output is too short.
    #[error("{needed} bytes needed, {left} left to write in")]
    NoRoom {
        /// Bytes of the item, with its length and pad.
        needed: usize,
        /// Bytes left in the output.
        left: usize,
    },
    /// More elements than the type's bound, or than 32 bits can count.
    #[error("{length} elements where at most {limit} are allowed")]
    TooLong {
        /// Elements to be written.
        length: usize,
        /// The bound.
        limit: u32,
    },
    /// A batch cannot be made to fill this many bytes: below 8, or not a multiple of four.
    #[error("no batch fills {bytes} bytes")]
    UnevenBatch {
        /// Bytes to be filled.
        bytes: usize,
    },
    /// The number of samples is not the one that fills the batch.
    #[error("{samples} samples where {fitting} fill the batch")]
    WrongCount {
        /// Samples given.
        samples: usize,
        /// Samples that fill the batch.
        fitting: usize,
    },
}

/// The peer's fault: these bytes are no value of the type.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum DecodeError {
    /// The bytes end inside an item.
    #[error("{needed} bytes needed, {left} left")]
    Truncated {
        /// Bytes that the item still needs.
        needed: usize,
        /// Bytes that are there.
        left: usize,
    },
    /// A boolean that is neither 0 nor 1 (RFC 4506 §4.4).
    #[error("{value} is no boolean")]
    BadBoolean {
        /// What stood there.
        value: u32,
    },
    /// An enumerator without an assignment (RFC 4506 §4.3).
    #[error("{value} is no enumerator of the type")]
    BadEnumeration {
        /// What stood there.
        value: i32,
    },
    /// More elements or bytes than the bound of the type (RFC 4506 §4.10 to §4.13).
    #[error("{length} elements announced where at most {limit} are allowed")]
    TooLong {
        /// Elements announced.
        length: u32,
        /// The bound.
        limit: u32,
    },
    /// A pad byte that is not zero (RFC 4506 §3).
    #[error("a pad byte is not zero")]
    NonZeroPad,
    /// Bytes are left after the value.
    #[error("{bytes} bytes left after the value")]
    TrailingBytes {
        /// How many.
        bytes: usize,
    },
}
