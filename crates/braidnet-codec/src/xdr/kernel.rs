//! The byte-order work on arrays of samples, in two versions that give the same results.
//!
//! A sample has the same layout on the wire and in memory but for the byte order within each field (see [`Sample`]), so
//! encoding and decoding are one permutation of every 16 bytes, its own inverse: reverse four, reverse four, reverse eight.
//! That is one shuffle instruction for a sample with AVX2. The one thing that a peer can get wrong in a sample, its
//! enumerator, is collected by OR over the whole run and judged once, before the samples become visible as such.
//!
//! AVX-512 was tried and left out: two samples in a register gain nothing over one, because a batch of 4 KiB is then as fast as
//! memory is; nor does a sum over such registers gain on the plain loop below, which spreads its additions over
//! eight partial sums by the index of the sample, so that every machine finds the same bits.

use std::mem::MaybeUninit;

use super::sample::{QUALITY_AT, QUALITY_BITS};
use super::{DecodeError, Quality, SAMPLE_BYTES, Sample};

/// A version of the array code that this processor can run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kernel(Version);

// Only `Kernel::best` makes a version other than `Portable`, after asking the processor: the calls into vector code rest
// on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Version {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
}

impl Kernel {
    /// The version for every machine.
    pub const PORTABLE: Kernel = Kernel(Version::Portable);

    /// The fastest version for this processor.
    #[inline]
    pub fn best() -> Kernel {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            return Kernel(Version::Avx2);
        }
        Kernel::PORTABLE
    }

    /// Every version that this processor can run, slowest first.
    pub fn available() -> impl Iterator<Item = Kernel> {
        let best = Kernel::best();
        std::iter::once(Kernel::PORTABLE).chain((best != Kernel::PORTABLE).then_some(best))
    }

    /// A word for reports.
    pub fn name(self) -> &'static str {
        match self.0 {
            Version::Portable => "portable",
            #[cfg(target_arch = "x86_64")]
            Version::Avx2 => "avx2",
        }
    }

    /// Decodes whole samples and appends them.
    ///
    /// Bytes of `wire` behind the last whole sample are ignored. Either all samples are appended or none.
    ///
    /// # Errors
    /// [`DecodeError::BadEnumeration`], with the first number that is no [`Quality`].
    #[inline]
    pub fn decode(self, wire: &[u8], to: &mut Vec<Sample>) -> Result<(), DecodeError> {
        let (wire, _) = wire.as_chunks::<SAMPLE_BYTES>();
        to.reserve(wire.len());
        let room = &mut to.spare_capacity_mut()[..wire.len()];
        let qualities = match self.0 {
            Version::Portable => decode_portable(wire, room),
            #[cfg(target_arch = "x86_64")]
            Version::Avx2 => {
                // SAFETY: a kernel of this version exists only where the processor has AVX2; `room` is as long as `wire`.
                unsafe {
                    x86::swap_avx2(wire.as_ptr().cast(), room.as_mut_ptr().cast(), wire.len())
                }
            }
        };
        if qualities & !QUALITY_BITS != 0 {
            return Err(first_unknown_quality(wire));
        }
        let length = to.len() + wire.len();
        // SAFETY: `reserve` made room for this many, the kernel wrote all of them, every enumerator among them is
        // assigned, and the other fields take any bits.
        unsafe { to.set_len(length) };
        Ok(())
    }

    /// Encodes as many samples as both slices hold, and answers how many bytes that is.
    #[inline]
    pub fn encode(self, samples: &[Sample], wire: &mut [u8]) -> usize {
        let (wire, _) = wire.as_chunks_mut::<SAMPLE_BYTES>();
        let count = samples.len().min(wire.len());
        let (samples, wire) = (&samples[..count], &mut wire[..count]);
        match self.0 {
            Version::Portable => encode_portable(samples, wire),
            #[cfg(target_arch = "x86_64")]
            Version::Avx2 => {
                // SAFETY: a kernel of this version exists only where the processor has AVX2; both slices hold `count`
                // samples, and a `Sample` has no padding.
                unsafe {
                    x86::swap_avx2(samples.as_ptr().cast(), wire.as_mut_ptr().cast(), count);
                }
            }
        }
        count * SAMPLE_BYTES
    }
}

/// Writes every sample and answers the OR of their enumerators' numbers.
fn decode_portable(wire: &[[u8; SAMPLE_BYTES]], to: &mut [MaybeUninit<Sample>]) -> u32 {
    let mut qualities = 0;
    for (bytes, to) in wire.iter().zip(to) {
        let number = u32::from_be_bytes(field(bytes, QUALITY_AT));
        qualities |= number;
        to.write(Sample {
            channel: i32::from_be_bytes(field(bytes, 0)),
            sequence: u32::from_be_bytes(field(bytes, 4)),
            time_ns: i64::from_be_bytes(field(bytes, 8)),
            gain: f32::from_be_bytes(field(bytes, 16)),
            quality: match number & QUALITY_BITS {
                0 => Quality::Good,
                1 => Quality::Suspect,
                2 => Quality::Bad,
                _ => Quality::Missing,
            },
            value: f64::from_be_bytes(field(bytes, 24)),
        });
    }
    qualities
}

