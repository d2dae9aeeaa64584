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
use std::collections::VecDeque;
use std::error::Error;

/// Sends everything back.
struct Echo;

/// One connection's side of it: what there was no space to send back yet.
#[derive(Default)]
struct Waiting(VecDeque<Message>);

impl Service for Echo {
    fn open(&self, _: &Tuple) -> Box<dyn Session> {
        Box::new(Waiting::default())
    }
}

impl Waiting {
    /// Sends what there is space for. A peer that does not read what comes back gets no more: only what went back counts as
    /// taken, so that its window bounds what waits here.
    fn send(&mut self, io: &mut Io<'_, '_>) {
        while let Some(message) = self.0.pop_front() {
            let bytes = message.total_len();
            match io.send(message) {
                Ok(()) => io.took(bytes),
                Err(message) => return self.0.push_front(message),
            }
        }
    }
}

impl Session for Waiting {
    fn data(&mut self, message: Message, io: &mut Io<'_, '_>) {
        self.0.push_back(message);
        self.send(io);
    }

    fn space(&mut self, io: &mut Io<'_, '_>) {
        self.send(io);
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
