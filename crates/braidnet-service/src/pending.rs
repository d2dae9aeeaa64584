//! Messages that wait, at a bounded cost in memory.

use braidnet::message::{Message, Pool};
use std::collections::VecDeque;

/// Bytes of a stream, in the messages in which they came.
///
/// Small messages are put together: a peer that sends single bytes would otherwise hold a whole buffer with each.
#[derive(Default)]
pub(crate) struct Pending {
    messages: VecDeque<Message>,
    bytes: usize,
}

/// What gathering came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Widened {
    /// There is more in one piece.
    More,
    /// All there is, or as much as was asked for, is in one piece already.
    Nothing,
    /// The stack's memory is used up.
    NoBuffer,
}

/// Bytes that are gathered at least, where there are as many.
const LEAST_GATHERED: usize = 1024;

impl Pending {
    /// Appends a message; empty ones are not kept.
    pub(crate) fn push(&mut self, message: Message) {
        let len = message.total_len();
        if len == 0 {
            return;
        }
        self.bytes += len;
        if let Some(last) = self.messages.back_mut()
            && last.absorb(&message)
        {
            return;
        }
        self.messages.push_back(message);
    }

    /// Puts a message back to the front.
    pub(crate) fn push_front(&mut self, message: Message) {
        self.bytes += message.total_len();
        self.messages.push_front(message);
    }

    /// Takes the first message.
    pub(crate) fn pop(&mut self) -> Option<Message> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.total_len();
        Some(message)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The bytes at the front that lie in one piece.
    pub(crate) fn front(&self) -> &[u8] {
        self.messages.front().map_or(&[], Message::bytes)
    }

    /// Gathers more bytes at the front into one piece, of `most` at most: twice as many as before, or all there are, so that
    /// gathering on and on costs no more than a few copies.
    pub(crate) fn widen(&mut self, most: usize, pool: &mut Pool) -> Widened {
        let have = self.front().len();
        let wanted = (2 * have).max(LEAST_GATHERED).min(most).min(self.bytes);
        if wanted <= have {
            return Widened::Nothing;
        }
        let Some(mut gathered) = pool.allocate(0, wanted) else {
            return Widened::NoBuffer;
        };
        if let Some(room) = gathered.append(wanted) {
            let mut at = 0;
            for message in &self.messages {
                at += message.copy_to_slice(&mut room[at..]);
            }
        }
        self.strip(wanted);
        self.push_front(gathered);
        Widened::More
    }

    /// Drops the first `n` bytes, or all if there are less; how many.
    pub(crate) fn strip(&mut self, n: usize) -> usize {
        let mut left = n;
        while left > 0 {
            let Some(first) = self.messages.front_mut() else {
                break;
            };
            let len = first.total_len();
            if len > left {
                first.strip(left);
                left = 0;
            } else {
                left -= len;
                self.messages.pop_front();
            }
        }
        self.bytes -= n - left;
        n - left
    }

    /// Drops everything; how many bytes.
    pub(crate) fn clear(&mut self) -> usize {
        self.messages.clear();
        core::mem::take(&mut self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet::message::Arena;
    use proptest::prelude::*;

    fn bytes(pending: &mut Pending) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(message) = pending.pop() {
            all.extend(message.blocks().flatten());
        }
        all
    }

    #[test]
    fn single_bytes_share_buffers() {
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let mut pending = Pending::default();
        for _ in 0..10_000 {
            let mut message = pool.allocate(64, 1500).unwrap();
            message.append(1).unwrap()[0] = 7;
            pending.push(message);
        }
        assert_eq!(pending.bytes, 10_000);
        assert!(pending.messages.len() < 10, "{}", pending.messages.len());
    }

    #[test]
    fn gathering_and_stripping_can_go_on_for_ever() {
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let mut pending = Pending::default();
        for _ in 0..1000 {
            pending.push(pool.copy_from_slice(64, &[1; 1000]).unwrap());
            pending.push(pool.copy_from_slice(64, &[2; 1000]).unwrap());
            assert_eq!(pending.widen(16 << 10, &mut pool), Widened::More);
            pending.strip(1990);
        }
        assert_eq!(pending.bytes, 10_000);
    }

    proptest! {
        #[test]
        fn bytes_keep_their_order(
            steps in proptest::collection::vec((0usize..1400, 0usize..2000, any::<bool>()), 1..40),
        ) {
            let mut pool = Pool::new(&Arena::new(8 << 20));
            let (mut pending, mut expected) = (Pending::default(), Vec::new());
            for (len, gone, gather) in steps {
                let more: Vec<u8> = (0..len).map(|at| (at * 7 + expected.len()) as u8).collect();
                pending.push(pool.copy_from_slice(64, &more).unwrap());
                expected.extend(more);
                if gather {
                    let before = pending.front().len();
                    let widened = pending.widen(gone, &mut pool);
                    let front = pending.front();
                    prop_assert_eq!(front, &expected[..front.len()]);
                    prop_assert_eq!(widened == Widened::More, front.len() > before);
                    prop_assert!(widened == Widened::More || front.len() >= gone.min(expected.len()));
                }
                let stripped = pending.strip(gone);
                expected.drain(..stripped);
                prop_assert_eq!(stripped, gone.min(stripped + expected.len()));
                prop_assert_eq!(pending.bytes, expected.len());
            }
            prop_assert_eq!(bytes(&mut pending), expected);
            prop_assert!(pending.is_empty() && pending.bytes == 0);
        }
    }
}
