//! Numbers drawn by a seed.

/// SplitMix64: any seed is as good as any other, 0 included.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// 0 to `bound` - 1; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.word().checked_rem(bound).unwrap_or(0)
    }

    /// `from` to `to`, both included.
    pub fn between(&mut self, from: u64, to: u64) -> u64 {
        from + self.below(to - from + 1)
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize].clone()
    }

    /// A number whose size is drawn first, so that small ones come as often as large ones: 1 to `most`.
    pub fn sized(&mut self, most: u64) -> u64 {
        let bits = u64::from(most.ilog2()) + 1;
        let below = 1u64 << self.between(1, bits);
        (1 + self.below(below)).min(most)
    }

    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len.div_ceil(8))
            .flat_map(|_| self.word().to_le_bytes())
            .take(len)
            .collect()
    }
}
