//! Hosts that tasks drive, on the runtime that their sockets are used on.

use super::*;
use crate::net::Driver;
use crate::tokio::drive;
use braidnet_device::qemu::{QemuConfig, QemuDevice};
use braidnet_device::{Counters, Device, DeviceError, MacAddress, QueuePair, Receiver};
use braidnet_message::{Pool, Run};
use core::future::poll_fn;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll};
use core::time::Duration;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// Longer than anything takes, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(60);

/// The two of a wire, of which one calls by a waker and one by a descriptor.
fn wires() -> [[Box<dyn Device>; 2]; 2] {
    let (here, there) = memory::wire(Capabilities::ip(1500), 256);
    let (ours, peers) = UnixStream::pair().expect("a pair");
    let qemu = |socket: UnixStream, last| -> Box<dyn Device> {
        let config = QemuConfig::new(MacAddress([2, 0, 10, 0, 0, last]));
        Box::new(QemuDevice::over(socket, config).expect("a device"))
    };
    [
        [Box::new(here), Box::new(there)],
        [qemu(ours, 1), qemu(peers, 2)],
    ]
}

fn driven([here, there]: [Box<dyn Device>; 2]) -> [(Host, Driver); 2] {
    [("10.0.0.1", here), ("10.0.0.2", there)].map(|(address, device)| {
        let mut config = config(address);
        config.addresses = vec![(address.parse().expect("an address"), Some(24))];
        Host::driven(&config, device).expect("a host")
    })
}

fn spawned(mut driver: Driver) -> JoinHandle<io::Result<()>> {
    tokio::spawn(async move { drive(&mut driver).await })
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    timeout(PATIENCE, work).await.expect("it comes to an end")
}

/// Sends as much as buffers do not hold, and reads the same back; both sockets are closed then.
async fn echo_bytes(client: &Host, server: &Host) {
    let (call, mut answer) = connected(client, server).await;
    let echo = tokio::spawn(async move {
        let (mut reads, mut writes) = answer.split();
        tokio::io::copy(&mut reads, &mut writes)
            .await
            .expect("open")
    });
    let (mut reads, mut writes) = call.into_split();
    let sent: Arc<Vec<u8>> = Arc::new((0..600_000u32).map(|i| (i * 7 + i / 251) as u8).collect());
    let writer = tokio::spawn({
        let sent = sent.clone();
        async move { writes.write_all(&sent).await.expect("open") }
    });
    let mut heard = Vec::new();
    reads.read_to_end(&mut heard).await.expect("open");
    assert!(heard == *sent);
    writer.await.expect("no panic");
    assert_eq!(echo.await.expect("no panic"), sent.len() as u64);
}

#[test]
fn a_runtime_drives_both_hosts_until_nobody_has_them() {
    for wire in 0..2 {
        on_every_runtime(|| async {
            let wire = wires().into_iter().nth(wire).expect("two");
            let [(client, asks), (server, answers)] = driven(wire);
            let drivers = [spawned(asks), spawned(answers)];
            within(echo_bytes(&client, &server)).await;
            assert!(drivers.iter().all(|driver| !driver.is_finished()));
            drop((client, server));
            for driver in drivers {
                within(driver).await.expect("no panic").expect("it drives");
            }
        });
    }
}

/// Threads use the sockets of a host that a task drives, and another host has a thread of its own.
#[test]
fn what_threads_ask_for_wakes_the_driver() {
    use std::io::{Read, Write};
    for wire in wires() {
        let [here, there] = wire;
        let start = |address: &str| {
            let mut config = config(address);
            config.addresses = vec![(address.parse().expect("an address"), Some(24))];
            config
        };
        let client = Host::start(&start("10.0.0.1"), here).expect("a thread");
        let (server, driver) = Host::driven(&start("10.0.0.2"), there).expect("a host");
        let runtime = Builder::new_current_thread().enable_all().build();
        let threads = std::thread::spawn(move || {
            let at = "10.0.0.2:7";
            let listener = crate::net::TcpListener::bind(&server, at).expect("free");
            let echo = std::thread::spawn(move || {
                let (stream, _) = listener.accept().expect("a call");
                io::copy(&mut &stream, &mut &stream).expect("open")
            });
            let mut call = crate::net::TcpStream::connect(&client, at).expect("it listens");
            call.set_nodelay(true).expect("open");
            for number in 0..100 {
                let mut heard = [0];
                call.write_all(&[number]).expect("open");
                call.read_exact(&mut heard).expect("open");
                assert_eq!(heard, [number]);
            }
            drop(call);
            assert_eq!(echo.join().expect("no panic"), 100);
        });
        let driving = async { within(spawned(driver)).await.expect("no panic") };
        let driven = runtime.expect("a runtime").block_on(driving);
        driven.expect("it drives");
        threads.join().expect("no panic");
    }
}

/// Counts how often a future is polled.
struct Polled<F> {
    future: F,
    polls: Arc<AtomicUsize>,
}

impl<F: Future + Unpin> Future for Polled<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.polls.fetch_add(1, Ordering::Relaxed);
        Pin::new(&mut self.future).poll(cx)
    }
}

/// Has a task drive, and counts how often it is polled.
fn spawned_and_counted(mut driver: Driver) -> (JoinHandle<io::Result<()>>, Arc<AtomicUsize>) {
    let polls = Arc::new(AtomicUsize::new(0));
    let count = polls.clone();
    let driving = tokio::spawn(async move {
        let future = pin!(drive(&mut driver));
        Polled {
            future,
            polls: count,
        }
        .await
    });
    (driving, polls)
}

