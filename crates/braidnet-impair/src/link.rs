//! One direction of a link, as far as it decides: what becomes of each packet, and when.

use crate::random::Random;
use crate::{BurstLoss, Impairments, Jitter, Rate, Reorder, Share};
use core::time::Duration;

/// Decides what becomes of packets. Times are nanoseconds since an epoch of the caller's choice.
#[derive(Clone, Debug)]
pub struct Link {
    gate: Option<Gate>,
    loss: Losses,
    duplicate: Share,
    corrupt: Share,
    delay: u64,
    jitter: Jitter,
    reorder: Reorder,
    /// When the latest of those arrives that must not be overtaken.
    latest: u64,
    draws: Draws,
    tally: Tally,
}

/// A sequence of numbers for each kind of impairment.
#[derive(Clone, Debug)]
struct Draws {
    loss: Random,
    duplicate: Random,
    corrupt: Random,
    jitter: Random,
    reorder: Random,
}

/// What becomes of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It does not arrive.
    Dropped(Dropped),
    /// It arrives, and where it is repeated a copy of it.
    Arrives(Arrival, Option<Arrival>),
}

/// Why a packet does not arrive.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Dropped {
    /// Lost on the wire.
    Lost,
    /// Lost on the wire, in a burst.
    LostInBurst,
    /// The queue in front of the line was full.
    QueueFull,
    /// As many packets were under way as may be.
    TooMany,
}

/// How a packet arrives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When.
    pub at: u64,
    /// The bit of it that is changed.
    pub damage: Option<Damage>,
    /// It waited in a queue that marks packets (RFC 3168 §5): to be marked where it says that it can be.
    pub marked: bool,
}

/// One bit of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damage(u64);

impl Damage {
    /// Which bit of so many bytes: 0 is the highest of the first. 0 bytes have none.
    pub fn bit(self, bytes: usize) -> Option<usize> {
        let bits = (bytes as u64).checked_mul(8)?;
        // The word's high part picks evenly, as Random does.
        (bits > 0).then(|| ((u128::from(self.0) * u128::from(bits)) >> 64) as usize)
    }

    /// Changes it.
    pub fn flip(self, bytes: &mut [u8]) {
        if let Some(bit) = self.bit(bytes.len())
            && let Some(byte) = bytes.get_mut(bit / 8)
        {
            *byte ^= 0x80 >> (bit % 8);
        }
    }
}

/// What a link has done, in packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Offered to it.
    pub offered: u64,
    /// Dropped: lost, each by itself.
    pub lost: u64,
    /// Dropped: lost in bursts.
    pub lost_in_bursts: u64,
    /// Dropped: the queue was full.
    pub queue_full: u64,
    /// Dropped: too many were under way.
    pub too_many: u64,
    /// Copies made of packets that came twice.
    pub duplicated: u64,
    /// With a bit changed, copies counted.
    pub corrupted: u64,
    /// Held back, copies counted.
    pub held_back: u64,
    /// To be marked.
    pub marked: u64,
}

impl Tally {
    /// Packets that were dropped.
    pub const fn dropped(&self) -> u64 {
        self.lost + self.lost_in_bursts + self.queue_full + self.too_many
    }

    /// Packets that have arrived or are under way, copies counted.
    pub const fn passed(&self) -> u64 {
        (self.offered + self.duplicated).saturating_sub(self.dropped())
    }

    /// Every count with its name.
    pub fn named(&self) -> [(&'static str, u64); 9] {
        [
            ("offered", self.offered),
            ("lost", self.lost),
            ("lost-in-bursts", self.lost_in_bursts),
            ("queue-full", self.queue_full),
            ("too-many", self.too_many),
            ("duplicated", self.duplicated),
            ("corrupted", self.corrupted),
            ("held-back", self.held_back),
            ("marked", self.marked),
        ]
    }

    pub(crate) fn count_drop(&mut self, dropped: Dropped) {
        *match dropped {
            Dropped::Lost => &mut self.lost,
            Dropped::LostInBurst => &mut self.lost_in_bursts,
            Dropped::QueueFull => &mut self.queue_full,
            Dropped::TooMany => &mut self.too_many,
        } += 1;
    }
}

impl Link {
    /// One that does this. Links of one seed that stand beside each other, the two directions of a path, say, have different
    /// numbers and do not lose the same packets.
    pub fn new(impairments: &Impairments, number: u64) -> Link {
        let seed = Random::new(impairments.seed, number).word();
        let draws = |sequence| Random::new(seed, sequence);
        Link {
            gate: impairments.rate.map(Gate::new),
            loss: Losses {
                alone: impairments.loss,
                burst: impairments.burst_loss,
                in_burst: false,
            },
            duplicate: impairments.duplicate,
            corrupt: impairments.corrupt,
            delay: nanos(impairments.delay),
            jitter: impairments.jitter,
            reorder: impairments.reorder,
            latest: 0,
            draws: Draws {
                loss: draws(0),
                duplicate: draws(1),
                corrupt: draws(2),
                jitter: draws(3),
                reorder: draws(4),
            },
            tally: Tally::default(),
        }
    }

