//! Messages that are read and written as they are, between hosts and over a bad network.

use super::*;
use braidnet::device::impair::{Impairment, Impairments};
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::thread;

/// What happens to packets on their way, each way.
const BAD: &str = "loss=1%,duplicate=0.5%,reorder=1%:1ms-5ms,corrupt=0.2%,seed=11";

/// Passes on what comes until its end, without a copy.
fn pass_on(from: &TcpStream, to: &TcpStream) {
    while let Some(message) = from.read_message().expect("open") {
        let mut message = Some(message);
        while message.is_some() {
            to.write_message(&mut message).expect("open");
        }
    }
    to.shutdown(Shutdown::Write).expect("open");
}

/// From one stack's memory to another's, and back.
#[test]
fn a_proxy_between_two_stacks_is_exact_over_a_bad_network() {
    let bad: Impairments = BAD.parse().expect("a bad network");
    let impairment = Impairment::new(&bad, &bad);
    let (outer, inner) = (
        memory::wire(Capabilities::ip(1500), 1024),
        memory::wire(Capabilities::ip(900), 1024),
    );
    let start = |address: &str, device| Host::start(&config(address), device).expect("a host");
    let client = Host::start(&config("10.0.0.1"), impairment.around(outer.0)).expect("a host");
    let [front, back, server] = [
        start("10.0.0.2", outer.1),
        start("10.0.0.1", inner.0),
        start("10.0.0.2", inner.1),
    ];
    let (call, front_end) = connected(&client, &front);
    let (back_end, answer) = connected(&back, &server);
    let (there, here) = (pattern(1, 600_000), pattern(2, 400_000));
    let says = |mut stream: &TcpStream, bytes: &[u8]| {
        stream.write_all(bytes).expect("it is read");
        stream.shutdown(Shutdown::Write).expect("open");
    };
    let hears = |mut stream: &TcpStream| {
        let mut heard = Vec::new();
        stream.read_to_end(&mut heard).expect("open");
        heard
    };
    thread::scope(|scope| {
        scope.spawn(|| pass_on(&front_end, &back_end));
        scope.spawn(|| pass_on(&back_end, &front_end));
        scope.spawn(|| says(&call, &there));
        scope.spawn(|| says(&answer, &here));
        let heard = scope.spawn(|| hears(&call));
        assert!(hears(&answer) == there);
        assert!(heard.join().expect("no panic") == here);
    });
    let hurt = impairment.outgoing();
    assert!(hurt.lost > 0, "{hurt:?}");
}

/// Bytes in messages of one segment each, of the host's memory.
fn in_messages(host: &Host, stream: &TcpStream, bytes: &[u8]) {
    let smss = stream.info().expect("open").smss as usize;
    for piece in bytes.chunks(smss) {
        let mut message = host.allocate(piece.len()).expect("memory");
        assert_eq!(message.extend_from_slice_summed(piece), piece.len());
        let mut message = Some(message);
        while message.is_some() {
            stream.write_message(&mut message).expect("it is read");
        }
    }
    stream.shutdown(Shutdown::Write).expect("open");
}

#[test]
fn messages_of_the_hosts_memory_are_exact_beside_bytes() {
    let (client, server) = hosts();
    let (call, mut answer) = connected(&client, &server);
    let bytes = pattern(3, 2 << 20);
    thread::scope(|scope| {
        scope.spawn(|| {
            (&call).write_all(&bytes[..100]).expect("room");
            in_messages(&client, &call, &bytes[100..]);
        });
        let mut heard = Vec::new();
        answer.read_to_end(&mut heard).expect("open");
        assert!(heard == bytes);
    });
}

#[test]
fn who_waits_too_long_has_what_was_not_taken() {
    let (client, server) = hosts();
    let (call, mut answer) = connected(&client, &server);
    let bytes = pattern(4, 30_000);
    let mut kept = 0;
    let mut left = None;
    let mut waits = |nonblocking| {
        call.set_nonblocking(nonblocking).expect("a stream");
        loop {
            if left.is_none() {
                let mut message = client.allocate(bytes.len()).expect("memory");
                message.extend_from_slice_summed(&bytes);
                left = Some(message);
            }
            match call.write_message(&mut left) {
                Ok(n) => kept += n,
                Err(error) => break error.kind(),
            }
        }
    };
    call.set_write_timeout(Some(braidnet::Duration::from_millis(200)))
        .expect("some time");
    assert_eq!(waits(false), ErrorKind::WouldBlock);
    assert_eq!(waits(true), ErrorKind::WouldBlock);
    let mut heard = vec![0; kept];
    answer.read_exact(&mut heard).expect("they were taken");
    let all = bytes.iter().cycle();
    assert!(heard.iter().eq(all.clone().take(kept)));
    // The rest goes when there is room.
    call.set_nonblocking(false).expect("a stream");
    let rest = left.as_ref().map_or(0, |left| left.total_len());
    assert_eq!((kept + rest) % bytes.len(), 0, "{kept} and {rest}");
    let mut written = 0;
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut heard = vec![0; rest];
            answer.read_exact(&mut heard).expect("they come");
            assert!(heard.iter().eq(all.skip(kept).take(rest)));
        });
        while left.is_some() {
            written += call.write_message(&mut left).expect("it reads");
        }
    });
    assert_eq!(written, rest);
}
