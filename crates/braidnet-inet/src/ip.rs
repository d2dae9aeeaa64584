//! IP: one header off on the way up, one on on the way down, where trains of segments are cut, and datagrams longer than a packet.
//!
//! What is for another host is dropped, unless this one forwards ([`Interface::forwards`]). Fragments go to [`Fragments`](crate::fragments::Fragments), and what that has put together comes back down from it
//! and is turned round here.

mod cut;
mod forward;
mod fragment;
mod identification;
mod onload;

use crate::counters::counters;
use crate::flows::Flows;
use crate::interface::{Interface, Way};
use crate::join::Joiner;
use crate::notes::{Datagram, Frame};
use crate::room;
use crate::sift::{Verdict, sift, sift_usual};
use crate::stations::{Stations, Views};
use braidnet_message::{Checksum, Kind, Message, Run, Scarcity};
use braidnet_stream::{BucketId, Context, Counter, Direction, Module, Stages, Trace};
use braidnet_wire::address::Address;
use braidnet_wire::ethernet::ether_type;
use braidnet_wire::ipv4::{self, Ipv4Error, Ipv4Header, MIN_HEADER_LEN};
use braidnet_wire::{icmpv4, tcp, udp};
use identification::Identification;
use std::sync::Arc;

/// The upper link to TCP.
pub(crate) const UP_TCP: u8 = 0;
/// The upper link to UDP.
pub(crate) const UP_UDP: u8 = 1;
/// The upper link to ICMP.
pub(crate) const UP_ICMP: u8 = 2;
/// The upper link to where fragments are held.
pub(crate) const UP_FRAGMENTS: u8 = 3;
/// The lower link to the device, or to Link.
pub(crate) const DOWN_LINK: u8 = 0;
/// The lower link to ARP, where there is one.
pub(crate) const DOWN_ARP: u8 = 1;

/// Hops that a packet may take unless its sender says otherwise (RFC 1122 §3.2.1.7, IANA IP parameters).
pub const DEFAULT_TTL: u8 = 64;

/// What the transports' fixed headers have at most.
const TRANSPORT_HEADER_LEN: usize = tcp::MIN_HEADER_LEN;

/// The longest header.
const MAX_HEADER_LEN: usize = 60;

/// The longest payload of a datagram that has no options.
const MAX_PAYLOAD_LEN: usize = ipv4::MAX_TOTAL_LEN - MIN_HEADER_LEN;

/// The IP module. It has no core.
pub struct Ip {
    interface: Arc<Interface>,
    flows: Flows,
    /// Where a device carries frames.
    stations: Option<Arc<Stations>>,
    /// What leaves is told its way: there are stations, routes or several devices.
    tells_way: bool,
    identification: Identification,
    /// Fewest messages of a run among which segments are joined.
    joins_from: usize,
}

counters! {
    /// What IP counts.
    enum Counted with Ipv4Error {
        /// No packet at all.
        Empty: "empty",
        /// IPv6, which this stack does not speak yet.
        Ipv6NotYet: "ipv6_not_yet",
        /// For another host, and nothing is forwarded.
        NotOurs: "not_ours",
        /// Packets for other hosts that went on.
        Forwarded: "forwarded",
        /// For another host: to no address that packets leave a host for (RFC 1812 §5.3.7), or from or to one that is of a link (RFC 3927 §7).
        ForwardMartian: "forward_martian",
        /// For another host, and no hop left (RFC 1812 §5.3.1).
        TtlExceeded: "ttl_exceeded",
        /// For another host, and no route is for it.
        ForwardNoRoute: "forward_no_route",
        /// For another host: on the network of the link that it came by, on whose other end it is not (RFC 6164 §5.1), or for which no neighbour answers.
        ForwardNoHost: "forward_no_host",
        /// For another host: longer than the way on carries, and not to be fragmented.
        ForwardTooLong: "forward_too_long",
        /// For a group of hosts that this one is not in.
        MulticastNotJoined: "multicast_not_joined",
        /// For one host, but sent to a group of stations (RFC 1122 §3.3.6, RFC 1812 §5.3.4).
        GroupFrame: "group_frame",
        /// From an address that no other host can have (RFC 1122 §3.2.1.3).
        BadSource: "bad_source",
        /// From an address of our own ("land").
        SourceIsOurs: "source_is_ours",
        /// For a protocol that nobody here speaks.
        UnknownProtocol: "unknown_protocol",
        /// On the way down: longer than the MTU, and not to be cut, or longer than any datagram.
        AboveMtu: "above_mtu",
        /// Datagrams that left in fragments.
        Fragmented: "fragmented",
        /// Fragments that left.
        FragmentsSent: "fragments_sent",
        /// On the way down: an address that is not IPv4, or that no packet can be sent to.
        BadDestination: "bad_destination",
        /// On the way down: to an address of our own.
        ToOurselves: "to_ourselves",
        /// On the way down: no route is for the destination.
        NoRoute: "no_route",
        /// On the way down: no data.
        NotData: "not_data",
        /// No buffer for a header.
        NoBuffer: "no_buffer",
    }
}

