//! What a device says of its packets (`struct virtio_net_hdr`, virtio 1.2 §5.1.6).

use super::word;
use braidnet::message::Checksum;
use braidnet_device::DropReason;
use braidnet_device::vnet::{Described, LEN, Train, VnetHeader};

/// A first byte of choices, the header, and the packet that it is about: what is believed is what the packet bears out, and what is said of that once more is believed as well.
pub fn description(input: &[u8]) {
    let Some((choices, rest)) = input.split_first() else {
        return;
    };
    let Some((header, packet)) = rest.split_first_chunk::<LEN>() else {
        return;
    };
    let link = if choices & 1 != 0 { 14 } else { 0 };
    let read = VnetHeader::from_bytes(header);
    assert_eq!(read.to_bytes(), *header);
    describe(read, link, packet);
    // The same of a packet that bears out more of it, so that most inputs get further.
    let mut packet = packet.to_vec();
    let helped = help(read, *choices, link, &mut packet);
    describe(helped, link, &packet);
}

fn describe(header: VnetHeader, link: usize, packet: &[u8]) {
    let total = packet.len();
    let segments = header.segments(packet, link, total);
    assert!((1..=total.max(1)).contains(&segments));
    let found = header.of(packet, link, total);
    assert_eq!(found.ok(), plainly(header, link, packet));
    let Ok(described) = found else {
        assert_eq!(found, Err(DropReason::ReceiveOffloadMalformed));
        return;
    };
    let segment_bytes = match described.train {
        Some(Train {
            header_len,
            segment_bytes,
        }) => {
            assert_eq!(segments, (total - header_len).div_ceil(segment_bytes));
            // All headers are enough to see.
            assert_eq!(header.of(&packet[..header_len], link, total), found);
            segment_bytes
        }
        None => 0,
    };
    if described.checksum == Checksum::Stands {
        return;
    }
    let again = VnetHeader::describing(packet, link, segment_bytes as u32, Checksum::Partial);
    let Some(again) = again else {
        assert!(described.checksum == Checksum::Verified && described.train.is_none());
        return;
    };
    let partial = Described {
        checksum: Checksum::Partial,
        ..described
    };
    assert_eq!(again.of(packet, link, total), Ok(partial));
}

/// The plainest reading: a field at a time, nothing but the packet to go by.
fn plainly(header: VnetHeader, link: usize, packet: &[u8]) -> Option<Described> {
    let checksum = match header.flags & 3 {
        0 => Checksum::Stands,
        2 => Checksum::Verified,
        _ => Checksum::Partial,
    };
    let plain = Described {
        checksum,
        train: None,
    };
    if checksum != Checksum::Partial && header.gso_type == 0 {
        return Some(plain);
    }
    let ip = packet.get(link..).filter(|ip| !ip.is_empty())?;
    let version = ip[0] >> 4;
    let (protocol, ip_header, ip_total) = match version {
        4 if ip.len() >= 20 => {
            let (len, flags_and_offset) = (usize::from(ip[0] & 15) * 4, word(ip, 6));
            if len < 20 || flags_and_offset & 0x3fff != 0 {
                return None;
            }
            (ip[9], len, usize::from(word(ip, 2)))
        }
        6 if ip.len() >= 40 => (ip[6], 40, usize::from(word(ip, 4)) + 40),
        _ => return None,
    };
    let field = match protocol {
        6 => 16,
        17 => 6,
        _ => return None,
    };
    let transport = ip
        .get(ip_header..)
        .filter(|transport| transport.len() >= field + 2)?;
    if checksum == Checksum::Partial {
        let says = (
            usize::from(header.checksum_start),
            usize::from(header.checksum_offset),
        );
        if says != (link + ip_header, field) {
            return None;
        }
    }
    if header.gso_type == 0 {
        return Some(plain);
    }
    let transport_header = match protocol {
        6 => usize::from(transport[12] >> 4) * 4,
        _ => 8,
    };
    if protocol == 6 && transport_header < 20 {
        return None;
    }
    let data = transport.len().checked_sub(transport_header)?;
    let each = usize::from(header.gso_size);
    let fits = match (header.gso_type, version, protocol) {
        // An ACK, and neither SYN nor RST.
        (1, 4, 6) | (4, 6, 6) => transport[13] & 0b01_0110 == 0b01_0000,
        (5, _, 17) => usize::from(word(transport, 4)) == transport.len() && data <= each * 128,
        _ => false,
    };
    let honest = fits
        && checksum != Checksum::Stands
        && ip_total == ip.len()
        && usize::from(header.header_len) <= packet.len()
        && (1..=data).contains(&each);
    let header_len = packet.len() - data;
    let train = (each < data).then_some(Train {
        header_len,
        segment_bytes: each,
    });
    honest.then_some(Described { checksum, train })
}

/// Makes a packet bear out what is said of it, as far as the choices have it.
fn help(mut header: VnetHeader, choices: u8, link: usize, packet: &mut [u8]) -> VnetHeader {
    let total = packet.len();
    let Some(ip) = packet.get_mut(link..).filter(|ip| ip.len() >= 60) else {
        return header;
    };
    let len = ip.len();
    let (is_v6, is_udp, is_hinted) = (choices & 2 != 0, choices & 4 != 0, choices & 128 != 0);
    let start = if is_v6 { 40 } else { 20 };
    let protocol = if is_udp { 17 } else { 6 };
    if is_v6 {
        ip[0] = 0x60;
        ip[4..6].copy_from_slice(&((len - 40) as u16).to_be_bytes());
        ip[6] = protocol;
    } else {
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        // Most are no fragments, and some the first of one, or have the flag that says they are to be none.
        ip[6] &= if is_hinted { 0 } else { 0x60 };
        ip[7] = 0;
        ip[9] = protocol;
    }
    if is_udp {
        ip[start + 4..start + 6].copy_from_slice(&((len - start) as u16).to_be_bytes());
    } else if choices & 8 != 0 {
        ip[start + 12] = 0x50;
        ip[start + 13] |= 0x10;
    }
    if choices & 16 != 0 {
        header.gso_type = if is_udp {
            5
        } else if is_v6 {
            4
        } else {
            1
        };
    }
    if choices & 32 != 0 {
        header.gso_size %= 64;
    }
    if choices & 64 != 0 {
        header.flags |= 1;
        header.checksum_start = (link + start) as u16;
        header.checksum_offset = if is_udp { 6 } else { 16 };
    }
    if is_hinted {
        header.header_len %= (total as u16).max(1);
    }
    header
}
