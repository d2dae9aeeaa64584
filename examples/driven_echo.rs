//! An echo server as with `tokio::net`, where one thread does all: its runtime's tasks are the connections and the stack itself, over a TUN device. Needs root.
//!
//! `cargo run -p braidnet --example driven_echo`, and in another terminal `nc 10.77.0.2 7`.

use braidnet::StackConfig;
use braidnet::device::tun::{HostAddress, Mode, TunConfig, TunDevice};
use braidnet::net::Host;
use braidnet::tokio::{TcpListener, drive};
use braidnet::wire::address::Address;
use std::error::Error;
use std::io;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    // The system's side of the device; the stack answers on the other.
    let mut device = TunConfig::new(Mode::Tun);
    device.host = Some(HostAddress {
        address: Address::v4([10, 77, 0, 1]),
        prefix: 24,
    });
    let config = StackConfig::new("10.77.0.2".parse()?);
    let (host, mut driver) = Host::driven(&config, TunDevice::create(device)?)?;

    let listener = TcpListener::bind(&host, "10.77.0.2:7").await?;
    println!("echo at {}", listener.local_addr()?);
    let accepting = async {
        loop {
            let (mut stream, _) = listener.accept().await?;
            tokio::spawn(async move {
                let (mut reads, mut writes) = stream.split();
                tokio::io::copy(&mut reads, &mut writes).await
            });
        }
    };
    let ended: io::Result<()> = tokio::select! {
        ended = accepting => ended,
        ended = drive(&mut driver) => ended,
    };
    Ok(ended?)
}
