//! Who is tested: `braidnet serve`, or the kernel with the same services by its sockets. Each in a network namespace that ends with this process.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, set_parent_process_death_signal};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use crate::case::Place;
use crate::peer::{CHARGEN, DAYTIME, DISCARD, ECHO, FAR_MTU, FAR_SERVER, GATEWAY, PREFIX, SERVER};
use crate::wire::Wire;

/// The devices between the driver and the stack: the second only where it forwards.
const DEVICES: [&str; 2] = ["conf0", "conf1"];

/// What a stack that forwards has routes for, by the gateway: all but 192.0.0.0/3, of which it knows nobody.
const ROUTES: [&str; 3] = ["0.0.0.0/1", "128.0.0.0/2", "224.0.0.0/3"];

/// A stack under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Side {
    /// `braidnet serve`
    Braidnet,
    /// The kernel, by its own sockets
    Linux,
}

impl Side {
    pub fn name(self) -> &'static str {
        match self {
            Side::Braidnet => "braidnet",
            Side::Linux => "Linux",
        }
    }
}

/// What is done with a connection.
type Service = fn(TcpStream) -> io::Result<()>;

/// The program under test, if it is one, until this is dropped.
pub struct Server(Option<Child>);

impl Server {
    /// Starts `braidnet serve` on TUN devices, whose interfaces are left to the driver.
    ///
    /// # Errors
    /// If the namespace, the program or a device cannot be had.
    pub fn braidnet(
        program: &Path,
        arguments: &[String],
        place: Place,
    ) -> io::Result<(Vec<Wire>, Server)> {
        enter_namespace()?;
        let address = format!("{SERVER}/{PREFIX}");
        let mut command = Command::new(program);
        command.args([
            "serve",
            "--tun",
            DEVICES[0],
            "--address",
            &address,
            "--offload",
            "off",
        ]);
        for (name, port) in [
            ("--echo", ECHO),
            ("--discard", DISCARD),
            ("--daytime", DAYTIME),
            ("--chargen", CHARGEN),
        ] {
            command.arg(name).arg(port.to_string());
        }
        if place == Place::Between {
            let far = DEVICES[1];
            let further = format!("tun={far},address={FAR_SERVER}/{PREFIX},mtu={FAR_MTU}");
            command.args(["--device", &further, "--forward"]);
            for route in ROUTES {
                command.args(["--route", &format!("{route}={GATEWAY}")]);
            }
        }
        // Cases have addresses that are neighbours of each other: one must not use up what another is told of.
        command.args(["--icmp-errors", "1000000"]).args(arguments);
        ends_with_us(&mut command);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let child = child.map_err(|error| said(&program.display().to_string(), &error))?;
        let mut server = Server(Some(child));
        let until = Instant::now() + Duration::from_secs(10);
        let mut wires = Vec::new();
        for device in devices(place) {
            // It is there once the program has made it.
            while let Err(error) = Wire::interface(device) {
                if Instant::now() > until || server.ended().is_some() {
                    return Err(error);
                }
                thread::sleep(Duration::from_millis(10));
            }
            ip(&["link", "set", device, "txqueuelen", "10000", "up"])?;
            wires.push(Wire::interface(device)?);
        }
        Ok((wires, server))
    }

