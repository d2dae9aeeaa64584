//! Data on the SYN (RFC 7413): `MSG_FASTOPEN`, `TCP_FASTOPEN_CONNECT`.

use crate::peer::{
    ACK, LOCAL, PEER, REMOTE, SYN, SYN_ACK, Shared, Table, blocking, copy, errno, sockaddr,
};
use braidnet::wire::tcp::{FastOpenCookie, TcpFlags, TcpHeader};
use core::ffi::c_int;
use std::sync::Arc;

const RST_ACK: TcpFlags = TcpFlags::RST.union(TcpFlags::ACK);
const COOKIE: &[u8] = b"biscuits";

impl Table {
    /// A socket that is bound to this port, from which the peer is called.
    fn caller(&mut self, port: u16) -> c_int {
        let fd = self.socket(libc::AF_INET);
        assert_eq!(self.bind(fd, &sockaddr(LOCAL, port)), 0);
        self.local_port = port;
        fd
    }

    fn send_fast(&self, fd: c_int, len: usize) -> isize {
        let (from, to) = (vec![7_u8; len], sockaddr(REMOTE, PEER));
        (self.interface.sendto)(
            self.interface.userdata,
            fd,
            from.as_ptr().cast(),
            len,
            libc::MSG_FASTOPEN,
            to.as_ptr().cast(),
            to.len() as libc::socklen_t,
        )
    }

    /// The SYN that leaves next, and the length of its data.
    fn syn(&self) -> (TcpHeader, usize) {
        let (_, header, len) = self.leaves().expect("a SYN");
        assert_eq!(header.flags, SYN);
        (header, len)
    }

    /// The peer is asked for a cookie, and gives one.
    fn acquaint(&mut self) {
        let fd = self.caller(40_000);
        self.nonblocking(fd);
        assert_eq!((self.send_fast(fd, 100), errno()), (-1, libc::EINPROGRESS));
        let (syn, len) = self.syn();
        assert_eq!((syn.fast_open(), len), (Some(FastOpenCookie::REQUEST), 0));
        self.isn = syn.seq.value();
        self.gives_cookie(1, COOKIE);
        self.expect(ACK, 1, 1, 0);
        // Once more it sends, and then it is connected.
        assert_eq!(self.send_fast(fd, 100), 100);
        self.expect(ACK, 1, 1, 100);
        assert_eq!((self.send_fast(fd, 100), errno()), (-1, libc::EISCONN));
        self.arrives(ACK, 1, 101, 0);
    }

    /// What is given leaves with the SYN, and the peer takes it.
    fn takes_with_syn(&mut self, bytes: usize) {
        let (syn, len) = self.syn();
        assert_eq!((syn.fast_open(), len), (FastOpenCookie::new(COOKIE), bytes));
        self.isn = syn.seq.value();
        self.arrives(SYN_ACK, 0, 1 + bytes as u32, 0);
        self.expect(ACK, 1 + bytes as u32, 1, 0);
    }
}

#[test]
fn data_are_sent_with_the_syn_once_the_peer_has_given_a_cookie() {
    let mut table = Table::load();
    table.acquaint();
    // Of a segment of 1000 bytes, which the peer has named, the longest options leave 960.
    for (port, bytes, expected) in [(40_001, 500, 500), (40_002, 5_000, 960)] {
        let fd = table.caller(port);
        table.nonblocking(fd);
        assert_eq!(table.send_fast(fd, bytes), expected as isize);
        table.takes_with_syn(expected);
        assert_eq!(table.write(fd, 10), 10);
        table.expect(ACK, 1 + expected as u32, 1, 10);
    }
    table.free();
}

/// As Linux has it: who may block is told when the handshake is over, or has failed, and what the SYN has not carried leaves then.
#[test]
fn who_blocks_waits_for_the_handshake() {
    for (waits, bytes, is_refused) in [
        (false, 500, false),
        (false, 1_500, false),
        (false, 500, true),
        (true, 500, false),
        (true, 1_500, false),
        (true, 500, true),
    ] {
        let mut table = Table::load();
        table.acquaint();
        let fd = table.caller(40_001);
        if waits {
            let set = table.set_sockopt(fd, libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, 1);
            assert_eq!((set, table.connect(fd)), (0, 0));
        }
        let table = Arc::new(Shared(table));
        let call = move |table: &Table| match waits {
            false => (table.send_fast(fd, bytes), errno()),
            true => (table.write(fd, bytes), errno()),
        };
        let (sent, error) = blocking(&table, call, |table| {
            let (syn, carried) = table.syn();
            assert_eq!(carried, bytes.min(960));
            let peer = Table {
                isn: syn.seq.value(),
                interface: copy(&table.interface),
                ..*table
            };
            let taken = 1 + carried as u32;
            if is_refused {
                return peer.arrives(RST_ACK, 0, 1, 0);
            }
            peer.arrives(SYN_ACK, 0, taken, 0);
            peer.expect(ACK, taken, 1, 0);
            if carried < bytes {
                peer.expect(ACK, taken, 1, bytes - carried);
            }
        });
        match is_refused {
            true => assert_eq!((sent, error), (-1, libc::ECONNREFUSED)),
            false => assert_eq!(sent, bytes as isize),
        }
    }
}

#[test]
fn who_blocks_sends_behind_the_handshake_where_there_is_no_cookie() {
    let mut table = Table::load();
    let fd = table.caller(40_000);
    let table = Arc::new(Shared(table));
    let sent = blocking(
        &table,
        move |table| table.send_fast(fd, 300),
        |table| {
            let (syn, _) = table.syn();
            let answers = Table {
                isn: syn.seq.value(),
                interface: copy(&table.interface),
                ..*table
            };
            answers.gives_cookie(1, COOKIE);
            answers.expect(ACK, 1, 1, 0);
            answers.expect(ACK, 1, 1, 300);
        },
    );
    assert_eq!(sent, 300);
}

#[test]
fn a_connection_may_wait_for_the_first_that_is_written() {
    let mut table = Table::load();
    let option = (libc::IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT);
    let fd = table.caller(40_002);
    assert_eq!(table.sockopt(fd, option.0, option.1), Ok(0));
    let set = table.set_sockopt(fd, option.0, option.1, 2);
    assert_eq!((set, errno()), (-1, libc::EINVAL));
    table.acquaint();
    table.local_port = 40_002;
    assert_eq!(table.set_sockopt(fd, option.0, option.1, 1), 0);
    assert_eq!(table.sockopt(fd, option.0, option.1), Ok(1));
    assert_eq!(table.connect(fd), 0);
    assert_eq!((table.connect(fd), errno()), (-1, libc::EISCONN));
    let set = table.set_sockopt(fd, option.0, option.1, 0);
    assert_eq!((set, errno()), (-1, libc::EINVAL));
    let mut polled = libc::pollfd {
        fd,
        events: libc::POLLIN | libc::POLLOUT,
        revents: 0,
    };
    let ready = (table.interface.poll)(table.interface.userdata, &raw mut polled, 1, 0);
    assert_eq!((ready, polled.revents), (1, libc::POLLOUT));
    table.nonblocking(fd);
    assert_eq!(table.write(fd, 400), 400);
    table.takes_with_syn(400);
    table.free();
}
