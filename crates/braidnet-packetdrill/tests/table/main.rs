//! Loads the shared object and drives its table as packetdrill does.

mod fast_open;
mod messages;
mod peer;
mod waiting;

use braidnet::wire::tcp::TcpFlags;
use braidnet_packetdrill::Interface;
use peer::{
    ACK, FIN_ACK, LOCAL, PEER, REMOTE, SYN, SYN_ACK, Shared, Table, blocking, copy, errno,
    sockaddr, sockaddr6,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tests that compare numbers of descriptors, which the whole process shares, do so one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

#[test]
fn the_table_is_as_long_as_packetdrills() {
    assert_eq!(size_of::<Interface>(), 33 * size_of::<usize>());
}

#[test]
fn a_caller_is_heard_and_answered() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    let fd = table.called(listener);
    assert!(fd >= 0);
    table.arrives(ACK, 1, 1, 300);
    table.expect(ACK, 1, 301, 0);
    assert_eq!(table.read(fd), 300);
    table.nonblocking(fd);
    assert_eq!((table.read(fd), errno()), (-1, libc::EAGAIN));
    assert_eq!(table.write(fd, 500), 500);
    let at = table.expect(ACK, 1, 301, 500);
    let again = table.expect(ACK, 1, 301, 500);
    // A timeout, in virtual time; timers are as coarse as a millisecond.
    assert!((200_000..202_000).contains(&(again - at)));
    table.arrives(ACK, 301, 501, 0);
    assert_eq!((table.interface.close)(table.interface.userdata, fd), 0);
    table.expect(FIN_ACK, 501, 301, 0);
    table.arrives(FIN_ACK, 301, 502, 0);
    table.expect(ACK, 502, 302, 0);
    assert!(table.leaves().is_none(), "nothing in five minutes");
    assert_eq!((table.read(fd), errno()), (-1, libc::EBADF));
    table.free();
}

#[test]
fn the_peers_address_is_told_as_the_family_has_it() {
    let mapped = |address: [u8; 4]| {
        let mut bytes = [0; 16];
        bytes[10..12].fill(0xff);
        bytes[12..].copy_from_slice(&address);
        bytes
    };
    let rows = [
        (libc::AF_INET, sockaddr(REMOTE, PEER)),
        (libc::AF_INET6, sockaddr6(mapped(REMOTE), PEER)),
    ];
    for (domain, expected) in rows {
        let mut table = Table::load();
        let listener = table.listener(domain);
        table.arrives(SYN, 0, 0, 0);
        table.isn = table.leaves().expect("a SYN-ACK").1.seq.value();
        table.arrives(ACK, 1, 1, 0);
        let (fd, from) = table.accept(listener);
        assert!(fd >= 0);
        assert_eq!(from, expected);
        table.free();
    }
}

#[test]
fn blocking_calls_sleep_until_they_have_something() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    table.arrives(SYN, 0, 0, 0);
    table.isn = table.leaves().expect("a SYN-ACK").1.seq.value();
    let table = Arc::new(Shared(table));
    let fd = blocking(
        &table,
        move |table| table.accept(listener).0,
        |table| table.arrives(ACK, 1, 1, 0),
    );
    assert!(fd >= 0);
    let read = blocking(
        &table,
        move |table| table.read(fd),
        |table| table.arrives(ACK, 1, 1, 100),
    );
    assert_eq!(read, 100);
    let end = blocking(
        &table,
        move |table| table.read(fd),
        |table| table.arrives(FIN_ACK, 101, 1, 0),
    );
    assert_eq!(end, 0);
    let closed = blocking(
        &table,
        move |table| (table.accept(listener).0, errno()),
        |table| {
            let close = table.interface.close;
            assert_eq!(close(table.interface.userdata, listener), 0);
        },
    );
    assert_eq!(closed, (-1, libc::EBADF));
}

#[test]
fn a_blocking_opening_ends_with_the_handshake_or_a_refusal() {
    for (flags, expected) in [
        (SYN_ACK, (0, 0)),
        (TcpFlags::RST.union(TcpFlags::ACK), (-1, libc::ECONNREFUSED)),
    ] {
        let mut table = Table::load();
        let fd = table.socket(libc::AF_INET);
        assert_eq!(table.bind(fd, &sockaddr(LOCAL, 40_000)), 0);
        table.local_port = 40_000;
        let table = Arc::new(Shared(table));
        let answer = blocking(
            &table,
            move |table| {
                let answer = table.connect(fd);
                (answer, if answer < 0 { errno() } else { 0 })
            },
            |table| {
                let (_, syn, _) = table.leaves().expect("a SYN");
                assert_eq!(syn.flags, SYN);
                let answer = Table {
                    isn: syn.seq.value(),
                    interface: copy(&table.interface),
                    ..*table
                };
                answer.arrives(flags, 0, 1, 0);
            },
        );
        assert_eq!(answer, expected);
    }
}

