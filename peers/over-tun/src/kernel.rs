//! The services over the kernel's own sockets: a blocking thread for each connection.

use std::io::{self, Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::thread;

use over_tun::{CHARGEN, DISCARD, ECHO};

/// Bytes of a read or a write.
const PIECE: usize = 128 << 10;

/// What a connection is for.
type Service = fn(TcpStream) -> io::Result<()>;

/// Serves until the process ends.
///
/// # Errors
/// If a port cannot be listened on.
pub fn serve(address: IpAddr) -> io::Result<()> {
    let services: [(u16, Service); 3] = [(DISCARD, discard), (CHARGEN, send), (ECHO, echo)];
    let mut listening = Vec::new();
    for (port, service) in services {
        let listener = TcpListener::bind((address, port))?;
        listening.push(thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                // A peer that goes away ends its service, and nothing else.
                thread::spawn(move || service(stream));
            }
        }));
    }
    for listener in listening {
        listener
            .join()
            .map_err(|_| io::Error::other("a listener panicked"))?;
    }
    Ok(())
}

fn discard(mut stream: TcpStream) -> io::Result<()> {
    let mut piece = vec![0; PIECE];
    while stream.read(&mut piece)? > 0 {}
    Ok(())
}

fn send(mut stream: TcpStream) -> io::Result<()> {
    let piece = vec![b'x'; PIECE];
    loop {
        stream.write_all(&piece)?;
    }
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut piece = vec![0; PIECE];
    loop {
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            n => stream.write_all(&piece[..n])?,
        }
    }
}
