//! The table that packetdrill calls through: C's pointers, and nothing else. The crate's only unsafe code.
//!
//! What holds of every pointer that comes in is what C's calls ask for: it is valid for as many bytes as are said with it for as long as
//! the call lasts, and nobody else touches these meanwhile. `userdata` is the world that [`packetdrill_interface_init`] has made,
//! until `free` is called with it.

use crate::address::{self, Family};
use crate::errno::Errno;
use crate::world::World;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::net::SocketAddr;
use core::{ptr, slice};
use libc::{
    epoll_event, iovec, msghdr, nfds_t, pollfd, sockaddr, socklen_t, ssize_t, timeval, timezone,
    useconds_t,
};

/// `struct packetdrill_interface`, field by field. `fcntl` and `ioctl` have a variable number of arguments in C, of which
/// packetdrill passes one, in the register that a fourth argument comes in.
#[repr(C)]
#[allow(missing_docs, reason = "each is the call of its name")]
pub struct Interface {
    pub userdata: *mut c_void,
    pub free: extern "C" fn(*mut c_void),
    pub socket: extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int,
    pub bind: extern "C" fn(*mut c_void, c_int, *const sockaddr, socklen_t) -> c_int,
    pub listen: extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    pub accept: extern "C" fn(*mut c_void, c_int, *mut sockaddr, *mut socklen_t) -> c_int,
    pub connect: extern "C" fn(*mut c_void, c_int, *const sockaddr, socklen_t) -> c_int,
    pub read: extern "C" fn(*mut c_void, c_int, *mut c_void, usize) -> ssize_t,
    pub readv: extern "C" fn(*mut c_void, c_int, *const iovec, c_int) -> ssize_t,
    pub recv: extern "C" fn(*mut c_void, c_int, *mut c_void, usize, c_int) -> ssize_t,
    pub recvfrom: extern "C" fn(
        *mut c_void,
        c_int,
        *mut c_void,
        usize,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t,
    pub recvmsg: extern "C" fn(*mut c_void, c_int, *mut msghdr, c_int) -> ssize_t,
    pub write: extern "C" fn(*mut c_void, c_int, *const c_void, usize) -> ssize_t,
    pub writev: extern "C" fn(*mut c_void, c_int, *const iovec, c_int) -> ssize_t,
    pub send: extern "C" fn(*mut c_void, c_int, *const c_void, usize, c_int) -> ssize_t,
    pub sendto: extern "C" fn(
        *mut c_void,
        c_int,
        *const c_void,
        usize,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t,
    pub sendmsg: extern "C" fn(*mut c_void, c_int, *const msghdr, c_int) -> ssize_t,
    pub fcntl: extern "C" fn(*mut c_void, c_int, c_int, usize) -> c_int,
    pub ioctl: extern "C" fn(*mut c_void, c_int, libc::c_ulong, *mut c_int) -> c_int,
    pub close: extern "C" fn(*mut c_void, c_int) -> c_int,
    pub shutdown: extern "C" fn(*mut c_void, c_int, c_int) -> c_int,
    pub getsockopt:
        extern "C" fn(*mut c_void, c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int,
    pub setsockopt:
        extern "C" fn(*mut c_void, c_int, c_int, c_int, *const c_void, socklen_t) -> c_int,
    pub poll: extern "C" fn(*mut c_void, *mut pollfd, nfds_t, c_int) -> c_int,
    pub netdev_send: extern "C" fn(*mut c_void, *const c_void, usize) -> c_int,
    pub netdev_receive: extern "C" fn(*mut c_void, *mut c_void, *mut usize, *mut i64) -> c_int,
    pub usleep: extern "C" fn(*mut c_void, useconds_t) -> c_int,
    pub gettimeofday: extern "C" fn(*mut c_void, *mut timeval, *mut timezone) -> c_int,
    pub epoll_create: extern "C" fn(*mut c_void, c_int) -> c_int,
    pub epoll_ctl: extern "C" fn(*mut c_void, c_int, c_int, c_int, *mut epoll_event) -> c_int,
    pub epoll_wait: extern "C" fn(*mut c_void, c_int, *mut epoll_event, c_int, c_int) -> c_int,
    pub pipe: extern "C" fn(*mut c_void, *mut c_int) -> c_int,
    pub splice: extern "C" fn(
        *mut c_void,
        c_int,
        *mut libc::loff_t,
        c_int,
        *mut libc::loff_t,
        usize,
        libc::c_uint,
    ) -> c_int,
}

/// Fills packetdrill's table in: the one symbol that it looks up. With flags that cannot be read, or where there can be no stack, it
/// says why on standard error and ends the process, for packetdrill asks for no answer.
///
/// # Safety
/// `flags` is null or a string of C's; `interface` is valid for writing one [`Interface`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(
    flags: *const c_char,
    interface: *mut Interface,
) {
    let flags = if flags.is_null() {
        String::new()
    } else {
        // SAFETY: not null, so it is a string of C's.
        let flags = unsafe { CStr::from_ptr(flags) };
        flags.to_string_lossy().into_owned()
    };
    let world = match World::new(&flags) {
        Ok(world) => Box::into_raw(Box::new(world)),
        Err(why) => {
            eprintln!("braidnet: {why}");
            std::process::exit(1);
        }
    };
    let filled = Interface {
        userdata: world.cast(),
        free,
        socket,
        bind,
        listen,
        accept,
        connect,
        read,
        readv,
        recv,
        recvfrom,
        recvmsg,
        write,
        writev,
        send,
        sendto,
        sendmsg,
        fcntl,
        ioctl,
        close,
        shutdown,
        getsockopt,
        setsockopt,
        poll,
        netdev_send,
        netdev_receive,
        usleep,
        gettimeofday,
        epoll_create,
        epoll_ctl,
        epoll_wait,
        pipe,
        splice,
    };
    // SAFETY: valid for writing, says the caller.
    unsafe { interface.write(filled) };
}

extern "C" fn free(userdata: *mut c_void) {
    if !userdata.is_null() {
        // SAFETY: `userdata` is what `Box::into_raw` gave at the beginning, and nobody uses it any more.
        drop(unsafe { Box::from_raw(userdata.cast::<World>()) });
    }
}

/// The world behind `userdata`.
fn world<'a>(userdata: *mut c_void) -> &'a World {
    // SAFETY: `userdata` is a `World` until `free`; all calls share it.
    unsafe { &*userdata.cast::<World>() }
}

/// `result` as C has it: -1, with `errno` set, for an error.
fn answered<T: TryInto<ssize_t>>(result: Result<T, Errno>) -> ssize_t {
    match result {
        Ok(number) => number.try_into().unwrap_or(ssize_t::MAX),
        Err(Errno(number)) => {
            // SAFETY: the C library has an `errno` for every thread.
            let errno = unsafe { libc::__errno_location() };
            // SAFETY: it is this thread's own.
            unsafe { *errno = number };
            -1
        }
    }
}

fn answered_int(result: Result<c_int, Errno>) -> c_int {
    answered(result) as c_int
}

/// Refuses memory that is not there: a null pointer to something.
fn is_there(at: *const c_void, len: usize) -> Result<(), Errno> {
    match at.is_null() && len > 0 {
        true => Err(Errno(libc::EFAULT)),
        false => Ok(()),
    }
}

/// Bytes to read; none behind a null pointer.
fn bytes<'a>(at: *const c_void, len: usize) -> &'a [u8] {
    if at.is_null() || len == 0 {
        return &[];
    }
    // SAFETY: valid for reading `len` bytes during the call.
    unsafe { slice::from_raw_parts(at.cast(), len) }
}

/// Bytes to write; none behind a null pointer.
fn bytes_mut<'a>(at: *mut c_void, len: usize) -> &'a mut [u8] {
    if at.is_null() || len == 0 {
        return &mut [];
    }
    // SAFETY: valid for writing `len` bytes during the call, and nobody else's meanwhile.
    unsafe { slice::from_raw_parts_mut(at.cast(), len) }
}

/// Values to read or write; none behind a null pointer.
fn items<'a, T>(at: *mut T, len: usize) -> &'a mut [T] {
    if at.is_null() || len == 0 {
        return &mut [];
    }
    // SAFETY: valid for `len` values during the call, and nobody else's meanwhile.
    unsafe { slice::from_raw_parts_mut(at, len) }
}

/// Writes a value, unless the pointer is null.
fn put<T>(at: *mut T, value: T) {
    if !at.is_null() {
        // SAFETY: not null, so valid for writing; perhaps not aligned.
        unsafe { ptr::write_unaligned(at, value) };
    }
}

/// Reads a value, unless the pointer is null.
fn value_of<T: Copy>(at: *const T) -> Option<T> {
    if at.is_null() {
        return None;
    }
    // SAFETY: not null, so valid for reading; perhaps not aligned.
    Some(unsafe { ptr::read_unaligned(at) })
}

/// Tells an address, as C does: as much as there is room for, and how long it is.
fn tell(address: SocketAddr, family: Family, to: *mut sockaddr, len: *mut socklen_t) {
    if to.is_null() {
        return;
    }
    let room = value_of(len).unwrap_or(0) as usize;
    let needed = address::write(address, family, bytes_mut(to.cast(), room));
    put(len, needed as socklen_t);
}

extern "C" fn socket(ud: *mut c_void, domain: c_int, kind: c_int, protocol: c_int) -> c_int {
    answered_int(world(ud).socket(domain, kind, protocol))
}

extern "C" fn bind(ud: *mut c_void, fd: c_int, at: *const sockaddr, len: socklen_t) -> c_int {
    answered_int(world(ud).bind(fd, bytes(at.cast(), len as usize)))
}

extern "C" fn listen(ud: *mut c_void, fd: c_int, backlog: c_int) -> c_int {
    answered_int(world(ud).listen(fd, backlog))
}

extern "C" fn accept(ud: *mut c_void, fd: c_int, to: *mut sockaddr, len: *mut socklen_t) -> c_int {
    let accepted = world(ud).accept(fd).map(|(accepted, from, family)| {
        tell(from, family, to, len);
        accepted
    });
    answered_int(accepted)
}

extern "C" fn connect(ud: *mut c_void, fd: c_int, to: *const sockaddr, len: socklen_t) -> c_int {
    answered_int(world(ud).connect(fd, bytes(to.cast(), len as usize)))
}

extern "C" fn read(ud: *mut c_void, fd: c_int, to: *mut c_void, len: usize) -> ssize_t {
    answered(is_there(to, len).and_then(|()| world(ud).receive(fd, bytes_mut(to, len), 0)))
}

extern "C" fn recv(
    ud: *mut c_void,
    fd: c_int,
    to: *mut c_void,
    len: usize,
    flags: c_int,
) -> ssize_t {
    answered(is_there(to, len).and_then(|()| world(ud).receive(fd, bytes_mut(to, len), flags)))
}

extern "C" fn recvfrom(
    ud: *mut c_void,
    fd: c_int,
    to: *mut c_void,
    len: usize,
    flags: c_int,
    _: *mut sockaddr,
    from_len: *mut socklen_t,
) -> ssize_t {
    // TCP tells nobody's address: a connection has only one peer.
    put(from_len, 0);
    answered(is_there(to, len).and_then(|()| world(ud).receive(fd, bytes_mut(to, len), flags)))
}

extern "C" fn readv(ud: *mut c_void, fd: c_int, to: *const iovec, count: c_int) -> ssize_t {
    let to = items(to.cast_mut(), count.max(0) as usize);
    answered(scattered(to, |to| world(ud).receive_message(fd, to, 0)).map(|(received, _)| received))
}

extern "C" fn recvmsg(ud: *mut c_void, fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    let Some(message) = items(message, 1).first_mut() else {
        return answered::<ssize_t>(Err(Errno(libc::EFAULT)));
    };
    let to = items(message.msg_iov, message.msg_iovlen);
    let received = scattered(to, |to| world(ud).receive_message(fd, to, flags));
    let room = bytes_mut(message.msg_control, message.msg_controllen);
    let mut told = 0;
    message.msg_flags = flags & libc::MSG_ERRQUEUE;
    if let Ok((_, Some(control))) = &received {
        let control = control.bytes();
        match room.get_mut(..control.len()) {
            Some(to) => {
                to.copy_from_slice(&control);
                told = control.len();
            }
            None => message.msg_flags |= libc::MSG_CTRUNC,
        }
    }
    (message.msg_namelen, message.msg_controllen) = (0, told);
    answered(received.map(|(received, _)| received))
}

/// Receives into several pieces of memory, one after the other.
fn scattered<T>(
    to: &[iovec],
    receive: impl FnOnce(&mut [u8]) -> Result<(usize, T), Errno>,
) -> Result<(usize, T), Errno> {
    let room = to.iter().map(|piece| piece.iov_len).sum();
    let mut all = vec![0; room];
    let (received, told) = receive(&mut all)?;
    let mut left = all.get(..received).unwrap_or_default();
    for piece in to {
        let (now, later) = left.split_at(left.len().min(piece.iov_len));
        if let Some(to) = bytes_mut(piece.iov_base, piece.iov_len).get_mut(..now.len()) {
            to.copy_from_slice(now);
        }
        left = later;
    }
    Ok((received, told))
}

extern "C" fn write(ud: *mut c_void, fd: c_int, from: *const c_void, len: usize) -> ssize_t {
    answered(is_there(from, len).and_then(|()| world(ud).send(fd, bytes(from, len), 0)))
}

extern "C" fn send(
    ud: *mut c_void,
    fd: c_int,
    from: *const c_void,
    len: usize,
    flags: c_int,
) -> ssize_t {
    answered(is_there(from, len).and_then(|()| world(ud).send(fd, bytes(from, len), flags)))
}

extern "C" fn sendto(
    ud: *mut c_void,
    fd: c_int,
    from: *const c_void,
    len: usize,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> ssize_t {
    let to = bytes(to.cast(), to_len as usize);
    let sent =
        is_there(from, len).and_then(|()| world(ud).send_to(fd, bytes(from, len), flags, to));
    answered(sent)
}

extern "C" fn writev(ud: *mut c_void, fd: c_int, from: *const iovec, count: c_int) -> ssize_t {
    let from = items(from.cast_mut(), count.max(0) as usize);
    answered(world(ud).send(fd, &gathered(from), 0))
}

extern "C" fn sendmsg(ud: *mut c_void, fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    let Some(message) = value_of(message) else {
        return answered::<ssize_t>(Err(Errno(libc::EFAULT)));
    };
    let from = items(message.msg_iov, message.msg_iovlen);
    answered(world(ud).send(fd, &gathered(from), flags))
}

/// The bytes of several pieces of memory.
fn gathered(from: &[iovec]) -> Vec<u8> {
    let pieces = from
        .iter()
        .map(|piece| bytes(piece.iov_base, piece.iov_len));
    pieces.flatten().copied().collect()
}

extern "C" fn fcntl(ud: *mut c_void, fd: c_int, command: c_int, argument: usize) -> c_int {
    answered_int(world(ud).fcntl(fd, command, argument))
}

extern "C" fn ioctl(ud: *mut c_void, fd: c_int, request: libc::c_ulong, to: *mut c_int) -> c_int {
    answered_int(world(ud).ioctl(fd, request).map(|number| {
        put(to, number);
        0
    }))
}

extern "C" fn close(ud: *mut c_void, fd: c_int) -> c_int {
    answered_int(world(ud).close(fd))
}

extern "C" fn shutdown(ud: *mut c_void, fd: c_int, how: c_int) -> c_int {
    answered_int(world(ud).shutdown(fd, how))
}

extern "C" fn getsockopt(
    ud: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    to: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    answered_int(world(ud).option(fd, (level, name)).map(|value| {
        let room = value_of(len).unwrap_or(0) as usize;
        let told = room.min(value.len());
        if let Some(to) = bytes_mut(to, room).get_mut(..told) {
            to.copy_from_slice(value.get(..told).unwrap_or_default());
        }
        put(len, told as socklen_t);
        0
    }))
}

extern "C" fn setsockopt(
    ud: *mut c_void,
    fd: c_int,
    level: c_int,
    name: c_int,
    from: *const c_void,
    len: socklen_t,
) -> c_int {
    answered_int(world(ud).set_option(fd, (level, name), bytes(from, len as usize)))
}

extern "C" fn poll(ud: *mut c_void, fds: *mut pollfd, count: nfds_t, timeout_ms: c_int) -> c_int {
    let fds = items(fds, count as usize);
    let wanted: Vec<_> = fds.iter().map(|fd| (fd.fd, fd.events)).collect();
    let found = world(ud).poll(&wanted, timeout_ms);
    for (fd, found) in fds.iter_mut().zip(found) {
        fd.revents = found;
    }
    fds.iter().filter(|fd| fd.revents != 0).count() as c_int
}

extern "C" fn netdev_send(ud: *mut c_void, packet: *const c_void, len: usize) -> c_int {
    answered_int(world(ud).netdev_send(bytes(packet, len)))
}

extern "C" fn netdev_receive(
    ud: *mut c_void,
    to: *mut c_void,
    len: *mut usize,
    micros: *mut i64,
) -> c_int {
    let Some((packet, at)) = world(ud).netdev_receive() else {
        put(len, 0);
        return 0;
    };
    let room = value_of(len).unwrap_or(0);
    let Some(to) = bytes_mut(to, room).get_mut(..packet.len()) else {
        return answered_int(Err(Errno(libc::EMSGSIZE)));
    };
    to.copy_from_slice(&packet);
    put(len, packet.len());
    put(micros, at as i64);
    0
}

extern "C" fn usleep(ud: *mut c_void, micros: useconds_t) -> c_int {
    world(ud).sleep(micros);
    0
}

extern "C" fn gettimeofday(ud: *mut c_void, to: *mut timeval, _: *mut timezone) -> c_int {
    let micros = world(ud).time();
    let time = timeval {
        tv_sec: (micros / 1_000_000) as libc::time_t,
        tv_usec: (micros % 1_000_000) as libc::suseconds_t,
    };
    put(to, time);
    0
}

extern "C" fn epoll_create(ud: *mut c_void, _: c_int) -> c_int {
    answered_int(world(ud).epoll_create())
}

extern "C" fn epoll_ctl(
    ud: *mut c_void,
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    let event = value_of(event).map(|event| (event.events, event.u64));
    answered_int(world(ud).epoll_ctl(epoll, operation, fd, event))
}

extern "C" fn epoll_wait(
    ud: *mut c_void,
    epoll: c_int,
    to: *mut epoll_event,
    most: c_int,
    timeout_ms: c_int,
) -> c_int {
    if most <= 0 {
        return answered_int(Err(Errno(libc::EINVAL)));
    }
    let found = world(ud).epoll_wait(epoll, most as usize, timeout_ms);
    answered_int(found.map(|found| {
        for (place, (events, data)) in (0..).zip(&found) {
            let event = epoll_event {
                events: *events,
                u64: *data,
            };
            put(to.wrapping_add(place), event);
        }
        found.len() as c_int
    }))
}

extern "C" fn pipe(_: *mut c_void, _: *mut c_int) -> c_int {
    answered_int(Err(Errno(libc::ENOSYS)))
}

extern "C" fn splice(
    _: *mut c_void,
    _: c_int,
    _: *mut libc::loff_t,
    _: c_int,
    _: *mut libc::loff_t,
    _: usize,
    _: libc::c_uint,
) -> c_int {
    answered_int(Err(Errno(libc::ENOSYS)))
}