#[test]
fn an_opening_that_does_not_block_is_asked_about() {
    let mut table = Table::load();
    let fd = table.socket(libc::AF_INET);
    assert_eq!(table.bind(fd, &sockaddr(LOCAL, 40_000)), 0);
    table.local_port = 40_000;
    table.nonblocking(fd);
    assert_eq!((table.connect(fd), errno()), (-1, libc::EINPROGRESS));
    let (first, syn, _) = table.leaves().expect("a SYN");
    let (second, ..) = table.leaves().expect("it again");
    assert!((1_000_000..1_002_000).contains(&(second - first)));
    assert_eq!((table.connect(fd), errno()), (-1, libc::EALREADY));
    table.isn = syn.seq.value();
    table.arrives(SYN_ACK, 0, 1, 0);
    table.expect(ACK, 1, 1, 0);
    assert_eq!(table.sockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR), Ok(0));
    assert_eq!(table.write(fd, 10), 10);
    table.expect(ACK, 1, 1, 10);
    table.free();
}

#[test]
fn time_goes_on_when_it_is_asked_for_and_when_somebody_sleeps() {
    let table = Table::load();
    let first = table.micros();
    assert!(first > 0);
    assert!(table.micros() > first, "who spins on it gets on");
    let before = table.micros();
    (table.interface.usleep)(table.interface.userdata, 5_000_000);
    let slept = table.micros() - before;
    assert!((5_000_000..5_000_100).contains(&slept), "{slept}");
    table.free();
}

#[test]
fn what_happens_while_somebody_sleeps_happens_in_time() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    let fd = table.called(listener);
    assert_eq!(table.write(fd, 300), 300);
    let at = table.expect(ACK, 1, 1, 300);
    (table.interface.usleep)(table.interface.userdata, 300_000);
    let again = table.expect(ACK, 1, 1, 300);
    assert!((200_000..202_000).contains(&(again - at)));
    table.free();
}

#[test]
fn options_are_set_got_and_refused_by_number() {
    let table = Table::load();
    let fd = table.socket(libc::AF_INET);
    let rows = [
        (libc::SOL_SOCKET, libc::SO_REUSEADDR, 1),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
        (libc::IPPROTO_TCP, libc::TCP_CORK, 1),
        (
            libc::IPPROTO_IP,
            libc::IP_MTU_DISCOVER,
            libc::IP_PMTUDISC_PROBE,
        ),
        (libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1),
        (libc::IPPROTO_IP, 51, 0xdead_c0de_u32 as i32),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG, 700),
        (libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, 16_384),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 60),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 5),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 4_000),
    ];
    for (level, name, value) in rows {
        assert_ne!(table.sockopt(fd, level, name), Ok(value), "{level} {name}");
        assert_eq!(
            table.set_sockopt(fd, level, name, value),
            0,
            "{level} {name}"
        );
        assert_eq!(table.sockopt(fd, level, name), Ok(value), "{level} {name}");
    }
    // As Linux has it, which takes as much again for its own records.
    for name in [libc::SO_RCVBUF, libc::SO_SNDBUF] {
        assert_eq!(table.set_sockopt(fd, libc::SOL_SOCKET, name, 9_000), 0);
        assert_eq!(table.sockopt(fd, libc::SOL_SOCKET, name), Ok(18_000));
    }
    let unknown = (libc::IPPROTO_TCP, libc::TCP_INFO);
    assert_eq!(
        table.sockopt(fd, unknown.0, unknown.1),
        Err(libc::ENOPROTOOPT)
    );
    let set = table.set_sockopt(fd, unknown.0, unknown.1, 1);
    assert_eq!((set, errno()), (-1, libc::ENOPROTOOPT));
    let set = table.set_sockopt(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, 5);
    assert_eq!((set, errno()), (-1, libc::EINVAL));
    table.free();
}

