//! The context: the only way out of a module.

use crate::bucket::BucketId;
use crate::counters::{Counter, Counters, StreamCounter};
use crate::drops::{DropWatch, Dropped, Trace};
use crate::module::Direction;
use crate::queues::{QueueId, Queues};
use crate::stream::{Links, Stream};
use braidnet_message::{Message, Pool};
use braidnet_wire::time::Instant;

/// What a module sees of the world during one call, and where everything that it makes goes.
pub struct Context<'a> {
    pub(crate) now: Instant,
    pub(crate) direction: Direction,
    /// The bucket whose perimeter is entered, in a core.
    pub(crate) bucket: Option<BucketId>,
    pub(crate) pool: &'a mut Pool,
    pub(crate) queues: &'a mut Queues,
    pub(crate) counters: &'a Counters,
    pub(crate) stream: &'a Stream,
    pub(crate) links: &'a Links,
    /// The bucket's deadline, in a core; elsewhere it means nothing.
    pub(crate) deadline: Instant,
    /// Messages that a core was called with and has not come back from.
    pub(crate) inside: usize,
}

impl Context<'_> {
    /// The time, read once for the whole turn; in a core never earlier than what any core saw in this bucket before.
    #[inline]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The processor's buffers.
    #[inline]
    pub fn pool(&mut self) -> &mut Pool {
        self.pool
    }

    /// The bucket that the core works in; `None` outside every perimeter.
    pub fn bucket(&self) -> Option<BucketId> {
        self.bucket
    }

    /// Hands a message to the neighbour above.
    #[inline]
    pub fn up(&mut self, message: Message) {
        self.emit(self.links.up.first, message);
    }

    /// Hands a message up the `link`-th upper link; the last one if there are fewer.
    #[inline]
    pub fn up_link(&mut self, link: usize, message: Message) {
        self.emit(self.links.up.get(link), message);
    }

    /// Hands a message to the neighbour below.
    #[inline]
    pub fn down(&mut self, message: Message) {
        self.emit(self.links.down.first, message);
    }

    /// Hands a message down the `link`-th lower link; the last one if there are fewer.
    #[inline]
    pub fn down_link(&mut self, link: usize, message: Message) {
        self.emit(self.links.down.get(link), message);
    }

    /// Hands a message on in the direction of the run being worked on (ASX's `put_next`).
    #[inline]
    pub fn put_next(&mut self, message: Message) {
        match self.direction {
            Direction::Up => self.up(message),
            Direction::Down => self.down(message),
        }
    }

    /// Turns a message round: hands it to the neighbour that the run came from.
    #[inline]
    pub fn reply(&mut self, message: Message) {
        match self.direction {
            Direction::Up => self.down(message),
            Direction::Down => self.up(message),
        }
    }

    #[inline]
    fn emit(&mut self, queue: QueueId, mut message: Message) {
        if let Some(bucket) = self.bucket {
            message.set_bucket(bucket.0);
        }
        self.queues.push(queue, message);
    }

    /// Adds to one of the stream's own.
    pub(crate) fn count_own(&self, counter: StreamCounter, by: u64) {
        self.counters.add(self.stream.own_counter(counter), by);
    }

    /// Adds to one of the module's counters.
    #[inline]
    pub fn count(&mut self, counter: Counter, by: u64) {
        self.counters
            .add(self.links.counter_base + usize::from(counter.0), by);
    }

    /// Drops a message under the name of one of the module's counters.
    #[inline]
    pub fn drop(&mut self, message: Message, reason: Counter) {
        self.count_dropped(Trace::of(&message), reason, 1);
        drop(message);
    }

    /// Counts a message of so many segments as dropped, under the name of one of the module's counters: for who drops it by not keeping it, or has given it away.
    #[inline]
    pub fn count_dropped(&mut self, trace: Trace, reason: Counter, segments: u64) {
        self.count(reason, segments);
        if let Some(watch) = self.stream.drop_watch() {
            self.tell_dropped(watch, trace, reason);
        }
    }

    #[cold]
    fn tell_dropped(&self, watch: &DropWatch, trace: Trace, reason: Counter) {
        if self.direction != Direction::Up {
            return;
        }
        let index = self.links.counter_base + usize::from(reason.0);
        if let Some((module, reason)) = self.stream.counter_names().nth(index) {
            watch.tell(Dropped {
                trace,
                module,
                reason,
            });
        }
    }

    /// Asks that [`Module::expire`](crate::Module::expire) be called for this bucket at `at` or soon after. The
    /// earliest wish of all modules stands; a wish that has become void costs one early call.
    #[inline]
    pub fn wake_at(&mut self, at: Instant) {
        self.deadline = self.deadline.min(at);
    }
}
