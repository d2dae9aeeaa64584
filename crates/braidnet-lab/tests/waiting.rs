//! Who waits for a socket, on threads each step of which a seed puts in its place (`--cfg shuttle`, `cargo run -p xtask -- schedules`).
//!
//! Two hosts, each turned by a thread of its own, or driven by a task that a thread carries, and threads that use their sockets by verbs that block: one that accepts and echoes, one that asks and waits for
//! the answer, again and again, and two of which one writes and one reads on the same connection, with buffers that are small, so that both wait. Whoever waits for an
//! answer waits for the last change that is to come: a wake-up that is lost leaves all asleep, which the scheduler tells. Beside them waiters come and go that
//! nobody hears of again.
#![cfg(shuttle)]

use braidnet::device::{Capabilities, memory};
use braidnet::net::{Driver, Host};
use braidnet::socket::{How, Readiness, Shared, Socket, SocketError, Sockets, Waiter};
use braidnet::{Instant, StackConfig};
use braidnet_process::{Idle, RunningConfig, Suspended};
use braidnet_stream::Next;
use braidnet_sync::clock::Clock;
use braidnet_sync::group::{Placement, ThreadGroup};
use braidnet_sync::parker::{Parker, Unparker};
use braidnet_sync::primitives::{AtomicBool, Ordering};
use braidnet_sync::schedules::{Draw, run, seeds};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};

/// Steps of a run that goes round in circles.
const ENDLESS: usize = 20_000_000;
/// Orders of each kind that are drawn.
const SEEDS: u64 = 100;
/// Of the run's time, of which no run needs half of one millisecond: less than any timer takes, as those of waiters for memory (20 ms) and of acknowledgments (40 ms), which
/// would make good a wake-up too few.
const PATIENCE_NANOS: u64 = 10_000_000;
/// Questions on one connection.
const ROUNDS: u8 = 30;
/// Bytes on the other.
const BYTES: usize = 10_000;
/// Bytes of a write, and room of a read, at most.
const PIECE: usize = 1_500;

fn config(address: &str) -> StackConfig {
    let mut config = StackConfig::new(address.parse().expect("an address"));
    config.buckets = 4;
    config.memory_bytes = 8 << 20;
    config.tcp.nagle = false;
    config.tcp.send_buffer_bytes = 3_000;
    config.tcp.send_buffer_max_bytes = 3_000;
    config.tcp.receive_buffer_bytes = 3_000;
    config.tcp.receive_buffer_max_bytes = 3_000;
    config
}

fn server_at() -> SocketAddr {
    ([10, 0, 0, 2], 7).into()
}

/// A thread of an application: what it does with the sockets of its host.
type Application = Box<dyn FnOnce() + Send>;

fn on_threads(name: &str, applications: Vec<Application>) -> ThreadGroup<()> {
    let bodies = applications
        .into_iter()
        .map(|application| move |_| application());
    let group = ThreadGroup::spawn(name, &Placement::Free, bodies).expect("threads can be had");
    group.start();
    group
}

fn joined(group: ThreadGroup<()>) {
    for member in group.join() {
        member.expect("no panic");
    }
}

/// A waiter that is told to wait, or gets something, and is not there when it is woken.
fn glance(shared: &Arc<Shared>, socket: Socket, to: &mut [u8]) -> usize {
    let mut waiter = Waiter::new(shared.clone(), socket);
    let mut cx = Context::from_waker(Waker::noop());
    let polled = waiter.poll(Readiness::READABLE, &mut cx, |sockets| {
        sockets.recv(socket, to)
    });
    match polled {
        Poll::Ready(received) => received.expect("open"),
        Poll::Pending => 0,
    }
}

/// Reads until the end, now and then with a waiter that does not wait; what is done with it.
fn reads(shared: &Arc<Shared>, socket: Socket, mut with: impl FnMut(&[u8])) {
    let mut room = [0; PIECE];
    for round in 0.. {
        let glanced = match round % 3 {
            0 => glance(shared, socket, &mut room),
            _ => 0,
        };
        if glanced > 0 {
            with(&room[..glanced]);
            continue;
        }
        match shared.recv(socket, &mut room, None).expect("open") {
            0 => return,
            length => with(&room[..length]),
        }
    }
}

fn writes(shared: &Shared, socket: Socket, bytes: &[u8]) {
    for piece in bytes.chunks(PIECE) {
        let sent = shared.send(socket, piece, None).expect("open");
        assert_eq!(sent, piece.len());
    }
}

fn ends(shared: &Shared, socket: Socket) {
    let ended = shared.with(|sockets| sockets.shutdown(socket, How::Write));
    ended.expect("open");
}

/// Asks and waits for the answer, on a connection of its own.
fn asks(shared: &Arc<Shared>) {
    let call = connected(shared);
    for round in 0..ROUNDS {
        writes(shared, call, &[round]);
        let mut answer = [0];
        let length = shared.recv(call, &mut answer, None).expect("open");
        assert_eq!((length, answer), (1, [round]));
    }
    ends(shared, call);
    reads(shared, call, |_| panic!("more than was asked for"));
    shared.with(|sockets| sockets.close(call)).expect("open");
}

