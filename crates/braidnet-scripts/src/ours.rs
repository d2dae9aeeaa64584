//! braidnet as a script's host: the sockets of a caller-turned stack, in virtual time.

use crate::host::{Answer, Call, Choice, ERR, HUP, Host, IN, OUT, Punctuality, RDHUP};
use crate::{Failure, Play, Script};
use braidnet::device::{Capabilities, Device, QueuePair, memory};
use braidnet::message::{Arena, Pool, Run};
use braidnet::socket::{How, Readiness, Socket, SocketError, SocketOption, Sockets};
use braidnet::stream::Next;
use braidnet::tcp::{EcnMode, FastOpen};
use braidnet::{Instant, StackConfig};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::Duration;

/// Plays a script against a new stack.
///
/// # Errors
/// If it does not do as the script says.
pub fn play(script: &Script) -> Result<(), Failure> {
    Play::run(script, &mut Ours::new())
}

const HOST: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 1), 8080);
const PEER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 4242);
/// Scripts begin then: at 0, clocks look as if they had not been set.
const START: Instant = Instant::from_millis(1_000_000);

/// A stack and the other end of its wire.
pub struct Ours {
    sockets: Sockets,
    wire: QueuePair,
    pool: Pool,
    now: Instant,
    out: VecDeque<(Duration, Vec<u8>)>,
    listener: Option<Socket>,
    connection: Option<Socket>,
}

impl Default for Ours {
    fn default() -> Self {
        Ours::new()
    }
}

impl Ours {
    /// A stack as it ships, on a wire with an MTU of 1,500 bytes, but that data may travel with its SYNs, as with Linux's.
    pub fn new() -> Ours {
        let mut config = StackConfig::new(HOST.ip().to_owned().into());
        config.buckets = 2;
        config.memory_bytes = 16 << 20;
        config.tcp.fast_open = FastOpen::Connect;
        let (near, far) = memory::wire(Capabilities::ip(1500), 1024);
        let sockets = Sockets::new(&config, near).expect("the configuration makes sense");
        let mut queues = Box::new(far).open().expect("a device in memory opens");
        Ours {
            sockets,
            wire: queues.remove(0),
            pool: Pool::new(&Arena::new(4 << 20)),
            now: START,
            out: VecDeque::new(),
            listener: None,
            connection: None,
        }
    }

    /// Turns until nothing is left to do now; when something is next.
    fn settle(&mut self) -> Option<Instant> {
        loop {
            let next = self.sockets.turn(self.now);
            let mut run = Run::new();
            self.wire.receiver.receive(&mut self.pool, &mut run, 1024);
            let at = self.now.since(START);
            for message in run.drain() {
                let mut bytes = vec![0; message.total_len()];
                message.copy_to_slice(&mut bytes);
                self.out.push_back((at, bytes));
            }
            match next {
                Next::Again => {}
                Next::At(at) if at <= self.now => {}
                Next::At(at) => return Some(at),
                Next::Idle => return None,
            }
        }
    }

    /// The connection, or what stands for it as long as there is none.
    fn subject(&mut self) -> Result<Socket, SocketError> {
        match self.connection.or(self.listener) {
            Some(socket) => Ok(socket),
            None => self.fresh(),
        }
    }

    fn fresh(&mut self) -> Result<Socket, SocketError> {
        let socket = self.sockets.socket()?;
        self.sockets
            .set_option(socket, SocketOption::ReuseAddress(true))?;
        self.sockets.bind(socket, SocketAddr::V4(HOST))?;
        self.connection = Some(socket);
        Ok(socket)
    }

