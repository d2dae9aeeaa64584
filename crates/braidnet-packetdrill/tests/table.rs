//! Loads the shared object and drives its table as packetdrill does.

use braidnet::wire::address::Address;
use braidnet::wire::checksum::Sum;
use braidnet::wire::seq::SeqNumber;
use braidnet::wire::tcp::{self, TcpFlags, TcpHeader};
use braidnet_packetdrill::Interface;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::MaybeUninit;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

const LOCAL: [u8; 4] = [10, 0, 0, 1];
const REMOTE: [u8; 4] = [192, 0, 2, 1];
const PORT: u16 = 8080;
const PEER: u16 = 33_333;
/// Where the peer's sequence numbers begin.
const PEER_ISN: u32 = 5_000;

/// A table, and the connection's sequence numbers as its peer knows them.
struct Table {
    interface: Interface,
    local_port: u16,
    isn: u32,
}

/// What the peer and the object pass through threads is behind the object's own lock.
struct Shared(Table);

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
    fn load() -> Table {
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

    fn socket(&self, domain: c_int) -> c_int {
        let fd = (self.interface.socket)(self.interface.userdata, domain, libc::SOCK_STREAM, 0);
        assert!(fd >= 0);
        fd
    }

    fn bind(&self, fd: c_int, address: &[u8]) -> c_int {
        let len = address.len() as libc::socklen_t;
        (self.interface.bind)(self.interface.userdata, fd, address.as_ptr().cast(), len)
    }

    fn listener(&self, domain: c_int) -> c_int {
        let fd = self.socket(domain);
        let address = match domain {
            libc::AF_INET => sockaddr(LOCAL, PORT),
            _ => sockaddr6([0; 16], PORT),
        };
        assert_eq!(self.bind(fd, &address), 0);
        assert_eq!((self.interface.listen)(self.interface.userdata, fd, 1), 0);
        fd
    }

    fn accept(&self, fd: c_int) -> (c_int, Vec<u8>) {
        let mut address = [0_u8; 64];
        let mut len = 64;
        let to = address.as_mut_ptr().cast();
        let fd = (self.interface.accept)(self.interface.userdata, fd, to, &raw mut len);
        (fd, address[..len as usize].to_vec())
    }

    fn connect(&self, fd: c_int) -> c_int {
        let to = sockaddr(REMOTE, PEER);
        let len = to.len() as libc::socklen_t;
        (self.interface.connect)(self.interface.userdata, fd, to.as_ptr().cast(), len)
    }

    fn read(&self, fd: c_int) -> isize {
        let mut to = [0_u8; 4096];
        (self.interface.read)(
            self.interface.userdata,
            fd,
            to.as_mut_ptr().cast(),
            to.len(),
        )
    }

    fn write(&self, fd: c_int, len: usize) -> isize {
        let from = vec![7_u8; len];
        (self.interface.write)(self.interface.userdata, fd, from.as_ptr().cast(), len)
    }

    fn nonblocking(&self, fd: c_int) {
        let get = (self.interface.fcntl)(self.interface.userdata, fd, libc::F_GETFL, 0);
        assert_eq!(get, libc::O_RDWR);
        let flags = (get | libc::O_NONBLOCK) as usize;
        let set = (self.interface.fcntl)(self.interface.userdata, fd, libc::F_SETFL, flags);
        assert_eq!(set, 0);
        let get = (self.interface.fcntl)(self.interface.userdata, fd, libc::F_GETFL, 0);
        assert_eq!(get, libc::O_RDWR | libc::O_NONBLOCK);
    }

    fn sockopt(&self, fd: c_int, level: c_int, name: c_int) -> Result<c_int, c_int> {
        let mut value: c_int = -1;
        let mut len = 4;
        let to = (&raw mut value).cast();
        let got =
            (self.interface.getsockopt)(self.interface.userdata, fd, level, name, to, &raw mut len);
        if got == 0 { Ok(value) } else { Err(errno()) }
    }

    fn set_sockopt(&self, fd: c_int, level: c_int, name: c_int, value: c_int) -> c_int {
        let from = (&raw const value).cast();
        (self.interface.setsockopt)(self.interface.userdata, fd, level, name, from, 4)
    }

    fn micros(&self) -> i64 {
        let mut time = libc::timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        let null = core::ptr::null_mut();
        (self.interface.gettimeofday)(self.interface.userdata, &raw mut time, null);
        time.tv_sec * 1_000_000 + time.tv_usec
    }

    /// A segment comes from the peer; its numbers count from the SYNs.
    fn arrives(&self, flags: TcpFlags, seq: u32, ack: u32, len: usize) {
        let header = TcpHeader {
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
        };
        let mut segment = [0; 2048];
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
    fn leaves(&self) -> Option<(i64, TcpHeader, usize)> {
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
    fn expect(&self, flags: TcpFlags, seq: u32, ack: u32, len: usize) -> i64 {
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
    fn called(&mut self, listener: c_int) -> c_int {
        self.arrives(SYN, 0, 0, 0);
        let (_, header, _) = self.leaves().expect("a SYN-ACK");
        assert_eq!(header.flags, SYN_ACK);
        self.isn = header.seq.value();
        self.arrives(ACK, 1, 1, 0);
        self.accept(listener).0
    }

    fn free(self) {
        (self.interface.free)(self.interface.userdata);
    }
}

const SYN: TcpFlags = TcpFlags::SYN;
const ACK: TcpFlags = TcpFlags::ACK;
const SYN_ACK: TcpFlags = TcpFlags::SYN.union(TcpFlags::ACK);
const FIN_ACK: TcpFlags = TcpFlags::FIN.union(TcpFlags::ACK);

fn errno() -> c_int {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

fn sockaddr(address: [u8; 4], port: u16) -> Vec<u8> {
    let mut bytes = (libc::AF_INET as u16).to_ne_bytes().to_vec();
    bytes.extend(port.to_be_bytes());
    bytes.extend(address);
    bytes.extend([0; 8]);
    bytes
}

fn sockaddr6(address: [u8; 16], port: u16) -> Vec<u8> {
    let mut bytes = (libc::AF_INET6 as u16).to_ne_bytes().to_vec();
    bytes.extend(port.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend(address);
    bytes.extend([0; 4]);
    bytes
}

/// Tests that compare numbers of descriptors, which the whole process shares, do so one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    LOCK.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a blocking call on a second thread, and `meanwhile` on this one as soon as the first sleeps, which is what packetdrill
/// waits for.
fn blocking<T: Send + 'static>(
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

#[test]
fn the_table_is_as_long_as_packetdrills() {
    assert_eq!(size_of::<Interface>(), 33 * size_of::<usize>());
}

#[test]
fn a_caller_is_heard_and_answered() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    let fd = table.called(listener);
    assert!(fd >= 0);
    table.arrives(ACK, 1, 1, 300);
    assert_eq!(table.read(fd), 300);
    table.nonblocking(fd);
    assert_eq!((table.read(fd), errno()), (-1, libc::EAGAIN));
    assert_eq!(table.write(fd, 500), 500);
    let at = table.expect(ACK, 1, 301, 500);
    let again = table.expect(ACK, 1, 301, 500);
    // A timeout, in virtual time; timers are as coarse as a millisecond.
    assert!((200_000..202_000).contains(&(again - at)));
    table.arrives(ACK, 301, 501, 0);
    assert_eq!((table.interface.close)(table.interface.userdata, fd), 0);
    table.expect(FIN_ACK, 501, 301, 0);
    table.arrives(FIN_ACK, 301, 502, 0);
    table.expect(ACK, 502, 302, 0);
    assert!(table.leaves().is_none(), "nothing in five minutes");
    assert_eq!((table.read(fd), errno()), (-1, libc::EBADF));
    table.free();
}

#[test]
fn the_peers_address_is_told_as_the_family_has_it() {
    let mapped = |address: [u8; 4]| {
        let mut bytes = [0; 16];
        bytes[10..12].fill(0xff);
        bytes[12..].copy_from_slice(&address);
        bytes
    };
    let rows = [
        (libc::AF_INET, sockaddr(REMOTE, PEER)),
        (libc::AF_INET6, sockaddr6(mapped(REMOTE), PEER)),
    ];
    for (domain, expected) in rows {
        let mut table = Table::load();
        let listener = table.listener(domain);
        table.arrives(SYN, 0, 0, 0);
        table.isn = table.leaves().expect("a SYN-ACK").1.seq.value();
        table.arrives(ACK, 1, 1, 0);
        let (fd, from) = table.accept(listener);
        assert!(fd >= 0);
        assert_eq!(from, expected);
        table.free();
    }
}

#[test]
fn blocking_calls_sleep_until_they_have_something() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    table.arrives(SYN, 0, 0, 0);
    table.isn = table.leaves().expect("a SYN-ACK").1.seq.value();
    let table = Arc::new(Shared(table));
    let fd = blocking(
        &table,
        move |table| table.accept(listener).0,
        |table| table.arrives(ACK, 1, 1, 0),
    );
    assert!(fd >= 0);
    let read = blocking(
        &table,
        move |table| table.read(fd),
        |table| table.arrives(ACK, 1, 1, 100),
    );
    assert_eq!(read, 100);
    let end = blocking(
        &table,
        move |table| table.read(fd),
        |table| table.arrives(FIN_ACK, 101, 1, 0),
    );
    assert_eq!(end, 0);
    let closed = blocking(
        &table,
        move |table| (table.accept(listener).0, errno()),
        |table| {
            let close = table.interface.close;
            assert_eq!(close(table.interface.userdata, listener), 0);
        },
    );
    assert_eq!(closed, (-1, libc::EBADF));
}

#[test]
fn a_blocking_opening_ends_with_the_handshake_or_a_refusal() {
    for (flags, expected) in [
        (SYN_ACK, (0, 0)),
        (TcpFlags::RST.union(TcpFlags::ACK), (-1, libc::ECONNREFUSED)),
    ] {
        let mut table = Table::load();
        let fd = table.socket(libc::AF_INET);
        assert_eq!(table.bind(fd, &sockaddr(LOCAL, 40_000)), 0);
        table.local_port = 40_000;
        let table = Arc::new(Shared(table));
        let answer = blocking(
            &table,
            move |table| {
                let answer = table.connect(fd);
                (answer, if answer < 0 { errno() } else { 0 })
            },
            |table| {
                let (_, syn, _) = table.leaves().expect("a SYN");
                assert_eq!(syn.flags, SYN);
                let answer = Table {
                    isn: syn.seq.value(),
                    interface: copy(&table.interface),
                    ..*table
                };
                answer.arrives(flags, 0, 1, 0);
            },
        );
        assert_eq!(answer, expected);
    }
}

/// The same table once more; it is freed once, or with the process.
fn copy(interface: &Interface) -> Interface {
    // SAFETY: a table is a pointer and functions, none of which it owns.
    unsafe { core::ptr::read(interface) }
}

#[test]
fn an_opening_that_does_not_block_is_asked_about() {
    let mut table = Table::load();
    let fd = table.socket(libc::AF_INET);
    assert_eq!(table.bind(fd, &sockaddr(LOCAL, 40_000)), 0);
    table.local_port = 40_000;
    table.nonblocking(fd);
    assert_eq!((table.connect(fd), errno()), (-1, libc::EINPROGRESS));
    let (first, syn, _) = table.leaves().expect("a SYN");
    let (second, ..) = table.leaves().expect("it again");
    assert!((1_000_000..1_002_000).contains(&(second - first)));
    assert_eq!((table.connect(fd), errno()), (-1, libc::EALREADY));
    table.isn = syn.seq.value();
    table.arrives(SYN_ACK, 0, 1, 0);
    table.expect(ACK, 1, 1, 0);
    assert_eq!(table.sockopt(fd, libc::SOL_SOCKET, libc::SO_ERROR), Ok(0));
    assert_eq!(table.write(fd, 10), 10);
    table.expect(ACK, 1, 1, 10);
    table.free();
}

#[test]
fn time_goes_on_when_it_is_asked_for_and_when_somebody_sleeps() {
    let table = Table::load();
    let first = table.micros();
    assert!(first > 0);
    assert!(table.micros() > first, "who spins on it gets on");
    let before = table.micros();
    (table.interface.usleep)(table.interface.userdata, 5_000_000);
    let slept = table.micros() - before;
    assert!((5_000_000..5_000_100).contains(&slept), "{slept}");
    table.free();
}

#[test]
fn what_happens_while_somebody_sleeps_happens_in_time() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    let fd = table.called(listener);
    table.arrives(ACK, 1, 1, 300);
    let at = table.micros();
    (table.interface.usleep)(table.interface.userdata, 1_000_000);
    let acknowledged = table.expect(ACK, 1, 301, 0);
    assert!((39_000..=41_000).contains(&(acknowledged - at)));
    assert_eq!(table.read(fd), 300);
    table.free();
}

#[test]
fn options_are_set_got_and_refused_by_number() {
    let table = Table::load();
    let fd = table.socket(libc::AF_INET);
    let rows = [
        (libc::SOL_SOCKET, libc::SO_REUSEADDR, 1),
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE, 1),
        (libc::SOL_SOCKET, libc::SO_RCVBUF, 9_000),
        (libc::SOL_SOCKET, libc::SO_SNDBUF, 8_000),
        (libc::IPPROTO_TCP, libc::TCP_NODELAY, 1),
        (libc::IPPROTO_TCP, libc::TCP_CORK, 1),
        (libc::IPPROTO_TCP, libc::TCP_MAXSEG, 700),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE, 60),
        (libc::IPPROTO_TCP, libc::TCP_KEEPINTVL, 5),
        (libc::IPPROTO_TCP, libc::TCP_KEEPCNT, 3),
        (libc::IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 4_000),
    ];
    for (level, name, value) in rows {
        assert_ne!(table.sockopt(fd, level, name), Ok(value), "{level} {name}");
        assert_eq!(
            table.set_sockopt(fd, level, name, value),
            0,
            "{level} {name}"
        );
        assert_eq!(table.sockopt(fd, level, name), Ok(value), "{level} {name}");
    }
    let unknown = (libc::IPPROTO_TCP, libc::TCP_INFO);
    assert_eq!(
        table.sockopt(fd, unknown.0, unknown.1),
        Err(libc::ENOPROTOOPT)
    );
    let set = table.set_sockopt(fd, unknown.0, unknown.1, 1);
    assert_eq!((set, errno()), (-1, libc::ENOPROTOOPT));
    let set = table.set_sockopt(fd, libc::IPPROTO_TCP, libc::TCP_MAXSEG, 5);
    assert_eq!((set, errno()), (-1, libc::EINVAL));
    table.free();
}

