//! What applications say to each other: streams that anybody can tell from any other, without keeping them.

use crate::random::mix;

/// The first bytes from a client say which talk this is, and which of its attempts.
pub(crate) const HEAD_BYTES: u64 = 8;

/// One direction of one attempt of a talk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Stream {
    pub(crate) talk: u32,
    pub(crate) attempt: u32,
    /// Whether it comes from the server.
    pub(crate) back: bool,
}

impl Stream {
    fn key(self) -> u64 {
        let talk = u64::from(self.talk) << 32 | u64::from(self.attempt);
        mix(talk ^ if self.back { 0xBAC4 << 48 } else { 0 })
    }

    /// Its bytes from `place` on.
    pub(crate) fn fill(self, place: u64, bytes: &mut [u8]) {
        let key = self.key();
        for (at, byte) in (place..).zip(bytes.iter_mut()) {
            *byte = match (self.back, at) {
                (false, 0..4) => self.talk.to_le_bytes()[at as usize],
                (false, 4..8) => self.attempt.to_le_bytes()[at as usize - 4],
                _ => (mix(key ^ (at / 8)) >> (8 * (at % 8))) as u8,
            };
        }
    }

    /// The place of the first byte that is not the one there.
    pub(crate) fn differs(self, place: u64, bytes: &[u8]) -> Option<u64> {
        let mut expected = vec![0; bytes.len()];
        self.fill(place, &mut expected);
        let same = bytes.iter().zip(&expected).take_while(|(a, b)| a == b);
        let same = same.count();
        (same < bytes.len()).then_some(place + same as u64)
    }
}

/// The talk and the attempt that a client's first bytes name.
pub(crate) fn head(bytes: [u8; HEAD_BYTES as usize]) -> (u32, u32) {
    let [a, b, c, d, e, f, g, h] = bytes;
    (
        u32::from_le_bytes([a, b, c, d]),
        u32::from_le_bytes([e, f, g, h]),
    )
}
