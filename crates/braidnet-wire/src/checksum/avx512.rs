//! Sums of 64 bytes at a time with AVX-512 and VNNI.
//!
//! `vpdpwssd` multiplies signed 16-bit words, here by one, and adds neighbouring pairs to a 32-bit lane in one
//! instruction. Flipping a word's top bit turns the unsigned word `u` into the signed `u - 32768`, so each vector of 32
//! words leaves the lanes short by exactly `32 * 32768` together. That is added back at the end; modulo 2^32 the result
//! is exact, because a block's sum is below 2^31.

use super::BLOCK;
use core::arch::asm;
use core::arch::x86_64::{
    __m512i, __mmask64, _mm512_add_epi32, _mm512_dpwssd_epi32, _mm512_loadu_si512,
    _mm512_maskz_loadu_epi8, _mm512_reduce_add_epi32, _mm512_set1_epi16, _mm512_setzero_si512,
    _mm512_storeu_si512, _mm512_xor_si512,
};
use core::mem::MaybeUninit;

/// Bytes of one vector.
const VECTOR: usize = 64;
/// Vectors of one turn of the loop: as many as it takes to hide the latency of `vpdpwssd`.
const LANES: usize = 4;
/// What the flipped top bits take off the sum for each vector.
const BIAS: u32 = 32 * 0x8000;

/// Whether this processor has what [`sum`] and [`copy`] need.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vnni")
        && is_x86_feature_detected!("avx512f")
}

/// The folded sum of at most [`BLOCK`] bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn sum(bytes: &[u8]) -> u16 {
    debug_assert!(bytes.len() <= BLOCK);
    let mut lanes = Lanes::<true>::new();
    let (strides, rest) = bytes.as_chunks::<{ VECTOR * LANES }>();
    for stride in strides {
        for (lane, chunk) in stride.as_chunks::<VECTOR>().0.iter().enumerate() {
            lanes.add(lane, load(chunk));
        }
    }
    let (chunks, tail) = rest.as_chunks::<VECTOR>();
    for (lane, chunk) in chunks.iter().enumerate() {
        lanes.add(lane, load(chunk));
    }
    lanes.add(LANES - 1, load_tail(tail));
    lanes.fold(bytes.len() / VECTOR + 1)
}

/// Copies bytes, at most [`BLOCK`] of them if `SUM`, and returns their folded sum, or else 0; both slices are of one length.
///
/// A store that crosses from one cache line to the next costs as much as two, so some first bytes go apart where that makes
/// all stores after them fit.
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
pub(super) fn copy<const SUM: bool>(destination: &mut [MaybeUninit<u8>], source: &[u8]) -> u16 {
    debug_assert!(!SUM || source.len() <= BLOCK);
    debug_assert_eq!(destination.len(), source.len());
    let mut lanes = Lanes::<SUM>::new();
    let head = bytes_before_line(destination);
    if head == 0 {
        let vectors = copy_lines(destination, source, &mut lanes);
        return lanes.fold(vectors);
    }
    let (Some(from), Some(to)) = (
        source.first_chunk::<VECTOR>(),
        destination.first_chunk_mut::<VECTOR>(),
    ) else {
        let vectors = copy_lines(destination, source, &mut lanes);
        return lanes.fold(vectors);
    };
    store(to, load(from));
    lanes.add(LANES - 1, load_tail(&source[..head]));
    let vectors = copy_lines(&mut destination[head..], &source[head..], &mut lanes);
    lanes.fold(vectors + 1)
}

/// How many bytes of `slice` lie before the first boundary of a cache line; zero if they are an odd number, which would
/// change places in the sum's words.
#[inline]
fn bytes_before_line(slice: &[MaybeUninit<u8>]) -> usize {
    let before = slice.as_ptr().addr().wrapping_neg() % VECTOR;
    if before.is_multiple_of(2) { before } else { 0 }
}

