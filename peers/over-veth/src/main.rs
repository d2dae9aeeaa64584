//! The ends of `peers/over-veth.sh` that are not `braidnet serve`: the client on a stack of braidnet's own on an Ethernet interface, by packet sockets or XDP sockets, and server and
//! client on smoltcp.

mod smoltcp;

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use braidnet::StackConfig;
use braidnet::device::packet::{PacketConfig, PacketDevice};
use braidnet::device::xdp::{XdpConfig, XdpDevice};
use braidnet::net::{Host, TcpStream};
use clap::{Args, Parser, ValueEnum};
use over_tun::load::{Load, Measured};

/// One end of a pair of interfaces, on a stack of its own
#[derive(Parser)]
enum Arguments {
    /// Serves with smoltcp
    Smoltcp {
        /// The interface
        #[arg(long)]
        interface: String,
        /// The address of the stack
        #[arg(long)]
        address: Ipv4Addr,
        /// Bytes of each buffer of a connection
        #[arg(long, default_value_t = BUFFER)]
        buffer: usize,
    },
    /// Measures a server
    Client(Client),
}

#[derive(Args)]
struct Client {
    /// The interface
    #[arg(long)]
    interface: String,
    /// By which stack and sockets
    #[arg(long)]
    by: By,
    /// Let the kernel make checksums, and segments of trains (packet sockets only)
    #[arg(long)]
    offload: bool,
    /// Bytes of each buffer of a connection (smoltcp only)
    #[arg(long, default_value_t = BUFFER)]
    buffer: usize,
    /// The address of the client's stack
    #[arg(long)]
    address: Ipv4Addr,
    /// The server
    #[arg(long)]
    to: Ipv4Addr,
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
    /// braidnet, shared with the system (AF_PACKET)
    Packet,
    /// braidnet, taken over (AF_XDP)
    Xdp,
    /// smoltcp, shared with the system (AF_PACKET)
    Smoltcp,
}

/// Of smoltcp's buffers the size with which it is fastest here.
const BUFFER: usize = 4 << 20;
/// How long the other side may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

fn main() -> Result<(), Box<dyn Error>> {
    match Arguments::parse() {
        Arguments::Smoltcp {
            interface,
            address,
            buffer,
        } => smoltcp::Stack::new(&interface, address)?.serve(buffer)?,
        Arguments::Client(client) => client.measure()?.print(),
    }
    Ok(())
}

impl Client {
    fn measure(&self) -> Result<Measured, Box<dyn Error>> {
        let name = &self.interface;
        let config = StackConfig::new(self.address.into());
        let host = match self.by {
            By::Packet => {
                let device = PacketConfig {
                    offload: self.offload,
                    ..PacketConfig::on(name)
                };
                Host::start(&config, PacketDevice::attach(device)?)?
            }
            By::Xdp => Host::start(&config, XdpDevice::attach(XdpConfig::on(name))?)?,
            By::Smoltcp => return self.measure_smoltcp(),
        };
        let stream = TcpStream::connect_timeout(&host, &self.server(), PATIENCE)?;
        stream.set_nodelay(matches!(self.load, Load::Echo))?;
        Ok(self.load.run(stream, self.time())?)
    }

    fn measure_smoltcp(&self) -> Result<Measured, Box<dyn Error>> {
        let stack = smoltcp::Stack::new(&self.interface, self.address)?;
        let connection = stack.connect(self.server(), self.buffer, PATIENCE)?;
        Ok(self.load.run(connection, self.time())?)
    }

    fn server(&self) -> SocketAddr {
        (self.to, self.load.port()).into()
    }

    fn time(&self) -> Duration {
        Duration::from_secs_f64(self.seconds.max(0.1))
    }
}
