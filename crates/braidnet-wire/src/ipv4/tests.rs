use super::*;
use proptest::prelude::*;

/// A packet with these options and this much payload, its checksum right.
fn packet(options: &[u8], payload: usize) -> Vec<u8> {
    assert_eq!(options.len() % 4, 0, "the test pads its options");
    let header_len = MIN_HEADER_LEN + options.len();
    let mut bytes = vec![0; MIN_HEADER_LEN];
    bytes[0] = 0x40 | (header_len / 4) as u8;
    bytes[2..4].copy_from_slice(&((header_len + payload) as u16).to_be_bytes());
    bytes[8] = 64;
    bytes[9] = 6;
    bytes[12..20].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    bytes.extend_from_slice(options);
    bytes.resize(header_len + payload, 0xaa);
    fix(bytes)
}

/// Makes the checksum right, as far as the header is there.
fn fix(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes[10..12].fill(0);
    let header_len = (usize::from(bytes[0] & 15) * 4).min(bytes.len());
    let checksum = Sum::of(&bytes[..header_len]).finish_bytes();
    bytes[10..12].copy_from_slice(&checksum);
    bytes
}

/// A sound packet with one 16-bit field set to something else and the checksum right.
fn with_word(at: usize, value: u16) -> Vec<u8> {
    let mut bytes = packet(&[], 20);
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
    fix(bytes)
}

#[test]
fn hostile_headers_are_refused_by_name() {
    let first = |byte: u8| {
        let mut bytes = packet(&[], 20);
        bytes[0] = byte;
        fix(bytes)
    };
    let cut = |len: usize| packet(&[1; 40], 0)[..len].to_vec();
    let rows: [(&str, Vec<u8>, Ipv4Error); 29] = [
        ("1: empty", vec![], Ipv4Error::Truncated),
        ("1: one byte", vec![0x45], Ipv4Error::Truncated),
        ("1: one byte short", vec![0x45; 19], Ipv4Error::Truncated),
        ("1: version 5", first(0x55), Ipv4Error::NotVersion4),
        ("1: version 0", first(0x05), Ipv4Error::NotVersion4),
        ("2: IHL 0", first(0x40), Ipv4Error::HeaderLenTooSmall),
        ("2: IHL 4", first(0x44), Ipv4Error::HeaderLenTooSmall),
        ("2: IHL beyond", first(0x4f), Ipv4Error::HeaderLenPastEnd),
        (
            "2: IHL one byte beyond",
            cut(59),
            Ipv4Error::HeaderLenPastEnd,
        ),
        (
            "3: total length 0",
            with_word(2, 0),
            Ipv4Error::TotalLenTooSmall,
        ),
        (
            "3: total length in the header",
            with_word(2, 19),
            Ipv4Error::TotalLenTooSmall,
        ),
        (
            "3: total length one beyond",
            with_word(2, 41),
            Ipv4Error::TotalLenPastEnd,
        ),
        (
            "3: total length far beyond",
            with_word(2, 0xffff),
            Ipv4Error::TotalLenPastEnd,
        ),
        (
            "21: ping of death",
            with_word(6, 0x1fff),
            Ipv4Error::FragmentPastMaximum,
        ),
        (
            "24: uneven fragment",
            with_word(6, MORE_FRAGMENTS),
            Ipv4Error::FragmentUneven,
        ),
        (
            "5: kind at the end",
            packet(&[1, 1, 1, 7], 0),
            Ipv4Error::OptionWithoutLength,
        ),
        (
            "5: length 0",
            packet(&[7, 0, 0, 0], 0),
            Ipv4Error::OptionTooShort,
        ),
        (
            "5: length 1",
            packet(&[99, 1, 0, 0], 0),
            Ipv4Error::OptionTooShort,
        ),
        (
            "5: past end",
            packet(&[99, 5, 0, 0], 0),
            Ipv4Error::OptionPastEnd,
        ),
        (
            "5: length 255",
            packet(&[7, 255, 4, 0], 0),
            Ipv4Error::OptionPastEnd,
        ),
        (
            "5: record route, no pointer",
            packet(&[7, 2, 0, 0], 0),
            Ipv4Error::OptionTooShort,
        ),
        (
            "5: record route, pointer 3",
            packet(&[7, 3, 3, 0], 0),
            Ipv4Error::OptionPointer,
        ),
        (
            "5: loose route, pointer 0",
            packet(&[131, 3, 0, 0], 0),
            Ipv4Error::OptionPointer,
        ),
        (
            "5: strict route, pointer 1",
            packet(&[137, 4, 1, 0], 0),
            Ipv4Error::OptionPointer,
        ),
        (
            "5: loose route to another host",
            packet(&[131, 7, 4, 10, 0, 0, 1, 0], 0),
            Ipv4Error::SourceRoute,
        ),
        (
            "5: strict route that is used up",
            packet(&[1, 137, 7, 8, 10, 0, 0, 1], 0),
            Ipv4Error::SourceRoute,
        ),
        (
            "5: timestamp, no flag",
            packet(&[68, 3, 5, 0], 0),
            Ipv4Error::OptionTooShort,
        ),
        (
            "5: timestamp, pointer 4",
            packet(&[68, 4, 4, 0], 0),
            Ipv4Error::OptionPointer,
        ),
        (
            "5: router alert of 3",
            packet(&[148, 3, 0, 0], 0),
            Ipv4Error::OptionTooShort,
        ),
    ];
    for (class, bytes, refusal) in rows {
        assert_eq!(parse(&bytes), Err(refusal), "class {class}");
    }
}

