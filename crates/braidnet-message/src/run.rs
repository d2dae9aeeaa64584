//! Messages that belong together.

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

    /// Takes all messages, in order. What the iterator still holds when it is dropped is dropped with it.
    #[inline]
    pub fn drain(&mut self) -> std::vec::Drain<'_, Message> {
        self.messages.drain(..)
    }

    /// Drops all messages.
    pub fn clear(&mut self) {
        self.messages.clear();
    }

    /// Drops the messages for which `keep` says no.
    pub fn retain_mut(&mut self, keep: impl FnMut(&mut Message) -> bool) {
        self.messages.retain_mut(keep);
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
