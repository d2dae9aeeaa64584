//! The system calls on interfaces and on TUN and TAP devices.
//!
//! Every call passes one [`InterfaceRequest`], which owns all the memory that the kernel reads and writes, or one number.

use parking_lot::Mutex;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};

/// Bytes of an interface's name with its final NUL (`IFNAMSIZ`).
const NAME_SIZE: usize = libc::IFNAMSIZ;

/// `SIOCETHTOOL`, and the commands that ask for a driver's name and for its queues (`linux/ethtool.h`).
const SIOCETHTOOL: libc::c_ulong = 0x8946;
const ETHTOOL_GDRVINFO: u32 = 0x03;
const ETHTOOL_GCHANNELS: u32 = 0x3c;

/// The kernel's `struct ifreq`: a name, and a union whose largest member has 24 bytes.
#[repr(C, align(8))]
struct InterfaceRequest {
    name: [u8; NAME_SIZE],
    data: [u8; 24],
}

const _: () = assert!(size_of::<InterfaceRequest>() >= size_of::<libc::ifreq>());

/// The kernel's `struct ethtool_drvinfo`.
#[repr(C, align(4))]
struct DriverRequest {
    command: u32,
    driver: [u8; 32],
    version: [u8; 32],
    firmware: [u8; 32],
    bus: [u8; 32],
    rest: [u8; 64],
}

const _: () = assert!(size_of::<DriverRequest>() == 196);

/// The kernel's `struct ethtool_channels`: queues for receiving, for sending and for other things, and combined ones, which are all that TUN and TAP devices have.
#[repr(C)]
#[derive(Default)]
struct ChannelsRequest {
    command: u32,
    max: [u32; 3],
    max_combined: u32,
    used: [u32; 3],
    used_combined: u32,
}

const _: () = assert!(size_of::<ChannelsRequest>() == 36);

/// How many queues a TUN or TAP device has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Channels {
    /// Those that somebody holds.
    pub used: usize,
    /// Those that it can have.
    pub max: usize,
}

impl InterfaceRequest {
    /// A request about the interface `name`, which the caller has checked to be shorter than [`NAME_SIZE`]. Longer
    /// names are cut, so that the final NUL is always there.
    fn new(name: &str) -> Self {
        let mut request = InterfaceRequest {
            name: [0; NAME_SIZE],
            data: [0; 24],
        };
        for (to, &from) in request
            .name
            .iter_mut()
            .take(NAME_SIZE - 1)
            .zip(name.as_bytes())
        {
            *to = from;
        }
        request
    }

    fn with(mut self, bytes: &[u8]) -> Self {
        for (to, &from) in self.data.iter_mut().zip(bytes) {
            *to = from;
        }
        self
    }

    fn call(&mut self, fd: impl AsFd, request: libc::c_ulong) -> io::Result<()> {
        let this: *mut InterfaceRequest = self;
        // SAFETY: every request in this file takes a `struct ifreq` and writes nothing beyond it; `self` is at least as
        // large, properly aligned and borrowed for the whole call. What `data` points to in `ethtool` is borrowed there.
        let result: c_int = unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), request as _, this) };
        checked(result)
    }

    fn short(&self) -> u16 {
        u16::from_ne_bytes([self.data[0], self.data[1]])
    }

    fn int(&self) -> i32 {
        i32::from_ne_bytes([self.data[0], self.data[1], self.data[2], self.data[3]])
    }
}

