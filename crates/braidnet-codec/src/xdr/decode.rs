//! The reading cursor.

use super::{DecodeError, Xdr, pad_bytes};

/// Reads values one after the other out of a slice, which a peer may have written.
///
/// Variable data is borrowed from the slice, never copied, and nothing is reserved for a length that has not been checked
/// against both its bound and the bytes that are there. After an error the cursor stands where it stood before the call,
/// except in arrays, where it stands before the element that failed.
///
/// ```
/// use braidnet_codec::xdr::{DecodeError, Decoder};
/// let mut decoder = Decoder::new(b"\xff\xff\xff\xfe\0\0\0\x02go\0\0");
/// assert_eq!(decoder.int(), Ok(-2));
/// assert_eq!(decoder.string(1), Err(DecodeError::TooLong { length: 2, limit: 1 }));
/// assert_eq!(decoder.string(8), Ok(&b"go"[..]));
/// assert_eq!(decoder.finish(), Ok(()));
/// ```
#[derive(Clone, Debug)]
pub struct Decoder<'a> {
    rest: &'a [u8],
}

impl<'a> Decoder<'a> {
    /// A cursor at the start of `bytes`.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Decoder<'a> {
        Decoder { rest: bytes }
    }

    /// Bytes not yet read.
    #[inline]
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// [`DecodeError::TrailingBytes`] if anything is left.
    #[inline]
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(DecodeError::TrailingBytes { bytes }),
        }
    }

    /// A signed integer (RFC 4506 §4.1).
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn int(&mut self) -> Result<i32, DecodeError> {
        self.fixed().map(i32::from_be_bytes)
    }

    /// An unsigned integer (RFC 4506 §4.2).
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn unsigned(&mut self) -> Result<u32, DecodeError> {
        self.fixed().map(u32::from_be_bytes)
    }

    /// An enumerator of `E`, which names the numbers that it knows (RFC 4506 §4.3).
    ///
    /// # Errors
    /// [`DecodeError::BadEnumeration`], [`DecodeError::Truncated`].
    #[inline]
    pub fn enumeration<E: TryFrom<i32>>(&mut self) -> Result<E, DecodeError> {
        self.checked(|reader| {
            let value = reader.int()?;
            E::try_from(value).map_err(|_| DecodeError::BadEnumeration { value })
        })
    }

    /// A boolean (RFC 4506 §4.4).
    ///
    /// # Errors
    /// [`DecodeError::BadBoolean`], [`DecodeError::Truncated`].
    #[inline]
    pub fn boolean(&mut self) -> Result<bool, DecodeError> {
        self.checked(|reader| match reader.unsigned()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::BadBoolean { value }),
        })
    }

    /// A signed integer of 64 bits (RFC 4506 §4.5).
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn hyper(&mut self) -> Result<i64, DecodeError> {
        self.fixed().map(i64::from_be_bytes)
    }

    /// An unsigned integer of 64 bits (RFC 4506 §4.5).
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn unsigned_hyper(&mut self) -> Result<u64, DecodeError> {
        self.fixed().map(u64::from_be_bytes)
    }

    /// A real of single precision, bit for bit (RFC 4506 §4.6).
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn float(&mut self) -> Result<f32, DecodeError> {
        self.fixed().map(f32::from_be_bytes)
    }

    /// A real of double precision, bit for bit (RFC 4506 §4.7).
    ///
    /// # Errors
    /// [`DecodeError::Truncated`].
    #[inline]
    pub fn double(&mut self) -> Result<f64, DecodeError> {
        self.fixed().map(f64::from_be_bytes)
    }

    /// Opaque data of `length` bytes, which both sides know (RFC 4506 §4.9).
    ///
    /// # Errors
    /// [`DecodeError::NonZeroPad`], [`DecodeError::Truncated`].
    #[inline]
    pub fn opaque_fixed(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        self.checked(|reader| {
            let padded = length.saturating_add(pad_bytes(length));
            let (data, pad) = reader.take(padded)?.split_at(length);
            if pad.iter().any(|&byte| byte != 0) {
                return Err(DecodeError::NonZeroPad);
            }
            Ok(data)
        })
    }

    /// Opaque data of at most `limit` bytes, after its length (RFC 4506 §4.10).
    ///
    /// # Errors
    /// [`DecodeError::TooLong`], [`DecodeError::NonZeroPad`], [`DecodeError::Truncated`].
    #[inline]
    pub fn opaque(&mut self, limit: u32) -> Result<&'a [u8], DecodeError> {
        self.checked(|reader| {
            let length = reader.length(limit)?;
            reader.opaque_fixed(length)
        })
    }

    /// The bytes of a string of at most `limit` bytes, after its length (RFC 4506 §4.11).
    ///
    /// The RFC asks for ASCII, but peers send what they like and `rpcgen`'s routines take it, so this is bytes.
    ///
    /// # Errors
    /// Those of [`Decoder::opaque`].
    #[inline]
    pub fn string(&mut self, limit: u32) -> Result<&'a [u8], DecodeError> {
        self.opaque(limit)
    }

    /// An array whose length both sides know, into all of `elements` (RFC 4506 §4.12).
    ///
    /// # Errors
    /// Those of the elements; elements before the one that failed have been replaced.
    #[inline]
    pub fn array_fixed<T: Xdr>(&mut self, elements: &mut [T]) -> Result<(), DecodeError> {
        for element in elements {
            *element = self.checked(T::decode)?;
        }
        Ok(())
    }

    /// An array of at most `limit` elements, after their number, appended to `elements` (RFC 4506 §4.13).
    ///
    /// # Errors
    /// [`DecodeError::TooLong`], [`DecodeError::Truncated`] as soon as the bytes cannot hold the number announced, and those
    /// of the elements. Elements before the one that failed have been appended.
    #[inline]
    pub fn array<T: Xdr>(&mut self, elements: &mut Vec<T>, limit: u32) -> Result<(), DecodeError> {
        let count = self.checked(|reader| {
            let count = reader.length(limit)?;
            let needed = count.saturating_mul(T::MIN_BYTES);
            reader.require(needed)?;
            Ok(count)
        })?;
        // An element of no bytes costs its sender nothing, so room for it is not reserved ahead.
        if T::MIN_BYTES > 0 {
            elements.reserve(count);
        }
        for _ in 0..count {
            elements.push(self.checked(T::decode)?);
        }
        Ok(())
    }

    /// Runs `read`, and goes back to where it began if it fails.
    #[inline]
    fn checked<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        let before = self.rest;
        read(self).inspect_err(|_| self.rest = before)
    }

    #[inline]
    fn length(&mut self, limit: u32) -> Result<usize, DecodeError> {
        let length = self.unsigned()?;
        if length > limit {
            return Err(DecodeError::TooLong { length, limit });
        }
        // A length that the machine cannot address saturates, and is refused as truncated.
        Ok(usize::try_from(length).unwrap_or(usize::MAX))
    }

    #[inline]
    fn require(&self, needed: usize) -> Result<(), DecodeError> {
        let left = self.rest.len();
        if needed > left {
            return Err(DecodeError::Truncated { needed, left });
        }
        Ok(())
    }

    #[inline]
    fn take(&mut self, bytes: usize) -> Result<&'a [u8], DecodeError> {
        self.require(bytes)?;
        let (taken, rest) = self.rest.split_at(bytes);
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    #[inline]
    pub(super) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(DecodeError::Truncated {
                needed: N,
                left: self.rest.len(),
            });
        };
        self.rest = rest;
        Ok(*taken)
    }
}
