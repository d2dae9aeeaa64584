//! The internet checksum (RFC 1071).

/// The ones' complement sum of some bytes, folded to 16 bits, not complemented, in the byte order of the machine's
/// loads (RFC 1071 §2B: the sum is independent of byte order as long as it is stored the way it was loaded).
///
/// Sums of adjacent byte runs combine with [`Sum::then`], which knows that a run that starts at an odd offset adds with
/// its bytes swapped (RFC 1071 §2A).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sum(pub u16);
