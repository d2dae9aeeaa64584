//! Forwarding: what came for another host goes on towards it (RFC 1812 §5.2, §5.3).
//!
//! It is order-free work on a packet and the table of routes: whoever has the run does it, and hands the packet down where it stands. No transport looks at it,
//! no checksum but the header's is verified, and that one is changed by what the header was (RFC 1624). Packets of a flow stay in order as far as
//! those who take turns at the device keep them so.
//!
//! What cannot go on is reported to its sender by [ICMP](crate::icmp), as far as the limit on errors allows. Redirects are not sent, nor are options acted
//! on (RFC 7126): they ride along.

use super::{Counted, Ip, MAX_HEADER_LEN, UP_ICMP, fragment, onload};
use crate::interface::Way;
use crate::notes::{Datagram, Frame, Refusal};
use crate::room;
use crate::sift::Verdict;
use braidnet_message::{Checksum, Kind, Message};
use braidnet_stream::{Context, Trace};
use braidnet_wire::address::Address;
use braidnet_wire::checksum::Sum;
use braidnet_wire::ethernet::ether_type;
use braidnet_wire::ipv4::{CHECKSUM_OFFSET, Ipv4Header, MIN_HEADER_LEN};
use braidnet_wire::{tcp, udp};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Where the time to live stands; behind it, in one word of the checksum, the protocol.
const TTL: usize = 8;
/// Where the flags and the offset of a fragment stand.
const FRAGMENT: usize = 6;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

impl Ip {
    /// A packet with this header came, for another host.
    #[inline(never)]
    pub(super) fn forward(
        &self,
        header: &Ipv4Header,
        message: &mut Message,
        cx: &mut Context<'_>,
    ) -> Verdict {
        if let Err(reason) = self.check_source(&header.source) {
            return Verdict::drop(reason);
        }
        if self.stations.is_some() && message.note_ref::<Frame>().flags & Frame::GROUP != 0 {
            return Verdict::drop(Counted::GroupFrame);
        }
        if !may_be_forwarded(header) {
            return Verdict::drop(Counted::ForwardMartian);
        }
        let is_train = message.segment_bytes() != 0;
        if !is_train {
            // Padding of the link.
            message.truncate(header.total_len.into());
        }
        if header.ttl <= 1 {
            return refuse(header, message, Refusal::TTL_EXCEEDED, 0, cx);
        }
        let Some(Way { hop, device }) = self.interface.way(header.destination) else {
            return refuse(header, message, Refusal::NO_ROUTE, 0, cx);
        };
        // Where a link has two ends, the other one has sent it here, so it is not that; it would come back until no hop is left (RFC 6164 §5.1, RFC 4443 §3.1).
        if device == message.device() && hop == header.destination && !self.has_stations(device) {
            return refuse(header, message, Refusal::NO_HOST, 0, cx);
        }
        let mtu = self.interface.mtu_of(device);
        // No segment of a train is longer than the first.
        let longest = if is_train {
            message.len()
        } else {
            message.total_len()
        };
        if longest > usize::from(mtu) {
            // A train of TCP is of segments that may be fragmented only where a sender cares for no path's MTU: it hears of this one (RFC 1191 §4).
            if header.dont_fragment || (is_train && header.protocol == tcp::PROTOCOL) {
                return refuse(header, message, Refusal::TOO_LONG, mtu, cx);
            }
            return cut_on(header, message, (hop, device, mtu));
        }
        if !self.interface.takes(device, message, header.protocol) {
            return cut_on(header, message, (hop, device, mtu));
        }
        if !pass_on(header, message, cx) {
            return Verdict::drop(Counted::NoBuffer);
        }
        message.set_device(device);
        if self.stations.is_some() {
            message.set_note(frame_to(hop, device));
        }
        cx.count(Counted::Forwarded.counter(), message.segments() as u64);
        Verdict::Down(super::DOWN_LINK)
    }

    /// Whether a link has stations, any number of them.
    fn has_stations(&self, device: u8) -> bool {
        let mut stations = self.stations.iter();
        stations.any(|stations| stations.on(device).is_some())
    }
}

