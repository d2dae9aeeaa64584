//! The map manager: from an external identifier (a port, a tuple of addresses) to an internal one (a slot in a table).
//!
//! The x-kernel's map manager as the parallel x-kernel uses it for demultiplexing (PLP §2.1, ASX §2.3.4): chained buckets,
//! a one-behind cache, and iteration during which the map may change. The lock around it is not its business: a map is
//! owned by a processor or stands behind a lock of its user's choice, and iteration holds no state in the map, so the
//! counting lock that the x-kernel needed for recursion has nothing to do here.
//!
//! - The caller brings the hash with the key, because it has computed it already to choose a bucket or a processor. It
//!   must be keyed with a secret where a peer chooses the keys: chains are not bounded, and a peer that knows the
//!   hash can make one as long as the map.
//! - Entries lie in one slab and chains link indices: no allocation per entry, none at all while the map holds no more
//!   entries than ever before.
//! - The table of chains grows by linear hashing (Litwin, 1980): an insertion splits at most one chain, so there is at most
//!   one chain per entry and no pause in which everything is rehashed. What remains is the move of the slab and of the
//!   table when their memory is doubled; [`Map::reserve`] does that ahead of time.
//! - A map refuses entries beyond its configured maximum. It does not shrink.
//!
//! The *one-behind cache* remembers the entry found last, for trains of packets of one connection. It saves the
//! walk down the chain and costs one comparison when it misses; the counters tell which.

/// No entry.
const NIL: u32 = u32::MAX;

/// The map holds as many entries as it was configured for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

impl core::fmt::Display for Full {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("the map is full")
    }
}

impl core::error::Error for Full {}

/// How a map has been used since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct MapCounters {
    /// Calls of [`Map::get`].
    pub lookups: u64,
    /// Lookups that the one-behind cache answered.
    pub one_behind_hits: u64,
    /// Entries looked at in chains by the other lookups. Much more than one per lookup means that the hash is bad or known
    /// to somebody who should not know it.
    pub chain_steps: u64,
    /// Insertions refused because the map was full.
    pub refused: u64,
}

/// Where an iteration has got to. It belongs to no map in particular and holds nothing of it, see [`Map::next_entry`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Cursor {
    next: u32,
}

impl Cursor {
    /// Before the first entry.
    pub const fn new() -> Cursor {
        Cursor { next: 0 }
    }
}

/// An entry, or a free place, linked to the next one of its chain or of the free list.
#[derive(Clone, Debug)]
struct Place<K, V> {
    hash: u64,
    next: u32,
    entry: Option<(K, V)>,
}

/// Chained buckets from keys of type `K` to values of type `V`, under hashes that the caller brings.
///
/// The same key must always come with the same hash. See the [module's text](self).
///
/// ```
/// use braidnet_stream::map::{Full, Map};
///
/// let hash = |port: u16| u64::from(port).wrapping_mul(0x9E37_79B9_7F4A_7C15); // keyed, in earnest
/// let mut listeners = Map::new(2, true);
/// listeners.insert(hash(80), 80u16, "web")?;
/// listeners.insert(hash(25), 25, "mail")?;
/// assert_eq!(listeners.insert(hash(22), 22, "shell"), Err(Full));
/// assert_eq!(listeners.get(hash(80), &80), Some(&"web"));
/// assert_eq!(listeners.remove(hash(80), &80), Some("web"));
/// # Ok::<(), Full>(())
/// ```
#[derive(Clone, Debug)]
pub struct Map<K, V> {
    /// Where the entry found last was, if the cache is on. It may be gone, or another be there: whoever looks compares.
    last: u32,
    one_behind: bool,
    /// All ones, at least as many as `heads` has bits in an index.
    mask: u32,
    heads: Vec<u32>,
    places: Vec<Place<K, V>>,
    free: u32,
    len: u32,
    maximum: u32,
    one_behind_hits: u64,
    /// Lookups that went down a chain.
    walks: u64,
    chain_steps: u64,
    refused: u64,
}

