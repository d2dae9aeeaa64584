//! The receiver's end that copies: the papers' single copy.

use super::side::MemoryReceiver;
use crate::{Counters, RECEIVE_HEADROOM, Receiver};
use braidnet_message::{Message, Pool, Run};
use braidnet_sync::parker::Unparker;
use std::os::fd::BorrowedFd;

/// Copies every packet into a buffer of the receiver's pool.
pub struct CopyingReceiver {
    inner: MemoryReceiver,
    /// Taken from the ring and not copied yet, because the pool had no buffer.
    waiting: Option<Message>,
}

impl CopyingReceiver {
    pub fn new(inner: MemoryReceiver) -> Self {
        CopyingReceiver {
            inner,
            waiting: None,
        }
    }
}

/// One block with all bytes of `packet`; `None` if the pool has no buffer.
fn copy(packet: &Message, pool: &mut Pool) -> Option<Message> {
    let length = packet.total_len();
    let mut copy = pool.allocate(RECEIVE_HEADROOM, length)?;
    packet.copy_to_slice(copy.append(length)?);
    Some(copy)
}

impl Receiver for CopyingReceiver {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let mut taken = 0;
        while taken < max {
            let Some(packet) = self.waiting.take().or_else(|| self.inner.pop()) else {
                break;
            };
            let Some(copy) = copy(&packet, pool) else {
                self.waiting = Some(packet);
                break;
            };
            self.inner.count(&copy);
            into.push(copy);
            taken += 1;
        }
        taken
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn has_waiting(&self) -> bool {
        self.waiting.is_some() || self.inner.has_waiting()
    }

    fn wake_with(&mut self, unparker: Unparker) -> bool {
        self.inner.wake_with(unparker)
    }

    fn is_gone(&self) -> bool {
        self.waiting.is_none() && self.inner.is_gone()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}