/// One thread writes and another reads what comes back.
fn streams(shared: &Arc<Shared>) {
    let call = connected(shared);
    let sent: Arc<Vec<u8>> = Arc::new((0..BYTES).map(|at| (at * 7) as u8).collect());
    let heard = Arc::new(Mutex::new(Vec::<u8>::new()));
    let (writer, reader) = (shared.clone(), shared.clone());
    let (bytes, hears) = (sent.clone(), heard.clone());
    let both: [Application; 2] = [
        Box::new(move || {
            writes(&writer, call, &bytes);
            ends(&writer, call);
        }),
        Box::new(move || {
            let hear = |bytes: &[u8]| hears.lock().expect("no panic").extend(bytes);
            reads(&reader, call, hear);
        }),
    ];
    joined(on_threads("call", both.into()));
    assert!(*heard.lock().expect("no panic") == *sent);
    shared.with(|sockets| sockets.close(call)).expect("open");
}

fn connected(shared: &Shared) -> Socket {
    let call = shared.with(Sockets::socket).expect("room");
    (shared.connect(call, server_at(), None)).expect("it listens");
    call
}

/// Accepts two connections, one after the other, and sends back what comes on them.
fn echoes(shared: &Arc<Shared>, listener: Socket) {
    for _ in 0..2 {
        let (answer, _) = shared.accept(listener, None).expect("it listens");
        reads(shared, answer, |bytes| writes(shared, answer, bytes));
        ends(shared, answer);
        shared.with(|sockets| sockets.close(answer)).expect("open");
    }
}

/// Two hosts, on a thread each, and their applications.
fn hosts_and_applications() {
    let begun = Clock::shared().now_nanos();
    let (here, there) = memory::wire(Capabilities::ip(1500), 64);
    let (client, mut calls) = Host::turned(&config("10.0.0.1"), here).expect("a host");
    let (server, mut answers) = Host::turned(&config("10.0.0.2"), there).expect("a host");
    let carried = RunningConfig {
        idle: Idle::SLEEP,
        ..RunningConfig::default()
    };
    let suspended = Suspended::spawn(&carried, 2).expect("threads can be had");
    for (processor, waker) in [&mut calls, &mut answers]
        .into_iter()
        .zip(suspended.wakers())
    {
        processor.wake_with(waker.clone());
    }
    let running = suspended.start(vec![calls, answers]);
    applications_talk(&client, &server);
    running.stop().expect("no panic");
    let took = Clock::shared().now_nanos() - begun;
    assert!(took < PATIENCE_NANOS, "it went on by a timer: {took} ns");
}

/// What a runtime keeps for a task that drives a host: whether its waker was called since it was polled.
struct Due {
    is_due: AtomicBool,
    unparker: Unparker,
}

impl Wake for Due {
    fn wake(self: Arc<Self>) {
        self.is_due.store(true, Ordering::Release);
        self.unparker.unpark();
    }
}

/// Carries that task until nobody has the host any more.
fn drives(mut driver: Driver) {
    let mut parker = Parker::new();
    let due = Arc::new(Due {
        is_due: AtomicBool::new(false),
        unparker: parker.unparker(),
    });
    let waker = Waker::from(due.clone());
    loop {
        let now = Instant::from_nanos(Clock::shared().now_nanos());
        let left = match driver.turn(now, &waker) {
            None => return,
            Some(Next::Again) => continue,
            Some(Next::At(at)) => Some(at.since(now)),
            Some(Next::Idle) => None,
        };
        let announced = parker.announce();
        if due.is_due.swap(false, Ordering::Acquire) {
            announced.cancel();
            continue;
        }
        match left {
            Some(left) => announced.park_timeout(left),
            None => announced.park(),
        };
    }
}

/// The same, driven by tasks that end with the last handles.
fn driven_hosts_and_applications() {
    let begun = Clock::shared().now_nanos();
    let (here, there) = memory::wire(Capabilities::ip(1500), 64);
    let (client, calls) = Host::driven(&config("10.0.0.1"), here).expect("a host");
    let (server, answers) = Host::driven(&config("10.0.0.2"), there).expect("a host");
    let drivers = [calls, answers].map(|driver| -> Application { Box::new(|| drives(driver)) });
    let driving = on_threads("driver", drivers.into());
    applications_talk(&client, &server);
    let took = Clock::shared().now_nanos() - begun;
    assert!(took < PATIENCE_NANOS, "it went on by a timer: {took} ns");
    drop((client, server));
    joined(driving);
}

/// Some ask and some stream, until all have ended.
fn applications_talk(client: &Host, server: &Host) {
    let answering = server.shared().clone();
    let listener = answering.with(|sockets| {
        let listener = sockets.socket()?;
        sockets.bind(listener, server_at())?;
        sockets.listen(listener, 1)?;
        Ok::<_, SocketError>(listener)
    });
    let listener = listener.expect("a free port");
    let echo: Application = Box::new(move || echoes(&answering, listener));
    let echo = on_threads("echo", vec![echo]);
    asks(client.shared());
    streams(client.shared());
    joined(echo);
}

#[test]
fn nobody_is_forgotten() {
    for seed in seeds(SEEDS) {
        for draw in Draw::ALL {
            run(draw, seed, ENDLESS, hosts_and_applications);
        }
    }
}

#[test]
fn nobody_is_forgotten_by_a_driver() {
    for seed in seeds(SEEDS) {
        for draw in Draw::ALL {
            run(draw, seed, ENDLESS, driven_hosts_and_applications);
        }
    }
}
