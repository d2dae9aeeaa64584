//! The working through of a cluster's queues.

use crate::bucket::{BucketId, PerimeterId};
use crate::cluster::{ModuleSet, Tail};
use crate::context::Context;
use crate::counters::StreamCounter;
use crate::module::Direction;
use crate::perimeter::leased::Found;
use crate::perimeter::{Buckets, Claims, Store};
use crate::poison;
use crate::queues::{QueueId, Stage, reserve};
use crate::session::Session;
use crate::stream::{Site, Stream};
use crate::visit::{Reach, Visit};
use crate::work::Work;
use braidnet_message::Run;
use braidnet_wire::time::Instant;
use core::any::Any;
use core::mem;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

/// What works a cluster's queues through, in one pass after the other.
pub(crate) struct Pass {
    /// Queues whose functions run here, as a mask.
    here: u64,
    /// Those of them above which there is no core: what waits there is nobody's turn.
    free: u64,
    /// What an entry of a bucket turns that one perimeter covers whole.
    pub(crate) reach: Reach,
    pub(crate) buckets: Buckets,
    pub(crate) work: Work,
    /// Whether guests have left, and what they have left behind has not all been seen to.
    is_unsettled: bool,
    /// Empty whenever no core runs on it; kept for its memory.
    pub(crate) inner: Run,
}

/// What a panic has said.
type Panic = Box<dyn Any + Send>;

/// What came for a core: where that is, and the messages.
pub(crate) type Came<'a, 'c> = (&'c Site, &'a mut Run);

impl Pass {
    /// Over these buckets, where the functions of the queues of the mask `here` are turned.
    pub(crate) fn new(stream: &Stream, here: u64, modules: ModuleSet, buckets: Buckets) -> Pass {
        Pass {
            here,
            free: stream.free() & here,
            reach: Reach::of_all(stream, stream.cores() & here, modules),
            work: Work::new(buckets.count(), buckets.perimeters()),
            buckets,
            is_unsettled: false,
            inner: Run::new(),
        }
    }

    /// Makes all that is this processor's alone anew, on the calling thread.
    pub(crate) fn rebuild(&mut self, stream: &Stream) {
        self.buckets.rebuild(stream, self.reach.modules);
        let seat = self.work.seat;
        self.work = Work::new(self.buckets.count(), self.buckets.perimeters());
        self.work.seat = seat;
        self.inner = Run::new();
    }

    /// Takes memory for runs of so many messages.
    pub(crate) fn reserve(&mut self, messages: usize) {
        self.work.reserve(messages);
        if self.buckets.is_shared() {
            self.work.reserve_shared(messages);
        }
        reserve(&mut self.inner, messages);
    }

    /// Queues whose functions run here, as a mask.
    #[inline]
    pub(crate) fn here(&self) -> u64 {
        self.here
    }

    /// Looks who shares the buckets, and goes on where this processor or others have left work in them.
    #[inline]
    pub(crate) fn look(&mut self, cx: &mut Context<'_>) {
        if let Store::Leased(leases) = &mut self.buckets.0 {
            self.work.numbers.away = 0;
            self.is_unsettled |= leases.look();
            if self.is_unsettled {
                // A panic in there may end it; then it is begun anew.
                self.after_guests(cx);
                self.is_unsettled = false;
            }
        }
        if !self.work.unfinished.is_empty() {
            self.resume(cx);
        }
    }

    /// Sees to what guests who have left may have left behind: deadlines in their wheels, and, if the home is alone now and so enters its
    /// buckets past all lists, what still lies in these.
    #[cold]
    fn after_guests(&mut self, cx: &mut Context<'_>) {
        self.rearm_own(cx);
        let Store::Leased(leases) = &mut self.buckets.0 else {
            return;
        };
        if !leases.home().is_alone() {
            return;
        }
        while let Some(at) = self.own_unfinished() {
            let id = self.work.unfinished.remove(at);
            if let Some(visit) = self.visit(cx, id) {
                visit.resume();
            }
        }
        for id in &self.work.draining {
            if let Some((shared, _)) = self.buckets.find_shared(*id) {
                shared.take_left(|queue, message| cx.queues.push(queue, message));
            }
        }
    }

    /// Sees to it that the deadlines of the own buckets are in reach: some may be in the wheel of a guest that has left.
    #[cold]
    fn rearm_own(&mut self, cx: &mut Context<'_>) {
        let Store::Leased(leases) = &mut self.buckets.0 else {
            return;
        };
        let reach = self.reach;
        let (work, inner) = (&mut self.work, &mut self.inner);
        leases.own(|found| rearm(found, reach, cx, work, inner));
    }

