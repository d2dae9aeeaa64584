//! One entry of a bucket's perimeter.

use crate::bucket::{Bucket, BucketId};
use crate::context::Context;
use crate::module::{Direction, ModuleId, Stages};
use crate::pass::Came;
use crate::queues::QueueId;
use crate::stream::{Entry, Site, Step};
use crate::work::Work;
use braidnet_message::Run;
use braidnet_wire::time::Instant;

/// One entry of a bucket's perimeter.
pub(crate) struct Session<'a, 'c> {
    pub(crate) bucket: &'a mut Bucket,
    /// The queues of the cores that are turned here.
    pub(crate) cores: u64,
    pub(crate) cx: &'a mut Context<'c>,
    pub(crate) work: &'a mut Work,
}

impl<'c> Session<'_, 'c> {
    /// Runs cores until none has work, first the one that something `came` for, if not an expiry; then lets each module
    /// that worked settle, until that makes no more work. `inner` is empty before and after.
    #[inline]
    pub(crate) fn run(mut self, came: Option<Came<'_, 'c>>, inner: &mut Run) {
        let outside = self.cx.queues.ready() & self.cores;
        if outside == 0 {
            self.work_through(came, inner);
        } else {
            let id = self.bucket.id;
            self.run_aside(outside, Some(id), came, inner);
        }
    }

    /// The same, but that what else has come from outside stays there, be it for this bucket: what `came` may be older, or another processor's.
    #[inline]
    pub(crate) fn run_only(mut self, came: Option<Came<'_, 'c>>, inner: &mut Run) {
        let outside = self.cx.queues.ready() & self.cores;
        if outside == 0 {
            self.work_through(came, inner);
        } else {
            self.run_aside(outside, None, came, inner);
        }
    }

    /// Runs where something else has come from outside, for the cores `outside`. Of that, what is for bucket `along` is done in the same entry.
    #[inline(never)]
    fn run_aside(
        mut self,
        outside: u64,
        along: Option<BucketId>,
        came: Option<Came<'_, 'c>>,
        inner: &mut Run,
    ) {
        let aside = self.work.set_aside(self.cx.queues, outside, along);
        self.work_through(came, inner);
        if aside > 0 {
            self.work.put_back(self.cx.queues, aside);
        }
    }

    #[inline]
    fn work_through(&mut self, came: Option<Came<'_, 'c>>, inner: &mut Run) {
        self.cx.bucket = Some(self.bucket.id);
        self.cx.deadline = self.bucket.deadline;
        // The modules that worked and have not settled.
        let mut touched = match came {
            Some(_) => 0,
            None => expire(self.bucket, self.cores, self.cx),
        };
        let mut next = came;
        loop {
            while let Some((site, run)) = next.take().or_else(|| self.next_core(inner)) {
                touched |= self.core(site, run);
            }
            touched &= self.cx.stream.settling();
            if touched == 0 {
                break;
            }
            let module = ModuleId((u32::BITS - 1 - touched.leading_zeros()) as u8);
            touched &= !(1 << module.0);
            let entry = attend(self.cx, module, Direction::Down);
            let state = self.bucket.state(module);
            entry.code.settle(state, self.cx);
        }
        self.cx.bucket = None;
        self.bucket.deadline = self.cx.deadline;
        self.work.arm(self.bucket);
    }

    /// The next core with work, which is moved to `run`.
    #[inline]
    fn next_core<'r>(&mut self, run: &'r mut Run) -> Option<Came<'r, 'c>> {
        let queue = QueueId::lowest(self.cx.queues.ready() & self.cores)?;
        self.cx.queues.exchange(queue, run);
        let site = self.cx.stream.site(queue)?;
        Some((site, run))
    }

    /// Runs a core; the module, as a mask.
    #[inline]
    fn core(&mut self, site: &'c Site, run: &mut Run) -> u32 {
        let Step {
            module, direction, ..
        } = site.step;
        self.cx.direction = direction;
        self.cx.links = &site.links;
        let state = self.bucket.state(module);
        self.cx.inside = run.len();
        site.code.core(state, direction, run, self.cx);
        self.cx.inside = 0;
        self.cx.queues.append(site.stay, run);
        1 << module.0
    }
}

/// Tells the context that a module is called for itself: settling, or because its time has come.
#[inline]
pub(crate) fn attend<'c>(
    cx: &mut Context<'c>,
    module: ModuleId,
    direction: Direction,
) -> &'c Entry {
    let entry = cx.stream.module(module);
    cx.direction = direction;
    cx.links = &entry.core_links;
    entry
}

/// Calls the modules whose `cores` are turned here because the bucket's time has come, if it has; these as a mask.
#[inline(never)]
fn expire(bucket: &mut Bucket, cores: u64, cx: &mut Context<'_>) -> u32 {
    // Nothing is lost with an entry that another processor's wheel has made stale: that one fires later.
    if bucket.armed > cx.now {
        return 0;
    }
    bucket.armed = Instant::MAX;
    if bucket.deadline > cx.now {
        return 0;
    }
    cx.deadline = Instant::MAX;
    let here = modules(cores, cx);
    let mut touched = 0;
    for (module, _) in cx.stream.modules() {
        let stages = cx.stream.module(module).stages;
        if here & (1 << module.0) != 0 && stages.contains(Stages::EXPIRE) {
            let entry = attend(cx, module, Direction::Up);
            entry.code.expire(bucket.state(module), cx);
            touched |= 1 << module.0;
        }
    }
    touched
}

/// The modules that have these cores, as a mask.
fn modules(mut cores: u64, cx: &Context<'_>) -> u32 {
    let mut modules = 0;
    while let Some(queue) = QueueId::lowest(cores) {
        cores &= !queue.bit();
        modules |= cx
            .stream
            .site(queue)
            .map_or(0, |site| 1 << site.step.module.0);
    }
    modules
}
