//! The working through of a cluster's queues.

use crate::bucket::{Bucket, BucketId};
use crate::cluster::{ModuleSet, Parcel, Tail};
use crate::context::Context;
use crate::groups::Groups;
use crate::perimeter::{Buckets, Store};
use crate::poison;
use crate::queues::{QueueId, Queues, Stage, reserve};
use crate::session::Session;
use crate::stream::{Site, Step, Stream};
use crate::wheel::{TimerId, Wheel};
use braidnet_message::{Message, Run};
use braidnet_wire::time::Instant;
use std::collections::VecDeque;

/// What a cluster's passes need beside the buckets, the buffers and the queues.
pub(crate) struct Work {
    wheel: Wheel<BucketId>,
    /// The entry of each bucket in the wheel, live or not: there is never more than one. Where the bucket is shared, the
    /// entries that other processors have may have made it stale; it then fires for nothing, once.
    entries: Vec<Option<TimerId>>,
    /// Nothing in the wheel is due before this time.
    pub(crate) due_at: Instant,
    due: VecDeque<BucketId>,
    groups: Groups,
    /// The queue that they came out of.
    grouped: QueueId,
    /// Empty between uses; kept for its memory.
    spare: Run,
    /// Likewise, for what waits for the cores of other buckets while one is entered.
    aside: Vec<(QueueId, Run)>,
    /// Shared buckets that this processor carries messages of.
    draining: Vec<BucketId>,
    /// What belongs to other processors.
    pub(crate) foreign: Vec<Parcel>,
}

impl Work {
    pub(crate) fn new(buckets: u32) -> Work {
        Work {
            wheel: Wheel::new(Instant::ZERO),
            entries: vec![None; buckets as usize],
            due_at: Instant::MAX,
            due: VecDeque::with_capacity(64),
            groups: Groups::new(buckets),
            grouped: QueueId::TAIL,
            spare: Run::new(),
            aside: Vec::new(),
            draining: Vec::with_capacity(64),
            foreign: Vec::with_capacity(64),
        }
    }

    /// Takes memory for runs of so many messages.
    pub(crate) fn reserve(&mut self, messages: usize) {
        reserve(&mut self.spare, messages);
        // One for each core that could wait while another is entered.
        self.aside
            .resize_with(self.aside.len().max(8), || (QueueId::TAIL, Run::new()));
        for (_, run) in &mut self.aside {
            reserve(run, messages);
        }
        self.groups.reserve(messages);
        self.wheel.reserve(self.entries.len());
        self.foreign.reserve(messages);
    }

    /// Sees to it that the bucket's deadline is in some processor's wheel.
    #[inline]
    pub(crate) fn arm(&mut self, bucket: &mut Bucket) {
        if bucket.deadline < bucket.armed {
            self.arm_earlier(bucket);
        }
    }

    #[inline(never)]
    fn arm_earlier(&mut self, bucket: &mut Bucket) {
        let (entry, at) = (&mut self.entries[bucket.id.index()], bucket.deadline);
        if !entry.is_some_and(|timer| self.wheel.restart(timer, at)) {
            *entry = Some(self.wheel.start(at, bucket.id));
        }
        self.due_at = self.due_at.min(at);
        bucket.armed = at;
    }

    /// Sends what waits in a queue to whoever has its bucket or its module.
    pub(crate) fn send_away(&mut self, stream: &Stream, queues: &mut Queues, queue: QueueId) {
        let mut run = core::mem::take(&mut self.spare);
        queues.exchange(queue, &mut run);
        self.send_run_away(stream, queue, &mut run);
        self.spare = run;
    }

    /// Sends what came for a bucket that is not here to whoever has it. An expiry of a bucket that has moved is void.
    #[cold]
    fn send_on(&mut self, stream: &Stream, came: Option<Came<'_, '_>>) {
        if let Some((site, run)) = came {
            self.send_run_away(stream, site.queue, run);
        }
    }

