//! The cluster: some of a stream's modules, turned to completion on the caller's thread.

use crate::bucket::{Armed, Bucket, BucketId};
use crate::context::Context;
use crate::counters::Counters;
use crate::module::{Direction, ModuleId, Stages, State};
use crate::perimeter::{Buckets, Store};
use crate::queues::{QueueId, Queues, Stage};
use crate::stream::Stream;
use crate::wheel::Wheel;
use braidnet_message::{Arena, Bound, Message, Pool, Run};
use braidnet_wire::time::Instant;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// A message on its way to a function that another processor must run.
pub struct Parcel {
    queue: QueueId,
    message: Message,
}

impl Parcel {
    /// A message addressed to `module` of `stream`, to be sent to the cluster that turns it for the message's bucket.
    pub fn new(
        stream: &Stream,
        module: ModuleId,
        direction: Direction,
        message: Message,
    ) -> Parcel {
        Parcel {
            queue: stream.entry(module, direction),
            message,
        }
    }

    /// The bucket that the message belongs to.
    pub fn bucket(&self) -> BucketId {
        BucketId(self.message.bucket())
    }

    /// The module whose function is to run.
    pub fn module(&self) -> ModuleId {
        self.queue.parts().0
    }

    /// The direction in which it runs.
    pub fn direction(&self) -> Direction {
        self.queue.parts().1
    }

    /// The message.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// The message, without its destination.
    pub fn into_message(self) -> Message {
        self.message
    }
}

/// What takes the messages that leave at the tail: a device's way out. It takes from the front what it can; what stays in
/// the run is offered again with the next turn.
pub trait Tail {
    /// Takes what it can from the front of `run`.
    fn transmit(&mut self, run: &mut Run);
}

impl<F: FnMut(&mut Run)> Tail for F {
    fn transmit(&mut self, run: &mut Run) {
        self(run);
    }
}

/// Which of a stream's modules a cluster turns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModuleSet(u32);

impl ModuleSet {
    /// All of them.
    pub const ALL: ModuleSet = ModuleSet(u32::MAX);

    /// These.
    pub fn of(modules: impl IntoIterator<Item = ModuleId>) -> ModuleSet {
        ModuleSet(
            modules
                .into_iter()
                .fold(0, |set, module| set | 1 << module.0),
        )
    }

    /// Those below `module`.
    pub const fn below(module: ModuleId) -> ModuleSet {
        ModuleSet((1 << module.0) - 1)
    }

    /// Those that are not in it.
    pub const fn others(self) -> ModuleSet {
        ModuleSet(!self.0)
    }

    /// Whether `module` is in it.
    pub const fn contains(self, module: ModuleId) -> bool {
        self.0 & (1 << module.0) != 0
    }
}

/// Some of a stream's modules over some of its buckets, with the buffers, queues and timers of one processor.
///
/// Everything that is handed in with [`put`](Cluster::put) runs to completion in [`turn`](Cluster::turn): up through the
/// modules, into the perimeters, down again, out at the tail; or out to another processor as a [`Parcel`], where the
/// next function belongs to a module or a bucket that is not here.
pub struct Cluster {
    stream: Arc<Stream>,
    /// Queues whose functions run here, as a mask.
    here: u128,
    buckets: Buckets,
    pool: Pool,
    work: Work,
}

/// What a cluster's passes work on, apart from the buckets and the buffers.
struct Work {
    queues: Queues,
    counters: Arc<Counters>,
    wheel: Wheel<BucketId>,
    wheel_id: u32,
    due: Vec<BucketId>,
    groups: Groups,
    /// Shared buckets that this processor carries messages of.
    draining: Vec<BucketId>,
    foreign: Vec<Parcel>,
}

static WHEELS: AtomicU32 = AtomicU32::new(0);

