//! Sockets on runtimes, and futures that are dropped wherever they wait.

mod driven;
mod dropped;

use super::{OwnedReadHalf, TcpListener, TcpStream, UdpSocket};
use crate::StackConfig;
use crate::net::Host;
use crate::socket::{SocketError, Sockets};
use braidnet_device::{Capabilities, memory};
use core::future::Future;
use core::net::SocketAddr;
use std::io::ErrorKind;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest, Ready};
use tokio::runtime::Builder;

fn config(address: &str) -> StackConfig {
    let mut config = StackConfig::new(address.parse().expect("an address"));
    config.buckets = 16;
    config.memory_bytes = 16 << 20;
    config
}

/// A client and a server on a wire, each turned by a thread.
fn hosts() -> (Host, Host) {
    let (here, there) = memory::wire(Capabilities::ip(1500), 256);
    let start = |address, device| Host::start(&config(address), device).expect("a thread");
    (start("10.0.0.1", here), start("10.0.0.2", there))
}

const SERVER: &str = "10.0.0.2:7";

/// Has one body of work done on a runtime of each flavour.
fn on_every_runtime<F: Future<Output = ()>>(work: impl Fn() -> F) {
    let builders = [Builder::new_current_thread(), Builder::new_multi_thread()];
    for mut builder in builders {
        let runtime = builder.worker_threads(2).enable_all().build();
        runtime.expect("a runtime").block_on(work());
    }
}

/// A stream and what the server has accepted for it.
async fn connected(client: &Host, server: &Host) -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind(server, SERVER).await.expect("free");
    let (call, answer) = tokio::join!(TcpStream::connect(client, SERVER), listener.accept());
    (call.expect("somebody listens"), answer.expect("a call").0)
}

#[test]
fn many_echo_at_once() {
    const CALLS: usize = 40;
    on_every_runtime(|| async {
        let (client, server) = hosts();
        let listener = TcpListener::bind(&server, SERVER).await.unwrap();
        let echo = tokio::spawn(async move {
            let mut all = tokio::task::JoinSet::new();
            for _ in 0..CALLS {
                let (mut stream, _) = listener.accept().await.unwrap();
                all.spawn(async move {
                    let (mut reads, mut writes) = stream.split();
                    tokio::io::copy(&mut reads, &mut writes).await.unwrap()
                });
            }
            all.join_all().await.into_iter().sum::<u64>()
        });
        let mut calls = tokio::task::JoinSet::new();
        for number in 0..CALLS {
            let client = client.clone();
            calls.spawn(async move {
                let stream = TcpStream::connect(&client, SERVER).await.unwrap();
                let sent: Vec<u8> = (0..20_000 + number * 1000)
                    .map(|i| (i * 7 + number) as u8)
                    .collect();
                let (mut reads, mut writes) = stream.into_split();
                let length = sent.len() as u64;
                let writer = tokio::spawn({
                    let sent = sent.clone();
                    // Dropping the half ends what is written.
                    async move { writes.write_all(&sent).await.unwrap() }
                });
                let mut heard = Vec::new();
                reads.read_to_end(&mut heard).await.unwrap();
                writer.await.unwrap();
                assert!(heard == sent, "connection {number}");
                length
            });
        }
        let sent: u64 = calls.join_all().await.into_iter().sum();
        assert_eq!(echo.await.unwrap(), sent);
    });
}

