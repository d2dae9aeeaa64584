//! The table of routes, as it is made of the networks of the addresses and of what routes are given.

use super::{Hop, Interface, InterfaceError, check_address};
use crate::route::{MAX_ROUTES, Prefix, Route, Routes};
use braidnet_wire::address::Address;
use core::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// The first address of a group of hosts; all have four bits in common (RFC 1112 §4).
const GROUPS: u32 = 0xe000_0000;

impl Interface {
    /// Takes these routes beside the networks of the addresses.
    pub(super) fn set_routes(&mut self, given: &[Route]) -> Result<(), InterfaceError> {
        if given.len() > MAX_ROUTES {
            return Err(InterfaceError::TooManyRoutes(given.len()));
        }
        self.check_devices(given)?;
        let mut hops = self.connected(given)?;
        let mut seen = HashSet::with_capacity(given.len());
        for route in given {
            let hop = self.hop_of(route)?;
            if !seen.insert(route.prefix) {
                return Err(InterfaceError::RouteTwice(route.prefix));
            }
            // That it is by this device may be said of a network that two are on.
            let is_known = hops.insert(route.prefix, hop).is_some();
            if is_known && hop.gateway.is_some() {
                return Err(InterfaceError::RouteOnLink(route.prefix));
            }
            let gateway = hop.gateway.map(|gateway| (hop.device, gateway));
            self.gateways.extend(gateway);
        }
        self.routes = Routes::new(hops);
        self.is_routed = !given.is_empty() || self.mtus.len() > 1;
        self.gateways.sort_unstable();
        self.gateways.dedup();
        Ok(())
    }

    /// Whether something can be sent by each of several devices.
    fn check_devices(&self, given: &[Route]) -> Result<(), InterfaceError> {
        let has_way = |device: &u8| {
            let mut networks = self.networks.iter();
            networks.any(|network| network.device == *device) || names(given, *device)
        };
        let count = self.mtus.len();
        let numbers = (0u8..).take(count);
        match numbers.into_iter().find(|device| !has_way(device)) {
            Some(device) if count > 1 => Err(InterfaceError::NoNetworkOn(usize::from(device) + 1)),
            _ => Ok(()),
        }
    }

    /// What is reached without a gateway: our networks, all hosts on each, and, by the first device, all hosts wherever they are, and groups. A network that two devices
    /// are on is the first one's, where a route says what the other is for.
    fn connected(&self, given: &[Route]) -> Result<HashMap<Prefix, Hop>, InterfaceError> {
        let first = Hop {
            gateway: None,
            source: self.primary,
            device: 0,
        };
        let all = [Prefix::of(u32::MAX, 32), Prefix::of(GROUPS, 4)];
        let mut hops = HashMap::from(all.map(|prefix| (prefix, first)));
        // Longer ones first: an address that means all hosts on two of them is the longer one's. Of two addresses on one network the first is the source.
        let mut networks = Vec::from_iter(&self.networks);
        networks.sort_by_key(|network| Reverse(network.prefix().bits()));
        for network in networks {
            let hop = Hop {
                gateway: None,
                source: network.ours,
                device: network.device,
            };
            let is_anothers = hops.entry(network.prefix()).or_insert(hop).device != hop.device;
            if is_anothers && !names(given, hop.device) {
                return Err(InterfaceError::NetworkTwice(network.prefix()));
            }
            if let Some(all) = network.broadcast() {
                hops.entry(Prefix::of(all, 32)).or_insert(hop);
            }
        }
        Ok(hops)
    }

    fn hop_of(&self, route: &Route) -> Result<Hop, InterfaceError> {
        if let Some(gateway) = route.gateway {
            self.check_gateway(gateway)?;
        }
        if let Some(device) = route.device {
            if usize::from(device) >= self.mtus.len() {
                return Err(InterfaceError::NoSuchDevice(
                    route.prefix,
                    usize::from(device) + 1,
                ));
            }
            let first = Address::v4(route.prefix.first().to_be_bytes());
            let near = route.gateway.unwrap_or(first);
            return Ok(Hop {
                gateway: route.gateway,
                source: self.source_bits_on(device, &near),
                device,
            });
        }
        let Some(gateway) = route.gateway else {
            return Err(InterfaceError::RouteToNowhere(route.prefix));
        };
        let network = self.network_of(&gateway);
        let network = network.ok_or(InterfaceError::GatewayOffLink(gateway))?;
        Ok(Hop {
            gateway: Some(gateway),
            source: network.ours,
            device: network.device,
        })
    }

    fn check_gateway(&self, gateway: Address) -> Result<(), InterfaceError> {
        if self.mtus.len() == 1 && self.stations[0].is_none() {
            return Err(InterfaceError::GatewayWithoutLink(gateway));
        }
        check_address(gateway, None)?;
        if self.is_local(&gateway) {
            return Err(InterfaceError::GatewayIsLocal(gateway));
        }
        if self.is_broadcast(&gateway) {
            return Err(InterfaceError::GatewayOffLink(gateway));
        }
        Ok(())
    }
}

/// Whether a route says what this device is for.
fn names(given: &[Route], device: u8) -> bool {
    given.iter().any(|route| route.device == Some(device))
}