    fn send_run_away(&mut self, stream: &Stream, queue: QueueId, run: &mut Run) {
        if let Some(site) = stream.site(queue) {
            let Step {
                module, direction, ..
            } = site.step;
            let parcels = run.drain().map(|message| Parcel {
                queue,
                module,
                direction,
                message,
            });
            self.foreign.extend(parcels);
        }
    }

    /// Sets aside what waits in the queues of a mask, where it is not all for bucket `id`; how many queues that are.
    pub(crate) fn set_aside(&mut self, queues: &mut Queues, mut mask: u64, id: BucketId) -> usize {
        let mut count = 0;
        while let Some(queue) = QueueId::lowest(mask) {
            mask &= !queue.bit();
            let mut waiting = queues.run_mut(queue).iter();
            if waiting.all(|message| message.bucket() == id.0) {
                continue;
            }
            if count == self.aside.len() {
                self.aside.push((queue, Run::new()));
            }
            let (of, run) = &mut self.aside[count];
            *of = queue;
            queues.exchange(queue, run);
            count += 1;
        }
        count
    }

    /// Puts back what waited in `count` queues and was set aside; they are empty meanwhile.
    #[cold]
    pub(crate) fn put_back(&mut self, queues: &mut Queues, count: usize) {
        for (queue, run) in &mut self.aside[..count] {
            queues.append(*queue, run);
        }
    }

    /// Takes what was sent down for bucket `id` back out of the queues of a mask, in order.
    fn give_up(
        &mut self,
        queues: &mut Queues,
        mask: u64,
        id: BucketId,
        mut leave: impl FnMut(QueueId, Message),
    ) {
        let mut mask = queues.ready() & mask;
        let mut run = core::mem::take(&mut self.spare);
        while let Some(queue) = QueueId::lowest(mask) {
            mask &= !queue.bit();
            queues.exchange(queue, &mut run);
            for message in run.drain() {
                if message.bucket() == id.0 {
                    leave(queue, message);
                } else {
                    queues.push(queue, message);
                }
            }
        }
        self.spare = run;
    }
}

/// What works a cluster's queues through, in one pass after the other.
pub(crate) struct Pass {
    /// Queues whose functions run here, as a mask.
    here: u64,
    /// Those of them that are cores.
    cores: u64,
    /// The modules that they are of, and all others that are turned here.
    modules: ModuleSet,
    pub(crate) buckets: Buckets,
    pub(crate) work: Work,
    /// Empty whenever no core runs on it; kept for its memory.
    inner: Run,
}

/// What came for a core: where that is, and the messages.
pub(crate) type Came<'a, 'c> = (&'c Site, &'a mut Run);

impl Pass {
    /// Over these buckets, where the functions of the queues of the mask `here` are turned.
    pub(crate) fn new(stream: &Stream, here: u64, modules: ModuleSet, buckets: Buckets) -> Pass {
        Pass {
            here,
            modules,
            cores: stream.cores() & here,
            work: Work::new(buckets.count()),
            buckets,
            inner: Run::new(),
        }
    }

    /// Takes memory for runs of so many messages.
    pub(crate) fn reserve(&mut self, messages: usize) {
        self.work.reserve(messages);
        reserve(&mut self.inner, messages);
    }

    /// Queues whose functions run here, as a mask.
    #[inline]
    pub(crate) fn here(&self) -> u64 {
        self.here
    }

    /// Enters the perimeter of every bucket whose time has come.
    #[inline]
    pub(crate) fn expire(&mut self, cx: &mut Context<'_>) {
        if cx.now >= self.work.due_at {
            self.expire_due(cx);
        }
    }

    #[inline(never)]
    fn expire_due(&mut self, cx: &mut Context<'_>) {
        let Work { wheel, due, .. } = &mut self.work;
        wheel.advance(cx.now, |bucket| due.push_back(bucket));
        while let Some(bucket) = self.work.due.pop_front() {
            self.enter(cx, bucket, None);
        }
        self.work.due_at = self.work.wheel.next_deadline().unwrap_or(Instant::MAX);
    }

