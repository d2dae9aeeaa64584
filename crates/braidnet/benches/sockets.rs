//! What sockets cost beside a service on the stack's own processor: bulk data in writes of 64 KiB, in memory.
//!
//! `cargo bench -p braidnet --bench sockets -- 9 400` (rounds, milliseconds of each measurement). Without arguments a smoke size. A service that runs to
//! completion, and a task of tokio's that writes to a stream, send the same bytes to a far end that reads them; what is compared is the processor time of the sending side
//! for each gigabit, the far end's left out. Each way runs once on one thread (another task of the runtime's drives the host), and once with the stack on a thread of its own, where the task has
//! another: what both take counts. Beside them a task sends back what comes, as bytes that it reads and writes, and as messages, which nobody copies: the wire copies
//! each packet into a buffer of the receiver's, as a device does.

use braidnet::device::{Capabilities, Device, memory};
use braidnet::message::Message;
use braidnet::net::{self, Host};
use braidnet::stream::Processor;
use braidnet::sync::usage::{process_cpu_nanos, thread_cpu_nanos};
use braidnet::tokio::{TcpListener, drive};
use braidnet::wire::address::Tuple;
use braidnet::{
    Connection, Instant, Io, ReceiveError, ServerBuilder, Service, Session, Stack, StackConfig,
};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};
use tokio::task::{LocalSet, yield_now};

/// Bytes of one write.
const WRITE: usize = 64 << 10;
const MTU: usize = 4352;
/// Most packets of a turn.
const BUDGET: usize = 64;
/// Part of a measurement that goes before it.
const WARM_UP: u32 = 4;

fn config(address: &str) -> StackConfig {
    StackConfig::new(address.parse().expect("an address"))
}

/// The wire's two ends.
fn wire() -> (memory::WireEnd, memory::WireEnd) {
    memory::wire(Capabilities::ip(MTU), 2048)
}

/// Who reads.
struct Far {
    stack: Stack,
    call: Connection,
    begun: std::time::Instant,
    bytes: u64,
    /// Processor time of its turns, in nanoseconds.
    took: u64,
    /// It sends as much as there is room for, too.
    feeds: bool,
    into: Vec<u8>,
}

impl Far {
    fn new(device: memory::WireEnd) -> Far {
        let mut stack = Stack::new(&config("10.0.0.1"), device).expect("a stack");
        let call = stack.connect(([10, 0, 0, 2], 7).into()).expect("room");
        Far {
            stack,
            call,
            begun: std::time::Instant::now(),
            bytes: 0,
            took: 0,
            feeds: false,
            into: vec![0; WRITE],
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(self.begun.elapsed().as_nanos() as u64 + 1_000_000)
    }

    /// Takes in what has come, reads it, and says so.
    fn turn(&mut self) {
        let begun = thread_cpu_nanos();
        let now = self.now();
        self.stack.turn(now);
        loop {
            match self.stack.receive(self.call, &mut self.into) {
                Ok(bytes) => self.bytes += bytes as u64,
                Err(ReceiveError::Empty) => break,
                Err(ReceiveError::Gone) => panic!("the connection is gone"),
            }
        }
        while self.feeds && self.stack.send(self.call, &self.into) == Ok(WRITE) {}
        self.stack.turn(now);
        self.took += thread_cpu_nanos() - begun;
    }
}

/// A service that sends for ever.
struct Source;

struct Sending {
    block: Vec<u8>,
    at: usize,
}

impl Service for Source {
    fn open(&self, _: &Tuple) -> Box<dyn Session> {
        Box::new(Sending {
            block: vec![7; WRITE],
            at: 0,
        })
    }
}

impl Session for Sending {
    fn connected(&mut self, io: &mut Io<'_, '_>) {
        self.space(io);
    }

    fn data(&mut self, _: Message, _: &mut Io<'_, '_>) {}

