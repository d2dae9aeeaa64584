//! Several segments in one message, and who sees to their checksums.

use crate::message::Message;
use crate::pool::Pool;

/// Who sees to the checksum of a message's transport.
///
/// It is what a message says of itself; on its way up whoever believes it believes the device (HOSTILE-INPUT 46), so only devices and what
/// joins segments it has verified set it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checksum {
    /// The one in the header is the packet's: going down it leaves as it is, going up nobody has verified it.
    #[default]
    Stands,
    /// The same, and the device that the packet came from has verified it.
    Verified,
    /// In its place stands the sum of the pseudo-header alone: going down the device makes it; coming up nobody has, for the packet has not
    /// left the machine and cannot have been damaged.
    Partial,
}

/// A segment that has less than one part in so many of its block is copied out of it where a train is taken apart.
const SPARSE: usize = 4;

/// Most that the copy has in front of it.
const HEADROOM: usize = 128;

/// What a node keeps of all that, and of the device, in one word to be copied and cleared at once.
#[derive(Clone, Copy)]
pub(crate) struct Segmentation {
    /// Payload bytes of each segment of a train; 0 if the message is none.
    pub segment_bytes: u16,
    pub checksum: Checksum,
    /// Which of the stack's devices.
    pub device: u8,
}

impl Segmentation {
    pub(crate) const CLEAR: Segmentation = Segmentation {
        segment_bytes: 0,
        checksum: Checksum::Stands,
        device: 0,
    };
}

impl Message {
    /// Payload bytes of each segment of a train, 0 if the message is none.
    ///
    /// A train is one message that stands for consecutive segments of one flow, or datagrams, so that what is done for a message is done
    /// once for all of them: all have as much payload but the last, which may have less. The first block holds the headers, which are those of
    /// the first segment, and its payload; each block behind it holds the payloads of one segment or several. Views and splits are no trains.
    #[inline]
    pub fn segment_bytes(&self) -> u32 {
        self.node().segmentation.get().segment_bytes.into()
    }

    /// Makes the message a train, or, with 0, no train any more; `bytes` are at most 65,535. Whoever finds a train takes it that the checksums of all
    /// its segments are right, so what has come from outside is no train before somebody has seen to that.
    #[inline]
    pub fn set_segment_bytes(&mut self, bytes: u32) {
        debug_assert!(bytes <= u16::MAX.into(), "no IP packet is as long");
        let segmentation = &self.node().segmentation;
        segmentation.set(Segmentation {
            segment_bytes: bytes as u16,
            ..segmentation.get()
        });
    }

    /// Who sees to the transport's checksum. A fresh message, and a view, [stands](Checksum::Stands) for itself.
    #[inline]
    pub fn checksum(&self) -> Checksum {
        self.node().segmentation.get().checksum
    }

    /// Says who sees to the transport's checksum.
    #[inline]
    pub fn set_checksum(&mut self, checksum: Checksum) {
        let segmentation = &self.node().segmentation;
        segmentation.set(Segmentation {
            checksum,
            ..segmentation.get()
        });
    }

    /// Which of the stack's devices it came from, or is to leave by: 0 where there is one, and in a fresh message and a view.
    #[inline]
    pub fn device(&self) -> u8 {
        self.node().segmentation.get().device
    }

    /// Says which of the stack's devices it came from, or is to leave by.
    #[inline]
    pub fn set_device(&mut self, device: u8) {
        let segmentation = &self.node().segmentation;
        segmentation.set(Segmentation {
            device,
            ..segmentation.get()
        });
    }

    /// Forgets all of that: what the message has, it has as it is.
    #[inline]
    pub fn clear_segmentation(&mut self) {
        self.node().segmentation.set(Segmentation::CLEAR);
    }

    /// Segments that the message stands for: those of a train, or one.
    #[inline]
    pub fn segments(&self) -> usize {
        match self.segment_bytes() as usize {
            0 => 1,
            // The first block has the headers, too.
            each => 1 + (self.total_len() - self.len()).div_ceil(each),
        }
    }

