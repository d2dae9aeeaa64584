//! What is sent: a cycle of at least 256 KiB of distinct bytes, the same for far ends and for sources.
//!
//! A connection's stream is the cycle over and over, so that what stands at any position is known to whoever checks it. The
//! sums of the cycle are kept beside it: a segment cut at any place has its checksum without a byte of it being read.

use crate::config::{Presentation, Transport, TtcpConfig};
use braidnet_codec::record::{MARK_BYTES, RecordMark};
use braidnet_codec::xdr::{BatchShape, Quality, Sample, encode_batch};
use braidnet_wire::checksum::Sum;

/// Least bytes of the cycle (DESIGN.md, Measuring): more than a first-level cache holds.
const CYCLE_BYTES: usize = 256 << 10;

/// Bytes of an IPv4 and a TCP header with timestamps: what a segment's data leaves of the MTU.
pub(crate) const TCP_HEADERS_BYTES: usize = 20 + 32;

/// Bytes in front of every datagram's content: its number on its connection, an XDR unsigned hyper.
pub(crate) const NUMBER_BYTES: usize = 8;

/// Bytes of data in a full TCP segment.
pub(crate) fn segment_bytes(mtu: usize) -> usize {
    mtu - TCP_HEADERS_BYTES
}

/// The cycle, and the sums of its bytes.
pub(crate) struct Content {
    /// The cycle, and the beginning of it once more.
    bytes: Vec<u8>,
    /// Sums of the first 0, 2, 4, … bytes.
    sums: Vec<Sum>,
    cycle: usize,
}

impl Content {
    /// What the connections of this measurement carry.
    pub(crate) fn of(config: &TtcpConfig) -> Content {
        let overlap = config.mtu.max(config.size);
        let cycle = match (config.transport, config.presentation) {
            (Transport::Tcp, Presentation::None) => raw(segment_bytes(config.mtu)),
            (Transport::Tcp, Presentation::Xdr) => records(config.size),
            (Transport::Udp, presentation) => datagrams(config.size, presentation),
        };
        Content::new(cycle, overlap)
    }

    fn new(mut bytes: Vec<u8>, overlap: usize) -> Content {
        let cycle = bytes.len();
        bytes.extend_from_within(..overlap.min(cycle));
        while bytes.len() < cycle + overlap {
            let more = (cycle + overlap - bytes.len()).min(cycle);
            bytes.extend_from_within(..more);
        }
        let mut sum = Sum::ZERO;
        let mut sums = vec![sum];
        for pair in bytes.as_chunks::<2>().0 {
            sum = sum.combine(Sum::of(pair));
            sums.push(sum);
        }
        Content { bytes, sums, cycle }
    }

    /// Bytes after which it begins again.
    pub(crate) fn cycle(&self) -> usize {
        self.cycle
    }

    /// The cycle and what is kept behind it, so that a segment that begins inside the cycle lies in one piece.
    pub(crate) fn extended(&self) -> &[u8] {
        &self.bytes
    }

    /// `len` bytes of the stream from `position`, at most as many as fit a packet or a message.
    #[inline]
    pub(crate) fn at(&self, position: u64, len: usize) -> &[u8] {
        let start = self.place(position);
        &self.bytes[start..start + len]
    }

    /// Where in the cycle the stream's byte at `position` stands.
    #[inline]
    pub(crate) fn place(&self, position: u64) -> usize {
        (position % self.cycle as u64) as usize
    }

    /// The sum of `len` bytes from `start` of [`extended`](Content::extended), reading at most two of them.
    #[inline]
    pub(crate) fn sum(&self, start: usize, len: usize) -> Sum {
        if !start.is_multiple_of(2) && len > 0 {
            let first = Sum::of(&self.bytes[start..=start]);
            return first.then(self.even_sum(start + 1, len - 1), 1);
        }
        self.even_sum(start, len)
    }

    #[inline]
    fn even_sum(&self, start: usize, len: usize) -> Sum {
        let even = len & !1;
        let (before, after) = (self.sums[start / 2], self.sums[(start + even) / 2]);
        // In ones' complement the complement is the negative.
        let sum = after.combine(Sum(!before.0));
        if even == len {
            sum
        } else {
            sum.then(Sum::of(&self.bytes[start + even..start + len]), even)
        }
    }
}

