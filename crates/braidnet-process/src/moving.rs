//! When a worker gives buckets of its own away, and how.
//!
//! Guests are help for a while: what they share crosses between processors with every run. A home that has had guests for long gives buckets away
//! for good, as much as they have done for it in that time, so that everybody has enough and nothing need be shared. What is too big for that,
//! as a single hot bucket is, stays, and stays shared. A bucket moves only to where there was time for it, so it does not come back before the load
//! changes.
//!
//! To give away, the home must be alone: it says so, and its guests leave with their next turn. Then it
//!
//! 1. takes the buckets out and leaves them with the other worker, which puts them among its own before it works on anything that came after them;
//!    threads that are no workers send nothing meanwhile, and all that they have sent has been done ([`Owners`](crate::exchange::Owners)),
//! 2. has the queues, one after the other as it gets their batons, take their packets for the other's ([`Queue::give`](crate::filtered::Queue::give)).
//!
//! Until the last queue knows, all keep what is for the home, and it admits nobody.

use crate::exchange::{Mailbox, Outward};
use crate::leased::Leased;
use braidnet_stream::{BucketId, Cluster, Migrant};
use braidnet_wire::time::{Duration, Instant};

/// Buckets that move at once, at most.
const MOST: usize = 64;

/// It is worth it only where buckets with at least this part of the load can move.
const WORTH: u64 = 16;

/// Buckets to be given away, and to whom.
struct Gift {
    to: usize,
    buckets: Vec<BucketId>,
}

/// How far giving away has come.
enum Stage {
    /// There are no guests, or it has not been looked how long there are.
    Calm,
    /// There have been guests since then.
    Shared(Instant),
    /// Since then there have been guests, and what comes for each bucket has been counted.
    Counting(Instant),
    /// Since then guests have been asked to leave.
    Wanted(Instant, Gift),
    /// Buckets have gone, and not every queue knows.
    UnderWay(Gift),
}

/// What the others need to know of that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Moving {
    /// There is nothing to give.
    Not,
    /// Guests are to leave.
    Wanted,
    /// Buckets have gone, and not every queue knows.
    UnderWay,
}

/// What one worker knows of its buckets' loads, and what it gives away.
pub(crate) struct Moves {
    /// How long guests are there before loads are counted, and then again how long these are.
    half: Duration,
    stage: Stage,
    /// What has been brought to each bucket; kept for its memory.
    loads: Vec<(u64, BucketId)>,
    /// Which queues know.
    told: Vec<bool>,
    /// On their way out.
    migrants: Vec<Migrant>,
    mailboxes: Vec<Mailbox<Migrant>>,
    /// How often something has been.
    gifts: usize,
}

/// Buckets whose loads are compared without taking memory for it.
const LOADS: usize = 1024;

impl Moves {
    /// Where a load counts as lasting after so long, with a way to each worker.
    pub(crate) fn new(lasting: Duration, mailboxes: Vec<Mailbox<Migrant>>) -> Moves {
        Moves {
            half: lasting / 2,
            stage: Stage::Calm,
            loads: Vec::with_capacity(LOADS),
            told: Vec::new(),
            migrants: Vec::new(),
            mailboxes,
            gifts: 0,
        }
    }

    /// After a turn, and before guests are admitted. `has_mail`: whether something has been sent here that has not been looked at.
    #[inline]
    pub(crate) fn go_on(
        &mut self,
        now: Instant,
        has_mail: impl Fn() -> bool,
        cluster: &mut Cluster,
        leased: &mut Leased,
        outward: &Outward,
    ) -> Moving {
        let mut neighbours = cluster.buckets().neighbours();
        let is_alone = neighbours.as_mut().is_none_or(|it| it.is_alone());
        match &self.stage {
            Stage::Calm if is_alone => return Moving::Not,
            Stage::Calm => self.stage = Stage::Shared(now),
            Stage::Shared(_) | Stage::Counting(_) if is_alone => self.stage = Stage::Calm,
            Stage::Shared(since) if now >= *since + self.half => {
                cluster.start_tally();
                self.stage = Stage::Counting(now);
            }
            Stage::Counting(since) if now >= *since + self.half => self.consider(now, cluster),
            Stage::Shared(_) | Stage::Counting(_) => {}
            Stage::Wanted(..) if is_alone => {
                self.begin(has_mail, cluster, leased, outward);
                self.tell(leased);
            }
            Stage::Wanted(since, _) if now >= *since + self.half => self.stage = Stage::Calm,
            Stage::Wanted(..) => {}
            Stage::UnderWay(_) => self.tell(leased),
        }
        match self.stage {
            Stage::Calm | Stage::Shared(_) | Stage::Counting(_) => Moving::Not,
            Stage::Wanted(..) => Moving::Wanted,
            Stage::UnderWay(_) => Moving::UnderWay,
        }
    }

