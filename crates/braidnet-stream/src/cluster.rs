//! The cluster: some of a stream's modules, turned to completion on the caller's thread.

use crate::bucket::BucketId;
use crate::context::Context;
use crate::counters::{Counters, StreamCounter};
use crate::dividing::Dividing;
use crate::migration::Migrant;
use crate::module::{Direction, ModuleId};
use crate::pass::Pass;
use crate::perimeter::{Buckets, Claims};
use crate::queues::{QueueId, Queues, reserve};
use crate::stream::{Links, Stream};
use crate::work::Answer;
use braidnet_message::{Arena, Message, Pool, Run};
use braidnet_sync::board::Helped;
use braidnet_wire::time::Instant;
use core::panic::AssertUnwindSafe;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::Arc;

/// A message on its way to a function that another processor must run.
pub struct Parcel {
    pub(crate) queue: QueueId,
    pub(crate) module: ModuleId,
    pub(crate) direction: Direction,
    pub(crate) message: Message,
}

impl Parcel {
    /// A message addressed to `module` of `stream`, to be sent to the cluster that turns it for the message's bucket.
    pub fn new(
        stream: &Stream,
        module: ModuleId,
        direction: Direction,
        message: Message,
    ) -> Parcel {
        let queue = stream.entry(module, direction);
        Parcel {
            queue,
            module,
            direction,
            message,
        }
    }

    /// The bucket that the message belongs to.
    pub fn bucket(&self) -> BucketId {
        BucketId(self.message.bucket())
    }

    /// The module whose function is to run.
    pub fn module(&self) -> ModuleId {
        self.module
    }