/// Bytes without a pattern that a shifted copy could repeat, a multiple of `unit`.
fn raw(unit: usize) -> Vec<u8> {
    let len = CYCLE_BYTES.div_ceil(unit) * unit;
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&noise.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Marked records that hold a batch of `size` bytes each.
fn records(size: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    for record in 0..CYCLE_BYTES.div_ceil(size + MARK_BYTES) {
        let mark = RecordMark::new(size as u32, true).map_or([0; MARK_BYTES], RecordMark::to_bytes);
        bytes.extend_from_slice(&mark);
        push_batch(&mut bytes, record as u64, size);
    }
    bytes
}

/// What follows the numbers of datagrams of `size` bytes, one after the other.
fn datagrams(size: usize, presentation: Presentation) -> Vec<u8> {
    // A datagram too small for its number is all number.
    let body = size.saturating_sub(NUMBER_BYTES);
    match presentation {
        Presentation::None => raw(body.max(1)),
        Presentation::Xdr => {
            let mut bytes = Vec::new();
            for record in 0..CYCLE_BYTES.div_ceil(body) {
                push_batch(&mut bytes, record as u64, body);
            }
            bytes
        }
    }
}

/// Appends the `record`-th batch of `size` bytes.
fn push_batch(bytes: &mut Vec<u8>, record: u64, size: usize) {
    let start = bytes.len();
    bytes.resize(start + size, 0);
    let samples = samples(record, size);
    let encoded = encode_batch(&samples, &mut bytes[start..]);
    debug_assert!(
        encoded.is_ok(),
        "the configuration was validated: {encoded:?}"
    );
}

/// The samples of the `record`-th batch of `size` bytes.
pub(crate) fn samples(record: u64, size: usize) -> Vec<Sample> {
    let count = BatchShape::filling(size).map_or(0, |shape| shape.samples);
    let mut noise = Noise(record.wrapping_mul(0xd134_2543_de82_ef95) | 1);
    (0..count)
        .map(|index| Sample {
            channel: index as i32 % 16,
            sequence: (record as u32)
                .wrapping_mul(count as u32)
                .wrapping_add(index as u32),
            time_ns: (noise.next() >> 2) as i64,
            gain: 1.0 + (noise.next() % 1024) as f32 / 1024.0,
            quality: [
                Quality::Good,
                Quality::Suspect,
                Quality::Bad,
                Quality::Missing,
            ][index % 4],
            value: (noise.next() % 1_000_000) as f64 / 64.0,
        })
        .collect()
}

/// Splitmix64.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }
}

/// Spreads every bit of `word` over all of the result.
#[inline]
pub(crate) fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(transport: Transport, presentation: Presentation) -> TtcpConfig {
        TtcpConfig {
            transport,
            presentation,
            ..TtcpConfig::default()
        }
    }

    #[test]
    fn sums_are_those_of_the_bytes() {
        let odd = TtcpConfig {
            mtu: 1501,
            ..TtcpConfig::default()
        };
        for config in [odd, config(Transport::Tcp, Presentation::Xdr)] {
            let content = Content::of(&config);
            for (start, len) in [
                (0, 0),
                (0, 1),
                (1, 0),
                (1, 1),
                (1, 2),
                (7, 1448),
                (8, 1449),
                (content.cycle() - 1, 100),
            ] {
                let kept = content.sum(start, len);
                let read = Sum::of(&content.extended()[start..start + len]);
                // Zero has two representations.
                assert_eq!(kept.0 % 0xffff, read.0 % 0xffff, "{start} {len}");
            }
        }
    }

    #[test]
    fn the_cycle_is_long_and_repeats() {
        for transport in Transport::ALL {
            for presentation in Presentation::ALL {
                let content = Content::of(&config(*transport, *presentation));
                let cycle = content.cycle() as u64;
                assert!(cycle >= CYCLE_BYTES as u64);
                assert_eq!(
                    content.at(cycle - 3, 100)[3..],
                    *content.at(0, 97),
                    "{transport} {presentation}"
                );
                assert_ne!(content.at(0, 100), content.at(cycle / 2, 100));
            }
        }
    }
}
