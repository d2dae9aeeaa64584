//! What is said beside the bytes, and what Linux has for scripts: control messages, edges, promises of more.

use crate::peer::{ACK, FIN_ACK, Table, errno};
use core::ffi::c_int;
use core::mem;

const SO_ZEROCOPY: c_int = 60;
const TCP_INQ: c_int = 36;

/// An answer of recvmsg(2): how much, the flags, and the control message's level, type and data.
type Told = (isize, c_int, Option<(c_int, c_int, Vec<u8>)>);

impl Table {
    fn receive_message(&self, fd: c_int, len: usize, flags: c_int) -> Told {
        let (mut to, mut control) = (vec![0_u8; len], [0_u8; 128]);
        let mut piece = libc::iovec {
            iov_base: to.as_mut_ptr().cast(),
            iov_len: len,
        };
        // SAFETY: all zeroes are a message.
        let mut message: libc::msghdr = unsafe { mem::zeroed() };
        message.msg_iov = &raw mut piece;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = control.len();
        let ud = self.interface.userdata;
        let received = (self.interface.recvmsg)(ud, fd, &raw mut message, flags);
        let told = control[..message.msg_controllen].split_at_checked(16);
        let told = told.filter(|_| received >= 0).map(|(header, data)| {
            let number = |at: usize| c_int::from_ne_bytes(header[at..at + 4].try_into().unwrap());
            (number(8), number(12), data.to_vec())
        });
        (received, message.msg_flags, told)
    }

    fn send(&self, fd: c_int, len: usize, flags: c_int) -> isize {
        let from = vec![0_u8; len];
        let at = from.as_ptr().cast();
        (self.interface.send)(self.interface.userdata, fd, at, len, flags)
    }

    /// What an epoll descriptor has to say of one that it watches.
    fn told(&self, epoll: c_int) -> Option<u32> {
        let mut found = libc::epoll_event { events: 0, u64: 0 };
        let wait = self.interface.epoll_wait;
        match wait(self.interface.userdata, epoll, &raw mut found, 1, 0) {
            0 => None,
            _ => Some(found.events),
        }
    }

    pub fn watch(&self, fd: c_int, events: c_int) -> c_int {
        let ud = self.interface.userdata;
        let epoll = (self.interface.epoll_create)(ud, 1);
        let mut event = libc::epoll_event {
            events: events as u32,
            u64: 1,
        };
        let add = libc::EPOLL_CTL_ADD;
        let added = (self.interface.epoll_ctl)(ud, epoll, add, fd, &raw mut event);
        assert_eq!(added, 0);
        epoll
    }
}

#[test]
fn what_is_left_to_read_is_told_beside_what_is_read() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    let fd = table.called(listener);
    table.arrives(ACK, 1, 1, 300);
    assert_eq!(table.receive_message(fd, 100, 0), (100, 0, None));
    assert_eq!(table.set_sockopt(fd, libc::SOL_TCP, TCP_INQ, 1), 0);
    let left = |bytes: c_int| Some((libc::SOL_TCP, TCP_INQ, bytes.to_ne_bytes().to_vec()));
    let (received, _, told) = table.receive_message(fd, 100, 0);
    let told = told.map(|(level, kind, data)| (level, kind, data[..4].to_vec()));
    assert_eq!((received, told), (100, left(100)));
    // The end counts as one where nothing else is left.
    table.arrives(FIN_ACK, 301, 1, 0);
    let (received, _, told) = table.receive_message(fd, 100, 0);
    let told = told.map(|(level, kind, data)| (level, kind, data[..4].to_vec()));
    assert_eq!((received, told), (100, left(1)));
    table.free();
}

