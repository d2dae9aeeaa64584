//! An echo service on a stack with two processors of its own, in memory: no root, no device.
//!
//! `cargo run -p braidnet --example echo_service`
//!
//! On a real device only the first line of `main` changes: a `TunDevice` instead of the memory wire.

use braidnet::device::{Capabilities, memory};
use braidnet::message::Message;
use braidnet::wire::address::Tuple;
use braidnet::{
    Architecture, Event, Instant, Io, ServerBuilder, Service, Session, Stack, StackConfig,
};
use std::error::Error;

/// Sends everything back.
struct Echo;

/// One connection's side of it: nothing to remember.
struct Nothing;

impl Service for Echo {
    fn open(&self, _: &Tuple) -> Box<dyn Session> {
        Box::new(Nothing)
    }
}

impl Session for Nothing {
    fn data(&mut self, message: Message, io: &mut Io<'_, '_>) {
        let bytes = message.total_len();
        match io.send(message) {
            Ok(()) => io.took(bytes),
            // No space: a peer that does not read what comes back gets no more.
            Err(_) => io.abort(),
        }
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (here, there) = memory::wire(Capabilities::ip(1500), 1024);
    let server = ServerBuilder::new(StackConfig::new("10.0.0.2".parse()?))
        .architecture(Architecture::Connection, 2)
        .tcp(7, Echo)
        .start(there)?;
    print!("{}", server.placement());

    let mut client = Stack::new(&StackConfig::new("10.0.0.1".parse()?), here)?;
    let clock = std::time::Instant::now();
    let call = client.connect("10.0.0.2:7".parse()?)?;
    let mut heard = [0; 64];
    loop {
        client.turn(Instant::from_nanos(clock.elapsed().as_nanos() as u64));
        match client.event() {
            Some(Event::Connected(_)) => {
                client.send(call, b"hello, stack")?;
            }
            Some(Event::Closed(_, reason)) => return Err(format!("closed: {reason:?}").into()),
            _ => {}
        }
        if client.readable(call) > 0 {
            let n = client.receive(call, &mut heard)?;
            println!("it says: {}", String::from_utf8_lossy(&heard[..n]));
            break;
        }
    }
    server.stop()?;
    Ok(())
}
