//! Who waits for what is woken for that, once, and leaves nothing behind.

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Counts its calls.
#[derive(Default)]
struct Bell(AtomicUsize);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bell {
    fn rung(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

fn bell() -> (Arc<Bell>, Waker) {
    let bell = Arc::new(Bell::default());
    (bell.clone(), Waker::from(bell))
}

/// Two hosts that are shared, and connections between them.
struct Hosts {
    client: Shared,
    server: Shared,
    now: Instant,
}

impl Hosts {
    fn new(connections: usize) -> (Hosts, Vec<(Socket, Socket)>) {
        let mut pair = Pair::new();
        let listener = pair.listener(16);
        let calls: Vec<_> = (0..connections).map(|_| pair.call()).collect();
        pair.settle();
        let accept = |call| (call, pair.server.accept(listener).expect("it has called").0);
        let connected = calls.into_iter().map(accept).collect();
        pair.settle();
        let hosts = Hosts {
            client: Shared::new(pair.client),
            server: Shared::new(pair.server),
            now: pair.now,
        };
        (hosts, connected)
    }

    fn settle(&mut self) {
        for _ in 0..12 {
            self.client.turn(self.now);
            self.server.turn(self.now);
        }
    }
}

/// Polls for something to read.
fn poll_read(waiter: &mut Waiter<&Shared>, waker: &Waker) -> Poll<Result<usize, SocketError>> {
    let socket = waiter.socket();
    let mut cx = Context::from_waker(waker);
    waiter.poll(Readiness::READABLE, &mut cx, |sockets| {
        sockets.recv(socket, &mut [0; 64])
    })
}

#[test]
fn who_waits_is_woken_by_the_own_socket_alone_and_once() {
    let (mut hosts, connected) = Hosts::new(2);
    let [(one, its_peer), (other, _)] = connected[..] else {
        panic!("two connections")
    };
    let (reading, reader) = bell();
    let (writing, writer) = bell();
    let (of_other, other_reader) = bell();
    let send = |hosts: &Hosts| hosts.server.with(|sockets| sockets.send(its_peer, b"some"));
    {
        let mut waiter = Waiter::new(&hosts.client, one);
        let mut waiting_to_write = Waiter::new(&hosts.client, one);
        let mut waiter_of_other = Waiter::new(&hosts.client, other);
        let mut cx = Context::from_waker(&writer);
        // Full, whatever the readiness says: nobody has changed anything since.
        hosts
            .client
            .with(|sockets| while sockets.send(one, &[0; 60_000]).is_ok() {});
        let full = waiting_to_write.poll(Readiness::WRITABLE, &mut cx, |sockets| {
            sockets.send(one, b"more")
        });
        assert!(full.is_pending());
        assert!(poll_read(&mut waiter, &reader).is_pending());
        assert!(poll_read(&mut waiter_of_other, &other_reader).is_pending());
        assert_eq!(hosts.client.waiting(), 3);
        send(&hosts).expect("room");
        // The client's own data stay where they are, so that only reading is possible.
        hosts.server.turn(hosts.now);
        hosts.client.turn(hosts.now);
        assert_eq!((reading.rung(), writing.rung(), of_other.rung()), (1, 0, 0));
        send(&hosts).expect("room");
        hosts.server.turn(hosts.now);
        hosts.client.turn(hosts.now);
        assert_eq!(reading.rung(), 1, "who does not poll again waits no more");
        assert_eq!(poll_read(&mut waiter, &reader), Poll::Ready(Ok(8)));
        assert!(poll_read(&mut waiter, &reader).is_pending());
        assert_eq!(hosts.client.waiting(), 3);
    }
    assert_eq!(hosts.client.waiting(), 0, "what was left is taken back");
    hosts.settle();
    assert_eq!((reading.rung(), writing.rung(), of_other.rung()), (1, 0, 0));
}

#[test]
fn a_waiter_keeps_one_waker_and_several_are_all_woken() {
    let (mut hosts, connected) = Hosts::new(1);
    let (call, answer) = connected[0];
    let bells: Vec<_> = (0..40).map(|_| bell()).collect();
    {
        let mut waiters: Vec<_> = (0..40).map(|_| Waiter::new(&hosts.client, call)).collect();
        let (replaced, old) = bell();
        for (waiter, (_, waker)) in waiters.iter_mut().zip(&bells) {
            for _ in 0..10 {
                assert!(poll_read(waiter, &old).is_pending());
            }
            assert!(poll_read(waiter, waker).is_pending());
        }
        assert_eq!(hosts.client.waiting(), 40);
        assert_eq!(Arc::strong_count(&replaced), 2, "none of them is kept");
        hosts
            .server
            .with(|sockets| sockets.send(answer, b"all hear"))
            .expect("room");
        hosts.server.turn(hosts.now);
        hosts.client.turn(hosts.now);
        // More than are called between two visits.
        assert!(bells.iter().all(|(bell, _)| bell.rung() == 1));
        assert_eq!(replaced.rung(), 0);
        assert_eq!(hosts.client.waiting(), 0);
    }
    hosts.settle();
}

#[test]
fn who_waits_for_a_socket_that_is_closed_hears_of_it() {
    let (hosts, connected) = Hosts::new(1);
    let call = connected[0].0;
    let (rung, waker) = bell();
    let mut waiter = Waiter::new(&hosts.client, call);
    assert!(poll_read(&mut waiter, &waker).is_pending());
    hosts
        .client
        .with(|sockets| sockets.close(call))
        .expect("open");
    assert_eq!(rung.rung(), 1);
    assert_eq!(
        poll_read(&mut waiter, &waker),
        Poll::Ready(Err(SocketError::BadSocket))
    );
}

/// Panics when it is called.
struct Mine;

impl Wake for Mine {
    fn wake(self: Arc<Self>) {
        panic!("planted");
    }
}

#[test]
fn a_waker_that_panics_takes_no_other_wake_up_along() {
    let (hosts, connected) = Hosts::new(1);
    let call = connected[0].0;
    let (turning, driver) = bell();
    assert!(hosts.client.rest(&driver));
    // More than are called between two visits, and every other panics.
    let bells: Vec<_> = (0..40).map(|_| bell()).collect();
    let mine = Waker::from(Arc::new(Mine));
    let mut waiters = Vec::new();
    for (_, waker) in &bells {
        for waker in [&mine, waker] {
            let mut waiter = Waiter::new(&hosts.client, call);
            assert!(poll_read(&mut waiter, waker).is_pending());
            waiters.push(waiter);
        }
    }
    let ends = || {
        hosts
            .client
            .with(|sockets| sockets.shutdown(call, How::Both))
    };
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(ends));
    assert!(panicked.is_err(), "it is told whoever has called it");
    assert!(bells.iter().all(|(bell, _)| bell.rung() == 1));
    assert_eq!(turning.rung(), 1, "a FIN is to leave");
    assert!(hosts.client.with(Sockets::socket).is_ok(), "and no more");
    assert_eq!(hosts.client.waiting(), 0);
}

/// Uses the sockets when it is let go of.
struct Visitor(Arc<Shared>);

impl Wake for Visitor {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Visitor {
    fn drop(&mut self) {
        self.0.with(|_| ());
    }
}

#[test]
fn wakers_are_let_go_of_outside_the_lock_even_by_who_panics() {
    let (hosts, connected) = Hosts::new(1);
    let call = connected[0].0;
    let client = Arc::new(hosts.client);
    let mut waiter = Waiter::new(&*client, call);
    let visitor = Arc::new(Visitor(client.clone()));
    let weak = Arc::downgrade(&visitor);
    assert!(poll_read(&mut waiter, &Waker::from(visitor)).is_pending());
    let panics = || {
        let mut cx = Context::from_waker(Waker::noop());
        let polled: Poll<Result<(), _>> = waiter.poll(IN, &mut cx, |_| panic!("planted"));
        polled
    };
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics));
    assert!(panicked.is_err());
    assert_eq!(weak.strong_count(), 0);
}

