//! When a worker asks others for a share in their work, and when it lets others share its own.
//!
//! It goes by what it sees. A worker is *behind* while every turn has found a full batch, most of it the worker's own, for longer than a
//! handoff is worth; it says so, and wakes those who sleep. Who has found nothing to do for as long asks one who is behind, becomes its guest when that one
//! has come to the end of a turn, and stays for as long as this is of use. Nobody waits for an answer.

use crate::exchange::{Mailbox, Outward};
use crate::intake::Share;
use crate::leased::Leased;
use crate::moving::{Load, Moves, Moving, State};
use braidnet_stream::{Cluster, Migrant, StreamCounter};
use braidnet_wire::time::{Duration, Instant};

/// How soon work is shared under `braid`, and how long it stays so.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sharing {
    /// How long every turn must have found its batch full for a processor to be behind. By default 20 µs: much longer than it takes for a
    /// run to cross between processors.
    pub behind: Duration,
    /// How long no turn must have found anything for a processor to have time for others. By default 10 µs: longer than another has its
    /// turn at a queue that both take from.
    pub spare: Duration,
    /// How long a processor that was behind must have found its batches less than full to be so no more, and how long a guest
    /// stays where it finds nothing. By default 200 µs.
    pub calm: Duration,
    /// How long a processor must have had guests all the time to give some of its buckets to them for good. By default 50 ms: much longer than it
    /// takes for a bucket's state to come to another processor.
    pub lasting: Duration,
}

impl Default for Sharing {
    fn default() -> Sharing {
        Sharing {
            behind: Duration::from_micros(20),
            spare: Duration::from_micros(10),
            calm: Duration::from_micros(200),
            lasting: Duration::from_millis(50),
        }
    }
}

/// How often one who is behind and has no guest wakes the others.
const CALL: Duration = Duration::from_millis(1);

/// What one turn has brought.
pub(crate) struct Brought {
    pub(crate) now: Instant,
    /// Packets for the worker's own buckets.
    pub(crate) own: usize,
    /// Packets for those of others whose guest it is.
    pub(crate) away: usize,
    /// Whether all has been taken that was allowed to be.
    pub(crate) is_full: bool,
    /// Whether there was anything to do.
    pub(crate) is_busy: bool,
}

/// One worker's view of its load.
pub(crate) struct Manners {
    times: Sharing,
    seat: usize,
    /// Since when every turn has brought as much as could be taken.
    full_since: Option<Instant>,
    last_full: Instant,
    is_behind: bool,
    called: Instant,
    /// Since when no turn has brought anything.
    idle_since: Option<Instant>,
    /// The last time that being a guest was of use.
    useful: Instant,
    /// Whether it has asked anybody, and not left since.
    asks: bool,
    moves: Moves,
    moving: Moving,
}

impl Manners {
    pub(crate) fn new(seat: usize, times: Sharing, ways: Vec<Mailbox<Migrant>>) -> Manners {
        Manners {
            times,
            moves: Moves::new(times.lasting, ways),
            moving: Moving::Not,
            seat,
            full_since: None,
            last_full: Instant::ZERO,
            is_behind: false,
            called: Instant::ZERO,
            idle_since: None,
            useful: Instant::ZERO,
            asks: false,
        }
    }

    /// Before a turn: whose guest the worker is.
    #[inline]
    pub(crate) fn begin(&mut self, cluster: &mut Cluster, share: &mut Share) {
        if self.asks {
            self.look_around(cluster, share);
        }
    }

    #[inline(never)]
    fn look_around(&mut self, cluster: &mut Cluster, share: &mut Share) {
        if let (Some(mut neighbours), Some(guest_of)) =
            (cluster.buckets().neighbours(), share.guest_of())
        {
            guest_of.clear();
            guest_of.extend((0..neighbours.count()).filter(|seat| neighbours.is_guest_of(*seat)));
        }
    }

