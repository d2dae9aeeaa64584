//! What is asked for: on the command line and in a file, in the same words.

use super::placing::Placing;
use super::values::{Bytes, HttpRoot, Prefixed, Span};
use crate::choices::{Switch, one_of};
use crate::failure::Failure;
use braidnet::Architecture;
use braidnet::device::impair::Impairments;
use braidnet::device::tun::Mode;
use braidnet::inet::ip::DEFAULT_TTL;
use braidnet::inet::tcp::TcpLocks;
use braidnet::inet::{ErrorRate, LimitError, Resolution};
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
    /// Address of the host's side of the device; brings it up. Without, it is left as it is
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    #[serde(deserialize_with = "one")]
    pub host: Option<Prefixed>,
    /// Address of the stack, with or without a prefix; may be given several times
    #[arg(long, value_name = "ADDRESS[/PREFIX]")]
    #[serde(deserialize_with = "some")]
    pub address: Vec<Prefixed>,
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
    /// Let the system leave checksums and the cutting of segments to whom they cost nothing; `off`: every packet is as a wire would carry it, as it is
    /// with `--impair` and `--pcap` in any case [default: on]
    #[arg(long, value_name = "on|off", hide_possible_values = true)]
    #[serde(deserialize_with = "one")]
    pub offload: Option<Switch>,
    /// Record all packets in this pcapng file
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Do this to packets that are sent: `braidnet relay --help` lists the words
    #[arg(long, value_name = "WORD=VALUE,...")]
    #[serde(deserialize_with = "one")]
    pub impair: Option<Impairments>,
    /// Do this to packets that are received
    #[arg(long, value_name = "WORD=VALUE,...")]
    #[serde(deserialize_with = "one")]
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
    /// Most neighbours on the link that are known at a time, 1 to 16384 [default: 1024]
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
        // A device on the command line stands for both kinds.
        let names_device = self.tun.is_some() || self.tap.is_some();
        let (tun, tap) = if names_device {
            (self.tun, self.tap)
        } else {
            (file.tun, file.tap)
        };
        let all = |these: Vec<Prefixed>, those| if these.is_empty() { those } else { these };
        Settings {
            tun,
            tap,
            host: self.host.or(file.host),
            address: all(self.address, file.address),
            echo: self.echo.or(file.echo),
            discard: self.discard.or(file.discard),
            daytime: self.daytime.or(file.daytime),
            chargen: self.chargen.or(file.chargen),
            http: if self.http.is_empty() {
                file.http
            } else {
                self.http
            },
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
        }
    }
}

/// What is to be done: checked, with nothing left open.
#[derive(Clone, Debug)]
pub struct Setup {
    pub mode: Mode,
    pub device: String,
    pub host: Option<Prefixed>,
    pub addresses: Vec<Prefixed>,
    pub services: Vec<Offer>,
    pub placing: Placing,
    pub batch: usize,
    pub mtu: Option<usize>,
    pub offload: bool,
    pub pcap: Option<PathBuf>,
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
        let (mode, device) = match (settings.tun.clone(), settings.tap.clone()) {
            (Some(name), None) => (Mode::Tun, name),
            (None, Some(name)) => (Mode::Tap, name),
            (None, None) => return usage("name the device to serve on: --tun NAME or --tap NAME"),
            (Some(_), Some(_)) => {
                return usage("a stack has one device: name it with --tun or with --tap, not both");
            }
        };
        if settings.address.is_empty() {
            return usage(
                "give the stack an address: --address ADDRESS, such as --address 10.77.0.2",
            );
        }
        if let Some(host) = settings.host {
            if host.prefix.is_none() {
                return usage(
                    "--host needs the prefix of the network behind the device, such as --host 10.77.0.1/24",
                );
            }
            if settings
                .address
                .iter()
                .any(|own| own.address == host.address)
            {
                return usage(
                    "--host and --address name the two ends of the device: they cannot be the same address",
                );
            }
        }
        let batch = settings.batch.unwrap_or(64);
        if !(1..=MAX_BATCH).contains(&batch) {
            return usage(&format!("--batch takes a number from 1 to {MAX_BATCH}"));
        }
        let memory = settings.memory.unwrap_or(Bytes(256 << 20));
        if memory < MIN_MEMORY {
            return usage("--memory needs at least 16M");
        }
        let (resolution, icmp_errors) = limits(&settings)?;
        if settings.ttl == Some(0) {
            return usage("--ttl takes 1 to 255 hops");
        }
        if settings.dscp.is_some_and(|point| point > 63) {
            return usage("--dscp takes 0 to 63");
        }
        Ok(Setup {
            mode,
            device,
            host: settings.host,
            services: offers(&settings)?,
            placing: Placing::check(&settings)?,
            addresses: settings.address,
            batch,
            mtu: settings.mtu,
            offload: settings.offload.is_none_or(Switch::is_on),
            pcap: settings.pcap,
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
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser, Debug)]
    struct Line {
        #[command(flatten)]
        settings: Settings,
    }

