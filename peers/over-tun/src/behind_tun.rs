//! smoltcp behind a TUN device, turned by one thread that sleeps when there is nothing to do, as its examples do.

use std::io;
use std::net::Ipv4Addr;

use over_tun::smoltcp::Services;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::time::{Duration, Instant};
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

use crate::tun::Tun;

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
    let services = Services::new(&mut sockets, buffer, connections);
    loop {
        let now = Instant::now();
        interface.poll(now, &mut device, &mut sockets);
        if services.turn(&mut sockets) {
            continue;
        }
        let now = Instant::now();
        let at_most = interface.poll_delay(now, &sockets);
        if at_most != Some(Duration::ZERO) {
            sleep(&device, at_most);
        }
    }
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