    /// Where an own bucket stands among those in which something has been left undone.
    fn own_unfinished(&mut self) -> Option<usize> {
        let Store::Leased(leases) = &mut self.buckets.0 else {
            return None;
        };
        let mut unfinished = self.work.unfinished.iter();
        unfinished.position(|id| leases.is_own(id.bucket()))
    }

    #[cold]
    fn resume(&mut self, cx: &mut Context<'_>) {
        for _ in 0..self.work.unfinished.len() {
            let id = self.work.unfinished.remove(0);
            if let Some(visit) = self.visit(cx, id) {
                visit.resume();
            }
        }
    }

    /// Brings the numbers of which nothing is left of the runs that they were drawn for.
    #[cold]
    fn bring_numbers(&mut self, cx: &mut Context<'_>) {
        while let Some((id, number)) = self.work.numbers.take_unused() {
            if let Some(visit) = self.visit(cx, id.into()) {
                visit.bring(None, Some(number));
            }
        }
    }

    /// Before the processor's end: nobody waits for what it will not bring any more.
    #[cold]
    pub(crate) fn give_numbers_up(&mut self, cx: &mut Context<'_>) {
        while let Some((id, number)) = self.work.numbers.take_unused() {
            let shared = self.buckets.find_shared(id.into());
            if let Some(turns) = shared.and_then(|(shared, _)| shared.turns.as_ref()) {
                turns.pass(number, || ());
            }
        }
        for risen in self.work.give_carrying_up() {
            if let Some(mut visit) = self.visit(cx, risen.bucket()) {
                visit.rise(risen);
            }
        }
    }

    /// A visit to a perimeter that others enter too.
    fn visit<'a, 'c>(
        &'a mut self,
        cx: &'a mut Context<'c>,
        id: PerimeterId,
    ) -> Option<Visit<'a, 'c>> {
        let (shared, reach) = self.buckets.find_shared(id)?;
        Some(Visit {
            shared,
            id,
            reach: reach.unwrap_or(self.reach),
            cx,
            work: &mut self.work,
            inner: &mut self.inner,
        })
    }