impl<K: Eq, V> Map<K, V> {
    /// An empty map for at most `maximum` entries (2^32 - 1 if that is less), with or without a one-behind cache.
    pub const fn new(maximum: usize, one_behind: bool) -> Map<K, V> {
        Map {
            last: NIL,
            one_behind,
            mask: 0,
            heads: Vec::new(),
            places: Vec::new(),
            free: NIL,
            len: 0,
            maximum: if maximum < NIL as usize {
                maximum as u32
            } else {
                NIL
            },
            one_behind_hits: 0,
            walks: 0,
            chain_steps: 0,
            refused: 0,
        }
    }

    /// Makes room for `entries` more entries, the maximum permitting, so that inserting them does not allocate.
    pub fn reserve(&mut self, entries: usize) {
        let total = entries
            .saturating_add(self.len())
            .min(self.maximum as usize);
        self.places.reserve(total.saturating_sub(self.places.len()));
        self.heads.reserve(total.saturating_sub(self.heads.len()));
    }

    /// The value under `key`. Counts, and remembers the entry if the one-behind cache is on.
    #[inline]
    pub fn get(&mut self, hash: u64, key: &K) -> Option<&V> {
        if let Some(place) = self.places.get(self.last as usize)
            && let Some(value) = place.under(hash, key)
        {
            self.one_behind_hits += 1;
            return Some(value);
        }
        let (index, steps) = self.find(hash, key);
        self.walks += 1;
        self.chain_steps += steps;
        if self.one_behind && index != NIL {
            self.last = index;
        }
        self.value(index)
    }

    /// The value under `key`, neither counted nor remembered: for those who read a map that is shared.
    #[inline]
    pub fn peek(&self, hash: u64, key: &K) -> Option<&V> {
        self.value(self.find(hash, key).0)
    }

    /// Puts `value` under `key` and hands back what was there before.
    ///
    /// # Errors
    /// [`Full`] if `key` is new and the map holds as many entries as it may; nothing is changed.
    pub fn insert(&mut self, hash: u64, key: K, value: V) -> Result<Option<V>, Full> {
        let (found, _) = self.find(hash, &key);
        if let Some((_, old)) = self
            .places
            .get_mut(found as usize)
            .and_then(|place| place.entry.as_mut())
        {
            return Ok(Some(core::mem::replace(old, value)));
        }
        if self.len == self.maximum {
            self.refused += 1;
            return Err(Full);
        }
        self.len += 1;
        self.grow();
        let head = self.chain_of(hash);
        let index = self.take_place(Place {
            hash,
            next: self.heads[head],
            entry: Some((key, value)),
        });
        self.heads[head] = index;
        Ok(None)
    }

    /// Takes the entry under `key` out and hands its value back.
    pub fn remove(&mut self, hash: u64, key: &K) -> Option<V> {
        if self.heads.is_empty() {
            return None;
        }
        let head = self.chain_of(hash);
        let (mut before, mut index) = (NIL, self.heads[head]);
        while index != NIL && !self.places[index as usize].is(hash, key) {
            (before, index) = (index, self.places[index as usize].next);
        }
        let place = self.places.get_mut(index as usize)?;
        let (_, value) = place.entry.take()?;
        let next = core::mem::replace(&mut place.next, self.free);
        self.free = index;
        self.len -= 1;
        match self.places.get_mut(before as usize) {
            Some(before) => before.next = next,
            None => self.heads[head] = next,
        }
        Some(value)
    }

    /// The next entry of an iteration, with its hash; `None` after the last.
    ///
    /// Between two calls the map may be changed at will, and iterated recursively: the cursor holds nothing of it. An entry
    /// that is in the map throughout is visited exactly once, one that is inserted meanwhile at most once per insertion, one
    /// that is removed before its turn not at all. The order means nothing. A whole iteration costs as many steps as the
    /// map has ever held entries at once.
    ///
    /// ```
    /// # use braidnet_stream::map::{Cursor, Full, Map};
    /// # let mut map = Map::new(10, false);
    /// # for slot in 0..10u64 { map.insert(slot, slot, slot as u32)?; }
    /// let mut cursor = Cursor::new();
    /// while let Some((hash, &key, &slot)) = map.next_entry(&mut cursor) {
    ///     if slot % 2 == 0 {
    ///         map.remove(hash, &key);
    ///     }
    /// }
    /// # assert_eq!(map.len(), 5);
    /// # Ok::<(), Full>(())
    /// ```
    pub fn next_entry(&self, cursor: &mut Cursor) -> Option<(u64, &K, &V)> {
        for place in self.places.get(cursor.next as usize..)? {
            cursor.next += 1;
            if let Some((key, value)) = &place.entry {
                return Some((place.hash, key, value));
            }
        }
        None
    }

