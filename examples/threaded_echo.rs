//! An echo server as with `std::net`, a thread for each connection, on a stack of its own over a TUN device. Needs root.
//!
//! `cargo run -p braidnet --example threaded_echo`, and in another terminal `nc 10.77.0.2 7`.

use braidnet::StackConfig;
use braidnet::device::tun::{HostAddress, Mode, TunConfig, TunDevice};
use braidnet::net::{Host, TcpListener};
use braidnet::wire::address::Address;
use std::error::Error;
use std::{io, thread};

fn main() -> Result<(), Box<dyn Error>> {
    // The system's side of the device; the stack answers on the other.
    let mut device = TunConfig::new(Mode::Tun);
    device.host = Some(HostAddress {
        address: Address::v4([10, 77, 0, 1]),
        prefix: 24,
    });
    let config = StackConfig::new("10.77.0.2".parse()?);
    let host = Host::start(&config, TunDevice::create(device)?)?;

    let listener = TcpListener::bind(&host, "10.77.0.2:7")?;
    println!("echo at {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        thread::spawn(move || io::copy(&mut &stream, &mut &stream));
    }
    Ok(())
}
