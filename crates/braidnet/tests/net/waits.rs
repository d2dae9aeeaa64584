//! Who waits, for how long, and what ends it.

use super::*;
use braidnet::Duration;
use braidnet::net::HostProcessor;
use braidnet::stream::Processor;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::thread;

#[test]
fn reads_and_writes_that_take_too_long_say_so() {
    let (client, server) = hosts();
    let (mut call, mut answer) = connected(&client, &server);
    let moment = Duration::from_millis(20);
    call.set_read_timeout(Some(moment)).expect("some time");
    let begun = std::time::Instant::now();
    let error = call.read(&mut [0]).expect_err("nothing comes");
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "as on Linux");
    assert!(begun.elapsed() >= moment);
    // Nobody reads what is written the other way.
    call.set_write_timeout(Some(moment)).expect("some time");
    let piece = [7; 65_536];
    let (error, begun) = loop {
        let begun = std::time::Instant::now();
        if let Err(error) = call.write(&piece) {
            break (error, begun);
        }
    };
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "as on Linux");
    assert!(begun.elapsed() >= moment);
    answer.write_all(b"x").expect("room");
    call.set_read_timeout(None).expect("for ever");
    assert_eq!(call.read(&mut [0]).expect("it comes"), 1);
}

#[test]
fn who_does_not_block_is_told_at_once() {
    let (client, server) = hosts();
    let (listener, at) = listener(&server);
    listener.set_nonblocking(true).expect("a listener");
    let nobody = listener.accept().expect_err("nobody has called");
    assert_eq!(nobody.kind(), ErrorKind::WouldBlock);
    let mut call = TcpStream::connect(&client, at).expect("it listens");
    let (answer, _) = loop {
        match listener.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => thread::yield_now(),
            accepted => break accepted.expect("it has called"),
        }
    };
    let clone = answer.try_clone().expect("a handle");
    clone.set_nonblocking(true).expect("a stream");
    let error = (&answer).read(&mut [0]).expect_err("nothing has come");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    let mut written = 0;
    let full = loop {
        match (&answer).write(&[7; 65_536]) {
            Ok(n) => written += n,
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), ErrorKind::WouldBlock);
    drop((answer, clone));
    let mut heard = Vec::new();
    call.read_to_end(&mut heard).expect("all, and the end");
    assert_eq!(heard.len(), written);
}

#[test]
fn what_another_handle_does_ends_a_wait() {
    let (client, server) = hosts();
    let (call, _answer) = connected(&client, &server);
    thread::scope(|scope| {
        let mut readers = Vec::new();
        for _ in 0..50 {
            let mut handle = call.try_clone().expect("a handle");
            readers.push(scope.spawn(move || handle.read(&mut [0])));
        }
        call.shutdown(Shutdown::Read).expect("open");
        for reader in readers {
            assert_eq!(reader.join().expect("no panic").expect("the end"), 0);
        }
    });
}

#[test]
fn a_handle_that_goes_ends_no_wait_of_another_and_the_peers_end_does() {
    let (client, server) = hosts();
    let (call, mut answer) = connected(&client, &server);
    thread::scope(|scope| {
        let mut handle = call.try_clone().expect("a handle");
        let (heard, hears) = std::sync::mpsc::channel();
        scope.spawn(move || {
            let mut byte = [0];
            while handle.read(&mut byte).expect("open") == 1 {
                heard.send(byte[0]).expect("it is listened to");
            }
        });
        answer.write_all(&[1]).expect("room");
        assert_eq!(hears.recv().expect("it reads"), 1);
        drop(call);
        answer.write_all(&[2]).expect("still open");
        assert_eq!(hears.recv().expect("it reads on"), 2);
        drop(answer);
        assert!(hears.recv().is_err(), "the end of all");
    });
}

#[test]
fn all_who_wait_at_a_listener_get_a_connection_each() {
    const WAITING: usize = 200;
    let (client, server) = hosts();
    let (listener, at) = listener(&server);
    thread::scope(|scope| {
        let accepting: Vec<_> = (0..WAITING)
            .map(|_| {
                let listener = listener.try_clone().expect("a handle");
                scope.spawn(move || listener.accept().expect("somebody calls").1)
            })
            .collect();
        let calls: Vec<_> = (0..WAITING)
            .map(|_| TcpStream::connect(&client, at).expect("it listens"))
            .collect();
        let mut from: Vec<_> = accepting
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect();
        let mut called: Vec<_> = calls
            .iter()
            .map(|call| call.local_addr().expect("open"))
            .collect();
        from.sort();
        called.sort();
        assert_eq!(from, called);
    });
}

/// Turns both, as one loop would, until something is so.
fn turn_until(processors: &mut [HostProcessor; 2], mut is_so: impl FnMut() -> bool) {
    let begun = std::time::Instant::now();
    while !is_so() {
        let now = braidnet::Instant::from_nanos(begun.elapsed().as_nanos() as u64);
        for processor in &mut *processors {
            processor.turn(now, 64);
        }
    }
}

#[test]
fn hosts_can_be_turned_by_their_caller() {
    let (here, there) = memory::wire(Capabilities::ip(1500), 64);
    let (client, one) = Host::turned(&config("10.0.0.1"), here).expect("a host");
    let (server, other) = Host::turned(&config("10.0.0.2"), there).expect("a host");
    let mut processors = [one, other];
    let (listener, at) = listener(&server);
    thread::scope(|scope| {
        let calling = scope.spawn(|| TcpStream::connect(&client, at));
        turn_until(&mut processors, || calling.is_finished());
        let mut call = calling.join().expect("no panic").expect("it listens");
        let (answer, _) = listener.accept().expect("it has called");
        call.write_all(b"by hand").expect("room");
        answer.set_nonblocking(true).expect("a stream");
        let mut heard = [0; 16];
        turn_until(&mut processors, || (&answer).read(&mut heard).is_ok());
        assert_eq!(&heard[..7], b"by hand");
        drop(processors);
        let down = call.write(b"to nobody").expect_err("nobody turns it");
        assert_eq!(down.kind(), ErrorKind::NetworkDown);
    });
}
