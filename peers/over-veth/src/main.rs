//! The client of `peers/over-veth.sh`: a stack of braidnet's own on an Ethernet interface, by packet sockets or XDP sockets, and one connection from it to `braidnet serve`.

use std::error::Error;
use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use braidnet::StackConfig;
use braidnet::device::packet::{PacketConfig, PacketDevice};
use braidnet::device::xdp::{XdpConfig, XdpDevice};
use braidnet::net::{Host, TcpStream};
use clap::{Parser, Subcommand, ValueEnum};

/// A client on a stack of its own
#[derive(Parser)]
struct Arguments {
    /// The interface
    #[arg(long)]
    interface: String,
    /// By which sockets
    #[arg(long)]
    by: By,
    /// Let the kernel make checksums, and segments of trains (packet sockets only)
    #[arg(long)]
    offload: bool,
    /// The address of the client's stack
    #[arg(long)]
    address: IpAddr,
    /// The server
    #[arg(long)]
    to: IpAddr,
    /// How long
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// What is measured
    #[command(subcommand)]
    load: Load,
}

/// How a stack has an interface.
#[derive(Clone, Copy, ValueEnum)]
enum By {
    /// Shared with the system (AF_PACKET)
    Packet,
    /// Taken over (AF_XDP)
    Xdp,
}

/// What a client does.
#[derive(Clone, Copy, Subcommand)]
enum Load {
    /// Sends to port 9: prints Gbit/s
    Send,
    /// Receives from port 19: prints Gbit/s
    Receive,
    /// One byte to port 7 and back, over and over: prints microseconds, median and 99th percentile
    Echo,
}

/// Bytes of a read or a write.
const PIECE: usize = 128 << 10;
/// What is not counted before the measurement.
const WARM_UP: Duration = Duration::from_millis(300);
/// How long the other side may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = Arguments::parse();
    let config = StackConfig::new(arguments.address);
    let name = &arguments.interface;
    let host = match arguments.by {
        By::Packet => {
            let device = PacketConfig {
                offload: arguments.offload,
                ..PacketConfig::on(name)
            };
            Host::start(&config, PacketDevice::attach(device)?)?
        }
        By::Xdp => Host::start(&config, XdpDevice::attach(XdpConfig::on(name))?)?,
    };
    let time = Duration::from_secs_f64(arguments.seconds.max(0.1));
    let connect = |port| {
        let to = SocketAddr::new(arguments.to, port);
        TcpStream::connect_timeout(&host, &to, PATIENCE)
    };
    match arguments.load {
        Load::Send => bulk(connect(9)?, time, |stream, piece| stream.write(piece))?,
        Load::Receive => bulk(connect(19)?, time, |stream, piece| stream.read(piece))?,
        Load::Echo => echo(connect(7)?, time)?,
    }
    Ok(())
}

fn bulk(
    mut stream: TcpStream,
    time: Duration,
    mut step: impl FnMut(&mut TcpStream, &mut [u8]) -> io::Result<usize>,
) -> io::Result<()> {
    let mut piece = vec![b'x'; PIECE];
    let mut run = |time: Duration| -> io::Result<f64> {
        let begin = Instant::now();
        let mut bytes = 0;
        while begin.elapsed() < time {
            bytes += match step(&mut stream, &mut piece)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => n,
            };
        }
        Ok(bytes as f64 / begin.elapsed().as_secs_f64())
    };
    run(WARM_UP)?;
    println!("{:.3}", run(time)? * 8.0 / 1e9);
    Ok(())
}

fn echo(mut stream: TcpStream, time: Duration) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let begin = Instant::now();
    let mut round_trips = Vec::new();
    let mut byte = [7];
    while begin.elapsed() < WARM_UP + time {
        let asked = Instant::now();
        stream.write_all(&byte)?;
        stream.read_exact(&mut byte)?;
        if asked - begin >= WARM_UP {
            round_trips.push(asked.elapsed());
        }
    }
    if round_trips.is_empty() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    round_trips.sort_unstable();
    let at = |percent: usize| {
        let place = (round_trips.len() * percent / 100).min(round_trips.len() - 1);
        round_trips[place].as_secs_f64() * 1e6
    };
    println!("{:.2} {:.2}", at(50), at(99));
    Ok(())
}