/// The text in front of the first NUL.
fn text(bytes: &[u8]) -> String {
    let end = bytes
        .iter()
        .position(|&byte| byte == 0)
        .unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// `TUNSETIFF`: joins `tun`, an open `/dev/net/tun`, to the interface `name`, making it if there is none; an empty name
/// or one with `%d` lets the kernel choose. Returns the name.
pub fn attach(tun: impl AsFd, name: &str, flags: c_int) -> io::Result<String> {
    // The kernel takes the low half of the flags, whose bits are an unsigned short.
    let mut request = InterfaceRequest::new(name).with(&(flags as u16).to_ne_bytes());
    request.call(tun, libc::TUNSETIFF as libc::c_ulong)?;
    Ok(text(&request.name))
}

/// `TUNGETIFF`: the name and the `IFF_*` flags of the device that `tun` is joined to.
pub fn attached(tun: impl AsFd) -> io::Result<(String, c_int)> {
    let mut request = InterfaceRequest::new("");
    request.call(tun, libc::TUNGETIFF as libc::c_ulong)?;
    Ok((text(&request.name), c_int::from(request.short())))
}

/// The Ethernet address of the system's side of the TAP device that `tun` is joined to.
pub fn attached_address(tun: impl AsFd) -> io::Result<[u8; 6]> {
    hardware_address(tun, "")
}

/// Another descriptor for the open file behind this number, which this process was started with; neither is left to programs that this one becomes or starts.
///
/// What was there when the process began is not closed on exec, or it would not be there; what values of this process own has been opened to be. So these are
/// refused (`EBADF`), as is a number that was asked for before, by any thread.
pub fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    static ASKING: Mutex<()> = Mutex::new(());
    let _one_at_a_time = ASKING.lock();
    refuse_opened_here(number)?;
    // SAFETY: the call takes numbers, and fails for one that is no descriptor.
    let copy: c_int = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) };
    checked(copy)?;
    // SAFETY: the kernel has just made it, and nobody else knows of it.
    let copy = unsafe { OwnedFd::from_raw_fd(copy) };
    // The number may have been closed in between, and be another file's, which somebody has opened here.
    refuse_opened_here(number)?;
    // SAFETY: as the first.
    let marked: c_int = unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    checked(marked)?;
    Ok(copy)
}

fn refuse_opened_here(number: RawFd) -> io::Result<()> {
    // SAFETY: the call takes numbers, and fails for one that is no descriptor.
    let flags: c_int = unsafe { libc::fcntl(number, libc::F_GETFD) };
    checked(flags)?;
    match flags & libc::FD_CLOEXEC {
        0 => Ok(()),
        _ => Err(io::Error::from_raw_os_error(libc::EBADF)),
    }
}

/// `TUNGETFEATURES`: the `IFF_*` flags that [`attach`] may be given.
pub fn features(tun: impl AsFd) -> io::Result<c_int> {
    let mut features: libc::c_uint = 0;
    pass(tun, libc::TUNGETFEATURES as libc::c_ulong, &mut features)?;
    Ok(features as c_int)
}

/// `TUNSETVNETHDRSZ`: how many bytes stand in front of each packet.
pub fn set_vnet_header_len(tun: impl AsFd, bytes: c_int) -> io::Result<()> {
    let mut bytes = bytes;
    pass(tun, libc::TUNSETVNETHDRSZ as libc::c_ulong, &mut bytes)
}

/// `TUNSETOFFLOAD`: what the system may leave to this side, `TUN_F_*`.
pub fn set_offload(tun: impl AsFd, offloads: libc::c_uint) -> io::Result<()> {
    // SAFETY: the argument is a number, and nothing is read or written through it.
    let result: c_int = unsafe {
        libc::ioctl(
            tun.as_fd().as_raw_fd(),
            libc::TUNSETOFFLOAD as _,
            libc::c_ulong::from(offloads),
        )
    };
    checked(result)
}

/// A request whose argument is one number that the kernel reads or writes.
fn pass<T: Number>(tun: impl AsFd, request: libc::c_ulong, number: &mut T) -> io::Result<()> {
    let number: *mut T = number;
    // SAFETY: the requests that come here take an `int` or an `unsigned int`, and `number` is borrowed for the whole call.
    let result: c_int = unsafe { libc::ioctl(tun.as_fd().as_raw_fd(), request as _, number) };
    checked(result)
}

/// The kernel's `int` and `unsigned int`.
trait Number {}
impl Number for c_int {}
impl Number for libc::c_uint {}

