//! Buffers that are kept for what frees others.
//!
//! What an application sends stays in memory until the peer acknowledges it. The segment that carries it needs a buffer of its
//! own to leave in, also the second time, and the acknowledgment one to come in. So an application must not be given the last
//! buffers: the pool keeps some [in reserve](Pool::fill_reserve), which is withheld from applications, and they get none as
//! long as it is not complete. Modules draw on it whenever there is nothing else, at whatever time that is: what they had to put
//! off to a time at which there is more might find the reserve complete again then, and be put off for good. From what the device
//! has it is withheld too, so that packets cannot use it up: when they find no buffer, the rest of it goes back into the pool, half
//! for packets, half for what is said about those. Nor must it be used up by data that nobody reads: [`Scarcity`] says when no more is to be kept.
//!
//! Whoever turns a cluster has one for it: takes from the device through [`Reserve::receive`], and
//! [replenishes](Reserve::replenish) it at the end of each turn in which it was needed.

use braidnet_message::{Pool, Scarcity};

/// Most buffers that are held.
const MOST: usize = 32;

/// Least.
const LEAST: usize = 2;

/// A smaller stack holds no more than this part of its memory.
const PART: usize = 16;

/// How many buffers are kept, and how large.
#[derive(Clone, Copy, Default, Debug)]
pub struct Reserve {
    /// How many there are when it is complete.
    size: usize,
    /// What each has room for.
    packet_max: usize,
}

impl Reserve {
    /// For packets of at most `packet_max` bytes (with what the device puts in front) and for a processor whose
    /// share of the stack's memory is `memory_bytes`. With none at all ([`Reserve::default`]) nothing is ever held.
    pub fn new(memory_bytes: usize, packet_max: usize) -> Reserve {
        let most = memory_bytes / PART / packet_max.max(1);
        Reserve {
            size: most.clamp(LEAST, MOST),
            packet_max,
        }
    }

    /// Takes up to `max` packets from a device, as `take` does (how many at most, into where, how many); if it finds none because the
    /// pool refused one a buffer, the reserve is given back to that and it takes again. How many it has taken.
    ///
    /// Once a turn has taken some it takes no more: the [numbers](crate::Claims) of what it has are drawn together, and there may be others' between
    /// those and any that were drawn now.
    #[inline]
    pub fn receive(
        &self,
        pool: &mut Pool,
        max: usize,
        mut take: impl FnMut(&mut Pool, usize) -> usize,
    ) -> usize {
        if max == 0 {
            return 0;
        }
        let is_kept = self.size > 0;
        let refused = pool.refused();
        if is_kept {
            pool.withhold_reserve(true);
        }
        let taken = take(pool, max);
        if is_kept {
            pool.withhold_reserve(false);
        }
        if taken > 0 || pool.refused() == refused {
            return taken;
        }
        match pool.spend_reserve().div_ceil(2).min(max) {
            0 => 0,
            more => take(pool, more),
        }
    }

    /// Takes from the pool what is missing, as far as it has it, and has the pool say how scarce buffers are now.
    #[cold]
    pub fn replenish(&self, pool: &mut Pool) {
        let held = pool.fill_reserve(self.size, self.packet_max);
        pool.set_scarcity(match held {
            held if held >= self.size => Scarcity::Ample,
            held if held >= self.size / 2 => Scarcity::Short,
            _ => Scarcity::Dire,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_message::{Arena, Message, Run};

    /// What an application can get.
    fn hoard(pool: &mut Pool) -> Vec<Message> {
        pool.withhold_reserve(true);
        let all = std::iter::from_fn(|| pool.allocate(0, 1500)).collect();
        pool.withhold_reserve(false);
        all
    }

    #[test]
    fn the_last_buffers_are_for_packets() {
        let arena = Arena::new(1 << 20);
        let mut pool = Pool::new(&arena);
        let reserve = Reserve::new(1 << 20, 1500);
        reserve.replenish(&mut pool);
        let hoard = hoard(&mut pool);
        assert_eq!(pool.scarcity(), Scarcity::Short);
        // The first packet finds no buffer; then half of the reserve's go to packets. Nobody frees them.
        let mut received = Run::new();
        for (taken, scarcity) in [
            (16, Scarcity::Short),
            (8, Scarcity::Dire),
            (4, Scarcity::Dire),
        ] {
            let before = received.len();
            let receive = |pool: &mut Pool, max| {
                let before = received.len();
                received.extend(std::iter::from_fn(|| pool.allocate(0, 1500)).take(max));
                received.len() - before
            };
            assert_eq!(reserve.receive(&mut pool, 100, receive), taken);
            assert!(pool.scarcity() >= Scarcity::Short);
            reserve.replenish(&mut pool);
            assert_eq!(
                (received.len() - before, pool.scarcity()),
                (taken, scarcity)
            );
        }
        drop(hoard);
        reserve.replenish(&mut pool);
        assert_eq!(pool.scarcity(), Scarcity::Ample);
    }

    #[test]
    fn without_one_nothing_is_held() {
        let arena = Arena::new(0);
        let mut pool = Pool::new(&arena);
        let none = Reserve::default();
        let mut calls = 0;
        let taken = none.receive(&mut pool, 8, |pool, _| {
            calls += 1;
            usize::from(pool.allocate(0, 1).is_some())
        });
        assert_eq!((taken, calls), (0, 1));
        assert_eq!(pool.scarcity(), Scarcity::Ample);
    }
}