    fn line(words: &str) -> Settings {
        Line::try_parse_from(std::iter::once("serve").chain(words.split_whitespace()))
            .unwrap()
            .settings
    }

    const WORDS: &str = "--tap bn0 --host 10.77.0.1/24 --address 10.77.0.2 --address 10.77.0.3/24 --echo 7 --discard 9 \
        --daytime 13 --chargen 19 --http 80=/srv --http 8080=. --architecture message --processors 2 --queues 1 --perimeter locked --order numbered --lock mcs \
        --tcp-locks 1 --agents tasks --threads 1 --wait sleep --pin --batch 8 --mtu 9000 --pcap x.pcapng --impair loss=1% --impair-back delay=20ms,seed=7 --drain 500ms --memory 64M --connections 1000 --neighbours 50 --icmp-errors 10 --congestion new-reno --path-probing always --ttl 9 --dscp 46";
    const FILE: &str = r#"
        tap = "bn0"
        host = "10.77.0.1/24"
        address = ["10.77.0.2", "10.77.0.3/24"]
        echo = 7
        discard = 9
        daytime = 13
        chargen = 19
        http = ["80=/srv", "8080=."]
        architecture = "message"
        processors = 2
        queues = 1
        perimeter = "locked"
        order = "numbered"
        lock = "mcs"
        tcp-locks = "1"
        agents = "tasks"
        threads = 1
        wait = "sleep"
        pin = true
        batch = 8
        mtu = 9000
        pcap = "x.pcapng"
        impair = "loss=1%"
        impair-back = "delay=20ms,seed=7"
        drain = "500ms"
        memory = "64M"
        connections = 1000
        neighbours = 50
        icmp-errors = 10
        congestion = "new-reno"
        path-probing = "always"
        ttl = 9
        dscp = 46
    "#;

    #[test]
    fn line_and_file_say_the_same() {
        let from_line = format!("{:?}", line(WORDS));
        let from_file = format!("{:?}", toml::from_str::<Settings>(FILE).unwrap());
        assert_eq!(from_line, from_file);
        assert!(!from_line.contains("None, echo"), "everything is set");
    }

