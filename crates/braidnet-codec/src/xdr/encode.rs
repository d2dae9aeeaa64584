//! The writing cursor.

use super::{EncodeError, UNIT, Xdr, pad_bytes};

/// Writes values one after the other into a slice.
///
/// Every function either writes its whole item, pad included, or writes nothing and answers an error.
///
/// ```
/// use braidnet_codec::xdr::Encoder;
/// let mut bytes = [0xff; 12];
/// let mut encoder = Encoder::new(&mut bytes);
/// encoder.int(-2)?;
/// encoder.string("go", 8)?;
/// assert_eq!(encoder.written(), 12);
/// assert_eq!(bytes, *b"\xff\xff\xff\xfe\0\0\0\x02go\0\0");
/// # Ok::<(), braidnet_codec::xdr::EncodeError>(())
/// ```
#[derive(Debug)]
pub struct Encoder<'a> {
    out: &'a mut [u8],
    written: usize,
}

impl<'a> Encoder<'a> {
    /// A cursor at the start of `out`.
    #[inline]
    pub fn new(out: &'a mut [u8]) -> Encoder<'a> {
        Encoder { out, written: 0 }
    }

    /// Bytes written so far, a multiple of four.
    #[inline]
    pub fn written(&self) -> usize {
        self.written
    }

    /// Bytes that can still be written.
    #[inline]
    pub fn left(&self) -> usize {
        self.out.len() - self.written
    }

    /// A signed integer (RFC 4506 §4.1).
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`].
    #[inline]
    pub fn int(&mut self, value: i32) -> Result<(), EncodeError> {
        self.fixed(value.to_be_bytes())
    }

    /// An unsigned integer (RFC 4506 §4.2).
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`].
    #[inline]
    pub fn unsigned(&mut self, value: u32) -> Result<(), EncodeError> {
        self.fixed(value.to_be_bytes())
    }

    /// An enumerator, by its number (RFC 4506 §4.3).
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`].
    #[inline]
    pub fn enumeration(&mut self, value: impl Into<i32>) -> Result<(), EncodeError> {
        self.int(value.into())
    }

    /// A boolean (RFC 4506 §4.4).
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`].
    #[inline]
    pub fn boolean(&mut self, value: bool) -> Result<(), EncodeError> {
        self.unsigned(u32::from(value))
    }

    /// A signed integer of 64 bits (RFC 4506 §4.5).
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`].
    #[inline]
    pub fn hyper(&mut self, value: i64) -> Result<(), EncodeError> {
        self.fixed(value.to_be_bytes())
    }

    /// An unsigned integer of 64 bits (RFC 4506 §4.5).
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`].
    #[inline]
    pub fn unsigned_hyper(&mut self, value: u64) -> Result<(), EncodeError> {
        self.fixed(value.to_be_bytes())
    }

    /// A real of single precision, bit for bit (RFC 4506 §4.6).
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`].
    #[inline]
    pub fn float(&mut self, value: f32) -> Result<(), EncodeError> {
        self.fixed(value.to_be_bytes())
    }

    /// A real of double precision, bit for bit (RFC 4506 §4.7).
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`].
    #[inline]
    pub fn double(&mut self, value: f64) -> Result<(), EncodeError> {
        self.fixed(value.to_be_bytes())
    }

    /// Opaque data whose length both sides know (RFC 4506 §4.9).
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`].
    #[inline]
    pub fn opaque_fixed(&mut self, data: &[u8]) -> Result<(), EncodeError> {
        let padded = data.len().saturating_add(pad_bytes(data.len()));
        let (body, pad) = self.take(padded)?.split_at_mut(data.len());
        body.copy_from_slice(data);
        pad.fill(0);
        Ok(())
    }

    /// Opaque data of at most `limit` bytes, after its length (RFC 4506 §4.10).
    ///
    /// # Errors
    /// [`EncodeError::TooLong`], [`EncodeError::NoRoom`].
    #[inline]
    pub fn opaque(&mut self, data: &[u8], limit: u32) -> Result<(), EncodeError> {
        let length = bounded(data.len(), limit)?;
        let needed = data
            .len()
            .saturating_add(pad_bytes(data.len()))
            .saturating_add(UNIT);
        self.require(needed)?;
        self.unsigned(length)?;
        self.opaque_fixed(data)
    }

    /// A string of at most `limit` bytes, after its length (RFC 4506 §4.11).
    ///
    /// The RFC asks for ASCII; other text goes out as its UTF-8 bytes, as is usual.
    ///
    /// # Errors
    /// [`EncodeError::TooLong`], [`EncodeError::NoRoom`].
    #[inline]
    pub fn string(&mut self, text: &str, limit: u32) -> Result<(), EncodeError> {
        self.opaque(text.as_bytes(), limit)
    }

    /// An array whose length both sides know (RFC 4506 §4.12).
    ///
    /// # Errors
    /// Those of the elements; elements before the one that failed stay written.
    #[inline]
    pub fn array_fixed<T: Xdr>(&mut self, elements: &[T]) -> Result<(), EncodeError> {
        elements.iter().try_for_each(|element| element.encode(self))
    }

    /// An array of at most `limit` elements, after their number (RFC 4506 §4.13).
    ///
    /// # Errors
    /// [`EncodeError::TooLong`], and those of the elements; elements before the one that failed stay written.
    #[inline]
    pub fn array<T: Xdr>(&mut self, elements: &[T], limit: u32) -> Result<(), EncodeError> {
        self.unsigned(bounded(elements.len(), limit)?)?;
        self.array_fixed(elements)
    }

    /// The next `bytes` bytes of the output, for a caller that writes them itself.
    #[inline]
    pub(super) fn take(&mut self, bytes: usize) -> Result<&mut [u8], EncodeError> {
        self.require(bytes)?;
        let from = self.written;
        self.written += bytes;
        Ok(&mut self.out[from..self.written])
    }

    #[inline]
    fn require(&self, needed: usize) -> Result<(), EncodeError> {
        let left = self.left();
        if needed > left {
            return Err(EncodeError::NoRoom { needed, left });
        }
        Ok(())
    }

    #[inline]
    fn fixed<const N: usize>(&mut self, bytes: [u8; N]) -> Result<(), EncodeError> {
        self.take(N)?.copy_from_slice(&bytes);
        Ok(())
    }
}

fn bounded(length: usize, limit: u32) -> Result<u32, EncodeError> {
    match u32::try_from(length) {
        Ok(count) if count <= limit => Ok(count),
        _ => Err(EncodeError::TooLong { length, limit }),
    }
}
