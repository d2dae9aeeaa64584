use super::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{HashMap, HashSet};

/// A hash good enough for tests: the finaliser of SplitMix64.
fn spread(key: u32) -> u64 {
    let mut hash = u64::from(key)
        .wrapping_add(1)
        .wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    hash ^ hash >> 31
}

fn filled(entries: u32, one_behind: bool) -> Map<u32, u32> {
    let mut map = Map::new(entries as usize, one_behind);
    for key in 0..entries {
        assert_eq!(map.insert(spread(key), key, key + 1), Ok(None));
    }
    map
}

/// Every chain holds what belongs to it, all entries are in chains, and free places and entries make up the slab.
fn check(map: &Map<u32, u32>) {
    let mut seen = 0;
    for (chain, &head) in map.heads.iter().enumerate() {
        let mut index = head;
        while index != NIL {
            let place = &map.places[index as usize];
            assert!(place.entry.is_some());
            assert_eq!(map.chain_of(place.hash), chain);
            seen += 1;
            index = place.next;
        }
    }
    let mut free = 0;
    let mut index = map.free;
    while index != NIL {
        assert!(map.places[index as usize].entry.is_none());
        free += 1;
        index = map.places[index as usize].next;
    }
    assert_eq!((seen, seen + free), (map.len(), map.places.len()));
    assert!(map.heads.len() <= map.places.len());
}

#[test]
fn a_full_map_refuses_new_keys_only() {
    let mut map = filled(3, false);
    assert_eq!(map.insert(spread(3), 3, 0), Err(Full));
    assert_eq!(map.insert(spread(1), 1, 9), Ok(Some(2)));
    assert_eq!(map.remove(spread(0), &0), Some(1));
    assert_eq!(map.insert(spread(3), 3, 0), Ok(None));
    assert_eq!((map.len(), map.counters().refused), (3, 1));
    assert_eq!(Map::new(0, true).insert(0, 0u32, 0u32), Err(Full));
}

#[test]
fn the_one_behind_cache_answers_repetitions_and_forgets_the_removed() {
    let mut map = filled(100, true);
    for (key, hits) in [(7, 0), (7, 1), (7, 2), (8, 2), (7, 2), (7, 3)] {
        assert_eq!(map.get(spread(key), &key), Some(&(key + 1)));
        assert_eq!(map.counters().one_behind_hits, hits, "{key}");
    }
    assert_eq!(map.insert(spread(7), 7, 0), Ok(Some(8)));
    assert_eq!(map.get(spread(7), &7), Some(&0));
    assert_eq!(map.remove(spread(7), &7), Some(0));
    assert_eq!(map.get(spread(7), &7), None);
    // A new key takes the place of the removed one, which the cache must not mistake for it.
    map.insert(spread(500), 500, 1).unwrap();
    assert_eq!(map.get(spread(7), &7), None);
    assert_eq!(map.counters().one_behind_hits, 4);

    let mut plain = filled(100, false);
    (0..2).for_each(|_| assert_eq!(plain.get(spread(7), &7), Some(&8)));
    assert_eq!(plain.counters().one_behind_hits, 0);
}

#[test]
fn chains_stay_short_as_the_map_grows() {
    for entries in [1u32, 2, 3, 100, 1000, 1025, 50_000] {
        let mut map = filled(entries, false);
        check(&map);
        for key in 0..entries {
            assert_eq!(map.get(spread(key), &key), Some(&(key + 1)));
        }
        let counters = map.counters();
        assert!(
            counters.chain_steps <= counters.lookups * 2,
            "{entries}: {counters:?}"
        );
    }
}

#[test]
fn hash_bits_that_chose_the_map_do_not_lengthen_its_chains() {
    for used in [0xFFFu64, 0xFFF << 52, 0xFFF << 26] {
        let mut map = Map::new(4096, false);
        (0..4096).for_each(|key| assert_eq!(map.insert(spread(key) | used, key, key), Ok(None)));
        (0..4096).for_each(|key| assert_eq!(map.get(spread(key) | used, &key), Some(&key)));
        assert!(
            map.counters().chain_steps < 3 * 4096,
            "{used:x}: {:?}",
            map.counters()
        );
    }
}

