//! Calls that wait for descriptors, on a second thread: they return when there is something, by the virtual clock, or when their time is over.

use crate::peer::{ACK, Shared, Table, blocking};
use core::ffi::c_int;
use std::sync::Arc;

const MS: i64 = 1000;

impl Table {
    fn sleep(&self, micros: i64) {
        (self.interface.usleep)(self.interface.userdata, micros as libc::useconds_t);
    }

    /// poll(2) for something to read: the answer, and when it came.
    fn poll_in(&self, fd: c_int, timeout_ms: c_int) -> (c_int, i64) {
        let mut polled = libc::pollfd {
            fd,
            events: libc::POLLIN,
            revents: 0,
        };
        let poll = self.interface.poll;
        let found = poll(self.interface.userdata, &raw mut polled, 1, timeout_ms);
        (found, self.micros())
    }

    /// The same by epoll_wait(2).
    fn epoll_in(&self, fd: c_int, timeout_ms: c_int) -> (c_int, i64) {
        let epoll = self.watch(fd, libc::EPOLLIN);
        let mut found = libc::epoll_event { events: 0, u64: 0 };
        let wait = self.interface.epoll_wait;
        let found = wait(
            self.interface.userdata,
            epoll,
            &raw mut found,
            1,
            timeout_ms,
        );
        (found, self.micros())
    }
}

/// What waits on a second thread while the first sleeps 30 ms, has data come or not, and sleeps another 30: the answer, and after how many
/// milliseconds it came.
fn waits(
    wait: impl FnOnce(&Table) -> (c_int, i64) + Send + 'static,
    table: &Arc<Shared>,
    comes: bool,
) -> (c_int, i64) {
    let begun = table.0.micros();
    let (found, at) = blocking(table, wait, |table| {
        table.sleep(30 * MS);
        if comes {
            table.arrives(ACK, 1, 1, 100);
        }
        table.sleep(30 * MS);
    });
    (found, (at - begun) / MS)
}

#[test]
fn who_waits_returns_when_something_comes_and_not_later() {
    for by_epoll in [false, true] {
        for (timeout_ms, comes, expected) in [
            (-1, true, (1, 30)),
            (50, true, (1, 30)),
            (10, true, (0, 10)),
            (40, false, (0, 40)),
        ] {
            let mut table = Table::load();
            let listener = table.listener(libc::AF_INET);
            let fd = table.called(listener);
            let table = Arc::new(Shared(table));
            let wait = move |table: &Table| match by_epoll {
                false => table.poll_in(fd, timeout_ms),
                true => table.epoll_in(fd, timeout_ms),
            };
            let found = waits(wait, &table, comes);
            assert_eq!(found, expected, "{by_epoll} {timeout_ms} {comes}");
        }
    }
}
