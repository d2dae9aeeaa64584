//! One visit to a bucket that several processors enter.

use crate::bucket::PerimeterId;
use crate::cluster::ModuleSet;
use crate::context::Context;
use crate::counters::StreamCounter;
use crate::module::ModuleId;
use crate::pass::Came;
use crate::perimeter::shared::{Guarded, Inside, Kept, PATIENCE, Piece, SharedBucket};
use crate::poison;
use crate::rising;
use crate::session::Session;
use crate::stream::Stream;
use crate::work::Work;
use braidnet_message::Run;
use braidnet_sync::delegation::{Entry, Left};
use braidnet_sync::rejoin::Disorder;
use braidnet_sync::ticket::Ticket;
use braidnet_wire::time::Instant;

/// One visit to a bucket that several processors enter.
pub(crate) struct Visit<'a, 'c> {
    pub(crate) shared: &'a SharedBucket,
    pub(crate) id: PerimeterId,
    pub(crate) reach: Reach,
    pub(crate) cx: &'a mut Context<'c>,
    pub(crate) work: &'a mut Work,
    /// Empty before and after.
    pub(crate) inner: &'a mut Run,
}

/// What an entry of a perimeter turns.
#[derive(Clone, Copy)]
pub(crate) struct Reach {
    /// The queues of the cores that are turned.
    pub(crate) cores: u64,
    /// The modules that they are of, and all others that are turned with them.
    pub(crate) modules: ModuleSet,
    /// The queues that what leaves in order waits in, outside the perimeter.
    outgoing: u64,
}

impl Reach {
    /// These cores under one perimeter: what goes down leaves in order.
    pub(crate) fn of_all(stream: &Stream, cores: u64, modules: ModuleSet) -> Reach {
        Reach {
            cores,
            modules,
            outgoing: !stream.cores() & stream.downward(),
        }
    }

    /// One module's cores: what goes to those of others does as well.
    pub(crate) fn of(stream: &Stream, module: ModuleId) -> Reach {
        Reach {
            cores: stream.cores_of(module),
            modules: ModuleSet::of([module]),
            outgoing: stream.handed_on(module),
        }
    }
}

/// Pieces of work that whoever is inside does at most, its own included, before it looks after what came of them.
const BOUND: usize = 4;

