//! The laboratory's message: as many samples as its size has room for.
//!
//! ```text
//! struct Batch {
//!     Sample samples<>;
//!     opaque fill<28>;
//! };
//! ```
//!
//! A batch of exactly `N` bytes (a multiple of four, at least 8) is filled like this: 4 bytes with the number of samples,
//! which is (N - 8) / 32 rounded down; the samples, 32 bytes each; 4 bytes with the length of the fill, which is what is
//! left, 0 to 28; and so many bytes of fill, all zero. In 4096 bytes: 4 + 127 x 32 + 4 + 24.

use super::sample::SAMPLE_BYTES;
use super::{DecodeError, Decoder, EncodeError, Encoder, Kernel, Sample, UNIT, pad_bytes};

/// The longest fill: one unit less than a sample.
const FILL_LIMIT: u32 = (SAMPLE_BYTES - UNIT) as u32;

/// How many samples and fill bytes make a batch of a given size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchShape {
    /// Samples in the batch.
    pub samples: usize,
    /// Bytes of fill behind them, 0 to 28 and a multiple of four.
    pub fill_bytes: usize,
}

impl BatchShape {
    /// The shape that fills `bytes` bytes exactly.
    ///
    /// # Errors
    /// [`EncodeError::UnevenBatch`] if `bytes` is below 8 or no multiple of four, [`EncodeError::TooLong`] if it takes more
    /// samples than 32 bits can count.
    pub const fn filling(bytes: usize) -> Result<BatchShape, EncodeError> {
        if bytes < 2 * UNIT || !bytes.is_multiple_of(UNIT) {
            return Err(EncodeError::UnevenBatch { bytes });
        }
        let room = bytes - 2 * UNIT;
        let samples = room / SAMPLE_BYTES;
        if samples > u32::MAX as usize {
            return Err(EncodeError::TooLong {
                length: samples,
                limit: u32::MAX,
            });
        }
        Ok(BatchShape {
            samples,
            fill_bytes: room % SAMPLE_BYTES,
        })
    }
}

/// Encodes `samples` as a batch that fills `out` exactly.
///
/// # Errors
/// Those of [`BatchShape::filling`], and [`EncodeError::WrongCount`] if `samples` are not the number that it says.
pub fn encode_batch(samples: &[Sample], out: &mut [u8]) -> Result<(), EncodeError> {
    let shape = BatchShape::filling(out.len())?;
    if samples.len() != shape.samples {
        return Err(EncodeError::WrongCount {
            samples: samples.len(),
            fitting: shape.samples,
        });
    }
    let mut encoder = Encoder::new(out);
    // `filling` has seen that both numbers have 32 bits.
    encoder.unsigned(shape.samples as u32)?;
    Kernel::best().encode(samples, encoder.take(shape.samples * SAMPLE_BYTES)?);
    encoder.unsigned(shape.fill_bytes as u32)?;
    encoder.take(shape.fill_bytes)?.fill(0);
    Ok(())
}

/// Decodes a batch that lies in one piece, replacing what `samples` holds and keeping its memory.
///
/// # Errors
/// Any of [`DecodeError`]; `samples` is empty then.
pub fn decode_into(samples: &mut Vec<Sample>, wire: &[u8]) -> Result<(), DecodeError> {
    decode_scattered_into(samples, &[wire])
}

/// Decodes a batch that lies in several pieces, as segments brought it, replacing what `samples` holds and keeping its
/// memory.
///
/// Pieces may end anywhere. Only the samples that straddle two pieces are gathered; the others are decoded where they lie.
///
/// # Errors
/// Any of [`DecodeError`]; `samples` is empty then.
pub fn decode_scattered_into(
    samples: &mut Vec<Sample>,
    pieces: &[&[u8]],
) -> Result<(), DecodeError> {
    samples.clear();
    let bytes = pieces
        .iter()
        .fold(0, |all: usize, piece| all.saturating_add(piece.len()));
    let mut decoder = BatchDecoder::new(u32::try_from(bytes / SAMPLE_BYTES).unwrap_or(u32::MAX));
    let outcome = pieces
        .iter()
        .try_for_each(|piece| decoder.feed(piece, samples))
        .and_then(|()| decoder.finish());
    if outcome.is_err() {
        samples.clear();
    }
    outcome
}

/// Decodes one batch from pieces as they come.
///
/// Holds at most one item that straddles two pieces, and reserves memory only for samples that have arrived, whatever
/// number the batch announces. A decoder that has answered an error answers it from then on.
#[derive(Clone, Debug)]
pub struct BatchDecoder {
    stage: Stage,
    sample_limit: u32,
    /// The first bytes of an item whose rest has not come.
    carry: [u8; SAMPLE_BYTES],
    carried: usize,
}

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    SampleCount,
    Samples { left: u32 },
    FillLength,
    Fill { left: u32, pad: u32 },
    Complete,
    Failed(DecodeError),
}

impl BatchDecoder {
    /// A decoder at the start of a batch of at most `sample_limit` samples.
    pub fn new(sample_limit: u32) -> BatchDecoder {
        BatchDecoder {
            stage: Stage::SampleCount,
            sample_limit,
            carry: [0; SAMPLE_BYTES],
            carried: 0,
        }
    }

