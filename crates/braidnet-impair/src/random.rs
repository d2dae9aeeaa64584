//! Numbers drawn by a seed.

use crate::share::{Share, WHOLE};

/// SplitMix64 (Steele, Lea and Flood 2014): any seed is as good as any other, 0 included.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of this number under this seed: sequences of one seed have nothing to do with each other.
    pub fn new(seed: u64, sequence: u64) -> Random {
        let mut of_seed = Random(seed);
        let mut of_sequence = Random(of_seed.word() ^ sequence);
        Random(of_sequence.word())
    }

    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// 0 to `most`, both included, each as likely as any other but for 1 part in 2^64 / `most`.
    pub fn up_to(&mut self, most: u64) -> u64 {
        let wide = u128::from(self.word()) * (u128::from(most) + 1);
        (wide >> 64) as u64
    }

    /// True for this share of draws. Nothing is drawn where the answer is known.
    #[inline]
    pub fn chance(&mut self, share: Share) -> bool {
        !share.is_none() && self.up_to(u64::from(WHOLE) - 1) < u64::from(share.parts())
    }
}