#[test]
fn what_is_waiting_can_be_counted_peeked_at_and_polled_for() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    let fd = table.called(listener);
    let ud = table.interface.userdata;
    let mut polled = libc::pollfd {
        fd,
        events: libc::POLLIN | libc::POLLOUT,
        revents: 0,
    };
    let ready = (table.interface.poll)(ud, &raw mut polled, 1, 0);
    assert_eq!((ready, polled.revents), (1, libc::POLLOUT));
    table.arrives(ACK, 1, 1, 120);
    let ready = (table.interface.poll)(ud, &raw mut polled, 1, 0);
    assert_eq!((ready, polled.revents), (1, libc::POLLIN | libc::POLLOUT));
    let mut waiting = 0;
    let asked = (table.interface.ioctl)(ud, fd, libc::FIONREAD as _, &raw mut waiting);
    assert_eq!((asked, waiting), (0, 120));
    let mut to = [0_u8; 200];
    let at = to.as_mut_ptr().cast();
    let peeked = (table.interface.recv)(ud, fd, at, 200, libc::MSG_PEEK);
    assert_eq!(peeked, 120);
    let epoll = (table.interface.epoll_create)(ud, 1);
    let mut event = libc::epoll_event {
        events: libc::EPOLLIN as u32,
        u64: 77,
    };
    let added = (table.interface.epoll_ctl)(ud, epoll, libc::EPOLL_CTL_ADD, fd, &raw mut event);
    assert_eq!(added, 0);
    let mut found = libc::epoll_event { events: 0, u64: 0 };
    let ready = (table.interface.epoll_wait)(ud, epoll, &raw mut found, 1, 0);
    let (events, data) = (found.events, found.u64);
    assert_eq!((ready, events, data), (1, libc::EPOLLIN as u32, 77));
    assert_eq!(table.read(fd), 120);
    assert_eq!(
        (table.interface.epoll_wait)(ud, epoll, &raw mut found, 1, 0),
        0
    );
    table.free();
}

