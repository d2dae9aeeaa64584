//! Data that arrived out of order, until what is missing comes (RFC 9293 §3.10.7.4, seventh check).
//!
//! Of two segments that overlap, the bytes that came first stay, but for those of segments that lie inside a later one and end before it
//! does: they give way to it, which else would have to be split around them, and sent again.
//!
//! What is held lies inside the window, so its bytes are bounded by the receive buffer. The number of pieces is bounded
//! as well, and small pieces are bounded harder, since each may hold a whole packet buffer: see `Held::has_room`.
//! Over all connections of a stack, what is held is bounded by an [`Allowance`].

mod held;

use crate::{Allowance, DropReason, Payload};
use arrayvec::ArrayVec;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::SackBlock;
use held::Held;
use std::sync::Arc;

pub(crate) struct Reassembly<P> {
    /// What is held. Most connections never hold anything, and have no memory for it.
    held: Option<Box<Held<P>>>,
    max_pieces: u32,
    /// What all connections share, if they do.
    allowance: Option<Arc<Allowance>>,
}

impl<P: Payload> Reassembly<P> {
    /// At most `max_pieces`, with memory for `reserve` of them from the start.
    pub(crate) fn new(max_pieces: u32, reserve: u32) -> Self {
        Reassembly {
            held: (reserve > 0).then(|| Box::new(Held::new(max_pieces, reserve, None))),
            max_pieces,
            allowance: None,
        }
    }

    /// Keeps only what `allowance` has room for.
    pub(crate) fn share(&mut self, allowance: &Arc<Allowance>) {
        debug_assert!(self.is_empty());
        self.allowance = Some(Arc::clone(allowance));
        if let Some(held) = &mut self.held {
            held.allowance = self.allowance.clone();
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.held.as_ref().is_none_or(|held| held.is_empty())
    }

    /// Bytes that are kept.
    pub(crate) fn bytes(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.bytes())
    }

    /// Segments in which they came.
    pub(crate) fn segments(&self) -> usize {
        self.held.as_ref().map_or(0, |held| held.segments())
    }

    /// Where the first piece begins.
    pub(crate) fn first(&self) -> Option<SeqNumber> {
        self.held.as_ref()?.first()
    }

    /// Keeps a segment that lies above RCV.NXT and inside the window.
    ///
    /// An error says why all or part of it was not kept.
    pub(crate) fn insert(&mut self, seq: SeqNumber, payload: P) -> Result<(), DropReason> {
        if let Some(held) = &mut self.held {
            return held.insert(seq, payload);
        }
        let mut held = Box::new(Held::new(self.max_pieces, 0, self.allowance.clone()));
        let kept = held.insert(seq, payload);
        // What is refused takes no memory.
        self.held = Some(held).filter(|held| !held.is_empty());
        kept
    }

    /// Makes way for data in order that ends at `end`: what lies inside it is let go of. Where it has to stop, if something
    /// that is held begins before its end, and does not end before it.
    pub(crate) fn give_way(&mut self, end: SeqNumber) -> Option<SeqNumber> {
        self.held.as_mut()?.give_way(end)
    }

    /// The first piece, if it begins at `rcv_nxt`.
    pub(crate) fn take_at(&mut self, rcv_nxt: SeqNumber) -> Option<P> {
        self.held.as_mut()?.take_at(rcv_nxt)
    }

    /// Lets go of what lies at or after `end`; whether there was anything.
    pub(crate) fn cut(&mut self, end: SeqNumber) -> bool {
        self.held.as_mut().is_some_and(|held| held.cut(end))
    }

    /// Lets go of everything, and of the memory for it.
    pub(crate) fn clear(&mut self) {
        self.held = None;
    }

    /// The blocks of a SACK option, at most `max` (RFC 2018 §4): the one that holds the latest arrival first, then those
    /// reported before, then any others.
    pub(crate) fn sack_blocks(&self, max: usize) -> ArrayVec<SackBlock, 4> {
        let held = self.held.as_ref();
        held.map_or_else(ArrayVec::new, |held| held.sack_blocks(max))
    }

    /// The first piece that is held and ends behind `seq`.
    pub(crate) fn first_range_behind(&self, seq: SeqNumber) -> Option<SackBlock> {
        self.held.as_ref()?.first_range_behind(seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bytes;

    #[test]
    fn memory_is_taken_when_something_is_held_and_given_back() {
        for reserve in [0, 8] {
            let allowance = Arc::new(Allowance::new(100));
            let mut reassembly = Reassembly::<Bytes>::new(100, reserve);
            reassembly.share(&allowance);
            assert_eq!(reassembly.held.is_some(), reserve > 0);
            let seq = SeqNumber::new(7);
            assert!(reassembly.is_empty() && reassembly.take_at(seq).is_none());
            assert_eq!(reassembly.insert(seq, Bytes(vec![0; 60])), Ok(()));
            assert_eq!((reassembly.bytes(), reassembly.segments()), (60, 1));
            assert_eq!(allowance.used_bytes(), 60);
            let full = Err(DropReason::AllowanceUsedUp);
            assert_eq!(reassembly.insert(seq + 70, Bytes(vec![0; 60])), full);
            reassembly.clear();
            assert_eq!(allowance.used_bytes(), 0);
            assert!(allowance.take(50));
            assert_eq!(reassembly.insert(seq, Bytes(vec![0; 60])), full);
            allowance.give_back(50);
            assert!(reassembly.is_empty() && reassembly.held.is_none());
            assert_eq!(allowance.used_bytes(), 0);
        }
    }
}
