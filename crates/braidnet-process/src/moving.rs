//! When a worker gives buckets of its own away, and how.
//!
//! Guests are help for a while: what they share crosses between processors with every run. A home that has had guests for long gives buckets to
//! them for good, so that loads are as even as can be and nothing need be shared. What is too big for that, as a single hot bucket is, stays, and stays
//! shared. A bucket moves only where its going evens out by far more than its coming back would, so it does not before the load changes.
//!
//! To give away, the home must be alone: it says so, and its guests leave with their next turn. Then it
//!
//! 1. takes the buckets out and leaves them with the other workers, who put them among their own before they work on anything that came after them;
//!    threads that are no workers send nothing meanwhile, and all that they have sent has been done ([`Owners`](crate::exchange::Owners)),
//! 2. has the queues, one after the other as it gets their batons, take their packets for the others' ([`Queue::give`](crate::filtered::Queue::give)).
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
type Gifts = Vec<(BucketId, usize)>;

/// What a worker says of itself to those who would share its work, or give it some.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    AtEase,
    /// It has had more to do than it could for a while.
    Behind,
    /// It wants to be alone, to give buckets away.
    Moving,
}

/// The same, with how many messages came for its buckets within half of what counts as lasting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Load {
    pub(crate) state: State,
    pub(crate) messages: u64,
}

impl Load {
    pub(crate) fn of(word: u64) -> Load {
        let state = match word & 3 {
            0 => State::AtEase,
            1 => State::Behind,
            _ => State::Moving,
        };
        Load {
            state,
            messages: word >> 2,
        }
    }

    pub(crate) fn word(self) -> u64 {
        let state = match self.state {
            State::AtEase => 0,
            State::Behind => 1,
            State::Moving => 2,
        };
        self.messages << 2 | state
    }
}

/// How far giving away has come.
enum Stage {
    /// There are no guests, or it has not been looked how long there are.
    Calm,
    /// There have been guests since then.
    Shared(Instant),
    /// Since then there have been guests, and what comes for each bucket has been counted.
    Counting(Instant),
    /// Since then it has wanted to be alone, with nothing under way; not for long.
    Wanted(Instant, Gifts),
    /// Buckets have gone, and not every queue knows.
    UnderWay(Gifts),
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
    /// Who could have some, and how much each has; kept for their memory.
    guests: Vec<usize>,
    others: Vec<(u64, usize)>,
    /// Which queues know.
    told: Vec<bool>,
    /// A way to each worker, and what is on it.
    ways: Vec<(Mailbox<Migrant>, Vec<Migrant>)>,
    /// What had been brought to the own buckets by the time that it was last said how much that is.
    brought: u64,
    said: Instant,
    /// How much came between the last two times.
    pub(crate) load: u64,
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
            guests: Vec::with_capacity(mailboxes.len()),
            others: Vec::with_capacity(mailboxes.len()),
            told: Vec::new(),
            ways: mailboxes.into_iter().map(|it| (it, Vec::new())).collect(),
            brought: 0,
            said: Instant::ZERO,
            load: 0,
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
        if now >= self.said + self.half {
            let brought = cluster.brought_alone();
            self.load = brought - core::mem::replace(&mut self.brought, brought);
            self.said = now;
        }
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
            Stage::Wanted(since, _) => {
                let is_late = now >= *since + self.half;
                if is_alone {
                    self.begin(has_mail, cluster, leased, outward);
                    self.tell(leased);
                }
                // A guest that does not come to the end of its turn, or mail that always comes, does not keep others out for good.
                if is_late && matches!(self.stage, Stage::Wanted(..)) {
                    self.stage = Stage::Calm;
                }
            }
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
        self.load = 0;
    }

    /// Looks what could move, and to whom.
    #[cold]
    fn consider(&mut self, now: Instant, cluster: &mut Cluster) {
        self.stage = Stage::Shared(now);
        let loads = &mut self.loads;
        loads.clear();
        cluster.end_tally(|id, messages| {
            // What belongs to the device stays where it is.
            if id != BucketId::DEVICE && messages > 0 {
                loads.push((u64::from(messages), id));
            }
        });
        let Some(mut neighbours) = cluster.buckets().neighbours() else {
            return;
        };
        self.guests.clear();
        self.guests.extend(neighbours.guests());
        let others = self.guests.iter().filter_map(|seat| {
            let Load { messages, state } = Load::of(neighbours.load(*seat));
            (state == State::AtEase).then_some((messages, *seat))
        });
        self.others.clear();
        self.others.extend(others);
        let gifts = evened(loads, &mut self.others);
        if !gifts.is_empty() {
            self.stage = Stage::Wanted(now, gifts);
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
        let Stage::Wanted(_, mut gifts) = core::mem::replace(&mut self.stage, Stage::Calm) else {
            return;
        };
        gifts.retain(|(id, to)| match cluster.send_off(*id) {
            Some(migrant) => {
                removal.to(*to, *id);
                self.ways[*to].1.push(migrant);
                true
            }
            None => false,
        });
        // Before any thread sends to where they go: what it sends is not there before them. There is room, since each mailbox has some for all buckets.
        self.send();
        drop(removal);
        self.told.clear();
        self.stage = Stage::UnderWay(gifts);
    }

    /// Leaves with the others what is on its way to them; whether all is.
    fn send(&mut self) -> bool {
        let mut have_gone = true;
        for (mailbox, migrants) in &mut self.ways {
            if !migrants.is_empty() {
                mailbox.leave(migrants);
                have_gone &= migrants.is_empty();
            }
        }
        have_gone
    }

    /// Tells the queues that do not know, as far as that can be, once all has been sent.
    #[cold]
    fn tell(&mut self, leased: &mut Leased) {
        if !self.send() {
            return;
        }
        let Stage::UnderWay(gifts) = &self.stage else {
            return;
        };
        if leased.give(gifts, &mut self.told) {
            self.stage = Stage::Calm;
        }
    }
}

