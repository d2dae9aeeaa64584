//! A queue's socket: its frames, its four rings, and what it is bound to.

use super::frames::{FRAMES, Frames};
use super::ring::{Consumer, Producer};
use rustix::io::Errno;
use rustix::net::sockopt::{
    set_xdp_rx_ring_size, set_xdp_tx_ring_size, set_xdp_umem_completion_ring_size,
    set_xdp_umem_fill_ring_size, set_xdp_umem_reg, xdp_mmap_offsets, xdp_options,
};
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpDesc, XdpOptionsFlags, XdpUmemReg,
    XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long a queue that is not free is waited for, and how often it is tried.
const PATIENCE: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(5);

/// What all sockets of an interface have in common.
#[derive(Clone, Copy)]
pub struct Kind {
    /// The interface's index.
    pub interface: u32,
    pub packet_max: usize,
    pub zero_copy: bool,
}

/// The socket of one queue.
pub struct XdpSocket {
    inward: Inward,
    outward: Outward,
    is_zero_copy: bool,
}

/// What comes in: frames that were filled, and those that are to be.
pub struct Inward {
    pub socket: Arc<OwnedFd>,
    pub frames: Frames,
    pub filled: Consumer<XdpDesc>,
    pub free: Producer<u64>,
    /// Frames that were read, and for which the ring had no room.
    pub emptied: Vec<u64>,
}

impl Inward {
    /// Lets the kernel fill the frames again that were read. It says that it has filled some before it says that it has taken them out, so that for a moment there may be no room
    /// for those that came by then: they wait. They are no more than what it fills before it says so, a turn of its driver (64 as a rule), and so the others, which are in the ring, are
    /// enough to have something come.
    pub fn give_back(&mut self) {
        self.free.take_from(&mut self.emptied);
        self.free.publish();
    }
}

/// What leaves: frames that are to be sent, and those that were.
pub struct Outward {
    pub socket: Arc<OwnedFd>,
    pub frames: Frames,
    pub waiting: Producer<XdpDesc>,
    pub sent: Consumer<u64>,
    /// Frames that wait for nothing.
    pub free: Vec<u64>,
}

impl XdpSocket {
    /// A socket that is nobody's yet.
    pub fn open() -> io::Result<OwnedFd> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Ok(socket_with(
            AddressFamily::XDP,
            SocketType::RAW,
            flags,
            None,
        )?)
    }

    /// A socket for this queue of the interface; nothing comes by it before it is redirected there.
    pub fn new(kind: Kind, queue: u32) -> io::Result<XdpSocket> {
        let socket = XdpSocket::open()?;
        let (memory, inward, outward) = Frames::halves(kind.packet_max)?;
        set_xdp_umem_reg(
            &socket,
            XdpUmemReg {
                addr: memory.at(0, memory.bytes()).as_ptr().expose_provenance() as u64,
                len: memory.bytes() as u64,
                chunk_size: inward.frame_bytes() as u32,
                headroom: 0,
                flags: XdpUmemRegFlags::empty(),
                tx_metadata_len: 0,
            },
        )?;
        set_xdp_umem_fill_ring_size(&socket, FRAMES)?;
        set_xdp_umem_completion_ring_size(&socket, FRAMES)?;
        set_xdp_rx_ring_size(&socket, FRAMES)?;
        set_xdp_tx_ring_size(&socket, FRAMES)?;
        let offsets = xdp_mmap_offsets(&socket)?;
        let fd = socket.as_fd();
        let filled = Consumer::of(fd, offsets.rx, XDP_PGOFF_RX_RING, FRAMES)?;
        let waiting = Producer::of(fd, offsets.tx, XDP_PGOFF_TX_RING, FRAMES)?;
        let mut free = Producer::of(fd, offsets.fr, XDP_UMEM_PGOFF_FILL_RING, FRAMES)?;
        let sent = Consumer::of(fd, offsets.cr, XDP_UMEM_PGOFF_COMPLETION_RING, FRAMES)?;
        for address in inward.addresses() {
            let has_room = free.push(address);
            debug_assert!(has_room, "the ring is as long as there are frames");
        }
        free.publish();
        join(&socket, kind, queue)?;
        let is_zero_copy = xdp_options(&socket)
            .is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY));
        let socket = Arc::new(socket);
        Ok(XdpSocket {
            outward: Outward {
                socket: socket.clone(),
                free: outward.addresses().collect(),
                frames: outward,
                waiting,
                sent,
            },
            inward: Inward {
                socket,
                frames: inward,
                filled,
                free,
                emptied: Vec::with_capacity(FRAMES as usize),
            },
            is_zero_copy,
        })
    }

    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    pub fn split(self) -> (Inward, Outward) {
        (self.inward, self.outward)
    }
}

/// Binds it: the kernel takes the copies out if it may and can.
fn join(socket: &OwnedFd, kind: Kind, queue: u32) -> io::Result<()> {
    let mut flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
    if !kind.zero_copy {
        flags |= SocketAddrXdpFlags::XDP_COPY;
    }
    let begun = Instant::now();
    loop {
        let address = SocketAddrXdp::new(flags, kind.interface, queue);
        match bind(socket, &address) {
            // The kernel lets go of a queue some time after the last socket there was closed.
            Err(Errno::BUSY) if begun.elapsed() < PATIENCE => sleep(PAUSE),
            // A driver that says it can, and then cannot with this configuration.
            Err(Errno::OPNOTSUPP | Errno::INVAL)
                if !flags.contains(SocketAddrXdpFlags::XDP_COPY) =>
            {
                flags |= SocketAddrXdpFlags::XDP_COPY;
            }
            result => return Ok(result?),
        }
    }
}

impl AsFd for XdpSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inward.socket.as_fd()
    }
}
