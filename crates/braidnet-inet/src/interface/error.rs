//! Why an interface cannot be set as it is asked to be.

use super::{MAX_ADDRESSES, MAX_DEVICES, MAX_MTU, MIN_MTU};
use crate::route::{MAX_ROUTES, Prefix};
use braidnet_wire::address::Address;
use braidnet_wire::ethernet::MacAddress;

/// Why an interface cannot be set like this.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum InterfaceError {
    /// No address at all.
    #[error("an interface needs at least one address")]
    NoAddress,
    /// Neither a network on one of several devices, by its number from 1 on, nor a route that names it: nothing could be sent by it.
    #[error(
        "each of several devices needs an address with its network's prefix, such as 10.77.0.2/24, or a route that names it, and number {0} has none"
    )]
    NoNetworkOn(usize),
    /// More devices than a stack can stand on.
    #[error("a stack stands on at most {MAX_DEVICES} devices, and {0} are given")]
    TooManyDevices(usize),
    /// Forwarding where there is one device.
    #[error("there is nowhere to forward to: the stack stands on one device")]
    NowhereToForward,
    /// Two devices on one network, and no route that names the second.
    #[error(
        "two devices are on the network {0}: give each a network of its own, or say by a route what the second is for"
    )]
    NetworkTwice(Prefix),
    /// An IPv6 address.
    #[error("{0} is an IPv6 address, and this stack speaks IPv4 only")]
    NotIpv4(Address),
    /// Not the address of one host: unspecified, loopback, multicast, broadcast.
    #[error("{0} is not an address that a host can have")]
    NotAHost(Address),
    /// A prefix of more than 32 bits.
    #[error("{0}/{1}: the prefix of an IPv4 address has at most 32 bits")]
    PrefixTooLong(Address, u8),
    /// The first or the last address of a network.
    #[error("{0}/{1} names a network or its broadcast address, not a host on it")]
    NetworkAddress(Address, u8),
    /// Twice the same address.
    #[error("the address {0} is given twice")]
    Duplicate(Address),
    /// More addresses than are looked through for each packet.
    #[error("an interface has at most {MAX_ADDRESSES} addresses, and {0} are given")]
    TooManyAddresses(usize),
    /// A gateway where packets have no link addresses.
    #[error("the gateway {0} is of no use on a device that carries bare IP packets")]
    GatewayWithoutLink(Address),
    /// A gateway on none of the interface's networks.
    #[error(
        "the gateway {0} is on none of the interface's networks; give one of its addresses a prefix that covers it"
    )]
    GatewayOffLink(Address),
    /// The gateway is the interface itself.
    #[error("the gateway {0} is an address of the interface itself")]
    GatewayIsLocal(Address),
    /// More routes than a stack has.
    #[error("a stack has at most {MAX_ROUTES} routes, and {0} are given")]
    TooManyRoutes(usize),
    /// A route by a device that there is not, by its number from 1 on.
    #[error("the route for {0} is by device number {1}, and there are not so many")]
    NoSuchDevice(Prefix, usize),
    /// A route with neither a gateway nor a device.
    #[error("the route for {0} leads nowhere: give it a gateway or a device")]
    RouteToNowhere(Prefix),
    /// Two routes for one prefix.
    #[error("two routes are given for {0}")]
    RouteTwice(Prefix),
    /// A route for a network that the interface is on.
    #[error("{0} is a network of the interface itself: what is for it needs no gateway")]
    RouteOnLink(Prefix),
    /// An MTU that IPv4 does not allow.
    #[error("an MTU of {0} bytes is not between {MIN_MTU} and {MAX_MTU}")]
    Mtu(usize),
    /// Zero, or the address of a group of stations.
    #[error("{0} is not the address of one station")]
    Mac(MacAddress),
}