/// Class 46: any one bit that flips is noticed, by the checksum or before.
#[test]
fn no_flipped_bit_goes_unnoticed() {
    for bytes in [packet(&[], 20), packet(&[1, 1, 1, 0], 20)] {
        let header_len = usize::from(bytes[0] & 15) * 4;
        for bit in 0..header_len * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(parse(&flipped).is_err(), "bit {bit}");
        }
        let mut flipped = bytes.clone();
        flipped[8] ^= 1;
        assert_eq!(parse(&flipped), Err(Ipv4Error::Checksum));
    }
}

/// Classes 3 and 4: the payload ends where the header says, not where the frame does.
#[test]
fn padding_is_cut_off() {
    let mut bytes = packet(&[], 3);
    bytes.resize(46, 0xee);
    assert_eq!(parse(&bytes).expect("legal").payload_range(), 20..23);
    assert_eq!(
        parse(&packet(&[], 0)).expect("legal").payload_range(),
        20..20
    );
}

#[test]
fn legal_options_are_skipped() {
    for options in [
        &[148, 4, 0, 0][..],
        &[7, 7, 4, 0, 0, 0, 0, 0],
        &[7, 7, 8, 1, 2, 3, 4, 0],
        &[68, 8, 5, 0, 0, 0, 0, 0],
        &[1, 1, 1, 0],
        &[0, 7, 0, 0],
        &[222, 4, 9, 9],
    ] {
        let header = parse(&packet(options, 9)).expect("legal");
        assert_eq!(
            header.payload_range(),
            20 + options.len()..29 + options.len(),
            "{options:?}"
        );
    }
}

#[test]
fn fragments_are_described_in_bytes() {
    let first = parse(&fix(packet(&[], 16))).expect("legal");
    assert!(!first.is_fragment());
    let mut bytes = packet(&[], 16);
    bytes[6..8].copy_from_slice(&(MORE_FRAGMENTS | 3).to_be_bytes());
    let middle = parse(&fix(bytes)).expect("legal");
    assert_eq!(
        (
            middle.is_fragment(),
            middle.fragment_offset,
            middle.more_fragments
        ),
        (true, 24, true)
    );
    let last = parse(&with_word(6, 2)).expect("an uneven last fragment is legal");
    assert_eq!(
        (
            last.is_fragment(),
            last.fragment_offset,
            last.more_fragments
        ),
        (true, 16, false)
    );
    // The reserved flag is ignored.
    assert!(!parse(&with_word(6, 0x8000)).expect("legal").is_fragment());
}

prop_compose! {
    fn valid_header()(
        addresses in any::<([u8; 4], [u8; 4])>(),
        bytes in any::<(u8, u8, u8)>(),
        identification: u16,
        flags in any::<(bool, bool)>(),
        eighths in 0u16..100,
        payload in 0u16..100,
    ) -> Ipv4Header {
        Ipv4Header {
            source: Address::v4(addresses.0),
            destination: Address::v4(addresses.1),
            protocol: bytes.0,
            ttl: bytes.1,
            type_of_service: bytes.2,
            identification,
            dont_fragment: flags.0,
            more_fragments: flags.1,
            fragment_offset: eighths * 8,
            header_len: 20,
            total_len: 20 + if flags.1 { payload / 8 * 8 } else { payload },
        }
    }
}

/// What the quick parser says of this header.
fn usual(header: &Ipv4Header) -> UsualHeader {
    let number = |address: Address| address.as_v4().map(u32::from_be_bytes).unwrap();
    UsualHeader {
        source: number(header.source),
        destination: number(header.destination),
        total_len: header.total_len,
        protocol: header.protocol,
        ttl: header.ttl,
        type_of_service: header.type_of_service,
    }
}

proptest! {
    #[test]
    fn what_is_emitted_parses(header in valid_header()) {
        let mut out = vec![0xee; usize::from(header.total_len) + 7];
        prop_assert_eq!(emit(&header, &mut out), 20);
        prop_assert!(out[20..].iter().all(|byte| *byte == 0xee));
        prop_assert_eq!(parse(&out), Ok(header));
        let usual = (!header.is_fragment()).then(|| usual(&header));
        prop_assert_eq!(parse_usual(&out), usual);
    }

    #[test]
    fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..100), right: bool) {
        if right && bytes.len() >= 20 {
            bytes[0] = 0x40 | (bytes[0] & 15).max(5);
            let len = (bytes.len() as u16).to_be_bytes();
            bytes[2..4].copy_from_slice(&len);
            bytes = fix(bytes);
        }
        if let Ok(header) = parse(&bytes) {
            prop_assert!(bytes.get(header.payload_range()).is_some());
        }
        if let Some(found) = parse_usual(&bytes).filter(|found| usize::from(found.total_len) <= bytes.len()) {
            prop_assert_eq!(parse(&bytes).map(|header| usual(&header)), Ok(found));
        }
    }
}
