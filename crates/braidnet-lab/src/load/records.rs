//! What is done with records: decode them and sum what was decoded.

use super::Numbers;
use crate::tally::{Scope, Tally};
use braidnet_codec::module::{OWN_COUNTERS, RecordNote, RecordUser};
use braidnet_codec::xdr::{BatchDecoder, DecodeError, SAMPLE_BYTES, Sample, Totals, sum};
use braidnet_message::{Message, Run};
use braidnet_stream::{Context, Counter};
use braidnet_wire::address::Tuple;
use std::cell::RefCell;

/// The application above records of samples.
pub(crate) struct Samples {
    numbers: Numbers,
    scope: Scope,
    /// Whether there is a module above for what has been decoded.
    hands_on: bool,
}

const OWN: u16 = OWN_COUNTERS.len() as u16;
const BYTES: Counter = Counter(OWN);
const HASH: Counter = Counter(OWN + 1);
const SAMPLES: Counter = Counter(OWN + 2);
const UNDECODED: Counter = Counter(OWN + 3);

thread_local! {
    static DECODED: RefCell<Vec<Sample>> = const { RefCell::new(Vec::new()) };
}

/// Decodes a batch wherever its bytes lie, and sums it; `skip` bytes stand in front of it.
#[inline]
pub(crate) fn decode_and_sum(batch: &Message, skip: usize) -> Result<Totals, DecodeError> {
    DECODED.with_borrow_mut(|samples| {
        samples.clear();
        let limit = u32::try_from(batch.total_len() / SAMPLE_BYTES).unwrap_or(u32::MAX);
        let mut decoder = BatchDecoder::new(limit);
        let mut skip = skip;
        for block in batch.blocks() {
            let here = skip.min(block.len());
            skip -= here;
            decoder.feed(&block[here..], samples)?;
        }
        decoder.finish()?;
        Ok(sum(samples))
    })
}

impl Samples {
    pub(crate) fn new(numbers: Numbers, scope: Scope, hands_on: bool) -> Samples {
        Samples {
            numbers,
            scope,
            hands_on,
        }
    }
}

impl RecordUser for Samples {
    const COUNTERS: &'static [&'static str] = &[
        "records",
        "unframed",
        "lost",
        "bytes",
        "hash",
        "samples",
        "undecoded",
    ];

    fn connected(&self, tuple: &Tuple) -> u64 {
        u64::from(self.numbers.of(tuple))
    }

    fn records(&self, records: &mut Run, cx: &mut Context<'_>) {
        let mut bytes = 0;
        let mut tally = Tally::default();
        for record in records.iter() {
            match decode_and_sum(record, 0) {
                Ok(totals) => {
                    let RecordNote { word, number } = record.note();
                    tally.record(&self.scope, word as u32, number, &totals);
                    bytes += record.total_len() as u64;
                }
                Err(_) => cx.count(UNDECODED, 1),
            }
        }
        cx.count(HASH, tally.hash);
        cx.count(SAMPLES, tally.samples);
        cx.count(BYTES, bytes);
        if !self.hands_on {
            records.clear();
        }
    }
}
