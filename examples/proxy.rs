//! A proxy between the system's sockets and a stack's, over a TUN device: whoever connects on one side is connected on the other. Needs root.
//!
//! `cargo run -p braidnet --example proxy in:8080=127.0.0.1:80 out:2222=10.77.0.1:22`
//!
//! `in` listens in the stack, at 10.77.0.2, and connects by the system; `out` listens at the system's 127.0.0.1 and connects by the stack. Where one
//! side ends what it sends, so is the other told; a reset goes on as a reset; and whoever does not read holds up whoever sends to it.

use braidnet::StackConfig;
use braidnet::device::tun::{HostAddress, Mode, TunConfig, TunDevice};
use braidnet::net::Host;
use braidnet::wire::address::Address;
use rustix::io::Errno;
use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional_with_sizes};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Connections at a time of each rule; more of them wait in the listener's queue.
const CONNECTIONS: usize = 256;
/// Bytes of each direction of one, besides what the sockets of both sides hold.
const BUFFER: usize = 64 << 10;

/// How long nobody is accepted where the system has no descriptor left.
const PAUSE: Duration = Duration::from_millis(100);

/// On one thread, beside the stack's own: so connections are passed on in the order in which they came, which some programs rely on.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let rules: Option<Vec<Rule>> = std::env::args().skip(1).map(|rule| parse(&rule)).collect();
    let Some(rules) = rules.filter(|rules| !rules.is_empty()) else {
        return Err("say what to forward: in:PORT=ADDRESS:PORT or out:PORT=ADDRESS:PORT".into());
    };

    // The system's side of the device; the stack answers on the other.
    let mut device = TunConfig::new(Mode::Tun);
    device.host = Some(HostAddress {
        address: Address::v4([10, 77, 0, 1]),
        prefix: 24,
    });
    let config = StackConfig::new("10.77.0.2".parse()?);
    let host = Host::start(&config, TunDevice::create(device)?)?;

    let mut listening = JoinSet::new();
    for rule in rules {
        match rule {
            Rule::In(port, to) => {
                let at = ("10.77.0.2", port);
                let listener = braidnet::tokio::TcpListener::bind(&host, at).await?;
                println!("{} goes to {to}", listener.local_addr()?);
                listening.spawn(inwards(listener, to));
            }
            Rule::Out(port, to) => {
                let at = ("127.0.0.1", port);
                let listener = tokio::net::TcpListener::bind(at).await?;
                println!("{} goes to {to}", listener.local_addr()?);
                listening.spawn(outwards(listener, host.clone(), to));
            }
        }
    }
    // They go on until the first of them cannot.
    match listening.join_next().await {
        Some(ended) => Ok(ended??),
        None => Ok(()),
    }
}

/// A port to listen at, and where what comes there goes.
enum Rule {
    In(u16, SocketAddr),
    Out(u16, SocketAddr),
}

fn parse(rule: &str) -> Option<Rule> {
    let (way, ends) = rule.split_once(':')?;
    let (port, to) = ends.split_once('=')?;
    let (port, to) = (port.parse().ok()?, to.parse().ok()?);
    match way {
        "in" => Some(Rule::In(port, to)),
        "out" => Some(Rule::Out(port, to)),
        _ => None,
    }
}

async fn inwards(listener: braidnet::tokio::TcpListener, to: SocketAddr) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = room.clone().acquire_owned().await;
        let (stream, _) = listener.accept().await?;
        tokio::spawn(async move {
            join(stream, tokio::net::TcpStream::connect(to).await, to).await;
            drop(place);
        });
    }
}

/// Whether the system may accept again later: the caller has gone, or descriptors are used up.
fn passes(error: &io::Error) -> bool {
    let passing = [Errno::CONNABORTED, Errno::MFILE, Errno::NFILE];
    Errno::from_io_error(error).is_some_and(|number| passing.contains(&number))
}

async fn outwards(listener: tokio::net::TcpListener, host: Host, to: SocketAddr) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let place = room.clone().acquire_owned().await;
        let (stream, _) = match listener.accept().await {
            Err(error) if passes(&error) => {
                eprintln!("nobody is accepted for a moment: {error}");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
            accepted => accepted?,
        };
        let host = host.clone();
        tokio::spawn(async move {
            let dialled = braidnet::tokio::TcpStream::connect(&host, to).await;
            join(stream, dialled, to).await;
            drop(place);
        });
    }
}

/// Copies both ways until both sides have ended, or one is reset: the other is then, too, as is a caller for whom nobody answers.
async fn join(mut caller: impl Stream, dialled: io::Result<impl Stream>, to: SocketAddr) {
    let mut called = match dialled {
        Ok(called) => called,
        Err(error) => {
            eprintln!("{to}: {error}");
            return caller.resets();
        }
    };
    caller.pushes();
    called.pushes();
    let copied = copy_bidirectional_with_sizes(&mut caller, &mut called, BUFFER, BUFFER).await;
    if copied.is_err() {
        caller.resets();
        called.resets();
    }
}

/// A stream of either kind. What the socket of one that is gone refuses is of no consequence: reading will say so.
trait Stream: AsyncRead + AsyncWrite + Unpin {
    /// What is written leaves at once: whoever wrote it on the other side has waited long enough.
    fn pushes(&self);

    /// Dropping it resets the connection.
    fn resets(&self);
}

impl Stream for tokio::net::TcpStream {
    fn pushes(&self) {
        let _ = self.set_nodelay(true);
    }

    fn resets(&self) {
        let _ = self.set_zero_linger();
    }
}

impl Stream for braidnet::tokio::TcpStream {
    fn pushes(&self) {
        let _ = self.set_nodelay(true);
    }

    fn resets(&self) {
        let _ = self.get_ref().set_linger(Some(Duration::ZERO));
    }
}