#[test]
fn pieces_of_memory_are_gathered_and_filled() {
    let mut table = Table::load();
    let listener = table.listener(libc::AF_INET);
    let fd = table.called(listener);
    let ud = table.interface.userdata;
    let (mut one, mut two) = ([1_u8; 30], [2_u8; 70]);
    let pieces = [
        libc::iovec {
            iov_base: one.as_mut_ptr().cast(),
            iov_len: 30,
        },
        libc::iovec {
            iov_base: two.as_mut_ptr().cast(),
            iov_len: 70,
        },
    ];
    assert_eq!((table.interface.writev)(ud, fd, pieces.as_ptr(), 2), 100);
    table.expect(ACK, 1, 1, 100);
    table.arrives(ACK, 1, 101, 80);
    assert_eq!((table.interface.readv)(ud, fd, pieces.as_ptr(), 2), 80);
    assert_eq!((one, &two[..50]), ([0; 30], &[0; 50][..]));
    assert_eq!(two[50..], [2; 20]);
    table.free();
}

#[test]
fn descriptors_are_real_and_their_numbers_do_not_come_again() {
    let _alone = alone();
    let table = Table::load();
    let first = table.socket(libc::AF_INET);
    // SAFETY: asks for flags.
    assert!(unsafe { libc::fcntl(first, libc::F_GETFD) } >= 0);
    assert_eq!((table.interface.close)(table.interface.userdata, first), 0);
    let second = table.socket(libc::AF_INET);
    assert_ne!(first, second);
    // What a script leaves open, packetdrill closes by itself.
    // SAFETY: nobody else has the number.
    assert_eq!(unsafe { libc::close(second) }, 0);
    table.free();
}

#[test]
fn what_there_is_not_is_said() {
    let table = Table::load();
    let ud = table.interface.userdata;
    let socket = |domain, kind| (table.interface.socket)(ud, domain, kind, 0);
    assert_eq!(
        (socket(libc::AF_UNIX, libc::SOCK_STREAM), errno()),
        (-1, libc::EAFNOSUPPORT)
    );
    assert_eq!(
        (socket(libc::AF_INET, libc::SOCK_DGRAM), errno()),
        (-1, libc::EPROTONOSUPPORT)
    );
    let mut ends = [0; 2];
    assert_eq!(
        ((table.interface.pipe)(ud, ends.as_mut_ptr()), errno()),
        (-1, libc::ENOSYS)
    );
    assert_eq!((table.read(-1), errno()), (-1, libc::EBADF));
    let fd = table.socket(libc::AF_INET);
    assert_eq!((table.read(fd), errno()), (-1, libc::ENOTCONN));
    assert_eq!((table.write(fd, 1), errno()), (-1, libc::EPIPE));
    assert!(table.leaves().is_none());
    table.free();
}
