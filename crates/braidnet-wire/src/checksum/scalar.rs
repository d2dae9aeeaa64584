//! Portable sums: 64-bit words added into 128 bits, so that no carry is lost and none is waited for.

use core::mem::MaybeUninit;

/// Bytes summed by one turn of the loop.
const STRIDE: usize = 32;

/// Folds to 16 bits with end-around carries; the result is 0 only for 0.
#[inline]
pub(super) const fn fold(sum: u128) -> u16 {
    let (sum, carry) = (sum as u64).overflowing_add((sum >> 64) as u64);
    fold_word(sum.wrapping_add(carry as u64))
}

/// The folded sum of two times sixteen bytes, and of `rest`, which is less than 2^63.
#[inline]
pub(super) fn sum_pair(first: &[u8; 16], second: &[u8; 16], rest: u64) -> u16 {
    let (first, second) = (u128::from_ne_bytes(*first), u128::from_ne_bytes(*second));
    // Carries go round: what overflows one addition is added by the next.
    let (sum, carry) = first.overflowing_add(second);
    let (sum, carry) = (sum as u64).carrying_add((sum >> 64) as u64, carry);
    let (sum, carry) = sum.carrying_add(rest, carry);
    fold_word(sum.wrapping_add(carry as u64))
}

/// Folds 64 bits to 16.
#[inline]
const fn fold_word(sum: u64) -> u16 {
    // Each half added to the other: the upper half of the result holds the sum and the carry out of the lower one.
    let sum = (sum.wrapping_add(sum.rotate_right(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_right(16)) >> 16) as u16
}

/// The folded sum of bytes of any length.
#[inline(never)]
pub(super) fn sum(bytes: &[u8]) -> u16 {
    let (strides, rest) = bytes.as_chunks::<STRIDE>();
    let mut lanes = [0u128; 2];
    for [a, b] in strides.iter().map(halves) {
        lanes[0] += sum_wide(a);
        lanes[1] += sum_wide(b);
    }
    fold(lanes[0] + lanes[1] + sum_wide_tail(rest))
}

/// [`sum`], written for inputs of a few words and to be inlined.
#[inline]
pub(super) fn sum_short(bytes: &[u8]) -> u16 {
    fold(sum_wide_tail(bytes))
}

/// Copies, and sums if `SUM`; both slices are of one length.
#[inline(never)]
pub(super) fn copy<const SUM: bool>(destination: &mut [MaybeUninit<u8>], source: &[u8]) -> u16 {
    // The block is in the first-level cache when it is read for the second time.
    destination.write_copy_of_slice(source);
    if SUM { sum(source) } else { 0 }
}

/// [`copy`], for inputs of a few words and to be inlined.
#[inline]
pub(super) fn copy_short(destination: &mut [MaybeUninit<u8>], source: &[u8]) -> u16 {
    destination.write_copy_of_slice(source);
    sum_short(source)
}

/// The unfolded sum of sixteen bytes.
#[inline]
pub(super) const fn sum_wide(bytes: &[u8; 16]) -> u128 {
    let [a, b, c, d, e, f, g, h, rest @ ..] = *bytes;
    let first = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
    first as u128 + u64::from_ne_bytes(rest) as u128
}

/// The unfolded sum of a short run of bytes. What is less than a stride goes by halves: a loop would take longer to begin than
/// to run.
#[inline]
fn sum_wide_tail(bytes: &[u8]) -> u128 {
    let mut sum = 0;
    let mut rest = bytes;
    while let Some((stride, behind)) = rest.split_first_chunk::<STRIDE>() {
        let [a, b] = halves(stride);
        sum += sum_wide(a) + sum_wide(b);
        rest = behind;
    }
    if let Some((half, behind)) = rest.split_first_chunk::<16>() {
        sum += sum_wide(half);
        rest = behind;
    }
    if let Some((word, behind)) = rest.split_first_chunk::<8>() {
        sum += u128::from(u64::from_ne_bytes(*word));
        rest = behind;
    }
    if let Some((word, behind)) = rest.split_first_chunk::<4>() {
        sum += u128::from(u32::from_ne_bytes(*word));
        rest = behind;
    }
    if let Some((word, behind)) = rest.split_first_chunk::<2>() {
        sum += u128::from(u16::from_ne_bytes(*word));
        rest = behind;
    }
    if let [byte] = rest {
        sum += u128::from(u16::from_ne_bytes([*byte, 0]));
    }
    sum
}

/// A stride as two runs of sixteen bytes.
#[inline]
fn halves(stride: &[u8; STRIDE]) -> [&[u8; 16]; 2] {
    match stride.as_chunks::<16>().0 {
        [a, b] => [a, b],
        _ => unreachable!("a stride is two runs long"),
    }
}
