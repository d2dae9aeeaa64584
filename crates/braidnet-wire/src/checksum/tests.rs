use super::*;
use proptest::prelude::*;

/// The loop of RFC 1071 §4.1, in network byte order.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

type Summer = fn(&[u8]) -> u16;
type Copier = fn(&mut [MaybeUninit<u8>], &[u8]) -> u16;

/// Every implementation that this machine can run, by name.
fn implementations() -> Vec<(&'static str, Summer, Copier)> {
    let mut all: Vec<(&'static str, Summer, Copier)> = vec![
        (
            "dispatched",
            |bytes| Sum::of(bytes).0,
            |to, from| copy_and_sum_uninit(to, from).0,
        ),
        ("scalar", scalar::sum, scalar::copy::<true>),
        ("short", scalar::sum_short, scalar::copy_short),
    ];
    #[cfg(target_arch = "x86_64")]
    {
        if avx2::is_available() {
            // SAFETY: the features were detected.
            let copier: Copier = |to, from| unsafe { avx2::copy::<true>(to, from) };
            // SAFETY: the features were detected.
            all.push(("avx2", |bytes| unsafe { avx2::sum(bytes) }, copier));
        }
        if avx512::is_available() {
            // SAFETY: the features were detected.
            let copier: Copier = |to, from| unsafe { avx512::copy::<true>(to, from) };
            // SAFETY: the features were detected.
            all.push(("avx512", |bytes| unsafe { avx512::sum(bytes) }, copier));
        }
    }
    all
}

fn check_all(bytes: &[u8]) {
    let expected = naive(bytes).to_be();
    for (name, sum, copy) in implementations() {
        assert_eq!(sum(bytes), expected, "{name} sums {} bytes", bytes.len());
        let mut copied = vec![0xa5u8; bytes.len() + 2];
        let inner = &mut copied[1..=bytes.len()];
        let start = inner.as_mut_ptr().cast::<MaybeUninit<u8>>();
        // SAFETY: the same bytes, borrowed for as long, and only initialised ones are written.
        let inner = unsafe { core::slice::from_raw_parts_mut(start, bytes.len()) };
        assert_eq!(
            copy(inner, bytes),
            expected,
            "{name} sums a copy of {} bytes",
            bytes.len()
        );
        assert_eq!(
            &copied[1..=bytes.len()],
            bytes,
            "{name} copies {} bytes",
            bytes.len()
        );
        assert_eq!(
            (copied[0], copied[bytes.len() + 1]),
            (0xa5, 0xa5),
            "{name} stays inside"
        );
    }
}

/// Every length around the vector sizes, at every alignment within a vector.
#[test]
fn all_implementations_agree_at_every_length_and_alignment() {
    let bytes: Vec<u8> = (0..700u32)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    for start in [0, 1, 2, 3, 7, 8, 31, 32, 33, 63] {
        for len in 0..600 {
            check_all(&bytes[start..start + len]);
        }
    }
}

/// Every implementation that this machine can run copies without summing, too, and stays inside.
#[test]
fn copies_without_sums_at_every_length_and_alignment() {
    type Plain = fn(&mut [MaybeUninit<u8>], &[u8]) -> u16;
    let mut all: Vec<Plain> = vec![scalar::copy::<false>, copy_block::<false>];
    #[cfg(target_arch = "x86_64")]
    if avx2::is_available() {
        // SAFETY: the features were detected.
        all.push(|to, from| unsafe { avx2::copy::<false>(to, from) });
    }
    let bytes: Vec<u8> = (0..BLOCK + 77).map(|i| (i * 31 + i / 251) as u8).collect();
    let rows = (0..600).chain([4096, BLOCK - 1, BLOCK, BLOCK + 1, BLOCK + 77]);
    for (len, start) in rows.flat_map(|len| [0, 1, 2, 31, 64].map(|start| (len, start))) {
        let mut copied = vec![MaybeUninit::new(0xa5u8); start + len + 1];
        for plain in &all {
            copied.fill(MaybeUninit::new(0xa5));
            assert_eq!(plain(&mut copied[start..start + len], &bytes[..len]), 0);
            // SAFETY: all are initialised.
            let now = copied.iter().map(|byte| unsafe { byte.assume_init() });
            let inside = bytes[..len].iter().copied();
            let meant = std::iter::repeat_n(0xa5, start).chain(inside).chain([0xa5]);
            assert!(now.eq(meant), "{len} bytes at {start}");
        }
        let mut copied = vec![0; len];
        copy(&mut copied, &bytes[..len]);
        assert_eq!(copied, bytes[..len]);
    }
}

/// Class 46: 0xFFFF against 0, and the largest sums a block can hold.
#[test]
fn extreme_bytes_do_not_overflow() {
    for fill in [0x00, 0x7f, 0x80, 0xff] {
        for len in [0, 1, 2, 63, 64, 65, 255, 256, 257, 4096, BLOCK - 1, BLOCK] {
            check_all(&vec![fill; len]);
        }
    }
    assert_eq!(Sum::of(&[0; 128]), Sum(0));
    assert_eq!(Sum::of(&[0xff; 128]), Sum(0xffff));
}

#[test]
fn blocks_join() {
    for len in [BLOCK + 1, BLOCK + 2, 3 * BLOCK, 3 * BLOCK + 77] {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + i / 251) as u8).collect();
        assert_eq!(Sum::of(&bytes).0, naive(&bytes).to_be(), "{len} bytes");
        let mut copied = vec![0; len];
        assert_eq!(copy_and_sum(&mut copied, &bytes), Sum::of(&bytes));
        assert_eq!(copied, bytes);
    }
}

