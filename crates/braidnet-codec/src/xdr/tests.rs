//! The cursors against the RFC's own example and each other; every kernel against every other.

use proptest::prelude::*;

use super::*;

/// One value of any primitive, for properties over sequences of them.
#[derive(Clone, PartialEq, Debug)]
enum Item {
    Int(i32),
    Unsigned(u32),
    Boolean(bool),
    Enumeration(Quality),
    Hyper(i64),
    UnsignedHyper(u64),
    Float(u32),
    Double(u64),
    OpaqueFixed(Vec<u8>),
    Opaque(Vec<u8>),
    String(String),
    Array(Vec<u64>),
    ArrayFixed(Vec<i32>),
}

const LIMIT: u32 = 40;

impl Item {
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), EncodeError> {
        match self {
            Item::Int(value) => to.int(*value),
            Item::Unsigned(value) => to.unsigned(*value),
            Item::Boolean(value) => to.boolean(*value),
            Item::Enumeration(value) => to.enumeration(*value),
            Item::Hyper(value) => to.hyper(*value),
            Item::UnsignedHyper(value) => to.unsigned_hyper(*value),
            Item::Float(bits) => to.float(f32::from_bits(*bits)),
            Item::Double(bits) => to.double(f64::from_bits(*bits)),
            Item::OpaqueFixed(data) => to.opaque_fixed(data),
            Item::Opaque(data) => to.opaque(data, LIMIT),
            Item::String(text) => to.string(text, 4 * LIMIT),
            Item::Array(elements) => to.array(elements, LIMIT),
            Item::ArrayFixed(elements) => to.array_fixed(elements),
        }
    }

    /// Reads a value of the same kind; its own content serves for nothing but lengths that both sides know.
    fn decode_like(&self, from: &mut Decoder<'_>) -> Result<Item, DecodeError> {
        Ok(match self {
            Item::Int(_) => Item::Int(from.int()?),
            Item::Unsigned(_) => Item::Unsigned(from.unsigned()?),
            Item::Boolean(_) => Item::Boolean(from.boolean()?),
            Item::Enumeration(_) => Item::Enumeration(from.enumeration()?),
            Item::Hyper(_) => Item::Hyper(from.hyper()?),
            Item::UnsignedHyper(_) => Item::UnsignedHyper(from.unsigned_hyper()?),
            Item::Float(_) => Item::Float(from.float()?.to_bits()),
            Item::Double(_) => Item::Double(from.double()?.to_bits()),
            Item::OpaqueFixed(data) => Item::OpaqueFixed(from.opaque_fixed(data.len())?.to_vec()),
            Item::Opaque(_) => Item::Opaque(from.opaque(LIMIT)?.to_vec()),
            Item::String(_) => {
                Item::String(String::from_utf8_lossy(from.string(4 * LIMIT)?).into_owned())
            }
            Item::Array(_) => {
                let mut elements = Vec::new();
                from.array(&mut elements, LIMIT)?;
                Item::Array(elements)
            }
            Item::ArrayFixed(like) => {
                let mut elements = vec![0; like.len()];
                from.array_fixed(&mut elements)?;
                Item::ArrayFixed(elements)
            }
        })
    }
}

fn quality() -> impl Strategy<Value = Quality> {
    (0..4).prop_map(|number| Quality::try_from(number).expect("assigned"))
}

fn item() -> impl Strategy<Value = Item> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..LIMIT as usize);
    prop_oneof![
        any::<i32>().prop_map(Item::Int),
        any::<u32>().prop_map(Item::Unsigned),
        any::<bool>().prop_map(Item::Boolean),
        quality().prop_map(Item::Enumeration),
        any::<i64>().prop_map(Item::Hyper),
        any::<u64>().prop_map(Item::UnsignedHyper),
        any::<u32>().prop_map(Item::Float),
        any::<u64>().prop_map(Item::Double),
        bytes().prop_map(Item::OpaqueFixed),
        bytes().prop_map(Item::Opaque),
        "\\PC{0,40}".prop_map(Item::String),
        proptest::collection::vec(any::<u64>(), 0..6).prop_map(Item::Array),
        proptest::collection::vec(any::<i32>(), 0..6).prop_map(Item::ArrayFixed),
    ]
}

/// Samples of any bits, reals that are no numbers among them.
fn sample() -> impl Strategy<Value = Sample> {
    (any::<[u8; 20]>(), quality(), any::<[u8; 8]>()).prop_map(|(head, quality, tail)| {
        let mut fields = Decoder::new(&head);
        Sample {
            channel: fields.int().expect("20 bytes"),
            sequence: fields.unsigned().expect("16 bytes"),
            time_ns: fields.hyper().expect("12 bytes"),
            gain: fields.float().expect("4 bytes"),
            quality,
            value: f64::from_be_bytes(tail),
        }
    })
}

