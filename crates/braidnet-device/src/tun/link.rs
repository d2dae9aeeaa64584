//! What both directions of a queue of an open TUN or TAP device know of it.

use super::attachment::Attachment;
use super::vnet;
use crate::Offloads;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

/// A queue of an open device, and how packets pass through it.
#[derive(Clone)]
pub struct Link {
    pub attachment: Arc<Attachment>,
    /// Which of its queues.
    pub queue: usize,
    /// The longest packet of the wire, link header included.
    pub packet_max: usize,
    /// Bytes of link header in front of each.
    pub header_len: usize,
    /// Whether a [`VnetHeader`](vnet::VnetHeader) stands in front of each.
    pub has_vnet: bool,
    pub offloads: Offloads,
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

/// Calls again what a signal has interrupted.
pub fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> rustix::io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            other => return other,
        }
    }
}
