//! Buffers that are kept for what frees others.
//!
//! What an application sends stays in memory until the peer acknowledges it, and the acknowledgment needs a buffer to come
//! in. So an application must not be given the last buffers: some are held here, out of the pool, and it gets none as
//! long as they are not complete. When the pool has been found empty they go back into it, half for packets, half for what
//! is said about those. Nor must they be used up by data that nobody reads: [`Scarcity`] says when no more is to be kept.
//!
//! Whoever turns a cluster keeps one for it: takes from the device through [`Reserve::receive`], and [replenishes](
//! Reserve::replenish) it at the end of each turn.

use braidnet_message::{Pool, Run, Scarcity};

/// Most buffers that are held.
const MOST: usize = 32;
/// Least.
const LEAST: usize = 2;
/// A smaller stack holds no more than this part of its memory.
const PART: usize = 16;

/// The buffers.
#[derive(Default)]
pub struct Reserve {
    held: Run,
    /// How many there are when it is complete.
    size: usize,
    /// What each has room for.
    packet_max: usize,
    /// How many buffers the pool had refused when it was last looked at.
    refused: u64,
}

impl Reserve {
    /// None yet, for packets of at most `packet_max` bytes (with what the device puts in front) and for a processor whose
    /// share of the stack's memory is `memory_bytes`. Without one ([`Reserve::default`]) nothing is ever held.
    pub fn new(memory_bytes: usize, packet_max: usize) -> Reserve {
        let most = memory_bytes / PART / packet_max.max(1);
        Reserve {
            held: Run::with_capacity(MOST),
            size: most.clamp(LEAST, MOST),
            packet_max,
            refused: 0,
        }
    }

    /// Whether it is complete.
    #[inline]
    pub fn is_complete(&self) -> bool {
        self.held.len() == self.size
    }

    /// Takes up to `max` packets from a device, as `take` does (how many at most, into where, how many); if the pool refused
    /// one a buffer, or anything else since this was last called, the reserve is given back to it and more are taken.
    /// How many in all.
    #[inline]
    pub fn receive(
        &mut self,
        pool: &mut Pool,
        max: usize,
        mut take: impl FnMut(&mut Pool, usize) -> usize,
    ) -> usize {
        let taken = if max > 0 { take(pool, max) } else { 0 };
        if !self.is_needed(pool) {
            return taken;
        }
        let more = self.spend(pool).min(max - taken);
        if more > 0 {
            taken + take(pool, more)
        } else {
            taken
        }
    }

    /// The same where nothing is received: gives the reserve back if the pool has refused a buffer since this was last
    /// called; whether it did.
    #[inline]
    pub fn relieve(&mut self, pool: &mut Pool) -> bool {
        self.is_needed(pool) && self.spend(pool) > 0
    }

    /// Takes from the pool what is missing, as far as it has it.
    #[cold]
    pub fn replenish(&mut self, pool: &mut Pool) {
        // What is another pool's would not come back here.
        pool.send_home();
        while self.held.len() < self.size {
            let Some(buffer) = pool.allocate(0, self.packet_max) else {
                break;
            };
            self.held.push(buffer);
        }
        self.refused = pool.refused();
        pool.set_scarcity(match self.held.len() {
            held if held == self.size => Scarcity::Ample,
            held if held >= self.size / 2 => Scarcity::Short,
            _ => Scarcity::Dire,
        });
    }

    /// Gives all of them back; how many packets may be taken for it.
    #[cold]
    pub fn spend(&mut self, pool: &mut Pool) -> usize {
        let packets = self.held.len().div_ceil(2);
        self.held.clear();
        if packets > 0 {
            pool.set_scarcity(pool.scarcity().max(Scarcity::Short));
        }
        packets
    }

    #[inline]
    fn is_needed(&mut self, pool: &Pool) -> bool {
        let refused = pool.refused();
        core::mem::replace(&mut self.refused, refused) != refused
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_message::Arena;

    #[test]
    fn the_last_buffers_are_for_packets() {
        let arena = Arena::new(1 << 20);
        let mut pool = Pool::new(&arena);
        let mut reserve = Reserve::new(1 << 20, 1500);
        assert!(!reserve.is_complete());
        reserve.replenish(&mut pool);
        assert!(reserve.is_complete());
        let hoard: Vec<_> = std::iter::from_fn(|| pool.allocate(0, 1500)).collect();
        assert_eq!(pool.scarcity(), Scarcity::Ample);
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
            assert!(!reserve.is_complete());
        }
        drop(hoard);
        reserve.replenish(&mut pool);
        assert!(reserve.is_complete());
        assert_eq!(pool.scarcity(), Scarcity::Ample);
    }

    #[test]
    fn without_one_nothing_is_held() {
        let arena = Arena::new(0);
        let mut pool = Pool::new(&arena);
        let mut none = Reserve::default();
        assert!(none.is_complete());
        let mut calls = 0;
        let taken = none.receive(&mut pool, 8, |pool, _| {
            calls += 1;
            usize::from(pool.allocate(0, 1).is_some())
        });
        assert_eq!((taken, calls), (0, 1));
        assert_eq!(pool.scarcity(), Scarcity::Ample);
    }
}
