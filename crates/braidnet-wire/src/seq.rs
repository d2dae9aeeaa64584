//! TCP sequence numbers (RFC 9293 §3.4): arithmetic modulo 2^32, and no order.

use core::ops::{Add, AddAssign, Sub};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// A TCP sequence number.
///
/// It has no `Ord`: "less than" means something only inside a window of 2^31, and the methods
/// say so by name.
///
/// ```
/// use braidnet_wire::seq::SeqNumber;
/// let last = SeqNumber::new(u32::MAX);
/// assert!(last.is_before(last + 1));
/// assert_eq!((last + 3) - last, 3);
/// ```
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, Debug, Default, FromBytes, IntoBytes, Immutable, KnownLayout,
)]
#[repr(transparent)]
pub struct SeqNumber(u32);

impl SeqNumber {
    /// The sequence number with this value.
    pub const fn new(value: u32) -> Self {
        SeqNumber(value)
    }

    /// Its value on the wire.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// Whether it precedes `other`, both taken to lie within 2^31 of each other.
    pub const fn is_before(self, other: SeqNumber) -> bool {
        (self.0.wrapping_sub(other.0) as i32) < 0
    }

    /// Whether it precedes or equals `other`.
    pub const fn is_at_or_before(self, other: SeqNumber) -> bool {
        (self.0.wrapping_sub(other.0) as i32) <= 0
    }

    /// Whether it follows `other`.
    pub const fn is_after(self, other: SeqNumber) -> bool {
        (self.0.wrapping_sub(other.0) as i32) > 0
    }

    /// Whether it follows or equals `other`.
    pub const fn is_at_or_after(self, other: SeqNumber) -> bool {
        (self.0.wrapping_sub(other.0) as i32) >= 0
    }

    /// The later of the two.
    pub const fn latest(self, other: SeqNumber) -> SeqNumber {
        if self.is_before(other) { other } else { self }
    }

    /// The earlier of the two.
    pub const fn earliest(self, other: SeqNumber) -> SeqNumber {
        if self.is_before(other) { self } else { other }
    }
}

impl Add<u32> for SeqNumber {
    type Output = SeqNumber;

    fn add(self, by: u32) -> SeqNumber {
        SeqNumber(self.0.wrapping_add(by))
    }
}

impl AddAssign<u32> for SeqNumber {
    fn add_assign(&mut self, by: u32) {
        *self = *self + by;
    }
}

impl Sub<u32> for SeqNumber {
    type Output = SeqNumber;

    fn sub(self, by: u32) -> SeqNumber {
        SeqNumber(self.0.wrapping_sub(by))
    }
}

/// The distance from `earlier` up to `self`, modulo 2^32.
impl Sub<SeqNumber> for SeqNumber {
    type Output = u32;

    fn sub(self, earlier: SeqNumber) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Class 48: the order holds across the wrap, for distances below 2^31.
        #[test]
        fn order_follows_distance(start: u32, distance in 1u32..1 << 31) {
            let (earlier, later) = (SeqNumber::new(start), SeqNumber::new(start) + distance);
            prop_assert_eq!((later - earlier, later - distance), (distance, earlier));
            prop_assert!(earlier.is_before(later) && earlier.is_at_or_before(later));
            prop_assert!(later.is_after(earlier) && later.is_at_or_after(earlier));
            prop_assert!(!later.is_at_or_before(earlier) && !earlier.is_at_or_after(later));
            prop_assert_eq!((earlier.latest(later), later.latest(earlier)), (later, later));
            prop_assert_eq!((earlier.earliest(later), later.earliest(earlier)), (earlier, earlier));
        }

        #[test]
        fn nothing_is_before_itself(start: u32) {
            let here = SeqNumber::new(start);
            prop_assert!(!here.is_before(here) && !here.is_after(here));
            prop_assert!(here.is_at_or_before(here) && here.is_at_or_after(here));
        }
    }
}
