//! The working queues of a cluster: one for each function that a module has, with a bit mask of those that hold work.
//!
//! They are numbered in the order in which a cluster serves them, lowest first: up through the modules from the tail,
//! then down from the head, then the two ends.

use braidnet_message::{Message, Run};

/// Most modules a stream can hold.
pub(crate) const MAX_MODULES: usize = 20;

/// One of the three functions of a module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Before = 0,
    Core = 1,
    After = 2,
}

/// Which working queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueId(pub(crate) u8);

impl QueueId {
    /// Messages that leave the stream at its tail, for the device.
    pub(crate) const TAIL: QueueId = QueueId(62);
    /// Messages that leave the stream at its head, for the application.
    pub(crate) const HEAD: QueueId = QueueId(63);
    pub(crate) const COUNT: usize = 64;
    /// Functions that all modules of a stream can have together.
    pub(crate) const MAX_STEPS: usize = 62;

    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    #[inline]
    pub(crate) const fn bit(self) -> u64 {
        1 << self.0
    }

    /// It and all that are served before it, as a mask.
    #[inline]
    pub(crate) const fn and_lower(self) -> u64 {
        self.bit() | (self.bit() - 1)
    }

    /// Whether it is in a mask.
    #[inline]
    pub(crate) const fn is_in(self, mask: u64) -> bool {
        mask >> self.0 & 1 != 0
    }

    /// The lowest queue of a mask.
    #[inline]
    pub(crate) const fn lowest(mask: u64) -> Option<QueueId> {
        if mask == 0 {
            None
        } else {
            Some(QueueId(mask.trailing_zeros() as u8))
        }
    }
}

/// The working queues.
pub(crate) struct Queues {
    runs: [Run; QueueId::COUNT],
    ready: u64,
}

/// Gives an empty run memory for so many messages.
pub(crate) fn reserve(run: &mut Run, messages: usize) {
    if run.is_empty() && run.capacity() < messages {
        *run = Run::with_capacity(messages);
    }
}

impl Queues {
    pub(crate) fn new() -> Queues {
        Queues {
            runs: core::array::from_fn(|_| Run::new()),
            ready: 0,
        }
    }

    /// Takes memory for runs of so many messages.
    pub(crate) fn reserve(&mut self, messages: usize) {
        for run in self.runs.iter_mut() {
            reserve(run, messages);
        }
    }

    /// Which queues hold work.
    #[inline]
    pub(crate) fn ready(&self) -> u64 {
        self.ready
    }

    #[inline]
    fn run(&mut self, queue: QueueId) -> &mut Run {
        &mut self.runs[queue.index() % QueueId::COUNT]
    }

    #[inline]
    pub(crate) fn push(&mut self, queue: QueueId, message: Message) {
        self.ready |= queue.bit();
        self.run(queue).push(message);
    }

    #[inline]
    pub(crate) fn append(&mut self, queue: QueueId, run: &mut Run) {
        if run.is_empty() {
            return;
        }
        self.ready |= queue.bit();
        let target = self.run(queue);
        if target.is_empty() {
            target.take_over(run);
        } else {
            target.append(run);
        }
    }

    /// Exchanges what the queue holds for `empty`, an empty run, whose capacity it keeps.
    #[inline]
    pub(crate) fn exchange(&mut self, queue: QueueId, empty: &mut Run) {
        debug_assert!(empty.is_empty());
        self.ready &= !queue.bit();
        empty.take_over(self.run(queue));
    }

    pub(crate) fn len(&self, queue: QueueId) -> usize {
        self.runs[queue.index()].len()
    }

    /// Messages in all queues of a mask.
    pub(crate) fn count(&self, mask: u64) -> usize {
        let mut mask = self.ready & mask;
        let mut count = 0;
        while let Some(queue) = QueueId::lowest(mask) {
            mask &= !queue.bit();
            count += self.len(queue);
        }
        count
    }

    #[inline]
    pub(crate) fn run_mut(&mut self, queue: QueueId) -> &mut Run {
        self.run(queue)
    }

    /// Moves what a queue holds from the `at`-th message on to an empty run.
    pub(crate) fn move_from(&mut self, queue: QueueId, at: usize, to: &mut Run) {
        let run = self.run(queue);
        run.move_from(at, to);
        if run.is_empty() {
            self.ready &= !queue.bit();
        }
    }

    /// Lets `take` take messages off the queue.
    #[inline]
    pub(crate) fn offer(&mut self, queue: QueueId, take: impl FnOnce(&mut Run)) {
        let run = self.run(queue);
        take(run);
        if run.is_empty() {
            self.ready &= !queue.bit();
        }
    }
}
