//! Messages that belong together.

use core::iter::FusedIterator;

use crate::fetch::look_ahead;
use crate::message::Message;

/// A batch of messages that belong together, in order: the unit in which modules work, and for which virtual calls,
/// perimeters and look-ups are paid once.
///
/// A run keeps its capacity when it is drained, so that one that is used again and again allocates nothing.
#[derive(Debug, Default)]
pub struct Run {
    messages: Vec<Message>,
}

impl Run {
    /// An empty run; nothing is allocated before the first message.
    pub const fn new() -> Run {
        Run {
            messages: Vec::new(),
        }
    }

    /// An empty run with room for `messages`.
    pub fn with_capacity(messages: usize) -> Run {
        Run {
            messages: Vec::with_capacity(messages),
        }
    }

    /// Adds a message at the end.
    #[inline]
    pub fn push(&mut self, message: Message) {
        if self.messages.len() == self.messages.capacity() {
            return self.grow_and_push(message);
        }
        self.messages.push(message);
    }

    /// Away from the usual way, so that it costs that nothing.
    #[cold]
    #[inline(never)]
    fn grow_and_push(&mut self, message: Message) {
        self.messages.push(message);
    }

    /// Takes the last message off.
    #[inline]
    pub fn pop(&mut self) -> Option<Message> {
        self.messages.pop()
    }

    /// Moves all messages of `other` to the end; `other` keeps its capacity.
    #[inline]
    pub fn append(&mut self, other: &mut Run) {
        self.messages.append(&mut other.messages);
    }

    /// Takes over all messages of `other`, which gets the capacity of this run for them. What this run held is dropped.
    #[inline]
    pub fn take_over(&mut self, other: &mut Run) {
        self.clear();
        // Not one exchange of all three words: a length that has just been written, loaded together with another word,
        // would keep the processor waiting until the write has reached the cache.
        let len = other.messages.len();
        // SAFETY: none is at most the capacity. The messages are this run's from here on.
        unsafe { other.messages.set_len(0) };
        core::mem::swap(&mut self.messages, &mut other.messages);
        // SAFETY: as many messages lie there, initialised, and nobody else counts them.
        unsafe { self.messages.set_len(len) };
    }

    /// Takes all messages, in order. What the iterator still holds when it is dropped is dropped with it.
    #[inline]
    pub fn drain(&mut self) -> Drain<'_> {
        let len = self.messages.len();
        // SAFETY: none is at most the capacity. The messages are the iterator's from here on: the run is borrowed, and
        // does not count them any more.
        unsafe { self.messages.set_len(0) };
        // SAFETY: as many messages as the run had lie there, initialised, and nobody else refers to them.
        let left = unsafe { core::slice::from_raw_parts_mut(self.messages.as_mut_ptr(), len) };
        Drain {
            left: left.iter_mut(),
        }
    }

    /// Moves all messages from the `at`-th on to the end of `to`.
    pub fn move_from(&mut self, at: usize, to: &mut Run) {
        let at = at.min(self.messages.len());
        to.messages.extend(self.messages.drain(at..));
    }

    /// Takes the first `n` messages, in order, or all if there are fewer; those behind them move up. What the iterator still
    /// holds when it is dropped is dropped with it.
    pub fn drain_front(&mut self, n: usize) -> std::vec::Drain<'_, Message> {
        let n = n.min(self.messages.len());
        self.messages.drain(..n)
    }

    /// Drops all messages.
    #[inline]
    pub fn clear(&mut self) {
        if !self.messages.is_empty() {
            self.drop_all();
        }
    }

    #[inline(never)]
    fn drop_all(&mut self) {
        self.messages.clear();
    }

    /// Drops the messages for which `keep` says no.
    pub fn retain_mut(&mut self, keep: impl FnMut(&mut Message) -> bool) {
        self.messages.retain_mut(keep);
    }

    /// Offers each message but the first to the one before it, which may take it in; what `offer` gives back stays in the run
    /// and is the one before the next. The order stays. While one is offered, the bytes of the next come near.
    ///
    /// If `offer` panics, the messages of the run are not dropped.
    #[inline]
    pub fn join(&mut self, mut offer: impl FnMut(&mut Message, Message) -> Option<Message>) {
        let len = self.messages.len();
        if len < 2 {
            return;
        }
        // SAFETY: none is at most the capacity. From here on the run does not count its messages, so that none is dropped
        // twice.
        unsafe { self.messages.set_len(0) };
        let first = self.messages.as_mut_ptr();
        let mut kept = 1;
        for index in 1..len {
            // SAFETY: `index` is below the old length.
            let at = unsafe { first.add(index) };
            // SAFETY: as many messages as the run had lie there, initialised; each is read once, before its place is written.
            let message = unsafe { at.read() };
            if index + 1 < len {
                // SAFETY: below the old length.
                let next = unsafe { first.add(index + 1) };
                // SAFETY: it lies there, initialised, and nobody refers to it yet.
                look_ahead(unsafe { &*next });
            }
            // SAFETY: `kept` is at least one and at most `index`.
            let before = unsafe { first.add(kept - 1) };
            // SAFETY: what is kept lies in front of `kept`, initialised, and nobody else refers to it.
            if let Some(message) = offer(unsafe { &mut *before }, message) {
                // SAFETY: `kept` is at most `index`, below the old length.
                let place = unsafe { first.add(kept) };
                // SAFETY: what lay there has been read.
                unsafe { place.write(message) };
                kept += 1;
            }
        }
        // SAFETY: so many messages lie there, initialised, and `kept` is at most the old length.
        unsafe { self.messages.set_len(kept) };
    }

    /// The messages, in order.
    #[inline]
    pub fn iter(&self) -> std::slice::Iter<'_, Message> {
        self.messages.iter()
    }

    /// The messages, in order, to be changed.
    #[inline]
    pub fn iter_mut(&mut self) -> std::slice::IterMut<'_, Message> {
        self.messages.iter_mut()
    }

    /// The messages as a slice.
    #[inline]
    pub fn as_slice(&self) -> &[Message] {
        &self.messages
    }

    /// The messages as a slice, to be changed or reordered.
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [Message] {
        &mut self.messages
    }

    /// The number of messages.
    #[inline]
    pub fn len(&self) -> usize {
        self.messages.len()
    }

    /// Whether there are no messages.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// The number of messages that fit without an allocation.
    pub fn capacity(&self) -> usize {
        self.messages.capacity()
    }

    /// The number of bytes in all blocks of all messages. Counts anew with every call.
    pub fn total_bytes(&self) -> usize {
        self.messages.iter().map(Message::total_len).sum()
    }
}