#[test]
fn who_lends_bytes_hears_that_they_were_copied() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    let fd = table.called(listener);
    let nothing = |table: &Table| {
        let (received, ..) = table.receive_message(fd, 0, libc::MSG_ERRQUEUE);
        assert_eq!((received, errno()), (-1, libc::EAGAIN));
    };
    // Without the option the flag says nothing.
    assert_eq!(table.send(fd, 10, libc::MSG_ZEROCOPY), 10);
    nothing(&table);
    assert_eq!(table.set_sockopt(fd, libc::SOL_SOCKET, SO_ZEROCOPY, 1), 0);
    assert_eq!(table.sockopt(fd, libc::SOL_SOCKET, SO_ZEROCOPY), Ok(1));
    for _ in 0..2 {
        assert_eq!(table.send(fd, 10, libc::MSG_ZEROCOPY), 10);
    }
    assert_eq!(table.send(fd, 0, libc::MSG_ZEROCOPY), 0);
    let (received, flags, told) = table.receive_message(fd, 0, libc::MSG_ERRQUEUE);
    let (level, kind, data) = told.expect("a message");
    assert_eq!((received, flags), (0, libc::MSG_ERRQUEUE));
    assert_eq!((level, kind), (libc::SOL_IP, libc::IP_RECVERR));
    // No error; of zero copy; copied all the same; the first call and the second.
    assert_eq!(data[..16], [0, 0, 0, 0, 5, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
    nothing(&table);
    table.free();
}

#[test]
fn edges_are_told_once_and_what_is_asked_for_once_is_told_once() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    let fd = table.called(listener);
    let readable = Some(libc::EPOLLIN as u32);
    let edge = table.watch(fd, libc::EPOLLIN | libc::EPOLLET);
    let once = table.watch(fd, libc::EPOLLIN | libc::EPOLLONESHOT);
    let level = table.watch(fd, libc::EPOLLIN | libc::EPOLLEXCLUSIVE);
    let told = |table: &Table| [edge, once, level].map(|epoll| table.told(epoll));
    assert_eq!(told(&table), [None; 3]);
    table.arrives(ACK, 1, 1, 100);
    assert_eq!(told(&table), [readable; 3]);
    assert_eq!(told(&table), [None, None, readable]);
    table.arrives(ACK, 101, 1, 100);
    assert_eq!(told(&table), [readable, None, readable]);
    assert_eq!(table.read(fd), 200);
    assert_eq!(told(&table), [None; 3]);
    table.free();
}

#[test]
fn what_more_is_promised_of_waits_for_it() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    let fd = table.called(listener);
    assert_eq!(table.send(fd, 40, libc::MSG_MORE), 40);
    assert_eq!(table.send(fd, 60, 0), 60);
    table.expect(ACK, 1, 1, 100);
    table.arrives(ACK, 1, 101, 0);
    // Not for long.
    let at = table.micros();
    assert_eq!(table.send(fd, 40, libc::MSG_MORE), 40);
    let left = table.expect(ACK, 101, 1, 40);
    assert!((199_000..=201_000).contains(&(left - at)));
    table.arrives(ACK, 1, 141, 0);
    // Nor when nothing may wait any more.
    let at = table.micros();
    assert_eq!(table.send(fd, 40, libc::MSG_MORE), 40);
    let set = table.set_sockopt(fd, libc::SOL_TCP, libc::TCP_NODELAY, 1);
    assert_eq!(set, 0);
    let left = table.expect(ACK, 141, 1, 40);
    assert!(left - at < 1_000);
    table.free();
}

#[test]
fn segments_longer_than_any_mtu_come_as_they_are() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    let fd = table.called(listener);
    table.arrives(ACK, 1, 1, 2000);
    table.expect(ACK, 1, 2001, 0);
    assert_eq!(table.read(fd), 2000);
    table.free();
}

#[test]
fn memory_that_is_not_there_is_refused() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    let fd = table.called(listener);
    table.arrives(ACK, 1, 1, 20);
    let ud = table.interface.userdata;
    let (null, none) = (core::ptr::null_mut(), core::ptr::null());
    let ends = [
        (table.interface.write)(ud, fd, none, 9),
        (table.interface.send)(ud, fd, none, 9, 0),
        (table.interface.read)(ud, fd, null, 9),
        (table.interface.recv)(ud, fd, null, 9, 0),
    ];
    assert_eq!((ends, errno()), ([-1; 4], libc::EFAULT));
    assert_eq!(table.read(fd), 20);
    table.free();
}
