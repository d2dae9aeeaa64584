//! Making room in a table that is full.

use core::hash::Hash;
use std::collections::HashMap;

/// Takes out of `entries` as many as there are beyond `most`, those that come first by `order`; how many. More than one is so where a limit has
/// come down.
pub(crate) fn forget_beyond<K: Hash + Eq + Copy, V, O: Ord>(
    entries: &mut HashMap<K, V>,
    most: usize,
    order: impl Fn(&V) -> O,
) -> u64 {
    let excess = entries.len().saturating_sub(most);
    if excess == 0 {
        return 0;
    }
    let mut all: Vec<(O, K)> = entries
        .iter()
        .map(|(key, value)| (order(value), *key))
        .collect();
    if excess < all.len() {
        all.select_nth_unstable_by(excess, |(one, _), (other, _)| one.cmp(other));
    }
    for (_, key) in &all[..excess] {
        entries.remove(key);
    }
    excess as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_come_first_go() {
        for most in [0, 1, 7, 99, 100, 101, usize::MAX] {
            let mut entries: HashMap<u32, u32> =
                (0..100).map(|key| (key, key * 37 % 100)).collect();
            let gone = forget_beyond(&mut entries, most, |value| *value);
            let left = most.min(100);
            assert_eq!(gone, 100 - left as u64);
            let mut values: Vec<u32> = entries.into_values().collect();
            values.sort_unstable();
            assert_eq!(values, (100 - left as u32..100).collect::<Vec<_>>());
        }
    }
}