/// What Link is told of a packet for this neighbour.
fn frame_to(hop: Address, device: u8) -> Frame {
    Frame {
        hop,
        device,
        ether_type: ether_type::IPV4,
        ..Frame::default()
    }
}

/// A packet for another host has come back from [`arp`](crate::arp): no neighbour answers for it (RFC 1812 §5.2.7.1).
#[cold]
pub(super) fn undelivered(message: &mut Message, cx: &mut Context<'_>) -> Verdict {
    message.set_kind(Kind::Data);
    match super::parse_all(message, cx) {
        Ok(header) => refuse(&header, message, Refusal::NO_HOST, 0, cx),
        Err(reason) => Verdict::Drop(reason),
    }
}

/// Whether packets between two addresses leave a host at all (RFC 1812 §5.3.7, §4.2.2.11): not those to no host and to the host itself, those from or to the class that nobody has,
/// and those from or to an address of one link (RFC 3927 §2.7, §7). What is for groups and for all hosts of a network here never gets here.
fn may_be_forwarded(header: &Ipv4Header) -> bool {
    let is_of_a_link = |address: &Address| matches!(address.as_v4(), Some([169, 254, ..]));
    let first = |address: &Address| address.as_v4().map(|[first, ..]| first);
    !matches!(first(&header.destination), None | Some(0 | 127 | 224..=255))
        && !matches!(first(&header.source), Some(240..=255))
        && !is_of_a_link(&header.source)
        && !is_of_a_link(&header.destination)
}

/// Takes a hop off a packet, and says of its checksum what a device that sends it must know. False if there is no buffer for its header.
fn pass_on(header: &Ipv4Header, message: &mut Message, cx: &mut Context<'_>) -> bool {
    let header_len = usize::from(header.header_len);
    match (message.segment_bytes(), message.checksum()) {
        // A device has verified it, so it is there.
        (0, Checksum::Verified) => message.set_checksum(Checksum::Stands),
        (1.., Checksum::Verified | Checksum::Stands) => {
            let len = message.total_len() - header_len;
            let addresses = (&header.source, &header.destination);
            let pseudo = Sum::pseudo_header(addresses.0, addresses.1, header.protocol, len as u32);
            let (transport_len, partly_seal): (_, fn(&mut [u8], Sum)) = match header.protocol {
                tcp::PROTOCOL => (tcp::MIN_HEADER_LEN, tcp::partly_seal),
                _ => (udp::HEADER_LEN, udp::partly_seal),
            };
            let Some(front) = message.front_mut(header_len + transport_len) else {
                return false;
            };
            partly_seal(&mut front[header_len..], pseudo);
            message.set_checksum(Checksum::Partial);
        }
        _ => {}
    }
    if let Some(front) = message.front_mut(MIN_HEADER_LEN) {
        take_hop(front);
        return true;
    }
    // Somebody else reads it, too.
    let mut copy = [0; MAX_HEADER_LEN];
    let copy = &mut copy[..header_len];
    copy.copy_from_slice(&message.bytes()[..header_len]);
    take_hop(copy);
    message.strip(header_len);
    let Some(front) = room::prepend(message, header_len, cx.pool()) else {
        return false;
    };
    front.copy_from_slice(copy);
    true
}

/// One hop less: the checksum changes by as much (RFC 1624 §3, equation 3).
fn take_hop(header: &mut [u8]) {
    let word = |header: &[u8]| Sum(u16::from_ne_bytes([header[TTL], header[TTL + 1]]));
    let old = word(header);
    header[TTL] -= 1;
    let checksum = [header[CHECKSUM_OFFSET], header[CHECKSUM_OFFSET + 1]];
    let sum = Sum::from_checksum(checksum).replace(old, word(header));
    header[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2].copy_from_slice(&sum.finish_bytes());
}

