//! Who blocks, for what and until when.

use crate::state::{Kind, State};
use braidnet::Instant;
use braidnet::socket::{Readiness, Socket};
use std::thread;

/// What somebody who blocks waits for.
#[derive(Clone)]
pub(crate) enum Awaited {
    /// A socket to be ready for this.
    Ready(Socket, Readiness),
    /// One of these descriptors to be ready for something, as poll(2) says it; no longer than until then.
    Any(Vec<(i32, i16)>, Instant),
    /// An epoll descriptor to have something to say; no longer than until then.
    News(i32, Instant),
}

impl Awaited {
    /// When it is over in any case.
    pub(crate) fn timeout(&self) -> Option<Instant> {
        match self {
            Awaited::Ready(..) => None,
            Awaited::Any(_, until) | Awaited::News(_, until) => Some(*until),
        }
    }
}

impl State {
    /// Whether there is no reason to wait any more.
    pub(crate) fn has_come(&mut self, awaited: &Awaited) -> bool {
        let is_over = awaited.timeout().is_some_and(|until| until <= self.now);
        is_over
            || match awaited {
                Awaited::Ready(socket, wanted) => {
                    let ready = self.sockets.readiness(*socket);
                    ready.map_or(true, |ready| ready.intersects(*wanted | Readiness::ALWAYS))
                }
                Awaited::Any(wanted, _) => self.found(wanted).iter().any(|found| *found != 0),
                Awaited::News(epoll, _) => match self.handle(*epoll) {
                    Ok(Kind::Epoll(interests)) => interests.has_news(),
                    _ => true,
                },
            }
    }

    /// What of `wanted` descriptors are ready for, as poll(2) says it.
    pub(crate) fn found(&mut self, wanted: &[(i32, i16)]) -> Vec<i16> {
        let always = libc::POLLERR | libc::POLLHUP | libc::POLLNVAL;
        let found = wanted.iter().map(|(fd, events)| match *fd {
            ..0 => 0,
            fd => self.polled(fd) & (events | always),
        });
        found.collect()
    }

    /// Whether somebody who blocks has no reason to any more.
    pub(crate) fn is_somebody_ready(&mut self) -> bool {
        let blocked = std::mem::take(&mut self.blocked);
        let is_any = blocked.values().any(|awaited| self.has_come(awaited));
        self.blocked = blocked;
        is_any
    }

    /// Somebody blocks.
    pub(crate) fn block(&mut self, awaited: Awaited) -> u64 {
        self.next_blocked += 1;
        self.blocked.insert(self.next_blocked, awaited);
        self.next_blocked
    }

    /// It is over.
    pub(crate) fn unblock(&mut self, ticket: u64) {
        self.blocked.remove(&ticket);
        self.returned = Some(thread::current().id());
    }

    /// Somebody looks at the clock.
    pub(crate) fn note_look(&mut self) {
        let who = thread::current().id();
        self.returned = self.returned.filter(|returned| *returned != who);
    }
}
