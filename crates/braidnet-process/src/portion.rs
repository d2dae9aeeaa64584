//! How many messages a turn takes, so that what comes of them stays in the processor's cache.
//!
//! What a turn sends is written by an application or a service, and read by the device when the turn is nearly over. Acknowledgments let out far more than
//! they bring: sixty of them, each of a train, are four megabytes, which have left the cache before the device looks at them, and have
//! driven out whatever else was there. So a turn that has sent more than [`CACHED_BYTES`] makes the next one smaller, by as much as it was too
//! much, and each that has found its portion and sent less than half of that makes it twice as large, up to a batch.

/// What a turn should send at most: a quarter of the second-level cache of small processors, which has to hold what is read and what is written.
const CACHED_BYTES: usize = 256 << 10;

/// Messages that a turn takes from each way in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portion {
    now: usize,
    most: usize,
}

impl Portion {
    /// A batch, until turns are seen that send much. 0 counts as 1.
    pub(crate) fn new(batch: usize) -> Portion {
        let most = batch.max(1);
        Portion { now: most, most }
    }

    /// A batch.
    pub(crate) fn most(&self) -> usize {
        self.most
    }

    /// How many the next turn takes: at least 1.
    pub(crate) fn messages(&self) -> usize {
        self.now
    }

    /// A turn has taken `taken` messages and sent `sent` bytes.
    #[inline]
    pub(crate) fn note(&mut self, taken: usize, sent: usize) {
        if sent > CACHED_BYTES {
            self.now = (taken.saturating_mul(CACHED_BYTES) / sent).clamp(1, self.most);
        } else if taken >= self.now && sent <= CACHED_BYTES / 2 {
            self.now = (2 * self.now).min(self.most);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgments_that_let_out_much_are_taken_few_at_a_time() {
        let mut portion = Portion::new(64);
        assert_eq!(portion.messages(), 64);
        // Each lets out a train of 64 KiB: four are as much as is to be.
        for _ in 0..10 {
            let taken = portion.messages();
            portion.note(taken, taken * (64 << 10));
        }
        assert_eq!(portion.messages(), 4);
        // Nobody is held up for what is larger than all that.
        portion.note(1, 8 << 20);
        assert_eq!(portion.messages(), 1);
        // Messages that are answered by little are taken by the batch again.
        for expected in [2, 4, 8, 16, 32, 64, 64] {
            portion.note(portion.messages(), 1000);
            assert_eq!(portion.messages(), expected);
        }
    }

    #[test]
    fn a_turn_that_found_less_changes_nothing() {
        let mut portion = Portion::new(64);
        portion.note(16, 1 << 20);
        assert_eq!(portion.messages(), 4);
        portion.note(3, 0);
        assert_eq!(portion.messages(), 4);
        portion.note(0, 0);
        assert_eq!(portion.messages(), 4);
        assert_eq!((Portion::new(0).messages(), Portion::new(0).most()), (1, 1));
    }
}
