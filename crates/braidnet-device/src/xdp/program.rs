//! The program that redirects what arrives, and what it finds sockets by: the `bpf` system call (bpf(2), `linux/bpf.h`).
//!
//! A loader would bring an ELF reader and a compiler's output for what are five instructions.

use super::socket::XdpSocket;
use crate::packet::PacketSocket;
use std::ffi::{CStr, c_int};
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// `enum bpf_cmd`.
const MAP_CREATE: c_int = 0;
const MAP_UPDATE: c_int = 2;
const PROGRAM_LOAD: c_int = 5;
const LINK_CREATE: c_int = 28;

/// `BPF_MAP_TYPE_XSKMAP`, `BPF_PROG_TYPE_XDP`, `BPF_XDP`.
const SOCKET_MAP: u32 = 17;
const XDP_PROGRAM: u32 = 6;
const XDP_ATTACH: u32 = 37;

/// Behind the driver, which need not know of XDP (`XDP_FLAGS_SKB_MODE`); in the driver (`XDP_FLAGS_DRV_MODE`).
const GENERIC: u32 = 1 << 1;
const NATIVE: u32 = 1 << 2;

const LICENCE: &CStr = c"MIT";

/// The call's argument: a union of structures, whose fields lie where the kernel's lie, and the rest of which is zero.
#[derive(Default)]
#[repr(C, align(8))]
struct Attributes([u32; 32]);

impl Attributes {
    /// Fields of 32 bits, from the front on.
    fn of<const N: usize>(fields: [u32; N]) -> Attributes {
        let mut attributes = Attributes::default();
        attributes.0[..N].copy_from_slice(&fields);
        attributes
    }

    /// The field of 64 bits that begins with this word.
    fn with(mut self, word: usize, address: u64) -> Attributes {
        let [low, high]: [[u8; 4]; 2] = halves(address);
        self.0[word] = u32::from_ne_bytes(low);
        self.0[word + 1] = u32::from_ne_bytes(high);
        self
    }

    /// The call; a number that is no error's.
    ///
    /// # Safety
    /// What addresses in it point to is alive, and as long as the command has it.
    unsafe fn call(&self, command: c_int) -> io::Result<c_int> {
        let length = size_of::<Attributes>();
        let this: *const Attributes = self;
        // SAFETY: the kernel reads `length` bytes of what is borrowed here, and what the caller vouches for.
        let result = unsafe { libc::syscall(libc::SYS_bpf, command, this, length) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(result as c_int)
    }

    /// The same, for commands that give a descriptor.
    ///
    /// # Safety
    /// As for [`call`](Attributes::call).
    unsafe fn open(&self, command: c_int) -> io::Result<OwnedFd> {
        // SAFETY: the caller's word.
        let fd = unsafe { self.call(command) }?;
        // SAFETY: the kernel has just made it, and nobody else knows of it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

fn halves(number: u64) -> [[u8; 4]; 2] {
    let [a, b, c, d, e, f, g, h] = number.to_ne_bytes();
    [[a, b, c, d], [e, f, g, h]]
}

/// What sends the frames of each queue to its socket. It ends with the value, and with the process: the kernel keeps it for the descriptors' sake alone.
pub struct Redirection {
    sockets: OwnedFd,
    /// The program at the interface, once it is there.
    link: Option<OwnedFd>,
    is_native: bool,
    /// Has the interface take what is for another address than its own.
    listening: Option<PacketSocket>,
}

impl Redirection {
    /// For so many queues.
    pub fn new(queues: usize) -> io::Result<Redirection> {
        let word = size_of::<u32>() as u32;
        let attributes = Attributes::of([SOCKET_MAP, word, word, queues as u32]);
        // SAFETY: there are no addresses in it.
        let sockets = unsafe { attributes.open(MAP_CREATE) }?;
        Ok(Redirection {
            sockets,
            link: None,
            is_native: false,
            listening: None,
        })
    }

    /// Has what comes by this queue go there.
    pub fn add(&mut self, queue: u32, socket: &XdpSocket) -> io::Result<()> {
        let descriptor = socket.as_fd().as_raw_fd();
        let map = self.sockets.as_raw_fd() as u32;
        let attributes = Attributes::of([map])
            .with(2, address(&raw const queue))
            .with(4, address(&raw const descriptor));
        // SAFETY: key and value are numbers of 32 bits, as the map was made for, and live to the end of this function.
        unsafe { attributes.call(MAP_UPDATE) }.map(drop)
    }

    /// Puts the program to the interface: in its driver if that can be, else behind it.
    pub fn attach(&mut self, interface: u32) -> io::Result<()> {
        let program = load(&self.sockets)?;
        let link = |mode| {
            let program = program.as_raw_fd() as u32;
            let attributes = Attributes::of([program, interface, XDP_ATTACH, mode]);
            // SAFETY: there are no addresses in it.
            unsafe { attributes.open(LINK_CREATE) }
        };
        let native = link(NATIVE);
        self.is_native = native.is_ok();
        let is_taken = |error: &io::Error| error.raw_os_error() == Some(libc::EBUSY);
        self.link = Some(match native {
            Err(error) if !is_taken(&error) => link(GENERIC)?,
            native => native?,
        });
        Ok(())
    }

    /// Whether the kernel takes the program.
    pub fn check(&self) -> io::Result<()> {
        load(&self.sockets).map(drop)
    }

    /// Keeps this until the end.
    pub fn keep(&mut self, listening: PacketSocket) {
        self.listening = Some(listening);
    }

    pub fn is_native(&self) -> bool {
        self.is_native
    }
}

/// Loads `return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS)`.
fn load(sockets: &OwnedFd) -> io::Result<OwnedFd> {
    let instruction = |code: u8, registers: u8, offset: i16, immediate: i32| {
        let [a, b] = offset.to_ne_bytes();
        let [c, d, e, f] = immediate.to_ne_bytes();
        u64::from_ne_bytes([code, registers, a, b, c, d, e, f])
    };
    let program = [
        // r2 = *(u32 *)(r1 + 16): the queue (`struct xdp_md`).
        instruction(0x61, 0x12, 16, 0),
        // r1 = the map, an instruction of two words.
        instruction(0x18, 0x11, 0, sockets.as_raw_fd()),
        instruction(0, 0, 0, 0),
        // r3 = XDP_PASS, for queues without a socket.
        instruction(0xb7, 0x03, 0, 2),
        // r0 = bpf_redirect_map(r1, r2, r3)
        instruction(0x85, 0, 0, 51),
        instruction(0x95, 0, 0, 0),
    ];
    let attributes = Attributes::of([XDP_PROGRAM, program.len() as u32])
        .with(2, address(program.as_ptr()))
        .with(4, address(LICENCE.as_ptr()));
    // SAFETY: the program, as long as is said, and the licence live to the end of this function.
    unsafe { attributes.open(PROGRAM_LOAD) }
}

/// An address as the kernel takes it.
fn address<T>(of: *const T) -> u64 {
    of.expose_provenance() as u64
}
