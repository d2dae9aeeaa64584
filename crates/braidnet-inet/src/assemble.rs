//! Wires the modules of this crate into a stream.

use crate::arp::Arp;
use crate::ethernet::{self, Link};
use crate::flows::Flows;
use crate::fragments::{self, Fragments};
use crate::icmp::{self, Icmp};
use crate::interface::Interface;
use crate::ip::{self, Ip};
use crate::limits::InetLimits;
use crate::live::Live;
use crate::stations::Stations;
use crate::tcp::locked::LockedTcp;
use crate::tcp::{Tcp, TcpLocks};
use crate::udp::{self, Udp, UdpPorts};
use braidnet_stream::{Module, ModuleId, StreamBuilder};
use braidnet_sync::lock::LockKind;
use std::sync::Arc;

/// A stream with everything up to the transports, open at the top.
///
/// ```text
///            head            head            link(inet.layout.tcp, …), link(inet.layout.udp, …)
///             |               |
///            tcp    icmp <-- udp             a refused datagram goes to ICMP
///               \     | \    /
///                `----ip---'  \
///                     | `-- fragments       which go back down when they are whole, or to ICMP when their time is over
///                  |      \                  where a device carries Ethernet frames:
///                  |      arp                whom a packet came through
///                  |      /
///                 link --'                   ARP packets, and packets whose station is not known
///                  |
///                 tail
/// ```
pub struct Inet {
    /// The stream so far. Push further modules and link them above [`Layout::tcp`] and [`Layout::udp`], then build it.
    pub stream: StreamBuilder,
    /// Where the modules are.
    pub layout: Layout,
    /// The UDP ports that are open.
    pub ports: Arc<UdpPorts>,
    /// What ARP, IP and ICMP may hold and send; may be set otherwise while the stack runs.
    pub limits: Arc<Live<InetLimits>>,
}

/// Where the modules of a stack are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// What packets from the device enter at.
    pub bottom: ModuleId,
    /// Link and ARP, where a device carries Ethernet frames.
    pub link: Option<(ModuleId, ModuleId)>,
    /// IP.
    pub ip: ModuleId,
    /// ICMP.
    pub icmp: ModuleId,
    /// Where fragments are held.
    pub fragments: ModuleId,
    /// UDP.
    pub udp: ModuleId,
    /// TCP.
    pub tcp: ModuleId,
}

impl Inet {
    /// Wires `tcp` and the modules of this crate for `interface`: IP, ICMP and UDP, and Link and ARP below them where there is
    /// a station address on any device.
    ///
    /// # Panics
    /// If `flows` was made for an interface with other link headers: the packet filter would look in the wrong place.
    pub fn assemble(interface: Interface, flows: Flows, tcp: impl Module) -> Inet {
        Inet::wire(interface, flows, tcp, |ip| ip)
    }

    /// The same with this crate's TCP behind so many `locks` of this `kind`, for an architecture whose processors share
    /// connections. The first of the locks is the perimeter of each bucket, which the architecture makes.
    ///
    /// # Panics
    /// As for [`assemble`](Inet::assemble).
    pub fn assemble_locked(
        interface: Interface,
        flows: Flows,
        tcp: Tcp,
        locks: TcpLocks,
        kind: LockKind,
    ) -> Inet {
        match locks {
            TcpLocks::One => Inet::assemble(interface, flows, tcp),
            TcpLocks::Two | TcpLocks::SixRepaired => {
                Inet::assemble(interface, flows, LockedTcp::new(tcp, locks, kind))
            }
            TcpLocks::Six => {
                let tcp = LockedTcp::new(tcp, locks, kind);
                Inet::wire(interface, flows, tcp, Ip::apart)
            }
        }
    }

    fn wire(
        interface: Interface,
        flows: Flows,
        tcp: impl Module,
        set: impl FnOnce(Ip) -> Ip,
    ) -> Inet {
        assert!(
            flows.is_for(&interface),
            "flows and interface disagree on the link header"
        );
        let interface = Arc::new(interface);
        let ports = Arc::new(UdpPorts::new(flows));
        let limits = Arc::new(Live::new(InetLimits::default()));
        let mut stream = StreamBuilder::new();
        let stations = Stations::of(&interface).map(Arc::new);
        let below = stations.clone().map(|stations| {
            let link = stream.module(Link::new(interface.clone(), stations.clone()));
            let arp = Arp::new(interface.clone(), stations, limits.clone());
            (link, stream.module(arp))
        });
        let ip = stream.module(set(Ip::new(interface.clone(), flows, stations)));
        let icmp = stream.module(Icmp::new(interface.clone(), flows, limits.clone()));
        let fragments = stream.module(Fragments::new(limits.clone()));
        let udp = stream.module(Udp::new(interface, flows, ports.clone()));
        let tcp = stream.module(tcp);

        let mut wires = Wires {
            stream: &mut stream,
            made: Vec::new(),
        };
        if let Some((link, arp)) = below {
            wires.lay((link, ethernet::UP_IP), (ip, ip::DOWN_LINK));
            wires.lay((link, ethernet::UP_ARP), (arp, 0));
            wires.lay((arp, 0), (ip, ip::DOWN_ARP));
        }
        wires.lay((ip, ip::UP_TCP), (tcp, 0));
        wires.lay((ip, ip::UP_UDP), (udp, udp::DOWN_IP));
        wires.lay((ip, ip::UP_ICMP), (icmp, 0));
        wires.lay((ip, ip::UP_FRAGMENTS), (fragments, fragments::DOWN_IP));
        wires.lay((icmp, 0), (udp, udp::DOWN_ICMP));
        wires.lay((icmp, 1), (fragments, fragments::DOWN_ICMP));
        wires.lay((icmp, icmp::UP_TCP), (tcp, 1));

        let bottom = below.map_or(ip, |(link, _)| link);
        Inet {
            stream,
            layout: Layout {
                bottom,
                link: below,
                ip,
                icmp,
                fragments,
                udp,
                tcp,
            },
            ports,
            limits,
        }
    }
}

/// Lays links and checks that they get the numbers that the modules know them by.
struct Wires<'a> {
    stream: &'a mut StreamBuilder,
    made: Vec<(ModuleId, ModuleId)>,
}

impl Wires<'_> {
    /// Links `below` to `above`: each a module and the number that the link has there.
    fn lay(&mut self, below: (ModuleId, u8), above: (ModuleId, u8)) {
        debug_assert_eq!(
            self.made
                .iter()
                .filter(|(module, _)| *module == below.0)
                .count(),
            usize::from(below.1)
        );
        debug_assert_eq!(
            self.made
                .iter()
                .filter(|(_, module)| *module == above.0)
                .count(),
            usize::from(above.1)
        );
        self.made.push((below.0, above.0));
        self.stream.link(below.0, above.0);
    }
}