    /// Forgets what has not begun.
    pub(crate) fn rest(&mut self) {
        if !matches!(self.stage, Stage::UnderWay(_)) {
            self.stage = Stage::Calm;
        }
    }

    /// Looks what could move, and to whom.
    #[cold]
    fn consider(&mut self, now: Instant, cluster: &mut Cluster) {
        self.stage = Stage::Shared(now);
        let loads = &mut self.loads;
        loads.clear();
        let by_us = cluster.end_tally(|id, messages| {
            // What belongs to the device stays where it is.
            if id != BucketId::DEVICE && messages > 0 {
                loads.push((u64::from(messages), id));
            }
        });
        let Some(mut neighbours) = cluster.buckets().neighbours() else {
            return;
        };
        let guests = neighbours.guests().count();
        if guests == 0 {
            return;
        }
        let all: u64 = loads.iter().map(|(load, _)| load).sum();
        let buckets = fitting(loads, all.saturating_sub(by_us) / guests as u64);
        // Not always the same one, where there are several.
        let to = neighbours.guests().nth(self.gifts % guests);
        if let Some(to) = to.filter(|_| !buckets.is_empty()) {
            self.stage = Stage::Wanted(now, Gift { to, buckets });
        }
    }

    /// Takes the buckets out and sends them, where nothing of them is under way and no thread that is no worker is sending.
    #[cold]
    fn begin(
        &mut self,
        has_mail: impl Fn() -> bool,
        cluster: &mut Cluster,
        leased: &mut Leased,
        outward: &Outward,
    ) {
        if !leased.keep() || !cluster.is_still() {
            return;
        }
        let Some(removal) = outward.owners.try_move() else {
            return;
        };
        if has_mail() {
            return;
        }
        let Stage::Wanted(_, mut gift) = core::mem::replace(&mut self.stage, Stage::Calm) else {
            return;
        };
        gift.buckets.retain(|id| match cluster.send_off(*id) {
            Some(migrant) => {
                removal.to(gift.to, *id);
                self.migrants.push(migrant);
                true
            }
            None => false,
        });
        // Before any thread sends to where they go: what it sends is not there before them.
        self.mailboxes[gift.to].leave(&mut self.migrants);
        drop(removal);
        self.gifts += 1;
        self.told.clear();
        self.stage = Stage::UnderWay(gift);
    }

    /// Tells the queues that do not know, as far as that can be, once all has been sent.
    #[cold]
    fn tell(&mut self, leased: &mut Leased) {
        let Stage::UnderWay(Gift { to, buckets }) = &self.stage else {
            return;
        };
        self.mailboxes[*to].leave(&mut self.migrants);
        if self.migrants.is_empty() && leased.give(*to, buckets, &mut self.told) {
            self.stage = Stage::Calm;
        }
    }
}

/// Which of these loads fit into what a guest has had time for, the biggest first. What it had time for is known to about an eighth.
fn fitting(loads: &mut [(u64, BucketId)], time: u64) -> Vec<BucketId> {
    let all: u64 = loads.iter().map(|(load, _)| load).sum();
    loads.sort_unstable_by_key(|(load, id)| (core::cmp::Reverse(*load), id.0));
    let mut left = time + time / 8;
    let mut moved = 0;
    let mut buckets = Vec::new();
    for &mut (load, id) in loads {
        if load <= left && buckets.len() < MOST {
            left -= load;
            moved += load;
            buckets.push(id);
        }
    }
    if moved * WORTH < all {
        buckets.clear();
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit(loads: &[u64], time: u64) -> Vec<u16> {
        let loads = loads.iter().zip(1..);
        let mut loads: Vec<_> = loads.map(|(load, id)| (*load, BucketId(id))).collect();
        fitting(&mut loads, time).iter().map(|id| id.0).collect()
    }

    #[test]
    fn what_moves_fits_into_the_time_that_there_was() {
        assert_eq!(fit(&[50, 50], 48), [1], "one of two equals");
        assert_eq!(fit(&[5; 20], 50).len(), 11);
        assert_eq!(fit(&[33, 34, 33], 50), [2]);
        assert_eq!(fit(&[40, 30], 20), [], "nothing fits");
        assert_eq!(
            fit(&[80, 2, 2, 2, 2], 39),
            [2, 3, 4, 5],
            "the hot one stays"
        );
        assert_eq!(fit(&[100], 99), [1], "all but a hundredth");
    }

    #[test]
    fn little_is_not_worth_a_move() {
        assert_eq!(fit(&[80, 1, 1], 39), []);
        assert_eq!(fit(&[10, 10], 0), []);
        assert_eq!(fit(&[], 10), []);
    }
}
