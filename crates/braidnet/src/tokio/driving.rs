//! A host on a runtime's own threads.

use crate::net::Driver;
use braidnet_stream::Next;
use braidnet_sync::clock::Clock;
use braidnet_wire::time::Instant;
use core::future::poll_fn;
use core::pin::pin;
use core::task::Poll;
use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time;

/// Drives a host ([`Host::driven`](crate::net::Host::driven)) on the runtime that polls this, between its other tasks. While there is nothing to do it sleeps until the device has
/// packets, a socket is used, or a timer is due, and takes no processor time. It ends when the last handle on the host and the last of its sockets are gone, and peers have acknowledged what was sent, or
/// two seconds have passed.
///
/// A future that is dropped before loses nothing: what there is waits for the next that drives the same host. With `driver`
/// itself goes the host, and its sockets are [down](crate::socket::SocketError::Down).
///
/// Timers are the runtime's, which tell time to a millisecond: what is due may be done so much later.
///
/// # Errors
/// If the system or the runtime does not let the device's descriptor be waited for.
///
/// # Panics
/// If the runtime has no timers, or, where the device has a descriptor, cannot wait for one (`enable_all`); as [`Driver::turn`].
///
/// ```
/// use braidnet::device::{memory, Capabilities};
/// use braidnet::net::Host;
/// use braidnet::tokio::{drive, TcpListener, TcpStream};
/// use braidnet::StackConfig;
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// # runtime.block_on(async {
/// let (here, there) = memory::wire(Capabilities::ip(1500), 256);
/// let (server, mut answers) = Host::driven(&StackConfig::new("10.0.0.2".parse()?), there)?;
/// let (client, mut asks) = Host::driven(&StackConfig::new("10.0.0.1".parse()?), here)?;
/// // Both on this thread, as all else.
/// let answers = tokio::spawn(async move { drive(&mut answers).await });
/// let asks = tokio::spawn(async move { drive(&mut asks).await });
///
/// let listener = TcpListener::bind(&server, "10.0.0.2:7").await?;
/// let echo = tokio::spawn(async move {
///     let (mut stream, _) = listener.accept().await?;
///     let (mut reads, mut writes) = stream.split();
///     tokio::io::copy(&mut reads, &mut writes).await
/// });
/// let mut stream = TcpStream::connect(&client, "10.0.0.2:7").await?;
/// stream.write_all(b"hello").await?;
/// stream.shutdown().await?;
/// let mut heard = String::new();
/// stream.read_to_string(&mut heard).await?;
/// assert_eq!(heard, "hello");
/// assert_eq!(echo.await??, 5);
///
/// drop((stream, client, server));
/// asks.await??;
/// answers.await??;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn drive(driver: &mut Driver) -> io::Result<()> {
    let mut device = watched(driver)?;
    let clock = Clock::shared();
    let mut timer = pin!(time::sleep(time::Duration::ZERO));
    // When the timer wakes: then, or before, as what is due is put off again and again.
    let mut set_to = Instant::MAX;
    poll_fn(|cx| {
        // Before the turn, which says if it has left anything: what comes after that is told again.
        while let Some(watched) = &device {
            let Poll::Ready(ready) = watched.poll_read_ready(cx) else {
                break;
            };
            let mut ready = ready?;
            let is_closed = ready.ready().is_read_closed();
            ready.clear_ready();
            if is_closed {
                // The runtime would say so for ever. What has come before the end, turns tell of until it is taken.
                device = None;
            }
        }
        let now = Instant::from_nanos(clock.now_nanos());
        let due = match driver.turn(now, cx.waker()) {
            None => return Poll::Ready(Ok(())),
            // Behind the tasks that wait for their turn.
            Some(Next::Again) => now,
            Some(Next::At(at)) => at,
            Some(Next::Idle) => return Poll::Pending,
        };
        if due <= now {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        if due < set_to || set_to <= now {
            timer.as_mut().reset(time::Instant::now() + due.since(now));
            set_to = due;
        }
        if timer.as_mut().poll(cx).is_ready() {
            set_to = Instant::MAX;
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    })
    .await
}

/// What tells of packets, for a runtime to wait for.
fn watched(driver: &Driver) -> io::Result<Option<AsyncFd<OwnedFd>>> {
    let fd = driver.fd().map(|fd| fd.try_clone_to_owned()).transpose()?;
    // Deprecated for types that may change their descriptor; this one owns it, and what has taken its place is unsafe.
    #[allow(deprecated)]
    let watch = |fd| AsyncFd::with_interest(fd, Interest::READABLE);
    fd.map(watch).transpose()
}
