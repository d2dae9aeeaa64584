//! External data representation (RFC 4506).
//!
//! [`Encoder`] and [`Decoder`] are cursors over slices with one function per primitive. A type that is made of them
//! implements [`Xdr`]. [`Sample`] and its batches are the load of the papers' presentation layer: a variable array of
//! structures that hold integers and reals.

mod batch;
mod decode;
mod encode;
mod error;
mod kernel;
mod sample;

pub use batch::{BatchDecoder, BatchShape, decode_into, decode_scattered_into, encode_batch};
pub use decode::Decoder;
pub use encode::Encoder;
pub use error::{DecodeError, EncodeError};
pub use kernel::Kernel;
pub use sample::{Quality, SAMPLE_BYTES, Sample, Totals, UnknownQuality, sum};

/// The size that every item on the wire is a multiple of, in bytes (RFC 4506 §3).
pub const UNIT: usize = 4;

/// A type with an external representation.
pub trait Xdr: Sized {
    /// The fewest bytes that a value takes. A decoder refuses an array whose elements cannot fit in what is left, before it
    /// reserves anything for them.
    const MIN_BYTES: usize;

    /// Appends the value.
    ///
    /// # Errors
    /// Those of [`Encoder`]; what was written before stays written.
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), EncodeError>;

    /// Takes a value. After an error it may stand anywhere inside it; [`Decoder::array`] and its like go back.
    ///
    /// # Errors
    /// Those of [`Decoder`].
    fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError>;
}

macro_rules! primitive {
    ($($type:ty, $bytes:literal, $function:ident, $section:literal;)*) => {$(
        #[doc = concat!("RFC 4506 §", $section, ".")]
        impl Xdr for $type {
            const MIN_BYTES: usize = $bytes;

            #[inline]
            fn encode(&self, to: &mut Encoder<'_>) -> Result<(), EncodeError> {
                to.$function(*self)
            }

            #[inline]
            fn decode(from: &mut Decoder<'_>) -> Result<Self, DecodeError> {
                from.$function()
            }
        }
    )*};
}

primitive! {
    i32, 4, int, "4.1";
    u32, 4, unsigned, "4.2";
    bool, 4, boolean, "4.4";
    i64, 8, hyper, "4.5";
    u64, 8, unsigned_hyper, "4.5";
    f32, 4, float, "4.6";
    f64, 8, double, "4.7";
}

/// How many zero bytes follow `length` bytes of opaque data or string (RFC 4506 §4.9 to §4.11).
const fn pad_bytes(length: usize) -> usize {
    length.wrapping_neg() % UNIT
}

#[cfg(test)]
mod tests;
