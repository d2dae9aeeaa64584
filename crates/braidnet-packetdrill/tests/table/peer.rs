//! A table as packetdrill has it, and the peer that scripts play.

use braidnet::wire::address::Address;
use braidnet::wire::checksum::Sum;
use braidnet::wire::seq::SeqNumber;
use braidnet::wire::tcp::{self, FastOpenCookie, TcpFlags, TcpHeader};
use braidnet_packetdrill::Interface;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub const LOCAL: [u8; 4] = [10, 0, 0, 1];
pub const REMOTE: [u8; 4] = [192, 0, 2, 1];
pub const PORT: u16 = 8080;
pub const PEER: u16 = 33_333;
/// Where the peer's sequence numbers begin.
pub const PEER_ISN: u32 = 5_000;

/// A table, and the connection's sequence numbers as its peer knows them.
pub struct Table {
    pub interface: Interface,
    pub local_port: u16,
    pub isn: u32,
}

/// What the peer and the object pass through threads is behind the object's own lock.
pub struct Shared(pub Table);

// SAFETY: `userdata` may be used by several threads at once, says the object; packetdrill does.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// The object as cargo has built it, beside this test's own binary.
fn object() -> PathBuf {
    let own = std::env::current_exe().expect("a test has a path");
    let deps = own.parent().expect("in a folder").to_owned();
    let name = "libbraidnet_packetdrill.so";
    let places = [deps.join(name), deps.with_file_name(name)];
    let found = places.into_iter().find(|path| path.exists());
    found.expect("cargo builds the object with the test")
}

impl Table {
    pub fn load() -> Table {
        let path = object().into_os_string().into_encoded_bytes();
        let path = [path, vec![0]].concat();
        let flags = libc::RTLD_NOW | libc::RTLD_LOCAL | libc::RTLD_NODELETE | libc::RTLD_DEEPBIND;
        // SAFETY: a path that ends in a NUL; loading it runs nothing of ours.
        let handle = unsafe { libc::dlopen(path.as_ptr().cast(), flags) };
        assert!(!handle.is_null(), "the object loads");
        // SAFETY: a handle that was just opened, and a name that ends in a NUL.
        let symbol = unsafe { libc::dlsym(handle, c"packetdrill_interface_init".as_ptr()) };
        assert!(!symbol.is_null(), "it has the symbol");
        type Init = unsafe extern "C" fn(*const c_char, *mut Interface);
        // SAFETY: the symbol is a function of this type.
        let init = unsafe { core::mem::transmute::<*mut c_void, Init>(symbol) };
        let mut interface = MaybeUninit::zeroed();
        let flags: &CStr = c"local=10.0.0.1,mtu=1500";
        // SAFETY: a string, and room for a table.
        unsafe { init(flags.as_ptr(), interface.as_mut_ptr()) };
        Table {
            // SAFETY: the object has filled all of it in.
            interface: unsafe { interface.assume_init() },
            local_port: PORT,
            isn: 0,
        }
    }

    pub fn socket(&self, domain: c_int) -> c_int {
        let fd = (self.interface.socket)(self.interface.userdata, domain, libc::SOCK_STREAM, 0);
        assert!(fd >= 0);
        fd
    }

    pub fn bind(&self, fd: c_int, address: &[u8]) -> c_int {
        let len = address.len() as libc::socklen_t;
        (self.interface.bind)(self.interface.userdata, fd, address.as_ptr().cast(), len)
    }

    pub fn listener(&self, domain: c_int) -> c_int {
        let fd = self.socket(domain);
        let address = match domain {
            libc::AF_INET => sockaddr(LOCAL, PORT),
            _ => sockaddr6([0; 16], PORT),
        };
        assert_eq!(self.bind(fd, &address), 0);
        assert_eq!((self.interface.listen)(self.interface.userdata, fd, 1), 0);
        fd
    }

    pub fn accept(&self, fd: c_int) -> (c_int, Vec<u8>) {
        let mut address = [0_u8; 64];
        let mut len = 64;
        let to = address.as_mut_ptr().cast();
        let fd = (self.interface.accept)(self.interface.userdata, fd, to, &raw mut len);
        (fd, address[..len as usize].to_vec())
    }

