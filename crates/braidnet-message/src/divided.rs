//! A message in parts, each of which may be worked on by another processor.
//!
//! Who divides a message gives it up: from then on its nodes are only read, by whoever holds a part, until all parts have come back and
//! the message is whole again. A part is the only one of its bytes, and may write them if the message could when it was
//! divided: every block unique, which nobody can change meanwhile. No byte is moved, neither to divide nor to join: that is what made
//! both dear where messages were split into sub-packets (PPF §3.2, figures 7 and 8).

use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::message::Message;
use crate::node::Node;

/// What is left of a message that has been [divided](Message::divide): the wish to be whole again.
///
/// If it is dropped, nobody knows who still holds parts: the memory of the message is lost then.
#[must_use = "the memory of a message that is not joined is lost"]
pub struct Divided {
    node: NonNull<Node>,
    parts: usize,
}

// SAFETY: as for a message; nothing is done with the node before all parts have been given up.
unsafe impl Send for Divided {}

/// A part of a divided message: a range of its bytes, in one or more slices.
pub struct Part {
    node: NonNull<Node>,
    start: usize,
    len: usize,
    may_write: bool,
    has_written: bool,
}

// SAFETY: the nodes are only read while the message is divided, and no other part has these bytes.
unsafe impl Send for Part {}

impl Message {
    /// Divides the whole message into so many parts, of like length but perhaps the last ones, each beginning at a multiple of 64
    /// bytes; parts of a message that is too short for as many have no bytes. The iterator gives all of them, in order.
    pub fn divide(self, parts: usize) -> (Divided, impl ExactSizeIterator<Item = Part>) {
        let total = self.total_len();
        let len = total.div_ceil(parts.max(1)).next_multiple_of(LINE_BYTES);
        let may_write = self.nodes().all(Node::is_unique);
        let node = self.into_node();
        let part = move |index: usize| {
            let start = (index * len).min(total);
            Part {
                node,
                start,
                len: len.min(total - start),
                may_write,
                has_written: false,
            }
        };
        (Divided { node, parts }, (0..parts).map(part))
    }
}

/// Two processors do not write the same cache line, where the first byte begins one.
const LINE_BYTES: usize = 64;

impl Divided {
    /// The message, whole again. `None` if these are not all its parts: then its memory is lost.
    pub fn join(self, parts: impl IntoIterator<Item = Part>) -> Option<Message> {
        let (mut count, mut has_written) = (0, false);
        for part in parts {
            count += usize::from(part.node == self.node);
            has_written |= part.has_written;
        }
        if count != self.parts {
            return None;
        }
        // SAFETY: given up by `divide`, which made as many parts; all of them are gone, so nobody else has the node.
        let message = unsafe { Message::from_node(self.node) };
        if has_written {
            message.nodes().for_each(Node::clear_sum);
        }
        Some(message)
    }
}

impl Part {
    /// Offset of its first byte in the whole message.
    pub fn start(&self) -> usize {
        self.start
    }

    /// How many bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its bytes, a slice for each block that it has a share in.
    pub fn slices(&self) -> impl Iterator<Item = &[u8]> {
        self.ranges().map(|range| {
            // SAFETY: bytes of the message, which who views them may read; who may write them, only this part does, which is borrowed.
            unsafe { range.as_ref() }
        })
    }

    /// Its bytes, to be written; `None` if some block of the message is not unique.
    pub fn slices_mut(&mut self) -> Option<impl Iterator<Item = &mut [u8]>> {
        if !self.may_write {
            return None;
        }
        self.has_written = true;
        Some(self.ranges().map(|mut range| {
            // SAFETY: the blocks are unique, no other part has these bytes, and this one is borrowed exclusively. No two ranges overlap.
            unsafe { range.as_mut() }
        }))
    }

    fn ranges(&self) -> Ranges<'_> {
        Ranges {
            node: Some(self.node),
            skip: self.start,
            left: self.len,
            part: PhantomData,
        }
    }
}

/// The bytes of a part, block by block.
struct Ranges<'a> {
    node: Option<NonNull<Node>>,
    skip: usize,
    left: usize,
    part: PhantomData<&'a Part>,
}

