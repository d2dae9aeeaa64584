//! Changing packets on their way.

use crate::{Medium, RECEIVE_HEADROOM};
use braidnet_impair::Delivery;
use braidnet_message::{Message, Pool};
use braidnet_wire::checksum::Sum;

/// The packet as it arrives: damaged or marked in a copy, for others may see its bytes, too. `None` if there is no buffer for that.
pub fn changed(delivery: Delivery<Message>, medium: Medium, pool: &mut Pool) -> Option<Message> {
    let Delivery {
        packet,
        damage,
        marked,
        ..
    } = delivery;
    let marked = marked && congestion_bits(packet.bytes(), medium).is_some();
    if damage.is_none() && !marked {
        return Some(packet);
    }
    let mut copy = pool.allocate(RECEIVE_HEADROOM, packet.total_len())?;
    let bytes = copy.append(packet.total_len())?;
    packet.copy_to_slice(bytes);
    if marked {
        mark(bytes, medium);
    }
    if let Some(damage) = damage {
        damage.flip(bytes);
    }
    Some(copy)
}

/// Where the congestion bits lie.
struct CongestionBits {
    /// Where the IP header begins.
    header: usize,
    /// Whether a checksum is over them.
    v4: bool,
}

/// Where a packet says that it can be marked, the place at which (RFC 3168 §5): one of the two bits is set, not both.
fn congestion_bits(bytes: &[u8], medium: Medium) -> Option<CongestionBits> {
    let header = match medium {
        Medium::Ip => 0,
        Medium::Ethernet { .. } => match bytes.get(12..14)? {
            // One 802.1Q tag.
            [0x81, 0x00] => 18,
            [0x08, 0x00] | [0x86, 0xdd] => 14,
            _ => return None,
        },
    };
    let (v4, bits) = match bytes.get(header..header + 2)? {
        [first, second] if first >> 4 == 4 => (true, second & 3),
        [first, second] if first >> 4 == 6 => (false, (second >> 4) & 3),
        _ => return None,
    };
    matches!(bits, 1 | 2).then_some(CongestionBits { header, v4 })
}

/// Sets both bits, and mends the checksum that is over them (RFC 1624 §3).
fn mark(bytes: &mut [u8], medium: Medium) {
    let Some(CongestionBits { header, v4 }) = congestion_bits(bytes, medium) else {
        return;
    };
    let Some(header) = bytes.get_mut(header..) else {
        return;
    };
    match header {
        [_, second, ..] if !v4 => *second |= 0x30,
        [first, second, _, _, _, _, _, _, _, _, sum_high, sum_low, ..] => {
            let before = Sum::of(&[*first, *second]);
            *second |= 3;
            let after = Sum::of(&[*first, *second]);
            let sum = Sum::from_checksum([*sum_high, *sum_low]);
            [*sum_high, *sum_low] = sum.replace(before, after).finish_bytes();
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::MacAddress;

    /// An IPv4 header with this type of service.
    fn header(tos: u8) -> Vec<u8> {
        let mut header = vec![
            0x45, tos, 0, 20, 0x12, 0x34, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        let sum = Sum::of(&header).finish_bytes();
        header[10..12].copy_from_slice(&sum);
        header
    }

    fn behind(link: &[u8], packet: Vec<u8>) -> Vec<u8> {
        let addresses = [2; 12];
        [&addresses, link, &packet].concat()
    }

    #[test]
    fn what_can_be_marked_is_marked_and_nothing_else() {
        let ethernet = Medium::Ethernet {
            address: MacAddress([2; 6]),
        };
        let v6 = |bits: u8| [&[0x6f, 0xc0 | bits << 4][..], &[0; 38]].concat();
        let tagged = [0x81, 0, 0, 5, 8, 0];
        let rows = [
            (Medium::Ip, header(0xb8), header(0xb8)),
            (Medium::Ip, header(0xb9), header(0xbb)),
            (Medium::Ip, header(0x02), header(0x03)),
            (Medium::Ip, header(0x03), header(0x03)),
            (Medium::Ip, v6(0), v6(0)),
            (Medium::Ip, v6(1), v6(3)),
            (Medium::Ip, v6(2), v6(3)),
            (
                ethernet,
                behind(&[8, 0], header(2)),
                behind(&[8, 0], header(3)),
            ),
            (
                ethernet,
                behind(&tagged, header(1)),
                behind(&tagged, header(3)),
            ),
            (
                ethernet,
                behind(&[0x86, 0xdd], v6(2)),
                behind(&[0x86, 0xdd], v6(3)),
            ),
            (
                ethernet,
                behind(&[8, 6], header(2)),
                behind(&[8, 6], header(2)),
            ),
            (Medium::Ip, vec![], vec![]),
            (Medium::Ip, vec![0x45, 2], vec![0x45, 2]),
            (Medium::Ip, vec![0x55, 2, 0, 0], vec![0x55, 2, 0, 0]),
        ];
        for (medium, mut packet, marked) in rows {
            mark(&mut packet, medium);
            assert_eq!(packet, marked, "{medium:?}");
        }
    }
}
