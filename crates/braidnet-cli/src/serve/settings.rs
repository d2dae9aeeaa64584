//! What is asked for: on the command line and in a file, in the same words.

use super::attached::Attached;
use super::further::Further;
use super::impair::impairments;
use super::pcap::Pcap;
use super::placing::Placing;
use super::values::{Bytes, HttpRoot, Prefixed, Routed, Span, Station};
use crate::choices::{Switch, one_of};
use crate::failure::Failure;
use braidnet::Architecture;
use braidnet::device::impair::Impairments;
use braidnet::inet::ip::DEFAULT_TTL;
use braidnet::inet::tcp::TcpLocks;
use braidnet::inet::{ErrorRate, LimitError, Resolution, Route};
use braidnet::sync::lock::LockKind;
use braidnet::tcp::{CongestionControl, EcnMode, PathProbing};
use braidnet_lab::{Agents, Order, Perimeter, Wait};
use serde::de::{Deserialize, Deserializer, Error};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// Everything that can be set, and nothing that was not said.
#[derive(clap::Args, serde::Deserialize, Clone, Debug, Default)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Settings {
    /// Serve on this TUN device, which carries IP packets
    #[arg(long, value_name = "NAME", conflicts_with = "tap")]
    pub tun: Option<String>,
    /// Serve on this TAP device, which carries Ethernet frames
    #[arg(long, value_name = "NAME")]
    pub tap: Option<String>,
    /// Serve on the TUN or TAP device whose open descriptor has this number; once for each queue. Its addresses and MTU are whose who opened it
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i32).range(0..))]
    pub tun_fd: Vec<i32>,
    /// Serve on the TUN or TAP device whose descriptors whoever listens on this Unix socket sends (SCM_RIGHTS, with one byte)
    #[arg(long, value_name = "PATH")]
    pub tun_from: Option<PathBuf>,
    /// Serve on this Ethernet interface, which the system goes on using: beside it, with an Ethernet address and IP addresses that it has not
    #[arg(long, value_name = "INTERFACE")]
    pub packet: Option<String>,
    /// Take this Ethernet interface over, and serve on it by XDP sockets: the system sees nothing of what arrives there meanwhile
    #[arg(long, value_name = "INTERFACE")]
    pub xdp: Option<String>,
    /// Wait at this Unix socket for one peer, and serve on the Ethernet frames that it sends, as qemu does with `-netdev stream,addr.type=unix,addr.path=PATH`
    #[arg(long, value_name = "PATH")]
    pub qemu: Option<PathBuf>,
    /// Ethernet address of the stack, such as 02:00:0a:4d:00:02 [default: for TAP one beside the host's, for XDP the interface's, else 02:00 and the last 32 bits of the first address]
    #[arg(long, value_name = "ADDRESS")]
    #[serde(deserialize_with = "one")]
    pub mac: Option<Station>,
    /// Address of the host's side of the device; brings it up. Without, it is left as it is
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    #[serde(deserialize_with = "one")]
    pub host: Option<Prefixed>,
    /// Address of the stack, with or without a prefix; may be given several times
    #[arg(long, value_name = "ADDRESS[/PREFIX]")]
    #[serde(deserialize_with = "some")]
    pub address: Vec<Prefixed>,
    /// Serve on this further device as well, as `tun=NAME,host=ADDRESS/PREFIX,address=ADDRESS/PREFIX`, with `tap=NAME`, `packet=INTERFACE`, `xdp=INTERFACE` or `qemu=PATH` in place of `tun=NAME`, and
    /// `mac=ADDRESS`, `mtu=BYTES`, `offload=off` and more addresses where they are wanted; may be given several times. What is sent leaves by the device that its route leads to
    #[arg(long, value_name = "WORD=VALUE,...")]
    #[serde(deserialize_with = "some")]
    pub device: Vec<Further>,
    /// Forward what comes for other hosts from one device to another, as routes have it (RFC 1812)
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub forward: Option<bool>,
    /// Give each device processors of its own to receive by, in place of a queue of each for all
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub apart: Option<bool>,
    /// Send what is for this network to this neighbour, on a device that carries Ethernet frames, or with several devices; or, with ip-route's words, such as `10.9.0.0/16 dev bn1` and
    /// `10.9.0.0/16 via 10.77.0.1 dev bn1`, by the device of this name; `default` is for all other networks; may be given several times
    /// [default: to the neighbour that packets from there come through]
    #[arg(long, value_name = "PREFIX=GATEWAY|PREFIX [via GATEWAY] [dev NAME]")]
    #[serde(deserialize_with = "some")]
    pub route: Vec<Routed>,
    /// Echo (RFC 862) on this port, TCP and UDP
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub echo: Option<u16>,
    /// Discard (RFC 863) on this port, TCP and UDP
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub discard: Option<u16>,
    /// Daytime (RFC 867) on this TCP port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub daytime: Option<u16>,
    /// Character generator (RFC 864) on this TCP port
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub chargen: Option<u16>,
    /// The files of a directory over HTTP/1.1 on this port; may be given several times
    #[arg(long, value_name = "PORT=DIR")]
    #[serde(deserialize_with = "some")]
    pub http: Vec<HttpRoot>,
    /// How processors are bound to protocol work [default: connection]
    #[arg(long, value_name = "NAME", value_parser = one_of(&Architecture::UNDIVIDED, Architecture::name))]
    #[serde(deserialize_with = "one")]
    pub architecture: Option<Architecture>,
    /// How many processors [default: 1]
    #[arg(long, value_name = "N")]
    pub processors: Option<usize>,
    /// How many queues the device has [default: one for each processor under `connection` and `braid`, else 1; 1 if an adopted device has no more]
    #[arg(long, value_name = "N")]
    pub queues: Option<usize>,
    /// Under `message`, wait for a connection's lock, or leave the work with whoever is inside [default: locked]
    #[arg(long, value_name = "NAME", value_parser = one_of(Perimeter::ALL, Perimeter::name))]
    #[serde(deserialize_with = "one")]
    pub perimeter: Option<Perimeter>,
    /// What of the order of arrival reaches TCP under `message`, and whether processors wait for their turns [default: none]
    #[arg(long, value_name = "NAME", value_parser = one_of(Order::ALL, Order::name))]
    #[serde(deserialize_with = "one")]
    pub order: Option<Order>,
    /// The lock that `message` uses [default: adaptive]
    #[arg(long, value_name = "KIND", value_parser = one_of(&LockKind::all(), LockKind::name))]
    #[serde(deserialize_with = "one")]
    pub lock: Option<LockKind>,
    /// With how many locks `message` guards a connection [PLP §5.1] [default: 1]
    #[arg(long, value_name = "N", value_parser = one_of(&TcpLocks::ALL, TcpLocks::name))]
    #[serde(deserialize_with = "one")]
    pub tcp_locks: Option<TcpLocks>,
    /// What carries processors: a thread each, or user-level tasks that threads take turns at [default: threads]
    #[arg(long, value_name = "NAME", value_parser = one_of(Agents::ALL, Agents::name))]
    #[serde(deserialize_with = "one")]
    pub agents: Option<Agents>,
    /// How many threads carry the tasks [default: one for each processor]
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// How processors wait for something to do: asleep, asking on, or asking first [default: spin-sleep]
    #[arg(long, value_name = "NAME", value_parser = one_of(Wait::ALL, Wait::name))]
    #[serde(deserialize_with = "one")]
    pub wait: Option<Wait>,
    /// Keep each thread on a processor of its own
    #[arg(long, num_args = 0, default_missing_value = "true")]
    pub pin: Option<bool>,
    /// Most messages that are taken from one place at once [default: 64]
    #[arg(long, value_name = "N")]
    pub batch: Option<usize>,
    /// Longest IP packet in bytes, 68 to 65535 [default: what the device has, 1500 for a new one]
    #[arg(long, value_name = "BYTES")]
    pub mtu: Option<usize>,
    /// Let the system leave checksums and the cutting of segments and datagrams to whom they cost nothing; `off`: every packet is as a wire would carry it, as it is
    /// with `--impair` and `--pcap` in any case [default: on]
    #[arg(long, value_name = "on|off", hide_possible_values = true)]
    #[serde(deserialize_with = "one")]
    pub offload: Option<Switch>,
    /// Record all packets in this pcapng file; those that are dropped once more, with the reason as their comment
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Go on in another file before one is longer than this, each complete by itself: for `--pcap a.pcapng` in a_00001.pcapng, a_00002.pcapng and so on
    #[arg(long, value_name = "SIZE")]
    #[serde(deserialize_with = "one")]
    pub pcap_size: Option<Bytes>,
    /// Keep so many of those files, the last ones [default: all]
    #[arg(long, value_name = "N")]
    pub pcap_ring: Option<usize>,
    /// Do this to packets that are sent: `braidnet relay --help` lists the words; in a file also a table, `[impair]`, with each word by itself
    #[arg(long, value_name = "WORD=VALUE,...")]
    #[serde(deserialize_with = "impairments")]
    pub impair: Option<Impairments>,
    /// Do this to packets that are received; in a file also a table, `[impair-back]`
    #[arg(long, value_name = "WORD=VALUE,...")]
    #[serde(deserialize_with = "impairments")]
    pub impair_back: Option<Impairments>,
    /// How long connections may go on after Ctrl-C or SIGTERM [default: 2s]
    #[arg(long, value_name = "TIME")]
    #[serde(deserialize_with = "one")]
    pub drain: Option<Span>,
    /// Most memory for buffers and connections, at least 16M [default: 256M]
    #[arg(long, value_name = "SIZE")]
    #[serde(deserialize_with = "one")]
    pub memory: Option<Bytes>,
    /// Most connections, half-open ones and those in TIME-WAIT included [default: 65536]
    #[arg(long, value_name = "N")]
    pub connections: Option<usize>,
    /// Most neighbours on each link that are known at a time, 1 to 16384 [default: 1024]
    #[arg(long, value_name = "N")]
    pub neighbours: Option<usize>,
    /// Most ICMP errors in a second to each of 64 groups of hosts, 0 to 1000000 [default: 50]
    #[arg(long, value_name = "N")]
    pub icmp_errors: Option<u32>,
    /// How the congestion window is ruled: cubic, new-reno or bbr [default: cubic]
    #[arg(long, value_name = "NAME", value_parser = one_of(&CongestionControl::ALL, CongestionControl::name), hide_possible_values = true)]
    #[serde(deserialize_with = "one")]
    pub congestion: Option<CongestionControl>,
    /// Whether the network may mark what is sent in place of dropping it (RFC 3168, RFC 9768): off, passive, on or accurate; passive is where the peer asks.
    #[arg(skip)]
    #[serde(deserialize_with = "one")]
    pub ecn: Option<EcnMode>,
    /// Whether segments of other lengths are tried on the path (RFC 4821): off, black-holes or always [default: black-holes]
    #[arg(long, value_name = "WHEN", value_parser = one_of(&PathProbing::ALL, PathProbing::name), hide_possible_values = true)]
    #[serde(deserialize_with = "one")]
    pub path_probing: Option<PathProbing>,
    /// Hops that packets of connections may take, 1 to 255 [default: 64]
    #[arg(long, value_name = "HOPS")]
    pub ttl: Option<u8>,
    /// Differentiated Services Code Point of packets of connections, 0 to 63 (RFC 2474) [default: 0]
    #[arg(long, value_name = "NUMBER")]
    pub dscp: Option<u8>,
    /// Let data on a SYN open a connection before its handshake is over (RFC 7413), at most so many on one port at a time; clients need a cookie
    /// [default: 0, which is none]
    #[arg(long, value_name = "N")]
    pub fast_open: Option<u32>,
}

