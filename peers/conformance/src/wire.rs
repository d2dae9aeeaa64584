//! Where packets go to the stack under test and come back: the other end of its TUN device.
//!
//! `braidnet serve` has the descriptor of its device, so the driver has the interface, by a packet socket; no kernel has an address in that namespace, and so
//! none answers. Where the kernel is tested it has the interface, and the driver the descriptor.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// `struct tun_pi` (linux/if_tun.h) in front of each packet of a descriptor: no flags, and IPv4 whatever the packet says of itself.
const TUN_PI: [u8; 4] = [0, 0, 8, 0];
/// The longest packet of IP, and what stands before it.
pub const ROOM: usize = 65_535 + TUN_PI.len();

/// One end of a TUN device.
#[derive(Debug)]
pub enum Wire {
    /// The descriptor of a device whose interface is the kernel's.
    Descriptor(File),
    /// A packet socket on the interface of a device whose descriptor is somebody else's.
    Interface(OwnedFd),
}

impl Wire {
    /// Makes a TUN device and takes its descriptor.
    ///
    /// # Errors
    /// If the system refuses it.
    pub fn device(name: &str) -> io::Result<Wire> {
        calls::device(name).map(Wire::Descriptor)
    }

    /// Takes the interface of a TUN device.
    ///
    /// # Errors
    /// If there is none, or the system refuses it.
    pub fn interface(name: &str) -> io::Result<Wire> {
        calls::interface(name).map(Wire::Interface)
    }

    /// Sends a packet, whatever is wrong with it.
    ///
    /// # Errors
    /// If the device takes none.
    pub fn send(&self, packet: &[u8]) -> io::Result<()> {
        match self {
            Wire::Descriptor(file) => (&*file).write_all(&[&TUN_PI, packet].concat()),
            Wire::Interface(socket) => {
                Ok(rustix::net::send(socket, packet, rustix::net::SendFlags::empty()).map(drop)?)
            }
        }
    }

    /// The next packet, in the buffer; none if none comes for a tenth of a second.
    ///
    /// # Errors
    /// If the device is gone.
    pub fn receive<'a>(&self, buffer: &'a mut [u8; ROOM]) -> io::Result<Option<&'a [u8]>> {
        let fd = match self {
            Wire::Descriptor(file) => file.as_fd(),
            Wire::Interface(socket) => socket.as_fd(),
        };
        let tenth = Timespec {
            tv_sec: 0,
            tv_nsec: 100_000_000,
        };
        if poll(
            &mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)],
            Some(&tenth),
        )? == 0
        {
            return Ok(None);
        }
        match self {
            Wire::Descriptor(file) => {
                let len = (&*file).read(buffer)?;
                Ok(buffer.get(TUN_PI.len()..len))
            }
            Wire::Interface(socket) => {
                let flags = rustix::net::RecvFlags::empty();
                let (len, _) = rustix::net::recv(socket, &mut *buffer, flags)?;
                Ok(buffer.get(..len))
            }
        }
    }
}

/// The calls that have no safe form elsewhere.
#[allow(unsafe_code)]
mod calls {
    use std::ffi::CString;
    use std::fs::File;
    use std::io;
    use std::mem::{size_of, zeroed};
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use libc::{c_char, c_int};

    /// Bytes that may wait to be read while cases are slow.
    const WAITING_BYTES: c_int = 64 << 20;

    pub fn device(name: &str) -> io::Result<File> {
        let file = File::options()
            .read(true)
            .write(true)
            .open("/dev/net/tun")?;
        // SAFETY: `ifreq` is plain data, for which zeros are good.
        let mut request: libc::ifreq = unsafe { zeroed() };
        for (to, from) in request.ifr_name.iter_mut().take(15).zip(name.bytes()) {
            *to = from as c_char;
        }
        request.ifr_ifru.ifru_flags = libc::IFF_TUN as i16;
        // SAFETY: TUNSETIFF reads a `struct ifreq` and writes the name back into it; it is borrowed to be written.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETIFF, &mut request) };
        checked(result).map(|_| file)
    }

    pub fn interface(name: &str) -> io::Result<OwnedFd> {
        let protocol = (libc::ETH_P_IP as u16).to_be();
        // SAFETY: takes three numbers.
        let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_DGRAM, protocol.into()) };
        let socket = checked(socket)?;
        // SAFETY: the descriptor was just opened, and is nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(socket) };
        let name = CString::new(name)?;
        // SAFETY: `name` ends with a zero and lives on.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let waiting = WAITING_BYTES;
        // SAFETY: the option takes a `c_int`, which lives on.
        let result = unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_RCVBUFFORCE,
                (&raw const waiting).cast(),
                size_of::<c_int>() as u32,
            )
        };
        checked(result)?;
        // SAFETY: `sockaddr_ll` is plain data, for which zeros are good.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = protocol;
        address.sll_ifindex = index as c_int;
        let len = size_of::<libc::sockaddr_ll>() as u32;
        // SAFETY: `address` is a `sockaddr_ll` of `len` bytes, and lives on.
        let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const address).cast(), len) };
        checked(result)?;
        Ok(socket)
    }

    fn checked(result: c_int) -> io::Result<c_int> {
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(result)
        }
    }
}