    /// Leaves only the first segment of a train and returns the others, as a train of their own if they are several; `None` if the message is no
    /// train. They have the checksum's word of the first, and neither headers nor a note. Where several lie in one block, the next is copied out of it: segments that
    /// are taken apart may be kept one by one, and each would keep the block. So is one that is alone in its block and has little of it.
    ///
    /// ```
    /// # use braidnet_message::{Arena, Pool};
    /// # let mut pool = Pool::new(&Arena::new(1 << 20));
    /// let mut train = pool.copy_from_slice(0, b"header first ").unwrap();
    /// train.push_continuation(pool.copy_from_slice(0, b"next  third").unwrap());
    /// train.set_segment_bytes(6);
    /// let mut rest = train.take_rest(&mut pool).unwrap().unwrap();
    /// assert_eq!((train.total_len(), rest.segments(), rest.bytes()), (13, 2, &b"next  "[..]));
    /// let last = rest.take_rest(&mut pool).unwrap().unwrap();
    /// assert_eq!((last.segments(), last.bytes()), (1, &b"third"[..]));
    /// ```
    ///
    /// # Errors
    /// If `pool` has no buffer for that: how many are lost.
    pub fn take_rest(&mut self, pool: &mut Pool) -> Result<Option<Message>, usize> {
        let Segmentation {
            segment_bytes,
            checksum,
            device,
        } = self.node().segmentation.get();
        let each = usize::from(segment_bytes);
        self.set_segment_bytes(0);
        if each == 0 {
            return Ok(None);
        }
        let Some(mut rest) = self.take_continuation() else {
            return Ok(None);
        };
        if rest.len() <= each && rest.is_sparse() {
            // Headers may have to go in front of it, as in front of any.
            let headroom = rest.headroom().min(HEADROOM);
            if let Some(copy) = pool.copy_from_slice(headroom, rest.bytes()) {
                let behind = rest.take_continuation();
                rest = copy;
                if let Some(behind) = behind {
                    rest.push_continuation(behind);
                }
            }
        } else if rest.len() > each {
            let Some(mut next) = pool.copy_from_slice(0, &rest.bytes()[..each]) else {
                return Err(rest.total_len().div_ceil(each));
            };
            rest.strip(each);
            next.push_continuation(rest);
            rest = next;
        }
        let is_train = rest.continuation().is_some();
        rest.node().segmentation.set(Segmentation {
            segment_bytes: if is_train { segment_bytes } else { 0 },
            checksum,
            device,
        });
        Ok(Some(rest))
    }

    /// Whether the first block is more than four times as long as what the message has of it: whoever keeps such messages keeps little in much memory.
    ///
    /// ```
    /// # use braidnet_message::{Arena, Pool};
    /// # let mut pool = Pool::new(&Arena::new(1 << 20));
    /// let whole = pool.copy_from_slice(0, &[7; 1000]).unwrap();
    /// let part = whole.share_range(0, 100, &mut pool).unwrap();
    /// assert!(part.is_sparse() && !whole.is_sparse());
    /// ```
    pub fn is_sparse(&self) -> bool {
        self.headroom() + self.len() + self.tailroom() > SPARSE * self.len()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Arena, Pool};

    #[test]
    fn what_is_taken_apart_keeps_no_long_block() {
        let arena = Arena::new(4 << 20);
        let mut pool = Pool::new(&arena);
        let bytes: Vec<u8> = (0..45_000u32).map(|number| number as u8).collect();
        let mut train = pool.copy_from_slice(0, b"first").unwrap();
        train.push_continuation(pool.copy_from_slice(0, &bytes).unwrap());
        train.set_segment_bytes(1448);
        let (mut next, mut read) = (Some(train), Vec::new());
        while let Some(mut segment) = next {
            next = segment.take_rest(&mut pool).unwrap();
            let room = segment.headroom() + segment.len() + segment.tailroom();
            assert!(room < 3000, "{} bytes in a block of {room}", segment.len());
            read.extend_from_slice(segment.bytes());
        }
        assert_eq!(read[5..], bytes);
    }
}