impl Settings {
    /// What a file says.
    pub fn read(path: &Path) -> Result<Settings, Failure> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            Failure::Usage(format!(
                "the configuration {} cannot be read: {error}",
                path.display()
            ))
        })?;
        toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| {
                1 + text[..span.start.min(text.len())].matches('\n').count()
            });
            let message = error.message().replace('\n', " ");
            Failure::Usage(format!("line {line} of {}: {message}", path.display()))
        })
    }

    /// These, and for what they do not say those of `file`.
    pub fn or(self, file: Settings) -> Settings {
        // A device on the command line stands for all kinds.
        let names_device = self.tun.is_some()
            || self.tap.is_some()
            || !self.tun_fd.is_empty()
            || self.tun_from.is_some()
            || self.packet.is_some()
            || self.xdp.is_some()
            || self.qemu.is_some();
        let of = |which: &Settings| Settings {
            tun: which.tun.clone(),
            tap: which.tap.clone(),
            tun_fd: which.tun_fd.clone(),
            tun_from: which.tun_from.clone(),
            packet: which.packet.clone(),
            xdp: which.xdp.clone(),
            qemu: which.qemu.clone(),
            ..Settings::default()
        };
        let device = of(if names_device { &self } else { &file });
        Settings {
            mac: self.mac.or(file.mac),
            host: self.host.or(file.host),
            address: all(self.address, file.address),
            device: all(self.device, file.device),
            forward: self.forward.or(file.forward),
            apart: self.apart.or(file.apart),
            route: all(self.route, file.route),
            echo: self.echo.or(file.echo),
            discard: self.discard.or(file.discard),
            daytime: self.daytime.or(file.daytime),
            chargen: self.chargen.or(file.chargen),
            http: all(self.http, file.http),
            architecture: self.architecture.or(file.architecture),
            processors: self.processors.or(file.processors),
            queues: self.queues.or(file.queues),
            perimeter: self.perimeter.or(file.perimeter),
            order: self.order.or(file.order),
            lock: self.lock.or(file.lock),
            tcp_locks: self.tcp_locks.or(file.tcp_locks),
            agents: self.agents.or(file.agents),
            threads: self.threads.or(file.threads),
            wait: self.wait.or(file.wait),
            pin: self.pin.or(file.pin),
            batch: self.batch.or(file.batch),
            mtu: self.mtu.or(file.mtu),
            offload: self.offload.or(file.offload),
            pcap: self.pcap.or(file.pcap),
            pcap_size: self.pcap_size.or(file.pcap_size),
            pcap_ring: self.pcap_ring.or(file.pcap_ring),
            impair: self.impair.or(file.impair),
            impair_back: self.impair_back.or(file.impair_back),
            drain: self.drain.or(file.drain),
            memory: self.memory.or(file.memory),
            connections: self.connections.or(file.connections),
            neighbours: self.neighbours.or(file.neighbours),
            icmp_errors: self.icmp_errors.or(file.icmp_errors),
            congestion: self.congestion.or(file.congestion),
            ecn: self.ecn.or(file.ecn),
            path_probing: self.path_probing.or(file.path_probing),
            ttl: self.ttl.or(file.ttl),
            dscp: self.dscp.or(file.dscp),
            fast_open: self.fast_open.or(file.fast_open),
            ..device
        }
    }
}