    /// What this processor may take of what has arrived.
    #[inline]
    pub(crate) fn claims(&mut self) -> Claims<'_> {
        Claims {
            buckets: &mut self.buckets,
            numbers: &mut self.work.numbers,
        }
    }

    /// Enters the perimeter of every bucket whose time has come.
    #[inline(never)]
    fn expire_due(&mut self, cx: &mut Context<'_>) {
        let Work { wheel, due, .. } = &mut self.work;
        wheel.advance(cx.now, |id| due.push_back(id));
        while let Some(id) = self.work.due.pop_front() {
            if let Store::Shared(_) = self.buckets.0 {
                if let Some(visit) = self.visit(cx, id) {
                    visit.bring(None, None);
                }
            } else {
                self.enter(cx, id.bucket(), None);
            }
        }
        self.work.due_at = self.work.wheel.next_deadline().unwrap_or(Instant::MAX);
    }

    /// Works until no queue holds work; whether any did. `run` holds what waits for the queue `first`, if that is one; it is empty
    /// afterwards.
    ///
    /// What others wait for comes first, the peer among them: all that may lead into a core, what goes down, then the device, and what is to go back to other
    /// processors. The order-free work above the cores, on which most time goes, comes last.
    ///
    /// What is due enters its bucket once in this, behind what this turn has taken: where the processor was away for a while, what a timer waits for
    /// may lie in the device, and came in time.
    #[inline]
    pub(crate) fn run(
        &mut self,
        cx: &mut Context<'_>,
        tail: &mut impl Tail,
        first: Option<QueueId>,
        run: &mut Run,
    ) -> bool {
        let urgent = self.here & !self.free;
        let mut next = first.or_else(|| next(cx, self.here, run));
        let mut busy = next.is_some();
        let mut expired = false;
        loop {
            while let Some(queue) = next {
                self.serve(cx, queue, run);
                next = self::next(cx, urgent, run);
            }
            if self.work.numbers.are_drawn() {
                self.bring_numbers(cx);
                next = self::next(cx, urgent, run);
                if next.is_some() {
                    continue;
                }
            }
            if cx.now >= self.work.due_at && !mem::replace(&mut expired, true) {
                self.expire_due(cx);
                next = self::next(cx, urgent, run);
                if next.is_some() {
                    busy = true;
                    continue;
                }
            }
            if QueueId::TAIL.is_in(cx.queues.ready()) {
                cx.queues.offer(QueueId::TAIL, |run| tail.transmit(run));
            }
            // What the device has not taken yet must not be overtaken: stay the drainer.
            if !self.work.draining.is_empty()
                && !QueueId::TAIL.is_in(cx.queues.ready())
                && self.relieve(cx)
            {
                next = self::next(cx, urgent, run);
                continue;
            }
            if !self.work.answers.is_empty() {
                tail.give_back(&mut self.work.answers);
            }
            if self.work.is_carrying_up() {
                self.carry_up(cx, run);
                next = self::next(cx, urgent, run);
                continue;
            }
            next = self::next(cx, self.free, run);
            if next.is_none() {
                return busy;
            }
        }
    }

    /// Takes what has left shared buckets by an exit to the cores above, box by box. Nothing else waits for any of them; `run` is empty
    /// before and after.
    #[inline(never)]
    fn carry_up(&mut self, cx: &mut Context<'_>, run: &mut Run) {
        let (ways, cores) = (cx.stream.rising().ways, cx.stream.cores_up());
        while let Some(id) = self.work.set_out(cx.queues) {
            while let Some(queue) = next(cx, ways, run) {
                let Some(site) = cx.stream.site(queue) else {
                    break;
                };
                let direction = site.step.direction;
                cx.direction = direction;
                cx.links = &site.links;
                match site.step.stage {
                    Stage::Before => site.code.before(direction, run, cx),
                    Stage::Core | Stage::After => site.code.after(direction, run, cx),
                }
                cx.queues.append(site.stay, run);
            }
            let risen = self.work.arrive(cx.queues, cores);
            if let (Some(risen), Some(mut visit)) = (risen, self.visit(cx, id)) {
                visit.rise(risen);
            }
        }
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
            return self.enter_other(cx, id, came);
        };
        match buckets.get_mut(id.index()).and_then(Option::as_deref_mut) {
            Some(bucket) => Session {
                bucket,
                cores: self.reach.cores,
                cx,
                work: &mut self.work,
            }
            .run(came, &mut self.inner),
            None => self.work.send_on(cx.stream, came),
        }
    }

    /// Enters a bucket that is not this processor's for good.
    #[inline(never)]
    fn enter_other<'c>(&mut self, cx: &mut Context<'c>, id: BucketId, came: Option<Came<'_, 'c>>) {
        let mut reach = self.reach;
        let mut perimeter = id.into();
        let shared = match &mut self.buckets.0 {
            Store::Private(_) => None,
            Store::Shared(perimeters) => {
                if let Some((site, _)) = &came {
                    perimeter = perimeters.of_module(id, site.step.module);
                }
                perimeters.find(perimeter).map(|(shared, turned)| {
                    reach = turned;
                    shared
                })
            }
            Store::Leased(leases) => match leases.find(id) {
                Some(Found::Alone(shared)) if !self.work.is_carrying_up() => {
                    let kept = shared.alone();
                    self.work.tally.note_alone(kept, &came);
                    // Somebody who was here when there were guests may have read the clock later.
                    let later = kept.later(cx.now);
                    let read = core::mem::replace(&mut cx.now, later);
                    Session {
                        bucket: &mut kept.bucket,
                        cores: self.reach.cores,
                        cx: &mut *cx,
                        work: &mut self.work,
                    }
                    .run(came, &mut self.inner);
                    cx.now = read;
                    return;
                }
                // What has a number is not overtaken by what has none.
                Some(Found::Alone(shared)) => Some(&*shared),
                Some(Found::Shared(shared) | Found::Away(shared)) => Some(shared),
                None => None,
            },
        };
        let work = &mut self.work;
        let Some(shared) = shared else {
            return work.send_on(cx.stream, came);
        };
        // What goes down, and an expiry, has no place among what arrives.
        let number = match &came {
            Some((site, _)) if site.step.direction == Direction::Up => work.numbers.take(id),
            _ => None,
        };
        let visit = Visit {
            shared,
            id: perimeter,
            reach,
            cx,
            work,
            inner: &mut self.inner,
        };
        visit.bring(came, number);
    }

    /// After a panic in the turn of time `now`: if it was inside a bucket, replaces that. The pass can go on then with what is not lost with
    /// it; `run` is what it was working on.
    ///
    /// # Errors
    /// The panic, if it was outside every bucket. It may be another one: what others have left in the bucket may panic as well.
    #[cold]
    pub(crate) fn recover(
        &mut self,
        cx: &mut Context<'_>,
        now: Instant,
        run: &mut Run,
        mut panic: Panic,
    ) -> Result<(), Panic> {
        while let Some(id) = cx.bucket.take() {
            let replaced = catch_unwind(AssertUnwindSafe(|| self.replace(cx, id, now, run)));
            match replaced {
                Ok(()) => return Ok(()),
                Err(another) => panic = another,
            }
        }
        Err(panic)
    }

    fn replace(&mut self, cx: &mut Context<'_>, id: BucketId, now: Instant, run: &mut Run) {
        cx.now = now;
        cx.pool.withhold_reserve(false);
        let mut lost = core::mem::take(&mut cx.inside);
        run.clear();
        self.inner.clear();
        // What is inside belongs to the bucket; what came from outside for others has been set aside.
        let cores = match self.buckets.0 {
            Store::Shared(_) => self.work.inside,
            Store::Private(_) | Store::Leased(_) => self.reach.cores,
        };
        let mut inside = cx.queues.ready() & cores;
        while let Some(queue) = QueueId::lowest(inside) {
            inside &= !queue.bit();
            cx.queues.exchange(queue, run);
            lost += run.len();
            run.clear();
        }
        cx.count_own(StreamCounter::Poisoned, lost as u64);
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
                    poison::replace(bucket, self.reach.modules, cx);
                    self.work.arm(bucket);
                }
            }
            Store::Leased(leases) => {
                if let Some(Found::Alone(shared)) = leases.find(id)
                    && !shared.alone().is_inside
                {
                    let kept = shared.alone();
                    cx.now = kept.later(now);
                    poison::replace(&mut kept.bucket, self.reach.modules, cx);
                    cx.now = now;
                    self.work.arm(&mut kept.bucket);
                } else {
                    self.recover_shared(cx, id);
                }
            }
            Store::Shared(_) => self.recover_shared(cx, id),
        }
    }

    /// Whoever enters next finds the mark, and goes on with what has been left there.
    fn recover_shared(&mut self, cx: &mut Context<'_>, id: BucketId) {
        let ids = match &self.buckets.0 {
            Store::Shared(perimeters) => perimeters.of(id),
            Store::Private(_) | Store::Leased(_) => u32::from(id.0)..u32::from(id.0) + 1,
        };
        for id in ids.map(PerimeterId) {
            if let Some(visit) = self.visit(cx, id) {
                visit.bring(None, None);
            }
            // The panic may have ended somebody's bringing up.
            if cx.stream.exits() != 0 && !self.work.unfinished.contains(&id) {
                self.work.unfinished.push(id);
            }
        }
    }

    /// Stops carrying for the shared buckets whose messages have all gone; whether more was left for us.
    #[cold]
    fn relieve(&mut self, cx: &mut Context<'_>) -> bool {
        let buckets = &mut self.buckets;
        let draining = &mut self.work.draining;
        draining.retain(|id| {
            let Some((shared, _)) = buckets.find_shared(*id) else {
                debug_assert!(false, "who carries for a bucket does not leave its home");
                return false;
            };
            !shared.relieve(|queue, message| cx.queues.push(queue, message))
        });
        !draining.is_empty()
    }
}

/// Sees to it that the deadline of an own bucket is in this processor's wheel, or in that of whoever is inside.
pub(crate) fn rearm(
    found: Found<'_>,
    reach: Reach,
    cx: &mut Context<'_>,
    work: &mut Work,
    inner: &mut Run,
) {
    match found {
        Found::Alone(shared) => {
            let bucket = &mut shared.alone().bucket;
            bucket.armed = Instant::MAX;
            work.arm(bucket);
        }
        Found::Shared(shared) | Found::Away(shared) => {
            let piece = work.piece(None, None);
            Visit {
                shared,
                id: shared.id.into(),
                reach,
                cx,
                work,
                inner,
            }
            .bring_piece(piece);
        }
    }
}

/// The lowest queue of a mask that has work, which is moved to `run`.
#[inline]
fn next(cx: &mut Context<'_>, mask: u64, run: &mut Run) -> Option<QueueId> {
    let queue = QueueId::lowest(cx.queues.ready() & mask)?;
    cx.queues.exchange(queue, run);
    Some(queue)
}