#[test]
fn what_is_waiting_can_be_counted_peeked_at_and_polled_for() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    let fd = table.called(listener);
    let ud = table.interface.userdata;
    let mut polled = libc::pollfd {
        fd,
        events: libc::POLLIN | libc::POLLOUT,
        revents: 0,
    };
    let ready = (table.interface.poll)(ud, &raw mut polled, 1, 0);
    assert_eq!((ready, polled.revents), (1, libc::POLLOUT));
    table.arrives(ACK, 1, 1, 120);
    let ready = (table.interface.poll)(ud, &raw mut polled, 1, 0);
    assert_eq!((ready, polled.revents), (1, libc::POLLIN | libc::POLLOUT));
    let mut waiting = 0;
    let asked = (table.interface.ioctl)(ud, fd, libc::FIONREAD as _, &raw mut waiting);
    assert_eq!((asked, waiting), (0, 120));
    let mut to = [0_u8; 200];
    let at = to.as_mut_ptr().cast();
    let peeked = (table.interface.recv)(ud, fd, at, 200, libc::MSG_PEEK);
    assert_eq!(peeked, 120);
    let epoll = (table.interface.epoll_create)(ud, 1);
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 77,
    };
    let added = (table.interface.epoll_ctl)(ud, epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event);
    assert_eq!(added, 0);
    let mut found = libc::epoll_event { events: 0, u64: 0 };
    let ready = (table.interface.epoll_wait)(ud, epoll, &raw mut found, 1, 0);
    let (events, data) = (found.events, found.u64);
    assert_eq!((ready, events, data), (1, libc::EPOLLIN as u32, 77));
    assert_eq!(table.read(fd), 120);
    assert_eq!(
        (table.interface.epoll_wait)(ud, epoll, &raw mut found, 1, 0),
        0
    );
    table.free();
}

#[test]
fn pieces_of_memory_are_gathered_and_filled() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    let fd = table.called(listener);
    let ud = table.interface.userdata;
    let (mut one, mut two) = ([1_u8; 30], [2_u8; 70]);
    let pieces = [
        libc::iovec {
            iov_base: one.as_mut_ptr().cast(),
            iov_len: 30,
        },
        libc::iovec {
            iov_base: two.as_mut_ptr().cast(),
            iov_len: 70,
        },
    ];
    assert_eq!((table.interface.writev)(ud, fd, pieces.as_ptr(), 2), 100);
    table.expect(ACK, 1, 1, 100);
    table.arrives(ACK, 1, 101, 80);
    table.expect(ACK, 101, 81, 0);
    assert_eq!((table.interface.readv)(ud, fd, pieces.as_ptr(), 2), 80);
    assert_eq!((one, &two[..50]), ([0; 30], &[0; 50][..]));
    assert_eq!(two[50..], [2; 20]);
    table.free();
}

#[test]
fn descriptors_are_real_and_their_numbers_do_not_come_again() {
    let _alone = alone();
    let table = Table::load();
    let first = table.socket(libc::AF_INET);
    // SAFETY: asks for flags.
    assert!(unsafe { libc::fcntl(first, libc::F_GETFD) } >= 0);
    assert_eq!((table.interface.close)(table.interface.userdata, first), 0);
    let second = table.socket(libc::AF_INET);
    assert_ne!(first, second);
    // What a script leaves open, packetdrill closes by itself.
    // SAFETY: nobody else has the number.
    assert_eq!(unsafe { libc::close(second) }, 0);
    table.free();
}

#[test]
fn what_there_is_not_is_said() {
    let table = Table::load();
    let ud = table.interface.userdata;
    let socket = |domain, kind| (table.interface.socket)(ud, domain, kind, 0);
    assert_eq!(
        (socket(libc::AF_UNIX, libc::SOCK_STREAM), errno()),
        (-1, libc::EAFNOSUPPORT)
    );
    assert_eq!(
        (socket(libc::AF_INET, libc::SOCK_DGRAM), errno()),
        (-1, libc::EPROTONOSUPPORT)
    );
    let mut ends = [0; 2];
    assert_eq!(
        ((table.interface.pipe)(ud, ends.as_mut_ptr()), errno()),
        (-1, libc::ENOSYS)
    );
    assert_eq!((table.read(-1), errno()), (-1, libc::EBADF));
    let fd = table.socket(libc::AF_INET);
    assert_eq!((table.read(fd), errno()), (-1, libc::ENOTCONN));
    assert_eq!((table.write(fd, 1), errno()), (-1, libc::EPIPE));
    assert!(table.leaves().is_none());
    table.free();
}
