//! What the applications send, and how they look at what they receive.

use crate::side::MESSAGE_BYTES;

/// Messages before the content repeats: 256 KiB of distinct bytes.
const MESSAGES: usize = 64;

/// The sending application's memory.
pub struct Payload {
    bytes: Vec<u8>,
}

impl Payload {
    /// The same bytes every time.
    pub fn new() -> Payload {
        let mut state = 0x6272_6169_646e_6574u64;
        let words = MESSAGES * MESSAGE_BYTES / 8;
        let bytes = (0..words)
            .flat_map(|_| {
                // xorshift64
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                state.to_le_bytes()
            })
            .collect();
        Payload { bytes }
    }

    /// Message number `index` of a connection.
    pub fn message(&self, index: u64) -> &[u8] {
        let at = (index % MESSAGES as u64) as usize * MESSAGE_BYTES;
        &self.bytes[at..at + MESSAGE_BYTES]
    }

    /// Byte number `index`, for loads of single bytes.
    pub fn byte(&self, index: u64) -> u8 {
        self.bytes[(index % self.bytes.len() as u64) as usize]
    }
}

/// What the receiving application makes of its messages.
#[derive(Default)]
pub struct Digest(u64);

impl Digest {
    /// Takes in every byte: for runs that are not timed.
    pub fn all(&mut self, message: &[u8]) {
        for word in message.chunks(8) {
            let mut bytes = [0; 8];
            bytes[..word.len()].copy_from_slice(word);
            self.add(u64::from_le_bytes(bytes));
        }
    }

    /// Takes in eight bytes, at a place that moves with `index` and reaches all of a message: costs a nanosecond.
    #[inline]
    pub fn sample(&mut self, index: u64, message: &[u8; MESSAGE_BYTES]) {
        let (words, _) = message.as_chunks::<8>();
        // An odd step reaches every word; it shares no factor with the rotation of the payload.
        let at = (index.wrapping_mul(37) + index / MESSAGES as u64) as usize % words.len();
        self.add(u64::from_le_bytes(words[at]));
    }

    /// The hash so far.
    pub fn value(&self) -> u64 {
        self.0
    }

    #[inline]
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn messages_are_distinct_until_they_repeat() {
        let payload = Payload::new();
        let distinct: HashSet<&[u8]> = (0..MESSAGES as u64).map(|i| payload.message(i)).collect();
        assert_eq!(distinct.len() * MESSAGE_BYTES, 256 * 1024);
        assert_eq!(payload.message(3), payload.message(3 + MESSAGES as u64));
    }

    #[test]
    fn a_digest_tells_content_and_order() {
        let payload = Payload::new();
        let of = |order: [u64; 2], flip: u8| {
            let mut digest = Digest::default();
            for index in order {
                let mut message = payload.message(index).to_vec();
                message[4095] ^= flip;
                digest.all(&message);
            }
            digest.value()
        };
        assert_eq!(of([0, 1], 0), of([64, 65], 0));
        assert_ne!(of([0, 1], 0), of([1, 0], 0));
        assert_ne!(of([0, 1], 0), of([0, 1], 1));
    }

    #[test]
    fn samples_reach_every_word() {
        let mut seen = HashSet::new();
        for index in 0..4096 {
            let reached = (0..MESSAGE_BYTES / 8).find(|&word| {
                let mut marked = [0; MESSAGE_BYTES];
                marked[word * 8] = 1;
                let (mut one, mut other) = (Digest::default(), Digest::default());
                one.sample(index, &marked);
                other.sample(index, &[0; MESSAGE_BYTES]);
                one.value() != other.value()
            });
            seen.insert(reached.expect("one word is looked at"));
        }
        assert_eq!(seen.len(), MESSAGE_BYTES / 8);
    }
}
