//! What a stack is set to.

use crate::inboxes::DatagramPorts;
use crate::limits::{Limits, MemoryParts};
use braidnet_device::{Capabilities, Medium};
use braidnet_inet::interface::{Attachment, Interface, InterfaceConfig, InterfaceError};
use braidnet_inet::tcp::{FastOpening, Listening, TcpConfig};
use braidnet_inet::{ErrorRate, Paths, Prefix, Reassembly, Resolution, Route};
use braidnet_stream::DropWatch;
use braidnet_wire::address::Address;
use core::fmt;
use core::net::IpAddr;

/// What a stack is set to. [`StackConfig::new`] gives sensible values, and every field can be changed; those that are [`Limits`], also while
/// the stack runs.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// Its addresses, each with the length of its network's prefix in bits where it has one.
    pub addresses: Vec<(IpAddr, Option<u8>)>,
    /// Its addresses on each further device, where it stands on [several](braidnet_device::several::Several), in the order of these. It answers to any
    /// of its addresses whichever device a packet comes by, and what it sends leaves by the device that its route leads to.
    pub further_addresses: Vec<Vec<(IpAddr, Option<u8>)>>,
    /// Where packets for other networks go that no route is for, on a device with link addresses or several devices: the default route.
    pub gateway: Option<IpAddr>,
    /// Where packets for other networks go: to gateways on a device with link addresses or several devices, by devices on any, which are counted from 0 on, this stack's first; at
    /// most [`MAX_ROUTES`](braidnet_inet::route::MAX_ROUTES). The longest prefix decides. Where there are routes, a gateway or several devices, what none is for cannot be sent; without any it goes to the neighbour that packets of its
    /// destination came from.
    pub routes: Vec<Route>,
    /// Whether what comes for other hosts is forwarded, on several devices (RFC 1812): off unless it is asked for.
    pub forwards: bool,
    /// The one figure that bounds the memory of the whole stack, in bytes: buffers and connections.
    pub memory_bytes: usize,
    /// Which parts of it may be used for what.
    pub parts: MemoryParts,
    /// Most connections, half-open and in TIME-WAIT included.
    pub connections: usize,
    /// Most connections that have ended, whose place TCP has given to others, and that are kept until the application of a caller-turned stack
    /// forgets them: 0 to 65,536. Of one more the one that ended first is forgotten. They are searched one by one.
    pub ended_connections: usize,
    /// Most [sockets](crate::socket::Sockets) at a time.
    pub sockets: usize,
    /// How many buckets connections are grouped in, 2 to 65,536.
    pub buckets: u32,
    /// What is known of neighbours, on each device with link addresses.
    pub resolution: Resolution,
    /// What may be held of datagrams that arrive in fragments; at most [a part](MemoryParts::fragments) of the memory.
    pub reassembly: Reassembly,
    /// How many ICMP errors may be sent.
    pub icmp_errors: ErrorRate,
    /// What is kept at the ports of UDP of a caller-turned stack.
    pub datagram_ports: DatagramPorts,
    /// What is remembered of paths that are shorter than the device's MTU.
    pub paths: Paths,
    /// How the TCP engine of every connection is set. Buffers begin with 256 KiB and grow to 4 MiB where the path needs it, all receive
    /// buffers together by [a part](braidnet_inet::tcp::TcpParts::growth) of the memory.
    pub tcp: braidnet_tcp::Config,
    /// What listeners do when they are full.
    pub listening: Listening,
    /// What is remembered for Fast Open, which `tcp.fast_open` turns on.
    pub fast_opening: FastOpening,
    /// Most messages that are taken from one place at once.
    pub batch: usize,
    /// Who is told of each packet that is dropped, if anybody: see [`recording_drops`](crate::recording_drops).
    pub drop_watch: Option<DropWatch>,
    /// The secrets of this stack: of the flow hash and of the initial sequence numbers. Random unless a test fixes them.
    pub secrets: Secrets,
}

/// How large the buffers of a connection become where its path needs it: a gigabit over 32 ms.
const GROWN_BYTES: u32 = 4 << 20;