impl Iterator for Ranges<'_> {
    type Item = NonNull<[u8]>;

    fn next(&mut self) -> Option<NonNull<[u8]>> {
        while self.left > 0 {
            // SAFETY: the nodes of a divided message are valid until it is joined, which takes the part that is borrowed here; nobody
            // writes them.
            let node = unsafe { self.node?.as_ref() };
            self.node = node.next();
            let skip = self.skip.min(node.len());
            self.skip -= skip;
            let len = (node.len() - skip).min(self.left);
            if len > 0 {
                self.left -= len;
                // SAFETY: within what the node views of its block.
                let first = unsafe { node.block.get().add(node.start.get() as usize + skip) };
                return NonNull::new(first).map(|first| NonNull::slice_from_raw_parts(first, len));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::{Arena, Message, Pool};

    /// A message of these blocks, whose bytes count up.
    fn message(pool: &mut Pool, blocks: &[usize]) -> Message {
        let bytes: Vec<u8> = (0..blocks.iter().sum()).map(|n: usize| n as u8).collect();
        let mut rest = &bytes[..];
        let mut whole = pool.copy_from_slice(0, &[]).unwrap();
        for (index, len) in blocks.iter().enumerate() {
            let (block, behind) = rest.split_at(*len);
            rest = behind;
            let block = pool.copy_from_slice(0, block).unwrap();
            if index == 0 {
                whole = block;
            } else {
                whole.push_continuation(block);
            }
        }
        whole
    }

    fn bytes(message: &Message) -> Vec<u8> {
        message.blocks().flatten().copied().collect()
    }

    #[test]
    fn parts_are_all_bytes_once_and_what_they_write_is_in_the_message() {
        let mut pool = Pool::new(&Arena::new(1 << 20));
        for blocks in [&[0][..], &[1], &[64], &[1000], &[100, 0, 300, 1, 700]] {
            for count in [1, 2, 3, 8] {
                let message = message(&mut pool, blocks);
                let before = bytes(&message);
                let (divided, parts) = message.divide(count);
                let mut parts: Vec<_> = parts.collect();
                assert_eq!(parts.len(), count);
                let read: Vec<u8> = parts
                    .iter()
                    .flat_map(|part| part.slices().flatten().copied())
                    .collect();
                assert_eq!(read, before, "{blocks:?} in {count}");
                let mut start = 0;
                std::thread::scope(|scope| {
                    for part in &mut parts {
                        assert_eq!(part.start(), start);
                        start += part.len();
                        scope.spawn(|| {
                            let slices = part.slices_mut().unwrap();
                            slices.flatten().for_each(|byte| *byte ^= 0x55);
                        });
                    }
                });
                let after = bytes(&divided.join(parts).unwrap());
                let wanted: Vec<u8> = before.iter().map(|byte| byte ^ 0x55).collect();
                assert_eq!(after, wanted, "{blocks:?} in {count}");
            }
        }
    }

    #[test]
    fn what_others_view_too_cannot_be_written() {
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let mut first = message(&mut pool, &[200, 200]);
        let view = first.share(&mut pool).unwrap();
        let (divided, parts) = first.divide(2);
        let mut parts: Vec<_> = parts.collect();
        assert!(parts.iter_mut().all(|part| part.slices_mut().is_none()));
        assert_eq!(
            parts[1].slices().map(<[u8]>::len).sum::<usize>(),
            400 - parts[1].start()
        );
        first = divided.join(parts).unwrap();
        drop(view);
        let (divided, parts) = first.divide(2);
        let mut parts: Vec<_> = parts.collect();
        assert!(parts.iter_mut().all(|part| part.slices_mut().is_some()));
        assert!(divided.join(parts).is_some());
    }

    #[test]
    fn a_message_is_whole_only_with_all_its_parts() {
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let (one, parts) = message(&mut pool, &[300]).divide(2);
        let (other, others) = message(&mut pool, &[300]).divide(2);
        let mut parts: Vec<_> = parts.collect();
        let mut others: Vec<_> = others.collect();
        std::mem::swap(&mut parts[0], &mut others[0]);
        assert!(one.join(parts).is_none());
        assert!(other.join(others.into_iter().skip(1)).is_none());
    }

    #[test]
    fn a_sum_does_not_outlive_what_it_was_of() {
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let summed = |pool: &mut Pool| {
            let mut message = pool.allocate(0, 256).unwrap();
            message.extend_from_slice_summed(&[3; 256]);
            message
        };
        let original = summed(&mut pool).sum();
        assert!(original.is_some());
        let (divided, parts) = summed(&mut pool).divide(2);
        let joined = divided.join(parts).unwrap();
        assert_eq!(joined.sum(), original);
        let (divided, parts) = joined.divide(2);
        let parts = parts.map(|mut part| {
            part.slices_mut()
                .unwrap()
                .flatten()
                .for_each(|byte| *byte = 9);
            part
        });
        let joined = divided.join(parts).unwrap();
        assert!(joined.sum().is_none());
    }
}
