//! Connections that are opened and closed again.

use super::{Pair, SERVICE_PORT, SMALL_BUFFER_BYTES};
use crate::machine::Stopwatch;
use crate::payload::{Digest, Payload};
use crate::side::{CHURN_BATCH, ChurnConfig, ChurnResult};
use braidnet::{CloseReason, Event, Instant};

/// Turns in which nothing is heard of the connections of a batch, at most.
const PATIENCE_TURNS: usize = 1000;

/// Runs a churn load between the client and the server.
///
/// # Panics
/// If a byte does not arrive, or a connection stands still.
pub fn churn(config: &ChurnConfig) -> ChurnResult {
    let connections = config.idle_connections + 2 * CHURN_BATCH;
    let mut pair = Pair::new(1500, SMALL_BUFFER_BYTES, 4 * connections);
    pair.connect(config.idle_connections);
    let mut run = ChurnRun {
        payload: Payload::new(),
        digest: Digest::default(),
        pair,
        opened: 0,
    };
    run.batches(config.batches.div_ceil(10));
    let stopwatch = Stopwatch::start();
    run.batches(config.batches);
    let (wall_ns, cpu_ns) = stopwatch.read();
    ChurnResult {
        wall_ns,
        cpu_ns,
        hash: run.digest.value(),
    }
}

struct ChurnRun {
    payload: Payload,
    digest: Digest,
    pair: Pair,
    opened: u64,
}

impl ChurnRun {
    /// Each client says a byte and closes as soon as it can; each server reads it, and closes once it is told of the end.
    fn batches(&mut self, count: u64) {
        for _ in 0..count {
            let to = ([10, 0, 0, 2], SERVICE_PORT).into();
            for _ in 0..CHURN_BATCH {
                self.pair.client.connect(to).expect("room");
            }
            let mut bytes = Vec::with_capacity(CHURN_BATCH);
            let (mut gone, mut turns) = ([0, 0], 0);
            while gone != [CHURN_BATCH; 2] {
                let now = self.pair.now_as_instant();
                gone[0] += self.turn_client(now);
                gone[1] += self.turn_server(now, &mut bytes);
                turns += 1;
                assert!(turns < PATIENCE_TURNS, "braidnet stands still");
            }
            assert_eq!(bytes.len(), CHURN_BATCH);
            bytes.sort_unstable();
            self.digest.all(&bytes);
        }
    }

    /// Takes in what has come, and hands down what that leads to; how many connections are gone.
    fn turn_client(&mut self, now: Instant) -> usize {
        let client = &mut self.pair.client;
        client.turn(now);
        let mut gone = 0;
        while let Some(event) = client.event() {
            match event {
                Event::Connected(call) => {
                    let byte = self.payload.byte(self.opened);
                    assert_eq!(client.send(call, &[byte]), Ok(1));
                    client.close(call);
                    self.opened += 1;
                }
                Event::Closed(call, reason) => {
                    assert_eq!(reason, CloseReason::Closed);
                    client.forget(call);
                    gone += 1;
                }
                _ => {}
            }
        }
        client.turn(now);
        gone
    }

    /// The same at the other end.
    fn turn_server(&mut self, now: Instant, bytes: &mut Vec<u8>) -> usize {
        let server = &mut self.pair.server;
        server.turn(now);
        let mut gone = 0;
        while let Some(event) = server.event() {
            match event {
                Event::EndOfData(answer) => {
                    let mut byte = [0];
                    assert_eq!(server.receive(answer, &mut byte), Ok(1));
                    bytes.extend(byte);
                    server.close(answer);
                }
                Event::Closed(answer, reason) => {
                    assert_eq!(reason, CloseReason::Closed);
                    server.forget(answer);
                    gone += 1;
                }
                _ => {}
            }
        }
        server.turn(now);
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_does_what_it_does_at_the_other_stack() {
        for idle_connections in [0, 50] {
            let config = ChurnConfig {
                idle_connections,
                batches: 10,
            };
            let other = crate::smoltcp_side::churn(&config);
            assert_eq!(churn(&config).hash, other.hash);
        }
    }
}