/// The secrets of a stack, made anew at every start (RFC 6528 §3).
#[derive(Clone, Copy)]
pub struct Secrets {
    /// Key of the flow hash.
    pub flow_key: [u64; 2],
    /// Key of the initial sequence numbers.
    pub isn_key: [u64; 2],
}

/// They are shown to nobody.
impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

impl Secrets {
    /// Random ones, from the same source of the system that seeds the standard library's hash maps.
    pub fn random() -> Secrets {
        use std::hash::{BuildHasher, Hasher, RandomState};
        let word = || RandomState::new().build_hasher().finish();
        Secrets {
            flow_key: [word(), word()],
            isn_key: [word(), word()],
        }
    }
}

impl StackConfig {
    /// A stack that answers to `address`.
    ///
    /// ```
    /// let config = braidnet::StackConfig::new("10.77.0.2".parse()?);
    /// assert_eq!(config.buckets, 256);
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    pub fn new(address: IpAddr) -> StackConfig {
        StackConfig {
            addresses: vec![(address, None)],
            further_addresses: Vec::new(),
            gateway: None,
            routes: Vec::new(),
            forwards: false,
            memory_bytes: 256 << 20,
            parts: MemoryParts::default(),
            connections: 65_536,
            ended_connections: 1024,
            sockets: 65_536,
            buckets: 256,
            resolution: Resolution::default(),
            reassembly: Reassembly::default(),
            icmp_errors: ErrorRate::default(),
            datagram_ports: DatagramPorts::default(),
            paths: Paths::default(),
            tcp: braidnet_tcp::Config {
                receive_buffer_max_bytes: GROWN_BYTES,
                send_buffer_max_bytes: GROWN_BYTES,
                ..braidnet_tcp::Config::default()
            },
            listening: Listening::default(),
            fast_opening: FastOpening::default(),
            batch: 64,
            drop_watch: None,
            secrets: Secrets::random(),
        }
    }

    /// Those of its fields that may change while the stack runs.
    pub fn limits(&self) -> Limits {
        Limits {
            memory_bytes: self.memory_bytes,
            parts: self.parts,
            connections: self.connections,
            ended_connections: self.ended_connections,
            sockets: self.sockets,
            resolution: self.resolution,
            reassembly: self.reassembly,
            icmp_errors: self.icmp_errors,
            datagram_ports: self.datagram_ports,
            paths: self.paths,
            listening: self.listening,
            fast_opening: self.fast_opening,
        }
    }

    /// The interface that the stack has on these devices, as many as it has addresses for.
    pub(crate) fn interface(&self, devices: &[Capabilities]) -> Result<Interface, InterfaceError> {
        let addresses = core::iter::once(&self.addresses).chain(&self.further_addresses);
        let devices = devices.iter().zip(addresses);
        let mut attachments = devices.map(|(device, addresses)| Attachment {
            addresses: addresses
                .iter()
                .map(|(address, prefix)| (Address::from(*address), *prefix))
                .collect(),
            mtu: device.mtu,
            mac: match device.medium {
                Medium::Ip => None,
                Medium::Ethernet { address } => Some(address),
            },
        });
        let Attachment {
            addresses,
            mtu,
            mac,
        } = attachments.next().unwrap_or_default();
        Interface::new(InterfaceConfig {
            addresses,
            mtu,
            mac,
            routes: self.routes().collect(),
            others: attachments.collect(),
            forwards: self.forwards,
        })
    }

    fn routes(&self) -> impl Iterator<Item = Route> + '_ {
        let default = self
            .gateway
            .map(|gateway| Route::via(Prefix::ALL, gateway.into()));
        default.into_iter().chain(self.routes.iter().copied())
    }

    /// TCP on a device of this MTU.
    pub(crate) fn tcp(&self, mtu: usize) -> TcpConfig {
        TcpConfig {
            engine: self.tcp,
            mtu,
            connections_per_bucket: self.limits().connections_per_bucket(self.buckets),
            listening: self.listening,
            fast_opening: self.fast_opening,
            isn_secret: self.secrets.isn_key,
        }
    }
}