    pub fn connect(&self, fd: c_int) -> c_int {
        let to = sockaddr(REMOTE, PEER);
        let len = to.len() as libc::socklen_t;
        (self.interface.connect)(self.interface.userdata, fd, to.as_ptr().cast(), len)
    }

    pub fn read(&self, fd: c_int) -> isize {
        let mut to = [0_u8; 4096];
        (self.interface.read)(
            self.interface.userdata,
            fd,
            to.as_mut_ptr().cast(),
            to.len(),
        )
    }

    pub fn write(&self, fd: c_int, len: usize) -> isize {
        let from = vec![7_u8; len];
        (self.interface.write)(self.interface.userdata, fd, from.as_ptr().cast(), len)
    }

    pub fn nonblocking(&self, fd: c_int) {
        let get = (self.interface.fcntl)(self.interface.userdata, fd, libc::F_GETFL, 0);
        assert_eq!(get, libc::O_RDWR);
        let flags = (get | libc::O_NONBLOCK) as usize;
        let set = (self.interface.fcntl)(self.interface.userdata, fd, libc::F_SETFL, flags);
        assert_eq!(set, 0);
        let get = (self.interface.fcntl)(self.interface.userdata, fd, libc::F_GETFL, 0);
        assert_eq!(get, libc::O_RDWR | libc::O_NONBLOCK);
    }

    pub fn sockopt(&self, fd: c_int, level: c_int, name: c_int) -> Result<c_int, c_int> {
        let mut value: c_int = -1;
        let mut len = 4;
        let to = (&raw mut value).cast();
        let got =
            (self.interface.getsockopt)(self.interface.userdata, fd, level, name, to, &raw mut len);
        if got == 0 { Ok(value) } else { Err(errno()) }
    }

    pub fn set_sockopt(&self, fd: c_int, level: c_int, name: c_int, value: c_int) -> c_int {
        let from = (&raw const value).cast();
        (self.interface.setsockopt)(self.interface.userdata, fd, level, name, from, 4)
    }

    pub fn micros(&self) -> i64 {
        let mut time = libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        let null = core::ptr::null_mut();
        (self.interface.gettimeofday)(self.interface.userdata, &raw mut time, null);
        time.tv_sec * 1_000_000 + time.tv_usec
    }

    /// A segment comes from the peer; its numbers count from the SYNs.
    pub fn arrives(&self, flags: TcpFlags, seq: u32, ack: u32, len: usize) {
        self.arrives_as(self.header(flags, seq, ack), len);
    }

    /// Its SYN-ACK, with a cookie of Fast Open.
    pub fn gives_cookie(&self, ack: u32, cookie: &[u8]) {
        let cookie = FastOpenCookie::new(cookie).expect("a cookie");
        self.arrives_as(self.header(SYN_ACK, 0, ack).with_fast_open(cookie), 0);
    }

    fn header(&self, flags: TcpFlags, seq: u32, ack: u32) -> TcpHeader {
        TcpHeader {
            seq: SeqNumber::new(PEER_ISN.wrapping_add(seq)),
            ack: SeqNumber::new(self.isn.wrapping_add(ack)),
            window: 65535,
            flags,
            present: if flags.contains(TcpFlags::SYN) {
                TcpHeader::HAS_MSS
            } else {
                0
            },
            mss: 1000,
            ..TcpHeader::default()
        }
    }

    fn arrives_as(&self, header: TcpHeader, len: usize) {
        let mut segment = [0; 4096];
        let header_len = tcp::emit(&header, PEER, self.local_port, &mut segment);
        let total = header_len + len;
        let sum = Sum::pseudo_header(&Address::v4(REMOTE), &Address::v4(LOCAL), 6, total as u32);
        tcp::seal(&mut segment[..header_len], sum + Sum::of(&vec![0; len]));
        let mut packet = vec![0x45, 0];
        packet.extend(((20 + total) as u16).to_be_bytes());
        packet.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        packet.extend(REMOTE);
        packet.extend(LOCAL);
        let checksum = Sum::of(&packet).finish_bytes();
        packet[10..12].copy_from_slice(&checksum);
        packet.extend(&segment[..total]);
        let from = packet.as_ptr().cast();
        let sent = (self.interface.netdev_send)(self.interface.userdata, from, packet.len());
        assert_eq!(sent, 0);
    }

