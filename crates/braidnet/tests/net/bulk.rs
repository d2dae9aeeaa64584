//! Bytes arrive as they were written, whoever reads and writes.

use super::*;
use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::net::Shutdown;
use std::thread;

/// Sends everything back until the end.
fn echo(mut stream: TcpStream) {
    let mut piece = vec![0; 16_384];
    loop {
        match stream.read(&mut piece).expect("it lives") {
            0 => break,
            n => stream.write_all(&piece[..n]).expect("it reads"),
        }
    }
}

#[test]
fn echoes_are_exact_over_many_connections_and_threads() {
    const CALLERS: usize = 100;
    let (client, server) = hosts();
    let (listener, at) = listener(&server);
    thread::scope(|scope| {
        scope.spawn(|| {
            for stream in listener.incoming().take(CALLERS) {
                let stream = stream.expect("it has called");
                scope.spawn(move || echo(stream));
            }
        });
        // With the echoing ones and the hosts' own, 200 threads and more.
        for number in 0..CALLERS {
            let client = &client;
            scope.spawn(move || {
                let stream = TcpStream::connect(client, at).expect("it listens");
                let sent = pattern(number, 3_000 + number * 500);
                thread::scope(|scope| {
                    scope.spawn(|| {
                        let mut stream = &stream;
                        for piece in sent.chunks(1_000 + number) {
                            stream.write_all(piece).expect("it reads");
                        }
                        stream.shutdown(Shutdown::Write).expect("open");
                    });
                    let mut heard = Vec::new();
                    (&stream).read_to_end(&mut heard).expect("it echoes");
                    assert_eq!(heard, sent, "stream {number}");
                });
            });
        }
    });
}

#[test]
fn several_pieces_are_one_read_or_write() {
    let (client, server) = hosts();
    let (mut call, mut answer) = connected(&client, &server);
    let pieces = [
        IoSlice::new(b"so"),
        IoSlice::new(b""),
        IoSlice::new(b"me bytes"),
    ];
    assert_eq!(call.write_vectored(&pieces).expect("room"), 10);
    let mut first = [0; 4];
    assert_eq!(answer.peek(&mut first).expect("they come"), 4);
    assert_eq!(&first, b"some");
    let (mut one, mut two) = ([0; 7], [0; 90]);
    let mut room = [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)];
    // All ten came in one segment.
    assert_eq!(answer.read_vectored(&mut room).expect("they are there"), 10);
    assert_eq!((&one[..], &two[..3]), (&b"some by"[..], &b"tes"[..]));
}

/// Whoever has a lot to write does so piece by piece: in between, others get at the sockets.
#[test]
fn one_read_or_write_takes_so_much_at_most() {
    let (here, there) = memory::wire(Capabilities::ip(1500), 1024);
    let mut ample = config("10.0.0.1");
    ample.tcp.send_buffer_bytes = 1 << 20;
    let client = Host::start(&ample, here).expect("a host");
    ample.addresses = config("10.0.0.2").addresses;
    ample.tcp.receive_buffer_bytes = 1 << 20;
    let server = Host::start(&ample, there).expect("a host");
    let (mut call, mut answer) = connected(&client, &server);
    let all = pattern(6, 300_000);
    let pieces = [&all[..50_000], &all[50_000..]].map(IoSlice::new);
    assert_eq!(call.write_vectored(&pieces).expect("room"), 128 << 10);
    assert_eq!(call.write(&all).expect("room"), 128 << 10);
    let mut heard = vec![0; 256 << 10];
    while answer.peek(&mut heard).expect("open") < heard.len() {
        thread::yield_now();
    }
    let mut room = [IoSliceMut::new(&mut heard)];
    assert_eq!(answer.read_vectored(&mut room).expect("open"), 128 << 10);
    assert_eq!(answer.read(&mut heard).expect("open"), 128 << 10);
}

#[test]
fn messages_are_read_as_they_came_beside_bytes() {
    let (client, server) = hosts();
    let (mut call, answer) = connected(&client, &server);
    let sent = pattern(2, 100_000);
    call.write_all(&sent).expect("it reads");
    drop(call);
    let mut heard = vec![0; 700];
    (&answer).read_exact(&mut heard).expect("they come");
    let mut kept = Vec::new();
    while let Some(message) = answer.read_message().expect("to the end") {
        for block in message.blocks() {
            heard.extend_from_slice(block);
        }
        kept.push(message);
    }
    assert!(heard == sent);
    // Their host may go before them.
    drop((answer, server, client));
    assert!(!kept.is_empty());
}

#[test]
fn two_threads_use_one_connection_through_clones() {
    let (client, server) = hosts();
    let (call, answer) = connected(&client, &server);
    let sent = pattern(1, 4 << 20);
    thread::scope(|scope| {
        scope.spawn(|| echo(answer));
        let mut writer = call.try_clone().expect("a handle");
        let sent = &sent;
        scope.spawn(move || {
            writer.write_all(sent).expect("it reads");
            writer.shutdown(Shutdown::Write).expect("open");
        });
        let mut heard = Vec::new();
        (&call).read_to_end(&mut heard).expect("it echoes");
        assert!(heard == *sent, "4 MiB, exactly");
    });
}

/// Who does not read bounds what can be written: by the buffers of both ends, which here do not grow, and what travels between them.
#[test]
fn who_stops_reading_stops_the_writer() {
    const BUFFER: u32 = 32_768;
    let (here, there) = memory::wire(Capabilities::ip(1500), 1024);
    let fixed = |address| {
        let mut config = config(address);
        config.tcp.receive_buffer_bytes = BUFFER;
        config.tcp.receive_buffer_max_bytes = BUFFER;
        config.tcp.send_buffer_bytes = BUFFER;
        config.tcp.send_buffer_max_bytes = BUFFER;
        config
    };
    let client = Host::start(&fixed("10.0.0.1"), here).expect("a host");
    let server = Host::start(&fixed("10.0.0.2"), there).expect("a host");
    let (mut call, mut answer) = connected(&client, &server);
    call.set_write_timeout(Some(braidnet::Duration::from_millis(200)))
        .expect("some time");
    let sent = pattern(3, 1 << 20);
    let mut taken = 0;
    let stopped = loop {
        match call.write(&sent[taken..]) {
            Ok(n) => taken += n,
            Err(error) => break error,
        }
    };
    assert_eq!(stopped.kind(), std::io::ErrorKind::WouldBlock);
    assert!(taken <= 2 * BUFFER as usize, "{taken} bytes");
    assert!(taken > BUFFER as usize, "{taken} bytes");
    let mut heard = vec![0; taken];
    answer.read_exact(&mut heard).expect("they were taken");
    assert!(heard == sent[..taken]);
    call.write_all(b"on").expect("there is room again");
    let mut on = [0; 2];
    answer.read_exact(&mut on).expect("it goes on");
    assert_eq!(&on, b"on");
}
