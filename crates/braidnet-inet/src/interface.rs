//! The interface: on which devices we are, which addresses are ours, and where a packet goes next ([`route`](crate::route)).

mod error;
mod ways;

use crate::offload::Offload;
use crate::route::{Prefix, Route, Routes};
use braidnet_message::Message;
use braidnet_wire::address::Address;
use braidnet_wire::ethernet::MacAddress;
use core::cmp::Reverse;
pub use error::InterfaceError;

/// What an interface is set to; [`Interface::new`] checks it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct InterfaceConfig {
    /// Its addresses, the first of which is the source where nothing else decides, each with the length in bits of the
    /// prefix that its network shares. An address without one is on a network of its own.
    pub addresses: Vec<(Address, Option<u8>)>,
    /// Longest IP packet in bytes, 68 to 65535.
    pub mtu: usize,
    /// The station address, on a device that carries Ethernet frames; `None` where it carries bare IP packets.
    pub mac: Option<MacAddress>,
    /// Where packets for other networks go, at most [`MAX_ROUTES`](crate::route::MAX_ROUTES). Gateways only where there is a station address, or several devices. Where there are
    /// routes, what none of them is for cannot be sent; where there is none, a packet for another network goes to the neighbour that packets of its
    /// destination came from.
    pub routes: Vec<Route>,
    /// The devices beside the first, of which all else here is said.
    pub others: Vec<Attachment>,
    /// Whether what comes for other hosts is forwarded (RFC 1812). Only where there are several devices.
    pub forwards: bool,
}

/// What the stack has on a further device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Attachment {
    /// Its addresses there, as those of [`InterfaceConfig::addresses`].
    pub addresses: Vec<(Address, Option<u8>)>,
    /// Longest IP packet in bytes, 68 to 65535.
    pub mtu: usize,
    /// The station address there, as [`InterfaceConfig::mac`].
    pub mac: Option<MacAddress>,
}

/// Every link carries IPv4 packets of this many bytes (RFC 791 §3.2).
const MIN_MTU: usize = 68;
/// The longest IPv4 packet.
const MAX_MTU: usize = 65535;
/// Most addresses of an interface, on all its devices.
const MAX_ADDRESSES: usize = 64;
/// Most devices: each has a bit where it is asked which of them carry frames.
const MAX_DEVICES: usize = 16;

/// An interface: addresses, networks, the way out. It does not change while packets flow, and is shared by all modules.
#[derive(Clone, Debug)]
pub struct Interface {
    /// As numbers, like all addresses here: numbers compare in a register, wherever the address was put together.
    primary: u32,
    /// All addresses but the primary one.
    others: Vec<u32>,
    networks: Vec<Network>,
    /// There is no other address of ours, and no network.
    stands_alone: bool,
    /// To our networks, to all hosts and to groups on them, and by way of gateways.
    routes: Routes<Hop>,
    /// The table decides: there are gateways, or several devices.
    is_routed: bool,
    forwards: bool,
    /// The gateways of all routes, each with its device, once, in order.
    gateways: Vec<(u8, Address)>,
    /// All addresses, each with its device. For what is asked seldom.
    places: Vec<(u8, u32)>,
    /// By device.
    mtus: Vec<usize>,
    /// The least of these.
    mtu: usize,
    /// The station addresses, by device; `None` where it carries bare IP packets.
    stations: Vec<Option<MacAddress>>,
    /// What the device that does most does of the transports' work.
    offload: Offload,
    /// The same by device, where they differ.
    offloads: Option<Vec<Offload>>,
}

/// A network that one of our addresses is on.
#[derive(Clone, Copy, Debug)]
struct Network {
    ours: u32,
    device: u8,
    first: u32,
    mask: u32,
}

/// Where a packet goes next.
#[derive(Clone, Copy, Debug)]
struct Hop {
    /// The neighbour; `None` where it is the destination itself.
    gateway: Option<Address>,
    /// Our address on the network of that one.
    source: u32,
    /// The device that this is on.
    device: u8,
}

/// How a packet leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Way {
    /// The neighbour that it goes to.
    pub(crate) hop: Address,
    /// The device that it leaves by.
    pub(crate) device: u8,
}

impl Network {
    fn prefix(&self) -> Prefix {
        Prefix::of(self.first, self.mask.count_ones() as u8)
    }

    fn holds(&self, address: u32) -> bool {
        address & self.mask == self.first
    }

    /// RFC 3021 §2.1: networks of two addresses and of one have no broadcast address.
    fn broadcast(&self) -> Option<u32> {
        (!self.mask > 1).then_some(self.first | !self.mask)
    }
}