/// Waits until nothing is polled any more; how often it was.
async fn polls_at_rest(polls: &AtomicUsize) -> usize {
    let mut before = usize::MAX;
    for _ in 0..200 {
        let now = polls.load(Ordering::Relaxed);
        if now == before {
            return now;
        }
        before = now;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("polled again and again");
}

/// A connection without data has no timer, so nothing wakes its hosts.
#[test]
fn while_nothing_happens_drivers_are_not_polled() {
    for wire in wires() {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let [(client, mut asks), (server, mut answers)] = driven(wire);
            let polls = Arc::new(AtomicUsize::new(0));
            let count = polls.clone();
            tokio::spawn(async move {
                let both = async { tokio::join!(drive(&mut asks), drive(&mut answers)) };
                let future = pin!(both);
                Polled {
                    future,
                    polls: count,
                }
                .await
            });
            let (mut call, mut answer) = within(connected(&client, &server)).await;
            call.write_all(b"x").await.expect("open");
            answer.read_exact(&mut [0]).await.expect("open");
            // Until the last acknowledgment is through, and what was set for it has come and gone.
            let before = polls_at_rest(&polls).await;
            call.write_all(b"y").await.expect("open");
            within(answer.read_exact(&mut [0])).await.expect("open");
            assert!(polls.load(Ordering::Relaxed) > before);
        });
    }
}

/// Whoever drives is dropped again and again, whatever he is doing, and another goes on.
#[test]
fn a_dropped_driver_loses_nothing() {
    for wire in wires() {
        let runtime = Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            let [(client, mut asks), (server, mut answers)] = driven(wire);
            let mut echo = pin!(within(echo_bytes(&client, &server)));
            for round in 1.. {
                let mut driving =
                    pin!(async { tokio::join!(drive(&mut asks), drive(&mut answers)) });
                let mut polls = 0;
                let some_polls = poll_fn(|cx| {
                    polls += 1;
                    assert!(driving.as_mut().poll(cx).is_pending(), "there are handles");
                    // By then it may be about to turn, or wait for what comes.
                    match polls < round % 4 {
                        true => Poll::Pending,
                        false => Poll::Ready(()),
                    }
                });
                tokio::select! {
                    biased;
                    () = &mut echo => {
                        assert!(round > 4, "{round}");
                        break;
                    }
                    () = some_polls => tokio::task::yield_now().await,
                }
            }
        });
    }
}

/// What was written goes out though nobody holds on to the host; a peer that never answers is waited for no longer than bounds allow.
#[test]
fn what_was_written_goes_out_behind_the_last_handle() {
    let (here, there) = memory::wire(Capabilities::ip(1500), 256);
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let [(client, asks), (server, answers)] = driven([Box::new(here), Box::new(there)]);
        let (asks, answers) = (spawned(asks), spawned(answers));
        let (mut call, mut answer) = within(connected(&client, &server)).await;
        call.write_all(b"last words").await.expect("room");
        drop((call, client));
        let mut heard = String::new();
        within(answer.read_to_string(&mut heard))
            .await
            .expect("open");
        assert_eq!(heard, "last words");
        answer.write_all(b"nobody reads that").await.expect("room");
        within(asks).await.expect("no panic").expect("it drives");
        drop((answer, server));
        within(answers).await.expect("no panic").expect("it drives");
    });
}

/// A device that brings nothing, and is gone when the other end of its socket is closed.
struct Silent {
    socket: UnixStream,
    is_gone: bool,
}

impl Device for Silent {
    fn capabilities(&self) -> &Capabilities {
        const { &Capabilities::ip(1500) }
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let (here, _) = memory::wire(Capabilities::ip(1500), 1);
        let mut queues = Box::new(here).open()?;
        queues[0].receiver = self;
        Ok(queues)
    }
}

impl Receiver for Silent {
    fn receive(&mut self, _: &mut Pool, _: &mut Run, _: usize) -> usize {
        self.is_gone |= matches!(self.socket.read(&mut [0]), Ok(0));
        0
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn is_gone(&self) -> bool {
        self.is_gone
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

/// Its descriptor stays ready for ever, and the runtime never forgets that.
#[test]
fn a_device_that_is_gone_is_waited_for_no_more() {
    on_every_runtime(|| async {
        let (socket, other_end) = UnixStream::pair().expect("a pair");
        socket.set_nonblocking(true).expect("a socket");
        let device = Silent {
            socket,
            is_gone: false,
        };
        let (host, driver) = Host::driven(&config("10.0.0.1"), device).expect("a host");
        let (driving, polls) = spawned_and_counted(driver);
        let before = polls_at_rest(&polls).await;
        drop(other_end);
        while polls.load(Ordering::Relaxed) == before {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        polls_at_rest(&polls).await;
        // Nobody answers there, but the host lives on.
        let refused = TcpListener::bind(&host, "10.0.0.1:7").await;
        drop(refused.expect("free"));
        drop(host);
        within(driving).await.expect("no panic").expect("it drives");
    });
}

/// What was asked for before the panic stays undone, and nobody is woken for it again and again.
#[test]
fn a_host_that_is_down_rests() {
    on_every_runtime(|| async {
        let (here, _there) = memory::wire(Capabilities::ip(1500), 256);
        let (host, driver) = Host::driven(&config("10.0.0.1"), here).expect("a host");
        let (driving, polls) = spawned_and_counted(driver);
        polls_at_rest(&polls).await;
        let panics = || {
            host.shared().with(|sockets| {
                let call = sockets.socket().expect("room");
                let begun = sockets.connect(call, SERVER.parse().expect("an address"));
                panic!("planted: {begun:?}")
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        polls_at_rest(&polls).await;
        let down = TcpListener::bind(&host, "10.0.0.1:7").await.map(drop);
        assert!(down.is_err());
        drop(host);
        within(driving).await.expect("no panic").expect("it drives");
    });
}
