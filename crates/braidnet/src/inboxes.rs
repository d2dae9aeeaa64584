//! The UDP ports that a caller-turned stack has bound, and the datagrams that wait there to be read.
//!
//! What waits is bounded by the memory that it keeps from others, whole buffers and not only the bytes in them: each port
//! may hold a part of the stack's, and all ports together another. A port where nothing waits takes one datagram of any
//! size. What finds no room is dropped under a name, and so is whatever comes while memory is short. What the network says of datagrams
//! from a port waits there as well, little of it.

use crate::error::{BindError, ReceiveFromError, Undelivered, WhyUndelivered};
use braidnet_inet::LimitError;
use braidnet_inet::notes::UdpFlow;
use braidnet_inet::udp::UdpPorts;
use braidnet_message::{Message, Run};
use braidnet_stream::Control;
use braidnet_wire::address::{Address, Tuple};
use core::net::SocketAddr;
use core::ops::RangeInclusive;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// What a datagram holds beside its blocks, in bytes, rounded up: their descriptors, and its place in the queue.
const OVERHEAD: usize = 256;

/// What is kept at the ports of UDP, beside the datagrams that wait there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DatagramPorts {
    /// Ports that are bound at a time: 1,024 by default, 0 to 65,535. Whoever asks for one more is told.
    pub bound: usize,
    /// Destinations of a port that are remembered, so that what is said of others' datagrams is not believed: 64 by default, 1 to 4,096. Of
    /// one more, the one is forgotten that was not sent to for longest. They are searched one by one.
    pub destinations: usize,
    /// What may wait at a port of what the network says of datagrams from there: 16 by default, 0 to 4,096. More is dropped.
    pub reports: usize,
}

impl Default for DatagramPorts {
    fn default() -> DatagramPorts {
        DatagramPorts {
            bound: 1024,
            destinations: 64,
            reports: 16,
        }
    }
}

impl DatagramPorts {
    /// Whether each is in its range.
    ///
    /// # Errors
    /// If one is not.
    pub fn check(&self) -> Result<(), LimitError> {
        LimitError::unless_in(0..=65_535, "datagram_ports.bound", self.bound)?;
        LimitError::unless_in(1..=4096, "datagram_ports.destinations", self.destinations)?;
        LimitError::unless_in(0..=4096, "datagram_ports.reports", self.reports)
    }
}

/// What [`Inboxes`] may hold.
pub(crate) struct InboxLimits {
    pub(crate) ports: DatagramPorts,
    /// What may wait at one port.
    pub(crate) port_bytes: usize,
    /// What may wait at all ports together.
    pub(crate) whole_bytes: usize,
}

/// Ports and what waits there.
pub(crate) struct Inboxes {
    /// Where UDP looks.
    open: Arc<UdpPorts>,
    by_port: BTreeMap<u16, Inbox>,
    /// Over all ports.
    held_bytes: usize,
    limits: InboxLimits,
    queue_full: u64,
    memory_short: u64,
    released_unread: u64,
    not_sent_there: u64,
    reports_full: u64,
    not_for_address: u64,
    not_from_peer: u64,
    /// Ports where something has come, for who [watches](Inboxes::watch); each once.
    stirred: VecDeque<u16>,
    is_watched: bool,
}

/// Which datagrams a port takes; by default all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Only {
    /// Those for this address.
    pub(crate) address: Option<Address>,
    /// Those from there.
    pub(crate) peer: Option<SocketAddr>,
}

/// What waits at one port.
#[derive(Default)]
struct Inbox {
    only: Only,
    is_stirred: bool,
    waiting: VecDeque<Waiting>,
    held_bytes: usize,
    /// Where datagrams have gone last, the latest at the end.
    sent_to: VecDeque<SocketAddr>,
    undelivered: VecDeque<Undelivered>,
}

struct Waiting {
    message: Message,
    held_bytes: usize,
}

impl Inboxes {
    /// No port yet, of those that `open` tells UDP of.
    pub(crate) fn new(open: Arc<UdpPorts>, limits: InboxLimits) -> Inboxes {
        Inboxes {
            open,
            by_port: BTreeMap::new(),
            held_bytes: 0,
            limits,
            queue_full: 0,
            memory_short: 0,
            released_unread: 0,
            not_sent_there: 0,
            reports_full: 0,
            not_for_address: 0,
            not_from_peer: 0,
            stirred: VecDeque::new(),
            is_watched: false,
        }
    }

