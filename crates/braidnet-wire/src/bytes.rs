//! Fields in network byte order at fixed places.

/// The 16-bit field at `at` of a fixed part.
#[inline]
pub(crate) const fn u16_at<const N: usize>(bytes: &[u8; N], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// The 32-bit field at `at` of a fixed part.
#[inline]
pub(crate) const fn u32_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The four bytes at `at` of a fixed part as they stand there, in the machine's byte order.
#[inline]
pub(crate) const fn wire_word_at<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The `LEN` bytes at `at` of a fixed part.
#[inline]
pub(crate) fn array_at<const LEN: usize, const N: usize>(bytes: &[u8; N], at: usize) -> [u8; LEN] {
    core::array::from_fn(|index| bytes[at + index])
}