/// The example of RFC 1071 §3.
#[test]
fn rfc_example() {
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    let sum = Sum::of(&bytes);
    assert_eq!(sum, Sum::word(0xddf2));
    assert_eq!(sum.finish_bytes(), [0x22, 0x0d]);
}

/// Class 46: a sum of all ones stores 0, which UDP must not, and both are valid; all zeros are not.
#[test]
fn both_zeros() {
    let sum = Sum::of(&[0xff, 0xff]);
    assert_eq!(sum.finish_bytes(), [0, 0]);
    assert_eq!(sum.finish_nonzero_bytes(), [0xff, 0xff]);
    assert!(Sum::of(&[0xff, 0xff, 0, 0]).is_valid());
    assert!(Sum::of(&[0xff, 0xff, 0xff, 0xff]).is_valid());
    assert!(!Sum::of(&[0, 0, 0, 0]).is_valid());
    assert_eq!(Sum::of(&[0, 1]).finish_nonzero_bytes(), [0xff, 0xfe]);
}

/// RFC 1624 §5: the case that equation 4 of RFC 1141 gets wrong.
#[test]
fn incremental_update_keeps_the_right_zero() {
    let before = Sum::from_checksum([0xdd, 0x2f]);
    let after = before.replace(Sum::word(0x5555), Sum::word(0x3285));
    assert_eq!(after.finish_bytes(), [0x00, 0x00]);
}

#[test]
fn pseudo_headers_sum_like_their_bytes() {
    let (source, destination) = ([192, 0, 2, 1], [198, 51, 100, 7]);
    let v4 = [192, 0, 2, 1, 198, 51, 100, 7, 0, 6, 0xff, 0xfe];
    let sum = Sum::pseudo_header(&Address::v4(source), &Address::v4(destination), 6, 0xfffe);
    assert_eq!(sum, Sum::of(&v4));

    let (source, destination) = ([0x20; 16], [0xfe; 16]);
    let v6 = [
        &source[..],
        &destination,
        &0x0001_2345u32.to_be_bytes(),
        &[0, 0, 0, 17],
    ]
    .concat();
    let sum = Sum::pseudo_header(
        &Address::v6(source),
        &Address::v6(destination),
        17,
        0x0001_2345,
    );
    assert_eq!(sum, Sum::of(&v6));
}

#[test]
#[should_panic(expected = "different lengths")]
fn copies_of_different_lengths_are_the_callers_fault() {
    copy_and_sum(&mut [0; 3], &[0; 4]);
}

/// Eight bytes at a time, all ones often: carries run through, and round.
fn address_bytes() -> impl Strategy<Value = [u8; 16]> {
    let half = || prop_oneof![Just(0u64), Just(u64::MAX), Just(u64::MAX - 1), any::<u64>()];
    (half(), half()).prop_map(|(a, b)| {
        let halves = u128::from(a) << 64 | u128::from(b);
        halves.to_be_bytes()
    })
}

proptest! {
    #[test]
    fn pseudo_headers_lose_no_carry(
        source in address_bytes(), destination in address_bytes(),
        protocol: u8, len in prop_oneof![Just(0), Just(u32::MAX), any::<u32>()],
    ) {
        let bytes = [&source[..], &destination, &len.to_be_bytes(), &[0, 0, 0, protocol]].concat();
        let (source, destination) = (Address::v6(source), Address::v6(destination));
        prop_assert_eq!(Sum::pseudo_header(&source, &destination, protocol, len), Sum::of(&bytes));
    }

    #[test]
    fn words_sum_like_their_bytes(before: u16, bytes: [u8; 20]) {
        let (words, _) = bytes.as_chunks::<4>();
        let words: [u32; 5] = core::array::from_fn(|index| u32::from_ne_bytes(words[index]));
        let sum = Sum(before) + Sum::of(&bytes);
        prop_assert_eq!(Sum(before).with_wire_words(words), sum);
    }

    #[test]
    fn all_implementations_agree(
        bytes in proptest::collection::vec(any::<u8>(), 0..5000), skip in 0usize..64,
    ) {
        check_all(&bytes[skip.min(bytes.len())..]);
    }

    /// RFC 1071 §2A, class 46: odd lengths at odd addresses.
    #[test]
    fn adjacent_runs_join_at_any_offset(
        bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..300,
    ) {
        let (before, after) = bytes.split_at(cut.min(bytes.len()));
        let joined = Sum::of(before).then(Sum::of(after), before.len());
        prop_assert_eq!(joined, Sum::of(&bytes));
    }

    #[test]
    fn what_is_finished_is_valid(mut bytes in proptest::collection::vec(any::<u8>(), 2..200)) {
        bytes[..2].fill(0);
        let checksum = Sum::of(&bytes).finish_bytes();
        bytes[..2].copy_from_slice(&checksum);
        prop_assert!(Sum::of(&bytes).is_valid() || bytes.iter().all(|byte| *byte == 0));
        bytes[1] ^= 0x10;
        prop_assert!(!Sum::of(&bytes).is_valid());
    }

    #[test]
    fn replacing_equals_summing_again(
        mut bytes in proptest::collection::vec(any::<u8>(), 4..80), at in 0usize..2, new: u16,
    ) {
        bytes[3] |= 1; // not all zero
        let before = Sum::of(&bytes);
        let old = u16::from_be_bytes([bytes[2 * at], bytes[2 * at + 1]]);
        bytes[2 * at..2 * at + 2].copy_from_slice(&new.to_be_bytes());
        let after = Sum::of(&bytes);
        let updated = before.replace(Sum::word(old), Sum::word(new));
        prop_assert!(updated == after || (updated, after) == (Sum(0xffff), Sum(0)));
    }
}