/// Copies and adds to `lanes`; the number of vectors added.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
fn copy_lines<const SUM: bool>(
    destination: &mut [MaybeUninit<u8>],
    source: &[u8],
    lanes: &mut Lanes<SUM>,
) -> usize {
    let (from, rest) = source.as_chunks::<{ VECTOR * LANES }>();
    let (to, rest_to) = destination.as_chunks_mut::<{ VECTOR * LANES }>();
    for (from, to) in from.iter().zip(to) {
        let chunks = from
            .as_chunks::<VECTOR>()
            .0
            .iter()
            .zip(to.as_chunks_mut::<VECTOR>().0);
        for (lane, (from, to)) in chunks.enumerate() {
            let vector = opaque(load(from));
            store(to, vector);
            lanes.add(lane, vector);
        }
    }
    let (from, tail) = rest.as_chunks::<VECTOR>();
    let (to, _) = rest_to.as_chunks_mut::<VECTOR>();
    for (lane, (from, to)) in from.iter().zip(to).enumerate() {
        let vector = opaque(load(from));
        store(to, vector);
        lanes.add(lane, vector);
    }
    if !tail.is_empty() {
        lanes.add(LANES - 1, load_tail(tail));
        // The tail goes with the bytes before it, as one whole vector: a masked store is slower than writing some bytes
        // twice.
        match (
            source.last_chunk::<VECTOR>(),
            destination.last_chunk_mut::<VECTOR>(),
        ) {
            (Some(from), Some(to)) => store(to, load(from)),
            _ => {
                destination.write_copy_of_slice(source);
            }
        }
    }
    source.len() / VECTOR + usize::from(!tail.is_empty())
}

/// Independent accumulators of 16 sums each.
///
/// Without `SUM` they are none, and the sum is 0.
struct Lanes<const SUM: bool>([__m512i; LANES]);

impl<const SUM: bool> Lanes<SUM> {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new() -> Self {
        Lanes([_mm512_setzero_si512(); LANES])
    }

    /// Adds the 32 words of a vector.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    fn add(&mut self, lane: usize, vector: __m512i) {
        if !SUM {
            return;
        }
        let signed = _mm512_xor_si512(vector, _mm512_set1_epi16(i16::MIN));
        self.0[lane] = _mm512_dpwssd_epi32(self.0[lane], signed, _mm512_set1_epi16(1));
    }

    /// The folded sum of all words of `vectors` vectors.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn fold(self, vectors: usize) -> u16 {
        if !SUM {
            return 0;
        }
        let [a, b, c, d] = self.0;
        let all = _mm512_add_epi32(_mm512_add_epi32(a, b), _mm512_add_epi32(c, d));
        let bias = (vectors as u32).wrapping_mul(BIAS);
        let sum = (_mm512_reduce_add_epi32(all) as u32).wrapping_add(bias);
        super::scalar::fold(u128::from(sum))
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn load(chunk: &[u8; VECTOR]) -> __m512i {
    // SAFETY: reads the chunk's 64 bytes; the load needs no alignment.
    unsafe { _mm512_loadu_si512(chunk.as_ptr().cast()) }
}

/// Fewer than 64 bytes, followed by zeros.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn load_tail(tail: &[u8]) -> __m512i {
    debug_assert!(tail.len() < VECTOR);
    let mask: __mmask64 = (1 << (tail.len() % VECTOR)) - 1;
    // SAFETY: reads only the bytes whose bit is set in the mask, which are those of `tail`.
    unsafe { _mm512_maskz_loadu_epi8(mask, tail.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn store(chunk: &mut [MaybeUninit<u8>; VECTOR], vector: __m512i) {
    // SAFETY: writes the chunk's 64 bytes; the store needs no alignment.
    unsafe { _mm512_storeu_si512(chunk.as_mut_ptr().cast(), vector) }
}

/// The same vector, of which the compiler no longer knows that it was loaded: it would make a call to `memcpy` of the
/// loop's stores, and a second pass of its sums.
#[inline]
#[target_feature(enable = "avx512f")]
fn opaque(mut vector: __m512i) -> __m512i {
    // SAFETY: no instruction.
    unsafe {
        asm!("/* {0} */", inout(zmm_reg) vector, options(pure, nomem, nostack, preserves_flags))
    };
    vector
}