impl Ip {
    /// IP on `interface`; `stations` where a device of it carries frames.
    pub(crate) fn new(
        interface: Arc<Interface>,
        flows: Flows,
        stations: Option<Arc<Stations>>,
    ) -> Ip {
        let identification = Identification::new(&flows);
        let tells_way = stations.is_some() || interface.is_routed();
        Ip {
            tells_way,
            interface,
            flows,
            stations,
            identification,
            joins_from: 2,
        }
    }

    /// The same without [joining](crate::join) segments: each is verified where its transport does it.
    pub(crate) fn apart(self) -> Ip {
        Ip {
            joins_from: usize::MAX,
            ..self
        }
    }

    /// A run arrived without frames.
    #[inline(never)]
    fn arrive(&self, run: &mut Run, cx: &mut Context<'_>) {
        self.join(run, false, cx);
        sift_usual(
            run,
            cx,
            |message| self.take_usual(message),
            |message, cx| {
                if self.take_usual(message) {
                    Verdict::Stay
                } else {
                    self.arrive_any(message, &mut None, cx)
                }
            },
        );
    }

    /// A run arrived, in frames where its devices carry such.
    #[inline(never)]
    fn arrive_framed(&self, run: &mut Run, stations: &Stations, cx: &mut Context<'_>) {
        self.join(run, true, cx);
        let mut views = self.interface.learns().then(|| stations.views());
        sift(run, cx, |message, cx| {
            if message.kind() == Kind::Control {
                return forward::undelivered(message, cx);
            }
            self.arrive_any(message, &mut views, cx)
        });
    }

    /// Joins what may be joined. While memory is scarce each segment stays by itself: some are refused, some are not.
    #[inline(always)]
    fn join(&self, run: &mut Run, framed: bool, cx: &mut Context<'_>) {
        if run.len() >= self.joins_from && cx.pool().scarcity() == Scarcity::Ample {
            let interface = &self.interface;
            Joiner { interface, framed }.join(run);
        }
    }

    /// Header prediction: nearly every packet is a whole one for TCP, without options, from another host to our first address.
    /// Such a packet passes every check of [`Ip::enter`]; nothing is skipped, only found true at once.
    #[inline(always)]
    fn take_usual(&self, message: &mut Message) -> bool {
        let Some(header) = ipv4::parse_usual(message.bytes()) else {
            return false;
        };
        let is_usual = header.protocol == tcp::PROTOCOL
            && is_all(header.total_len, message)
            && message.len() >= MIN_HEADER_LEN + TRANSPORT_HEADER_LEN
            && self.interface.is_between(header.destination, header.source);
        if is_usual {
            message.strip(MIN_HEADER_LEN);
            message.set_note(Datagram {
                local: Address::v4(header.destination.to_be_bytes()),
                remote: Address::v4(header.source.to_be_bytes()),
                protocol: header.protocol,
                ttl: header.ttl,
                flags: Datagram::ecn_of(header.type_of_service),
                header_len: MIN_HEADER_LEN as u8,
                ..Datagram::default()
            });
        }
        is_usual
    }

