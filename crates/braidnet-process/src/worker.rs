//! The worker: one cluster, with its ways in and out.

use crate::exchange::{Mailboxes, Outward};
use crate::intake::Share;
use crate::plan::Application;
use crate::portion::Portion;
use crate::sharing::{Brought, Manners};
use braidnet_message::{Message, Pool, Run, Scarcity};
use braidnet_stream::junction::QueueJunction;
use braidnet_stream::{
    Answer, Claims, Cluster, Direction, Migrant, Next, Parcel, Processor, Reserve, StreamCounter,
    Tail,
};
use braidnet_sync::ring::mpsc;
use braidnet_wire::time::Instant;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// One cluster of modules with its share of the device, its mailbox, the queues that it serves and those that it feeds.
///
/// A turn takes a bounded number of messages from each way in, runs them to completion, and hands over what belongs to
/// others. It never waits for anybody, except for a lock where buckets are behind locks.
pub struct Worker {
    pub(crate) cluster: Cluster,
    pub(crate) share: Share,
    pub(crate) inbox: mpsc::Consumer<Parcel>,
    /// What has come of work that was left with others, where that comes back.
    pub(crate) answers: Option<mpsc::Consumer<Answer>>,
    pub(crate) serves: Vec<Arc<QueueJunction>>,
    pub(crate) outward: Outward,
    pub(crate) application: Option<Box<dyn Application>>,
    pub(crate) portion: Portion,
    pub(crate) run: Run,
    pub(crate) parcels: Vec<Parcel>,
    pub(crate) spare: Reserve,
    /// Where buckets are leased: its dealings with the others.
    pub(crate) sharing: Option<Manners>,
    /// Buckets that others have given to it.
    pub(crate) migrants: Option<mpsc::Consumer<Migrant>>,
}

/// Pieces that a worker does for others at most before it looks again whether anything has come for itself.
const HELP: usize = 8;

impl Worker {
    /// Its cluster: buckets, buffers, counters.
    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// Takes memory for runs of `messages` messages now, so that no turn that handles as many asks the allocator for more.
    pub fn reserve(&mut self, messages: usize) {
        self.cluster.reserve(messages);
        self.run = Run::with_capacity(messages);
        self.share.reserve(messages);
        self.parcels.reserve(messages);
        self.outward.reserve(messages);
    }

    /// Makes what is this worker's alone anew, to lie in the memory of the processor that the calling thread is on: see
    /// [`Cluster::rebuild`]. For before its first turn, on the thread that makes it ([`Processor::begin`]); memory has to be
    /// [reserved](Worker::reserve) again, and buffers [kept](Worker::keep).
    pub fn rebuild(&mut self) {
        self.cluster.rebuild();
        self.run = Run::new();
        self.parcels = Vec::with_capacity(self.portion.most());
    }

    /// Keeps these buffers, from now on, for what frees others, where the worker's pool is found empty. Without them, a worker whose
    /// memory is used up by what its application sends may never get rid of that.
    pub fn keep(&mut self, reserve: Reserve) {
        self.spare = reserve;
        self.spare.replenish(self.cluster.pool());
    }

    /// Set once nothing will ever arrive in its share of the device: that was removed, or its other end has closed.
    pub fn gone(&self) -> &Arc<AtomicBool> {
        self.share.gone()
    }

    /// A way for others to leave work for it and for all its fellows.
    pub fn mailboxes(&self) -> Mailboxes {
        Mailboxes {
            owners: self.outward.owners.clone(),
            boxes: self.outward.mailboxes.clone(),
        }
    }

    /// Sees to the buffers that are kept for need, if some have been needed.
    #[inline]
    fn provide(&mut self) {
        let pool = self.cluster.pool();
        if pool.scarcity() != Scarcity::Ample {
            self.spare.replenish(pool);
        }
    }

    /// What others have left for it.
    fn take_over(&mut self, max: usize) -> usize {
        let taken = self.inbox.pop_into(&mut self.parcels, max);
        self.cluster.accept(self.parcels.drain(..));
        let mut answered = 0;
        if let Some(answers) = &mut self.answers {
            while let Some(answer) = answers.pop() {
                self.cluster.take_back(answer);
                answered += 1;
            }
        }
        let served: usize = self
            .serves
            .iter()
            .map(|junction| junction.svc(&mut self.cluster, &mut self.run, max))
            .sum();
        taken + answered + served
    }

    /// Sorts what is for others, and counts what of it the device has brought here.
    fn send_on(&mut self) {
        let mut handed = self.share.take_uncounted();
        let takes_packets = self.share.is_something();
        for parcel in self.cluster.outbound() {
            let packets = match parcel.direction() {
                Direction::Up if takes_packets => parcel.message().segments() as u64,
                _ => 0,
            };
            if self.outward.sort(parcel) {
                handed += packets;
            }
        }
        if handed > 0 {
            self.cluster.count(StreamCounter::Handed, handed);
        }
    }

