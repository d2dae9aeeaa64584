//! What befalls the host's own thread: a device that panics when it is told to, and a waker that has the last handle.

use super::*;
use braidnet::device::{Counters, Device, DeviceError, QueuePair, Receiver};
use braidnet::message::{Pool, Run};
use braidnet::socket::{Readiness, SocketError, Waiter};
use braidnet::sync::parker::Unparker;
use std::io::{ErrorKind, Read};
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;

struct Faulty<D> {
    device: D,
    panics: Arc<AtomicBool>,
}

impl<D: Device> Device for Faulty<D> {
    fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let queues = Box::new(self.device).open()?;
        let faulty = |pair: QueuePair| QueuePair {
            receiver: Box::new(FaultyReceiver {
                receiver: pair.receiver,
                panics: self.panics.clone(),
            }),
            transmitter: pair.transmitter,
        };
        Ok(queues.into_iter().map(faulty).collect())
    }
}

struct FaultyReceiver {
    receiver: Box<dyn Receiver>,
    panics: Arc<AtomicBool>,
}

impl Receiver for FaultyReceiver {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        assert!(!self.panics.load(Ordering::Relaxed), "planted");
        self.receiver.receive(pool, into, max)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.receiver.fd()
    }

    fn has_waiting(&self) -> bool {
        self.receiver.has_waiting()
    }

    fn wake_with(&mut self, unparker: Unparker) -> bool {
        self.receiver.wake_with(unparker)
    }

    fn counters(&self) -> Counters {
        self.receiver.counters()
    }
}

#[test]
fn a_panic_on_the_hosts_thread_is_told_those_who_wait() {
    let (here, there) = memory::wire(Capabilities::ip(1500), 1024);
    let panics = Arc::new(AtomicBool::new(false));
    let device = Faulty {
        device: here,
        panics: panics.clone(),
    };
    let client = Host::start(&config("10.0.0.1"), device).expect("a host");
    let server = Host::start(&config("10.0.0.2"), there).expect("a host");
    let (call, _answer) = connected(&client, &server);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|_| {
                let mut call = call.try_clone().expect("a handle");
                scope.spawn(move || call.read(&mut [0]).expect_err("nobody turns it"))
            })
            .collect();
        panics.store(true, Ordering::Relaxed);
        // Has it turn once more, if it has not by itself.
        let _ = call.set_ttl(7);
        for reader in readers {
            let error = reader.join().expect("no panic");
            assert_eq!(error.kind(), ErrorKind::NetworkDown);
        }
    });
    let refused = TcpStream::connect(&client, "10.0.0.2:7").expect_err("it is down");
    assert_eq!(refused.kind(), ErrorKind::NetworkDown);
}

/// Lets go of a host when it is called.
struct Last(Mutex<Option<Host>>);

impl Wake for Last {
    fn wake(self: Arc<Self>) {
        let host = self.0.lock().expect("no panic").take();
        drop(host.expect("called once"));
    }
}

#[test]
fn a_waker_may_have_the_last_handle() {
    let (client, server) = hosts();
    let shared = server.shared().clone();
    let listener = shared.with(|sockets| {
        let listener = sockets.socket()?;
        sockets.bind(listener, "0.0.0.0:7".parse().expect("an address"))?;
        sockets.listen(listener, 1)?;
        Ok::<_, SocketError>(listener)
    });
    let listener = listener.expect("a free port");
    let last = Waker::from(Arc::new(Last(Mutex::new(Some(server)))));
    let mut waiter = Waiter::new(shared.clone(), listener);
    let polled = waiter.poll(
        Readiness::READABLE,
        &mut Context::from_waker(&last),
        |sockets| sockets.accept(listener),
    );
    assert!(polled.is_pending());
    let _call = TcpStream::connect(&client, "10.0.0.2:7").expect("it listens");
    // The host's thread has called the waker, and ends.
    while shared.with(|sockets| sockets.readiness(listener)) != Err(SocketError::Down) {
        thread::yield_now();
    }
}
