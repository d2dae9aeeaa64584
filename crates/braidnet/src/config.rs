//! What a stack is set to.

use crate::limits::Limits;
use braidnet_inet::interface::{Interface, InterfaceConfig, InterfaceError};
use braidnet_inet::tcp::{FastOpening, Listening, TcpConfig};
use braidnet_inet::{Paths, Reassembly};
use braidnet_wire::address::Address;
use core::net::IpAddr;

/// What a stack is set to. [`StackConfig::new`] gives sensible values, and every field can be changed; those that are [`Limits`], also while
/// the stack runs.
#[derive(Clone, Debug)]
pub struct StackConfig {
    /// Its addresses, each with the length of its network's prefix in bits where it has one.
    pub addresses: Vec<(IpAddr, Option<u8>)>,
    /// Where packets for other networks go, on a device with link addresses.
    pub gateway: Option<IpAddr>,
    /// The one figure that bounds the memory of the whole stack, in bytes: buffers and connections.
    pub memory_bytes: usize,
    /// Most connections, half-open and in TIME-WAIT included.
    pub connections: usize,
    /// Most [sockets](crate::socket::Sockets) at a time.
    pub sockets: usize,
    /// How many buckets connections are grouped in, 2 to 65,536.
    pub buckets: u32,
    /// What may be held of datagrams that arrive in fragments; at most a sixteenth of the memory.
    pub reassembly: Reassembly,
    /// What is remembered of paths that are shorter than the device's MTU.
    pub paths: Paths,
    /// How the TCP engine of every connection is set. Buffers begin with 256 KiB and grow to 4 MiB where the path needs it, all receive
    /// buffers together by a quarter of the memory.
    pub tcp: braidnet_tcp::Config,
    /// What listeners do when they are full.
    pub listening: Listening,
    /// What is remembered for Fast Open, which `tcp.fast_open` turns on.
    pub fast_opening: FastOpening,
    /// Most messages that are taken from one place at once.
    pub batch: usize,
    /// The secrets of this stack: of the flow hash and of the initial sequence numbers. Random unless a test fixes them.
    pub secrets: Secrets,
}

/// How large the buffers of a connection become where its path needs it: a gigabit over 32 ms.
const GROWN_BYTES: u32 = 4 << 20;

/// The secrets of a stack, made anew at every start (RFC 6528 §3).
#[derive(Clone, Copy, Debug)]
pub struct Secrets {
    /// Key of the flow hash.
    pub flow_key: [u64; 2],
    /// Key of the initial sequence numbers.
    pub isn_key: [u64; 2],
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
            gateway: None,
            memory_bytes: 256 << 20,
            connections: 65_536,
            sockets: 65_536,
            buckets: 256,
            reassembly: Reassembly::default(),
            paths: Paths::default(),
            tcp: braidnet_tcp::Config {
                receive_buffer_max_bytes: GROWN_BYTES,
                send_buffer_max_bytes: GROWN_BYTES,
                ..braidnet_tcp::Config::default()
            },
            listening: Listening::default(),
            fast_opening: FastOpening::default(),
            batch: 64,
            secrets: Secrets::random(),
        }
    }

    /// Those of its fields that may change while the stack runs.
    pub fn limits(&self) -> Limits {
        Limits {
            memory_bytes: self.memory_bytes,
            connections: self.connections,
            sockets: self.sockets,
            reassembly: self.reassembly,
            paths: self.paths,
            listening: self.listening,
        }
    }

    /// The interface that the stack has on a device of this MTU and, where it has link addresses, this one.
    pub(crate) fn interface(
        &self,
        mtu: usize,
        mac: Option<braidnet_wire::ethernet::MacAddress>,
    ) -> Result<Interface, InterfaceError> {
        let interface = Interface::new(InterfaceConfig {
            addresses: self
                .addresses
                .iter()
                .map(|(address, prefix)| (Address::from(*address), *prefix))
                .collect(),
            mtu,
            mac,
            gateway: self.gateway.map(Address::from),
        })?;
        Ok(interface.reassembling(self.limits().reassembly()))
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