    /// Any packet arrived.
    fn arrive_any(
        &self,
        message: &mut Message,
        views: &mut Option<Views<'_>>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        match parse_all(message, cx) {
            Ok(header) => self.enter(&header, message, views, cx),
            Err(reason) => Verdict::Drop(reason),
        }
    }

    /// A packet with this header arrived.
    fn enter(
        &self,
        header: &Ipv4Header,
        message: &mut Message,
        views: &mut Option<Views<'_>>,
        cx: &mut Context<'_>,
    ) -> Verdict {
        let flags = match self.admit(header) {
            Ok(flags) => flags,
            Err(Counted::NotOurs) if self.interface.forwards() => {
                return self.forward(header, message, cx);
            }
            Err(reason) => return Verdict::drop(reason),
        };
        if self.stations.is_some()
            && let Err(reason) = self.look_at_frame(message, header.source, flags, views, cx)
        {
            return Verdict::drop(reason);
        }
        let (header_len, total_len) = (
            usize::from(header.header_len),
            usize::from(header.total_len),
        );
        // A train has no padding of the link's, and all headers in its first block, where nothing else belongs but the first payload.
        if message.segment_bytes() == 0 {
            message.truncate(total_len);
            // The header stays where it is, in front of the payload, for whoever must quote it: the transport's header is to be in one
            // block with it, so that it need not be copied away.
            let front = total_len.min(header_len + TRANSPORT_HEADER_LEN);
            if message.len() < front && !message.pull_up(front, cx.pool()) {
                return Verdict::drop(Counted::NoBuffer);
            }
        }
        let datagram = Datagram {
            local: header.destination,
            remote: header.source,
            protocol: header.protocol,
            ttl: header.ttl,
            flags: flags | Datagram::ecn_of(header.type_of_service),
            header_len: header.header_len,
            differentiated_services: header.type_of_service >> 2,
            ..Datagram::default()
        };
        if header.is_fragment() {
            fragment::mark(message, header, datagram);
            return Verdict::Up(UP_FRAGMENTS);
        }
        message.strip(header_len);
        message.set_note(datagram);
        match upper(header.protocol, message, cx) {
            UP_TCP => Verdict::Stay,
            link => Verdict::Up(link),
        }
    }

    /// A datagram that came in fragments is whole: turns it round, up to its transport.
    #[cold]
    fn turn_round(&self, message: &mut Message, cx: &mut Context<'_>) -> Verdict {
        message.set_kind(Kind::Data);
        let datagram = message.note_mut::<Datagram>();
        datagram.flags &= !Datagram::WHOLE;
        let protocol = datagram.protocol;
        Verdict::Up(upper(protocol, message, cx))
    }

    /// Whether a packet is for us and from somebody; the flags of its [`Datagram`].
    fn admit(&self, header: &Ipv4Header) -> Result<u8, Counted> {
        let flags = if self.interface.is_local(&header.destination) {
            0
        } else if self.interface.is_broadcast(&header.destination) {
            Datagram::BROADCAST
        } else if header.destination.is_multicast_or_broadcast() {
            return Err(Counted::MulticastNotJoined);
        } else {
            return Err(Counted::NotOurs);
        };
        self.check_source(&header.source)?;
        Ok(flags)
    }

    /// Whether another host can have sent a packet from there.
    fn check_source(&self, source: &Address) -> Result<(), Counted> {
        if self.interface.is_peer(source) {
            Ok(())
        } else if self.interface.is_local(source) {
            Err(Counted::SourceIsOurs)
        } else {
            Err(Counted::BadSource)
        }
    }

    /// What the frame says of a packet that came in one.
    #[inline]
    fn look_at_frame(
        &self,
        message: &Message,
        source: Address,
        flags: u8,
        views: &mut Option<Views<'_>>,
        cx: &mut Context<'_>,
    ) -> Result<(), Counted> {
        let frame = message.note::<Frame>();
        if frame.flags & Frame::GROUP != 0 && flags & Datagram::BROADCAST == 0 {
            return Err(Counted::GroupFrame);
        }
        if let Some(views) = views
            && self.interface.learns_from(&source)
            && let Some(view) = views.on(frame.device)
            && !view.hears(&source, &frame.station)
        {
            tell(source, &frame, cx);
        }
        Ok(())
    }

    /// A run is to leave without frames.
    #[inline(never)]
    fn depart(&self, run: &mut Run, cx: &mut Context<'_>) {
        sift_usual(
            run,
            cx,
            |message| self.send_usual(message),
            |message, cx| self.depart_any(message, cx),
        );
    }

    /// Nearly every datagram is one segment of TCP, with room in front of it. What [`Ip::depart_any`] does is done.
    #[inline(always)]
    fn send_usual(&self, message: &mut Message) -> bool {
        let datagram: Datagram = message.note();
        let len = message.total_len();
        let is_usual = datagram.protocol == tcp::PROTOCOL && is_uncut(&datagram);
        if !is_usual || message.segment_bytes() != 0 || self.check(message, len).is_err() {
            return false;
        }
        let Some(front) = message.prepend(MIN_HEADER_LEN) else {
            return false;
        };
        ipv4::emit(&header(&datagram, len), front);
        true
    }

    /// Any datagram is to leave. It may be a train: then its segments leave.
    fn depart_any(&self, message: &mut Message, cx: &mut Context<'_>) -> Verdict {
        let datagram: Datagram = message.note();
        if message.kind() == Kind::Control && datagram.flags & Datagram::WHOLE != 0 {
            return self.turn_round(message, cx);
        }
        let is_train = message.segment_bytes() != 0;
        // No segment of a train is longer than the first.
        let longest = if is_train {
            message.len()
        } else {
            message.total_len()
        };
        match self.check(message, longest) {
            Ok(()) => {}
            // UDP makes no trains of those that do not fit.
            Err(Counted::AboveMtu)
                if !is_uncut(&datagram) && !is_train && longest <= MAX_PAYLOAD_LEN =>
            {
                return self.cut(message, &datagram);
            }
            Err(reason) => return Verdict::drop(reason),
        }
        let frame = match self.frame_for(datagram.remote) {
            Ok(frame) => frame,
            Err(reason) => return Verdict::drop(reason),
        };
        let device = frame.map_or(0, |frame| frame.device);
        if !self.interface.takes(device, message, datagram.protocol)
            && !onload::take_back(message, &datagram)
        {
            return Verdict::drop(Counted::NoBuffer);
        }
        // A train of segments that is cut here has the header of its first, and one that the device cuts that of them all, its checksum left to it.
        let is_cut_here = is_train && message.checksum() != Checksum::Partial;
        let len = if is_cut_here {
            longest
        } else {
            message.total_len()
        };
        let mut header = header(&datagram, len);
        if !header.dont_fragment {
            let pair = self.flows.pair_hash(datagram.local, datagram.remote);
            let datagrams = message.segments() as u16;
            header.identification = self.identification.next(pair, datagrams);
        }
        let Some(front) = room::prepend(message, MIN_HEADER_LEN, cx.pool()) else {
            return Verdict::drop(Counted::NoBuffer);
        };
        ipv4::emit(&header, front);
        if let Some(frame) = frame {
            message.set_note(frame);
            message.set_device(frame.device);
        }
        match (is_cut_here, frame) {
            (false, _) => Verdict::Stay,
            (true, None) => Verdict::Split(cut::cut),
            (true, Some(_)) => Verdict::Split(cut::cut_framed),
        }
    }

    /// A datagram is to leave that is longer than a packet.
    #[cold]
    fn cut(&self, message: &mut Message, datagram: &Datagram) -> Verdict {
        let frame = match self.frame_for(datagram.remote) {
            Ok(frame) => frame,
            Err(reason) => return Verdict::drop(reason),
        };
        let pair = self.flows.pair_hash(datagram.local, datagram.remote);
        message.set_note(fragment::Cutting {
            datagram: *datagram,
            frame: frame.unwrap_or_default(),
            identification: self.identification.next(pair, 1),
            // It is 65535 at most.
            mtu: self.interface.mtu() as u16,
        });
        match frame {
            None => Verdict::Split(fragment::cut),
            Some(_) => Verdict::Split(fragment::cut_framed),
        }
    }

    /// Where packets for a host go, if they are told.
    #[inline]
    fn frame_for(&self, remote: Address) -> Result<Option<Frame>, Counted> {
        if !self.tells_way {
            return Ok(None);
        }
        let Way { hop, device } = self.interface.way(remote).ok_or(Counted::NoRoute)?;
        Ok(Some(Frame {
            hop,
            device,
            ether_type: ether_type::IPV4,
            ..Frame::default()
        }))
    }

    /// Whether a datagram of `len` bytes can leave.
    #[inline(always)]
    fn check(&self, message: &Message, len: usize) -> Result<(), Counted> {
        let Datagram { local, remote, .. } = message.note_ref();
        if message.kind() != Kind::Data {
            Err(Counted::NotData)
        } else if self.interface.is_local(remote) {
            Err(Counted::ToOurselves)
        } else if !remote.is_v4() || remote.is_unspecified() || !local.is_v4() {
            Err(Counted::BadDestination)
        } else if len + MIN_HEADER_LEN > self.interface.mtu() {
            Err(Counted::AboveMtu)
        } else {
            Ok(())
        }
    }
}