/// What cannot go on goes to ICMP, which tells its sender.
#[cold]
fn refuse(
    header: &Ipv4Header,
    message: &mut Message,
    why: u8,
    mtu: u16,
    cx: &mut Context<'_>,
) -> Verdict {
    let counted = match why {
        Refusal::TTL_EXCEEDED => Counted::TtlExceeded,
        Refusal::TOO_LONG => Counted::ForwardTooLong,
        Refusal::NO_HOST => Counted::ForwardNoHost,
        _ => Counted::ForwardNoRoute,
    };
    // Of a datagram in fragments its sender hears by the first (RFC 1812 §4.3.2.7).
    if header.fragment_offset != 0 {
        return Verdict::drop(counted);
    }
    // Before short datagrams of a train are pulled up behind its headers.
    let packets = message.segments() as u64;
    let header_len = usize::from(header.header_len);
    let front = message
        .total_len()
        .min(header_len + super::TRANSPORT_HEADER_LEN);
    if message.len() < front && !message.pull_up(front, cx.pool()) {
        return Verdict::drop(Counted::NoBuffer);
    }
    cx.count(counted.counter(), packets);
    message.strip(header_len);
    message.set_note(Datagram {
        local: header.destination,
        remote: header.source,
        protocol: header.protocol,
        ttl: header.ttl,
        header_len: header.header_len,
        refusal: why,
        path_mtu: mtu,
        ..Datagram::default()
    });
    Verdict::Up(UP_ICMP)
}

/// What is left in a packet that goes on in fragments.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub(super) struct Cutting {
    /// The neighbour that it goes to.
    hop: Address,
    /// Its header, with a hop less.
    pub(super) header: [u8; MAX_HEADER_LEN],
    mtu: u16,
    header_len: u8,
    device: u8,
}

impl Cutting {
    /// Each packet of a train has one more than the last (RFC 6864 §4.3).
    pub(super) fn count_on(&mut self) {
        const IDENTIFICATION: core::ops::Range<usize> = 4..6;
        let number = &mut self.header[IDENTIFICATION];
        let next = u16::from_be_bytes([number[0], number[1]]).wrapping_add(1);
        number.copy_from_slice(&next.to_be_bytes());
    }