    /// Calls `visit` with every entry (the x-kernel's `mapForEach`). To change the map meanwhile, use
    /// [`next_entry`](Self::next_entry).
    pub fn for_each(&self, mut visit: impl FnMut(&K, &V)) {
        let mut cursor = Cursor::new();
        while let Some((_, key, value)) = self.next_entry(&mut cursor) {
            visit(key, value);
        }
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The most entries that the map takes.
    pub fn maximum(&self) -> usize {
        self.maximum as usize
    }

    /// Lookups that the one-behind cache did not answer.
    #[inline]
    pub fn walks(&self) -> u64 {
        self.walks
    }

    /// How the map has been used.
    pub fn counters(&self) -> MapCounters {
        MapCounters {
            lookups: self.one_behind_hits + self.walks,
            one_behind_hits: self.one_behind_hits,
            chain_steps: self.chain_steps,
            refused: self.refused,
        }
    }
}

impl<K: Eq, V> Place<K, V> {
    #[inline]
    fn is(&self, hash: u64, key: &K) -> bool {
        self.under(hash, key).is_some()
    }

    /// The value, if this is the place of `key`.
    #[inline]
    fn under(&self, hash: u64, key: &K) -> Option<&V> {
        let (own, value) = self.entry.as_ref()?;
        (self.hash == hash && own == key).then_some(value)
    }
}

/// Chains and places.
impl<K: Eq, V> Map<K, V> {
    #[inline]
    fn value(&self, index: u32) -> Option<&V> {
        self.places
            .get(index as usize)?
            .entry
            .as_ref()
            .map(|(_, value)| value)
    }

    /// The index of the entry under `key`, or `NIL`, and how many entries were looked at.
    #[inline(never)]
    fn find(&self, hash: u64, key: &K) -> (u32, u64) {
        let mut steps = 0;
        let mut index = self.heads.get(self.chain_of(hash)).copied().unwrap_or(NIL);
        while let Some(place) = self.places.get(index as usize) {
            steps += 1;
            if place.is(hash, key) {
                break;
            }
            index = place.next;
        }
        (index, steps)
    }

    /// The chain for `hash`: linear hashing over a product, so that it makes no difference which bits of the hash the caller
    /// has used up to choose this map among several.
    #[inline]
    fn chain_of(&self, hash: u64) -> usize {
        let mixed = (hash.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32;
        let chain = (mixed & self.mask) as usize;
        if chain < self.heads.len() {
            chain
        } else {
            chain & (self.mask >> 1) as usize
        }
    }

    /// Adds a chain if there are fewer than entries, and moves what belongs there from the chain that served it so far.
    fn grow(&mut self) {
        let added = self.heads.len();
        if added >= self.len as usize {
            return;
        }
        self.heads.push(NIL);
        if added == 0 {
            return;
        }
        // The lowest mask that spans the new index; the chain to split is that index without its highest bit.
        self.mask = u32::MAX >> (added as u32).leading_zeros();
        let split = added & (self.mask >> 1) as usize;
        let mut index = core::mem::replace(&mut self.heads[split], NIL);
        let mut ends = [NIL; 2];
        while index != NIL {
            let next = core::mem::replace(&mut self.places[index as usize].next, NIL);
            let chain = self.chain_of(self.places[index as usize].hash);
            let end = core::mem::replace(&mut ends[usize::from(chain == added)], index);
            match self.places.get_mut(end as usize) {
                Some(end) => end.next = index,
                None => self.heads[chain] = index,
            }
            index = next;
        }
    }

    fn take_place(&mut self, place: Place<K, V>) -> u32 {
        if let Some(free) = self.places.get_mut(self.free as usize) {
            let index = self.free;
            self.free = free.next;
            *free = place;
            return index;
        }
        let index = self.places.len() as u32;
        self.places.push(place);
        index
    }
}

#[cfg(test)]
mod tests;
