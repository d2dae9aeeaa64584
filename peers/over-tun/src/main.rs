//! Whoever `peers/tun-speed.sh` compares `braidnet serve` with, and the client that talks to all of them.
//!
//! Every server has the same three services: what comes to port 9 is thrown away, port 19 sends without end, and port 7 sends
//! back what it gets.

mod behind_tun;
mod client;
mod kernel;
mod tun;

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use over_tun::load::Load;

/// Another stack behind a TUN device, the kernel's own sockets, or their client
#[derive(Parser)]
enum Arguments {
    /// Serves with smoltcp on a TUN device that is there already
    Smoltcp {
        /// The device
        #[arg(long)]
        tun: String,
        /// The address of the stack
        #[arg(long)]
        address: Ipv4Addr,
        /// Bytes of each buffer of a connection
        #[arg(long, default_value_t = 4 << 20)]
        buffer: usize,
        /// Connections that each service takes at a time
        #[arg(long, default_value_t = 16)]
        connections: usize,
        /// Cut and join segments in the stack, as on a device without `vnet_hdr`
        #[arg(long)]
        plain: bool,
    },
    /// Serves with the kernel's sockets
    Kernel {
        /// The address to listen on
        #[arg(long)]
        address: IpAddr,
    },
    /// Measures a server
    Client {
        /// The server
        #[arg(long)]
        to: IpAddr,
        /// How long
        #[arg(long, default_value_t = 3.0)]
        seconds: f64,
        /// Connections at a time
        #[arg(long, default_value_t = 1)]
        connections: usize,
        /// What is measured
        #[command(subcommand)]
        load: Load,
    },
}

fn main() -> ExitCode {
    let done = match Arguments::parse() {
        Arguments::Smoltcp {
            tun,
            address,
            buffer,
            connections,
            plain,
        } => behind_tun::serve(&tun, address, buffer, connections, !plain),
        Arguments::Kernel { address } => kernel::serve(address),
        Arguments::Client {
            to,
            seconds,
            connections,
            load,
        } => {
            let time = Duration::from_secs_f64(seconds.max(0.1));
            client::measure(to, time, connections.max(1), load)
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("over_tun: {error}");
            ExitCode::FAILURE
        }
    }
}