fn samples(most: usize) -> impl Strategy<Value = Vec<Sample>> {
    proptest::collection::vec(sample(), 0..most)
}

/// The wire's bytes, by the cursor: what every kernel is compared with, and how samples are told apart bit for bit.
fn by_cursor(samples: &[Sample]) -> Vec<u8> {
    let mut wire = vec![0xaa; samples.len() * SAMPLE_BYTES];
    let mut encoder = Encoder::new(&mut wire);
    encoder.array_fixed(samples).expect("room for all");
    assert_eq!(encoder.left(), 0);
    wire
}

fn same_totals(one: Totals, other: Totals) -> bool {
    let both_nan = one.real.is_nan() && other.real.is_nan();
    one.integral == other.integral && (both_nan || one.real.to_bits() == other.real.to_bits())
}

/// RFC 4506 §7: the file "sillyprog" that user john wrote in lisp.
#[test]
fn the_example_of_the_rfc() {
    #[rustfmt::skip]
    let wire = [
        0x00, 0x00, 0x00, 0x09, 0x73, 0x69, 0x6c, 0x6c, 0x79, 0x70, 0x72, 0x6f, 0x67, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x04, 0x6c, 0x69, 0x73, 0x70,
        0x00, 0x00, 0x00, 0x04, 0x6a, 0x6f, 0x68, 0x6e,
        0x00, 0x00, 0x00, 0x06, 0x28, 0x71, 0x75, 0x69, 0x74, 0x29, 0x00, 0x00,
    ];
    let mut bytes = [0xee; 48];
    let mut encoder = Encoder::new(&mut bytes);
    encoder.string("sillyprog", 255).expect("room");
    encoder.unsigned(2).expect("room");
    encoder.string("lisp", 255).expect("room");
    encoder.string("john", 32).expect("room");
    encoder.opaque(b"(quit)", 65535).expect("room");
    assert_eq!(encoder.left(), 0);
    assert_eq!(bytes, wire);

    let mut decoder = Decoder::new(&wire);
    assert_eq!(decoder.string(255), Ok(&b"sillyprog"[..]));
    assert_eq!(decoder.unsigned(), Ok(2));
    assert_eq!(decoder.string(255), Ok(&b"lisp"[..]));
    assert_eq!(decoder.string(32), Ok(&b"john"[..]));
    assert_eq!(decoder.opaque(65535), Ok(&b"(quit)"[..]));
    assert_eq!(decoder.finish(), Ok(()));
}

