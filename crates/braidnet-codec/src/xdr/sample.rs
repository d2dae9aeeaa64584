//! One structure of integers and reals, and the application's work on an array of them.

use thiserror::Error;

use super::{DecodeError, Decoder, EncodeError, Encoder, Xdr};

/// Bytes of a [`Sample`] on the wire and in memory.
pub const SAMPLE_BYTES: usize = 32;

/// One measured value: every integral and real primitive of XDR that 32 bytes have room for.
///
/// In XDR's language (RFC 4506 §6.3):
///
/// ```text
/// enum Quality { GOOD = 0, SUSPECT = 1, BAD = 2, MISSING = 3 };
/// struct Sample {
///     int          channel;
///     unsigned int sequence;
///     hyper        time_ns;
///     float        gain;
///     Quality      quality;
///     double       value;
/// };
/// ```
///
/// The order of the fields leaves no gaps in memory, so that both forms have the same layout but for the byte order
/// within each field. The vector code depends on it.
#[derive(Clone, Copy, PartialEq, Debug)]
#[repr(C)]
pub struct Sample {
    /// Which source was measured.
    pub channel: i32,
    /// Counts the samples of a channel, wrapping.
    pub sequence: u32,
    /// When, in nanoseconds.
    pub time_ns: i64,
    /// By what `value` is to be multiplied.
    pub gain: f32,
    /// How far `value` can be trusted.
    pub quality: Quality,
    /// What was measured.
    pub value: f64,
}

const _: () = assert!(size_of::<Sample>() == SAMPLE_BYTES);
const _: () = assert!(std::mem::offset_of!(Sample, quality) == QUALITY_AT);

/// Where the enumeration stands in a sample, on the wire and in memory, in bytes.
pub(super) const QUALITY_AT: usize = 20;

/// The bits that an assigned [`Quality`] may have set: the enumerators are the numbers below a power of two.
pub(super) const QUALITY_BITS: u32 = 3;

/// How far a sample can be trusted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u32)]
pub enum Quality {
    /// As measured.
    Good = 0,
    /// Measured under doubt.
    Suspect = 1,
    /// Known to be wrong.
    Bad = 2,
    /// Not measured.
    Missing = 3,
}

/// A number that is no [`Quality`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{0} is no quality")]
pub struct UnknownQuality(pub i32);

impl TryFrom<i32> for Quality {
    type Error = UnknownQuality;

    #[inline]
    fn try_from(number: i32) -> Result<Quality, UnknownQuality> {
        match number {
            0 => Ok(Quality::Good),
            1 => Ok(Quality::Suspect),
            2 => Ok(Quality::Bad),
            3 => Ok(Quality::Missing),
            other => Err(UnknownQuality(other)),
        }
    }
}

impl From<Quality> for i32 {
    #[inline]
    fn from(quality: Quality) -> i32 {
        quality as i32
    }
}

impl Xdr for Sample {
    const MIN_BYTES: usize = SAMPLE_BYTES;

    #[inline]
    fn encode(&self, to: &mut Encoder<'_>) -> Result<(), EncodeError> {
        // One check for the room of all fields.
        let mut fields = Encoder::new(to.take(SAMPLE_BYTES)?);
        fields.int(self.channel)?;
        fields.unsigned(self.sequence)?;
        fields.hyper(self.time_ns)?;
        fields.float(self.gain)?;
        fields.enumeration(self.quality)?;
        fields.double(self.value)
    }

    #[inline]
    fn decode(from: &mut Decoder<'_>) -> Result<Sample, DecodeError> {
        // One check for the bytes of all fields.
        let bytes: [u8; SAMPLE_BYTES] = from.fixed()?;
        let mut fields = Decoder::new(&bytes);
        let channel = fields.int()?;
        let sequence = fields.unsigned()?;
        let time_ns = fields.hyper()?;
        let gain = fields.float()?;
        let quality = fields.enumeration()?;
        let value = fields.double()?;
        Ok(Sample {
            channel,
            sequence,
            time_ns,
            gain,
            quality,
            value,
        })
    }
}

/// What [`sum`] finds in an array.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Totals {
    /// The wrapping sum of all channels, sequences, times and qualities.
    pub integral: i64,
    /// The sum of all gains and values, in an order of additions that depends on the number of samples alone, so that every
    /// machine finds the same bits (a sum that is not a number may differ in its payload).
    pub real: f64,
}

/// Partial sums of reals: enough to keep the adders of any machine busy.
const LANES: usize = 8;

/// Sums every field of every sample: the least work that has to look at all that was decoded.
///
/// Sample `i` adds its gain plus its value to partial sum `i` modulo 8; at the end these are added pairwise.
pub fn sum(samples: &[Sample]) -> Totals {
    let mut integral = 0i64;
    let mut reals = [0f64; LANES];
    let mut add = |lane: usize, sample: &Sample| {
        integral = integral
            .wrapping_add(i64::from(sample.channel))
            .wrapping_add(i64::from(sample.sequence))
            .wrapping_add(i64::from(sample.quality as u32))
            .wrapping_add(sample.time_ns);
        reals[lane] += f64::from(sample.gain) + sample.value;
    };
    let (rounds, rest) = samples.as_chunks::<LANES>();
    for round in rounds {
        for (lane, sample) in round.iter().enumerate() {
            add(lane, sample);
        }
    }
    for (lane, sample) in rest.iter().enumerate() {
        add(lane, sample);
    }
    let [a, b, c, d, e, f, g, h] = reals;
    Totals {
        integral,
        real: ((a + e) + (c + g)) + ((b + f) + (d + h)),
    }
}
