//! One working through of a cluster's queues, and one entry of a bucket's perimeter.

use crate::bucket::{Armed, Bucket, BucketId};
use crate::cluster::{Parcel, Tail};
use crate::context::Context;
use crate::counters::Counters;
use crate::groups::Groups;
use crate::module::{Direction, Module, ModuleId, Stages, State};
use crate::perimeter::{Buckets, Store};
use crate::queues::{QueueId, Queues, Stage};
use crate::stream::{Step, Stream};
use crate::wheel::Wheel;
use braidnet_message::{Message, Pool, Run};
use braidnet_wire::time::Instant;
use core::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// What a cluster's passes work on, apart from the buckets and the buffers.
pub(crate) struct Work {
    pub(crate) queues: Queues,
    pub(crate) counters: Arc<Counters>,
    wheel: Wheel<BucketId>,
    wheel_id: u32,
    /// Nothing in the wheel is due before this time.
    pub(crate) due_at: Instant,
    due: Vec<BucketId>,
    groups: Groups,
    /// Empty between uses; kept for its memory.
    spare: Run,
    /// Likewise, for what waits for the cores of other buckets while one is entered.
    aside: Vec<(QueueId, Run)>,
    /// Shared buckets that this processor carries messages of.
    draining: Vec<BucketId>,
    /// What belongs to other processors.
    pub(crate) foreign: Vec<Parcel>,
}

static WHEELS: AtomicU32 = AtomicU32::new(0);

impl Work {
    pub(crate) fn new(stream: &Stream, buckets: u32) -> Work {
        Work {
            queues: Queues::new(),
            counters: Counters::new(stream),
            wheel: Wheel::new(Instant::ZERO),
            wheel_id: WHEELS.fetch_add(1, Ordering::Relaxed),
            due_at: Instant::MAX,
            due: Vec::with_capacity(64),
            groups: Groups::new(buckets),
            spare: Run::new(),
            aside: Vec::new(),
            draining: Vec::with_capacity(64),
            foreign: Vec::with_capacity(64),
        }
    }

    /// Sees to it that the bucket's deadline is in some processor's wheel.
    #[inline]
    fn arm(&mut self, bucket: &mut Bucket) {
        if bucket.deadline < bucket.armed.map_or(Instant::MAX, |armed| armed.at) {
            self.arm_earlier(bucket);
        }
    }

    fn arm_earlier(&mut self, bucket: &mut Bucket) {
        if let Some(armed) = bucket.armed.filter(|armed| armed.wheel == self.wheel_id) {
            self.wheel.cancel(armed.timer);
        }
        let timer = self.wheel.start(bucket.deadline, bucket.id);
        self.due_at = self.due_at.min(bucket.deadline);
        bucket.armed = Some(Armed {
            at: bucket.deadline,
            wheel: self.wheel_id,
            timer,
        });
    }

    /// Sends what waits in a queue to whoever has its bucket or its module.
    pub(crate) fn send_away(&mut self, stream: &Stream, queue: QueueId) {
        let mut run = core::mem::take(&mut self.spare);
        self.queues.exchange(queue, &mut run);
        self.send_run_away(stream, queue, &mut run);
        self.spare = run;
    }

    fn send_run_away(&mut self, stream: &Stream, queue: QueueId, run: &mut Run) {
        if let Some(Step {
            module, direction, ..
        }) = stream.step(queue)
        {
            let parcels = run.drain().map(|message| Parcel {
                queue,
                module,
                direction,
                message,
            });
            self.foreign.extend(parcels);
        }
    }

    /// Sets aside what waits in these queues, and how many there are.
    #[cold]
    fn set_aside(&mut self, mut queues: u64) -> usize {
        let mut count = 0;
        while let Some(queue) = QueueId::lowest(queues) {
            queues &= !queue.bit();
            if count == self.aside.len() {
                self.aside.push((queue, Run::new()));
            }
            let (of, run) = &mut self.aside[count];
            *of = queue;
            self.queues.exchange(queue, run);
            count += 1;
        }
        count
    }

    /// Puts `count` queues back that were set aside; they are empty meanwhile.
    #[cold]
    fn put_back(&mut self, count: usize) {
        for (queue, run) in &mut self.aside[..count] {
            self.queues.append(*queue, run);
        }
    }

    /// How many messages wait to go down outside the perimeters.
    fn outgoing(&self, stream: &Stream) -> usize {
        let mut mask = self.queues.ready() & !stream.cores() & stream.downward();
        let mut count = 0;
        while let Some(queue) = QueueId::lowest(mask) {
            mask &= !queue.bit();
            count += self.queues.len(queue);
        }
        count
    }

