//! How connections and hosts end, and what is said of it.

use super::*;
use braidnet::device::MacAddress;
use braidnet::device::qemu::{QemuConfig, QemuDevice};
use braidnet::socket::{OptionName, SocketError, SocketOption};
use braidnet::{Duration, StackError};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::cell::RefCell;
use std::env;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::thread;

/// The error of the same name inside.
fn inner(error: &std::io::Error) -> Option<SocketError> {
    let error = error.get_ref()?;
    error.downcast_ref::<SocketError>().copied()
}

#[test]
fn each_direction_ends_by_itself() {
    let (client, server) = hosts();
    for caller_ends_first in [true, false] {
        let (call, answer) = connected(&client, &server);
        let (mut first, mut second) = match caller_ends_first {
            true => (call, answer),
            false => (answer, call),
        };
        first.write_all(b"all of it").expect("room");
        first.shutdown(Shutdown::Write).expect("open");
        let mut heard = String::new();
        second.read_to_string(&mut heard).expect("to the end");
        assert_eq!(heard, "all of it");
        assert_eq!(
            first.write(b"more").expect_err("it has ended").kind(),
            ErrorKind::BrokenPipe
        );
        second.write_all(b"still heard").expect("the other way");
        drop(second);
        let mut heard = String::new();
        first.read_to_string(&mut heard).expect("to the end");
        assert_eq!(heard, "still heard");
    }
}

thread_local! {
    /// What a thread keeps until its end.
    static KEPT: RefCell<Option<Host>> = const { RefCell::new(None) };
}

/// It goes behind what its verbs have slept on.
#[test]
fn a_host_that_a_thread_keeps_ends_with_the_thread() {
    let (client, server) = hosts();
    let (listener, at) = listener(&server);
    let caller = thread::spawn(move || {
        let connected = KEPT.with_borrow_mut(|kept| TcpStream::connect(kept.insert(client), at));
        let mut call = connected.expect("it listens");
        call.write_all(b"last words").expect("room");
    });
    let (mut answer, _) = listener.accept().expect("a call");
    let mut heard = String::new();
    answer.read_to_string(&mut heard).expect("to the end");
    assert_eq!(heard, "last words");
    caller.join().expect("no panic");
}

/// It would hear of no packet.
#[test]
fn a_host_without_a_descriptor_is_refused() {
    const TEST: &str = "ends::a_host_without_a_descriptor_is_refused";
    // The limit is for all threads of a process.
    const ALONE: &str = "BRAIDNET_TEST_ALONE";
    if env::var_os(ALONE).is_none() {
        let mut alone = Command::new(env::current_exe().expect("a program"));
        let alone = alone.args(["--exact", TEST]).env(ALONE, "1").output();
        let alone = alone.expect("a process");
        assert!(alone.status.success(), "{alone:?}");
        return;
    }
    let (socket, _other_end) = UnixStream::pair().expect("a pair");
    let device = QemuConfig::new(MacAddress([2, 0, 0, 0, 0, 1]));
    let device = QemuDevice::over(socket, device).expect("a device");
    let next = File::open("/dev/null").expect("a file").as_raw_fd();
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(next as u64);
    setrlimit(Resource::Nofile, limit).expect("it may be lowered");
    let refused = Host::driven(&config("10.0.0.1"), device).map(drop);
    let refused = refused.expect_err("no descriptor is left");
    assert!(matches!(refused, StackError::Descriptor(_)), "{refused}");
}

#[test]
fn who_does_not_linger_resets() {
    let (client, server) = hosts();
    let (call, mut answer) = connected(&client, &server);
    call.set_linger(Some(Duration::ZERO)).expect("open");
    assert_eq!(call.linger().expect("open"), Some(Duration::ZERO));
    let clone = call.try_clone().expect("a handle");
    drop(call);
    // The other handle has it still.
    (&clone).write_all(b"x").expect("open");
    answer.read_exact(&mut [0]).expect("open");
    drop(clone);
    let error = answer.read(&mut [0]).expect_err("no end, but a reset");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert_eq!(inner(&error), Some(SocketError::Reset));
    assert_eq!(answer.read(&mut [0]).expect("told once"), 0);
    assert!(answer.take_error().expect("a host").is_none());
}

