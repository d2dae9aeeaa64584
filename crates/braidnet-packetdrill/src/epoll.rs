//! What an epoll descriptor watches, and what it has to say.

use crate::errno::Errno;
use std::collections::BTreeMap;

/// Flags that say how to tell, not what.
const ONCE: u32 = libc::EPOLLONESHOT as u32;
const EDGE: u32 = libc::EPOLLET as u32;
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
/// What is told whether it was asked for or not.
const ALWAYS: u32 = (libc::EPOLLERR | libc::EPOLLHUP) as u32;

/// What was last seen of a descriptor.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Seen {
    /// What it was ready for, as poll(2) says it.
    pub(crate) ready: i16,
    /// Bytes to be read.
    pub(crate) unread: usize,
    /// Calls whose bytes are the caller's again.
    pub(crate) copied: u32,
}

impl Seen {
    /// Whether something has come since.
    fn is_less_than(self, now: Seen) -> bool {
        now.ready & !self.ready != 0 || now.unread > self.unread || now.copied != self.copied
    }
}

struct Interest {
    events: u32,
    data: u64,
    seen: Seen,
    /// Something has come that was not told of yet; only for those who are told of edges.
    is_due: bool,
}

impl Interest {
    /// What there is to say of it, if anything.
    fn news(&self) -> u32 {
        // The numbers are those of poll(2).
        let ready = u32::from(self.seen.ready as u16) & (self.events | ALWAYS);
        let is_off = self.events & !(ONCE | EDGE | EXCLUSIVE) == 0 && self.events & ONCE != 0;
        let is_told = self.events & EDGE != 0 && !self.is_due;
        if is_off || is_told { 0 } else { ready }
    }
}

/// Everything that one epoll descriptor watches, by descriptor.
#[derive(Default)]
pub(crate) struct Interests(BTreeMap<i32, Interest>);

impl Interests {
    /// epoll_ctl(2). With one thread that waits, `EPOLLEXCLUSIVE` makes no difference.
    pub(crate) fn control(
        &mut self,
        operation: i32,
        fd: i32,
        event: Option<(u32, u64)>,
    ) -> Result<(), Errno> {
        let is_watched = self.0.contains_key(&fd);
        match (operation, event) {
            (libc::EPOLL_CTL_ADD, _) if is_watched => return Err(Errno(libc::EEXIST)),
            (libc::EPOLL_CTL_MOD | libc::EPOLL_CTL_DEL, _) if !is_watched => {
                return Err(Errno(libc::ENOENT));
            }
            (libc::EPOLL_CTL_DEL, _) => {
                self.0.remove(&fd);
            }
            (libc::EPOLL_CTL_MOD, Some((events, _))) if events & EXCLUSIVE != 0 => {
                return Err(Errno(libc::EINVAL));
            }
            (libc::EPOLL_CTL_ADD | libc::EPOLL_CTL_MOD, Some((events, data))) => {
                let interest = Interest {
                    events,
                    data,
                    seen: Seen::default(),
                    is_due: true,
                };
                self.0.insert(fd, interest);
            }
            _ => return Err(Errno(libc::EINVAL)),
        }
        Ok(())
    }

    pub(crate) fn watched(&self) -> impl Iterator<Item = i32> {
        self.0.keys().copied()
    }

    /// A descriptor looks like this now.
    pub(crate) fn notice(&mut self, fd: i32, now: Seen) {
        if let Some(interest) = self.0.get_mut(&fd) {
            interest.is_due |= interest.seen.is_less_than(now);
            interest.seen = now;
        }
    }

    /// Whether there is anything to say.
    pub(crate) fn has_news(&self) -> bool {
        self.0.values().any(|interest| interest.news() != 0)
    }

    /// What there is to say, of at most so many.
    pub(crate) fn tell(&mut self, most: usize) -> Vec<(u32, u64)> {
        let mut told = Vec::new();
        for interest in self.0.values_mut() {
            if told.len() >= most {
                break;
            }
            let ready = interest.news();
            if ready == 0 {
                continue;
            }
            interest.is_due = false;
            if interest.events & ONCE != 0 {
                interest.events = ONCE;
            }
            told.push((ready, interest.data));
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IN: u32 = libc::EPOLLIN as u32;

    fn watching(events: u32) -> Interests {
        let mut interests = Interests::default();
        interests
            .control(libc::EPOLL_CTL_ADD, 7, Some((events, 9)))
            .unwrap();
        interests
    }

    fn with(unread: usize) -> Seen {
        Seen {
            ready: if unread > 0 { libc::POLLIN } else { 0 },
            unread,
            copied: 0,
        }
    }

    #[test]
    fn a_level_is_told_as_long_as_it_lasts() {
        let mut interests = watching(IN);
        for (unread, told) in [(0, 0), (5, 1), (5, 1), (0, 0)] {
            interests.notice(7, with(unread));
            assert_eq!(interests.tell(9).len(), told);
        }
    }

    #[test]
    fn an_edge_is_told_once() {
        let mut interests = watching(IN | EDGE);
        for (unread, told) in [(5, 1), (5, 0), (3, 0), (8, 1), (0, 0), (1, 1)] {
            interests.notice(7, with(unread));
            assert_eq!(interests.tell(9).len(), told, "{unread}");
        }
    }

    #[test]
    fn once_is_once_until_it_is_asked_for_again() {
        let mut interests = watching(IN | ONCE);
        interests.notice(7, with(5));
        assert_eq!(interests.tell(9), [(IN, 9)]);
        interests.notice(7, with(9));
        assert_eq!(interests.tell(9), []);
        interests
            .control(libc::EPOLL_CTL_MOD, 7, Some((IN | ONCE, 9)))
            .unwrap();
        interests.notice(7, with(9));
        assert_eq!(interests.tell(9), [(IN, 9)]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let mut interests = watching(IN);
        for (operation, fd, events, expected) in [
            (libc::EPOLL_CTL_ADD, 7, IN, libc::EEXIST),
            (libc::EPOLL_CTL_MOD, 8, IN, libc::ENOENT),
            (libc::EPOLL_CTL_DEL, 8, IN, libc::ENOENT),
            (libc::EPOLL_CTL_MOD, 7, IN | EXCLUSIVE, libc::EINVAL),
            (99, 7, IN, libc::EINVAL),
        ] {
            let refused = interests.control(operation, fd, Some((events, 0)));
            assert_eq!(refused, Err(Errno(expected)));
        }
    }
}