impl Cluster {
    /// A cluster that turns `modules` of `stream` over `buckets`, with buffers from `arena`.
    pub fn new(
        stream: &Arc<Stream>,
        modules: ModuleSet,
        buckets: Buckets,
        arena: &Arc<Arena>,
    ) -> Cluster {
        let mut here = QueueId::TAIL.bit();
        for (module, _) in stream
            .modules()
            .filter(|(module, _)| modules.contains(*module))
        {
            for direction in [Direction::Up, Direction::Down] {
                for stage in [Stage::Before, Stage::Core, Stage::After] {
                    here |= QueueId::new(module, direction, stage).bit();
                }
            }
        }
        Cluster {
            here,
            pool: Pool::new(arena),
            work: Work {
                queues: Queues::new(),
                counters: Counters::new(stream),
                wheel: Wheel::new(Instant::ZERO),
                wheel_id: WHEELS.fetch_add(1, Ordering::Relaxed),
                due: Vec::with_capacity(64),
                groups: Groups::new(buckets.count()),
                draining: Vec::with_capacity(64),
                foreign: Vec::with_capacity(64),
            },
            buckets,
            stream: stream.clone(),
        }
    }

    /// The stream it turns a part of.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Its counters, readable by anybody at any time.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.work.counters
    }

    /// Its buckets.
    pub fn buckets(&mut self) -> &mut Buckets {
        &mut self.buckets
    }

    /// Its buffers, bound to the calling thread for as long as the guard lives.
    pub fn pool(&mut self) -> Bound<'_> {
        self.pool.bind()
    }

    /// Puts messages into `module`, borrowing the caller's thread at the next [`turn`](Cluster::turn).
    pub fn put(&mut self, module: ModuleId, direction: Direction, run: &mut Run) {
        let queue = self.stream.entry(module, direction);
        self.work.queues.append(queue, run);
    }

    /// Puts one message into `module`.
    pub fn put_one(&mut self, module: ModuleId, direction: Direction, message: Message) {
        let queue = self.stream.entry(module, direction);
        self.work.queues.push(queue, message);
    }

    /// Takes in what another processor sent.
    pub fn accept(&mut self, parcels: impl IntoIterator<Item = Parcel>) {
        for Parcel { queue, message } in parcels {
            self.work.queues.push(queue, message);
        }
    }

    /// Works until nothing is left to do at time `now`: what was put, what is due, and all that follows from it.
    pub fn turn(&mut self, now: Instant, tail: &mut impl Tail) {
        let mut pool = self.pool.bind();
        let mut pass = Pass {
            stream: &self.stream,
            here: self.here,
            buckets: &mut self.buckets,
            pool: &mut pool,
            work: &mut self.work,
            now,
        };
        pass.expire();
        pass.run(tail);
    }

    /// Runs `visit` with the state of `module` in `bucket`, inside the bucket's perimeter, as that module's core; what it
    /// sends goes on at the next turn. `None` if the bucket is not here.
    pub fn visit<S: State, R>(
        &mut self,
        now: Instant,
        module: ModuleId,
        bucket: BucketId,
        visit: impl FnOnce(&mut S, &mut Context<'_>) -> R,
    ) -> Option<R> {
        let Store::Private(buckets) = &mut self.buckets.0 else {
            return None;
        };
        let bucket = buckets.get_mut(bucket.index())?.as_deref_mut()?;
        let mut pool = self.pool.bind();
        let work = &mut self.work;
        let mut cx = Context {
            now,
            direction: Direction::Down,
            bucket: Some(bucket.id),
            pool: &mut pool,
            queues: &mut work.queues,
            counters: &work.counters,
            counter_base: self.stream.counter_base(module),
            up: self.stream.up(module, Stage::Core),
            down: self.stream.down(module, Stage::Core),
            deadline: bucket.deadline,
        };
        let result = visit(bucket.states[module.index()].of::<S>(), &mut cx);
        bucket.deadline = cx.deadline;
        work.arm(bucket);
        Some(result)
    }

    /// What left at the head: for the application.
    pub fn head(&mut self) -> &mut Run {
        self.work.queues.run_mut(QueueId::HEAD)
    }

    /// Whether messages are waiting for the device to take them.
    pub fn is_backed_up(&self) -> bool {
        self.work.queues.len(QueueId::TAIL) > 0
    }

    /// Whether there is something to do now.
    pub fn is_ready(&self) -> bool {
        self.work.queues.ready() & self.here & !QueueId::TAIL.bit() != 0
    }

    /// What belongs to other processors: modules or buckets that are not here.
    pub fn outbound(&mut self) -> impl Iterator<Item = Parcel> + '_ {
        let elsewhere = self.work.queues.ready() & !self.here & !QueueId::HEAD.bit();
        let work = &mut self.work;
        let mut mask = elsewhere;
        while let Some(queue) = QueueId::lowest(mask) {
            mask &= !queue.bit();
            let mut run = work.queues.take(queue);
            work.foreign
                .extend(run.drain().map(|message| Parcel { queue, message }));
            work.queues.restore(queue, run);
        }
        work.foreign.drain(..)
    }

    /// When the next timer is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.work.wheel.next_deadline()
    }
}

