//! What a descriptor knows of its socket that is the C interface's and not the socket's.

use crate::address::Family;
use braidnet::socket::Socket;
use std::collections::VecDeque;

/// A socket as a descriptor wears it.
pub(crate) struct Worn {
    pub(crate) socket: Socket,
    pub(crate) family: Family,
    pub(crate) is_nonblocking: bool,
    /// Whether recvmsg(2) says how much is left to read (`TCP_INQ`).
    pub(crate) tells_unread: bool,
    /// Whether `MSG_ZEROCOPY` means anything (`SO_ZEROCOPY`).
    pub(crate) may_lend: bool,
    pub(crate) copied: Copied,
}

impl Worn {
    pub(crate) fn new(socket: Socket, family: Family) -> Worn {
        Worn {
            socket,
            family,
            is_nonblocking: false,
            tells_unread: false,
            may_lend: false,
            copied: Copied::default(),
        }
    }

    /// One that a listener has accepted is set like it.
    pub(crate) fn accepted(&self, socket: Socket) -> Worn {
        Worn {
            tells_unread: self.tells_unread,
            may_lend: self.may_lend,
            ..Worn::new(socket, self.family)
        }
    }
}

/// Calls with `MSG_ZEROCOPY`, by their numbers, whose bytes are the caller's again. Here they are at once: bytes are copied, and the caller
/// is told so, as Linux tells it where it could not but copy.
#[derive(Default)]
pub(crate) struct Copied {
    next: u32,
    /// Ranges that nobody has asked for: the first and the last.
    untold: VecDeque<(u32, u32)>,
}

impl Copied {
    /// One more.
    pub(crate) fn push(&mut self) {
        let number = self.next;
        self.next = number.wrapping_add(1);
        match self.untold.back_mut() {
            Some((_, last)) => *last = number,
            None => self.untold.push_back((number, number)),
        }
    }

    pub(crate) fn take(&mut self) -> Option<(u32, u32)> {
        self.untold.pop_front()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.untold.is_empty()
    }

    /// How many there have been.
    pub(crate) fn count(&self) -> u32 {
        self.next
    }
}