impl Module for Ip {
    fn name(&self) -> &'static str {
        "ip"
    }

    fn stages(&self) -> Stages {
        Stages::BEFORE_UP | Stages::BEFORE_DOWN
    }

    fn counters(&self) -> &'static [&'static str] {
        Counted::NAMES
    }

    fn before(&self, direction: Direction, run: &mut Run, cx: &mut Context<'_>) {
        match (direction, &self.stations) {
            (Direction::Up, None) => self.arrive(run, cx),
            (Direction::Up, Some(stations)) => self.arrive_framed(run, stations, cx),
            (Direction::Down, _) if !self.tells_way => self.depart(run, cx),
            (Direction::Down, _) => sift(run, cx, |message, cx| self.depart_any(message, cx)),
        }
    }
}

/// The header of a datagram of `len` bytes that fits into a packet, its identification apart.
#[inline(always)]
fn header(datagram: &Datagram, len: usize) -> Ipv4Header {
    debug_assert!(len <= MAX_PAYLOAD_LEN);
    let Datagram {
        local,
        remote,
        protocol,
        ttl,
        flags,
        differentiated_services,
        ..
    } = *datagram;
    Ipv4Header {
        source: local,
        destination: remote,
        protocol,
        ttl: if ttl == 0 { DEFAULT_TTL } else { ttl },
        // What the transport says goes out as it is (RFC 9293 §3.9.1.9, SHLD-22).
        type_of_service: differentiated_services << 2 | flags >> Datagram::ECN.trailing_zeros(),
        // A packet that may not be fragmented needs no identification (RFC 6864 §4.1).
        dont_fragment: is_uncut(datagram),
        // No more than the MTU, which is at most 65535, or a train, which is bound by what one packet holds.
        total_len: (len + MIN_HEADER_LEN) as u16,
        ..Ipv4Header::default()
    }
}

