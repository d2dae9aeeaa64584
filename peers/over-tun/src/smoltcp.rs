//! smoltcp's sockets, as good for these loads as it has them, and the services over them.

use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::tcp;

use crate::{CHARGEN, DISCARD, ECHO};

/// A socket with so many bytes of each buffer: no Nagle, no delayed acknowledgments.
pub fn socket(buffer: usize) -> tcp::Socket<'static> {
    let buffers = [buffer, buffer].map(|bytes| tcp::SocketBuffer::new(vec![0; bytes]));
    let [receive, send] = buffers;
    let mut socket = tcp::Socket::new(receive, send);
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(None);
    socket
}

/// The services, each with sockets for a number of connections.
pub struct Services {
    served: Vec<Served>,
    pattern: Vec<u8>,
}

impl Services {
    /// Puts their sockets into the set; nobody listens before the first turn.
    pub fn new(sockets: &mut SocketSet<'_>, buffer: usize, connections: usize) -> Services {
        let mut served = Vec::new();
        for port in [DISCARD, CHARGEN, ECHO] {
            for _ in 0..connections {
                let handle = sockets.add(socket(buffer));
                served.push(Served { handle, port });
            }
        }
        Services {
            served,
            pattern: vec![b'x'; 128 << 10],
        }
    }

    /// Does what there is to do; whether there was something.
    pub fn turn(&self, sockets: &mut SocketSet<'_>) -> bool {
        let mut stirred = false;
        for one in &self.served {
            stirred |= one.turn(sockets, &self.pattern);
        }
        stirred
    }
}

/// One socket of a service.
struct Served {
    handle: SocketHandle,
    port: u16,
}

impl Served {
    /// Does what there is to do; whether there was something.
    fn turn(&self, sockets: &mut SocketSet<'_>, pattern: &[u8]) -> bool {
        let socket = sockets.get_mut::<tcp::Socket<'_>>(self.handle);
        if !socket.is_open() {
            return socket.listen(self.port).is_ok();
        }
        let done = match self.port {
            CHARGEN if socket.may_send() => socket.send_slice(pattern).unwrap_or(0),
            DISCARD if socket.may_recv() => {
                socket.recv(|bytes| (bytes.len(), bytes.len())).unwrap_or(0)
            }
            ECHO if socket.can_recv() && socket.can_send() => echo(socket),
            _ => 0,
        };
        if !socket.may_recv()
            && socket.may_send()
            && socket.recv_queue() == 0
            && self.port != CHARGEN
        {
            socket.close();
        }
        done > 0
    }
}

fn echo(socket: &mut tcp::Socket<'_>) -> usize {
    let mut bytes = [0; 4096];
    let most = (socket.send_capacity() - socket.send_queue()).min(bytes.len());
    let read = socket.recv_slice(&mut bytes[..most]).unwrap_or(0);
    socket.send_slice(&bytes[..read]).unwrap_or(0)
}