    /// Starts the services by the kernel's sockets, with settings of its own (`NAME=VALUE` below `net.ipv4`), and takes the other ends of its TUN devices.
    ///
    /// # Errors
    /// If the namespace, a device, a port or a setting cannot be had.
    pub fn linux(settings: &[String], place: Place) -> io::Result<(Vec<Wire>, Server)> {
        enter_namespace()?;
        // Cases look at each answer: those that are told too often are not kept from them.
        for (name, value) in [
            ("tcp_invalid_ratelimit", "0"),
            ("icmp_ratelimit", "0"),
            ("icmp_msgs_per_sec", "1000000"),
            ("icmp_msgs_burst", "1000000"),
        ] {
            // One that this kernel has not, or not for each namespace, is as it is.
            let _ = std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value);
        }
        if place == Place::Between {
            std::fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
        }
        for setting in settings {
            let wrong = || io::Error::other(format!("{setting} is not NAME=VALUE"));
            let (name, value) = setting.split_once('=').ok_or_else(wrong)?;
            std::fs::write(format!("/proc/sys/net/ipv4/{name}"), value)?;
        }
        let mut wires = Vec::new();
        for (device, address) in devices(place).iter().zip([SERVER, FAR_SERVER]) {
            wires.push(Wire::device(device)?);
            let address = format!("{address}/{PREFIX}");
            ip(&["addr", "add", &address, "broadcast", "+", "dev", device])?;
            ip(&["link", "set", device, "txqueuelen", "10000", "up"])?;
        }
        if place == Place::Between {
            let mtu = FAR_MTU.to_string();
            ip(&["link", "set", DEVICES[1], "mtu", &mtu])?;
            for route in ROUTES {
                ip(&["route", "add", route, "via", &GATEWAY.to_string()])?;
            }
        }
        let services: [(u16, Service); 4] = [
            (ECHO, echo),
            (DISCARD, discard),
            (DAYTIME, daytime),
            (CHARGEN, chargen),
        ];
        for (port, service) in services {
            let listener = TcpListener::bind((SERVER, port))?;
            thread::spawn(move || {
                for stream in listener.incoming().flatten() {
                    // A peer that goes away ends its service, and nothing else.
                    thread::spawn(move || service(stream));
                }
            });
        }
        let socket = UdpSocket::bind((SERVER, ECHO))?;
        thread::spawn(move || echo_datagrams(&socket));
        // What it gets is thrown away with it, when the process ends.
        let discarding = UdpSocket::bind((SERVER, DISCARD))?;
        thread::spawn(move || while discarding.recv(&mut [0]).is_ok() {});
        Ok((wires, Server(None)))
    }

    /// What has become of the program, if it has ended.
    pub fn ended(&mut self) -> Option<String> {
        let server = self.0.as_mut()?;
        let status = server.try_wait().ok()??;
        Some(status.to_string())
    }
}

/// Those that there are.
fn devices(place: Place) -> &'static [&'static str] {
    match place {
        Place::Network => &DEVICES[..1],
        Place::Between => &DEVICES,
    }
}

/// Ends the program when it is dropped.
impl Drop for Server {
    fn drop(&mut self) {
        if let Some(server) = &mut self.0 {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

/// Puts this thread, and all that it starts, into a network namespace of its own.
#[allow(unsafe_code)]
fn enter_namespace() -> io::Result<()> {
    // SAFETY: only the network's namespace is left; descriptors and memory stay shared.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
    Ok(())
}

/// The program is killed with this one, however that ends.
#[allow(unsafe_code)]
fn ends_with_us(command: &mut Command) {
    let ask = || Ok(set_parent_process_death_signal(Some(Signal::KILL))?);
    // SAFETY: between fork and exec only a system call is made, which neither allocates nor locks.
    unsafe { command.pre_exec(ask) };
}

fn ip(arguments: &[&str]) -> io::Result<()> {
    let status = Command::new("ip").args(arguments).status();
    let status = status.map_err(|error| said("ip (iproute2)", &error))?;
    if status.success() {
        Ok(())
    } else {
        Err(io::Error::other(format!(
            "ip {}: {status}",
            arguments.join(" ")
        )))
    }
}

/// An error, and what it is about.
fn said(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    // As RFC 6093 §6 would have applications do.
    rustix::net::sockopt::set_socket_oobinline(&stream, true)?;
    let mut piece = vec![0; 64 << 10];
    loop {
        match stream.read(&mut piece)? {
            0 => return Ok(()),
            len => stream.write_all(&piece[..len])?,
        }
    }
}

fn discard(mut stream: TcpStream) -> io::Result<()> {
    let mut piece = vec![0; 64 << 10];
    while stream.read(&mut piece)? > 0 {}
    Ok(())
}

fn daytime(mut stream: TcpStream) -> io::Result<()> {
    stream.write_all(b"Sun, 06 Nov 1994 08:49:37 GMT\r\n")?;
    stream.shutdown(std::net::Shutdown::Write)?;
    discard(stream)
}

/// The rotating lines of RFC 864, many rounds of them at a time.
fn chargen(mut stream: TcpStream) -> io::Result<()> {
    let ring: Vec<u8> = (b' '..=b'~').collect();
    let mut lines = Vec::new();
    for first in 0..ring.len() {
        lines.extend(ring.iter().cycle().skip(first).take(72));
        lines.extend(b"\r\n");
    }
    let rounds = lines.repeat(16);
    loop {
        stream.write_all(&rounds)?;
    }
}

fn echo_datagrams(socket: &UdpSocket) -> io::Result<()> {
    let mut datagram = vec![0; 65_536];
    loop {
        let (len, from) = socket.recv_from(&mut datagram)?;
        // One that cannot be sent is lost, as datagrams are.
        let _ = socket.send_to(&datagram[..len], from);
    }
}