    fn space(&mut self, io: &mut Io<'_, '_>) {
        loop {
            let written = io.write(&self.block[self.at..]);
            if written == 0 {
                return;
            }
            self.at = (self.at + written) % WRITE;
        }
    }
}

/// The same as a task.
async fn send(listener: net::TcpListener) {
    let listener = TcpListener::from_std(listener);
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let block = vec![7; WRITE];
    while stream.write_all(&block).await.is_ok() {}
}

/// Sends back what comes, in a buffer of its own.
async fn echo_bytes(listener: net::TcpListener) {
    let listener = TcpListener::from_std(listener);
    let (mut stream, _) = listener.accept().await.expect("a connection");
    let mut block = vec![0; WRITE];
    while let Ok(length @ 1..) = stream.read(&mut block).await {
        if stream.write_all(&block[..length]).await.is_err() {
            return;
        }
    }
}

/// The same in the buffers in which it comes.
async fn echo_messages(listener: net::TcpListener) {
    let listener = TcpListener::from_std(listener);
    let (stream, _) = listener.accept().await.expect("a connection");
    while let Ok(mut message @ Some(_)) = stream.read_message().await {
        while message.is_some() {
            if stream.write_message(&mut message).await.is_err() {
                return;
            }
        }
    }
}

fn listen(host: &Host) -> net::TcpListener {
    net::TcpListener::bind(host, ("0.0.0.0", 7)).expect("a port")
}

/// What a measurement found: processor time of the sending side in nanoseconds for a gigabit, and gigabits a second.
#[derive(Clone, Copy)]
struct Found {
    cost: f64,
    rate: f64,
}

/// Measures for so long, after a part of it: `turn` turns what this thread has to turn, `used` says what processor time to count, in nanoseconds.
macro_rules! measure {
    ($far:expr, $lasts:expr, $used:expr, $turn:expr) => {{
        let begun = std::time::Instant::now();
        while begun.elapsed() < $lasts / WARM_UP {
            $turn;
        }
        let (bytes, used) = ($far.bytes, $used);
        let begun = std::time::Instant::now();
        while begun.elapsed() < $lasts {
            $turn;
        }
        let gigabits = ($far.bytes - bytes) as f64 * 8e-9;
        Found {
            cost: ($used - used) as f64 / gigabits,
            rate: gigabits / begun.elapsed().as_secs_f64(),
        }
    }};
}

/// Of all threads but this one.
fn others_cpu_nanos() -> u64 {
    process_cpu_nanos() - thread_cpu_nanos()
}

fn service_here(lasts: Duration) -> Found {
    let (here, there) = wire();
    let server = ServerBuilder::new(config("10.0.0.2")).tcp(7, Source);
    let mut server = server.turned(there).expect("a server");
    let mut far = Far::new(here);
    measure!(far, lasts, thread_cpu_nanos() - far.took, {
        server.turn(far.now(), BUDGET);
        far.turn();
    })
}

fn tokio_here(lasts: Duration) -> Found {
    let (here, there) = wire();
    task_here(lasts, there, Far::new(here), send)
}

fn bytes_here(lasts: Duration) -> Found {
    let (here, there) = wire();
    let mut far = Far::new(here.copying());
    far.feeds = true;
    task_here(lasts, there.copying(), far, echo_bytes)
}

fn messages_here(lasts: Duration) -> Found {
    let (here, there) = wire();
    let mut far = Far::new(here.copying());
    far.feeds = true;
    task_here(lasts, there.copying(), far, echo_messages)
}

/// A task on the runtime that drives its host, and turns the far end whenever all others wait.
fn task_here<T: Future<Output = ()> + 'static>(
    lasts: Duration,
    device: impl Device,
    mut far: Far,
    task: impl FnOnce(net::TcpListener) -> T,
) -> Found {
    let (host, mut driver) = Host::driven(&config("10.0.0.2"), device).expect("a host");
    let local = LocalSet::new();
    local.spawn_local(task(listen(&host)));
    local.spawn_local(async move { drive(&mut driver).await });
    let runtime = Builder::new_current_thread().enable_time().build();
    local.block_on(&runtime.expect("a runtime"), async {
        measure!(far, lasts, thread_cpu_nanos() - far.took, {
            far.turn();
            yield_now().await;
        })
    })
}

fn runtime() -> Runtime {
    Builder::new_current_thread().build().expect("a runtime")
}

fn service_apart(lasts: Duration) -> Found {
    let (here, there) = wire();
    let server = ServerBuilder::new(config("10.0.0.2")).tcp(7, Source);
    let _server = server.start(there).expect("a server");
    let mut far = Far::new(here);
    measure!(far, lasts, others_cpu_nanos(), far.turn())
}

fn tokio_apart(lasts: Duration) -> Found {
    let (here, there) = wire();
    let host = Host::start(&config("10.0.0.2"), there).expect("a host");
    let listener = listen(&host);
    let task = std::thread::spawn(move || runtime().block_on(send(listener)));
    let mut far = Far::new(here);
    let found = measure!(far, lasts, others_cpu_nanos(), far.turn());
    far.stack.abort(far.call);
    while !task.is_finished() {
        far.stack.turn(far.now());
    }
    found
}

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .filter_map(|word| word.parse().ok())
        .collect();
    let rounds = numbers.first().copied().unwrap_or(1);
    let lasts = Duration::from_millis(numbers.get(1).copied().unwrap_or(20));
    type Way = fn(Duration) -> Found;
    let send = ["service", "tokio"];
    let rows: [(&str, [&str; 2], [Way; 2]); 3] = [
        ("on one thread", send, [service_here, tokio_here]),
        (
            "with the stack on a thread of its own",
            send,
            [service_apart, tokio_apart],
        ),
        (
            "an echo on one thread",
            ["bytes", "messages"],
            [bytes_here, messages_here],
        ),
    ];
    for (place, names, ways) in rows {
        let found: Vec<[Found; 2]> = (0..rounds).map(|_| ways.map(|way| way(lasts))).collect();
        for (way, name) in names.into_iter().enumerate() {
            println!(
                "{place}, {name}: {:.1} ms of processor time for a gigabit, {:.1} Gbit/s",
                median(found.iter().map(|pair| pair[way].cost)) * 1e-6,
                median(found.iter().map(|pair| pair[way].rate)),
            );
        }
        let ratio = median(found.iter().map(|[first, second]| first.cost / second.cost));
        let [first, second] = names;
        println!("{place}, {second} beside {first}, in pairs: {ratio:.2}");
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