    /// Takes back what was sent down for bucket `id`, in order.
    fn give_up(&mut self, stream: &Stream, id: BucketId, mut leave: impl FnMut(QueueId, Message)) {
        let mut mask = self.queues.ready() & !stream.cores() & stream.downward();
        let mut run = core::mem::take(&mut self.spare);
        while let Some(queue) = QueueId::lowest(mask) {
            mask &= !queue.bit();
            self.queues.exchange(queue, &mut run);
            for message in run.drain() {
                if message.bucket() == id.0 {
                    leave(queue, message);
                } else {
                    self.queues.push(queue, message);
                }
            }
        }
        self.spare = run;
    }

    /// What a module's function sees, and where what it makes goes.
    #[inline]
    fn context<'a>(
        &'a mut self,
        stream: &'a Stream,
        (module, direction, stage): (ModuleId, Direction, Stage),
        pool: &'a mut Pool,
        now: Instant,
    ) -> Context<'a> {
        Context {
            now,
            direction,
            bucket: None,
            pool,
            queues: &mut self.queues,
            counters: &self.counters,
            links: stream.links(module, stage),
            deadline: Instant::MAX,
        }
    }
}

/// One working through of a cluster's queues.
pub(crate) struct Pass<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) here: u64,
    pub(crate) buckets: &'a mut Buckets,
    pub(crate) pool: &'a mut Pool,
    pub(crate) work: &'a mut Work,
    /// Empty whenever no core runs on it; kept for its memory.
    pub(crate) inner: &'a mut Run,
    pub(crate) now: Instant,
}

impl Pass<'_> {
    /// Enters the perimeter of every bucket whose time has come.
    #[inline]
    pub(crate) fn expire(&mut self) {
        if self.now >= self.work.due_at {
            self.expire_due();
        }
    }

    fn expire_due(&mut self) {
        let mut due = core::mem::take(&mut self.work.due);
        self.work.wheel.advance(self.now, |bucket| due.push(bucket));
        for bucket in due.drain(..) {
            self.enter(bucket, Entry::Expiry);
        }
        self.work.due = due;
        self.work.due_at = self.work.wheel.next_deadline().unwrap_or(Instant::MAX);
    }

    /// Serves queues, lowest first, until none holds work, then offers the device what came of it. `run` is empty before
    /// and after.
    #[inline]
    pub(crate) fn run(&mut self, tail: &mut impl Tail, run: &mut Run) {
        loop {
            let here = self.here & !QueueId::TAIL.bit();
            while let Some(queue) = QueueId::lowest(self.work.queues.ready() & here) {
                let Some(step) = self.stream.step(queue) else {
                    break;
                };
                self.work.queues.exchange(queue, run);
                if step.stage == Stage::Core {
                    self.serve_core(queue, run);
                } else {
                    self.serve_order_free(step, run);
                }
            }
            if self.work.queues.ready() & QueueId::TAIL.bit() != 0 {
                tail.transmit(self.work.queues.run_mut(QueueId::TAIL));
                self.work.queues.refresh(QueueId::TAIL);
            }
            // What the device has not taken yet must not be overtaken: stay the drainer.
            let backed_up = self.work.queues.ready() & QueueId::TAIL.bit() != 0;
            if backed_up || self.work.draining.is_empty() || !self.relieve() {
                return;
            }
        }
    }

    /// Runs a `before` or an `after` on all that waited for it.
    #[inline]
    fn serve_order_free(&mut self, step: Step, run: &mut Run) {
        let Step {
            module,
            direction,
            stage,
            stay,
        } = step;
        let mut cx =
            self.work
                .context(self.stream, (module, direction, stage), self.pool, self.now);
        let code = self.stream.code(module);
        match stage {
            Stage::Before => code.before(direction, run, &mut cx),
            _ => code.after(direction, run, &mut cx),
        }
        self.work.queues.append(stay, run);
    }

    /// Groups what waited for a core by bucket and enters each bucket's perimeter once.
    #[inline]
    fn serve_core(&mut self, queue: QueueId, run: &mut Run) {
        let [first, others @ ..] = run.as_slice() else {
            return;
        };
        let first = first.bucket();
        if others.iter().all(|message| message.bucket() == first) {
            return self.enter(BucketId(first), Entry::Run(queue, run));
        }
        self.serve_groups(queue, run);
    }

    /// The same for a run of several buckets.
    #[inline(never)]
    fn serve_groups(&mut self, queue: QueueId, run: &mut Run) {
        let mut groups = core::mem::take(&mut self.work.groups);
        groups.fill(run);
        for (bucket, run) in groups.iter_mut() {
            self.enter(bucket, Entry::Run(queue, run));
        }
        groups.clear();
        self.work.groups = groups;
    }

    #[inline]
    fn enter(&mut self, id: BucketId, entry: Entry<'_>) {
        let (stream, now) = (self.stream, self.now);
        let cores = stream.cores() & self.here;
        let (pool, work, inner) = (&mut *self.pool, &mut *self.work, &mut *self.inner);
        match &mut self.buckets.0 {
            Store::Private(buckets) => {
                match buckets.get_mut(id.index()).and_then(Option::as_deref_mut) {
                    Some(bucket) => Session {
                        stream,
                        bucket,
                        cores,
                        pool,
                        work,
                        now,
                    }
                    .run(entry, inner),
                    None => entry.send_away(stream, work),
                }
            }
            Store::Shared(_) => self.enter_shared(id, entry),
        }
    }

    /// Enters a bucket behind its lock; see [`perimeter`](crate::perimeter) for what happens to what it sends down.
    fn enter_shared(&mut self, id: BucketId, entry: Entry<'_>) {
        let Store::Shared(buckets) = &self.buckets.0 else {
            return;
        };
        let (stream, now) = (self.stream, self.now);
        let cores = stream.cores() & self.here;
        let (pool, work, inner) = (&mut *self.pool, &mut *self.work, &mut *self.inner);
        let Some(shared) = buckets.get(id.index()) else {
            return entry.send_away(stream, work);
        };
        shared.enter(|guarded| {
            let before = work.outgoing(stream);
            let bucket = &mut guarded.bucket;
            Session {
                stream,
                bucket,
                cores,
                pool,
                work,
                now,
            }
            .run(entry, inner);
            if work.outgoing(stream) == before || work.draining.contains(&id) {
                return;
            }
            if shared.claim() {
                work.draining.push(id);
            } else {
                work.give_up(stream, id, |queue, message| guarded.leave(queue, message));
            }
        });
    }

    /// Stops carrying for the shared buckets whose messages have all gone; whether more was left for us.
    fn relieve(&mut self) -> bool {
        let Store::Shared(buckets) = &self.buckets.0 else {
            return false;
        };
        let mut draining = core::mem::take(&mut self.work.draining);
        let queues = &mut self.work.queues;
        draining.retain(|id| {
            !buckets[id.index()].release(|queue, message| queues.push(queue, message))
        });
        self.work.draining = draining;
        !self.work.draining.is_empty()
    }
}

