//! The internet checksum (RFC 1071).
//!
//! [`Sum`] is the sum of some bytes before it is complemented. Sums are made over headers, payloads and pseudo-headers
//! apart from each other, possibly on different processors, and added; only then does [`Sum::finish`] give the value
//! for the packet.
//!
//! ```
//! use braidnet_wire::address::Address;
//! use braidnet_wire::checksum::Sum;
//!
//! let source = Address::v4([192, 0, 2, 1]);
//! let destination = Address::v4([192, 0, 2, 2]);
//! let mut datagram = [0x30, 0x39, 0x00, 0x35, 0x00, 0x0b, 0, 0, b'a', b'b', b'c'];
//! let pseudo_header = Sum::pseudo_header(&source, &destination, 17, 11);
//!
//! let sum = pseudo_header.combine(Sum::of(&datagram));
//! datagram[6..8].copy_from_slice(&sum.finish_bytes());
//! assert!(pseudo_header.combine(Sum::of(&datagram)).is_valid());
//! ```
//!
//! Inputs above 64 bytes go to the widest implementation that the processor has (AVX-512 with VNNI, AVX2, or portable
//! code), which is looked up at run time; all give the same result for every length and alignment.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod scalar;

use crate::address::Address;
use core::mem::MaybeUninit;
use core::ops::Add;

/// Up to this many bytes are summed in line, without a call.
const SHORT: usize = 64;

/// Longer inputs are summed in blocks of this many bytes: even, and so few that 32-bit sums of 16-bit words cannot
/// overflow.
const BLOCK: usize = 64 * 1024;

/// The ones' complement sum of some bytes, folded to 16 bits, not complemented, in the byte order of the machine's
/// loads (RFC 1071 §2B: the sum is independent of byte order as long as it is stored the way it was loaded).
///
/// Sums of adjacent byte runs combine with [`Sum::then`], which knows that a run that starts at an odd offset adds with
/// its bytes swapped (RFC 1071 §2A).
///
/// Zero has two representations in ones' complement. A `Sum` of bytes is 0 only if all bytes are 0, as in the loop of
/// RFC 1071 §4.1, and additions keep it so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sum(pub u16);

impl Sum {
    /// The sum of no bytes.
    pub const ZERO: Sum = Sum(0);

    /// The sum of `bytes`; an odd last byte counts as if a zero byte followed it (RFC 1071 §1).
    #[inline]
    pub fn of(bytes: &[u8]) -> Sum {
        if bytes.len() <= SHORT {
            return Sum(scalar::sum_short(bytes));
        }
        Sum::of_long(bytes)
    }

    /// The sum of `self`'s `len_before` bytes followed by `next`'s.
    #[inline]
    pub const fn then(self, next: Sum, len_before: usize) -> Sum {
        if len_before.is_multiple_of(2) {
            self.combine(next)
        } else {
            self.combine(next.swapped())
        }
    }

    /// The sum of both, where each was taken from an even offset of its packet.
    #[inline]
    pub const fn combine(self, other: Sum) -> Sum {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Sum(sum.wrapping_add(carry as u16))
    }

    /// The sum as it counts for bytes that start at an odd offset (RFC 1071 §2A).
    #[inline]
    pub const fn swapped(self) -> Sum {
        Sum(self.0.swap_bytes())
    }

    /// The sum of one 16-bit field with this value, which stands in network byte order in the packet.
    #[inline]
    pub const fn word(value: u16) -> Sum {
        Sum(value.to_be())
    }

    /// The sum of one 32-bit field with this value, which stands in network byte order in the packet at an even offset.
    #[inline]
    pub const fn double_word(value: u32) -> Sum {
        Sum::word((value >> 16) as u16).combine(Sum::word(value as u16))
    }

    /// The sum of 32-bit fields with these values, which stand in network byte order in the packet at even offsets. For
    /// headers that are still to be written: bytes just stored in fields are slow to load again in words.
    #[inline]
    pub fn of_words<const N: usize>(values: [u32; N]) -> Sum {
        let sum: u64 = values.into_iter().map(u64::from).sum();
        Sum::word(scalar::fold(u128::from(sum)))
    }

    /// The sum of both: `self`, and 32-bit words as they stand in the packet, at even offsets, loaded in the machine's byte order.
    #[inline]
    pub(crate) fn with_wire_words<const N: usize>(self, words: [u32; N]) -> Sum {
        let sum: u64 = words.into_iter().map(u64::from).sum();
        Sum(scalar::fold(u128::from(sum + u64::from(self.0))))
    }