impl<'c> Visit<'_, 'c> {
    /// With what came for a core, and its number if it has one.
    pub(crate) fn bring(mut self, came: Option<Came<'_, 'c>>, number: Option<Ticket>) {
        let shared = self.shared;
        if number.is_none()
            && let Inside::Locked(lock) = &shared.inside
        {
            return lock.with(|guarded| match &guarded.order {
                None => self.serve(&mut guarded.kept, came),
                Some(_) => {
                    let piece = self.work.piece(came, number);
                    self.arrive(guarded, piece);
                }
            });
        }
        let number = match (&shared.turns, number) {
            (Some(turns), Some(number)) => return turns.pass(number, || self.bring(came, None)),
            (_, number) => number,
        };
        let piece = self.work.piece(came, number);
        self.bring_piece(piece);
    }

    pub(crate) fn bring_piece(&mut self, piece: Box<Left<Piece>>) {
        match &self.shared.inside {
            Inside::Locked(lock) => lock.with(|guarded| self.arrive(guarded, piece)),
            Inside::Delegated(delegated) => {
                let entry = delegated.enter(piece, BOUND, |guarded, piece| {
                    self.arrive(guarded, piece);
                });
                self.leave(entry);
            }
        }
    }

    /// Goes on with what others have left.
    pub(crate) fn resume(mut self) {
        if let Inside::Delegated(delegated) = &self.shared.inside {
            let entry = delegated.resume(BOUND, |guarded, piece| self.arrive(guarded, piece));
            self.leave(entry);
        }
        self.rise_on();
    }

    pub(crate) fn leave(&mut self, entry: Entry) {
        if entry == Entry::Unfinished && !self.work.unfinished.contains(&self.id) {
            self.work.unfinished.push(self.id);
        }
    }

    /// A piece that has a number waits for its turn; the others are done at once.
    fn arrive(&mut self, guarded: &mut Guarded, mut piece: Box<Left<Piece>>) {
        let Guarded { kept, order } = guarded;
        let Some(order) = order else {
            return self.serve_piece(kept, piece);
        };
        let now = kept.later(self.cx.now);
        match piece.work.number.take() {
            Some(number) => {
                order.arrive(number, piece, now + PATIENCE, |piece| {
                    self.serve_piece(kept, piece);
                });
            }
            None => self.serve_piece(kept, piece),
        }
        order.pass_over(now, |piece| self.serve_piece(kept, piece));
        if let Some(at) = order.deadline() {
            self.work.arm_for(&mut kept.bucket, at);
        }
        if let Some(disorder) = order.take_disorder() {
            self.count(disorder);
        }
    }

    #[cold]
    fn count(&mut self, disorder: Disorder) {
        let Disorder { passed_over, late } = disorder;
        self.cx.count_own(StreamCounter::PassedOver, passed_over);
        self.cx.count_own(StreamCounter::Late, late);
    }

    fn serve_piece(&mut self, kept: &mut Kept, mut piece: Box<Left<Piece>>) {
        let is_own = piece.work.from == self.work.seat;
        let free = if is_own { 0 } else { self.cx.stream.free() };
        let lengths = Work::lengths(self.cx.queues, free);
        let Piece { queue, run, .. } = &mut piece.work;
        if queue.is_none() {
            // The entry that has fired may have been the only one, and it may have fired before the time of whoever is inside: from now
            // on it is this processor's affair.
            kept.bucket.armed = Instant::MAX;
            self.work.arm(&mut kept.bucket);
        }
        let site = queue.and_then(|queue| self.cx.stream.site(queue));
        self.serve(kept, site.map(|site| (site, run)));
        let done = if is_own {
            Some(piece)
        } else {
            self.work.answer(self.cx.queues, &lengths, piece)
        };
        if let Some(piece) = done {
            self.work.put_by(piece, &mut kept.spare);
        }
    }

    /// Works with the bucket; what it sends down leaves in order, carried by one drainer (see
    /// [`perimeter`](crate::perimeter)).
    fn serve(&mut self, kept: &mut Kept, came: Option<Came<'_, 'c>>) {
        let Reach {
            cores,
            modules,
            outgoing,
        } = self.reach;
        self.work.inside = cores;
        self.work.tally.note(kept, self.shared.id, &came);
        let draining = self.work.draining.contains(&self.id);
        if draining && self.shared.drain.has_more() {
            // What others have left meanwhile comes before what this entry sends down.
            let queues = &mut *self.cx.queues;
            self.shared
                .take_left(|queue, message| queues.push(queue, message));
        }
        let before = self.cx.queues.count(outgoing);
        let rises = &*self.shared.rises;
        if !rises.is_empty() {
            rising::mark(rises, self.cx.queues, &mut self.work.marks);
        }
        // Another processor that was here before may have read the clock later.
        let later = kept.later(self.cx.now);
        let read = core::mem::replace(&mut self.cx.now, later);
        if core::mem::replace(&mut kept.is_inside, true) {
            poison::replace(&mut kept.bucket, modules, self.cx);
        }
        Session {
            bucket: &mut kept.bucket,
            cores,
            cx: self.cx,
            work: self.work,
        }
        .run_only(came, self.inner);
        kept.is_inside = false;
        if !rises.is_empty() {
            self.work.ascend(rises, self.cx.queues, self.id);
        }
        self.cx.now = read;
        if draining || self.cx.queues.count(outgoing) == before {
            return;
        }
        let (queues, work) = (&mut *self.cx.queues, &mut *self.work);
        let carries = self
            .shared
            .send(|leave| work.give_up(queues, outgoing, self.shared.id, leave));
        if carries {
            work.draining.push(self.id);
        }
    }
}
