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

/// A message of at most this many bytes is copied behind the one before it, where there is room.
const SMALL: usize = 512;

impl Pending {
    /// Appends a message; empty ones are not kept.
    pub(crate) fn push(&mut self, message: Message) {
        let len = message.total_len();
        if len == 0 {
            return;
        }
        self.bytes += len;
        if len <= SMALL
            && let Some(last) = self.messages.back_mut()
            && join(last, &message)
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

    /// The first `n` bytes, or all if there are less, in one piece; `None` without a buffer to gather them in.
    pub(crate) fn gather(&mut self, n: usize, pool: &mut Pool) -> Option<&[u8]> {
        let n = n.min(self.bytes);
        while self.messages.front()?.total_len() < n && self.messages.len() > 1 {
            let mut first = self.messages.pop_front()?;
            let next = self.messages.pop_front()?;
            first.push_continuation(next);
            self.messages.push_front(first);
        }
        let first = self.messages.front_mut()?;
        first.pull_up(n, pool).then(|| &first.bytes()[..n])
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

/// Copies `message` behind `last`; false, and nothing done, where there is no room.
fn join(last: &mut Message, message: &Message) -> bool {
    if last.continuation().is_some() {
        return false;
    }
    match last.append(message.total_len()) {
        Some(room) => {
            message.copy_to_slice(room);
            true
        }
        None => false,
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
                    let seen = pending.gather(gone, &mut pool).map(<[u8]>::to_vec);
                    let wanted = &expected[..gone.min(expected.len())];
                    prop_assert_eq!(seen.unwrap_or_default(), wanted);
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