impl Interface {
    /// An interface set like this.
    ///
    /// # Errors
    /// See [`InterfaceError`].
    pub fn new(config: InterfaceConfig) -> Result<Interface, InterfaceError> {
        let InterfaceConfig {
            addresses,
            mtu,
            mac,
            routes: given,
            others: further,
            forwards,
        } = config;
        if forwards && further.is_empty() {
            return Err(InterfaceError::NowhereToForward);
        }
        if further.len() >= MAX_DEVICES {
            return Err(InterfaceError::TooManyDevices(1 + further.len()));
        }
        let stations = core::iter::once(mac).chain(further.iter().map(|other| other.mac));
        let stations = Vec::from_iter(stations);
        let mtus = core::iter::once(mtu).chain(further.iter().map(|other| other.mtu));
        let mtus = Vec::from_iter(mtus);
        if let Some(mtu) = mtus.iter().find(|mtu| !(MIN_MTU..=MAX_MTU).contains(*mtu)) {
            return Err(InterfaceError::Mtu(*mtu));
        }
        let mut macs = stations.iter().flatten();
        if let Some(mac) = macs.find(|mac| !mac.is_station()) {
            return Err(InterfaceError::Mac(*mac));
        }
        let further = further.into_iter().map(|other| other.addresses);
        let addresses = core::iter::once(addresses).chain(further);
        let addresses = (0u8..).zip(addresses).flat_map(|(device, addresses)| {
            let of_device = move |(address, prefix)| (device, address, prefix);
            addresses.into_iter().map(of_device)
        });
        let addresses = Vec::from_iter(addresses);
        if addresses.len() > MAX_ADDRESSES {
            return Err(InterfaceError::TooManyAddresses(addresses.len()));
        }
        let mut networks = Vec::new();
        let mut hosts = Vec::with_capacity(addresses.len());
        let mut places = Vec::with_capacity(addresses.len());
        for (device, address, prefix) in addresses {
            let (host, network) = check_address(address, prefix)?;
            if hosts.contains(&host) {
                return Err(InterfaceError::Duplicate(address));
            }
            hosts.push(host);
            places.push((device, host));
            networks.extend(network.map(|network| Network { device, ..network }));
        }
        let mut hosts = hosts.into_iter();
        let primary = hosts.next().ok_or(InterfaceError::NoAddress)?;
        let others = Vec::from_iter(hosts);
        let stands_alone = others.is_empty() && networks.is_empty();
        let mut interface = Interface {
            primary,
            others,
            stands_alone,
            networks,
            routes: Routes::new([]),
            is_routed: false,
            forwards,
            gateways: Vec::new(),
            places,
            mtu: mtus.iter().copied().min().unwrap_or(mtu),
            mtus,
            stations,
            offload: Offload::Nothing,
            offloads: None,
        };
        interface.set_routes(&given)?;
        Ok(interface)
    }

    /// The same on devices each of which does so much of the transports' work, of which UDP and IP do the less ([`Tcp::offloading`](crate::tcp::Tcp::offloading) is
    /// TCP's, which leaves as much as any device does: IP does the rest for one that does not).
    ///
    /// # Panics
    /// If there are not as many as devices.
    pub fn offloading(self, offloads: &[Offload]) -> Interface {
        assert_eq!(offloads.len(), self.devices(), "each device does so much");
        let offload = offloads.iter().copied().max().unwrap_or_default();
        let do_differ = offloads.iter().any(|each| *each != offload);
        Interface {
            offload,
            offloads: do_differ.then(|| offloads.to_vec()),
            ..self
        }
    }

    /// What the device that does most does of the transports' work.
    #[inline]
    pub(crate) fn offload(&self) -> Offload {
        self.offload
    }

    /// Whether this device takes a packet of a protocol as it is, where what others do was left to it.
    #[inline]
    pub(crate) fn takes(&self, device: u8, message: &Message, protocol: u8) -> bool {
        match &self.offloads {
            None => true,
            Some(_) => self.offload_of(device).takes(message, protocol),
        }
    }

    fn offload_of(&self, device: u8) -> Offload {
        let offloads = self.offloads.iter().flatten();
        offloads.copied().nth(device.into()).unwrap_or(self.offload)
    }

    /// What the device does of it that packets for `destination` leave by.
    #[inline]
    pub(crate) fn offload_towards(&self, destination: Address) -> Offload {
        match &self.offloads {
            None => self.offload,
            Some(_) => {
                (self.way(destination)).map_or(Offload::Nothing, |way| self.offload_of(way.device))
            }
        }
    }