    #[test]
    fn the_line_overrides_the_file() {
        let file: Settings = toml::from_str(FILE).unwrap();
        let both = line("--tun other --address 10.9.9.9 --echo 1007").or(file);
        assert_eq!(
            (both.tun.as_deref(), both.tap.as_deref()),
            (Some("other"), None)
        );
        assert_eq!(
            (both.address.len(), both.echo, both.discard),
            (1, Some(1007), Some(9))
        );
        let setup = Setup::check(both).unwrap();
        assert_eq!((setup.mode, setup.services.len()), (Mode::Tun, 6));
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_sentence() {
        let rows = [
            ("--address 10.77.0.2", "--tun NAME"),
            ("--tun bn0", "--address"),
            ("--tun bn0 --address 10.77.0.2 --host 10.77.0.1", "prefix"),
            (
                "--tun bn0 --address 10.77.0.2 --host 10.77.0.2/24",
                "same address",
            ),
            (
                "--tun bn0 --address 10.77.0.2 --tcp-locks 6",
                "under connection there is none",
            ),
            (
                "--tun bn0 --address 10.77.0.2 --architecture braid --processors 66",
                "65 processors at most",
            ),
            (
                "--tun bn0 --address 10.77.0.2 --perimeter delegated",
                "under connection that is not so",
            ),
            (
                "--tun bn0 --address 10.77.0.2 --architecture braid --order numbered",
                "under braid that is not so",
            ),
            (
                "--tun bn0 --address 10.77.0.2 --lock mcs",
                "nothing to lock",
            ),
            (
                "--tun bn0 --address 10.77.0.2 --architecture message --perimeter delegated --lock mcs",
                "nothing to lock",
            ),
            (
                "--tun bn0 --address 10.77.0.2 --threads 2",
                "needs agents tasks",
            ),
            (
                "--tun bn0 --address 10.77.0.2 --agents tasks --threads 0",
                "--threads",
            ),
            (
                "--tun bn0 --address 10.77.0.2 --pin --processors 256",
                "this process may use",
            ),
            (
                "--tun bn0 --address 10.77.0.2 --processors 0",
                "--processors",
            ),
            (
                "--tun bn0 --address 10.77.0.2 --queues 2",
                "--queues takes a number from 1 to 1",
            ),
            (
                "--tun bn0 --address 10.77.0.2 --architecture task --processors 3 --queues 2",
                "under task, so many",
            ),
            ("--tun bn0 --address 10.77.0.2 --batch 0", "--batch"),
            ("--tun bn0 --address 10.77.0.2 --memory 1M", "16M"),
            (
                "--tun bn0 --address 10.77.0.2 --neighbours 0",
                "--neighbours takes 1 to 16384",
            ),
            (
                "--tun bn0 --address 10.77.0.2 --icmp-errors 1000001",
                "--icmp-errors takes 0 to 1000000",
            ),
            ("--tun bn0 --address 10.77.0.2 --ttl 0", "1 to 255"),
            ("--tun bn0 --address 10.77.0.2 --dscp 64", "0 to 63"),
            (
                "--tun bn0 --address 10.77.0.2 --echo 80 --http 80=.",
                "echo and http are both on port 80",
            ),
        ];
        for (words, part) in rows {
            let failure = Setup::check(line(words)).unwrap_err();
            assert!(
                matches!(&failure, Failure::Usage(sentence) if sentence.contains(part)),
                "{words}: {failure}"
            );
        }
        let port: Settings =
            toml::from_str("tun = 'bn0'\naddress = '10.77.0.2'\necho = 0").unwrap();
        assert!(
            Setup::check(port)
                .unwrap_err()
                .to_string()
                .contains("port 0")
        );
    }

    #[test]
    fn bad_files_are_refused_by_line() {
        let rows = [
            ("tun = 'bn0'\nehco = 7\n", "line 2", "unknown field `ehco`"),
            ("tun = \n", "line 1", ""),
            ("\n\nhost = '10.77.0.1/99'\n", "line 3", "prefix"),
            ("address = 7\n", "line 1", "a string or a list of strings"),
            (
                "tun = 'bn0'\nimpair = 'los=1%'\n",
                "line 2",
                "`los` is not known here",
            ),
            (
                "congestion = 'vegas'\n",
                "line 1",
                "there are cubic, new-reno and bbr",
            ),
            (
                "ecn = 'yes'\n",
                "line 1",
                "there are off, passive, on and accurate",
            ),
        ];
        let path =
            std::env::temp_dir().join(format!("braidnet-settings-{}.toml", std::process::id()));
        for (text, line, part) in rows {
            std::fs::write(&path, text).unwrap();
            let sentence = Settings::read(&path).unwrap_err().to_string();
            assert!(
                sentence.contains(line) && sentence.contains(part),
                "{sentence}"
            );
            assert!(!sentence.contains('\n'), "{sentence}");
        }
        std::fs::remove_file(&path).unwrap();
        assert!(
            Settings::read(&path)
                .unwrap_err()
                .to_string()
                .contains("cannot be read")
        );
    }
}
