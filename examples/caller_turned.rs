//! A stack that the caller's own loop turns: no thread, no clock, no lock. Two of them talk to each other in virtual time.
//!
//! `cargo run -p braidnet --example caller_turned`

use braidnet::device::{Capabilities, memory};
use braidnet::{Duration, Event, Instant, ReceiveError, Stack, StackConfig};
use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    let (here, there) = memory::wire(Capabilities::ip(1500), 256);
    let mut client = Stack::new(&StackConfig::new("10.0.0.1".parse()?), here)?;
    let mut server = Stack::new(&StackConfig::new("10.0.0.2".parse()?), there)?;
    server.listen(80, 16)?;
    let call = client.connect("10.0.0.2:80".parse()?)?;

    let payload: Vec<u8> = (0..1_000_000u32).map(|i| (i * 7) as u8).collect();
    let (mut sent, mut received) = (0, Vec::new());
    let (mut now, mut answer, mut turns) = (Instant::ZERO, None, 0);
    while received.len() < payload.len() {
        // The clock is whatever the caller says it is.
        now += Duration::from_micros(100);
        turns += 1;
        client.turn(now);
        server.turn(now);
        if let Some(Event::Accepted(connection)) = server.event() {
            answer = Some(connection);
        }
        sent += client.send(call, &payload[sent..])?;
        if let Some(connection) = answer {
            let mut piece = [0; 16_384];
            match server.receive(connection, &mut piece) {
                Ok(n) => received.extend_from_slice(&piece[..n]),
                Err(ReceiveError::Empty) => {}
                Err(gone) => return Err(gone.into()),
            }
        }
    }
    assert_eq!(received, payload);
    println!(
        "{} bytes in {turns} turns, {:?} of virtual time",
        received.len(),
        now.since(Instant::ZERO)
    );
    for (counter, value) in server.counters() {
        println!("  {counter} {value}");
    }
    Ok(())
}