    /// Longest IP packet in bytes that we send: of several devices' the least, so that what we say leaves whole by any.
    #[inline]
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// Longest IP packet in bytes that leaves by this device.
    pub(crate) fn mtu_of(&self, device: u8) -> u16 {
        let mtu = self.mtus.get(usize::from(device));
        // It is 65535 at most.
        *mtu.unwrap_or(&self.mtu) as u16
    }

    /// Whether what comes for other hosts is forwarded.
    #[inline]
    pub fn forwards(&self) -> bool {
        self.forwards
    }

    /// How many devices there are.
    pub fn devices(&self) -> usize {
        self.mtus.len()
    }

    /// The station addresses, by device; `None` where it carries bare IP packets.
    #[inline]
    pub fn stations(&self) -> &[Option<MacAddress>] {
        &self.stations
    }

    /// The gateways on a device, each once, in order.
    pub(crate) fn gateways_on(&self, device: u8) -> impl Iterator<Item = Address> {
        let gateways = self.gateways.iter();
        let there = gateways.filter(move |(of, _)| *of == device);
        there.map(|(_, gateway)| *gateway)
    }

    /// Its addresses.
    pub fn addresses(&self) -> impl Iterator<Item = Address> + '_ {
        core::iter::once(self.primary)
            .chain(self.others.iter().copied())
            .map(address)
    }

    /// Whether `address` is one of its own.
    #[inline]
    pub fn is_local(&self, address: &Address) -> bool {
        bits(address).is_some_and(|address| self.is_ours(address))
    }

    /// Whether packets for `address` are for every host of a network here: the limited broadcast, or that of one of our
    /// networks (RFC 1122 §3.2.1.3).
    #[inline]
    pub fn is_broadcast(&self, address: &Address) -> bool {
        bits(address).is_some_and(|address| self.is_for_all(address))
    }

    /// Whether a packet from `address` can have been sent by another host: a unicast address that is not ours and
    /// belongs on a wire (RFC 1122 §3.2.1.3).
    #[inline]
    pub fn is_peer(&self, address: &Address) -> bool {
        bits(address).is_some_and(|address| self.is_others(address))
    }

    /// Whether a packet can go between our first address and a peer's, both given as numbers: [`is_local`](Interface::is_local)
    /// and [`is_peer`](Interface::is_peer) where they are soon answered.
    #[inline]
    pub(crate) fn is_between(&self, local: u32, remote: u32) -> bool {
        local == self.primary && self.is_others(remote)
    }

    /// Whether a packet goes from another host to an address of ours, both given as numbers.
    #[inline]
    pub(crate) fn is_to_us(&self, local: u32, remote: u32) -> bool {
        self.is_ours(local) && self.is_others(remote)
    }

    #[inline(always)]
    fn is_others(&self, address: u32) -> bool {
        // 0.0.0.0/8 and 127.0.0.0/8 stay inside a host; 224.0.0.0/4 are groups.
        !matches!(address >> 24, 0 | 127 | 224..=239)
            && address != self.primary
            && address != u32::MAX
            && (self.stands_alone || self.is_nobodys(address))
    }

    /// Whether `address` is neither another of ours nor that of all hosts of a network.
    #[inline(never)]
    fn is_nobodys(&self, address: u32) -> bool {
        !self.is_ours(address) && !self.is_for_all(address)
    }

    #[inline]
    fn is_ours(&self, address: u32) -> bool {
        address == self.primary || (!self.others.is_empty() && self.is_another(address))
    }

    #[inline(never)]
    fn is_another(&self, address: u32) -> bool {
        self.others.contains(&address)
    }

    #[inline]
    fn is_for_all(&self, address: u32) -> bool {
        let is_its = |network: &Network| network.broadcast() == Some(address);
        address == u32::MAX || self.networks.iter().any(is_its)
    }

    /// Whether `address` is one of our own on this device, which is where it is answered for.
    pub(crate) fn is_local_on(&self, device: u8, address: &Address) -> bool {
        bits(address).is_some_and(|address| self.places.contains(&(device, address)))
    }

    /// Whether packets for `address` go to itself by this device: it is on a network of ours there, or a route says so.
    pub(crate) fn is_near_on(&self, device: u8, address: &Address) -> bool {
        let hop = bits(address).and_then(|address| self.routes.find(address));
        hop.is_some_and(|hop| hop.device == device && hop.gateway.is_none())
    }

    /// The address to ask for `neighbour` from, on this device: ours on a network there that it is on, else the first there, else the first of all.
    pub(crate) fn source_on(&self, device: u8, neighbour: &Address) -> Address {
        address(self.source_bits_on(device, neighbour))
    }

    fn source_bits_on(&self, device: u8, neighbour: &Address) -> u32 {
        let near = bits(neighbour).and_then(|near| self.networks_on(device, near).next());
        let mut places = self.places.iter();
        let first = || places.find(|(of, _)| *of == device).map(|(_, ours)| *ours);
        let ours = near.map(|network| network.ours).or_else(first);
        ours.unwrap_or(self.primary)
    }

    fn networks_on(&self, device: u8, address: u32) -> impl Iterator<Item = &Network> {
        let networks = self.networks.iter();
        networks.filter(move |network| network.device == device && network.holds(address))
    }

    /// Whether `address` is on a network of ours, and so answers to its own name on the link.
    pub fn is_on_link(&self, address: &Address) -> bool {
        self.network_of(address).is_some()
    }

    /// The longest of our networks that `address` is on.
    fn network_of(&self, address: &Address) -> Option<&Network> {
        let address = bits(address)?;
        let networks = self.networks.iter();
        let holding = networks.filter(|network| network.holds(address));
        holding.min_by_key(|network| Reverse(network.mask))
    }

    /// The neighbour that a packet for `destination` goes to, and the device: the destination
    /// itself on our networks, the gateway of the longest route beyond them, `None` where no route is for it. Where there are neither routes nor several
    /// devices it is the destination again: on a link that has stations, a neighbour that packets from there came through answers for it, or whoever answers
    /// ARP on its behalf. What is for all hosts, or for a group, goes to them.
    #[inline]
    pub(crate) fn way(&self, destination: Address) -> Option<Way> {
        if !self.is_routed {
            return Some(Way {
                hop: destination,
                device: 0,
            });
        }
        let hop = self.routes.find(bits(&destination)?)?;
        Some(Way {
            hop: hop.gateway.unwrap_or(destination),
            device: hop.device,
        })
    }

    /// Whether routes say where packets go, or networks on several devices: what they say nothing of cannot be sent.
    #[inline]
    pub(crate) fn is_routed(&self) -> bool {
        self.is_routed
    }

    /// Whether packets for `destination` can be sent: there is a route, or it is on a network of ours.
    pub fn reaches(&self, destination: &Address) -> bool {
        self.way(*destination).is_some()
    }

    /// Whether the station that a packet from `source` comes through is worth remembering: `source` is beyond our
    /// networks, and there is no route.
    #[inline]
    pub(crate) fn learns_from(&self, source: &Address) -> bool {
        self.learns() && !self.is_on_link(source)
    }

    /// Whether stations are remembered at all.
    #[inline]
    pub(crate) fn learns(&self) -> bool {
        !self.is_routed && self.stations[0].is_some()
    }

    /// The address to speak to `destination` from: ours on the network of the next hop, else the first (RFC 1122 §3.3.4.3).
    pub fn source_for(&self, destination: &Address) -> Address {
        let hop = bits(destination).and_then(|destination| self.routes.find(destination));
        address(hop.map_or(self.primary, |hop| hop.source))
    }
}