#[test]
fn what_is_ready_is_told() {
    on_every_runtime(|| async {
        let (client, server) = hosts();
        let (mut call, mut answer) = connected(&client, &server).await;
        let both = Interest::READABLE | Interest::WRITABLE;
        assert_eq!(call.ready(both).await.unwrap(), Ready::WRITABLE);
        let nothing = call.try_read(&mut [0; 4]).unwrap_err();
        assert_eq!(nothing.kind(), ErrorKind::WouldBlock);
        answer.write_all(b"one two").await.unwrap();
        call.readable().await.unwrap();
        let mut heard = [0; 16];
        assert_eq!(call.peek(&mut heard).await.unwrap(), 7);
        assert_eq!(call.try_read(&mut heard[..3]).unwrap(), 3);
        assert_eq!(call.read(&mut heard).await.unwrap(), 4);
        call.writable().await.unwrap();
        assert_eq!(call.try_write(b"three").unwrap(), 5);
        answer.read_exact(&mut heard[..5]).await.unwrap();
        assert_eq!(&heard[..5], b"three");
        assert_eq!(call.info().unwrap().sent_bytes(), 5);
        answer.shutdown().await.unwrap();
        assert_eq!(call.read(&mut heard).await.unwrap(), 0);
        let ready = call.ready(Interest::READABLE).await.unwrap();
        assert!(ready.is_read_closed(), "{ready:?}");
    });
}

#[test]
fn there_is_nothing_wrong_with_ending_what_has_ended() {
    on_every_runtime(|| async {
        let (client, server) = hosts();
        let (mut call, mut answer) = connected(&client, &server).await;
        call.shutdown().await.unwrap();
        assert_eq!(answer.read(&mut [0; 4]).await.unwrap(), 0);
        answer.shutdown().await.unwrap();
        assert_eq!(call.read(&mut [0; 4]).await.unwrap(), 0);
        while answer.info().is_ok() {
            tokio::task::yield_now().await;
        }
        answer.shutdown().await.unwrap();
        let (_, mut writes) = answer.into_split();
        writes.shutdown().await.unwrap();
    });
}

/// A thread of its own waits for the peer, who answers only when he is turned.
#[test]
fn letting_go_of_a_host_holds_up_no_runtime() {
    use braidnet_stream::Processor;
    use braidnet_wire::time::Instant;
    let (here, there) = memory::wire(Capabilities::ip(1500), 256);
    let client = Host::start(&config("10.0.0.1"), here).unwrap();
    let (server, mut processor) = Host::turned(&config("10.0.0.2"), there).unwrap();
    let shared = client.shared().clone();
    let is_down = || shared.with(Sockets::socket) == Err(SocketError::Down);
    let begun = std::time::Instant::now();
    let mut turn = || {
        processor.turn(Instant::from_nanos(begun.elapsed().as_nanos() as u64), 64);
    };
    let runtime = Builder::new_current_thread().build().unwrap();
    let _listener = runtime.block_on(async {
        let listener = TcpListener::bind(&server, SERVER).await.unwrap();
        let calling = TcpStream::connect(&client, SERVER);
        let turning = async {
            loop {
                turn();
                tokio::task::yield_now().await;
            }
        };
        let mut call = tokio::select! {
            call = calling => call.unwrap(),
            () = turning => unreachable!("it turns for ever"),
        };
        call.write_all(b"not acknowledged yet").await.unwrap();
        drop(call);
        drop(client);
        listener
    });
    assert!(!is_down(), "somebody waits for the peer");
    while !is_down() {
        turn();
    }
}

#[test]
fn halves_find_each_other_again() {
    on_every_runtime(|| async {
        let (client, server) = hosts();
        let (call, mut answer) = connected(&client, &server).await;
        let (_other, stranger) = {
            let listener = TcpListener::bind(&server, "10.0.0.2:8").await.unwrap();
            let call = TcpStream::connect(&client, "10.0.0.2:8").await.unwrap();
            (listener, call)
        };
        let (reads, writes) = call.into_split();
        let (other_reads, other_writes) = stranger.into_split();
        let mismatch = reads.reunite(other_writes).unwrap_err();
        let mut call = mismatch.0.reunite(writes).unwrap();
        call.write_all(b"whole").await.unwrap();
        let mut heard = [0; 5];
        answer.read_exact(&mut heard).await.unwrap();
        // Both directions are still there.
        answer.write_all(&heard).await.unwrap();
        call.read_exact(&mut heard).await.unwrap();
        assert_eq!(&heard, b"whole");
        let others: [OwnedReadHalf; 1] = [other_reads];
        mismatch.1.forget();
        drop(others);
    });
}

