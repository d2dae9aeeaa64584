//! What befalls one side of a proxy befalls the other: socat, and the system's own sockets.

use super::{namespace_with, proxied};
use crate::programs::{Program, await_listener, converse};
use crate::server::{PATIENCE, STACK, Server};
use rustix::net::sockopt::set_socket_linger;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Bytes that are not the same at any two places of a segment.
fn text(bytes: u32) -> Vec<u8> {
    (0..bytes / 4).flat_map(|n| n.to_le_bytes()).collect()
}

#[test]
fn socat_hears_all_that_it_said_before_it_ended() {
    let test = "socat_hears_all_that_it_said_before_it_ended";
    let Some(namespace) = namespace_with(test, &["socat"]) else {
        return;
    };
    let _server = Server::on_bn0(&namespace, &["--echo", "7"]);
    let said = text(4 << 20);
    let mut socat = namespace.command("socat");
    // At the end of its input it shuts down its half, and waits for the other.
    socat.args(["-t60", "-", "TCP:10.77.0.2:7,shut-down"]);
    let output = converse(socat, &said);
    assert!(
        output.status.success() && output.stdout == said,
        "{} bytes: {}",
        output.stdout.len(),
        String::from_utf8_lossy(&output.stderr)
    );
    let mut socat = namespace.command("socat");
    socat.args(["-t2", "-b2000", "-", "UDP:10.77.0.2:7"]);
    assert_eq!(converse(socat, b"one datagram").stdout, b"one datagram");
}

#[test]
fn a_half_close_goes_through_both_ways() {
    let test = "a_half_close_goes_through_both_ways";
    let rules = ["in:7=127.0.0.1:7", "out:8=10.77.0.1:7"];
    let Some((namespace, _proxy)) = proxied(test, &["socat"], &rules) else {
        return;
    };
    // What `cat` has to say it has said when its input ends, which it does by the half close.
    let mut server = namespace.command("socat");
    server.args(["-t60", "TCP-LISTEN:7,fork,reuseaddr", "EXEC:cat"]);
    let _server = Program::start(server);
    await_listener(&namespace, 7);
    let said = text(4 << 20);
    for at in ["TCP:10.77.0.2:7", "TCP:127.0.0.1:8"] {
        let mut socat = namespace.command("socat");
        socat.args(["-t60", "-", at]);
        let output = converse(socat, &said);
        assert!(
            output.status.success() && output.stdout == said,
            "{at}: {} bytes: {}",
            output.stdout.len(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn a_reset_goes_through_and_who_does_not_read_holds_up_who_writes() {
    let test = "a_reset_goes_through";
    let rules = [
        "in:7=127.0.0.1:7",
        "out:8=10.77.0.1:7",
        "in:9=127.0.0.1:1",
        "out:10=10.77.0.1:1",
    ];
    let Some((namespace, _proxy)) = proxied(test, &[], &rules) else {
        return;
    };
    namespace.inside(|| {
        let listener = TcpListener::bind("0.0.0.0:7").expect("it is free");
        let ways = [(STACK, 7), ("127.0.0.1", 8)];
        for way in ways {
            let (calls, called) = pair(&listener, way);
            reset(calls, called);
            let (calls, called) = pair(&listener, way);
            reset(called, calls);
            let (calls, called) = pair(&listener, way);
            hold_up(&calls, &called);
        }
        // Nobody listens there.
        for way in [(STACK, 9), ("127.0.0.1", 10)] {
            let connected = TcpStream::connect(way);
            let read = connected.and_then(|mut stream| stream.read(&mut [0]));
            let read = read.map_err(|error| error.kind());
            assert_eq!(read, Err(ErrorKind::ConnectionReset), "{way:?}");
        }
    });
}

fn open(at: (&str, u16)) -> TcpStream {
    let stream = TcpStream::connect(at).expect("the proxy answers");
    stream.set_read_timeout(Some(PATIENCE)).expect("not zero");
    stream
}

/// Both ends of what goes through the proxy, of which each has heard the other.
fn pair(listener: &TcpListener, at: (&str, u16)) -> (TcpStream, TcpStream) {
    let calls = open(at);
    let (called, _) = listener.accept().expect("the proxy calls");
    called.set_read_timeout(Some(PATIENCE)).expect("not zero");
    for (from, to) in [(&calls, &called), (&called, &calls)] {
        let (mut from, mut to) = (from, to);
        from.write_all(b"x").expect("it is taken");
        to.read_exact(&mut [0]).expect("it comes");
    }
    (calls, called)
}

fn reset(resets: TcpStream, mut is_reset: TcpStream) {
    set_socket_linger(&resets, Some(Duration::ZERO)).expect("open");
    drop(resets);
    let read = is_reset.read(&mut [0]).map_err(|error| error.kind());
    assert_eq!(read, Err(ErrorKind::ConnectionReset));
}

/// Writes until nobody takes any more, and then reads it.
fn hold_up(mut from: &TcpStream, mut to: &TcpStream) {
    let patience = Some(Duration::from_millis(300));
    from.set_write_timeout(patience).expect("not zero");
    let piece = text(64 << 10);
    let mut written = 0;
    let held_up = loop {
        let place = written % piece.len();
        match from.write(&piece[place..]) {
            Ok(bytes) => written += bytes,
            Err(error) => break error.kind(),
        }
        assert!(written < 256 << 20, "somebody holds more than windows do");
    };
    assert_eq!(held_up, ErrorKind::WouldBlock);
    from.shutdown(std::net::Shutdown::Write).expect("open");
    let mut heard = Vec::new();
    to.read_to_end(&mut heard).expect("it goes on");
    let is_whole = heard
        .chunks(piece.len())
        .all(|part| part == &piece[..part.len()]);
    assert!(
        is_whole && heard.len() == written,
        "{} of {written}",
        heard.len()
    );
}