#[test]
fn what_the_decoder_refuses() {
    type Read = fn(&mut Decoder<'_>) -> Result<(), DecodeError>;
    let array: Read = |from| from.array::<u64>(&mut Vec::new(), 3);
    let rows: &[(&str, &[u8], Read, DecodeError)] = &[
        (
            "boolean of 2",
            &[0, 0, 0, 2],
            |from| from.boolean().map(drop),
            DecodeError::BadBoolean { value: 2 },
        ),
        (
            "unassigned enumerator",
            &[0xff, 0xff, 0xff, 0xff],
            |from| from.enumeration::<Quality>().map(drop),
            DecodeError::BadEnumeration { value: -1 },
        ),
        (
            "three bytes of an integer",
            &[0, 0, 0],
            |from| from.int().map(drop),
            DecodeError::Truncated { needed: 4, left: 3 },
        ),
        (
            "seven bytes of a hyper",
            &[0; 7],
            |from| from.hyper().map(drop),
            DecodeError::Truncated { needed: 8, left: 7 },
        ),
        (
            "opaque above its bound",
            &[0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0],
            |from| from.opaque(4).map(drop),
            DecodeError::TooLong {
                length: 5,
                limit: 4,
            },
        ),
        (
            "opaque longer than the bytes",
            &[0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4],
            |from| from.opaque(u32::MAX).map(drop),
            DecodeError::Truncated {
                needed: 0x1_0000_0000,
                left: 4,
            },
        ),
        (
            "opaque without its pad",
            &[0, 0, 0, 1, 7, 0, 0],
            |from| from.opaque(4).map(drop),
            DecodeError::Truncated { needed: 4, left: 3 },
        ),
        (
            "pad that is not zero",
            &[0, 0, 0, 1, 7, 0, 0, 1],
            |from| from.opaque(4).map(drop),
            DecodeError::NonZeroPad,
        ),
        (
            "pad of fixed opaque that is not zero",
            &[1, 2, 3, 4, 5, 6, 7, 1],
            |from| from.opaque_fixed(7).map(drop),
            DecodeError::NonZeroPad,
        ),
        (
            "array above its bound",
            &[0, 0, 0, 4],
            array,
            DecodeError::TooLong {
                length: 4,
                limit: 3,
            },
        ),
        (
            "array that cannot fit",
            &[0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0],
            array,
            DecodeError::Truncated {
                needed: 24,
                left: 8,
            },
        ),
    ];
    for (what, bytes, read, error) in rows {
        let mut decoder = Decoder::new(bytes);
        assert_eq!(read(&mut decoder), Err(*error), "{what}");
        assert_eq!(decoder.left(), bytes.len(), "{what}: the cursor goes back");
    }
    let mut decoder = Decoder::new(&[0; 8]);
    assert_eq!(decoder.int(), Ok(0));
    assert_eq!(
        decoder.finish(),
        Err(DecodeError::TrailingBytes { bytes: 4 })
    );
}

#[test]
fn what_the_encoder_refuses() {
    let mut bytes = [0xaa; 11];
    let mut encoder = Encoder::new(&mut bytes);
    assert_eq!(
        encoder.opaque(&[1; 5], 4),
        Err(EncodeError::TooLong {
            length: 5,
            limit: 4
        })
    );
    assert_eq!(
        encoder.array(&[1u32, 2], 1),
        Err(EncodeError::TooLong {
            length: 2,
            limit: 1
        })
    );
    assert_eq!(
        encoder.opaque(&[1; 5], 8),
        Err(EncodeError::NoRoom {
            needed: 12,
            left: 11
        })
    );
    assert_eq!(encoder.written(), 0);
    assert_eq!(encoder.hyper(0), Ok(()));
    assert_eq!(
        encoder.unsigned(0),
        Err(EncodeError::NoRoom { needed: 4, left: 3 })
    );
    assert_eq!(encoder.written(), 8);
    assert_eq!(bytes[8..], [0xaa; 3], "nothing written by what failed");
}

/// An element that takes no bytes.
#[derive(Debug)]
struct Void;

impl Xdr for Void {
    const MIN_BYTES: usize = 0;

    fn encode(&self, _to: &mut Encoder<'_>) -> Result<(), EncodeError> {
        Ok(())
    }

    fn decode(_from: &mut Decoder<'_>) -> Result<Void, DecodeError> {
        Ok(Void)
    }
}

#[test]
fn elements_without_bytes_are_bounded_by_the_limit_alone() {
    let mut elements: Vec<Void> = Vec::new();
    assert_eq!(Decoder::new(&[0, 0, 0, 9]).array(&mut elements, 9), Ok(()));
    assert_eq!(elements.len(), 9);
    assert_eq!(
        Decoder::new(&[0, 0, 0, 9]).array(&mut elements, 8),
        Err(DecodeError::TooLong {
            length: 9,
            limit: 8
        })
    );
}

#[test]
fn shapes_of_batches() {
    let rows = [
        // (bytes, samples, fill)
        (8, 0, 0),
        (36, 0, 28),
        (40, 1, 0),
        (4092, 127, 20),
        (4096, 127, 24),
        (4100, 127, 28),
        (4104, 128, 0),
        (65536, 2047, 24),
    ];
    for (bytes, samples, fill_bytes) in rows {
        assert_eq!(
            BatchShape::filling(bytes),
            Ok(BatchShape {
                samples,
                fill_bytes
            })
        );
    }
    for bytes in [0, 4, 7, 4095, 4098] {
        assert_eq!(
            BatchShape::filling(bytes),
            Err(EncodeError::UnevenBatch { bytes })
        );
    }
    assert_eq!(
        encode_batch(&[], &mut [0; 40]),
        Err(EncodeError::WrongCount {
            samples: 0,
            fitting: 1
        })
    );
}

#[test]
fn what_the_batch_decoder_refuses() {
    let rows: &[(&str, &[u8], DecodeError)] = &[
        (
            "nothing",
            &[],
            DecodeError::Truncated { needed: 4, left: 0 },
        ),
        (
            "half a count",
            &[0, 0],
            DecodeError::Truncated { needed: 4, left: 2 },
        ),
        (
            "more samples than bytes",
            &[0, 0, 0, 1, 0, 0, 0, 0],
            DecodeError::TooLong {
                length: 1,
                limit: 0,
            },
        ),
        (
            "too much fill",
            &[0, 0, 0, 0, 0, 0, 0, 29],
            DecodeError::TooLong {
                length: 29,
                limit: 28,
            },
        ),
        (
            "fill cut short",
            &[0, 0, 0, 0, 0, 0, 0, 5, 1, 1],
            DecodeError::Truncated { needed: 6, left: 0 },
        ),
        (
            "pad of fill not zero",
            &[0, 0, 0, 0, 0, 0, 0, 2, 1, 1, 0, 9],
            DecodeError::NonZeroPad,
        ),
        (
            "bytes behind",
            &[0, 0, 0, 0, 0, 0, 0, 0, 1],
            DecodeError::TrailingBytes { bytes: 1 },
        ),
    ];
    for (what, bytes, error) in rows {
        let mut samples = Vec::new();
        assert_eq!(decode_into(&mut samples, bytes), Err(*error), "{what}");
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(
            decode_scattered_into(&mut samples, &single),
            Err(*error),
            "{what}, byte by byte"
        );
    }
}

#[test]
fn a_failed_batch_decoder_stays_failed() {
    let mut decoder = BatchDecoder::new(0);
    let error = DecodeError::TooLong {
        length: 1,
        limit: 0,
    };
    let mut samples = Vec::new();
    assert_eq!(decoder.feed(&[0, 0, 0, 1], &mut samples), Err(error));
    assert_eq!(decoder.feed(&[0, 0, 0, 0], &mut samples), Err(error));
    assert_eq!(decoder.finish(), Err(error));
}

#[test]
fn an_announced_number_reserves_nothing() {
    let mut decoder = BatchDecoder::new(u32::MAX);
    let mut samples = Vec::new();
    assert_eq!(decoder.feed(&[0xff; 4], &mut samples), Ok(()));
    assert_eq!(samples.capacity(), 0);
}

#[test]
fn sums_of_known_samples() {
    let sample = |index: i32| Sample {
        channel: -index,
        sequence: 2 * index as u32,
        time_ns: 1000,
        gain: 0.5,
        quality: Quality::Suspect,
        value: f64::from(index),
    };
    let samples: Vec<Sample> = (0..127).map(sample).collect();
    let expected = Totals {
        integral: 126 * 127 / 2 + 127 * 1001,
        real: 63.5 + 8001.0,
    };
    assert_eq!(sum(&samples), expected);
    assert_eq!(sum(&[]), Totals::default());
}

/// The order of additions is part of the promise: 2^53 and 1 in one partial sum lose the 1, in two they do not.
#[test]
fn reals_are_added_in_the_documented_order() {
    let sample = |value: f64| Sample {
        channel: 0,
        sequence: 0,
        time_ns: 0,
        gain: 0.0,
        quality: Quality::Good,
        value,
    };
    const LARGE: f64 = 9_007_199_254_740_992.0;
    // (what, which samples have which value, the sum)
    type Row = (&'static str, &'static [(usize, f64)], f64);
    let rows: &[Row] = &[
        ("one lane", &[(0, LARGE), (8, 1.0), (16, -LARGE)], 0.0),
        ("two lanes", &[(0, LARGE), (9, 1.0), (16, -LARGE)], 1.0),
        (
            "lanes 0 and 4 meet first",
            &[(0, LARGE), (1, 1.0), (4, -LARGE)],
            1.0,
        ),
        (
            "lanes 0 and 1 meet last",
            &[(0, LARGE), (1, -LARGE), (4, 1.0)],
            0.0,
        ),
        (
            "the rest begins with lane 0",
            &[(0, LARGE), (18, -LARGE), (24, 1.0)],
            0.0,
        ),
    ];
    for (what, values, real) in rows {
        let mut samples = vec![sample(0.0); 27];
        for &(at, value) in *values {
            samples[at] = sample(value);
        }
        assert_eq!(sum(&samples).real, *real, "{what}");
    }
}

proptest! {
    #[test]
    fn what_is_encoded_is_decoded(items in proptest::collection::vec(item(), 0..12)) {
        let mut bytes = vec![0xaa; 12 * 256];
        let mut encoder = Encoder::new(&mut bytes);
        for item in &items {
            prop_assert_eq!(item.encode(&mut encoder), Ok(()));
            prop_assert_eq!(encoder.written() % UNIT, 0);
        }
        let written = encoder.written();
        let mut decoder = Decoder::new(&bytes[..written]);
        for item in &items {
            prop_assert_eq!(&item.decode_like(&mut decoder), &Ok(item.clone()));
        }
        prop_assert_eq!(decoder.finish(), Ok(()));
    }

    #[test]
    fn random_bytes_are_decoded_or_refused(
        items in proptest::collection::vec(item(), 0..12),
        bytes in proptest::collection::vec(prop_oneof![Just(0u8), any::<u8>()], 0..120),
    ) {
        let mut decoder = Decoder::new(&bytes);
        for item in &items {
            let before = decoder.left();
            if item.decode_like(&mut decoder).is_err() && !matches!(item, Item::Array(_) | Item::ArrayFixed(_)) {
                prop_assert_eq!(decoder.left(), before);
            }
        }
        let mut samples = Vec::new();
        let outcome = decode_into(&mut samples, &bytes);
        prop_assert!(outcome.is_ok() || samples.is_empty());
    }

    #[test]
    fn every_kernel_encodes_and_decodes_like_the_cursor(samples in samples(40), offset in 0usize..8) {
        let expected = by_cursor(&samples);
        let totals = sum(&samples);
        for kernel in Kernel::available() {
            // Any alignment on the wire, and a byte on each side that must stay.
            let mut wire = vec![0xaa; offset + expected.len() + 1];
            let range = offset..offset + expected.len();
            prop_assert_eq!(kernel.encode(&samples, &mut wire[range.clone()]), expected.len());
            prop_assert_eq!(&wire[range.clone()], &expected[..], "{}", kernel.name());
            prop_assert!(wire[..offset].iter().chain(&wire[range.end..]).all(|&byte| byte == 0xaa));

            let mut decoded = Vec::new();
            prop_assert_eq!(kernel.decode(&wire[range], &mut decoded), Ok(()));
            prop_assert_eq!(by_cursor(&decoded), expected.clone(), "{}", kernel.name());
            prop_assert!(same_totals(sum(&decoded), totals), "{}", kernel.name());
        }
    }

    #[test]
    fn every_kernel_judges_random_bytes_alike(mut wire in proptest::collection::vec(any::<u8>(), 0..320)) {
        // Nearly all random enumerators are unassigned: mend most of them.
        for bytes in wire.chunks_exact_mut(SAMPLE_BYTES) {
            let first = bytes[0];
            if first != 0 {
                bytes[20..24].copy_from_slice(&[0, 0, 0, first & 3]);
            }
        }
        let mut expected = Vec::new();
        let outcome = Kernel::PORTABLE.decode(&wire, &mut expected);
        for kernel in Kernel::available() {
            let mut decoded = Vec::new();
            prop_assert_eq!(kernel.decode(&wire, &mut decoded), outcome, "{}", kernel.name());
            prop_assert_eq!(by_cursor(&decoded), by_cursor(&expected));
        }
        let mut one_by_one = vec![];
        let mut decoder = Decoder::new(&wire);
        while decoder.left() >= SAMPLE_BYTES && let Ok(sample) = Sample::decode(&mut decoder) {
            one_by_one.push(sample);
        }
        prop_assert_eq!(outcome.is_ok(), one_by_one.len() == wire.len() / SAMPLE_BYTES);
    }

    #[test]
    fn a_batch_split_anywhere_is_the_same_batch(
        samples in samples(20),
        fill_units in 0usize..8,
        cuts in proptest::collection::vec(0usize..700, 0..12),
    ) {
        let mut wire = vec![0xaa; 8 + samples.len() * SAMPLE_BYTES + fill_units * UNIT];
        prop_assert_eq!(encode_batch(&samples, &mut wire), Ok(()));

        let mut decoded = vec![];
        prop_assert_eq!(decode_into(&mut decoded, &wire), Ok(()));
        prop_assert_eq!(by_cursor(&decoded), by_cursor(&samples));

        let mut cuts: Vec<usize> = cuts.iter().map(|&cut| cut.min(wire.len())).collect();
        cuts.sort_unstable();
        let mut pieces = Vec::new();
        let mut from = 0;
        for cut in cuts {
            pieces.push(&wire[from..cut]);
            from = cut;
        }
        pieces.push(&wire[from..]);
        prop_assert_eq!(decode_scattered_into(&mut decoded, &pieces), Ok(()));
        prop_assert_eq!(by_cursor(&decoded), by_cursor(&samples));
        prop_assert!(same_totals(sum(&decoded), sum(&samples)));

        // Every shorter batch is refused.
        let outcome = decode_into(&mut decoded, &wire[..from]);
        prop_assert_eq!(outcome.is_ok(), from == wire.len());
    }
}