#[test]
fn a_panic_inside_is_told_everybody() {
    let (hosts, connected) = Hosts::new(1);
    let call = connected[0].0;
    let (rung, waker) = bell();
    let mut waiter = Waiter::new(&hosts.client, call);
    assert!(poll_read(&mut waiter, &waker).is_pending());
    let panics = || {
        hosts.client.with(|sockets| {
            sockets.send(call, b"never sent").expect("room");
            panic!("planted")
        })
    };
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics));
    assert!(panicked.is_err());
    assert_eq!(rung.rung(), 1);
    let down = SocketError::Down;
    assert_eq!(poll_read(&mut waiter, &waker), Poll::Ready(Err(down)));
    assert_eq!(hosts.client.with(Sockets::socket), Err(down));
    assert_eq!(hosts.client.with(|sockets| sockets.close(call)), Err(down));
    assert_eq!(hosts.client.turn(hosts.now), braidnet_stream::Next::Idle);
    assert!(hosts.client.rest(&waker), "nothing will come of it");
    assert_eq!(hosts.client.recv(call, &mut [0], None), Err(down));
}

#[test]
fn who_turns_is_woken_once_for_what_needs_a_turn() {
    let (mut hosts, connected) = Hosts::new(1);
    let (call, answer) = connected[0];
    hosts.settle();
    let (rung, driver) = bell();
    assert!(hosts.client.rest(&driver));
    let _ = hosts.client.with(|sockets| sockets.readiness(call));
    let _ = hosts.client.with(|sockets| sockets.recv(call, &mut [0]));
    assert_eq!(rung.rung(), 0, "nothing to turn for");
    for _ in 0..3 {
        let sent = hosts.client.with(|sockets| sockets.send(call, b"some"));
        assert_eq!(sent, Ok(4));
    }
    assert_eq!(rung.rung(), 1);
    assert!(!hosts.client.rest(&driver), "it has something to do");
    hosts.settle();
    assert!(hosts.server.rest(&driver));
    let read = hosts
        .server
        .with(|sockets| sockets.recv(answer, &mut [0; 64]));
    assert_eq!(read, Ok(12));
    assert_eq!(rung.rung(), 2, "the window has moved");
}