#[test]
fn openings_fail_as_the_systems_do() {
    let (client, server) = hosts();
    let (listener, at) = listener(&server);
    let kind = |result: std::io::Result<_>| {
        let result: std::io::Result<TcpStream> = result;
        result.expect_err("nothing to connect to").kind()
    };
    let second = TcpListener::bind(&server, at).expect_err("it is in use");
    assert_eq!(second.kind(), ErrorKind::AddrInUse);
    let elsewhere = TcpListener::bind(&server, "10.0.0.3:1").expect_err("not its address");
    assert_eq!(elsewhere.kind(), ErrorKind::AddrNotAvailable);
    assert_eq!(
        kind(TcpStream::connect(&client, "10.0.0.2:9")),
        ErrorKind::ConnectionRefused
    );
    assert_eq!(
        kind(TcpStream::connect(&client, "[::1]:9")),
        ErrorKind::Unsupported
    );
    assert_eq!(
        kind(TcpStream::connect(&client, "10.0.0.1:9")),
        ErrorKind::AddrNotAvailable
    );
    // Nobody is there, and nobody says so.
    let nobody = "10.0.0.77:9".parse().expect("an address");
    let moment = Duration::from_millis(20);
    assert_eq!(
        kind(TcpStream::connect_timeout(&client, &nobody, moment)),
        ErrorKind::TimedOut
    );
    assert_eq!(
        kind(TcpStream::connect_timeout(&client, &at, Duration::ZERO)),
        ErrorKind::InvalidInput
    );
    // Of several the first that answers.
    let several = ["10.0.0.2:9".parse().expect("an address"), at];
    let call = TcpStream::connect(&client, &several[..]).expect("the second");
    assert_eq!(call.peer_addr().expect("connected"), at);
    drop(listener);
    assert_eq!(
        kind(TcpStream::connect(&client, at)),
        ErrorKind::ConnectionRefused
    );
}

#[test]
fn options_are_the_connections_whichever_handle_sets_them() {
    let (client, server) = hosts();
    let (call, _answer) = connected(&client, &server);
    let clone = call.try_clone().expect("a handle");
    call.set_nodelay(true).expect("open");
    call.set_ttl(9).expect("open");
    call.set_keepalive(Some(Duration::from_secs(30)))
        .expect("open");
    call.set_user_timeout(Some(Duration::from_secs(4)))
        .expect("open");
    call.set_option(SocketOption::SendBuffer(300_000))
        .expect("open");
    let second = Some(Duration::from_secs(1));
    call.set_read_timeout(second).expect("some time");
    assert!(clone.nodelay().expect("open"));
    assert_eq!(clone.ttl().expect("open"), 9);
    let idle = clone.option(OptionName::KeepIdle).expect("open");
    assert_eq!(idle, SocketOption::KeepIdle(Duration::from_secs(30)));
    let on = clone.option(OptionName::KeepAlive).expect("open");
    assert_eq!(on, SocketOption::KeepAlive(true));
    assert_eq!(clone.read_timeout().expect("set"), second);
    assert_eq!(clone.write_timeout().expect("unset"), None);
    assert_eq!(
        call.set_ttl(256).expect_err("no such number").kind(),
        ErrorKind::InvalidInput
    );
    let none = call.set_read_timeout(Some(Duration::ZERO));
    assert_eq!(none.expect_err("no time").kind(), ErrorKind::InvalidInput);
    assert_eq!(
        call.info().expect("open").state,
        braidnet::tcp::State::Established
    );
}

#[test]
fn a_listener_decides_on_the_rule_of_its_connections() {
    use braidnet::tcp::CongestionControl::{Bbr, Cubic};
    let (client, server) = hosts();
    let (listener, at) = listener(&server);
    let rule = SocketOption::CongestionControl(Bbr);
    listener.set_option(rule).expect("a rule");
    let call = TcpStream::connect(&client, at).expect("it listens");
    let (answer, _) = listener.accept().expect("it has called");
    assert_eq!(answer.info().expect("open").congestion, Bbr);
    assert_eq!(call.info().expect("open").congestion, Cubic);
    let both = listener.set_only_v6(false).expect_err("no IPv6");
    assert_eq!(both.kind(), ErrorKind::Unsupported);
}

#[test]
fn what_was_written_arrives_though_its_host_goes() {
    let (client, server) = hosts();
    let (mut call, answer) = connected(&client, &server);
    let sent = pattern(5, 2 << 20);
    thread::scope(|scope| {
        let sent = &sent;
        let reading = scope.spawn(move || {
            let mut answer = answer;
            let mut heard = Vec::new();
            answer.read_to_end(&mut heard).expect("a clean end");
            heard == *sent
        });
        call.write_all(sent).expect("it reads");
        // The last handles of both kinds.
        drop(client);
        drop(call);
        assert!(reading.join().expect("no panic"));
    });
}

#[test]
fn a_panic_with_the_sockets_locked_is_told_those_who_wait() {
    let (client, server) = hosts();
    let (mut call, _answer) = connected(&client, &server);
    thread::scope(|scope| {
        let waiting = scope.spawn(move || call.read(&mut [0]).expect_err("nobody turns it"));
        let shared = client.shared().clone();
        let panics = scope.spawn(move || shared.with(|_| panic!("planted")));
        assert!(panics.join().is_err());
        let error = waiting.join().expect("no panic");
        assert_eq!(error.kind(), ErrorKind::NetworkDown);
        assert_eq!(inner(&error), Some(SocketError::Down));
    });
    let refused = TcpListener::bind(&client, "10.0.0.1:0").expect_err("it is down");
    assert_eq!(refused.kind(), ErrorKind::NetworkDown);
}
