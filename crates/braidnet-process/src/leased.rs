//! How a worker comes by packets where buckets are leased: out of its own queue, and out of those whose guest it is.

use crate::filtered::{Filtered, Queue};
use braidnet_message::{Pool, Run};
use braidnet_stream::{BucketId, Claims};
use std::sync::Arc;

/// A worker's own queue, or share in one, and those of the others.
pub(crate) struct Leased {
    pub(crate) own: Filtered,
    /// Whether no other worker takes from that queue as its own.
    is_sole: bool,
    /// All queues; they are dealt to the seats in turn.
    queues: Vec<Arc<Queue>>,
    /// Which of them keep what is for this worker, so that its guests find it.
    keeping: Vec<bool>,
    /// How many do.
    kept_at: usize,
    /// The seats whose guest it is, for this turn.
    pub(crate) guest_of: Vec<usize>,
    /// Whether the last turn went to what other queues keep.
    has_collected: bool,
}

impl Leased {
    /// One of so many workers, which takes from its `own` queue, one of these.
    pub(crate) fn new(own: Filtered, queues: Vec<Arc<Queue>>, workers: usize) -> Leased {
        Leased {
            own,
            is_sole: queues.len() == workers,
            keeping: vec![false; queues.len()],
            kept_at: 0,
            queues,
            guest_of: Vec::with_capacity(workers),
            has_collected: false,
        }
    }

    /// Takes packets out of the own queue, or what others keep for this worker, and, where there is none, out of a queue whose guest it is. How
    /// many, at most `max`. Only ever out of one queue at a time: a bucket gets one number in a turn, which keeps its place in one.
    pub(crate) fn receive(
        &mut self,
        pool: &mut Pool,
        into: &mut Run,
        max: usize,
        claims: &mut Claims<'_>,
    ) -> usize {
        self.own.taker.handed = 0;
        let is_plain = self.is_sole && claims.is_private() && self.own.taker.has_taken_all();
        if is_plain
            && !self.is_kept_for()
            && let Some(taken) = self.own.receive_all(pool, into, max)
        {
            return taken;
        }
        if !self.has_collected && self.is_kept_for() {
            let collected = self.collect(into, max, claims);
            if collected > 0 {
                self.has_collected = true;
                return collected;
            }
        }
        self.has_collected = false;
        match self.own.receive(pool, into, max, claims) {
            0 => self.visit(pool, into, max, claims),
            taken => taken,
        }
    }

    fn visit(
        &mut self,
        pool: &mut Pool,
        into: &mut Run,
        max: usize,
        claims: &mut Claims<'_>,
    ) -> usize {
        for &seat in &self.guest_of {
            let queue = &self.queues[seat % self.queues.len()];
            if Arc::ptr_eq(queue, &self.own.queue) {
                continue;
            }
            let taken = self.own.taker.receive(queue, pool, into, max, claims);
            queue.wake_if_missed();
            if taken > 0 {
                return taken;
            }
        }
        0
    }

    fn collect(&mut self, into: &mut Run, max: usize, claims: &mut Claims<'_>) -> usize {
        for queue in &self.queues {
            if queue.keeps(self.own.taker.me) && !Arc::ptr_eq(queue, &self.own.queue) {
                let taken = self.own.taker.collect(queue, into, max, claims);
                queue.wake_if_missed();
                if taken > 0 {
                    return taken;
                }
            }
        }
        0
    }

    /// Has every queue keep what is for this worker; whether all of them do, and everything that came before has been taken. To be tried again
    /// after the next turn otherwise.
    pub(crate) fn keep(&mut self) -> bool {
        let me = self.own.taker.me;
        for (queue, keeping) in self.queues.iter().zip(&mut self.keeping) {
            if !*keeping && queue.keep(me, true) {
                *keeping = true;
                self.kept_at += 1;
            }
        }
        self.kept_at == self.queues.len() && self.own.taker.has_taken_all()
    }

    /// Has the queues that have not yet done so, of which `told` says so, take packets of these buckets for those workers'; whether all have.
    pub(crate) fn give(&self, gifts: &[(BucketId, usize)], told: &mut Vec<bool>) -> bool {
        told.resize(self.queues.len(), false);
        for (queue, told) in self.queues.iter().zip(&mut *told) {
            *told = *told || queue.give(self.own.taker.me, gifts);
        }
        told.iter().all(|told| *told)
    }

    /// Has the queues leave in the mailbox again what is for this worker, where nobody else is at them now.
    pub(crate) fn keep_no_more(&mut self) {
        let me = self.own.taker.me;
        for (queue, keeping) in self.queues.iter().zip(&mut self.keeping) {
            if *keeping && queue.keep(me, false) {
                *keeping = false;
                self.kept_at -= 1;
            }
        }
    }

    /// Whether some queue keeps what is for this worker.
    #[inline]
    pub(crate) fn is_kept_for(&self) -> bool {
        self.kept_at > 0
    }

    /// Whether a packet waits for this worker, as far as can be told without a system call.
    pub(crate) fn has_waiting(&self) -> bool {
        let me = self.own.taker.me;
        self.own.has_waiting() || self.queues.iter().any(|queue| queue.keeps(me))
    }
}