/// One working through of a cluster's queues.
struct Pass<'a> {
    stream: &'a Stream,
    here: u128,
    buckets: &'a mut Buckets,
    pool: &'a mut Pool,
    work: &'a mut Work,
    now: Instant,
}

impl Pass<'_> {
    /// Enters the perimeter of every bucket whose time has come.
    fn expire(&mut self) {
        let mut due = core::mem::take(&mut self.work.due);
        self.work.wheel.advance(self.now, |bucket| due.push(bucket));
        for bucket in due.drain(..) {
            self.enter(bucket, Entry::Expiry);
        }
        self.work.due = due;
    }

    fn run(&mut self, tail: &mut impl Tail) {
        loop {
            while let Some(queue) =
                QueueId::lowest(self.work.queues.ready() & self.here & !QueueId::TAIL.bit())
            {
                if queue.bit() & self.stream.cores() != 0 {
                    self.serve_core(queue);
                } else {
                    self.serve_order_free(queue);
                }
            }
            if self.work.queues.ready() & QueueId::TAIL.bit() != 0 {
                tail.transmit(self.work.queues.run_mut(QueueId::TAIL));
                self.work.queues.refresh(QueueId::TAIL);
            }
            // What the device has not taken yet must not be overtaken: stay the drainer.
            let backed_up = self.work.queues.len(QueueId::TAIL) > 0;
            if backed_up || self.work.draining.is_empty() || !self.relieve() {
                return;
            }
        }
    }

    /// Runs a `before` or an `after` on all that waits for it.
    fn serve_order_free(&mut self, queue: QueueId) {
        let (module, direction, stage) = queue.parts();
        let mut run = self.work.queues.take(queue);
        let mut cx = Context {
            now: self.now,
            direction,
            bucket: None,
            pool: self.pool,
            queues: &mut self.work.queues,
            counters: &self.work.counters,
            counter_base: self.stream.counter_base(module),
            up: self.stream.up(module, stage),
            down: self.stream.down(module, stage),
            deadline: Instant::MAX,
        };
        let code = self.stream.code(module);
        match stage {
            Stage::Before => code.before(direction, &mut run, &mut cx),
            _ => code.after(direction, &mut run, &mut cx),
        }
        self.work
            .queues
            .append(self.stream.stay(module, direction, stage), &mut run);
        self.work.queues.restore(queue, run);
    }

    /// Groups what waits for a core by bucket and enters each bucket's perimeter once.
    fn serve_core(&mut self, queue: QueueId) {
        let mut run = self.work.queues.take(queue);
        let first = run.iter().next().map(Message::bucket);
        if run.iter().all(|message| Some(message.bucket()) == first) {
            if let Some(bucket) = first {
                self.enter(BucketId(bucket), Entry::Run(queue, &mut run));
            }
        } else {
            let mut groups = core::mem::take(&mut self.work.groups);
            groups.fill(&mut run);
            for (bucket, run) in groups.iter_mut() {
                self.enter(bucket, Entry::Run(queue, run));
            }
            groups.clear();
            self.work.groups = groups;
        }
        self.work.queues.restore(queue, run);
    }

    fn enter(&mut self, id: BucketId, entry: Entry<'_>) {
        let (stream, now) = (self.stream, self.now);
        let (pool, work) = (&mut *self.pool, &mut *self.work);
        match &mut self.buckets.0 {
            Store::Private(buckets) => {
                match buckets.get_mut(id.index()).and_then(Option::as_deref_mut) {
                    Some(bucket) => Session {
                        stream,
                        bucket,
                        pool,
                        work,
                        now,
                    }
                    .run(entry),
                    None => work.send_away(entry),
                }
            }
            Store::Shared(buckets) => match buckets.get(id.index()) {
                Some(shared) => shared.enter(|guarded| {
                    let before = work.outgoing(stream);
                    let bucket = &mut guarded.bucket;
                    Session {
                        stream,
                        bucket,
                        pool,
                        work,
                        now,
                    }
                    .run(entry);
                    if work.outgoing(stream) == before || work.draining.contains(&id) {
                        return;
                    }
                    if shared.claim() {
                        work.draining.push(id);
                    } else {
                        work.give_up(id, |queue, message| guarded.leave(queue, message));
                    }
                }),
                None => work.send_away(entry),
            },
        }
    }

    /// Stops carrying for the shared buckets whose messages have all gone; whether more was left for us.
    fn relieve(&mut self) -> bool {
        let Store::Shared(buckets) = &self.buckets.0 else {
            return false;
        };
        let mut draining = core::mem::take(&mut self.work.draining);
        let before = draining.len();
        let queues = &mut self.work.queues;
        draining.retain(|id| {
            !buckets[id.index()].release(|queue, message| queues.push(queue, message))
        });
        let more = !draining.is_empty();
        debug_assert!(draining.len() <= before);
        self.work.draining = draining;
        more
    }
}