/// These, if there are any, else those.
fn all<T>(these: Vec<T>, those: Vec<T>) -> Vec<T> {
    if these.is_empty() { those } else { these }
}

/// What is to be done: checked, with nothing left open.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The first, and those that were asked for beside it.
    pub devices: Vec<Attached>,
    pub is_apart: bool,
    pub forwards: bool,
    pub routes: Vec<Route>,
    pub services: Vec<Offer>,
    pub placing: Placing,
    pub batch: usize,
    pub pcap: Option<Pcap>,
    /// To what is sent, and to what is received.
    pub impair: Option<(Impairments, Impairments)>,
    pub drain: Duration,
    pub memory_bytes: usize,
    pub connections: usize,
    pub resolution: Resolution,
    pub icmp_errors: ErrorRate,
    pub congestion: CongestionControl,
    pub ecn: EcnMode,
    pub path_probing: PathProbing,
    pub ttl: u8,
    pub dscp: u8,
    pub fast_open: u32,
}

/// A service on a port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Offer {
    pub port: u16,
    pub what: What,
}

/// Which service.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum What {
    Echo,
    Discard,
    Daytime,
    Chargen,
    Http(PathBuf),
}

impl What {
    pub fn name(&self) -> &'static str {
        match self {
            What::Echo => "echo",
            What::Discard => "discard",
            What::Daytime => "daytime",
            What::Chargen => "chargen",
            What::Http(_) => "http",
        }
    }
}