    /// The sum of the pseudo-header of `len` bytes of a protocol.
    pub(super) fn pseudo_header(&self, protocol: u8, len: u16) -> Sum {
        let ip = &self.header;
        let address = |at: usize| Address::v4([ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
        Sum::pseudo_header(&address(12), &address(16), protocol, len.into())
    }
}

/// A packet is to leave in fragments (RFC 791 §3.2, RFC 1812 §4.2.2.7), or as what is in it, with what its device does not do done here.
#[cold]
fn cut_on(
    header: &Ipv4Header,
    message: &mut Message,
    (hop, device, mtu): (Address, u8, u16),
) -> Verdict {
    let header_len = usize::from(header.header_len);
    let mut cutting = Cutting {
        hop,
        header: [0; MAX_HEADER_LEN],
        mtu,
        header_len: header.header_len,
        device,
    };
    let copy = &mut cutting.header[..header_len];
    copy.copy_from_slice(&message.bytes()[..header_len]);
    take_hop(copy);
    message.strip(header_len);
    if message.segment_bytes() != 0 {
        message.set_note(cutting);
        return Verdict::Split(match header.protocol {
            tcp::PROTOCOL => onload::cut_segments,
            _ => cut_apart,
        });
    }
    if message.checksum() == Checksum::Partial && !onload::complete(header.protocol, message) {
        return Verdict::drop(Counted::NoBuffer);
    }
    message.set_checksum(Checksum::Stands);
    message.set_note(cutting);
    Verdict::Split(cut)
}

/// Hands on the datagrams of a train of UDP's whose header was taken off, each as fragments: none is made of several.
fn cut_apart(mut train: Message, cx: &mut Context<'_>) {
    let each = train.segment_bytes() as usize;
    let mut cutting = train.note::<Cutting>();
    let mut header = [0; udp::HEADER_LEN];
    train.copy_to_slice(&mut header);
    train.strip(header.len());
    while train.total_len() > 0 {
        let len = each.min(train.total_len());
        let datagram = room::copy_off(&mut train, len, cx.pool());
        let Some(mut datagram) = datagram.and_then(|copy| sealed(copy, header, &cutting)) else {
            let lost = train.total_len().div_ceil(each).max(1) as u64;
            return cx.count_dropped(Trace::of(&train), Counted::NoBuffer.counter(), lost);
        };
        datagram.set_note(cutting);
        cut(datagram, cx);
        cutting.count_on();
    }
}

/// A datagram of this payload, with the ports of this header; `None` if there is no room for it in front.
fn sealed(
    mut payload: Message,
    mut header: [u8; udp::HEADER_LEN],
    cutting: &Cutting,
) -> Option<Message> {
    // No longer than the train.
    let len = (header.len() + payload.total_len()) as u16;
    header[4..udp::CHECKSUM_OFFSET].copy_from_slice(&len.to_be_bytes());
    let pseudo = cutting.pseudo_header(udp::PROTOCOL, len);
    udp::seal(&mut header, pseudo + Sum::of(payload.bytes()));
    payload.prepend(header.len())?.copy_from_slice(&header);
    Some(payload)
}

/// Hands on a packet whose header was taken off as fragments, in order, or whole if it fits.
pub(super) fn cut(mut rest: Message, cx: &mut Context<'_>) {
    let Cutting {
        hop,
        header: whole,
        mtu,
        header_len,
        device,
    } = rest.note();
    let frame = frame_to(hop, device);
    let mut header = &whole[..usize::from(header_len)];
    // Behind the first come those of its options that each has.
    let (options, options_len) = fragment::copied_of(&header[MIN_HEADER_LEN..]);
    let mut short = whole;
    let short_len = MIN_HEADER_LEN + usize::from(options_len).next_multiple_of(4);
    short[MIN_HEADER_LEN..].copy_from_slice(&options);
    short[0] = 0x40 | (short_len / 4) as u8;

    let place = u16::from_be_bytes([header[FRAGMENT], header[FRAGMENT + 1]]);
    let (more, mut offset) = (place & MORE_FRAGMENTS, place & OFFSET);
    cx.count(Counted::Forwarded.counter(), 1);
    let is_fragmented = rest.total_len() + header.len() > usize::from(mtu);
    cx.count(Counted::Fragmented.counter(), is_fragmented.into());
    while rest.total_len() + header.len() > usize::from(mtu) {
        // All but the last are of multiples of 8 bytes.
        let part_len = (usize::from(mtu) - header.len()) & !7;
        let Some(part) = rest.split_to(part_len, cx.pool()) else {
            // Of use to nobody without this one.
            return cx.drop(rest, Counted::NoBuffer.counter());
        };
        if !send(part, header, (offset | MORE_FRAGMENTS, frame), cx) {
            return drop(rest);
        }
        offset += (part_len / 8) as u16;
        header = &short[..short_len];
    }
    send(rest, header, (offset | more, frame), cx);
}

/// Puts a header in front of a fragment, or of a packet that has its `place` at 0 and is whole, and hands it on; whether there was a buffer for it.
fn send(
    mut part: Message,
    header: &[u8],
    (place, frame): (u16, Frame),
    cx: &mut Context<'_>,
) -> bool {
    // No more than the packet that it is of.
    let total_len = (header.len() + part.total_len()) as u16;
    let Some(front) = room::prepend(&mut part, header.len(), cx.pool()) else {
        cx.drop(part, Counted::NoBuffer.counter());
        return false;
    };
    front.copy_from_slice(header);
    front[2..4].copy_from_slice(&total_len.to_be_bytes());
    front[FRAGMENT..FRAGMENT + 2].copy_from_slice(&place.to_be_bytes());
    let checksum = CHECKSUM_OFFSET..CHECKSUM_OFFSET + 2;
    front[checksum.clone()].fill(0);
    let sum = Sum::of(front).finish_bytes();
    front[checksum].copy_from_slice(&sum);
    part.set_note(frame);
    part.set_device(frame.device);
    cx.count(Counted::FragmentsSent.counter(), (place != 0).into());
    cx.down(part);
    true
}

#[cfg(test)]
mod tests;
