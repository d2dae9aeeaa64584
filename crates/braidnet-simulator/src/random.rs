//! Numbers drawn by a seed.

/// SplitMix64: any seed is as good as any other, 0 included.
#[derive(Clone, Debug)]
pub(crate) struct Random(u64);

/// One step of SplitMix64.
pub(crate) const fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub(crate) fn word(&mut self) -> u64 {
        let word = mix(self.0);
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        word
    }

    /// 0 to `bound` - 1; 0 if `bound` is 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.word().checked_rem(bound).unwrap_or(0)
    }

    /// `from` to `to`, both included.
    pub(crate) fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to.saturating_sub(from) + 1)
    }

    /// True `per_mille` times in a thousand.
    pub(crate) fn chance(&mut self, per_mille: u64) -> bool {
        self.below(1000) < per_mille
    }

    pub(crate) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }

    /// A number whose size is drawn first, so that small ones come as often as large ones: 1 to `most`.
    pub(crate) fn sized(&mut self, most: u64) -> u64 {
        let bits = u64::from(most.max(1).ilog2()) + 1;
        let below = 1u64 << self.between(1, bits).min(63);
        (1 + self.below(below)).min(most)
    }

    /// Another sequence.
    pub(crate) fn fork(&mut self) -> Random {
        Random(self.word())
    }
}