const MAX_BATCH: usize = 4096;
const MIN_MEMORY: Bytes = Bytes(16 << 20);

impl Setup {
    /// Checks what can be checked before anything is made.
    pub fn check(settings: Settings) -> Result<Setup, Failure> {
        let usage = |sentence: &str| Err(Failure::Usage(sentence.to_owned()));
        let devices = Attached::all(&settings)?;
        let batch = settings.batch.unwrap_or(64);
        if !(1..=MAX_BATCH).contains(&batch) {
            return usage(&format!("--batch takes a number from 1 to {MAX_BATCH}"));
        }
        let memory = settings.memory.unwrap_or(Bytes(256 << 20));
        if memory < MIN_MEMORY {
            return usage("--memory needs at least 16M");
        }
        let (resolution, icmp_errors) = limits(&settings)?;
        let pcap = Pcap::check(&settings)?;
        if settings.ttl == Some(0) {
            return usage("--ttl takes 1 to 255 hops");
        }
        if settings.dscp.is_some_and(|point| point > 63) {
            return usage("--dscp takes 0 to 63");
        }
        Ok(Setup {
            is_apart: settings.apart.unwrap_or(false),
            forwards: settings.forward.unwrap_or(false),
            services: offers(&settings)?,
            placing: Placing::check(&settings)?,
            routes: routes(&settings.route, &devices)?,
            devices,
            batch,
            pcap,
            impair: match (settings.impair, settings.impair_back) {
                (None, None) => None,
                (out, back) => Some((out.unwrap_or_default(), back.unwrap_or_default())),
            },
            drain: settings.drain.map_or(Duration::from_secs(2), |span| span.0),
            memory_bytes: memory.0,
            connections: settings.connections.unwrap_or(65_536),
            resolution,
            icmp_errors,
            congestion: settings.congestion.unwrap_or_default(),
            ecn: settings.ecn.unwrap_or_default(),
            path_probing: settings.path_probing.unwrap_or_default(),
            ttl: settings.ttl.unwrap_or(DEFAULT_TTL),
            dscp: settings.dscp.unwrap_or(0),
            fast_open: settings.fast_open.unwrap_or_default(),
        })
    }
}

