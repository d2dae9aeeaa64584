//! In virtual time: every future is polled by hand, and dropped, or not, whenever it waits. Nothing may be lost by that, and nothing left.

use super::*;
use crate::net::HostProcessor;
use braidnet_stream::Processor;
use braidnet_tcp::State;
use braidnet_wire::time::{Duration, Instant};
use core::pin::pin;
use core::task::{Context, Poll, Waker};

/// Numbers drawn by a seed (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }
}

struct World {
    client: Host,
    server: Host,
    processors: [HostProcessor; 2],
    now: Instant,
    random: Random,
    dropped: usize,
}

impl World {
    fn new(seed: u64) -> World {
        let (here, there) = memory::wire(Capabilities::ip(1500), 64);
        let mut small = config("10.0.0.1");
        // So that writers wait.
        small.tcp.send_buffer_bytes = 3000;
        small.tcp.send_buffer_max_bytes = 3000;
        small.tcp.receive_buffer_bytes = 3000;
        small.tcp.receive_buffer_max_bytes = 3000;
        let (client, one) = Host::turned(&small, here).expect("a host");
        small.addresses = config("10.0.0.2").addresses;
        let (server, other) = Host::turned(&small, there).expect("a host");
        World {
            client,
            server,
            processors: [one, other],
            now: Instant::from_millis(1),
            random: Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
            dropped: 0,
        }
    }

    fn turn(&mut self) {
        self.now += Duration::from_millis(1);
        for processor in &mut self.processors {
            let _ = processor.turn(self.now, 64);
        }
    }

    /// Polls the future, turning the hosts in between, and drops it at every third wait.
    fn try_once<R>(&mut self, future: impl Future<Output = R>) -> Option<R> {
        let mut future = pin!(future);
        loop {
            let mut cx = Context::from_waker(Waker::noop());
            if let Poll::Ready(result) = future.as_mut().poll(&mut cx) {
                return Some(result);
            }
            if self.random.below(3) == 0 {
                self.dropped += 1;
                return None;
            }
            self.turn();
        }
    }

    /// Begins anew, after a turn, as often as it was dropped.
    fn insist<R>(&mut self, mut begin: impl AsyncFnMut() -> R) -> R {
        for _ in 0..10_000 {
            if let Some(result) = self.try_once(begin()) {
                return result;
            }
            self.turn();
        }
        panic!("it never comes to an end");
    }

    fn waiting(&self) -> usize {
        self.client.shared().waiting() + self.server.shared().waiting()
    }
}

