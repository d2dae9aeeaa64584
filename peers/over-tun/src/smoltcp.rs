//! smoltcp behind a TUN device, turned by one thread that sleeps when there is nothing to do, as its examples do.

use std::io;
use std::net::Ipv4Addr;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::socket::tcp;
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

use crate::tun::Tun;
use crate::{CHARGEN, DISCARD, ECHO};

const MTU: usize = 1500;

/// Serves until the process ends.
///
/// # Errors
/// If the device cannot be attached to.
pub fn serve(
    name: &str,
    address: Ipv4Addr,
    buffer: usize,
    connections: usize,
    offloads: bool,
) -> io::Result<()> {
    let mut device = Tun::attach(name, MTU, offloads)?;
    let mut interface = Interface::new(
        Config::new(HardwareAddress::Ip),
        &mut device,
        Instant::now(),
    );
    interface.update_ip_addrs(|addresses| {
        addresses
            .push(IpCidr::new(IpAddress::Ipv4(address), 24))
            .expect("one address fits");
    });
    let mut sockets = SocketSet::new(Vec::new());
    let mut served: Vec<Served> = Vec::new();
    for port in [DISCARD, CHARGEN, ECHO] {
        for _ in 0..connections {
            served.push(Served {
                handle: sockets.add(socket(buffer)),
                port,
            });
        }
    }
    let pattern = vec![b'x'; 128 << 10];
    loop {
        let now = Instant::now();
        interface.poll(now, &mut device, &mut sockets);
        let mut stirred = false;
        for one in &served {
            stirred |= one.turn(&mut sockets, &pattern);
        }
        if stirred {
            continue;
        }
        let now = Instant::now();
        let at_most = interface.poll_delay(now, &sockets);
        if at_most != Some(Duration::ZERO) {
            sleep(&device, at_most);
        }
    }
}

/// A socket as good for these loads as smoltcp has it: no Nagle, no delayed acknowledgments.
fn socket(buffer: usize) -> tcp::Socket<'static> {
    let buffers = [buffer, buffer].map(|bytes| tcp::SocketBuffer::new(vec![0; bytes]));
    let [receive, send] = buffers;
    let mut socket = tcp::Socket::new(receive, send);
    socket.set_nagle_enabled(false);
    socket.set_ack_delay(None);
    socket
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

/// Sleeps until something comes or the time is up.
fn sleep(device: &Tun, at_most: Option<Duration>) {
    let fd = device.fd();
    let time = at_most.map(|time| Timespec {
        tv_sec: time.secs() as i64,
        tv_nsec: (time.total_micros() % 1_000_000 * 1000) as i64,
    });
    // Whoever is interrupted looks again.
    let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], time.as_ref());
}