/// With what a perimeter is entered.
enum Entry<'a> {
    Run(QueueId, &'a mut Run),
    Expiry,
}

impl Entry<'_> {
    /// The bucket is not here: its work goes to whoever has it. An expiry of a bucket that has moved is void.
    fn send_away(self, stream: &Stream, work: &mut Work) {
        if let Entry::Run(queue, run) = self {
            work.send_run_away(stream, queue, run);
        }
    }
}

/// One entry of a bucket's perimeter.
struct Session<'a> {
    stream: &'a Stream,
    bucket: &'a mut Bucket,
    /// The queues of the cores that are turned here.
    cores: u64,
    pool: &'a mut Pool,
    work: &'a mut Work,
    now: Instant,
}

impl Session<'_> {
    /// Runs cores until none has work, then lets each module that worked settle, until that makes no more work. `inner` is
    /// empty before and after.
    #[inline]
    fn run(mut self, entry: Entry<'_>, inner: &mut Run) {
        // What came for the cores from outside may be for other buckets.
        let outside = self.work.queues.ready() & self.cores;
        let aside = if outside == 0 {
            0
        } else {
            self.work.set_aside(outside)
        };
        let mut touched = match entry {
            Entry::Run(queue, run) => self.core(queue, run),
            Entry::Expiry => self.expire(),
        };
        loop {
            if let Some(queue) = QueueId::lowest(self.work.queues.ready() & self.cores) {
                self.work.queues.exchange(queue, inner);
                touched |= self.core(queue, inner);
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
        if aside > 0 {
            self.work.put_back(aside);
        }
        self.work.arm(self.bucket);
    }

    #[inline]
    fn core(&mut self, queue: QueueId, run: &mut Run) -> u32 {
        let Some(Step {
            module,
            direction,
            stay,
            ..
        }) = self.stream.step(queue)
        else {
            return 0;
        };
        self.call(module, direction, |code, state, cx| {
            code.core(state, direction, run, cx)
        });
        self.work.queues.append(stay, run);
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
        work: impl FnOnce(&dyn Module, &mut dyn State, &mut Context<'_>),
    ) {
        let mut cx = self.work.context(
            self.stream,
            (module, direction, Stage::Core),
            self.pool,
            self.now,
        );
        cx.bucket = Some(self.bucket.id);
        cx.deadline = self.bucket.deadline;
        work(
            self.stream.code(module),
            &mut *self.bucket.states[module.index()],
            &mut cx,
        );
        self.bucket.deadline = cx.deadline;
    }
}