    /// The sum of the pseudo-header of TCP, UDP or ICMPv6 over IPv4 (RFC 9293 §3.1) or IPv6 (RFC 8200 §8.1).
    ///
    /// `len` is the length in bytes of the transport header and its payload, which IPv4 bounds by 65535. Both addresses
    /// are of one version. An IPv4 address is summed in its mapped form without a branch: the `ffff` in it is zero in
    /// ones' complement.
    #[inline]
    pub fn pseudo_header(source: &Address, destination: &Address, protocol: u8, len: u32) -> Sum {
        let rest = u64::from(u16::from(protocol).to_be()) + u64::from(len.to_be());
        let (source, destination) = (source.octets(), destination.octets());
        Sum(scalar::sum_pair(source, destination, rest))
    }

    /// The checksum to store: the complement of the sum, **in the machine's byte order**. It is written to the packet
    /// with [`u16::to_ne_bytes`], never with `to_be_bytes`; [`Sum::finish_bytes`] leaves no choice.
    #[inline]
    pub const fn finish(self) -> u16 {
        !self.0
    }

    /// The two bytes of the checksum as they stand in the packet.
    #[inline]
    pub const fn finish_bytes(self) -> [u8; 2] {
        self.finish().to_ne_bytes()
    }

    /// The two bytes of a checksum that must not be zero, as they stand in the packet: all ones in its place, which is
    /// as valid. UDP's must not, because there zero says that there is none (RFC 768).
    #[inline]
    pub const fn finish_nonzero_bytes(self) -> [u8; 2] {
        match self.finish() {
            0 => [0xff, 0xff],
            checksum => checksum.to_ne_bytes(),
        }
    }

    /// Whether this sum of a whole packet, its checksum included, shows the checksum right: all ones (RFC 1071 §1).
    #[inline]
    pub const fn is_valid(self) -> bool {
        self.0 == 0xffff
    }

    /// The sum behind a stored checksum, given as its bytes in the packet: the inverse of [`Sum::finish_bytes`].
    ///
    /// A stored UDP checksum of all ones gives zero, which changes no later result but [`PartialEq`].
    #[inline]
    pub const fn from_checksum(stored: [u8; 2]) -> Sum {
        Sum(!u16::from_ne_bytes(stored))
    }

    /// The sum after the bytes behind `old` were replaced by those behind `new`, both at even offsets (RFC 1624 §3,
    /// equation 3: the complement of the old value is added, never the old value subtracted).
    ///
    /// Turns the sum of a header template into that of a packet. If all that remains is zero, the result may be the
    /// other zero, all ones.
    ///
    /// ```
    /// use braidnet_wire::checksum::Sum;
    /// let template = Sum::of(&[0x45, 0x00, 0x00, 0x14]);
    /// let packet = template.replace(Sum::word(0x0014), Sum::word(0x05dc));
    /// assert_eq!(packet, Sum::of(&[0x45, 0x00, 0x05, 0xdc]));
    /// ```
    #[inline]
    pub const fn replace(self, old: Sum, new: Sum) -> Sum {
        self.combine(Sum(!old.0)).combine(new)
    }

    /// [`Sum::of`] for inputs that are worth a call.
    #[inline(never)]
    fn of_long(bytes: &[u8]) -> Sum {
        if bytes.len() <= BLOCK {
            return Sum(sum_block(bytes));
        }
        Sum::of_blocks(bytes)
    }

    /// [`Sum::of`] for more than one [`BLOCK`].
    #[cold]
    #[inline(never)]
    fn of_blocks(bytes: &[u8]) -> Sum {
        // Blocks are of even length, all but the last.
        bytes
            .chunks(BLOCK)
            .fold(Sum::ZERO, |sum, block| sum.combine(Sum(sum_block(block))))
    }
}

/// [`Sum::combine`].
impl Add for Sum {
    type Output = Sum;

    #[inline]
    fn add(self, other: Sum) -> Sum {
        self.combine(other)
    }
}

/// Copies `source` to `destination` and sums it, in one pass.
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn copy_and_sum(destination: &mut [u8], source: &[u8]) -> Sum {
    let len = destination.len();
    let start = destination.as_mut_ptr().cast::<MaybeUninit<u8>>();
    // SAFETY: the same bytes, borrowed for as long; `copy_and_sum_uninit` writes initialised bytes only.
    let destination = unsafe { core::slice::from_raw_parts_mut(start, len) };
    copy_and_sum_uninit(destination, source)
}

