//! A module of one's own in the stream: a cipher (a very weak one) between TCP and the application.
//!
//! `cargo run -p braidnet --example own_module`
//!
//! The module knows nothing of threads or locks: its work is order-free, so it has no core, needs no perimeter, and the
//! same code runs under every architecture.

use braidnet::device::{Capabilities, memory};
use braidnet::inet::HEADROOM;
use braidnet::message::{Kind, Message, Pool, Run};
use braidnet::stream::{Context, Counter, Direction, Module, Stages};
use braidnet::{Event, Instant, Stack, StackConfig};
use std::error::Error;

/// Adds a number to every byte on the way down and takes it off on the way up.
struct Caesar {
    shift: u8,
}

const BYTES: Counter = Counter(0);
const NO_BUFFER: Counter = Counter(1);

impl Module for Caesar {
    fn name(&self) -> &'static str {
        "caesar"
    }

    fn stages(&self) -> Stages {
        Stages::BEFORE_UP | Stages::BEFORE_DOWN
    }

    fn counters(&self) -> &'static [&'static str] {
        &["bytes", "no_buffer"]
    }

    fn before(&self, direction: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let shift = match direction {
            Direction::Up => self.shift.wrapping_neg(),
            Direction::Down => self.shift,
        };
        // What stays in the run goes on to the neighbour; what is taken out must be accounted for.
        run.retain_mut(|message| {
            if message.kind() != Kind::Data {
                return true;
            }
            match written(message, shift, cx.pool()) {
                Some(bytes) => {
                    cx.count(BYTES, bytes as u64);
                    true
                }
                None => {
                    cx.count(NO_BUFFER, 1);
                    false
                }
            }
        });
    }
}

/// Shifts every byte of the message: in place, or in a copy where others see the same bytes. How many; `None` without a
/// buffer.
fn written(message: &mut Message, shift: u8, pool: &mut Pool) -> Option<usize> {
    let len = message.total_len();
    if message.len() != len || message.bytes_mut().is_none() {
        let mut copy = pool.allocate(HEADROOM, len)?;
        message.copy_to_slice(copy.append(len)?);
        copy.set_connection(message.connection());
        copy.set_bucket(message.bucket());
        copy.set_position(message.position());
        *message = copy;
    }
    for byte in message.bytes_mut()? {
        *byte = byte.wrapping_add(shift);
    }
    Some(len)
}

fn main() -> Result<(), Box<dyn Error>> {
    let (here, there) = memory::wire(Capabilities::ip(1500), 64);
    let stack = |address: &str, end, shift| -> Result<Stack, Box<dyn Error>> {
        let config = StackConfig::new(address.parse()?);
        Ok(Stack::with_modules(&config, end, |stream| {
            stream.push(Caesar { shift });
        })?)
    };
    let mut client = stack("10.0.0.1", here, 3)?;
    let mut server = stack("10.0.0.2", there, 3)?;
    server.listen(7, 16)?;
    let call = client.connect("10.0.0.2:7".parse()?)?;
    let now = Instant::ZERO;
    for _ in 0..3 {
        client.turn(now);
        server.turn(now);
    }
    let Some(Event::Accepted(answer)) = server.event() else {
        return Err("nobody called".into());
    };
    client.send(call, b"attack at dawn")?;
    client.turn(now);
    server.turn(now);
    let mut heard = [0; 64];
    let n = server.receive(answer, &mut heard)?;
    println!("heard: {}", String::from_utf8_lossy(&heard[..n]));
    println!("ciphered: {} bytes", client.counters()["caesar.bytes"]);
    Ok(())
}