#[test]
fn what_was_dropped_has_done_nothing() {
    let mut dropped = 0;
    for seed in 1..=40 {
        let mut world = World::new(seed);
        let (client, server) = (world.client.clone(), world.server.clone());
        let listener = world.insist(async || TcpListener::bind(&server, SERVER).await);
        let listener = listener.expect("free");
        let call = world.insist(async || TcpStream::connect(&client, SERVER).await);
        let mut call = call.expect("somebody listens");
        let own = call.local_addr().expect("connected");
        // Connections whose openings were dropped may wait, too; they were reset.
        let mut answer = loop {
            let (stream, from) = world
                .insist(async || listener.accept().await)
                .expect("room");
            if from == own {
                break stream;
            }
        };
        let sent: Vec<u8> = (0..30_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
        let (mut written, mut heard) = (0, Vec::new());
        let mut peeked = [0; 500];
        while heard.len() < sent.len() {
            if written < sent.len() && world.random.below(2) == 0 {
                let most = 1 + world.random.below(2500);
                let piece = &sent[written..sent.len().min(written + most)];
                if let Some(result) = world.try_once(call.write(piece)) {
                    written += result.expect("open");
                }
            } else if world.random.below(4) == 0 {
                if let Some(result) = world.try_once(answer.peek(&mut peeked)) {
                    let length = result.expect("open");
                    let ahead = &sent[heard.len()..heard.len() + length];
                    assert_eq!(&peeked[..length], ahead, "seed {seed}");
                }
            } else {
                let mut room = vec![0; 1 + world.random.below(2500)];
                if let Some(result) = world.try_once(answer.read(&mut room)) {
                    heard.extend_from_slice(&room[..result.expect("open")]);
                }
            }
        }
        assert!(heard == sent && written == sent.len(), "seed {seed}");
        assert_eq!(world.waiting(), 0, "seed {seed}: nobody waits");
        dropped += world.dropped;
    }
    assert!(
        dropped > 1000,
        "{dropped} futures were dropped while they waited"
    );
}

#[test]
fn a_datagram_that_nobody_has_taken_is_still_there() {
    let mut world = World::new(7);
    let (client, server) = (world.client.clone(), world.server.clone());
    let oracle = world.insist(async || UdpSocket::bind(&server, "10.0.0.2:53").await);
    let asker = world.insist(async || UdpSocket::bind(&client, "10.0.0.1:5").await);
    let (oracle, asker) = (oracle.expect("free"), asker.expect("free"));
    let mut heard = [0; 8];
    for number in 0..300_u32 {
        asker
            .try_send_to(
                &number.to_be_bytes(),
                "10.0.0.2:53".parse().expect("an address"),
            )
            .expect("room");
        let received = loop {
            if let Some(received) = world.try_once(oracle.recv_from(&mut heard)) {
                break received;
            }
        };
        assert_eq!(received.expect("bound").0, 4);
        assert_eq!(heard[..4], number.to_be_bytes());
    }
    assert!(world.dropped > 50, "{}", world.dropped);
    assert_eq!(world.waiting(), 0);
}

/// An opening that is given up leaves nothing behind, whenever that is.
#[test]
fn openings_given_up_leave_no_socket() {
    for turns in 0..8 {
        let mut world = World::new(1);
        let (client, server) = (world.client.clone(), world.server.clone());
        let listener = world.insist(async || TcpListener::bind(&server, SERVER).await);
        let _listener = listener.expect("free");
        let outcome = {
            let mut opening = pin!(TcpStream::connect(&client, SERVER));
            let mut cx = Context::from_waker(Waker::noop());
            let mut outcome = Poll::Pending;
            for _ in 0..=turns {
                if outcome.is_pending() {
                    outcome = opening.as_mut().poll(&mut cx);
                    world.turn();
                }
            }
            outcome
        };
        drop(outcome);
        assert_eq!(world.waiting(), 0, "after {turns} turns");
        for _ in 0..20 {
            world.turn();
        }
        let left = client.shared().with(|sockets| sockets.stack().statuses());
        let live = left
            .iter()
            .filter(|(_, info)| {
                matches!(
                    info.state,
                    State::SynSent | State::SynReceived | State::Established
                )
            })
            .count();
        assert_eq!(live, 0, "after {turns} turns: {left:?}");
    }
}

/// A message of which a future that was dropped has taken none is whole, and what has come stays for the next.
#[test]
fn messages_outlive_the_futures_that_wait_with_them() {
    let mut dropped = 0;
    for seed in 1..=40 {
        let mut world = World::new(seed);
        let (client, server) = (world.client.clone(), world.server.clone());
        let listener = world.insist(async || TcpListener::bind(&server, SERVER).await);
        let listener = listener.expect("free");
        let at = SERVER.parse().expect("an address");
        let call = crate::net::TcpStream::begin(&client, &at).expect("it is begun");
        let call = TcpStream::from_std(call);
        let accepted = world.insist(async || listener.accept().await);
        let (answer, _) = accepted.expect("room");
        let (reads, _keeps) = answer.into_split();
        let (_, writes) = call.into_split();
        let sent: Vec<u8> = (0..30_000u32).map(|i| (i * 7 + i / 251) as u8).collect();
        let mut pieces = sent.chunks(7_000);
        let (mut left, mut heard) = (None, Vec::new());
        while heard.len() < sent.len() {
            if left.is_none()
                && let Some(piece) = pieces.next()
            {
                let mut message = client.allocate(piece.len()).expect("memory");
                message.extend_from_slice_summed(piece);
                left = Some(message);
            }
            if left.is_some() && world.random.below(2) == 0 {
                let before = left.as_ref().map_or(0, |left| left.total_len());
                let taken = world.try_once(writes.write_message(&mut left));
                let taken = taken.map_or(0, |taken| taken.expect("open"));
                let after = left.as_ref().map_or(0, |left| left.total_len());
                assert_eq!(before - after, taken, "seed {seed}");
            } else if let Some(came) = world.try_once(reads.read_message()) {
                let came = came.expect("open").expect("more");
                came.blocks()
                    .for_each(|block| heard.extend_from_slice(block));
            }
        }
        assert!(heard == sent, "seed {seed}");
        assert_eq!(world.waiting(), 0, "seed {seed}");
        dropped += world.dropped;
    }
    assert!(dropped > 1_000, "{dropped}");
}
