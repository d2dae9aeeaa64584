//! How a worker comes by packets where buckets are leased: out of its own queue, and out of those whose guest it is.

use crate::filtered::{Filtered, Sorted};
use braidnet_message::{Pool, Run};
use braidnet_stream::Claims;
use braidnet_sync::baton::Baton;
use std::sync::Arc;

/// A worker's own queue, or share in one, and those of the others.
pub(crate) struct Leased {
    pub(crate) own: Filtered,
    /// Whether no other worker takes from that queue as its own.
    pub(crate) is_sole: bool,
    /// By seat the queue that this one takes from; nothing where it is this worker's own.
    pub(crate) hosts: Vec<Option<Arc<Baton<Sorted>>>>,
    /// The seats whose guest it is, for this turn.
    pub(crate) guest_of: Vec<usize>,
    /// What others had found for this worker before it admitted guests: it comes before all else.
    pub(crate) early: Run,
}

impl Leased {
    /// Takes packets out of the own queue, and, where that has none, out of one whose guest this worker is. How many, at most `max`.
    pub(crate) fn receive(
        &mut self,
        pool: &mut Pool,
        into: &mut Run,
        max: usize,
        claims: &mut Claims<'_>,
    ) -> usize {
        self.own.taker.handed = 0;
        if !self.early.is_empty() {
            let early = self.early.len();
            into.append(&mut self.early);
            return early;
        }
        let taken = if self.is_sole && claims.is_private() && self.own.taker.inbox.is_empty() {
            self.own.receive_all(pool, into, max)
        } else {
            self.own.receive(pool, into, max, claims)
        };
        if taken > 0 || self.guest_of.is_empty() {
            return taken;
        }
        self.visit(pool, into, max, claims)
    }

    fn visit(
        &mut self,
        pool: &mut Pool,
        into: &mut Run,
        max: usize,
        claims: &mut Claims<'_>,
    ) -> usize {
        for &seat in &self.guest_of {
            if let Some(queue) = &self.hosts[seat] {
                let taken = self.own.taker.receive(queue, pool, into, max, claims);
                if taken > 0 {
                    return taken;
                }
            }
        }
        0
    }
}
