//! Event loops of the system wait for a socket's descriptors: by level as long as a verb has not said that it would block, by edge each time anew.

use super::*;
use braidnet::net::UdpSocket;
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::BorrowedFd;

/// What poll(2) says at once, or after waiting for it.
fn is_ready(fd: BorrowedFd<'_>, flags: PollFlags, waits: bool) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(fd, flags)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let timeout = (!waits).then_some(&at_once);
    poll(&mut polled, timeout).expect("it can be polled") == 1
}

fn readable(stream: &TcpStream, waits: bool) -> bool {
    is_ready(stream.readable_fd().expect("one"), PollFlags::IN, waits)
}

fn writable(stream: &TcpStream, waits: bool) -> bool {
    is_ready(stream.writable_fd().expect("one"), PollFlags::OUT, waits)
}

fn would_block<R>(result: std::io::Result<R>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::WouldBlock)
}

#[test]
fn a_level_lasts_until_a_verb_would_block() {
    let (client, server) = hosts();
    let (listener, at) = listener(&server);
    listener.set_nonblocking(true).expect("a listener");
    let called = |waits| is_ready(listener.readable_fd().expect("one"), PollFlags::IN, waits);
    assert!(!called(false));
    let call = TcpStream::begin(&client, &at).expect("it is begun");
    assert!(writable(&call, true), "connected");
    assert!(call.take_error().expect("a host").is_none());
    assert!(called(true));
    let (mut answer, _) = listener.accept().expect("it has called");
    assert!(would_block(listener.accept()));
    assert!(!called(false));

    // Else each waits for the acknowledgment of the one before.
    answer.set_nodelay(true).expect("open");
    assert!(!readable(&call, false));
    for round in 0..100 {
        answer.write_all(b"some").expect("room");
        assert!(readable(&call, true), "round {round}");
        let mut bytes = [0; 2];
        for _ in 0..2 {
            (&call).read_exact(&mut bytes).expect("they are there");
            assert!(
                readable(&call, false),
                "nobody has said that it would block"
            );
        }
        assert!(would_block((&call).read(&mut bytes)));
        assert!(!readable(&call, false), "round {round}");
    }

    assert!(writable(&call, false));
    let mut written = 0;
    while let Ok(n) = (&call).write(&[1; 65_536]) {
        written += n;
    }
    assert!(!writable(&call, false));
    let mut heard = vec![0; written];
    answer.read_exact(&mut heard).expect("all");
    assert!(writable(&call, true), "there is room again");
    drop(answer);
    assert!(readable(&call, true));
    assert_eq!((&call).read(&mut [0]).expect("the end"), 0);
}

#[test]
fn an_edge_comes_each_time_anew() {
    let (client, server) = hosts();
    let (call, mut answer) = connected(&client, &server);
    call.set_nonblocking(true).expect("a stream");
    answer.set_nodelay(true).expect("open");
    let events = epoll::create(epoll::CreateFlags::CLOEXEC).expect("one");
    let data = epoll::EventData::new_u64(1);
    let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&events, call.readable_fd().expect("one"), data, edge).expect("it can be");
    let mut buffer = Vec::with_capacity(4);
    let mut total = 0;
    for _ in 0..100 {
        answer.write_all(b"some").expect("room");
        // Without end: that no edge is lost is what is tested.
        epoll::wait(&events, rustix::buffer::spare_capacity(&mut buffer), None).expect("an event");
        buffer.clear();
        while let Ok(n) = (&call).read(&mut [0; 3]) {
            total += n;
        }
    }
    // What the last edges told of and came later.
    call.set_nonblocking(false).expect("a stream");
    (&call)
        .read_exact(&mut vec![0; 400 - total])
        .expect("the rest");
}

#[test]
fn a_refusal_is_an_event() {
    let (client, _server) = hosts();
    let nobody = "10.0.0.2:9".parse().expect("an address");
    let call = TcpStream::begin(&client, &nobody).expect("it is begun");
    assert!(writable(&call, true));
    let error = call.take_error().expect("a host").expect("refused");
    assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
}

/// A socket on each of two hosts: the one that asks, and the one that is asked, which does not block.
fn datagram_sockets(client: &Host, server: &Host) -> (UdpSocket, UdpSocket) {
    let ear = UdpSocket::bind(server, "10.0.0.2:0").expect("a free port");
    ear.set_nonblocking(true).expect("a socket");
    let mouth = UdpSocket::bind(client, "10.0.0.1:0").expect("a free port");
    let at = ear.local_addr().expect("bound");
    mouth.connect(at).expect("an address");
    (mouth, ear)
}

#[test]
fn a_datagram_is_readable_until_receiving_would_block() {
    let (client, server) = hosts();
    let (mouth, ear) = datagram_sockets(&client, &server);
    let heard = |waits| is_ready(ear.readable_fd().expect("one"), PollFlags::IN, waits);
    let sends = |waits| is_ready(mouth.writable_fd().expect("one"), PollFlags::OUT, waits);
    assert!(!heard(false));
    for round in 0..100 {
        assert!(sends(false), "sending never waits");
        mouth.send(b"who?").expect("it is sent");
        assert!(heard(true), "round {round}");
        let mut question = [0; 8];
        assert_eq!(ear.peek(&mut question).expect("one"), 4);
        assert_eq!(ear.recv(&mut question).expect("the same"), 4);
        assert!(heard(false), "nobody has said that it would block");
        assert!(would_block(ear.recv(&mut question)));
        assert!(!heard(false), "round {round}");
    }
}

#[test]
fn an_edge_comes_with_each_datagram() {
    let (client, server) = hosts();
    let (mouth, ear) = datagram_sockets(&client, &server);
    let events = epoll::create(epoll::CreateFlags::CLOEXEC).expect("one");
    let data = epoll::EventData::new_u64(1);
    let edge = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&events, ear.readable_fd().expect("one"), data, edge).expect("it can be");
    let mut buffer = Vec::with_capacity(4);
    for round in 0..100_u8 {
        mouth.send(&[round]).expect("it is sent");
        let mut heard = [0];
        while would_block(ear.recv(&mut heard)) {
            // Without end: that no edge is lost is what is tested.
            epoll::wait(&events, rustix::buffer::spare_capacity(&mut buffer), None)
                .expect("an event");
            buffer.clear();
        }
        assert_eq!(heard, [round]);
    }
}

#[test]
fn what_the_network_says_of_a_datagram_is_readable() {
    let (client, _server) = hosts();
    let mouth = UdpSocket::bind(&client, "10.0.0.1:0").expect("a free port");
    mouth.set_nonblocking(true).expect("a socket");
    mouth.connect("10.0.0.2:9").expect("an address");
    let heard = |waits| is_ready(mouth.readable_fd().expect("one"), PollFlags::IN, waits);
    assert!(!heard(false));
    mouth.send(b"who?").expect("it is sent");
    assert!(heard(true));
    let said = mouth.recv(&mut [0]).expect_err("nobody is there");
    assert_eq!(said.kind(), ErrorKind::ConnectionRefused);
    assert!(would_block(mouth.recv(&mut [0])));
    assert!(!heard(false));
}