    /// From now on it is noted at which ports something has come.
    pub(crate) fn watch(&mut self) {
        self.is_watched = true;
    }

    /// The next port at which something has come.
    pub(crate) fn stirred(&mut self) -> Option<u16> {
        loop {
            let port = self.stirred.pop_front()?;
            if let Some(inbox) = self.by_port.get_mut(&port)
                && core::mem::take(&mut inbox.is_stirred)
            {
                return Some(port);
            }
        }
    }

    /// So much may be held from now on. What waits already goes on waiting.
    pub(crate) fn set_limits(&mut self, limits: InboxLimits) {
        self.limits = limits;
    }

    pub(crate) fn bind(&mut self, port: u16) -> Result<(), BindError> {
        if port == 0 {
            return Err(BindError::PortZero);
        }
        if !self.is_bound(port) {
            self.check_room()?;
        }
        self.open
            .bind(port)
            .map_err(|_| BindError::PortInUse(port))?;
        self.by_port.insert(port, Inbox::default());
        Ok(())
    }

    /// Binds a port that is free, of these, nobody can tell which (RFC 6056); `None` if all are taken.
    pub(crate) fn bind_any(
        &mut self,
        ports: RangeInclusive<u16>,
    ) -> Result<Option<u16>, BindError> {
        self.check_room()?;
        let Some(port) = self.open.bind_any(ports) else {
            return Ok(None);
        };
        self.by_port.insert(port, Inbox::default());
        Ok(Some(port))
    }

    fn check_room(&self) -> Result<(), BindError> {
        let most = self.limits.ports.bound;
        match self.by_port.len() < most {
            true => Ok(()),
            false => Err(BindError::TableFull(most)),
        }
    }

    /// Which datagrams a port takes from now on. What waits goes on waiting.
    pub(crate) fn restrict(&mut self, port: u16, only: Only) {
        if let Some(inbox) = self.by_port.get_mut(&port) {
            inbox.only = only;
        }
    }

    pub(crate) fn is_bound(&self, port: u16) -> bool {
        self.by_port.contains_key(&port)
    }

    /// Closes a port; what nobody has read goes to `spent`. Whether it was bound.
    pub(crate) fn release(&mut self, port: u16, spent: &mut Run) -> bool {
        let Some(inbox) = self.by_port.remove(&port) else {
            return false;
        };
        self.open.unbind(port);
        self.held_bytes -= inbox.held_bytes;
        self.released_unread += inbox.waiting.len() as u64;
        spent.extend(inbox.waiting.into_iter().map(|waiting| waiting.message));
        true
    }

    /// A datagram leaves from a bound port to this destination.
    #[inline]
    pub(crate) fn sends(&mut self, port: u16, to: SocketAddr) {
        let Some(inbox) = self.by_port.get_mut(&port) else {
            return;
        };
        if inbox.sent_to.back() == Some(&to) {
            return;
        }
        inbox.sent_to.retain(|known| *known != to);
        inbox.sent_to.push_back(to);
        let destinations = self.limits.ports.destinations;
        let excess = inbox.sent_to.len().saturating_sub(destinations);
        inbox.sent_to.drain(..excess);
    }

    /// Takes what the network says of a datagram, if one has lately gone where that went (RFC 1122 §4.1.3.3).
    #[cold]
    fn hear(&mut self, told: &Control) {
        let Tuple {
            remote,
            local_port,
            remote_port,
            ..
        } = told.tuple;
        let to = SocketAddr::new(remote.into(), remote_port);
        let inbox = self.by_port.get_mut(&local_port);
        let Some(inbox) = inbox.filter(|inbox| inbox.sent_to.contains(&to)) else {
            self.not_sent_there += 1;
            return;
        };
        if inbox.undelivered.len() >= self.limits.ports.reports {
            self.reports_full += 1;
            return;
        }
        let why = match told.detail {
            Control::REFUSED => WhyUndelivered::Refused,
            Control::UNREACHABLE => WhyUndelivered::Unreachable,
            Control::TOO_LONG => WhyUndelivered::TooLong {
                path_mtu: told.value as u32,
            },
            _ => WhyUndelivered::Lost,
        };
        inbox.undelivered.push_back(Undelivered { to, why });
        self.stir(local_port);
    }

