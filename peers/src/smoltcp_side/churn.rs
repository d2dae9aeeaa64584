//! Connections that are opened and closed again.

use super::{CLIENT_PORTS, FIRST_CLIENT_PORT, Pair, SERVER, SERVICE_PORT, SMALL_BUFFER_BYTES};
use crate::machine::Stopwatch;
use crate::payload::{Digest, Payload};
use crate::side::{CHURN_BATCH, ChurnConfig, ChurnResult};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp::{Socket, State};
use smoltcp::wire::IpEndpoint;

/// Runs a churn load between the client and the server.
///
/// # Panics
/// If a byte does not arrive, or a connection stands still.
pub fn churn(config: &ChurnConfig) -> ChurnResult {
    let mut pair = Pair::new(1500);
    pair.connect(config.idle_connections, SMALL_BUFFER_BYTES, None);
    let mut sockets = || {
        [&mut pair.client, &mut pair.server].map(|stack| stack.add_socket(SMALL_BUFFER_BYTES, None))
    };
    let ends: Vec<_> = (0..CHURN_BATCH).map(|_| sockets()).collect();
    let mut run = ChurnRun {
        payload: Payload::new(),
        digest: Digest::default(),
        pair,
        ends,
        idle: config.idle_connections,
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
    /// The sockets of both ends, which every batch uses again: what is in TIME-WAIT is free to be opened anew.
    ends: Vec<[SocketHandle; 2]>,
    idle: usize,
    opened: u64,
}

impl ChurnRun {
    fn batches(&mut self, count: u64) {
        for _ in 0..count {
            self.open();
            let mut bytes = Vec::with_capacity(CHURN_BATCH);
            let mut turns = 0;
            while !self.is_over() {
                self.turn(&mut bytes);
                turns += 1;
                assert!(turns < 1000, "smoltcp stands still");
            }
            assert_eq!(bytes.len(), CHURN_BATCH);
            bytes.sort_unstable();
            self.digest.all(&bytes);
        }
    }

    fn open(&mut self) {
        let remote = IpEndpoint::new(SERVER, SERVICE_PORT);
        for &[client, server] in &self.ends {
            let listening = self.pair.server.socket(server).listen(SERVICE_PORT);
            listening.expect("a closed socket can listen");
            let free = CLIENT_PORTS - self.idle as u64;
            let port = self.idle as u64 + self.opened % free;
            let port = FIRST_CLIENT_PORT + port as u16;
            let stack = &mut self.pair.client;
            let context = stack.interface.context();
            let opening = stack
                .sockets
                .get_mut::<Socket<'_>>(client)
                .connect(context, remote, port);
            opening.expect("a closed socket can connect");
            self.opened += 1;
        }
    }

    /// Each client says a byte and closes as soon as it can; each server reads it, and closes once it is told of the end.
    fn turn(&mut self, bytes: &mut Vec<u8>) {
        let now = self.pair.now_as_instant();
        let first = self.opened - CHURN_BATCH as u64;
        let Pair { client, server, .. } = &mut self.pair;
        client.take_in(now);
        for (index, [end, _]) in self.ends.iter().enumerate() {
            let socket = client.socket(*end);
            if socket.state() == State::Established {
                let byte = self.payload.byte(first + index as u64);
                assert_eq!(socket.send_slice(&[byte]), Ok(1));
                socket.close();
            }
        }
        client.send_out(now, usize::MAX);
        client.device.carry_to(&mut server.device);
        server.take_in(now);
        for [_, end] in &self.ends {
            let socket = server.socket(*end);
            let mut byte = [0];
            if socket.can_recv() && socket.recv_slice(&mut byte) == Ok(1) {
                bytes.extend(byte);
            }
            if socket.state() == State::CloseWait {
                socket.close();
            }
        }
        server.send_out(now, usize::MAX);
        server.device.carry_to(&mut client.device);
    }

    fn is_over(&mut self) -> bool {
        let Pair { client, server, .. } = &mut self.pair;
        let is_closed = |&[one, other]: &[SocketHandle; 2]| {
            client.socket(one).state() == State::TimeWait
                && server.socket(other).state() == State::Closed
        };
        self.ends.iter().all(is_closed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_connection_is_opened_and_closed() {
        let run = |idle_connections, batches| {
            churn(&ChurnConfig {
                idle_connections,
                batches,
            })
        };
        assert_eq!(run(0, 10).hash, run(50, 10).hash);
        assert_ne!(run(0, 10).hash, run(0, 20).hash);
    }
}