    /// Serves queues, lowest first, until none holds work, then offers the device what came of it; whether any held work.
    /// `run` holds what waits for the queue `first`, if that is one; it is empty afterwards.
    #[inline]
    pub(crate) fn run(
        &mut self,
        cx: &mut Context<'_>,
        tail: &mut impl Tail,
        first: Option<QueueId>,
        run: &mut Run,
    ) -> bool {
        let mut next = first.or_else(|| self.next(cx, run));
        let busy = next.is_some();
        loop {
            if let Some(queue) = next {
                self.serve_all(cx, queue, run);
            }
            if QueueId::TAIL.is_in(cx.queues.ready()) {
                cx.queues.offer(QueueId::TAIL, |run| tail.transmit(run));
            }
            // What the device has not taken yet must not be overtaken: stay the drainer.
            if self.work.draining.is_empty()
                || QueueId::TAIL.is_in(cx.queues.ready())
                || !self.relieve(cx)
            {
                return busy;
            }
            next = self.next(cx, run);
        }
    }

    /// Serves `queue`, and then what holds work, lowest first.
    #[inline]
    fn serve_all(&mut self, cx: &mut Context<'_>, mut queue: QueueId, run: &mut Run) {
        loop {
            self.serve(cx, queue, run);
            match self.next(cx, run) {
                Some(next) => queue = next,
                None => return,
            }
        }
    }

    /// The next queue with work, which is moved to `run`.
    #[inline]
    fn next(&self, cx: &mut Context<'_>, run: &mut Run) -> Option<QueueId> {
        let queue = QueueId::lowest(cx.queues.ready() & self.here)?;
        cx.queues.exchange(queue, run);
        Some(queue)
    }

    /// Runs the function of a queue on what waited in it. What stays goes on to the next function at once as long as that
    /// one is turned here and nothing waits that comes before it.
    #[inline]
    fn serve(&mut self, cx: &mut Context<'_>, mut queue: QueueId, run: &mut Run) {
        while let Some(site) = cx.stream.site(queue) {
            let direction = site.step.direction;
            cx.direction = direction;
            cx.links = &site.links;
            match site.step.stage {
                Stage::Core => return self.serve_core(cx, site, run),
                Stage::Before => site.code.before(direction, run, cx),
                Stage::After => site.code.after(direction, run, cx),
            }
            if run.is_empty() {
                return;
            }
            if site.stay_bit & self.here == 0 || cx.queues.ready() & site.up_to_stay != 0 {
                return cx.queues.append(site.stay, run);
            }
            queue = site.stay;
        }
    }

