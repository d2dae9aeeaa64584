//! What both directions of a queue of an open TUN or TAP device know of it.

use super::attachment::Attachment;
use crate::passage::Passage;
use crate::vnet;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// A queue of an open device, and how packets pass through it.
#[derive(Clone)]
pub struct Link {
    pub attachment: Arc<Attachment>,
    /// Which of its queues.
    pub queue: usize,
    /// Whether a [`VnetHeader`](vnet::VnetHeader) stands in front of each.
    pub has_vnet: bool,
    pub passage: Passage,
}

impl Link {
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.attachment.queues[self.queue].as_fd()
    }

    /// Bytes in front of each packet that are not the packet's.
    pub fn vnet_len(&self) -> usize {
        if self.has_vnet { vnet::LEN } else { 0 }
    }
}