fn encode_portable(samples: &[Sample], wire: &mut [[u8; SAMPLE_BYTES]]) {
    for (sample, wire) in samples.iter().zip(wire) {
        let mut put = |at: usize, bytes: &[u8]| wire[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &sample.channel.to_be_bytes());
        put(4, &sample.sequence.to_be_bytes());
        put(8, &sample.time_ns.to_be_bytes());
        put(16, &sample.gain.to_be_bytes());
        put(QUALITY_AT, &(sample.quality as u32).to_be_bytes());
        put(24, &sample.value.to_be_bytes());
    }
}

#[inline(always)]
fn field<const N: usize>(bytes: &[u8; SAMPLE_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}

/// Finds the enumerator that a kernel's OR has found to be there.
#[cold]
fn first_unknown_quality(wire: &[[u8; SAMPLE_BYTES]]) -> DecodeError {
    let unknown = wire
        .iter()
        .map(|bytes| i32::from_be_bytes(field(bytes, QUALITY_AT)))
        .find(|&number| Quality::try_from(number).is_err());
    DecodeError::BadEnumeration {
        // An OR has a bit only where one of its terms has it, so there is one.
        value: unknown.unwrap_or(0),
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm256_broadcastsi128_si256, _mm256_extract_epi32,
        _mm256_loadu_si256, _mm256_or_si256, _mm256_setzero_si256, _mm256_shuffle_epi8,
        _mm256_storeu_si256,
    };

    use super::{QUALITY_AT, SAMPLE_BYTES};

    /// Where each byte of 16 comes from: two fields of four bytes reversed, one of eight. Both halves of a sample have this
    /// shape.
    static REVERSE_4_4_8: [u8; 16] = [3, 2, 1, 0, 7, 6, 5, 4, 15, 14, 13, 12, 11, 10, 9, 8];

    /// Copies `samples` samples from one byte order to the other, and answers the OR of their enumerators as the
    /// destination has them (which means something only where that is the machine's order).
    ///
    /// # Safety
    /// The processor has AVX2; `from` is readable and `to` writable for `samples` times 32 bytes, and they do not overlap.
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn swap_avx2(from: *const u8, to: *mut u8, samples: usize) -> u32 {
        // SAFETY: the load takes any alignment; the table has 16 bytes.
        let order = unsafe { _mm_loadu_si128((&raw const REVERSE_4_4_8).cast()) };
        let order = _mm256_broadcastsi128_si256(order);
        let mut seen = _mm256_setzero_si256();
        for index in 0..samples {
            // SAFETY: sample `index` lies below `samples`, in readable memory.
            let source = unsafe { from.add(index * SAMPLE_BYTES) };
            // SAFETY: sample `index` lies below `samples`, in writable memory.
            let target = unsafe { to.add(index * SAMPLE_BYTES) };
            // SAFETY: the load takes any alignment; a sample's 32 bytes are readable.
            let bytes = unsafe { _mm256_loadu_si256(source.cast::<__m256i>()) };
            let swapped = _mm256_shuffle_epi8(bytes, order);
            // SAFETY: the store takes any alignment; a sample's 32 bytes are writable.
            unsafe { _mm256_storeu_si256(target.cast::<__m256i>(), swapped) };
            seen = _mm256_or_si256(seen, swapped);
        }
        const QUALITY_LANE: i32 = (QUALITY_AT / 4) as i32;
        _mm256_extract_epi32::<QUALITY_LANE>(seen) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_kernel_is_the_last_available() {
        assert_eq!(Kernel::available().last(), Some(Kernel::best()));
        assert_eq!(Kernel::available().next(), Some(Kernel::PORTABLE));
    }

    #[test]
    fn an_unknown_quality_appends_nothing_wherever_it_stands() {
        let good = Sample {
            channel: 1,
            sequence: 2,
            time_ns: 3,
            gain: 4.0,
            quality: Quality::Missing,
            value: 5.0,
        };
        for kernel in Kernel::available() {
            for count in 1..=5 {
                for bad in 0..count {
                    let mut wire = vec![0; count * SAMPLE_BYTES];
                    kernel.encode(&vec![good; count], &mut wire);
                    wire[bad * SAMPLE_BYTES + QUALITY_AT + 3] = 4;
                    let mut samples = vec![good; 2];
                    assert_eq!(
                        kernel.decode(&wire, &mut samples),
                        Err(DecodeError::BadEnumeration { value: 4 }),
                        "{} {count} {bad}",
                        kernel.name()
                    );
                    assert_eq!(samples.len(), 2);
                }
            }
        }
    }
}