    /// What becomes of a packet of so many bytes that is offered now. Packets are offered in the order of their times; one that comes
    /// out of that order is treated as if it had come when it says, but for the line, which it finds as the others have left it.
    pub fn offer(&mut self, now: u64, bytes: usize) -> Fate {
        self.tally.offered += 1;
        let passed = match &mut self.gate {
            None => Ok((now, false)),
            Some(gate) => gate.pass(now, bytes),
        };
        let arrives = passed.and_then(|(sent_at, marked)| {
            self.loss
                .keep(&mut self.draws.loss)
                .map(|()| (sent_at, marked))
        });
        let (sent_at, marked) = match arrives {
            Ok(arrives) => arrives,
            Err(dropped) => {
                self.tally.count_drop(dropped);
                return Fate::Dropped(dropped);
            }
        };
        self.tally.marked += u64::from(marked);
        let first = self.arrival(sent_at, marked);
        let copied = self.draws.duplicate.chance(self.duplicate);
        self.tally.duplicated += u64::from(copied);
        Fate::Arrives(first, copied.then(|| self.arrival(sent_at, marked)))
    }

    /// What it has done so far.
    pub fn tally(&self) -> &Tally {
        &self.tally
    }

    pub(crate) fn tally_mut(&mut self) -> &mut Tally {
        &mut self.tally
    }

    /// A packet's way over the wire.
    fn arrival(&mut self, sent_at: u64, marked: bool) -> Arrival {
        let damage = self.draws.corrupt.chance(self.corrupt);
        let damage = damage.then(|| Damage(self.draws.corrupt.word()));
        self.tally.corrupted += u64::from(damage.is_some());
        Arrival {
            at: self.delayed(sent_at),
            damage,
            marked,
        }
    }

    fn delayed(&mut self, sent_at: u64) -> u64 {
        let mut at = sent_at.saturating_add(self.delay);
        if !self.jitter.most.is_zero() {
            at = at.saturating_add(self.draws.jitter.up_to(nanos(self.jitter.most)));
        }
        if self.draws.reorder.chance(self.reorder.share) {
            self.tally.held_back += 1;
            let least = nanos(self.reorder.least);
            let more = nanos(self.reorder.most).saturating_sub(least);
            return at
                .saturating_add(least)
                .saturating_add(self.draws.reorder.up_to(more));
        }
        if !self.jitter.overtaking {
            at = at.max(self.latest);
            self.latest = at;
        }
        at
    }
}

/// What is lost on the wire.
#[derive(Clone, Debug)]
struct Losses {
    alone: Share,
    burst: Option<BurstLoss>,
    in_burst: bool,
}

impl Losses {
    fn keep(&mut self, draws: &mut Random) -> Result<(), Dropped> {
        if let Some(burst) = self.burst {
            let turn = match self.in_burst {
                true => burst.end,
                false => burst.begin,
            };
            self.in_burst ^= draws.chance(turn);
            if self.in_burst {
                return kept(!draws.chance(burst.loss), Dropped::LostInBurst);
            }
        }
        kept(!draws.chance(self.alone), Dropped::Lost)
    }
}

fn kept(is_kept: bool, otherwise: Dropped) -> Result<(), Dropped> {
    if is_kept { Ok(()) } else { Err(otherwise) }
}

/// The queue and the line behind it, as the time at which the line has sent all that was accepted if it never sent
/// ahead. What a token bucket of `b` bytes lets through earlier is what the line sends in the time that `b` bytes take.
#[derive(Clone, Debug)]
struct Gate {
    rate: Rate,
    /// How long the bytes of a burst take.
    ahead: u64,
    /// When all is sent.
    free_at: u64,
    /// What was rounded off, in parts of a nanosecond, `bits_per_second` of which make one.
    rest: u64,
}

const SECOND: u128 = 1_000_000_000;

impl Gate {
    fn new(rate: Rate) -> Gate {
        let bits = u128::from(rate.burst_bytes) * 8;
        let ahead = bits * SECOND / u128::from(rate.bits_per_second.get());
        Gate {
            rate,
            ahead: saturated(ahead),
            free_at: 0,
            rest: 0,
        }
    }

    /// When a packet has left, and whether it is marked.
    fn pass(&mut self, now: u64, bytes: usize) -> Result<(u64, bool), Dropped> {
        let bytes = bytes as u64;
        let waiting = self.waiting(now);
        let full = waiting > 0 && waiting.saturating_add(bytes) > self.rate.queue_bytes;
        kept(!full, Dropped::QueueFull)?;
        if self.free_at < now {
            (self.free_at, self.rest) = (now, 0);
        }
        let rate = u128::from(self.rate.bits_per_second.get());
        let parts = u128::from(bytes) * 8 * SECOND + u128::from(self.rest);
        self.free_at = self.free_at.saturating_add(saturated(parts / rate));
        // Less than the rate, which has 64 bits.
        self.rest = (parts % rate) as u64;
        let marked = self.rate.mark_bytes.is_some_and(|mark| waiting > mark);
        Ok((now.max(self.free_at.saturating_sub(self.ahead)), marked))
    }

    /// Bytes that wait, the rest of the one that is being sent counted.
    fn waiting(&self, now: u64) -> u64 {
        let nanos = self.free_at.saturating_sub(self.ahead).saturating_sub(now);
        let parts = u128::from(nanos) * u128::from(self.rate.bits_per_second.get());
        saturated(parts / (8 * SECOND))
    }
}

fn saturated(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

fn nanos(duration: Duration) -> u64 {
    saturated(duration.as_nanos())
}

#[cfg(test)]
mod tests;
