//! Buckets that move from one home to another.
//!
//! Where buckets are [leased](crate::perimeter), a home that has had guests for a while may give some of its buckets away for good, so that
//! each processor has its own again and nothing is shared. A bucket is taken out by a home that is alone, and has nothing of it under way;
//! it goes as one box, with the state of every module, its numbers and the order that waits there. Whoever it is given to puts it among its own
//! between taking packets in and working on them, and sets its deadline. Who tells the processors whose packets are whose has to see to it that
//! a packet for it is taken only where the bucket is, or is on its way to.

use crate::bucket::BucketId;
use crate::cluster::Cluster;
use crate::context::Context;
use crate::counters::StreamCounter;
use crate::pass::{Came, Pass, rearm};
use crate::perimeter::Store;
use crate::perimeter::shared::{Kept, SharedBucket};

/// A bucket on its way from one home to another.
pub struct Migrant(Box<SharedBucket>);

impl Migrant {
    /// Which it is.
    pub fn id(&self) -> BucketId {
        self.0.id
    }
}

impl Cluster {
    /// Whether nothing is under way here that could still come to a bucket, or from one to the device.
    pub fn is_still(&self) -> bool {
        !self.is_backed_up() && self.carries_nothing() && !self.pass.work.is_carrying_up()
    }

    /// Takes out a bucket that is at home here, to be [put among the own](crate::Tail::migrant) with another processor. `None` if it is not, or has
    /// guests, or something is [under way](Cluster::is_still).
    pub fn send_off(&mut self, id: BucketId) -> Option<Migrant> {
        if !self.is_still() {
            return None;
        }
        let Store::Leased(leases) = &mut self.pass.buckets.0 else {
            return None;
        };
        let migrant = leases.take(id).map(Migrant)?;
        self.count(StreamCounter::Moved, 1);
        Some(migrant)
    }

    /// Counts from now on what is brought to leased buckets, by this processor and others.
    pub fn start_tally(&mut self) {
        self.pass.work.tally.start();
    }

    /// Counts no more, and says of each bucket at home here how many messages have been brought to it since, as far as this processor has seen.
    pub fn end_tally(&mut self, mut each: impl FnMut(BucketId, u32)) {
        let (tally, buckets) = (&mut self.pass.work.tally, &mut self.pass.buckets);
        if let Store::Leased(leases) = &mut buckets.0 {
            for counted in tally.counted.iter().filter(|it| leases.is_own(it.id)) {
                each(counted.id, counted.last.wrapping_sub(counted.before));
            }
        }
        tally.is_on = false;
    }

    /// How many messages have been brought to leased buckets at home here in all the time in which nobody else entered them.
    pub fn brought_alone(&self) -> u64 {
        self.pass.work.tally.alone
    }
}

/// What is brought to shared buckets, as one processor sees it when it is inside.
#[derive(Default)]
pub(crate) struct Tally {
    is_on: bool,
    /// By bucket its place among the counted, from 1.
    places: Vec<u32>,
    counted: Vec<Counted>,
    /// What was brought to buckets that nobody else entered.
    alone: u64,
}

/// What had been brought to a bucket before it was first entered, and when it was last left.
struct Counted {
    id: BucketId,
    before: u32,
    last: u32,
}

/// Buckets that are counted at most: those that much is brought to are among the first.
const COUNTED: usize = 4096;

impl Tally {
    pub(crate) fn reserve(&mut self, buckets: usize) {
        self.places.resize(buckets, 0);
        self.counted.reserve(buckets.min(COUNTED));
    }

    fn start(&mut self) {
        self.is_on = true;
        for counted in self.counted.drain(..) {
            self.places[counted.id.index()] = 0;
        }
    }

    /// Inside a bucket that nobody else enters, with what `came` for it.
    #[inline]
    pub(crate) fn note_alone(&mut self, kept: &mut Kept, came: &Option<Came<'_, '_>>) {
        let messages = came.as_ref().map_or(0, |(_, run)| run.len());
        kept.served = kept.served.wrapping_add(messages as u32);
        self.alone += messages as u64;
    }

    /// Inside a bucket, with what `came` for it.
    #[inline]
    pub(crate) fn note(&mut self, kept: &mut Kept, id: BucketId, came: &Option<Came<'_, '_>>) {
        let messages = came.as_ref().map_or(0, |(_, run)| run.len() as u32);
        let before = kept.served;
        kept.served = before.wrapping_add(messages);
        if self.is_on {
            self.count(id, before, kept.served);
        }
    }

    #[cold]
    fn count(&mut self, id: BucketId, before: u32, last: u32) {
        let Some(place) = self.places.get_mut(id.index()) else {
            return;
        };
        if *place == 0 {
            if self.counted.len() == COUNTED {
                return;
            }
            self.counted.push(Counted { id, before, last });
            *place = self.counted.len() as u32;
        }
        self.counted[*place as usize - 1].last = last;
    }
}

impl Pass {
    /// Puts a bucket among those at home here.
    #[cold]
    pub(crate) fn settle(&mut self, cx: &mut Context<'_>, Migrant(bucket): Migrant) {
        let Store::Leased(leases) = &mut self.buckets.0 else {
            return;
        };
        let id = bucket.id;
        let is_new = leases.put(bucket).is_ok();
        debug_assert!(is_new, "a bucket is in one place at a time");
        if let Some(found) = leases.find_own(id) {
            rearm(found, self.reach, cx, &mut self.work, &mut self.inner);
        }
    }
}
