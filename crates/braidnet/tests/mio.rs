//! A loop of mio's serves connections of a host: an echo on one thread, 50 callers on others.

use braidnet::StackConfig;
use braidnet::device::{Capabilities, memory};
use braidnet::net::{Host, TcpListener, TcpStream};
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

#[test]
fn a_loop_serves_connections() {
    let (here, there) = memory::wire(Capabilities::ip(1500), 1024);
    let start = |address: &str, device| {
        let config = StackConfig::new(address.parse().expect("an address"));
        Host::start(&config, device).expect("a host")
    };
    let (client, server) = (start("10.0.0.1", here), start("10.0.0.2", there));
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