    /// The next packet that leaves: when, its header and the length of its data. `None` if there is none.
    pub fn leaves(&self) -> Option<(i64, TcpHeader, usize)> {
        let mut to = [0_u8; 4096];
        let (mut len, mut at) = (to.len(), 0);
        let got = (self.interface.netdev_receive)(
            self.interface.userdata,
            to.as_mut_ptr().cast(),
            &raw mut len,
            &raw mut at,
        );
        assert_eq!(got, 0);
        if len == 0 {
            return None;
        }
        assert_eq!(
            usize::from(u16::from_be_bytes([to[2], to[3]])),
            len,
            "a whole packet"
        );
        let segment = &to[20..len];
        tcp::verify(&Address::v4(LOCAL), &Address::v4(REMOTE), segment).expect("a right checksum");
        let parsed = tcp::parse(segment).expect("a right header");
        let data = segment.len() - usize::from(segment[12] >> 4) * 4;
        Some((at, parsed.header, data))
    }

    /// The same, which has to be there and is as said: relative sequence number, acknowledgment, length.
    pub fn expect(&self, flags: TcpFlags, seq: u32, ack: u32, len: usize) -> i64 {
        let (at, header, found) = self.leaves().expect("something leaves");
        let plain = TcpFlags(header.flags.0 & !TcpFlags::PSH.0);
        let numbers = (
            header.seq.value().wrapping_sub(self.isn),
            header.ack.value().wrapping_sub(PEER_ISN),
        );
        assert_eq!((plain, numbers, found), (flags, (seq, ack), len));
        at
    }

    /// A connection that has called the listener.
    pub fn called(&mut self, listener: c_int) -> c_int {
        self.arrives(SYN, 0, 0, 0);
        let (_, header, _) = self.leaves().expect("a SYN-ACK");
        assert_eq!(header.flags, SYN_ACK);
        self.isn = header.seq.value();
        self.arrives(ACK, 1, 1, 0);
        self.accept(listener).0
    }

    pub fn free(self) {
        (self.interface.free)(self.interface.userdata);
    }
}

pub const SYN: TcpFlags = TcpFlags::SYN;
pub const ACK: TcpFlags = TcpFlags::ACK;
pub const SYN_ACK: TcpFlags = TcpFlags::SYN.union(TcpFlags::ACK);
pub const FIN_ACK: TcpFlags = TcpFlags::FIN.union(TcpFlags::ACK);

pub fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

pub fn sockaddr(address: [u8; 4], port: u16) -> Vec<u8> {
    let mut bytes = (libc::AF_INET as u16).to_ne_bytes().to_vec();
    bytes.extend(port.to_be_bytes());
    bytes.extend(address);
    bytes.extend([0; 8]);
    bytes
}

pub fn sockaddr6(address: [u8; 16], port: u16) -> Vec<u8> {
    let mut bytes = (libc::AF_INET6 as u16).to_ne_bytes().to_vec();
    bytes.extend(port.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(address);
    bytes.extend([0; 4]);
    bytes
}

/// Runs a blocking call on a second thread, and `meanwhile` on this one as soon as the first sleeps, which is what packetdrill
/// waits for.
pub fn blocking<T: Send + 'static>(
    table: &Arc<Shared>,
    call: impl FnOnce(&Table) -> T + Send + 'static,
    meanwhile: impl FnOnce(&Table),
) -> T {
    let shared = table.clone();
    let (tell, told) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        // SAFETY: asks for a number.
        let id = unsafe { libc::syscall(libc::SYS_gettid) };
        tell.send(id).expect("somebody listens");
        call(&shared.0)
    });
    let id = told.recv().expect("the thread runs");
    for _ in 0..10_000 {
        let state = std::fs::read_to_string(format!("/proc/self/task/{id}/stat"));
        let sleeps =
            state.is_ok_and(|text| text.rsplit(')').next().unwrap_or("").starts_with(" S"));
        if sleeps {
            break;
        }
        std::thread::sleep(Duration::from_micros(100));
    }
    assert!(!thread.is_finished(), "it blocks");
    meanwhile(&table.0);
    thread.join().expect("no panic")
}

/// The same table once more; it is freed once, or with the process.
pub fn copy(interface: &Interface) -> Interface {
    // SAFETY: a table is a pointer and functions, none of which it owns.
    unsafe { core::ptr::read(interface) }
}
