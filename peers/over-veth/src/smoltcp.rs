//! smoltcp on an Ethernet interface, by its own packet socket (`smoltcp::phy::RawSocket`), turned by whoever calls it: as its examples do.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};
use std::{fs, process};

use over_tun::smoltcp::{Services, socket};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Medium, RawSocket, wait};
use smoltcp::socket::tcp;
use smoltcp::time;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};

/// Bytes that may wait at the packet socket: what does not find room there is lost, and a window of data has to.
const RECEIVE_BUFFER: usize = 16 << 20;

/// The first of the ports from which clients connect: smoltcp has none of its own.
const EPHEMERAL: u16 = 49_152;

/// A stack on an interface.
pub struct Stack {
    device: RawSocket,
    interface: Interface,
    sockets: SocketSet<'static>,
}

impl Stack {
    /// A stack with this address, of a network of 256.
    ///
    /// # Errors
    /// If there is no such interface, or the system refuses it.
    pub fn new(name: &str, address: Ipv4Addr) -> io::Result<Stack> {
        let mut device = RawSocket::new(name, Medium::Ethernet)?;
        enlarge(&device)?;
        let station = station(name)?;
        let mut interface = Interface::new(
            Config::new(station.into()),
            &mut device,
            time::Instant::now(),
        );
        interface.update_ip_addrs(|addresses| {
            addresses
                .push(IpCidr::new(IpAddress::Ipv4(address), 24))
                .expect("one address fits");
        });
        Ok(Stack {
            device,
            interface,
            sockets: SocketSet::new(Vec::new()),
        })
    }

    /// Serves until the process ends.
    ///
    /// # Errors
    /// If the interface cannot be waited for.
    pub fn serve(mut self, buffer: usize) -> io::Result<()> {
        let services = Services::new(&mut self.sockets, buffer, 2);
        loop {
            self.turn();
            if !services.turn(&mut self.sockets) {
                self.sleep(None)?;
            }
        }
    }

    /// A connection of this stack's, which has it to itself.
    ///
    /// # Errors
    /// If nobody answers for so long.
    pub fn connect(
        mut self,
        to: SocketAddr,
        buffer: usize,
        patience: Duration,
    ) -> io::Result<Connection> {
        let handle = self.sockets.add(socket(buffer));
        let port = EPHEMERAL + (process::id() % 16_384) as u16;
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
        socket
            .connect(self.interface.context(), to, port)
            .map_err(io::Error::other)?;
        let mut connection = Connection {
            stack: self,
            handle,
        };
        let begun = Instant::now();
        while !connection.socket().may_send() {
            if begun.elapsed() > patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
            connection.stack.turn();
            connection
                .stack
                .sleep(Some(time::Duration::from_millis(10)))?;
        }
        Ok(connection)
    }

    /// Takes what has come, and sends what may leave.
    fn turn(&mut self) {
        let now = time::Instant::now();
        self.interface
            .poll(now, &mut self.device, &mut self.sockets);
    }

    /// Sleeps until something comes or is due, or for so long.
    fn sleep(&mut self, at_most: Option<time::Duration>) -> io::Result<()> {
        let now = time::Instant::now();
        let delay = self.interface.poll_delay(now, &self.sockets);
        let shorter = delay.into_iter().chain(at_most).min();
        if shorter == Some(time::Duration::ZERO) {
            return Ok(());
        }
        wait(self.device.as_raw_fd(), shorter)
    }
}

/// What a user of sockets has: calls that wait.
pub struct Connection {
    stack: Stack,
    handle: SocketHandle,
}

impl Connection {
    fn socket(&mut self) -> &mut tcp::Socket<'static> {
        self.stack.sockets.get_mut(self.handle)
    }

    /// Does it once it can be done: until then it waits, and turns the stack.
    fn once(
        &mut self,
        mut step: impl FnMut(&mut tcp::Socket<'static>) -> io::Result<usize>,
    ) -> io::Result<usize> {
        loop {
            let done = step(self.socket())?;
            if done == 0 && self.socket().is_open() {
                self.stack.sleep(None)?;
            }
            self.stack.turn();
            if done > 0 || !self.socket().is_open() {
                return Ok(done);
            }
        }
    }
}

impl Read for Connection {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.once(|socket| socket.recv_slice(bytes).map_err(io::Error::other))
    }
}

impl Write for Connection {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.once(|socket| socket.send_slice(bytes).map_err(io::Error::other))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The interface's own Ethernet address.
fn station(name: &str) -> io::Result<EthernetAddress> {
    let text = fs::read_to_string(format!("/sys/class/net/{name}/address"))?;
    let said = text.trim().parse();
    said.map_err(|()| io::Error::other(format!("{name} has no Ethernet address: {text}")))
}

/// More room than the system gives packet sockets by itself.
#[allow(unsafe_code)]
fn enlarge(device: &RawSocket) -> io::Result<()> {
    // SAFETY: the descriptor is the device's, which is borrowed for longer.
    let socket = unsafe { BorrowedFd::borrow_raw(device.as_raw_fd()) };
    Ok(set_socket_recv_buffer_size_force(socket, RECEIVE_BUFFER)?)
}