#[test]
fn who_waits_for_memory_is_woken_by_time() {
    let mut pair = Pair::new();
    let (here, there) = memory::wire(Capabilities::ip(1500), 256);
    let mut small = config("10.0.0.1");
    small.memory_bytes = 1 << 20;
    small.tcp.send_buffer_bytes = 8 << 20;
    pair.client = Sockets::new(&small, here).expect("a stack");
    pair.server = Sockets::new(&config("10.0.0.2"), there).expect("a stack");
    let (call, _) = pair.connected();
    let client = Shared::new(pair.client);
    for _ in 0..4 {
        client.turn(pair.now);
        client.with(|sockets| while sockets.send(call, &[0; 60_000]).is_ok() {});
    }
    assert!(
        client.wait(call, OUT, None).expect("open").contains(OUT),
        "memory ends before the send buffer does"
    );
    let (rung, waker) = bell();
    let mut waiter = Waiter::new(&client, call);
    let mut cx = Context::from_waker(&waker);
    let mut polled =
        |waiter: &mut Waiter<_>| waiter.poll(OUT, &mut cx, |sockets| sockets.send(call, b"more"));
    // However long nobody has turned it.
    pair.now += Duration::from_millis(30);
    assert!(polled(&mut waiter).is_pending());
    let next = client.turn(pair.now);
    assert!(next != braidnet_stream::Next::Idle);
    assert_eq!(rung.rung(), 0);
    client.turn(pair.now + Duration::from_millis(20));
    assert_eq!(rung.rung(), 1);
}