    /// Takes the next piece of the batch and appends the samples that it completes.
    ///
    /// # Errors
    /// Any of [`DecodeError`] but [`DecodeError::Truncated`]. Samples of earlier pieces stay appended.
    pub fn feed(&mut self, piece: &[u8], to: &mut Vec<Sample>) -> Result<(), DecodeError> {
        let mut rest = piece;
        loop {
            match self.step(&mut rest, to) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => {
                    self.stage = Stage::Failed(error);
                    return Err(error);
                }
            }
        }
    }

    /// Ends the batch.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if it is not complete, naming what the item at hand lacks, or the error that
    /// [`BatchDecoder::feed`] answered.
    pub fn finish(&self) -> Result<(), DecodeError> {
        let needed = match self.stage {
            Stage::Complete => return Ok(()),
            Stage::Failed(error) => return Err(error),
            Stage::SampleCount | Stage::FillLength => UNIT,
            Stage::Samples { .. } => SAMPLE_BYTES,
            Stage::Fill { left, pad } => u64::from(left).saturating_add(u64::from(pad)) as usize,
        };
        Err(DecodeError::Truncated {
            needed,
            left: self.carried,
        })
    }

    /// Takes what the stage can use of `rest`; answers whether the stage has changed.
    #[inline]
    fn step(&mut self, rest: &mut &[u8], to: &mut Vec<Sample>) -> Result<bool, DecodeError> {
        match self.stage {
            Stage::SampleCount => {
                let Some(count) = self.number(rest, self.sample_limit)? else {
                    return Ok(false);
                };
                self.stage = Stage::Samples { left: count };
            }
            Stage::Samples { left: 0 } => self.stage = Stage::FillLength,
            Stage::Samples { left } => {
                let taken = self.samples(rest, left, to)?;
                if taken == 0 {
                    return Ok(false);
                }
                self.stage = Stage::Samples { left: left - taken };
            }
            Stage::FillLength => {
                let Some(length) = self.number(rest, FILL_LIMIT)? else {
                    return Ok(false);
                };
                let pad = pad_bytes(length as usize) as u32;
                self.stage = Stage::Fill { left: length, pad };
            }
            Stage::Fill { left: 0, pad: 0 } => self.stage = Stage::Complete,
            Stage::Fill { left, pad } => {
                if rest.is_empty() {
                    return Ok(false);
                }
                self.stage = skip_fill(rest, left, pad)?;
            }
            Stage::Complete if rest.is_empty() => return Ok(false),
            Stage::Complete => return Err(DecodeError::TrailingBytes { bytes: rest.len() }),
            Stage::Failed(error) => return Err(error),
        }
        Ok(true)
    }

    /// Takes up to `left` samples and answers how many: first the one that is carried, then all that lie whole in `rest`,
    /// then carries the start of the next.
    fn samples(
        &mut self,
        rest: &mut &[u8],
        left: u32,
        to: &mut Vec<Sample>,
    ) -> Result<u32, DecodeError> {
        if self.carried > 0 {
            let Some(sample) = self.gather::<SAMPLE_BYTES>(rest) else {
                return Ok(0);
            };
            Kernel::PORTABLE.decode(&sample, to)?;
            return Ok(1);
        }
        let whole = u32::try_from(rest.len() / SAMPLE_BYTES)
            .unwrap_or(u32::MAX)
            .min(left);
        if whole == 0 {
            // Less than a sample is there: this only carries it.
            let carried = self.gather::<SAMPLE_BYTES>(rest);
            debug_assert!(carried.is_none());
            return Ok(0);
        }
        let (samples, behind) = rest.split_at(whole as usize * SAMPLE_BYTES);
        *rest = behind;
        Kernel::best().decode(samples, to)?;
        Ok(whole)
    }

    /// Takes a number of at most `limit`, once all its bytes are there.
    #[inline]
    fn number(&mut self, rest: &mut &[u8], limit: u32) -> Result<Option<u32>, DecodeError> {
        let Some(bytes) = self.gather::<UNIT>(rest) else {
            return Ok(None);
        };
        let length = Decoder::new(&bytes).unsigned()?;
        if length > limit {
            return Err(DecodeError::TooLong { length, limit });
        }
        Ok(Some(length))
    }

    /// Takes an item of `N` bytes from the carry and `rest`, or moves all of `rest` into the carry.
    #[inline]
    fn gather<const N: usize>(&mut self, rest: &mut &[u8]) -> Option<[u8; N]> {
        if self.carried == 0
            && let Some((item, behind)) = rest.split_first_chunk::<N>()
        {
            *rest = behind;
            return Some(*item);
        }
        let wanted = N - self.carried;
        let (more, behind) = rest.split_at(wanted.min(rest.len()));
        *rest = behind;
        self.carry[self.carried..self.carried + more.len()].copy_from_slice(more);
        self.carried += more.len();
        if self.carried < N {
            return None;
        }
        self.carried = 0;
        self.carry.first_chunk::<N>().copied()
    }
}

/// Skips fill, whose content is nobody's business, and the pad behind it, which is zero (RFC 4506 §3).
fn skip_fill(rest: &mut &[u8], left: u32, pad: u32) -> Result<Stage, DecodeError> {
    let (fill, behind) = rest.split_at(rest.len().min(left as usize));
    let (zeros, behind) = behind.split_at(behind.len().min(pad as usize));
    if zeros.iter().any(|&byte| byte != 0) {
        return Err(DecodeError::NonZeroPad);
    }
    *rest = behind;
    Ok(Stage::Fill {
        left: left - fill.len() as u32,
        pad: pad - zeros.len() as u32,
    })
}
