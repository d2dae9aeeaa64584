//! Sums of 32 bytes at a time with AVX2.
//!
//! Each vector is added twice to 32-bit lanes: whole, modulo 2^32, and shifted down to its upper words. The sum of the
//! upper words is exact, and taking it off the first sum leaves that of the lower words, which is exact too because a
//! block's sum is below 2^31. That is three instructions for 32 bytes, one less than masking the lower words out.

use super::BLOCK;
use core::arch::asm;
use core::arch::x86_64::{
    __m128i, __m256i, _mm_add_epi32, _mm_cvtsi128_si32, _mm_shuffle_epi32, _mm256_add_epi32,
    _mm256_castsi256_si128, _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_setzero_si256,
    _mm256_slli_epi32, _mm256_srli_epi32, _mm256_storeu_si256, _mm256_sub_epi32,
};
use core::mem::MaybeUninit;

/// Bytes of one vector.
const VECTOR: usize = 32;
/// Vectors of one turn of the loop.
const LANES: usize = 4;

/// Whether this processor has what [`sum`] and [`copy`] need.
pub(super) fn is_available() -> bool {
    is_x86_feature_detected!("avx2")
}

/// The folded sum of at most [`BLOCK`] bytes.
#[target_feature(enable = "avx2")]
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
    lanes.fold(tail)
}

/// Copies bytes, at most [`BLOCK`] of them if `SUM`, and returns their folded sum, or else 0; both slices are of one length.
#[target_feature(enable = "avx2")]
pub(super) fn copy<const SUM: bool>(destination: &mut [MaybeUninit<u8>], source: &[u8]) -> u16 {
    debug_assert!(!SUM || source.len() <= BLOCK);
    debug_assert_eq!(destination.len(), source.len());
    let mut lanes = Lanes::<SUM>::new();
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
    // The tail goes with the bytes before it, as one whole vector.
    match (
        source.last_chunk::<VECTOR>(),
        destination.last_chunk_mut::<VECTOR>(),
    ) {
        (Some(from), Some(to)) => store(to, load(from)),
        _ => {
            destination.write_copy_of_slice(source);
        }
    }
    lanes.fold(tail)
}

/// Independent accumulators of 8 sums each: of whole vectors and of their upper words.
///
/// Without `SUM` they are none, and the sum is 0.
struct Lanes<const SUM: bool> {
    whole: [__m256i; LANES],
    upper: [__m256i; LANES],
}

impl<const SUM: bool> Lanes<SUM> {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new() -> Self {
        let zero = _mm256_setzero_si256();
        Lanes {
            whole: [zero; LANES],
            upper: [zero; LANES],
        }
    }

    /// Adds the 16 words of a vector.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn add(&mut self, lane: usize, vector: __m256i) {
        if !SUM {
            return;
        }
        self.whole[lane] = _mm256_add_epi32(self.whole[lane], vector);
        self.upper[lane] = _mm256_add_epi32(self.upper[lane], _mm256_srli_epi32::<16>(vector));
    }

    /// The folded sum of all words and of `tail`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn fold(self, tail: &[u8]) -> u16 {
        if !SUM {
            return 0;
        }
        let whole = total(self.whole);
        let upper = total(self.upper);
        let lower = _mm256_sub_epi32(whole, _mm256_slli_epi32::<16>(upper));
        let both = _mm256_add_epi32(lower, upper);
        let half = _mm256_extracti128_si256::<1>(both);
        let sum = reduce(_mm_add_epi32(_mm256_castsi256_si128(both), half));
        super::scalar::fold(u128::from(sum) + u128::from(super::scalar::sum_short(tail)))
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn total([a, b, c, d]: [__m256i; LANES]) -> __m256i {
    _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d))
}

#[inline]
#[target_feature(enable = "avx2")]
fn reduce(four: __m128i) -> u32 {
    let two = _mm_add_epi32(four, _mm_shuffle_epi32::<0b01_00_11_10>(four));
    let one = _mm_add_epi32(two, _mm_shuffle_epi32::<0b10_11_00_01>(two));
    _mm_cvtsi128_si32(one) as u32
}

#[inline]
#[target_feature(enable = "avx2")]
fn load(chunk: &[u8; VECTOR]) -> __m256i {
    // SAFETY: reads the chunk's 32 bytes; the load needs no alignment.
    unsafe { _mm256_loadu_si256(chunk.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(chunk: &mut [MaybeUninit<u8>; VECTOR], vector: __m256i) {
    // SAFETY: writes the chunk's 32 bytes; the store needs no alignment.
    unsafe { _mm256_storeu_si256(chunk.as_mut_ptr().cast(), vector) }
}

/// The same vector, of which the compiler no longer knows that it was loaded: it would make a call to `memcpy` of the
/// loop's stores, and a second pass of its sums.
#[inline]
#[target_feature(enable = "avx2")]
fn opaque(mut vector: __m256i) -> __m256i {
    // SAFETY: no instruction.
    unsafe {
        asm!("/* {0} */", inout(ymm_reg) vector, options(pure, nomem, nostack, preserves_flags))
    };
    vector
}