    /// The direction in which it runs.
    pub fn direction(&self) -> Direction {
        self.direction
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

/// The device's side of a stream's tail: where packets come from and go to.
pub trait Tail {
    /// Appends what has arrived for the lowest module to `run`. Where several processors take from one queue, what is kept is
    /// claimed while it is this one's turn at the queue.
    fn receive(&mut self, pool: &mut Pool, run: &mut Run, claims: &mut Claims<'_>) {
        let _ = (pool, run, claims);
    }

    /// A bucket that has been given to this processor, of which there may be packets among what has been received: it is at home here from now on.
    /// Asked until there is none.
    fn migrant(&mut self) -> Option<Migrant> {
        None
    }

    /// Takes what it can from the front of `run`; what stays is offered again with the next turn.
    fn transmit(&mut self, run: &mut Run);

    /// Takes what came of work that other processors have left here, to bring it back to them.
    fn give_back(&mut self, answers: &mut Vec<Answer>) {
        let _ = answers;
    }
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
    /// Where packets enter the lowest module, if that is turned here.
    lowest: Option<QueueId>,
    pub(crate) pass: Pass,
    arena: Arc<Arena>,
    pool: Pool,
    queues: Queues,
    counters: Arc<Counters>,
    /// Where the work on one message is divided among processors.
    dividing: Option<Box<Dividing>>,
    /// What the queue being served held. Empty between turns, kept for its memory.
    outer: Run,
}

impl Cluster {
    /// A cluster that turns `modules` of `stream` over `buckets`, with buffers from `arena`.
    pub fn new(
        stream: &Arc<Stream>,
        modules: ModuleSet,
        buckets: Buckets,
        arena: &Arc<Arena>,
    ) -> Cluster {
        Cluster::dividing(stream, modules, buckets, arena, None)
    }

    /// The same, where the work on one message is divided among the processors that turn the stream.
    pub fn dividing(
        stream: &Arc<Stream>,
        modules: ModuleSet,
        buckets: Buckets,
        arena: &Arc<Arena>,
        dividing: Option<Dividing>,
    ) -> Cluster {
        let divided = dividing.as_ref().map_or(0, Dividing::queues);
        let here = stream
            .steps()
            .filter(|(_, step)| modules.contains(step.module))
            .fold(0, |here, (queue, _)| here | queue.bit())
            & !divided;
        let lowest = stream.entry(ModuleId(0), Direction::Up);
        Cluster {
            lowest: (lowest.bit() & here != 0).then_some(lowest),
            pass: Pass::new(stream, here, modules, buckets),
            arena: arena.clone(),
            pool: Pool::new(arena),
            queues: Queues::new(),
            counters: Counters::new(stream),
            stream: stream.clone(),
            dividing: dividing.map(Box::new),
            outer: Run::new(),
        }
    }

    /// Makes what is this cluster's alone anew: buffers, queues, timers, and the buckets that nobody else enters. Memory lies beside
    /// the processor that first touches it, and what one thread allocates shares no cache line with what another does; so this is for a
    /// cluster that was made on one thread and is turned on another, before its first turn. Buckets that several processors enter are
    /// beside none of them, and stay. Messages, connections and reserved memory that it has are lost.
    pub fn rebuild(&mut self) {
        self.pass.rebuild(&self.stream);
        self.pool = Pool::new(&self.arena);
        self.queues = Queues::new();
        self.outer = Run::new();
    }

    /// Takes memory for runs of `messages` messages now, so that no turn that handles as many asks the allocator for more.
    pub fn reserve(&mut self, messages: usize) {
        self.queues.reserve(messages);
        self.pass.reserve(messages);
        reserve(&mut self.outer, messages);
    }

    /// The stream it turns a part of.
    pub fn stream(&self) -> &Arc<Stream> {
        &self.stream
    }

    /// Its counters, readable by anybody at any time.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// Adds to a counter of the [stream's own](StreamCounter).
    pub fn count(&self, counter: StreamCounter, by: u64) {
        self.counters.add(self.stream.own_counter(counter), by);
    }

    /// Its buckets.
    pub fn buckets(&mut self) -> &mut Buckets {
        &mut self.pass.buckets
    }

    /// Its buffers. They are bound to the calling thread only during a turn: what is freed outside goes home the long way
    /// round.
    #[inline]
    pub fn pool(&mut self) -> &mut Pool {
        &mut self.pool
    }

    /// Puts messages into `module`, borrowing the caller's thread at the next [`turn`](Cluster::turn).
    #[inline]
    pub fn put(&mut self, module: ModuleId, direction: Direction, run: &mut Run) {
        if run.is_empty() {
            return;
        }
        let queue = self.stream.entry(module, direction);
        self.queues.append(queue, run);
    }

    /// Puts one message into `module`.
    #[inline]
    pub fn put_one(&mut self, module: ModuleId, direction: Direction, message: Message) {
        let queue = self.stream.entry(module, direction);
        self.queues.push(queue, message);
    }

    /// Takes in what another processor sent.
    pub fn accept(&mut self, parcels: impl IntoIterator<Item = Parcel>) {
        for Parcel { queue, message, .. } in parcels {
            self.queues.push(queue, message);
        }
    }

    /// Takes what the tail has received and works until nothing is left to do at time `now`: what has come, what was put,
    /// what is due, and all that follows from it.
    ///
    /// A panic of a module inside a bucket's perimeter is caught: a fresh bucket takes the place of that bucket, whose connections are reset
    /// ([`Module::poisoned`](crate::Module::poisoned)).
    ///
    /// # Panics
    /// If a module does outside every perimeter.
    #[inline]
    pub fn turn(&mut self, now: Instant, tail: &mut impl Tail) {
        let mut pool = self.pool.bind();
        let mut cx = Context {
            now,
            direction: Direction::Up,
            bucket: None,
            pool: &mut pool,
            queues: &mut self.queues,
            counters: &self.counters,
            stream: &self.stream,
            links: Links::NONE,
            deadline: Instant::MAX,
            inside: 0,
        };
        if let Some(dividing) = &mut self.dividing {
            dividing.go_on(&mut cx);
        }
        let mut received = false;
        let is_busy = loop {
            // What a panic may leave half done, `recover` makes whole, or the panic goes on.
            let worked = catch_unwind(AssertUnwindSafe(|| {
                self.pass.look(&mut cx);
                let mut first = None;
                if let Some(lowest) = self.lowest {
                    if !core::mem::replace(&mut received, true) {
                        // Behind what has come another way.
                        if lowest.is_in(cx.queues.ready()) {
                            cx.queues.exchange(lowest, &mut self.outer);
                        }
                        tail.receive(cx.pool, &mut self.outer, &mut self.pass.claims());
                    }
                    while let Some(migrant) = tail.migrant() {
                        // A panic in it takes only the run at hand with it.
                        cx.queues.append(lowest, &mut self.outer);
                        self.pass.settle(&mut cx, migrant);
                    }
                    if !self.outer.is_empty() {
                        first = Some(lowest);
                    }
                }
                self.pass.run(&mut cx, tail, first, &mut self.outer)
            }));
            match worked {
                Ok(is_busy) => break is_busy,
                Err(panic) => {
                    let recovered = self.pass.recover(&mut cx, now, &mut self.outer, panic);
                    if let Err(panic) = recovered {
                        self.pass.give_numbers_up(&mut cx);
                        resume_unwind(panic)
                    }
                }
            }
        };
        if let Some(dividing) = &mut self.dividing {
            dividing.line_up(&mut cx);
        }
        // What is other pools' goes home in full batches, or with a turn that has time; what is used here again stays until
        // the processor rests.
        if !is_busy {
            pool.flush_away();
        }
        pool.put_off();
    }

    /// What left at the head: for the application.
    #[inline]
    pub fn head(&mut self) -> &mut Run {
        self.queues.run_mut(QueueId::HEAD)
    }

    /// Whether messages are waiting for the device to take them.
    #[inline]
    pub fn is_backed_up(&self) -> bool {
        self.queues.len(QueueId::TAIL) > 0
    }

    /// Whether there is something to do now.
    pub fn is_ready(&self) -> bool {
        self.queues.ready() & self.pass.here() != 0
            || self.has_unfinished()
            || self.dividing.as_ref().is_some_and(|it| it.is_ready())
    }

    /// Whether the work on one message is divided here.
    #[inline]
    pub fn divides(&self) -> bool {
        self.dividing.is_some()
    }

    /// Whether more has come to a divisible function than can stand in line there.
    pub fn has_overlong_line(&self) -> bool {
        let divided = self.dividing.as_ref().map_or(0, |it| it.queues());
        self.queues.ready() & divided != 0
    }

    /// Whether a piece of a message that is here waits to be done, by whoever has time.
    pub fn has_pieces(&self) -> bool {
        self.dividing.as_ref().is_some_and(|it| it.has_pieces())
    }

    /// Whether a piece waits to be done, of a message here or elsewhere, or a message here can go on whose pieces are done.
    pub fn has_divided_work(&self) -> bool {
        self.dividing.as_ref().is_some_and(|it| it.has_work())
    }

    /// Does a piece of a message that is here; false if there is none. The message goes on with the next [`turn`](Cluster::turn) that finds
    /// all its pieces done.
    pub fn work_piece(&mut self) -> bool {
        self.dividing.as_mut().is_some_and(|it| it.work())
    }

    /// Does a piece of a message of another processor's, which is to be woken if all pieces of the message are done now. `None` if
    /// there is none.
    pub fn help(&mut self) -> Option<Helped> {
        self.dividing.as_mut()?.help()
    }

    /// Whether it has left something undone in a bucket, which it goes on with in its next turn.
    #[inline]
    pub fn has_unfinished(&self) -> bool {
        !self.pass.work.unfinished.is_empty()
    }

    /// What belongs to other processors: modules or buckets that are not here.
    pub fn outbound(&mut self) -> impl Iterator<Item = Parcel> + '_ {
        let ends = QueueId::HEAD.bit() | QueueId::TAIL.bit();
        let divided = self.dividing.as_ref().map_or(0, |it| it.queues());
        let mut mask = self.queues.ready() & !self.pass.here() & !(ends | divided);
        while let Some(queue) = QueueId::lowest(mask) {
            mask &= !queue.bit();
            self.pass
                .work
                .send_away(&self.stream, &mut self.queues, queue);
        }
        self.pass.work.foreign.drain(..)
    }

    /// Says where this processor sits among those that share its buckets, so that what comes of work that it leaves with another
    /// comes back to it, as an [`Answer`].
    pub fn sit(&mut self, seat: usize) {
        self.pass.work.seat = u16::try_from(seat).ok();
    }

    /// Goes on, with the next turn, with what came of work that was left with another.
    pub fn take_back(&mut self, answer: Answer) {
        self.pass.work.take_back(&mut self.queues, answer);
    }

    /// What this processor may take of what has arrived.
    pub fn claims(&mut self) -> Claims<'_> {
        self.pass.claims()
    }

    /// Packets that the last turn claimed for buckets of others whose guest this processor is.
    pub fn away(&self) -> usize {
        self.pass.work.numbers.away
    }

    /// Stops being a guest of the processor in another seat, if it is one and nothing of the host's is under way here; whether it did. The
    /// host is to be woken then: deadlines of its buckets may be in this processor's wheel, and are set again when it looks.
    pub fn leave(&mut self, seat: usize) -> bool {
        self.carries_nothing()
            && self
                .pass
                .buckets
                .neighbours()
                .is_some_and(|mut neighbours| neighbours.leave(seat))
    }

    pub(crate) fn carries_nothing(&self) -> bool {
        self.pass.work.draining.is_empty() && !self.is_ready()
    }

    /// When the next timer is due.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        (self.pass.work.due_at < Instant::MAX).then_some(self.pass.work.due_at)
    }
}
