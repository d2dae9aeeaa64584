//! Buffers that are kept for what frees others.
//!
//! What an application sends stays in memory until the peer acknowledges it, and the acknowledgment needs a buffer to come
//! in. So an application must not be given the last buffers: some are held here, out of the pool, and it gets none as
//! long as they are not complete. When the device finds the pool empty they go back into it, half for packets, half for
//! what is said about those.

use braidnet_message::{Pool, Run};

/// Most buffers that are held.
const MOST: usize = 32;
/// A smaller stack holds no more than this part of its memory.
const PART: usize = 16;

/// The buffers.
pub(crate) struct Reserve {
    held: Run,
    /// How many there are when it is complete.
    size: usize,
    /// What each has room for.
    packet_max: usize,
    /// How many buffers the pool had refused when it was last looked at.
    refused: u64,
}

impl Reserve {
    /// None yet, for packets of at most `packet_max` bytes in a stack of this memory.
    pub(crate) fn new(memory_bytes: usize, packet_max: usize) -> Reserve {
        let most = memory_bytes / PART / packet_max.max(1);
        Reserve {
            held: Run::new(),
            size: most.clamp(2, MOST),
            packet_max,
            refused: 0,
        }
    }

    /// Whether it is complete.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.held.len() == self.size
    }

    /// Takes from the pool what is missing, as far as it has it.
    #[cold]
    pub(crate) fn restock(&mut self, pool: &mut Pool) {
        while self.held.len() < self.size {
            let Some(buffer) = pool.allocate(0, self.packet_max) else {
                break;
            };
            self.held.push(buffer);
        }
        self.refused = pool.refused();
    }

    /// Whether the pool has refused a buffer since this was last asked.
    #[inline]
    pub(crate) fn is_needed(&mut self, pool: &Pool) -> bool {
        let refused = pool.refused();
        core::mem::replace(&mut self.refused, refused) != refused
    }

    /// Gives all of them back; how many packets may be taken for it.
    #[cold]
    pub(crate) fn spend(&mut self) -> usize {
        let packets = self.held.len().div_ceil(2);
        self.held.clear();
        packets
    }
}