    fn asked(&mut self, call: &Call, bytes: &[u8]) -> Result<Answer, SocketError> {
        let socket = match (call, self.listener) {
            (Call::Accept | Call::CloseListener, Some(listener)) => listener,
            _ => self.subject()?,
        };
        let sockets = &mut self.sockets;
        let mut number = 0;
        match *call {
            Call::Listen(backlog) => {
                sockets.listen(socket, backlog)?;
                self.listener = self.connection.take();
            }
            Call::Connect => sockets.connect(socket, SocketAddr::V4(PEER))?,
            Call::ConnectWith(_) => {
                number = sockets.connect_with(socket, SocketAddr::V4(PEER), bytes)? as i64;
            }
            Call::Accept => self.connection = Some(sockets.accept(socket)?.0),
            Call::Send(_) => number = sockets.send(socket, bytes)? as i64,
            Call::SendMore(_) => number = sockets.send_more(socket, bytes)? as i64,
            Call::Recv(most) | Call::Peek(most) => {
                let mut to = vec![0; most];
                let n = match call {
                    Call::Recv(_) => sockets.recv(socket, &mut to)?,
                    _ => sockets.peek(socket, &mut to)?,
                };
                to.truncate(n);
                return Ok(Answer::Bytes(to));
            }
            Call::ShutdownWrite => sockets.shutdown(socket, How::Write)?,
            Call::ShutdownRead => sockets.shutdown(socket, How::Read)?,
            Call::Close => {
                sockets.close(socket)?;
                self.connection = None;
            }
            Call::CloseListener => sockets.close(socket)?,
            Call::Error => {
                if let Some(error) = sockets.take_error(socket)? {
                    return Err(error);
                }
            }
            Call::Readable => number = sockets.readable_bytes(socket)? as i64,
            Call::Ready => number = bits(sockets.readiness(socket)?),
            Call::Set(choice) => {
                for option in options(choice) {
                    sockets.set_option(socket, option)?;
                }
            }
        }
        Ok(Answer::Number(number))
    }
}

fn bits(ready: Readiness) -> i64 {
    [
        (Readiness::READABLE, IN),
        (Readiness::WRITABLE, OUT),
        (Readiness::ERROR, ERR),
        (Readiness::HANG_UP, HUP),
        (Readiness::READ_HANG_UP, RDHUP),
    ]
    .into_iter()
    .filter(|(flag, _)| ready.contains(*flag))
    .map(|(_, bit)| bit)
    .sum()
}

fn options(choice: Choice) -> Vec<SocketOption> {
    match choice {
        Choice::NoDelay(on) => vec![SocketOption::NoDelay(on)],
        Choice::Cork(on) => vec![SocketOption::Cork(on)],
        Choice::AbortOnClose => vec![SocketOption::Linger(Some(Duration::ZERO))],
        Choice::KeepAlive(idle, interval, probes) => vec![
            SocketOption::KeepIdle(Duration::from_secs(idle.into())),
            SocketOption::KeepInterval(Duration::from_secs(interval.into())),
            SocketOption::KeepCount(probes),
            SocketOption::KeepAlive(true),
        ],
        Choice::UserTimeout(millis) => vec![SocketOption::UserTimeout(Some(
            Duration::from_millis(millis.into()),
        ))],
        Choice::ReceiveBuffer(bytes) => vec![SocketOption::ReceiveBuffer(bytes)],
        Choice::TimeToLive(hops) => vec![SocketOption::TimeToLive(hops)],
        Choice::DifferentiatedServices(point) => {
            vec![SocketOption::DifferentiatedServices(point)]
        }
        Choice::Ecn => vec![SocketOption::Ecn(EcnMode::On)],
        Choice::AccurateEcn => vec![SocketOption::Ecn(EcnMode::Accurate)],
        Choice::FastOpen(pending) => vec![SocketOption::FastOpen(pending)],
        Choice::FastOpenWithoutCookie => vec![SocketOption::FastOpenWithoutCookie(true)],
    }
}

impl Host for Ours {
    fn name(&self) -> &'static str {
        "braidnet"
    }

    fn ends(&self) -> (SocketAddrV4, SocketAddrV4) {
        (HOST, PEER)
    }

    fn now(&self) -> Duration {
        self.now.since(START)
    }

    fn punctuality(&self) -> Punctuality {
        Punctuality {
            early: Duration::from_millis(2),
            late: Duration::from_millis(2),
            at_once: Duration::ZERO,
            linger: Duration::ZERO,
        }
    }

    fn arrives(&mut self, packet: &[u8]) {
        let mut run = Run::new();
        run.extend(self.pool.bind().copy_from_slice(64, packet));
        self.wire.transmitter.transmit(&mut run);
        assert!(run.is_empty(), "the wire has room");
        self.settle();
    }

    fn leaves(&mut self, until: Duration) -> Option<(Duration, Vec<u8>)> {
        let until = START + until;
        loop {
            let next = self.settle();
            if let Some(packet) = self.out.pop_front() {
                return Some(packet);
            }
            match next {
                Some(at) if at <= until => self.now = at,
                _ => {
                    self.now = self.now.max(until);
                    self.settle();
                    return self.out.pop_front();
                }
            }
        }
    }

    fn call(&mut self, call: &Call, bytes: &[u8]) -> Result<Answer, String> {
        let answer = self.asked(call, bytes);
        self.settle();
        answer.map_err(|error| error.errno_name().to_owned())
    }
}