    /// Does the pieces of what stands in the own line, or, where nothing has been `done` here, some of others'; how many.
    fn do_pieces(&mut self, done: usize) -> usize {
        if self.cluster.has_pieces() {
            self.outward.wake_all();
        }
        let mut pieces = 0;
        while self.cluster.work_piece() {
            pieces += 1;
        }
        if done + pieces == 0 {
            while pieces < HELP
                && let Some(helped) = self.cluster.help()
            {
                pieces += 1;
                if helped.is_joined {
                    self.outward.wake(helped.owner);
                }
            }
        }
        pieces
    }
}

/// The device as a worker's cluster sees it: its share, in both directions.
struct Port<'a> {
    share: &'a mut Share,
    spare: &'a Reserve,
    outward: &'a mut Outward,
    migrants: Option<&'a mut mpsc::Consumer<Migrant>>,
    /// Most packets to take.
    max: usize,
    taken: usize,
    /// Bytes that were handed to the device.
    sent: usize,
}

impl Tail for Port<'_> {
    fn receive(&mut self, pool: &mut Pool, run: &mut Run, claims: &mut Claims<'_>) {
        let share = &mut *self.share;
        self.taken = self.spare.receive(pool, self.max, |pool, max| {
            share.receive(pool, run, max, claims)
        });
    }

    fn migrant(&mut self) -> Option<Migrant> {
        self.migrants.as_mut()?.pop()
    }

    fn transmit(&mut self, run: &mut Run) {
        self.sent += run.iter().map(Message::total_len).sum::<usize>();
        match &mut self.share.transmitter {
            Some(transmitter) => transmitter.transmit(run),
            None => run.clear(),
        }
    }

    fn give_back(&mut self, answers: &mut Vec<Answer>) {
        self.outward.answer(answers.drain(..));
    }
}

impl Processor for Worker {
    fn turn(&mut self, now: Instant, budget: usize) -> Next {
        let max = self.portion.messages().min(budget).max(1);
        let mut done = self.take_over(max);
        let mut next = match &mut self.application {
            Some(application) => application.turn(&mut self.cluster, now),
            None => Next::Idle,
        };
        if let Some(sharing) = &mut self.sharing {
            sharing.begin(&mut self.cluster, &mut self.share);
        }
        let held_up = self.cluster.is_backed_up()
            || self.cluster.has_overlong_line()
            || self.outward.is_full();
        let mut port = Port {
            share: &mut self.share,
            spare: &self.spare,
            outward: &mut self.outward,
            migrants: self.migrants.as_mut(),
            max: if held_up { 0 } else { max },
            taken: 0,
            sent: 0,
        };
        self.cluster.turn(now, &mut port);
        let (taken, sent) = (port.taken, port.sent);
        done += taken;
        self.portion.note(done, sent);
        self.provide();
        self.send_on();
        self.outward.deliver();
        if self.cluster.divides() {
            done += self.do_pieces(done);
        }
        if let Some(sharing) = &mut self.sharing {
            let away = self.cluster.away();
            let brought = Brought {
                now,
                own: taken.saturating_sub(self.share.handed() + away),
                away,
                // A small portion found is no sign of more than it can do.
                is_full: taken >= self.portion.most(),
                is_busy: done > self.share.handed(),
            };
            let inbox = &self.inbox;
            let has_mail = || inbox.reserved() > 0;
            sharing.end(
                &brought,
                has_mail,
                &mut self.cluster,
                &mut self.share,
                &self.outward,
            );
            if sharing.is_moving() {
                next = Next::Again;
            }
        }
        if done > 0
            || self.cluster.has_unfinished()
            || self.cluster.is_backed_up()
            || self.outward.is_full()
        {
            next = Next::Again;
        }
        let at = |at: Option<Instant>| at.map_or(Next::Idle, Next::At);
        let leaves_at = self.sharing.as_ref().and_then(Manners::leaves_at);
        let next = next
            .sooner(at(self.cluster.deadline()))
            .sooner(at(leaves_at));
        match &self.share.alarm {
            None => next,
            Some(alarm) => next.sooner(at(alarm.next())),
        }
    }

    fn has_work(&self) -> bool {
        self.cluster.has_divided_work()
            || self.share.has_waiting()
            || !self.inbox.is_empty()
            || has_some(&self.answers)
            || has_some(&self.migrants)
            || self
                .serves
                .iter()
                .any(|junction| !junction.queue().is_empty())
    }

    fn rest(&mut self) {
        if let Some(sharing) = &mut self.sharing {
            sharing.rest(&mut self.cluster, &mut self.share, &self.outward);
        }
        self.cluster.pool().send_home();
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.share.fd()
    }
}

/// Whether something lies in a mailbox, if there is one.
fn has_some<T: Send>(inbox: &Option<mpsc::Consumer<T>>) -> bool {
    inbox.as_ref().is_some_and(|inbox| !inbox.is_empty())
}
