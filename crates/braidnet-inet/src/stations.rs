//! The stack's stations, one on each device that carries Ethernet frames, and the neighbours on each.
//!
//! A link's neighbours are known on that link only: the same address may be somebody else's on another, and who floods one link with forged
//! addresses fills the table of that link.

use crate::arp::{Neighbours, Resolution, View};
use crate::interface::Interface;
use braidnet_wire::ethernet::MacAddress;
use std::sync::Arc;

/// All stations of a stack.
pub(crate) struct Stations {
    /// By device; `None` where it carries bare IP packets.
    by_device: Box<[Option<Station>]>,
}

/// Who the stack is on a link, and whom it knows there.
pub(crate) struct Station {
    pub(crate) address: MacAddress,
    pub(crate) neighbours: Arc<Neighbours>,
}

impl Stations {
    /// Those on the devices of `interface`; `None` if none carries frames.
    pub(crate) fn of(interface: &Interface) -> Option<Stations> {
        let station = |address| Station {
            address,
            neighbours: Arc::new(Neighbours::new(Resolution::MOST_NEIGHBOURS)),
        };
        let by_device = interface.stations().iter();
        let by_device: Box<[_]> = by_device.map(|address| address.map(station)).collect();
        let any = by_device.iter().any(Option::is_some);
        any.then_some(Stations { by_device })
    }

    /// The one on this device; `None` where it carries bare IP packets.
    #[inline]
    pub(crate) fn on(&self, device: u8) -> Option<&Station> {
        self.by_device.get(usize::from(device))?.as_ref()
    }

    /// By device.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Option<&Station>> {
        self.by_device.iter().map(Option::as_ref)
    }

    /// Whether this is the address of one of them, on whichever device.
    pub(crate) fn has(&self, address: MacAddress) -> bool {
        let mut stations = self.by_device.iter().flatten();
        stations.any(|station| station.address == address)
    }

    /// What is known of neighbours, for one run.
    #[inline]
    pub(crate) fn views(&self) -> Views<'_> {
        Views {
            stations: self,
            last: None,
        }
    }
}

/// The neighbours on each link, as they are when a run first asks for them, and again after it has asked for another link's.
pub(crate) struct Views<'a> {
    stations: &'a Stations,
    last: Option<(u8, View<'a>)>,
}

impl<'a> Views<'a> {
    /// Those on this device; `None` where it carries bare IP packets.
    #[inline]
    pub(crate) fn on(&mut self, device: u8) -> Option<&mut View<'a>> {
        if !matches!(&self.last, Some((last, _)) if *last == device) {
            let station = self.stations.on(device)?;
            self.last = Some((device, station.neighbours.view()));
        }
        self.last.as_mut().map(|(_, view)| view)
    }
}