/// With what a perimeter is entered.
enum Entry<'a> {
    Run(QueueId, &'a mut Run),
    Expiry,
}

/// One entry of a bucket's perimeter.
struct Session<'a> {
    stream: &'a Stream,
    bucket: &'a mut Bucket,
    pool: &'a mut Pool,
    work: &'a mut Work,
    now: Instant,
}

impl Session<'_> {
    /// Runs cores until none has work, then lets each module that worked settle, until that makes no more work.
    fn run(mut self, entry: Entry<'_>) {
        let mut touched = 0u32;
        match entry {
            Entry::Run(queue, run) => {
                touched |= self.core(queue, run);
            }
            Entry::Expiry => touched |= self.expire(),
        }
        loop {
            if let Some(queue) = QueueId::lowest(self.work.queues.ready() & self.stream.cores()) {
                let mut run = self.work.queues.take(queue);
                touched |= self.core(queue, &mut run);
                self.work.queues.restore(queue, run);
            } else if touched != 0 {
                let module = ModuleId((u32::BITS - 1 - touched.leading_zeros()) as u8);
                touched &= !(1 << module.0);
                if self.stream.stages(module).contains(Stages::SETTLE) {
                    self.call(module, Direction::Down, |code, state, cx| {
                        code.settle(state, cx)
                    });
                }
            } else {
                break;
            }
        }
        self.work.arm(self.bucket);
    }

    fn core(&mut self, queue: QueueId, run: &mut Run) -> u32 {
        let (module, direction, _) = queue.parts();
        self.call(module, direction, |code, state, cx| {
            code.core(state, direction, run, cx)
        });
        self.work
            .queues
            .append(self.stream.stay(module, direction, Stage::Core), run);
        1 << module.0
    }

    fn expire(&mut self) -> u32 {
        self.bucket.armed = None;
        if self.bucket.deadline > self.now {
            return 0;
        }
        self.bucket.deadline = Instant::MAX;
        let mut touched = 0;
        for (module, _) in self.stream.modules() {
            if self.stream.stages(module).contains(Stages::EXPIRE) {
                self.call(module, Direction::Up, |code, state, cx| {
                    code.expire(state, cx)
                });
                touched |= 1 << module.0;
            }
        }
        touched
    }

    #[inline]
    fn call(
        &mut self,
        module: ModuleId,
        direction: Direction,
        work: impl FnOnce(&dyn crate::Module, &mut dyn State, &mut Context<'_>),
    ) {
        let mut cx = Context {
            now: self.now,
            direction,
            bucket: Some(self.bucket.id),
            pool: self.pool,
            queues: &mut self.work.queues,
            counters: &self.work.counters,
            counter_base: self.stream.counter_base(module),
            up: self.stream.up(module, Stage::Core),
            down: self.stream.down(module, Stage::Core),
            deadline: self.bucket.deadline,
        };
        work(
            self.stream.code(module),
            &mut *self.bucket.states[module.index()],
            &mut cx,
        );
        self.bucket.deadline = cx.deadline;
    }
}

