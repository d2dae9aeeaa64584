//! A batch grouped by bucket.

use crate::bucket::BucketId;
use crate::queues::reserve;
use braidnet_message::Run;

/// A batch grouped by bucket, in the order of first appearance; inside a group the order of arrival stays.
#[derive(Default)]
pub(crate) struct Groups {
    runs: Vec<(BucketId, Run)>,
    used: usize,
    /// The first of them that is still to come.
    next: usize,
    /// For each bucket its group in this batch, plus one.
    of_bucket: Vec<u16>,
}

/// Most groups that memory is taken for beforehand: a batch has seldom more.
const BATCH: usize = 64;

impl Groups {
    pub(crate) fn new(buckets: u32) -> Groups {
        Groups {
            runs: Vec::new(),
            used: 0,
            next: 0,
            of_bucket: vec![0; buckets as usize],
        }
    }

    /// Takes memory for batches of so many messages, of a bucket each or of one.
    pub(crate) fn reserve(&mut self, messages: usize) {
        let groups = messages.min(self.of_bucket.len()).min(BATCH);
        self.runs.resize_with(self.runs.len().max(groups), || {
            (BucketId::DEVICE, Run::new())
        });
        for (_, run) in &mut self.runs {
            reserve(run, messages);
        }
    }

    /// Deals the messages of `run` to their groups.
    pub(crate) fn fill(&mut self, run: &mut Run) {
        for message in run.drain() {
            let bucket = message.bucket();
            let Some(group) = self.of_bucket.get_mut(usize::from(bucket)) else {
                // A bucket that the stack does not have: our own fault, and there is nowhere to take it.
                debug_assert!(false, "bucket {bucket} does not exist");
                continue;
            };
            if *group == 0 {
                if self.used == self.runs.len() {
                    self.runs.push((BucketId(bucket), Run::new()));
                }
                self.runs[self.used].0 = BucketId(bucket);
                self.used += 1;
                *group = self.used as u16;
            }
            self.runs[usize::from(*group) - 1].1.push(message);
        }
    }

    /// The next group: its bucket, and its messages in the place of what is in `run`, which is dropped. `None` after the last.
    #[inline]
    pub(crate) fn next(&mut self, run: &mut Run) -> Option<BucketId> {
        if self.next == self.used {
            run.clear();
            (self.used, self.next) = (0, 0);
            return None;
        }
        let (bucket, group) = &mut self.runs[self.next];
        run.take_over(group);
        self.of_bucket[bucket.index()] = 0;
        self.next += 1;
        Some(*bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_message::{Arena, Pool};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn groups_keep_first_appearance_and_arrival(buckets in prop::collection::vec(0u16..6, 0..80)) {
            let mut pool = Pool::new(&Arena::new(1 << 20));
            let mut groups = Groups::new(6);
            for _ in 0..2 {
                let mut run = Run::new();
                for (position, bucket) in buckets.iter().enumerate() {
                    let mut message = pool.allocate(0, 0).unwrap();
                    message.set_bucket(*bucket);
                    message.set_position(position as u64);
                    run.push(message);
                }
                groups.fill(&mut run);
                let mut grouped: Vec<(u16, Vec<u64>)> = Vec::new();
                while let Some(bucket) = groups.next(&mut run) {
                    grouped.push((bucket.0, run.iter().map(|message| message.position()).collect()));
                }
                let mut expected: Vec<(u16, Vec<u64>)> = Vec::new();
                for (position, bucket) in buckets.iter().enumerate() {
                    match expected.iter_mut().find(|(of, _)| of == bucket) {
                        Some((_, positions)) => positions.push(position as u64),
                        None => expected.push((*bucket, vec![position as u64])),
                    }
                }
                prop_assert_eq!(grouped, expected);
            }
        }
    }
}
