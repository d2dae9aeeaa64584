//! The system calls on packet sockets (packet(7)).
//!
//! Each option is one value that is borrowed for the call; all memory that the kernel keeps using lies in the [ring](super::ring).

use crate::MacAddress;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Bytes that wait in a socket, beside its ring: packets of many segments that came in, those on their way out.
const BUFFER_BYTES: c_int = 8 << 20;

/// A packet socket that is joined to nothing yet.
pub struct PacketSocket(OwnedFd);

/// Which frames come in by a socket.
#[derive(Clone, Copy)]
pub enum Filter {
    Nothing,
    /// Those for this address, for groups and for all; none that the system itself sends.
    For(MacAddress),
}

/// What options are: plain values without pointers of their own, but for the program of a filter, which outlives the call.
trait Value {}
impl Value for c_int {}
impl Value for libc::tpacket_req {}
impl Value for libc::tpacket_stats {}
impl Value for libc::packet_mreq {}
impl Value for libc::sock_fprog {}

impl PacketSocket {
    /// One by which nothing comes in.
    pub fn open() -> io::Result<PacketSocket> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::PACKET, SocketType::RAW, flags, None)?;
        Ok(PacketSocket(socket))
    }

    /// Has packets bring their descriptions along, in whatever way they come.
    pub fn describe_packets(&self) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_VNET_HDR, &1)
    }

    /// Has a ring for what comes in.
    pub fn make_ring(&self, shape: libc::tpacket_req) -> io::Result<()> {
        let version = libc::tpacket_versions::TPACKET_V2 as c_int;
        self.set(libc::SOL_PACKET, libc::PACKET_VERSION, &version)?;
        self.set(libc::SOL_PACKET, libc::PACKET_RX_RING, &shape)
    }

    /// Lets packets in: into the ring, and what is too long for it beside it, too.
    pub fn begin_receiving(&self, interface: u32) -> io::Result<()> {
        self.set(libc::SOL_PACKET, libc::PACKET_COPY_THRESH, &1)?;
        self.enlarge(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)?;
        // The filter leaves them out as well; not to be asked at all is cheaper. Linux has it since 4.20.
        let _ = self.set(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1);
        self.bind(interface, libc::ETH_P_ALL as u16)
    }

    /// A socket by which packets leave, described, and none come in.
    pub fn begin_sending(&self, interface: u32) -> io::Result<()> {
        self.describe_packets()?;
        self.enlarge(libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)?;
        self.bind(interface, 0)
    }

    /// Deals what comes among the sockets of a group, or founds one; its number.
    pub fn share(&self, group: Option<u16>) -> io::Result<u16> {
        let kind = libc::PACKET_FANOUT_HASH | libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        let (number, kind) = match group {
            Some(number) => (number, kind),
            None => (0, kind | libc::PACKET_FANOUT_FLAG_UNIQUEID),
        };
        let asked = (kind << 16 | u32::from(number)) as c_int;
        self.set(libc::SOL_PACKET, libc::PACKET_FANOUT, &asked)?;
        let mut given: c_int = 0;
        self.get(libc::PACKET_FANOUT, &mut given)?;
        Ok(given as u16)
    }

    /// Has the interface take what is for this address, too, as long as the socket is open.
    pub fn listen_for(&self, interface: u32, station: MacAddress) -> io::Result<()> {
        let mut address = [0; 8];
        address[..6].copy_from_slice(&station.0);
        let member = libc::packet_mreq {
            mr_ifindex: interface as c_int,
            mr_type: libc::PACKET_MR_UNICAST as u16,
            mr_alen: 6,
            mr_address: address,
        };
        self.set(libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &member)
    }

    /// Has only some packets come in.
    pub fn filter(&self, filter: Filter) -> io::Result<()> {
        let mut program = filter.program();
        let program = libc::sock_fprog {
            len: program.len() as u16,
            filter: program.as_mut_ptr(),
        };
        self.set(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
    }

    /// How many packets found no room since this was last asked.
    pub fn lost(&self) -> u64 {
        let mut statistics = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        match self.get(libc::PACKET_STATISTICS, &mut statistics) {
            Ok(()) => statistics.tp_drops.into(),
            Err(_) => 0,
        }
    }

    /// The interface that it is bound to; another number than before when that was removed.
    pub fn interface(&self) -> io::Result<i32> {
        let mut address = address(0, 0);
        let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let to = (&raw mut address).cast::<libc::sockaddr>();
        // SAFETY: the kernel writes at most `length` bytes, which `address` has; both are borrowed for the call.
        let result = unsafe { libc::getsockname(self.0.as_raw_fd(), to, &mut length) };
        checked(result).map(|()| address.sll_ifindex)
    }

    fn bind(&self, interface: u32, protocol: u16) -> io::Result<()> {
        let address = address(interface, protocol);
        let length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        let from = (&raw const address).cast::<libc::sockaddr>();
        // SAFETY: the kernel reads `length` bytes of `address`, which has as many and is borrowed for the call.
        checked(unsafe { libc::bind(self.0.as_raw_fd(), from, length) })
    }

    /// As much room as is asked for where this process may, else as much as it is given.
    fn enlarge(&self, forced: c_int, usual: c_int) -> io::Result<()> {
        let forced = self.set(libc::SOL_SOCKET, forced, &BUFFER_BYTES);
        forced.or_else(|_| self.set(libc::SOL_SOCKET, usual, &BUFFER_BYTES))
    }

    fn set<V: Value>(&self, level: c_int, option: c_int, value: &V) -> io::Result<()> {
        let length = size_of::<V>() as libc::socklen_t;
        let value = (&raw const *value).cast();
        // SAFETY: the kernel reads no more than `length` bytes of a value that is borrowed for the call, and what a filter's program points to, which is
        // alive in `filter`.
        checked(unsafe { libc::setsockopt(self.0.as_raw_fd(), level, option, value, length) })
    }

    fn get<V: Value>(&self, option: c_int, value: &mut V) -> io::Result<()> {
        let mut length = size_of::<V>() as libc::socklen_t;
        let value = (&raw mut *value).cast();
        let socket = self.0.as_raw_fd();
        // SAFETY: the kernel writes no more than `length` bytes of a value that is borrowed for the call, and of which any bytes are one.
        let result =
            unsafe { libc::getsockopt(socket, libc::SOL_PACKET, option, value, &mut length) };
        checked(result)
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn checked(result: c_int) -> io::Result<()> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

/// An interface, and what is taken from it.
fn address(interface: u32, protocol: u16) -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: interface as c_int,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

impl Filter {
    /// The program in the system's words (`linux/filter.h`): what it returns is how many bytes of a packet come in.
    fn program(self) -> Vec<libc::sock_filter> {
        let load =
            |size: u32, from: c_int| (libc::BPF_LD | size | libc::BPF_ABS, 0, 0, from as u32);
        let is =
            |value: u32, then, or| (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, then, or, value);
        let has =
            |bits: u32, then, or| (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K, then, or, bits);
        let take = |bytes: u32| (libc::BPF_RET | libc::BPF_K, 0, 0, bytes);
        let program = match self {
            Filter::Nothing => vec![take(0)],
            Filter::For(MacAddress([a, b, c, d, e, f])) => vec![
                load(libc::BPF_B, libc::SKF_AD_OFF + libc::SKF_AD_PKTTYPE),
                is(libc::PACKET_OUTGOING.into(), 7, 0),
                load(libc::BPF_B, 0),
                has(1, 4, 0),
                load(libc::BPF_W, 0),
                is(u32::from_be_bytes([a, b, c, d]), 0, 3),
                load(libc::BPF_H, 4),
                is(u32::from_be_bytes([0, 0, e, f]), 0, 1),
                take(u32::MAX),
                take(0),
            ],
        };
        let instruction = |(code, jt, jf, k): (u32, u8, u8, u32)| libc::sock_filter {
            code: code as u16,
            jt,
            jf,
            k,
        };
        program.into_iter().map(instruction).collect()
    }
}
