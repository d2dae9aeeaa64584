//! A loop of mio's serves sockets of a host: an echo on one thread, 50 callers on others; questions in datagrams. What is registered, and what is not.

use braidnet::StackConfig;
use braidnet::device::{Capabilities, memory};
use braidnet::net::{Host, TcpListener, TcpStream, UdpSocket};
use mio::event::Source;
use mio::{Events, Interest, Poll, Token};
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::thread;

const CALLERS: usize = 50;
const BYTES: usize = 200_000;
const LISTENER: Token = Token(usize::MAX);

/// A connection that sends everything back.
struct Echo {
    stream: TcpStream,
    /// Read and not written yet.
    waiting: Vec<u8>,
    has_ended: bool,
}

impl Echo {
    /// Goes on until it would block; whether all is done.
    fn go_on(&mut self) -> std::io::Result<bool> {
        loop {
            while !self.waiting.is_empty() {
                match self.stream.write(&self.waiting) {
                    Ok(n) => drop(self.waiting.drain(..n)),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                    Err(error) => return Err(error),
                }
            }
            if self.has_ended {
                return Ok(true);
            }
            let mut piece = [0; 4_096];
            match self.stream.read(&mut piece) {
                Ok(0) => self.has_ended = true,
                Ok(n) => self.waiting.extend_from_slice(&piece[..n]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
    }
}

/// Serves so many connections, and ends.
fn serve(mut listener: TcpListener) -> std::io::Result<()> {
    let mut poll = Poll::new()?;
    let both = Interest::READABLE | Interest::WRITABLE;
    listener.set_nonblocking(true)?;
    listener.register(poll.registry(), LISTENER, Interest::READABLE)?;
    let mut echoes = HashMap::new();
    let (mut events, mut accepted, mut served) = (Events::with_capacity(64), 0, 0);
    while served < CALLERS {
        poll.poll(&mut events, None)?;
        for event in &events {
            if event.token() == LISTENER {
                while let Ok((mut stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.register(poll.registry(), Token(accepted), Interest::READABLE)?;
                    stream.reregister(poll.registry(), Token(accepted), both)?;
                    let echo = Echo {
                        stream,
                        waiting: Vec::new(),
                        has_ended: false,
                    };
                    echoes.insert(Token(accepted), echo);
                    accepted += 1;
                }
            } else if let Some(echo) = echoes.get_mut(&event.token())
                && echo.go_on()?
            {
                echo.stream.deregister(poll.registry())?;
                echoes.remove(&event.token());
                served += 1;
            }
        }
    }
    Ok(())
}

/// Two hosts on a wire: the one that calls, and the one that is called.
fn hosts() -> (Host, Host) {
    let (here, there) = memory::wire(Capabilities::ip(1500), 1024);
    let start = |address: &str, device| {
        let config = StackConfig::new(address.parse().expect("an address"));
        Host::start(&config, device).expect("a host")
    };
    (start("10.0.0.1", here), start("10.0.0.2", there))
}

#[test]
fn a_loop_serves_connections() {
    let (client, server) = hosts();
    let listener = TcpListener::bind(&server, "10.0.0.2:7").expect("a free port");
    thread::scope(|scope| {
        let serving = scope.spawn(|| serve(listener).expect("it serves"));
        for number in 0..CALLERS {
            let client = &client;
            scope.spawn(move || {
                let stream = TcpStream::connect(client, "10.0.0.2:7").expect("it listens");
                let sent: Vec<u8> = (0..BYTES).map(|place| (place * 7 + number) as u8).collect();
                thread::scope(|scope| {
                    scope.spawn(|| {
                        (&stream).write_all(&sent).expect("it reads");
                        stream.shutdown(Shutdown::Write).expect("open");
                    });
                    let mut heard = Vec::new();
                    (&stream).read_to_end(&mut heard).expect("it echoes");
                    assert!(heard == sent, "caller {number}");
                });
            });
        }
        serving.join().expect("no panic");
    });
}

const ORACLE: Token = Token(0);
const QUESTIONS: u32 = 1_000;

/// Answers so many questions, each with its number and one more, whoever asks.
fn answer(mut oracle: UdpSocket) -> std::io::Result<()> {
    let mut poll = Poll::new()?;
    let mut events = Events::with_capacity(4);
    oracle.set_nonblocking(true)?;
    oracle.register(poll.registry(), ORACLE, Interest::READABLE)?;
    let mut answered = 0;
    while answered < QUESTIONS {
        poll.poll(&mut events, None)?;
        assert!(events.iter().all(|event| event.is_readable()));
        let mut question = [0; 4];
        loop {
            match oracle.recv_from(&mut question) {
                Ok((length, from)) => {
                    assert_eq!(length, 4);
                    let answer = u32::from_be_bytes(question) + 1;
                    oracle.send_to(&answer.to_be_bytes(), from)?;
                    answered += 1;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

#[test]
fn a_loop_answers_datagrams() {
    let (client, server) = hosts();
    let oracle = UdpSocket::bind(&server, "10.0.0.2:53").expect("a free port");
    thread::scope(|scope| {
        let answering = scope.spawn(|| answer(oracle).expect("it answers"));
        let asker = UdpSocket::bind(&client, "10.0.0.1:0").expect("a free port");
        asker.connect("10.0.0.2:53").expect("an address");
        for number in 0..QUESTIONS {
            asker.send(&number.to_be_bytes()).expect("it is sent");
            let mut heard = [0; 4];
            assert_eq!(asker.recv(&mut heard).expect("an answer"), 4);
            assert_eq!(u32::from_be_bytes(heard), number + 1);
        }
        answering.join().expect("no panic");
    });
}

/// Of what is registered, what is ready at once.
fn ready_at_once(poll: &mut Poll) -> Vec<(bool, bool)> {
    let mut events = Events::with_capacity(4);
    let at_once = Some(std::time::Duration::ZERO);
    poll.poll(&mut events, at_once).expect("it can be polled");
    let ready = events.iter();
    ready
        .map(|event| (event.is_readable(), event.is_writable()))
        .collect()
}

#[test]
fn of_a_registration_that_fails_nothing_stays() {
    let (client, _server) = hosts();
    let mut socket = UdpSocket::bind(&client, "10.0.0.1:0").expect("a free port");
    let mut poll = Poll::new().expect("one");
    let registry = poll.registry().try_clone().expect("another");
    let both = Interest::READABLE | Interest::WRITABLE;
    let register =
        |socket: &mut UdpSocket, interests| socket.register(&registry, ORACLE, interests);

    // The second of the two is there already.
    register(&mut socket, Interest::WRITABLE).expect("it is not registered");
    let refused = register(&mut socket, both).expect_err("one is registered");
    assert_eq!(refused.kind(), ErrorKind::AlreadyExists);
    register(&mut socket, Interest::READABLE).expect("that one is not");
    assert_eq!(ready_at_once(&mut poll), [(false, true)]);

    // The first is: the second is not begun with.
    socket.deregister(&registry).expect("it is registered");
    register(&mut socket, Interest::READABLE).expect("it is not registered");
    register(&mut socket, both).expect_err("one is registered");
    assert_eq!(ready_at_once(&mut poll), []);

    socket.reregister(&registry, ORACLE, both).expect("it is");
    assert_eq!(ready_at_once(&mut poll), [(false, true)]);
    socket.deregister(&registry).expect("it is registered");
    socket.deregister(&registry).expect_err("it is not");
}