impl Work {
    /// Sees to it that the bucket's deadline is in some processor's wheel.
    fn arm(&mut self, bucket: &mut Bucket) {
        if bucket.deadline >= bucket.armed.map_or(Instant::MAX, |armed| armed.at) {
            return;
        }
        if let Some(armed) = bucket.armed.filter(|armed| armed.wheel == self.wheel_id) {
            self.wheel.cancel(armed.timer);
        }
        let timer = self.wheel.start(bucket.deadline, bucket.id);
        bucket.armed = Some(Armed {
            at: bucket.deadline,
            wheel: self.wheel_id,
            timer,
        });
    }

    /// A bucket that is not here: its work goes to whoever has it. An expiry of a bucket that has moved is void.
    fn send_away(&mut self, entry: Entry<'_>) {
        if let Entry::Run(queue, run) = entry {
            self.foreign
                .extend(run.drain().map(|message| Parcel { queue, message }));
        }
    }

    /// How many messages wait to go down from cores.
    fn outgoing(&self, stream: &Stream) -> usize {
        let mut mask = self.queues.ready() & !stream.cores() & QueueId::DOWNWARD;
        let mut count = 0;
        while let Some(queue) = QueueId::lowest(mask) {
            mask &= !queue.bit();
            count += self.queues.len(queue);
        }
        count
    }

    /// Takes back what was sent down for bucket `id`, in order.
    fn give_up(&mut self, id: BucketId, mut leave: impl FnMut(QueueId, Message)) {
        let mut mask = self.queues.ready() & QueueId::DOWNWARD;
        while let Some(queue) = QueueId::lowest(mask) {
            mask &= !queue.bit();
            let mut run = self.queues.take(queue);
            let mut kept = Run::new();
            for message in run.drain() {
                if message.bucket() == id.0 {
                    leave(queue, message);
                } else {
                    kept.push(message);
                }
            }
            self.queues.append(queue, &mut kept);
        }
    }
}

/// A batch grouped by bucket, in the order of first appearance; inside a group the order of arrival stays.
#[derive(Default)]
struct Groups {
    runs: Vec<(BucketId, Run)>,
    used: usize,
    /// For each bucket its group in this batch, plus one.
    of_bucket: Vec<u16>,
}

impl Groups {
    fn new(buckets: u32) -> Groups {
        Groups {
            runs: Vec::new(),
            used: 0,
            of_bucket: vec![0; buckets as usize],
        }
    }

    fn fill(&mut self, run: &mut Run) {
        for message in run.drain() {
            let bucket = message.bucket();
            let index = usize::from(bucket);
            if index >= self.of_bucket.len() {
                // A bucket that the stack does not have: our own fault, and there is nowhere to take it.
                debug_assert!(false, "bucket {bucket} does not exist");
                continue;
            }
            if self.of_bucket[index] == 0 {
                if self.used == self.runs.len() {
                    self.runs.push((BucketId(bucket), Run::new()));
                }
                self.runs[self.used].0 = BucketId(bucket);
                self.used += 1;
                self.of_bucket[index] = self.used as u16;
            }
            self.runs[usize::from(self.of_bucket[index]) - 1]
                .1
                .push(message);
        }
    }

    fn iter_mut(&mut self) -> impl Iterator<Item = (BucketId, &mut Run)> {
        self.runs[..self.used]
            .iter_mut()
            .map(|(bucket, run)| (*bucket, run))
    }

    fn clear(&mut self) {
        for (bucket, _) in &self.runs[..self.used] {
            self.of_bucket[bucket.index()] = 0;
        }
        self.used = 0;
    }
}