/// The IPv4 address that is this number.
fn address(bits: u32) -> Address {
    Address::v4(bits.to_be_bytes())
}

/// The address as a number; `None` for IPv6.
#[inline]
fn bits(address: &Address) -> Option<u32> {
    address.as_v4().map(u32::from_be_bytes)
}

/// The address as a number, and the network that the prefix puts it on.
fn check_address(
    address: Address,
    prefix: Option<u8>,
) -> Result<(u32, Option<Network>), InterfaceError> {
    let host = bits(&address).ok_or(InterfaceError::NotIpv4(address))?;
    if matches!(host >> 24, 0 | 127 | 224..=239) || host == u32::MAX {
        return Err(InterfaceError::NotAHost(address));
    }
    let Some(prefix) = prefix else {
        return Ok((host, None));
    };
    if prefix > 32 {
        return Err(InterfaceError::PrefixTooLong(address, prefix));
    }
    let network = Prefix::of(host, prefix);
    let network = Network {
        ours: host,
        device: 0,
        first: network.first(),
        mask: network.mask(),
    };
    let is_edge = |broadcast| host == broadcast || host == network.first;
    if network.broadcast().is_some_and(is_edge) {
        return Err(InterfaceError::NetworkAddress(address, prefix));
    }
    Ok((host, Some(network)))
}

#[cfg(test)]
mod tests;