/// Copies `source` to `destination`, as [`copy_and_sum`] does, without summing it.
///
/// The C library's copy takes twenty times as long on some processors where `destination` lies a few bytes further in its page
/// than `source` (`cargo bench -p braidnet-wire --bench wire`).
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn copy(destination: &mut [u8], source: &[u8]) {
    assert_eq!(
        destination.len(),
        source.len(),
        "copy between slices of different lengths"
    );
    if source.len() <= SHORT {
        destination.copy_from_slice(source);
    } else {
        copy_only(destination, source);
    }
}

/// [`copy`] for inputs that are worth a call.
#[inline(never)]
fn copy_only(destination: &mut [u8], source: &[u8]) {
    let len = destination.len();
    let start = destination.as_mut_ptr().cast::<MaybeUninit<u8>>();
    // SAFETY: the same bytes, borrowed for as long; initialised bytes only are written.
    let destination = unsafe { core::slice::from_raw_parts_mut(start, len) };
    copy_block::<false>(destination, source);
}

/// Copies `source` to `destination`, all of which is initialised afterwards, and sums it, in one pass.
///
/// # Panics
///
/// If the lengths differ.
#[inline]
pub fn copy_and_sum_uninit(destination: &mut [MaybeUninit<u8>], source: &[u8]) -> Sum {
    assert_eq!(
        destination.len(),
        source.len(),
        "copy between slices of different lengths"
    );
    if source.len() <= SHORT {
        return Sum(scalar::copy_short(destination, source));
    }
    copy_long(destination, source)
}

/// [`copy_and_sum_uninit`] for inputs that are worth a call.
#[inline(never)]
fn copy_long(destination: &mut [MaybeUninit<u8>], source: &[u8]) -> Sum {
    if source.len() <= BLOCK {
        return Sum(copy_block::<true>(destination, source));
    }
    copy_blocks(destination, source)
}

/// [`copy_and_sum_uninit`] for more than one [`BLOCK`].
#[cold]
#[inline(never)]
fn copy_blocks(destination: &mut [MaybeUninit<u8>], source: &[u8]) -> Sum {
    let blocks = destination.chunks_mut(BLOCK).zip(source.chunks(BLOCK));
    blocks.fold(Sum::ZERO, |sum, (destination, source)| {
        sum.combine(Sum(copy_block::<true>(destination, source)))
    })
}

/// The folded sum of at most [`BLOCK`] bytes.
#[inline]
fn sum_block(bytes: &[u8]) -> u16 {
    #[cfg(target_arch = "x86_64")]
    match level::get() {
        // SAFETY: the level says that the processor has what the function needs.
        level::AVX512 => return unsafe { avx512::sum(bytes) },
        // SAFETY: the level says that the processor has what the function needs.
        level::AVX2 => return unsafe { avx2::sum(bytes) },
        _ => {}
    }
    scalar::sum(bytes)
}

/// Copies bytes, if `SUM` at most [`BLOCK`], and returns their folded sum, or else 0; both slices are of one length.
#[inline]
fn copy_block<const SUM: bool>(destination: &mut [MaybeUninit<u8>], source: &[u8]) -> u16 {
    #[cfg(target_arch = "x86_64")]
    match level::get() {
        // SAFETY: the level says that the processor has what the function needs.
        level::AVX512 => return unsafe { avx512::copy::<SUM>(destination, source) },
        // SAFETY: the level says that the processor has what the function needs.
        level::AVX2 => return unsafe { avx2::copy::<SUM>(destination, source) },
        _ => {}
    }
    scalar::copy::<SUM>(destination, source)
}

/// Which implementation the processor can run, looked up once.
#[cfg(target_arch = "x86_64")]
mod level {
    use super::{avx2, avx512};
    use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

    const UNKNOWN: u8 = 0;
    pub(super) const PORTABLE: u8 = 1;
    pub(super) const AVX2: u8 = 2;
    pub(super) const AVX512: u8 = 3;

    /// Every thread that looks it up writes the same, and nothing else hangs on it: relaxed order is enough.
    static LEVEL: AtomicU8 = AtomicU8::new(UNKNOWN);

    #[inline]
    pub(super) fn get() -> u8 {
        match LEVEL.load(Relaxed) {
            UNKNOWN => look_up(),
            level => level,
        }
    }

    #[cold]
    fn look_up() -> u8 {
        let level = match (avx512::is_available(), avx2::is_available()) {
            (true, _) => AVX512,
            (false, true) => AVX2,
            (false, false) => PORTABLE,
        };
        LEVEL.store(level, Relaxed);
        level
    }
}

#[cfg(test)]
mod tests;
