use super::parse::parse_unusual;
use super::*;
use crate::address::Address;
use crate::checksum::Sum;
use proptest::prelude::*;

/// A segment with these flags and options, followed by `payload` zeros.
fn segment(flags: TcpFlags, options: &[u8], payload: usize) -> Vec<u8> {
    assert_eq!(options.len() % 4, 0, "the test pads its options");
    let mut bytes = vec![0; MIN_HEADER_LEN];
    bytes[12] = ((MIN_HEADER_LEN + options.len()) as u8 / 4) << 4;
    bytes[13] = flags.0;
    bytes.extend_from_slice(options);
    bytes.resize(bytes.len() + payload, 0);
    bytes
}

#[test]
fn hostile_lengths_are_refused_by_name() {
    let with = |options: &[u8]| segment(TcpFlags::ACK, options, 8);
    let syn_with = |options: &[u8]| segment(TcpFlags::SYN, options, 0);
    let offset = |words: u8, len: usize| {
        let mut bytes = vec![0; len];
        bytes[12] = words << 4;
        bytes
    };
    let rows: [(&str, Vec<u8>, TcpError); 24] = [
        ("1: empty", vec![], TcpError::Truncated),
        ("1: one byte", vec![0x50], TcpError::Truncated),
        ("6: one byte short", vec![0x50; 19], TcpError::Truncated),
        ("6: offset 0", offset(0, 40), TcpError::DataOffsetTooSmall),
        ("6: offset 4", offset(4, 40), TcpError::DataOffsetTooSmall),
        (
            "6: offset beyond",
            offset(6, 20),
            TcpError::DataOffsetPastEnd,
        ),
        (
            "6: offset one byte beyond",
            offset(15, 59),
            TcpError::DataOffsetPastEnd,
        ),
        (
            "7: kind at the end",
            with(&[1, 1, 1, 8]),
            TcpError::OptionWithoutLength,
        ),
        (
            "7: unknown kind at the end",
            with(&[1, 1, 1, 200]),
            TcpError::OptionWithoutLength,
        ),
        ("7: length 0", with(&[8, 0, 0, 0]), TcpError::OptionTooShort),
        (
            "7: length 0 of an unknown kind",
            with(&[77, 0, 0, 0]),
            TcpError::OptionTooShort,
        ),
        ("7: length 1", with(&[1, 1, 5, 1]), TcpError::OptionTooShort),
        (
            "7: past end",
            with(&[8, 10, 0, 0, 0, 0, 0, 0]),
            TcpError::OptionPastEnd,
        ),
        (
            "7: past end by one",
            with(&[77, 5, 0, 0]),
            TcpError::OptionPastEnd,
        ),
        (
            "7: length 255",
            with(&[77, 255, 0, 0]),
            TcpError::OptionPastEnd,
        ),
        (
            "8: odd SACK",
            with(&[5, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            TcpError::SackLength,
        ),
        ("8: empty SACK", with(&[1, 1, 5, 2]), TcpError::SackLength),
        (
            "8: half a SACK block",
            with(&[1, 1, 5, 6, 0, 0, 0, 0]),
            TcpError::SackLength,
        ),
        ("9: MSS of 3", syn_with(&[2, 3, 5, 0]), TcpError::MssLength),
        (
            "9: window scale of 4",
            syn_with(&[3, 4, 5, 0]),
            TcpError::WindowScaleLength,
        ),
        (
            "9: window scale of 2",
            syn_with(&[1, 1, 3, 2]),
            TcpError::WindowScaleLength,
        ),
        (
            "9: SACK-permitted of 3",
            syn_with(&[1, 4, 3, 0]),
            TcpError::SackPermittedLength,
        ),
        (
            "7: timestamps of 8",
            with(&[8, 8, 0, 0, 0, 0, 0, 0]),
            TcpError::TimestampsLength,
        ),
        (
            "7: user timeout of 3",
            with(&[1, 28, 3, 0]),
            TcpError::UserTimeoutLength,
        ),
    ];
    for (class, bytes, refusal) in rows {
        assert_eq!(parse(&bytes), Err(refusal), "class {class}");
    }
}

/// Class 9.
#[test]
fn options_count_only_where_they_belong() {
    let agreed = [2, 4, 0x05, 0xb4, 1, 3, 3, 7, 1, 1, 4, 2];
    let on_ack = parse(&segment(TcpFlags::ACK, &agreed, 0))
        .expect("skipped")
        .header;
    assert_eq!((on_ack.present, on_ack.mss, on_ack.window_scale), (0, 0, 0));
    let on_syn = parse(&segment(TcpFlags::SYN, &agreed, 0))
        .expect("taken")
        .header;
    let all = TcpHeader::HAS_MSS | TcpHeader::HAS_WINDOW_SCALE | TcpHeader::HAS_SACK_PERMITTED;
    assert_eq!(
        (on_syn.present, on_syn.mss, on_syn.window_scale),
        (all, 1460, 7)
    );

    let sack = [1, 1, 5, 10, 0, 0, 0, 9, 0, 0, 0, 12];
    assert_eq!(
        parse(&segment(TcpFlags::SYN, &sack, 0))
            .expect("skipped")
            .header
            .sack_count,
        0
    );
    assert_eq!(
        parse(&segment(TcpFlags::ACK, &sack, 0))
            .expect("taken")
            .header
            .sack_count,
        1
    );
}

/// Class 9.
#[test]
fn odd_values_are_kept_in_bounds() {
    let header = |options: &[u8]| {
        parse(&segment(TcpFlags::SYN, options, 0))
            .expect("legal")
            .header
    };
    assert_eq!(header(&[1, 3, 3, 255]).window_scale, 14, "RFC 7323 §2.3");
    assert_eq!(header(&[1, 3, 3, 15]).window_scale, 14);
    assert_eq!(header(&[1, 3, 3, 14]).window_scale, 14);
    let zero = header(&[2, 4, 0, 0]);
    assert_eq!(
        (zero.has(TcpHeader::HAS_MSS), zero.mss),
        (true, 0),
        "an MSS of 0 is for the engine"
    );
    assert_eq!(
        header(&[2, 4, 0, 48, 2, 4, 5, 0]).mss,
        0x500,
        "the last one wins"
    );
    assert_eq!(
        header(&[2, 4, 5, 0, 0, 0, 0, 0, 2, 4, 0, 1]).mss,
        0x500,
        "nothing counts after the end"
    );
}

/// Class 8: the last SACK option wins whole, it does not mix with the one before.
#[test]
fn a_second_sack_option_replaces_the_first() {
    let options = [
        &[1, 1, 5, 18][..],
        &[0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4],
        &[1, 1, 5, 10],
        &[0, 0, 0, 9, 0, 0, 0, 5],
    ]
    .concat();
    let header = parse(&segment(TcpFlags::ACK, &options, 0))
        .expect("legal")
        .header;
    let block = SackBlock {
        left: SeqNumber::new(9),
        right: SeqNumber::new(5),
    };
    assert_eq!(
        header.sack_blocks(),
        [block],
        "a block that ends before it starts is for the engine"
    );
    assert_eq!(header.sack[1..], [SackBlock::default(); 3]);
}

/// Classes 10 and 11.
#[test]
fn odd_flags_and_urgent_pointers_are_for_the_engine() {
    for flags in [0x00, 0x03, 0x06, 0x29, 0xff] {
        let mut bytes = segment(TcpFlags(flags), &[], 0);
        bytes[12] |= 0x0f; // reserved bits and the former NS
        bytes[18..20].copy_from_slice(&[0xff, 0xff]);
        let header = parse(&bytes).expect("legal").header;
        assert_eq!((header.flags, header.urgent), (TcpFlags(flags), 0xffff));
        assert_eq!(header.present, TcpHeader::AE, "the last of them");
    }
}

#[test]
fn a_syn_is_laid_out_compactly() {
    let header = TcpHeader {
        flags: TcpFlags::SYN,
        present: 0x0f,
        mss: 1460,
        window_scale: 7,
        ts_value: 0x0102_0304,
        ..TcpHeader::default()
    };
    let mut out = [0xee; 60];
    assert_eq!((emit(&header, 1, 2, &mut out), out[12]), (40, 0xa0));
    let options = [
        2, 4, 0x05, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    assert_eq!(out[20..40], options);
    assert_eq!(out[40..], [0xee; 20]);
    assert_eq!(out[16..18], [0, 0], "the checksum is for `seal`");
}

/// The timestamps of another word order take the slow path and arrive all the same.
#[test]
fn timestamps_are_found_anywhere() {
    for options in [
        [1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6],
        [8, 10, 0, 0, 0, 5, 0, 0, 0, 6, 0, 0],
        [1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6, 1],
    ] {
        let header = parse(&segment(TcpFlags::ACK, &options, 1))
            .expect("legal")
            .header;
        assert_eq!(
            (header.present, header.ts_value, header.ts_echo),
            (TcpHeader::HAS_TIMESTAMPS, 5, 6)
        );
    }
}

/// Class 46.
#[test]
fn a_sealed_segment_verifies_until_a_bit_flips() {
    let (here, there) = (Address::v4([10, 0, 0, 1]), Address::v4([10, 0, 0, 2]));
    for payload in [&b""[..], b"a", b"ab", b"abc"] {
        let header = TcpHeader {
            flags: TcpFlags::ACK,
            present: TcpHeader::HAS_TIMESTAMPS,
            ..TcpHeader::default()
        };
        let mut bytes = vec![0; 32];
        assert_eq!(emit(&header, 1000, 2000, &mut bytes), 32);
        let len = 32 + payload.len() as u32;
        let rest = Sum::pseudo_header(&here, &there, PROTOCOL, len) + Sum::of(payload);
        seal(&mut bytes, rest);
        seal(&mut bytes, rest);
        bytes.extend_from_slice(payload);
        assert_eq!(verify(&here, &there, &bytes), Ok(()));
        for at in 0..bytes.len() {
            bytes[at] ^= 0x40;
            assert_eq!(
                verify(&here, &there, &bytes),
                Err(TcpError::Checksum),
                "byte {at}"
            );
            bytes[at] ^= 0x40;
        }
    }
}

prop_compose! {
    fn sack_block()(left: u32, right: u32) -> SackBlock {
        SackBlock { left: SeqNumber::new(left), right: SeqNumber::new(right) }
    }
}

prop_compose! {
    /// Headers that the wire can carry whole: every field whose bit is not set is zero.
    fn valid_header()(
        fixed in any::<(u32, u32, u16, u8, u16)>(),
        present in 0u8..64,
        user_timeout: u16,
        timestamps in any::<(u32, u32)>(),
        mss: u16,
        window_scale in 0u8..=14,
        sack in proptest::collection::vec(sack_block(), 0..=4),
    ) -> TcpHeader {
        let (seq, ack, window, flags, urgent) = fixed;
        let mut header = TcpHeader {
            seq: SeqNumber::new(seq),
            ack: SeqNumber::new(ack),
            window,
            flags: TcpFlags(flags),
            urgent,
            present,
            ..TcpHeader::default()
        };
        if header.has(TcpHeader::HAS_TIMESTAMPS) {
            (header.ts_value, header.ts_echo) = timestamps;
        }
        if header.has(TcpHeader::HAS_USER_TIMEOUT) {
            header.user_timeout = user_timeout;
        }
        if header.flags.contains(TcpFlags::SYN) {
            header.mss = if header.has(TcpHeader::HAS_MSS) { mss } else { 0 };
            header.window_scale = if header.has(TcpHeader::HAS_WINDOW_SCALE) { window_scale } else { 0 };
        } else {
            const EVERYWHERE: u8 = TcpHeader::HAS_TIMESTAMPS | TcpHeader::HAS_USER_TIMEOUT;
            header.present &= EVERYWHERE | TcpHeader::AE;
            let most = match header.present & EVERYWHERE {
                EVERYWHERE => 2,
                TcpHeader::HAS_TIMESTAMPS => 3,
                _ => 4,
            };
            let sack = &sack[..sack.len().min(most)];
            header.sack[..sack.len()].copy_from_slice(sack);
            header.sack_count = sack.len() as u8;
        }
        header
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_is_emitted_parses(header in valid_header(), ports in any::<(u16, u16)>()) {
        let mut out = [0xee; MAX_HEADER_LEN + 3];
        let len = emit(&header, ports.0, ports.1, &mut out);
        prop_assert_eq!(len, header_len(&header));
        prop_assert!(out[len..].iter().all(|byte| *byte == 0xee));
        let parsed = parse(&out[..len]).expect("valid");
        prop_assert_eq!((parsed.source_port, parsed.destination_port), ports);
        prop_assert_eq!(parsed.header, header);
        prop_assert_eq!(parsed.header_len, len);
        prop_assert_eq!(super::ports(&out[..len]), Ok(ports));
        prop_assert_eq!(parse_as(Layout::Other, &out[..len]), None);
        let usual = parse_usual(&out[..len]);
        prop_assert_eq!(usual.is_some(), len == 20 || (len == 32 && header.present & !TcpHeader::AE == TcpHeader::HAS_TIMESTAMPS));
        prop_assert!(usual.is_none_or(|usual| Ok(usual) == parse_unusual(&out[..len])));
    }

    #[test]
    fn emitting_and_sealing_are_one(header in valid_header(), ports in any::<(u16, u16)>(), rest: u16) {
        let (mut twice, mut once) = ([0; MAX_HEADER_LEN], [0; MAX_HEADER_LEN]);
        let len = emit(&header, ports.0, ports.1, &mut twice);
        seal(&mut twice[..len], Sum(rest));
        prop_assert_eq!(emit_sealed(&header, ports.0, ports.1, Sum(rest), &mut once), len);
        prop_assert_eq!(once, twice);
    }

    /// Whatever the caller leaves in a header, what comes out is a legal one of at most 60 bytes.
    #[test]
    fn any_header_emits_what_parses(header in valid_header(), present: u8, sack_count: u8) {
        let header = TcpHeader { present, sack_count: sack_count % 5, ..header };
        let mut out = [0; MAX_HEADER_LEN];
        let len = emit(&header, 1, 2, &mut out);
        prop_assert_eq!(parse(&out[..len]).map(|parsed| parsed.header_len), Ok(len));
    }

    /// Random options behind a legal data offset, so that the walk is reached.
    #[test]
    fn no_options_panic(bytes in proptest::collection::vec(any::<u8>(), 20..64), words in 5u8..16) {
        let mut bytes = bytes;
        bytes[12] = words << 4;
        if let Ok(parsed) = parse(&bytes) {
            prop_assert_eq!(parsed.header_len, usize::from(words) * 4);
            prop_assert!(parsed.header.window_scale <= MAX_WINDOW_SCALE);
        }
        prop_assert!(parse_usual(&bytes).is_none_or(|usual| Ok(usual) == parse_unusual(&bytes)));
    }

    #[test]
    fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
        let _ = parse(&bytes).map(|parsed| assert!(parsed.header_len <= bytes.len()));
    }
}
