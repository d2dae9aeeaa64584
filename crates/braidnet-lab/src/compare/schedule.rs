//! In which order the cells of a round are measured.

/// Orders of as many items as wanted, one after the other, the same ones for the same seed.
pub(super) struct Shuffler {
    state: u64,
}

impl Shuffler {
    pub(super) fn new(seed: u64) -> Shuffler {
        Shuffler { state: seed }
    }

    /// Puts the items into the next order (Fisher and Yates).
    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let chosen = self.next() % (last as u64 + 1);
            items.swap(last, chosen as usize);
        }
    }

    /// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): every seed is as good as any other.
    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_item_stays_and_a_seed_repeats(seed: u64, length in 0usize..60) {
            let items: Vec<usize> = (0..length).collect();
            let order = |seed| {
                let mut items = items.clone();
                Shuffler::new(seed).shuffle(&mut items);
                items
            };
            let shuffled = order(seed);
            prop_assert_eq!(&shuffled, &order(seed));
            let mut sorted = shuffled;
            sorted.sort_unstable();
            prop_assert_eq!(sorted, items);
        }
    }

    #[test]
    fn rounds_differ_and_no_place_is_preferred() {
        let mut shuffler = Shuffler::new(1);
        let mut seen = [[0u32; 4]; 4];
        for _ in 0..4000 {
            let mut items = [0usize, 1, 2, 3];
            shuffler.shuffle(&mut items);
            for (place, &item) in items.iter().enumerate() {
                seen[place][item] += 1;
            }
        }
        for count in seen.iter().flatten() {
            assert!((850..1150).contains(count), "{seen:?}");
        }
    }
}