fn checked(result: c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// The interface's `IFF_*` flags.
pub fn flags(socket: impl AsFd, name: &str) -> io::Result<u16> {
    let mut request = InterfaceRequest::new(name);
    request.call(socket, libc::SIOCGIFFLAGS as libc::c_ulong)?;
    Ok(request.short())
}

/// Sets the interface's `IFF_*` flags.
pub fn set_flags(socket: impl AsFd, name: &str, flags: u16) -> io::Result<()> {
    InterfaceRequest::new(name)
        .with(&flags.to_ne_bytes())
        .call(socket, libc::SIOCSIFFLAGS as libc::c_ulong)
}

/// The interface's MTU in bytes.
pub fn mtu(socket: impl AsFd, name: &str) -> io::Result<usize> {
    let mut request = InterfaceRequest::new(name);
    request.call(socket, libc::SIOCGIFMTU as libc::c_ulong)?;
    usize::try_from(request.int()).map_err(|_| io::Error::from(io::ErrorKind::InvalidData))
}

/// Sets the interface's MTU in bytes.
pub fn set_mtu(socket: impl AsFd, name: &str, mtu: usize) -> io::Result<()> {
    let mtu = i32::try_from(mtu).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    InterfaceRequest::new(name)
        .with(&mtu.to_ne_bytes())
        .call(socket, libc::SIOCSIFMTU as libc::c_ulong)
}

/// The Ethernet address of the interface's system side.
pub fn hardware_address(socket: impl AsFd, name: &str) -> io::Result<[u8; 6]> {
    hardware(socket, name).map(|(_, address)| address)
}

/// What kind of link the interface is on (`ARPHRD_*`), and the first six bytes of its address there.
pub fn hardware(socket: impl AsFd, name: &str) -> io::Result<(u16, [u8; 6])> {
    let mut request = InterfaceRequest::new(name);
    request.call(socket, libc::SIOCGIFHWADDR as libc::c_ulong)?;
    // A `struct sockaddr`: the family, then the address.
    let [_, _, a, b, c, d, e, f, ..] = request.data;
    Ok((request.short(), [a, b, c, d, e, f]))
}

/// The name of the interface's driver and of its bus: for TUN and TAP devices `("tun", "tun")` and `("tun", "tap")`.
pub fn driver(socket: impl AsFd, name: &str) -> io::Result<(String, String)> {
    let mut driver = DriverRequest {
        command: ETHTOOL_GDRVINFO,
        driver: [0; 32],
        version: [0; 32],
        firmware: [0; 32],
        bus: [0; 32],
        rest: [0; 64],
    };
    ethtool(socket, name, &mut driver)?;
    Ok((text(&driver.driver), text(&driver.bus)))
}

/// The queues of the interface, which must be a TUN or TAP device.
pub fn channels(socket: impl AsFd, name: &str) -> io::Result<Channels> {
    let channels = all_channels(socket, name)?;
    Ok(Channels {
        used: channels.used_combined as usize,
        max: channels.max_combined as usize,
    })
}

/// How many queues the interface has for what it receives.
pub fn receive_queues(socket: impl AsFd, name: &str) -> io::Result<usize> {
    let channels = all_channels(socket, name)?;
    let [receiving, _, _] = channels.used;
    Ok((receiving + channels.used_combined) as usize)
}

fn all_channels(socket: impl AsFd, name: &str) -> io::Result<ChannelsRequest> {
    let mut channels = ChannelsRequest {
        command: ETHTOOL_GCHANNELS,
        ..ChannelsRequest::default()
    };
    ethtool(socket, name, &mut channels)?;
    Ok(channels)
}

/// Asks the interface's driver what `asked` begins with the command for.
fn ethtool(socket: impl AsFd, name: &str, asked: &mut impl Asked) -> io::Result<()> {
    // The pointer travels as bytes, so its provenance is exposed; `asked` is borrowed for the whole call.
    let address = (&raw mut *asked).expose_provenance();
    InterfaceRequest::new(name)
        .with(&address.to_ne_bytes())
        .call(socket, SIOCETHTOOL)
}

/// What an [`ethtool`] command reads and writes, no more than it is long.
trait Asked {}
impl Asked for DriverRequest {}
impl Asked for ChannelsRequest {}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::{FdFlags, fcntl_setfd};
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    #[test]
    fn of_two_who_ask_for_one_number_one_gets_it() {
        for _ in 0..300 {
            let (end, _other_end) = io::pipe().expect("a pipe");
            // As if the process had been started with it.
            fcntl_setfd(&end, FdFlags::empty()).expect("it is open");
            let (number, start) = (end.as_raw_fd(), AtomicUsize::new(0));
            let ask = || {
                start.fetch_add(1, Ordering::Relaxed);
                while start.load(Ordering::Relaxed) < 2 {
                    std::hint::spin_loop();
                }
                inherited(number).is_ok()
            };
            let got = thread::scope(|scope| {
                [scope.spawn(ask), scope.spawn(ask)].map(|asks| asks.join().expect("no panic"))
            });
            assert_ne!(got[0], got[1]);
        }
    }
}