    /// After a turn, when everything that it brought has gone as far as it could.
    #[inline]
    pub(crate) fn end(
        &mut self,
        brought: &Brought,
        has_mail: impl Fn() -> bool,
        cluster: &mut Cluster,
        share: &mut Share,
        outward: &Outward,
    ) {
        self.weigh(brought);
        if let Some(leased) = share.leased() {
            self.moving = self
                .moves
                .go_on(brought.now, has_mail, cluster, leased, outward);
        }
        let Some(mut neighbours) = cluster.buckets().neighbours() else {
            return;
        };
        let load = Load {
            state: match self.moving {
                Moving::Not if self.is_behind => State::Behind,
                Moving::Not => State::AtEase,
                Moving::Wanted | Moving::UnderWay => State::Moving,
            },
            messages: self.moves.load,
        };
        neighbours.publish(load.word());
        if self.moving != Moving::Not {
            // Whoever is here leaves, and nobody is let in.
        } else if self.is_behind && neighbours.is_asked() {
            self.admit(cluster, share, outward);
        } else if self.is_behind && brought.now >= self.called + CALL {
            self.called = brought.now;
            outward.wake_all();
        } else if neighbours.is_alone()
            && let Some(leased) = share.leased()
            && leased.is_kept_for()
        {
            leased.keep_no_more();
        }
        if brought.away > 0 {
            self.useful = brought.now;
        }
        if brought.is_busy || self.is_behind {
            self.idle_since = None;
        } else if brought.now >= *self.idle_since.get_or_insert(brought.now) + self.times.spare {
            self.ask(brought.now, cluster);
        }
        if self.asks
            && (self.is_behind
                || brought.now >= self.useful + self.times.calm
                || self.is_in_the_way(cluster, share))
        {
            self.leave(cluster, share, outward);
        }
    }

    /// Whether one whose guest it is wants to be alone.
    fn is_in_the_way(&self, cluster: &mut Cluster, share: &mut Share) -> bool {
        let Some(guest_of) = share.guest_of() else {
            return false;
        };
        let Some(mut neighbours) = cluster.buckets().neighbours() else {
            return false;
        };
        let mut seats = guest_of.iter();
        seats.any(|seat| Load::of(neighbours.load(*seat)).state == State::Moving)
    }

    /// Whether some of its buckets have gone, and not every queue knows.
    pub(crate) fn is_moving(&self) -> bool {
        self.moving == Moving::UnderWay
    }

    #[inline]
    fn weigh(&mut self, brought: &Brought) {
        if brought.is_full && brought.own > brought.away {
            let since = *self.full_since.get_or_insert(brought.now);
            self.last_full = brought.now;
            self.is_behind |= brought.now >= since + self.times.behind;
        } else {
            self.full_since = None;
            self.is_behind &= brought.now < self.last_full + self.times.calm;
        }
    }

    /// Lets those who ask share the work, as soon as all that has no place in the order of what they will take is done.
    #[cold]
    fn admit(&mut self, cluster: &mut Cluster, share: &mut Share, outward: &Outward) {
        let is_kept = share.leased().is_some_and(Leased::keep);
        if !is_kept || cluster.is_backed_up() || cluster.is_ready() {
            return;
        }
        if let Some(mut neighbours) = cluster.buckets().neighbours() {
            neighbours.admit();
            cluster.count(StreamCounter::Admitted, 1);
            // Some may have gone to sleep since they asked.
            outward.wake_all();
        }
    }

    #[inline(never)]
    fn ask(&mut self, now: Instant, cluster: &mut Cluster) {
        let Some(mut neighbours) = cluster.buckets().neighbours() else {
            return;
        };
        for seat in (0..neighbours.count()).filter(|seat| *seat != self.seat) {
            let load = Load::of(neighbours.load(seat));
            if load.state == State::Behind && !neighbours.asks(seat) {
                neighbours.ask(seat);
                (self.asks, self.useful) = (true, now);
            }
        }
    }

    /// When it leaves, if being a guest is of no use until then.
    pub(crate) fn leaves_at(&self) -> Option<Instant> {
        self.asks.then(|| self.useful + self.times.calm)
    }

    /// About to sleep: it is nobody's guest then, and nobody need ask it for a share.
    pub(crate) fn rest(&mut self, cluster: &mut Cluster, share: &mut Share, outward: &Outward) {
        self.leave(cluster, share, outward);
        (self.is_behind, self.full_since) = (false, None);
        self.moves.rest();
        if let Some(mut neighbours) = cluster.buckets().neighbours() {
            neighbours.publish(0);
        }
    }

    /// Stops being a guest, where nothing of the host's is under way here, and asking to be one; the host is woken, since deadlines may have been
    /// left to it.
    #[cold]
    fn leave(&mut self, cluster: &mut Cluster, share: &mut Share, outward: &Outward) {
        if !self.asks {
            return;
        }
        let mut stays = false;
        for seat in 0..outward.count() {
            if cluster.leave(seat) {
                outward.wake(seat);
            }
            stays |= cluster
                .buckets()
                .neighbours()
                .is_some_and(|mut neighbours| neighbours.asks(seat));
        }
        self.asks = stays;
        self.look_around(cluster, share);
    }
}