#[test]
fn equal_hashes_are_told_apart_by_their_keys_and_show_in_the_counters() {
    let mut map = Map::new(1000, false);
    (0..100u32).for_each(|key| assert_eq!(map.insert(5, key, key), Ok(None)));
    check(&map);
    (0..100).for_each(|key| assert_eq!(map.get(5, &key), Some(&key)));
    assert_eq!(map.counters().chain_steps, 100 * 101 / 2);
    assert_eq!(map.get(5, &100), None);
    (0..100)
        .rev()
        .step_by(2)
        .for_each(|key| assert_eq!(map.remove(5, &key), Some(key)));
    check(&map);
    (0..100).for_each(|key| assert_eq!(map.peek(5, &key).copied(), (key % 2 == 0).then_some(key)));
}

#[test]
fn nothing_is_allocated_once_the_places_are_there() {
    let mut map = Map::new(64, true);
    map.reserve(1_000_000);
    let room = (map.places.capacity(), map.heads.capacity());
    assert!(room.0 < 1000, "no more than the maximum is reserved");
    for key in 0..10_000u32 {
        map.insert(spread(key), key, key).unwrap();
        if key >= 63 {
            assert_eq!(map.remove(spread(key - 63), &(key - 63)), Some(key - 63));
        }
    }
    assert_eq!((map.places.capacity(), map.heads.capacity()), room);
}

#[derive(Clone, Debug)]
enum Action {
    Insert(u32, u32),
    Remove(u32),
    Get(u32),
    /// A step of the iteration, after which the map changes again.
    Step,
}

fn action() -> impl Strategy<Value = Action> {
    let key = || prop_oneof![0..16u32, 0..400u32];
    prop_oneof![
        4 => (key(), any::<u32>()).prop_map(|(key, value)| Action::Insert(key, value)),
        2 => key().prop_map(Action::Remove),
        3 => key().prop_map(Action::Get),
        3 => Just(Action::Step),
    ]
}

/// What one iteration must and may visit.
#[derive(Default)]
struct Visits {
    cursor: Cursor,
    throughout: HashSet<u32>,
    visited: HashMap<u32, usize>,
    inserted: HashMap<u32, usize>,
}

fn check_against_model(
    actions: Vec<Action>,
    hash: fn(u32) -> u64,
    one_behind: bool,
) -> Result<(), TestCaseError> {
    const MAXIMUM: usize = 150;
    let mut map = Map::new(MAXIMUM, one_behind);
    let mut model = HashMap::new();
    let mut visits = Visits::default();
    for action in actions {
        match action {
            Action::Insert(key, value) => {
                let expected = match model.get(&key) {
                    None if model.len() == MAXIMUM => Err(Full),
                    _ => Ok(model.insert(key, value)),
                };
                if expected == Ok(None) {
                    *visits.inserted.entry(key).or_default() += 1;
                }
                prop_assert_eq!(map.insert(hash(key), key, value), expected);
            }
            Action::Remove(key) => {
                visits.throughout.remove(&key);
                prop_assert_eq!(map.remove(hash(key), &key), model.remove(&key));
            }
            Action::Get(key) => {
                prop_assert_eq!(map.peek(hash(key), &key), model.get(&key));
                prop_assert_eq!(map.get(hash(key), &key), model.get(&key));
            }
            Action::Step => match map.next_entry(&mut visits.cursor) {
                Some((own, key, value)) => {
                    prop_assert_eq!((own, Some(value)), (hash(*key), model.get(key)));
                    *visits.visited.entry(*key).or_default() += 1;
                    let most = usize::from(visits.throughout.contains(key)).max(1)
                        + visits.inserted.get(key).unwrap_or(&0);
                    prop_assert!(visits.visited[key] <= most);
                }
                None => {
                    prop_assert!(
                        visits
                            .throughout
                            .iter()
                            .all(|key| visits.visited.get(key) == Some(&1))
                    );
                    visits = Visits {
                        throughout: model.keys().copied().collect(),
                        ..Visits::default()
                    };
                }
            },
        }
        prop_assert_eq!(map.len(), model.len());
    }
    check(&map);
    let mut left = HashMap::new();
    map.for_each(|&key, &value| assert!(left.insert(key, value).is_none()));
    prop_assert_eq!(left, model);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn agrees_with_a_hash_map(actions in vec(action(), 1..1500), one_behind: bool) {
        check_against_model(actions, spread, one_behind)?;
    }

    #[test]
    fn agrees_with_a_hash_map_when_hashes_collide(actions in vec(action(), 1..600), one_behind: bool) {
        check_against_model(actions.clone(), |_| 42, one_behind)?;
        check_against_model(actions, |key| u64::from(key % 3), one_behind)?;
    }
}