    /// Something has come for a port.
    fn stir(&mut self, port: u16) {
        if let Some(inbox) = self.by_port.get_mut(&port)
            && self.is_watched
            && !core::mem::replace(&mut inbox.is_stirred, true)
        {
            self.stirred.push_back(port);
        }
    }

    /// What the network has said of datagrams from a port, the first that was not asked for yet.
    pub(crate) fn undelivered(&mut self, port: u16) -> Option<Undelivered> {
        self.by_port.get_mut(&port)?.undelivered.pop_front()
    }

    /// Takes a datagram that has come; one that must not wait goes to `spent`, and if `spares_memory`, none may.
    #[cold]
    pub(crate) fn take(&mut self, message: Message, spares_memory: bool, spent: &mut Run) {
        if let Some(told) = Control::of(&message) {
            self.hear(&told);
            return spent.push(message);
        }
        let UdpFlow { tuple, .. } = message.note_ref();
        // UDP hands up nothing for a port that is not open, and this is the only one who opens any.
        let Some(inbox) = self.by_port.get_mut(&tuple.local_port) else {
            return debug_assert!(false, "a datagram for a port that is not bound");
        };
        let from = SocketAddr::new(tuple.remote.into(), tuple.remote_port);
        if inbox.only.address.is_some_and(|own| own != tuple.local) {
            self.not_for_address += 1;
            return spent.push(message);
        }
        if inbox.only.peer.is_some_and(|peer| peer != from) {
            self.not_from_peer += 1;
            return spent.push(message);
        }
        if spares_memory {
            self.memory_short += 1;
            return spent.push(message);
        }
        let port = tuple.local_port;
        let held_bytes = OVERHEAD + buffer_bytes(&message);
        let in_port = inbox.held_bytes + held_bytes;
        let in_all = self.held_bytes + held_bytes;
        let fits = inbox.waiting.is_empty() || in_port <= self.limits.port_bytes;
        if !fits || in_all > self.limits.whole_bytes {
            self.queue_full += 1;
            return spent.push(message);
        }
        inbox.held_bytes = in_port;
        self.held_bytes = in_all;
        inbox.waiting.push_back(Waiting {
            message,
            held_bytes,
        });
        self.stir(port);
    }

    /// The datagram that has waited longest at a port, which goes on waiting.
    pub(crate) fn first(&self, port: u16) -> Result<&Message, ReceiveFromError> {
        let inbox = self.by_port.get(&port);
        let inbox = inbox.ok_or(ReceiveFromError::Unbound(port))?;
        let first = inbox.waiting.front().ok_or(ReceiveFromError::Empty)?;
        Ok(&first.message)
    }

    /// The datagram that has waited longest at a port.
    pub(crate) fn next(&mut self, port: u16) -> Result<Message, ReceiveFromError> {
        let inbox = self
            .by_port
            .get_mut(&port)
            .ok_or(ReceiveFromError::Unbound(port))?;
        let Waiting {
            message,
            held_bytes,
        } = inbox.waiting.pop_front().ok_or(ReceiveFromError::Empty)?;
        inbox.held_bytes -= held_bytes;
        self.held_bytes -= held_bytes;
        Ok(message)
    }

    /// What was dropped here, by name.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        [
            ("udp.receive_queue_full", self.queue_full),
            ("udp.memory_short", self.memory_short),
            ("udp.released_unread", self.released_unread),
            ("udp.report_not_sent_there", self.not_sent_there),
            ("udp.reports_full", self.reports_full),
            ("udp.not_for_address", self.not_for_address),
            ("udp.not_from_peer", self.not_from_peer),
        ]
        .into_iter()
        .filter(|(_, count)| *count > 0)
    }
}

/// What the blocks of a message keep from others: all of a buffer, however little of it is data.
fn buffer_bytes(message: &Message) -> usize {
    std::iter::successors(Some(message), |block| block.continuation())
        .map(|block| block.headroom() + block.len() + block.tailroom())
        .sum()
}
