//! Record marking and XDR.

use super::double_word;
use braidnet_codec::record::{EMPTY_FRAGMENT_LIMIT, FrameError, RecordFramer};
use braidnet_codec::xdr::{
    BatchDecoder, BatchShape, DecodeError, Kernel, Quality, Sample, decode_into, encode_batch,
};

/// The longest record of this target.
const RECORD_LIMIT: u32 = 300;

/// A stream in chunks of any lengths has the records that it has in one piece.
pub fn record_marks(input: &[u8]) {
    let [chunk, stream @ ..] = input else { return };
    let mut framer = RecordFramer::new(RECORD_LIMIT);
    let (mut records, mut open, mut at) = (Vec::new(), Vec::new(), 0);
    let mut failed = None;
    while at < stream.len() {
        // Chunks of one to 64 bytes, of lengths that differ.
        let len = (1 + (usize::from(*chunk) + at) % 64).min(stream.len() - at);
        match framer.step(&stream[at..at + len]) {
            Ok(step) => {
                assert!((1..=len).contains(&step.bytes()) && step.mark_bytes <= 4);
                open.extend_from_slice(&stream[at + step.mark_bytes..at + step.bytes()]);
                at += step.bytes();
                if step.complete {
                    records.push(std::mem::take(&mut open));
                }
            }
            Err(error) => {
                assert_eq!(framer.step(stream), Err(error), "once lost, always lost");
                failed = Some(error);
                break;
            }
        }
    }
    let plain = plain_records(stream);
    assert_eq!((&records, failed), (&plain.records, plain.failed));
    if failed.is_none() {
        assert_eq!(framer.is_between_records(), plain.between);
        assert_eq!(open, plain.open);
    }
}

/// What a stream holds.
struct Records {
    records: Vec<Vec<u8>>,
    /// Of the record that has not ended.
    open: Vec<u8>,
    between: bool,
    failed: Option<FrameError>,
}

/// RFC 5531 §11, with the two limits of [`RecordFramer`].
fn plain_records(mut stream: &[u8]) -> Records {
    let mut of = Records {
        records: Vec::new(),
        open: Vec::new(),
        between: true,
        failed: None,
    };
    let (mut announced, mut empty) = (0u64, 0);
    loop {
        if stream.len() < 4 {
            of.between &= stream.is_empty();
            return of;
        }
        let mark = double_word(stream, 0);
        let (last, len) = (mark >> 31 == 1, mark & 0x7fff_ffff);
        announced += u64::from(len);
        if announced > u64::from(RECORD_LIMIT) {
            of.failed = Some(FrameError::RecordTooLong {
                bytes: announced,
                limit: RECORD_LIMIT,
            });
            return of;
        }
        if len == 0 && !last {
            empty += 1;
            if empty > EMPTY_FRAGMENT_LIMIT {
                of.failed = Some(FrameError::EmptyFragments);
                return of;
            }
        }
        let body = &stream[4..];
        if body.len() < len as usize {
            of.open.extend_from_slice(body);
            of.between = false;
            return of;
        }
        let (here, behind) = body.split_at(len as usize);
        of.open.extend_from_slice(here);
        of.between = last;
        stream = behind;
        if last {
            of.records.push(std::mem::take(&mut of.open));
            (announced, empty) = (0, 0);
        }
    }
}

/// A batch is what its bytes say, in one piece or in many; what is decoded encodes to the same bytes; both kernels agree.
pub fn xdr_batch(input: &[u8]) {
    let [cut, wire @ ..] = input else { return };
    let mut samples = vec![SAMPLE];
    let outcome = decode_into(&mut samples, wire);
    assert_eq!(outcome.is_ok(), plain_batch(wire), "{outcome:?}");
    // In pieces: what trails is counted as far as it has come.
    let mut decoder = BatchDecoder::new((wire.len() / 32) as u32);
    let mut piecemeal = Vec::new();
    let piece = 1 + usize::from(*cut) % 67;
    let fed = wire
        .chunks(piece)
        .try_for_each(|piece| decoder.feed(piece, &mut piecemeal));
    match (fed.and_then(|()| decoder.finish()), outcome) {
        (
            Err(DecodeError::TrailingBytes { bytes: here }),
            Err(DecodeError::TrailingBytes { bytes: all }),
        ) => assert!((1..=all).contains(&here)),
        (piecemeal, whole) => assert_eq!(piecemeal, whole),
    }
    match outcome {
        Ok(()) => {
            assert_eq!(piecemeal.len(), samples.len());
            assert_eq!(bits(&piecemeal), bits(&samples));
            // The one form that is written: as many samples as fit, and zeros.
            let fill_at = 4 + samples.len() * 32;
            let usual = BatchShape::filling(wire.len()).is_ok_and(|shape| {
                (shape.samples, shape.fill_bytes)
                    == (samples.len(), double_word(wire, fill_at) as usize)
            });
            if usual && wire[fill_at + 4..].iter().all(|byte| *byte == 0) {
                let mut out = vec![0xee; wire.len()];
                assert_eq!(encode_batch(&samples, &mut out), Ok(()));
                assert_eq!(out, wire);
            }
        }
        Err(error) => {
            assert!(samples.is_empty());
            let cut_short = matches!(error, DecodeError::Truncated { .. });
            assert_eq!(
                fed.is_ok(),
                cut_short,
                "only the end tells that something lacks"
            );
        }
    }
    kernels(wire);
}

const SAMPLE: Sample = Sample {
    channel: 0,
    sequence: 0,
    time_ns: 0,
    gain: 0.0,
    quality: Quality::Good,
    value: 0.0,
};

/// Both do the same to any bytes, and encoding undoes decoding.
fn kernels(wire: &[u8]) {
    let whole = wire.len() / 32 * 32;
    let mut first = None;
    for kernel in Kernel::available() {
        let mut samples = Vec::new();
        let outcome = kernel.decode(wire, &mut samples);
        if outcome.is_ok() {
            let mut out = vec![0xee; whole];
            assert_eq!(kernel.encode(&samples, &mut out), whole);
            assert_eq!(out, wire[..whole], "{}", kernel.name());
        }
        let here = (outcome, bits(&samples));
        match &first {
            None => first = Some(here),
            Some(there) => assert_eq!(there, &here, "{}", kernel.name()),
        }
    }
}

/// Samples compared by their bits: a NaN is itself here.
fn bits(samples: &[Sample]) -> Vec<[u64; 4]> {
    let bits = |sample: &Sample| {
        [
            u64::from(sample.channel as u32) << 32 | u64::from(sample.sequence),
            sample.time_ns as u64,
            u64::from(sample.gain.to_bits()) << 32 | u64::from(i32::from(sample.quality) as u32),
            sample.value.to_bits(),
        ]
    };
    samples.iter().map(bits).collect()
}

/// RFC 4506 §4.13 and §4.10: whether the bytes are a batch and nothing else.
fn plain_batch(wire: &[u8]) -> bool {
    if wire.len() < 8 {
        return false;
    }
    let count = double_word(wire, 0) as usize;
    let Some(fill_at) = count.checked_mul(32).and_then(|bytes| bytes.checked_add(4)) else {
        return false;
    };
    if fill_at + 4 > wire.len() {
        return false;
    }
    let known = (0..count).all(|sample| double_word(wire, 4 + sample * 32 + 20) < 4);
    let fill = double_word(wire, fill_at) as usize;
    let padded = fill.next_multiple_of(4);
    known
        && fill <= 28
        && wire.len() == fill_at + 4 + padded
        && wire[fill_at + 4 + fill..].iter().all(|byte| *byte == 0)
}