/// Which of these buckets, with their loads, to give to which of the others, with theirs, so that no load stays more than need be above another: the
/// biggest first, each to whom has least. Loads are known to about an eighth.
fn evened(loads: &mut [(u64, BucketId)], others: &mut [(u64, usize)]) -> Gifts {
    let all: u64 = loads.iter().map(|(load, _)| load).sum();
    loads.sort_unstable_by_key(|(load, id)| (core::cmp::Reverse(*load), id.0));
    let mut here = all;
    let mut gifts = Gifts::new();
    for &mut (load, id) in loads {
        let Some((there, seat)) = others.iter_mut().min() else {
            break;
        };
        if gifts.len() < MOST && 16 * load <= 9 * here.saturating_sub(*there) {
            here -= load;
            *there += load;
            gifts.push((id, *seat));
        }
    }
    if (all - here) * WORTH < all {
        gifts.clear();
    }
    gifts
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much stays, and what comes to each other.
    fn even(loads: &[u64], others: &[u64]) -> (u64, Vec<u64>) {
        let named = loads.iter().zip(1..);
        let mut named: Vec<_> = named.map(|(load, id)| (*load, BucketId(id))).collect();
        let mut seats: Vec<_> = others.iter().copied().zip(0..).collect();
        let gifts = evened(&mut named, &mut seats);
        let mut come = vec![0; others.len()];
        for (id, seat) in gifts {
            come[seat] += loads[usize::from(id.0) - 1];
        }
        (loads.iter().sum::<u64>() - come.iter().sum::<u64>(), come)
    }

    #[test]
    fn loads_become_as_even_as_can_be() {
        assert_eq!(even(&[50, 52], &[0]), (50, vec![52]), "one of two");
        assert_eq!(even(&[5; 20], &[0]), (50, vec![50]));
        assert_eq!(even(&[33, 34, 33], &[0]), (66, vec![34]));
        assert_eq!(even(&[25; 4], &[0, 0, 0]), (25, vec![25; 3]));
        assert_eq!(even(&[25; 4], &[60, 0]), (50, vec![0, 50]));
        assert_eq!(
            even(&[80, 2, 2, 2, 2], &[10]),
            (80, vec![8]),
            "the hot one stays"
        );
        assert_eq!(even(&[100], &[0]), (100, vec![0]), "so does a single one");
    }

    #[test]
    fn what_was_given_does_not_come_back() {
        let (stays, come) = even(&[30, 30, 31, 9], &[20]);
        assert_eq!((stays, come), (60, vec![40]));
        assert_eq!(even(&[20, 31, 9], &[stays]), (60, vec![0]));
    }

    #[test]
    fn little_is_not_worth_a_move() {
        assert_eq!(even(&[80, 1, 1], &[0]), (82, vec![0]));
        assert_eq!(even(&[10, 10], &[20]), (20, vec![0]));
        assert_eq!(even(&[10], &[]), (10, vec![]));
        assert_eq!(even(&[], &[0]), (0, vec![0]));
    }
}