/// The messages taken out of a run; see [`Run::drain`].
#[derive(Debug)]
pub struct Drain<'a> {
    /// Those that nobody has asked for yet. The run does not count them any more, so they are this iterator's.
    left: core::slice::IterMut<'a, Message>,
}

impl Drain<'_> {
    /// Those that have not been taken yet.
    pub fn as_slice(&self) -> &[Message] {
        self.left.as_slice()
    }
}

/// Drops what a drain still holds. It is given by value, so that a drain need not be in memory.
///
/// # Safety
/// The messages are initialised, and the caller's to give up.
#[cold]
#[inline(never)]
unsafe fn drop_rest(rest: &mut [Message]) {
    // SAFETY: the caller's promise.
    unsafe { core::ptr::drop_in_place(rest) };
}

impl Iterator for Drain<'_> {
    type Item = Message;

    #[inline]
    fn next(&mut self) -> Option<Message> {
        // SAFETY: the message is the iterator's, initialised, and passed over only once.
        self.left
            .next()
            .map(|message| unsafe { core::ptr::read(message) })
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        self.left.size_hint()
    }
}

impl DoubleEndedIterator for Drain<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<Message> {
        self.left
            .next_back()
            // SAFETY: as in `next`.
            .map(|message| unsafe { core::ptr::read(message) })
    }
}

impl ExactSizeIterator for Drain<'_> {}

impl FusedIterator for Drain<'_> {}

impl Drop for Drain<'_> {
    #[inline]
    fn drop(&mut self) {
        let rest = core::mem::take(&mut self.left).into_slice();
        if !rest.is_empty() {
            // SAFETY: they are this iterator's, which ends here.
            unsafe { drop_rest(rest) };
        }
    }
}

impl Extend<Message> for Run {
    fn extend<I: IntoIterator<Item = Message>>(&mut self, messages: I) {
        self.messages.extend(messages);
    }
}

impl FromIterator<Message> for Run {
    fn from_iter<I: IntoIterator<Item = Message>>(messages: I) -> Run {
        Run {
            messages: Vec::from_iter(messages),
        }
    }
}

impl IntoIterator for Run {
    type Item = Message;
    type IntoIter = std::vec::IntoIter<Message>;

    fn into_iter(self) -> Self::IntoIter {
        self.messages.into_iter()
    }
}

impl<'a> IntoIterator for &'a Run {
    type Item = &'a Message;
    type IntoIter = std::slice::Iter<'a, Message>;

    fn into_iter(self) -> Self::IntoIter {
        self.messages.iter()
    }
}

impl<'a> IntoIterator for &'a mut Run {
    type Item = &'a mut Message;
    type IntoIter = std::slice::IterMut<'a, Message>;

    fn into_iter(self) -> Self::IntoIter {
        self.messages.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Arena, Pool};

    #[test]
    fn a_drain_gives_every_message_once_from_either_end_and_drops_the_rest() {
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let mut pool = pool.bind();
        let mut run: Run = (0..6u8)
            .map(|number| pool.copy_from_slice(0, &[number]).expect("room"))
            .collect();
        let kept = run.as_slice()[3].share(&mut pool).expect("room");
        let capacity = run.capacity();
        let mut drain = run.drain();
        assert_eq!(drain.len(), 6);
        let (first, last) = (drain.next().expect("six"), drain.next_back().expect("six"));
        assert_eq!((first.bytes(), last.bytes()), (&[0][..], &[5][..]));
        assert_eq!(drain.as_slice().len(), 4);
        drop(drain);
        assert!(kept.is_unique(), "dropped with the drain");
        assert_eq!((run.len(), run.capacity()), (0, capacity));
        run.push(first);
        assert_eq!(run.drain().count(), 1);
    }

    /// A message is taken in by the one before it if it holds the next number; whatever happens, each ends in one place.
    #[test]
    fn a_message_is_taken_in_or_stays_in_order() {
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let mut pool = pool.bind();
        for (numbers, joined) in [
            (&[][..], &[][..]),
            (&[1], &[&[1][..]]),
            (&[1, 2, 3], &[&[1, 2, 3]]),
            (&[1, 3, 4, 5, 7, 2, 3], &[&[1], &[3, 4, 5], &[7], &[2, 3]]),
            (&[3, 2, 1], &[&[3], &[2], &[1]]),
        ] {
            let mut run: Run = numbers
                .iter()
                .map(|number| pool.copy_from_slice(0, &[*number]).expect("room"))
                .collect();
            let mut last = numbers.first().copied();
            run.join(|before, message| {
                let number = message.bytes()[0];
                if last.replace(number) == Some(number - 1) {
                    before.push_continuation(message);
                    return None;
                }
                Some(message)
            });
            let found: Vec<Vec<u8>> = run
                .iter()
                .map(|one| one.blocks().flatten().copied().collect())
                .collect();
            assert_eq!(found, joined);
        }
    }
}
