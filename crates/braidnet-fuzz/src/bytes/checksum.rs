//! The internet checksum (RFC 1071).

use super::plain_sum;
use braidnet_wire::checksum::{Sum, copy, copy_and_sum};

/// Any implementation gives the plain sum, wherever the bytes lie and however they are divided; copies are copies.
pub fn sum(input: &[u8]) {
    let [at, rest @ ..] = input else { return };
    // All alignments, and lengths above those that short code takes.
    let long = if *at >= 0xf8 {
        rest.repeat(17)
    } else {
        rest.to_vec()
    };
    let bytes = long.get(usize::from(at & 7)..).unwrap_or_default();
    let all = Sum::of(bytes);
    let plain = plain_sum(&[bytes]);
    assert_eq!(all, Sum(plain.to_be()), "the sum of {} bytes", bytes.len());
    let cut = usize::from(*at).min(bytes.len());
    let (front, back) = bytes.split_at(cut);
    assert_eq!(Sum::of(front).then(Sum::of(back), cut), all, "cut at {cut}");
    let mut copied = vec![0xee; bytes.len() + 2];
    assert_eq!(copy_and_sum(&mut copied[1..=bytes.len()], bytes), all);
    assert_eq!(
        (&copied[1..=bytes.len()], copied[0], copied[bytes.len() + 1]),
        (bytes, 0xee, 0xee)
    );
    copied.fill(0xee);
    copy(&mut copied[1..=bytes.len()], bytes);
    assert_eq!(
        (&copied[1..=bytes.len()], copied[0], copied[bytes.len() + 1]),
        (bytes, 0xee, 0xee)
    );
    // Once the checksum stands in the packet, the whole is valid; one bit more or less and it is not.
    if bytes.len() >= 2 && bytes.len().is_multiple_of(2) {
        let mut packet = bytes.to_vec();
        packet[..2].fill(0);
        let checksum = Sum::of(&packet).finish_bytes();
        packet[..2].copy_from_slice(&checksum);
        let all_zero = packet[2..].iter().all(|byte| *byte == 0);
        assert!(Sum::of(&packet).is_valid() || all_zero);
        let place = cut % packet.len();
        packet[place] ^= 1 << (at & 7);
        assert!(!Sum::of(&packet).is_valid());
    }
}
