//! One working through of a cluster's queues.

use crate::bucket::{Armed, Bucket, BucketId};
use crate::cluster::{Parcel, Tail};
use crate::context::Context;
use crate::groups::Groups;
use crate::perimeter::{Buckets, Store};
use crate::queues::{QueueId, Queues, Stage, reserve};
use crate::session::{Entry, Session};
use crate::stream::{Site, Step, Stream};
use crate::wheel::Wheel;
use braidnet_message::{Message, Run};
use braidnet_wire::time::Instant;
use core::sync::atomic::{AtomicU32, Ordering};

/// What a cluster's passes need beside the buckets, the buffers and the queues.
pub(crate) struct Work {
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

/// Timers that memory is taken for, for each bucket.
const TIMERS: usize = 4;

impl Work {
    pub(crate) fn new(buckets: u32) -> Work {
        Work {
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
        // A shared bucket may be in the wheels of several processors, one entry being stale.
        self.wheel.reserve(TIMERS * self.groups.buckets());
        self.foreign.reserve(messages);
    }

    /// Sees to it that the bucket's deadline is in some processor's wheel.
    #[inline]
    pub(crate) fn arm(&mut self, bucket: &mut Bucket) {
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
    pub(crate) fn send_away(&mut self, stream: &Stream, queues: &mut Queues, queue: QueueId) {
        let mut run = core::mem::take(&mut self.spare);
        queues.exchange(queue, &mut run);
        self.send_run_away(stream, queue, &mut run);
        self.spare = run;
    }

    pub(crate) fn send_run_away(&mut self, stream: &Stream, queue: QueueId, run: &mut Run) {
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

/// One working through of a cluster's queues.
pub(crate) struct Pass<'a> {
    pub(crate) stream: &'a Stream,
    pub(crate) here: u64,
    pub(crate) buckets: &'a mut Buckets,
    pub(crate) work: &'a mut Work,
    /// What the modules see, made once for all of them: before each call it is told whose.
    pub(crate) cx: Context<'a>,
    /// Empty whenever no core runs on it; kept for its memory.
    pub(crate) inner: &'a mut Run,
}

impl<'a> Pass<'a> {
    /// Enters the perimeter of every bucket whose time has come.
    #[inline]
    pub(crate) fn expire(&mut self) {
        if self.cx.now >= self.work.due_at {
            self.expire_due();
        }
    }

    #[inline(never)]
    fn expire_due(&mut self) {
        let mut due = core::mem::take(&mut self.work.due);
        self.work
            .wheel
            .advance(self.cx.now, |bucket| due.push(bucket));
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
        let tail_bit = QueueId::TAIL.bit();
        loop {
            let here = self.here & !tail_bit;
            while let Some(queue) = QueueId::lowest(self.cx.queues.ready() & here) {
                self.cx.queues.exchange(queue, run);
                self.serve(queue, run, here);
            }
            if self.cx.queues.ready() & tail_bit != 0 {
                tail.transmit(self.cx.queues.run_mut(QueueId::TAIL));
                self.cx.queues.refresh(QueueId::TAIL);
            }
            // What the device has not taken yet must not be overtaken: stay the drainer.
            let backed_up = self.cx.queues.ready() & tail_bit != 0;
            if backed_up || self.work.draining.is_empty() || !self.relieve() {
                return;
            }
        }
    }

    /// Runs the function of a queue on what waited in it. What stays goes on to the next function at once as long as that
    /// one is turned here and would be served next anyway.
    #[inline]
    fn serve(&mut self, mut queue: QueueId, run: &mut Run, here: u64) {
        while let Some(site) = self.stream.site(queue) {
            let direction = site.step.direction;
            self.cx.direction = direction;
            self.cx.links = &site.links;
            match site.step.stage {
                Stage::Core => return self.serve_core(site, queue, run),
                Stage::Before => site.code.before(direction, run, &mut self.cx),
                Stage::After => site.code.after(direction, run, &mut self.cx),
            }
            if run.is_empty() {
                return;
            }
            queue = site.stay;
            let before = self.cx.queues.ready() & here & queue.and_lower();
            if before != 0 || here & queue.bit() == 0 {
                return self.cx.queues.append(queue, run);
            }
        }
    }

    /// Groups what waited for a core by bucket and enters each bucket's perimeter once.
    #[inline]
    fn serve_core(&mut self, site: &'a Site, queue: QueueId, run: &mut Run) {
        let [first, others @ ..] = run.as_slice() else {
            return;
        };
        let first = first.bucket();
        if others.iter().all(|message| message.bucket() == first) {
            return self.enter(BucketId(first), Entry::Run(site, queue, run));
        }
        self.serve_groups(site, queue, run);
    }

    /// The same for a run of several buckets.
    #[inline(never)]
    fn serve_groups(&mut self, site: &'a Site, queue: QueueId, run: &mut Run) {
        let mut groups = core::mem::take(&mut self.work.groups);
        groups.fill(run);
        for (bucket, run) in groups.iter_mut() {
            self.enter(bucket, Entry::Run(site, queue, run));
        }
        groups.clear();
        self.work.groups = groups;
    }

    #[inline]
    fn enter(&mut self, id: BucketId, entry: Entry<'_, 'a>) {
        let stream = self.stream;
        let Store::Private(buckets) = &mut self.buckets.0 else {
            return self.enter_shared(id, entry);
        };
        match buckets.get_mut(id.index()).and_then(Option::as_deref_mut) {
            Some(bucket) => Session {
                stream,
                bucket,
                cores: stream.cores() & self.here,
                cx: &mut self.cx,
                work: self.work,
            }
            .run(entry, self.inner),
            None => entry.send_away(stream, self.work),
        }
    }

    /// Enters a bucket behind its lock; see [`perimeter`](crate::perimeter) for what happens to what it sends down.
    #[inline(never)]
    fn enter_shared(&mut self, id: BucketId, entry: Entry<'_, 'a>) {
        let Store::Shared(buckets) = &self.buckets.0 else {
            return;
        };
        let stream = self.stream;
        let (cores, cx) = (stream.cores() & self.here, &mut self.cx);
        let (work, inner) = (&mut *self.work, &mut *self.inner);
        let Some(shared) = buckets.get(id.index()) else {
            return entry.send_away(stream, work);
        };
        // The queues of what waits to go down outside the perimeters.
        let outgoing = !stream.cores() & stream.downward();
        shared.enter(|guarded| {
            let before = cx.queues.count(outgoing);
            Session {
                stream,
                bucket: &mut guarded.bucket,
                cores,
                cx,
                work,
            }
            .run(entry, inner);
            if cx.queues.count(outgoing) == before || work.draining.contains(&id) {
                return;
            }
            if shared.claim() {
                work.draining.push(id);
            } else {
                work.give_up(cx.queues, outgoing, id, |queue, message| {
                    guarded.leave(queue, message);
                });
            }
        });
    }

    /// Stops carrying for the shared buckets whose messages have all gone; whether more was left for us.
    #[cold]
    fn relieve(&mut self) -> bool {
        let Store::Shared(buckets) = &self.buckets.0 else {
            return false;
        };
        let draining = &mut self.work.draining;
        draining.retain(|id| {
            !buckets[id.index()].release(|queue, message| self.cx.queues.push(queue, message))
        });
        !draining.is_empty()
    }
}