#[test]
fn what_goes_wrong_has_the_systems_words() {
    on_every_runtime(|| async {
        let (client, server) = hosts();
        let refused = TcpStream::connect(&client, SERVER).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
        let (mut call, answer) = connected(&client, &server).await;
        // A connection does not keep the next listener from its place, as with tokio's; another listener does.
        let _next = TcpListener::bind(&server, SERVER).await.unwrap();
        let taken = TcpListener::bind(&server, SERVER).await.unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        // What was not read when it was closed resets the connection.
        call.write_all(b"unheard").await.unwrap();
        answer.readable().await.unwrap();
        drop(answer);
        let reset = call.read(&mut [0; 4]).await.unwrap_err();
        assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
        let broken = call.write(b"x").await.unwrap_err();
        assert_eq!(broken.kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn datagrams_go_there_and_back() {
    on_every_runtime(|| async {
        let (client, server) = hosts();
        let oracle = UdpSocket::bind(&server, "10.0.0.2:53").await.unwrap();
        let asker = UdpSocket::bind(&client, "0.0.0.0:0").await.unwrap();
        asker.connect("10.0.0.2:53").await.unwrap();
        let port = asker.local_addr().unwrap().port();
        let from = SocketAddr::from(([10, 0, 0, 1], port));
        let mut heard = [0; 16];
        let (sent, received) = tokio::join!(
            async {
                tokio::task::yield_now().await;
                asker.send(b"who?").await
            },
            oracle.peek_from(&mut heard)
        );
        assert_eq!((sent.unwrap(), received.unwrap()), (4, (4, from)));
        assert_eq!(oracle.try_recv_from(&mut heard).unwrap(), (4, from));
        let nowhere = oracle.send(b"to whom?").await.unwrap_err();
        assert_eq!(nowhere.kind(), ErrorKind::NotConnected);
        let nobody: [SocketAddr; 0] = [];
        let nowhere = oracle.send_to(b"to whom?", &nobody[..]).await.unwrap_err();
        assert_eq!(nowhere.kind(), ErrorKind::InvalidInput);
        let empty = oracle.try_recv_from(&mut heard).unwrap_err();
        assert_eq!(empty.kind(), ErrorKind::WouldBlock);
        asker.send_segments(b"who? why?", 5).await.unwrap();
        let to = "10.0.0.2:53";
        let sent = asker.send_segments_to(b"where? how?", 7, to).await;
        assert_eq!(sent.unwrap(), 11);
        for expected in [&b"who? "[..], b"why?", b"where? ", b"how?"] {
            let length = oracle.recv(&mut heard).await.unwrap();
            assert_eq!(&heard[..length], expected);
        }
        oracle.send_to(b"I", from).await.unwrap();
        asker.readable().await.unwrap();
        assert_eq!(asker.recv(&mut heard).await.unwrap(), 1);
        drop(oracle);
        asker.send(b"gone?").await.unwrap();
        let gone = asker.recv(&mut heard).await.unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn whoever_always_finds_something_lets_others_go_on() {
    Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(async {
            let (client, server) = hosts();
            let (call, answer) = connected(&client, &server).await;
            let turns = std::sync::atomic::AtomicU32::new(0);
            let other = async {
                loop {
                    turns.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    tokio::task::yield_now().await;
                }
            };
            let busy = async {
                for _ in 0..10_000 {
                    call.writable().await.unwrap();
                }
            };
            tokio::select! {
                biased;
                () = busy => {}
                () = other => {}
            }
            let turns = turns.into_inner();
            assert!(turns > 10, "{turns}");
            drop(answer);
        });
}