/// The routes, with the numbers of the devices that they name.
fn routes(given: &[Routed], devices: &[Attached]) -> Result<Vec<Route>, Failure> {
    let names: Vec<String> = (devices.iter())
        .map(|attached| attached.carrier.which.name())
        .collect();
    let number = |name: &String| {
        let found = (0u8..).zip(&names).find(|(_, of)| *of == name);
        found.map(|(number, _)| number).ok_or_else(|| {
            let known = names.join(" and ");
            Failure::Usage(format!(
                "no route can be by {name}: the stack stands on {known}"
            ))
        })
    };
    let route = |routed: &Routed| {
        Ok(Route {
            prefix: routed.prefix,
            gateway: routed.gateway.map(Into::into),
            device: routed.device.as_ref().map(number).transpose()?,
        })
    };
    given.iter().map(route).collect()
}

/// How many neighbours, and errors in a second, there may be.
fn limits(settings: &Settings) -> Result<(Resolution, ErrorRate), Failure> {
    let mut resolution = Resolution::default();
    resolution.neighbours = settings.neighbours.unwrap_or(resolution.neighbours);
    let mut icmp_errors = ErrorRate::default();
    icmp_errors.per_second = settings.icmp_errors.unwrap_or(icmp_errors.per_second);
    let takes = |flag, LimitError { least, most, .. }| {
        Failure::Usage(format!("{flag} takes {least} to {most}"))
    };
    (resolution.check()).map_err(|error| takes("--neighbours", error))?;
    (icmp_errors.check()).map_err(|error| takes("--icmp-errors", error))?;
    Ok((resolution, icmp_errors))
}

/// The services, each on a port of its own.
fn offers(settings: &Settings) -> Result<Vec<Offer>, Failure> {
    let simple = [
        (settings.echo, What::Echo),
        (settings.discard, What::Discard),
        (settings.daytime, What::Daytime),
        (settings.chargen, What::Chargen),
    ];
    let http = settings
        .http
        .iter()
        .map(|root| (Some(root.port), What::Http(root.directory.clone())));
    let mut offers: Vec<Offer> = Vec::new();
    for (port, what) in simple.into_iter().chain(http) {
        let Some(port) = port else { continue };
        if port == 0 {
            return Err(Failure::Usage(format!(
                "{} cannot be on port 0: choose 1 to 65535",
                what.name()
            )));
        }
        if let Some(other) = offers.iter().find(|other| other.port == port) {
            return Err(Failure::Usage(format!(
                "{} and {} are both on port {port}: give each a port of its own",
                other.what.name(),
                what.name()
            )));
        }
        offers.push(Offer { port, what });
    }
    Ok(offers)
}

/// A value that is written as text.
fn one<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    String::deserialize(from)?
        .parse()
        .map(Some)
        .map_err(D::Error::custom)
}

/// One such value, or a list of them.
fn some<'de, D, T>(from: D) -> Result<Vec<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: Display>,
{
    #[derive(serde::Deserialize)]
    #[serde(untagged, expecting = "expected a string or a list of strings")]
    enum OneOrMore {
        One(String),
        More(Vec<String>),
    }
    let texts = match OneOrMore::deserialize(from)? {
        OneOrMore::One(text) => vec![text],
        OneOrMore::More(texts) => texts,
    };
    texts
        .iter()
        .map(|text| text.parse().map_err(D::Error::custom))
        .collect()
}

#[cfg(test)]
mod tests;
