//! One entry of a bucket's perimeter.

use crate::bucket::Bucket;
use crate::context::Context;
use crate::module::{Direction, Module, ModuleId, Stages, State};
use crate::pass::Work;
use crate::queues::QueueId;
use crate::stream::{Site, Step, Stream};
use braidnet_message::Run;
use braidnet_wire::time::Instant;

/// With what a perimeter is entered.
pub(crate) enum Entry<'a, 'c> {
    /// With what waited for a core, and where that core is.
    Run(&'c Site, QueueId, &'a mut Run),
    Expiry,
}

impl Entry<'_, '_> {
    /// The bucket is not here: its work goes to whoever has it. An expiry of a bucket that has moved is void.
    #[cold]
    pub(crate) fn send_away(self, stream: &Stream, work: &mut Work) {
        if let Entry::Run(_, queue, run) = self {
            work.send_run_away(stream, queue, run);
        }
    }
}

/// One entry of a bucket's perimeter.
pub(crate) struct Session<'a, 'c> {
    pub(crate) stream: &'c Stream,
    pub(crate) bucket: &'a mut Bucket,
    /// The queues of the cores that are turned here.
    pub(crate) cores: u64,
    pub(crate) cx: &'a mut Context<'c>,
    pub(crate) work: &'a mut Work,
}

impl<'c> Session<'_, 'c> {
    /// Runs cores until none has work, then lets each module that worked settle, until that makes no more work. `inner` is
    /// empty before and after.
    #[inline]
    pub(crate) fn run(mut self, entry: Entry<'_, 'c>, inner: &mut Run) {
        // What came for the cores from outside may be for other buckets; what is for this one is done in the same entry.
        let outside = self.cx.queues.ready() & self.cores;
        let aside = if outside == 0 {
            0
        } else {
            self.work.set_aside(self.cx.queues, outside, self.bucket.id)
        };
        self.cx.bucket = Some(self.bucket.id);
        self.cx.deadline = self.bucket.deadline;
        // The modules that worked and have not settled.
        let mut touched = 0;
        let mut first = None;
        match entry {
            Entry::Run(site, _, run) => first = Some((site, run)),
            Entry::Expiry => touched = self.expire(),
        }
        loop {
            let work = match first.take() {
                None => self.next_core(inner).map(|site| (site, &mut *inner)),
                first => first,
            };
            if let Some((site, run)) = work {
                self.core(site, run);
                touched |= 1 << site.step.module.0;
                continue;
            }
            touched &= self.stream.settling();
            if touched == 0 {
                break;
            }
            let module = ModuleId((u32::BITS - 1 - touched.leading_zeros()) as u8);
            touched &= !(1 << module.0);
            self.call(module, Direction::Down, |code, state, cx| {
                code.settle(state, cx)
            });
        }
        self.cx.bucket = None;
        self.bucket.deadline = self.cx.deadline;
        if aside > 0 {
            self.work.put_back(self.cx.queues, aside);
        }
        self.work.arm(self.bucket);
    }

    /// The next core with work, which is moved to `run`.
    #[inline]
    fn next_core(&mut self, run: &mut Run) -> Option<&'c Site> {
        let queue = QueueId::lowest(self.cx.queues.ready() & self.cores)?;
        self.cx.queues.exchange(queue, run);
        self.stream.site(queue)
    }

    #[inline]
    fn core(&mut self, site: &'c Site, run: &mut Run) {
        let Step {
            module, direction, ..
        } = site.step;
        self.cx.direction = direction;
        self.cx.links = &site.links;
        let state = &mut *self.bucket.states[module.index()];
        site.code.core(state, direction, run, self.cx);
        self.cx.queues.append(site.stay, run);
    }

    #[inline(never)]
    fn expire(&mut self) -> u32 {
        self.bucket.armed = None;
        if self.bucket.deadline > self.cx.now {
            return 0;
        }
        self.cx.deadline = Instant::MAX;
        let here = self.modules();
        let mut touched = 0;
        for (module, _) in self.stream.modules() {
            if here & (1 << module.0) != 0 && self.stream.stages(module).contains(Stages::EXPIRE) {
                self.call(module, Direction::Up, |code, state, cx| {
                    code.expire(state, cx)
                });
                touched |= 1 << module.0;
            }
        }
        touched
    }

    /// The modules whose cores are turned here, and so have their state here, as a mask.
    fn modules(&self) -> u32 {
        let mut mask = self.cores;
        let mut modules = 0;
        while let Some(queue) = QueueId::lowest(mask) {
            mask &= !queue.bit();
            modules |= self
                .stream
                .site(queue)
                .map_or(0, |site| 1 << site.step.module.0);
        }
        modules
    }

    #[inline]
    fn call(
        &mut self,
        module: ModuleId,
        direction: Direction,
        work: impl FnOnce(&dyn Module, &mut dyn State, &mut Context<'_>),
    ) {
        self.cx.direction = direction;
        self.cx.links = self.stream.core_links(module);
        work(
            self.stream.code(module),
            &mut *self.bucket.states[module.index()],
            self.cx,
        );
    }
}