    /// Groups what waited for a core by bucket and enters each bucket's perimeter once.
    #[inline]
    fn serve_core<'c>(&mut self, cx: &mut Context<'c>, site: &'c Site, run: &mut Run) {
        let [first, others @ ..] = run.as_slice() else {
            return;
        };
        let first = first.bucket();
        if others.iter().all(|message| message.bucket() == first) {
            return self.enter(cx, BucketId(first), Some((site, run)));
        }
        self.serve_groups(cx, site, run);
    }

    /// The same for a run of several buckets.
    #[inline(never)]
    fn serve_groups<'c>(&mut self, cx: &mut Context<'c>, site: &'c Site, run: &mut Run) {
        self.work.groups.fill(run);
        self.work.grouped = site.queue;
        while let Some(bucket) = self.work.groups.next(run) {
            self.enter(cx, bucket, Some((site, run)));
        }
    }

    /// Enters the perimeter of a bucket: with what came for a core, or because its time has come.
    #[inline]
    fn enter<'c>(&mut self, cx: &mut Context<'c>, id: BucketId, came: Option<Came<'_, 'c>>) {
        let Store::Private(buckets) = &mut self.buckets.0 else {
            return self.enter_shared(cx, id, came);
        };
        match buckets.get_mut(id.index()).and_then(Option::as_deref_mut) {
            Some(bucket) => Session {
                bucket,
                cores: self.cores,
                cx,
                work: &mut self.work,
            }
            .run(came, &mut self.inner),
            None => self.work.send_on(cx.stream, came),
        }
    }

    /// Enters a bucket behind its lock; see [`perimeter`](crate::perimeter) for what happens to what it sends down.
    #[inline(never)]
    fn enter_shared<'c>(&mut self, cx: &mut Context<'c>, id: BucketId, came: Option<Came<'_, 'c>>) {
        let Store::Shared(buckets) = &self.buckets.0 else {
            return;
        };
        let (work, inner) = (&mut self.work, &mut self.inner);
        let Some(shared) = buckets.get(id.index()) else {
            return work.send_on(cx.stream, came);
        };
        // The queues of what waits to go down outside the perimeters.
        let outgoing = !cx.stream.cores() & cx.stream.downward();
        shared.enter(|guarded| {
            let draining = work.draining.contains(&id);
            if draining {
                // What others have left meanwhile comes before what this entry sends down.
                shared.take_left(guarded, |queue, message| cx.queues.push(queue, message));
            }
            let before = cx.queues.count(outgoing);
            // Another processor that was here before may have read the clock later.
            let later = guarded.later(cx.now);
            let read = core::mem::replace(&mut cx.now, later);
            if core::mem::replace(&mut guarded.is_inside, true) {
                poison::replace(&mut guarded.bucket, self.modules, cx);
            }
            Session {
                bucket: &mut guarded.bucket,
                cores: self.cores,
                cx,
                work,
            }
            .run(came, inner);
            guarded.is_inside = false;
            cx.now = read;
            if draining || cx.queues.count(outgoing) == before {
                return;
            }
            if shared.drain.claim() {
                work.draining.push(id);
            } else {
                work.give_up(cx.queues, outgoing, id, |queue, message| {
                    guarded.outbox.leave((queue, message));
                });
            }
        });
    }

    /// After a panic in the turn of time `now`: whether it was inside a bucket, which has been replaced then. The pass can go on with what
    /// is not lost with that; `run` is what it was working on.
    #[cold]
    pub(crate) fn recover(&mut self, cx: &mut Context<'_>, now: Instant, run: &mut Run) -> bool {
        let Some(id) = cx.bucket.take() else {
            return false;
        };
        cx.now = now;
        run.clear();
        self.inner.clear();
        // What is inside belongs to the bucket; what came from outside for others has been set aside.
        let mut inside = cx.queues.ready() & self.cores;
        while let Some(queue) = QueueId::lowest(inside) {
            inside &= !queue.bit();
            cx.queues.exchange(queue, run);
            run.clear();
        }
        // What was taken out of its queue first comes first.
        let (grouped, aside) = (self.work.grouped, self.work.aside.len());
        while self.work.groups.next(run).is_some() {
            cx.queues.append(grouped, run);
        }
        self.work.put_back(cx.queues, aside);
        if !self.work.due.is_empty() {
            self.work.due_at = Instant::ZERO;
        }
        match &mut self.buckets.0 {
            Store::Private(buckets) => {
                if let Some(bucket) = buckets.get_mut(id.index()).and_then(Option::as_deref_mut) {
                    poison::replace(bucket, self.modules, cx);
                    self.work.arm(bucket);
                }
            }
            Store::Shared(buckets) => {
                if let Some(shared) = buckets.get(id.index()) {
                    shared.enter(|guarded| {
                        // Unless somebody else has been there since.
                        if core::mem::replace(&mut guarded.is_inside, false) {
                            poison::replace(&mut guarded.bucket, self.modules, cx);
                            self.work.arm(&mut guarded.bucket);
                        }
                    });
                }
            }
        }
        true
    }

    /// Stops carrying for the shared buckets whose messages have all gone; whether more was left for us.
    #[cold]
    fn relieve(&mut self, cx: &mut Context<'_>) -> bool {
        let Store::Shared(buckets) = &self.buckets.0 else {
            return false;
        };
        let draining = &mut self.work.draining;
        draining.retain(|id| {
            !buckets[id.index()].release(|queue, message| cx.queues.push(queue, message))
        });
        !draining.is_empty()
    }
}
