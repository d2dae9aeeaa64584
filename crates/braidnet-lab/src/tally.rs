//! A hash of what was received that does not depend on who received it in which pieces.
//!
//! Every sampled byte adds a word that depends on its connection, its position and itself. Additions may be made in any
//! order by any processor, and how many there were tells when all have been made.

use crate::config::{Mode, Presentation, Transport, TtcpConfig};
use crate::content::mix;
use braidnet_codec::xdr::Totals;

/// Every so many bytes of a stream one is looked at.
const STRIDE: u64 = 1024;

/// A sum of sampled bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) hash: u64,
    pub(crate) samples: u64,
}

impl Tally {
    /// Adds one sample.
    #[inline]
    fn add(&mut self, line: u32, position: u64, value: u64) {
        let word = mix(position ^ u64::from(line) << 48)
            .wrapping_add(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        self.hash = self.hash.wrapping_add(mix(word));
        self.samples += 1;
    }

    /// Adds the sampled bytes among `bytes`, which stand at `position` of the stream of connection `line`, as far as the scope
    /// reaches.
    #[inline]
    pub(crate) fn stream(&mut self, scope: &Scope, line: u32, position: u64, bytes: &[u8]) {
        if position >= scope.limit {
            return;
        }
        let end = (position + bytes.len() as u64).min(scope.limit);
        let mut at = position.next_multiple_of(STRIDE);
        while at < end {
            self.add(line, at, u64::from(bytes[(at - position) as usize]));
            at += STRIDE;
        }
    }

    /// Adds what the application found in record `number` of connection `line`, if the scope reaches so far.
    #[inline]
    pub(crate) fn record(&mut self, scope: &Scope, line: u32, number: u64, totals: &Totals) {
        if number < scope.limit {
            self.add(
                line,
                number,
                (totals.integral as u64).wrapping_mul(31) ^ totals.real.to_bits(),
            );
        }
    }

    /// Adds the first byte of the content of datagram `number` of connection `line`, if the scope reaches so far.
    #[inline]
    pub(crate) fn datagram(&mut self, scope: &Scope, line: u32, number: u64, content: &[u8]) {
        if number < scope.limit {
            self.add(
                line,
                number,
                content.first().copied().map_or(256, u64::from),
            );
        }
    }
}

/// How far the hash reaches into every connection, and so how many samples it has when it is complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scope {
    /// Bytes of a stream, records, or datagrams.
    limit: u64,
    /// Samples of all connections.
    pub(crate) samples: u64,
}

impl Scope {
    /// Nothing is hashed.
    pub(crate) const NONE: Scope = Scope {
        limit: 0,
        samples: 0,
    };

    /// The share of each connection in all messages that are sure to pass, whatever the architecture; where shares differ, the
    /// least. `records` says that
    /// what is received is looked at record by record.
    pub(crate) fn of(config: &TtcpConfig, records: bool) -> Scope {
        let connections = config.connections as u64;
        let all = config.warmup + config.messages;
        let even = match config.skew {
            None => all / connections,
            Some(_) => (all as f64 * config.share_of(0).min(config.share_of(1))) as u64,
        };
        let messages = even.max(1);
        let streamed = config.transport == Transport::Tcp && !records;
        let (limit, each) = if streamed {
            let mark = if config.presentation == Presentation::Xdr {
                4
            } else {
                0
            };
            let limit = messages.saturating_mul(config.size as u64 + mark);
            (limit, limit.div_ceil(STRIDE))
        } else {
            (messages, messages)
        };
        // Round trips are counted, not hashed.
        let samples = if config.mode == Mode::Echo {
            0
        } else {
            each.saturating_mul(connections)
        };
        Scope { limit, samples }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_and_their_order_do_not_matter_and_bytes_do() {
        let config = TtcpConfig {
            warmup: 0,
            messages: 16,
            connections: 2,
            ..TtcpConfig::default()
        };
        let scope = Scope::of(&config, false);
        assert_eq!(scope.samples, 64);
        let mut stream: Vec<u8> = (0..40_000u32).map(|byte| (byte * 7 % 251) as u8).collect();
        let hash = |stream: &[u8], pieces: usize| {
            let mut tally = Tally::default();
            for line in [1, 0] {
                let mut cut: Vec<_> = stream.chunks(pieces).enumerate().collect();
                cut.reverse();
                for (index, piece) in cut {
                    tally.stream(&scope, line, (index * pieces) as u64, piece);
                }
            }
            tally
        };
        let whole = hash(&stream, 40_000);
        assert_eq!(whole.samples, scope.samples);
        for pieces in [1, 1000, 1024, 1448, 4300] {
            assert_eq!(hash(&stream, pieces), whole);
        }
        stream[8192] ^= 1;
        assert_ne!(hash(&stream, 1448).hash, whole.hash);
        stream[8192] ^= 1;
        stream[39_000] ^= 1;
        assert_eq!(hash(&stream, 1448), whole, "beyond the scope");
    }

    #[test]
    fn connections_are_told_apart() {
        let scope = Scope::of(&TtcpConfig::default(), false);
        let of = |line| {
            let mut tally = Tally::default();
            tally.stream(&scope, line, 0, &[1; 100]);
            tally.hash
        };
        assert_ne!(of(0), of(1));
    }
}