/// Whether a datagram may not be fragmented: whoever has made it is to hear where it does not fit (RFC 1191 §3).
#[inline(always)]
fn is_uncut(datagram: &Datagram) -> bool {
    datagram.flags & Datagram::UNCUT != 0
}

/// The upper link for datagrams of a protocol.
fn upper(protocol: u8, message: &Message, cx: &mut Context<'_>) -> u8 {
    match protocol {
        tcp::PROTOCOL => UP_TCP,
        udp::PROTOCOL => UP_UDP,
        icmpv4::PROTOCOL => UP_ICMP,
        _ => {
            cx.count_dropped(Trace::of(message), Counted::UnknownProtocol.counter(), 1);
            UP_ICMP
        }
    }
}

/// Whether `total_len` bytes are all of a packet: what a train has in its first block is the first packet that was joined.
#[inline(always)]
fn is_all(total_len: u16, message: &Message) -> bool {
    let total_len = usize::from(total_len);
    total_len == message.total_len() || (message.segment_bytes() != 0 && total_len == message.len())
}

/// Tells ARP through which station a packet from `source` came.
#[cold]
fn tell(source: Address, frame: &Frame, cx: &mut Context<'_>) {
    let Some(mut news) = cx.pool().allocate(0, 0) else {
        return cx.count(Counted::NoBuffer.counter(), 1);
    };
    news.set_kind(Kind::Control);
    news.set_bucket(BucketId::DEVICE.0);
    news.set_note(Frame {
        hop: source,
        ..*frame
    });
    cx.down_link(usize::from(DOWN_ARP), news);
}

/// Parses any header; if it does not lie in the first block, it is gathered.
fn parse_all(message: &mut Message, cx: &mut Context<'_>) -> Result<Ipv4Header, Counter> {
    let total = message.total_len();
    let refusal = match ipv4::parse_front(message.bytes(), total) {
        Ok(header) => return Ok(header),
        Err(refusal) => refusal,
    };
    let in_pieces = matches!(refusal, Ipv4Error::Truncated | Ipv4Error::HeaderLenPastEnd)
        && message.len() < total;
    if !in_pieces {
        return Err(named(message, refusal));
    }
    if !message.pull_up(total.min(MAX_HEADER_LEN), cx.pool()) {
        return Err(Counted::NoBuffer.counter());
    }
    ipv4::parse_front(message.bytes(), total).map_err(|refusal| named(message, refusal))
}

/// The name under which a packet is dropped that is no IPv4 packet.
fn named(message: &Message, refusal: Ipv4Error) -> Counter {
    match message.bytes().first() {
        None if message.total_len() == 0 => Counted::Empty.counter(),
        Some(first) if first >> 4 == 6 => Counted::Ipv6NotYet.counter(),
        _ => Counted::refusal(refusal),
    }
}

#[cfg(test)]
mod tests;
