//! Initial sequence numbers (RFC 6528) and timestamp offsets (RFC 7323 §7.1) that nobody off the path can guess, and what SYNs are known by.

use braidnet_wire::address::Tuple;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::time::Instant;
use core::hash::Hasher;
use siphasher::sip::SipHasher24;

/// The initial sequence number of a connection: `M + F(tuple, secret)` (RFC 6528 §3).
///
/// `M` ticks every 4 µs, so that a later connection of the same tuple starts above an earlier one; `F` is SipHash-2-4
/// under `secret`, which is drawn once per stack and kept to it.
pub fn initial_sequence_number(secret: [u64; 2], tuple: &Tuple, now: Instant) -> SeqNumber {
    let ticks = now.nanos() / 4000;
    SeqNumber::new(hash(secret, tuple, b'i') as u32) + (ticks as u32)
}

/// What to add to the clock in a connection's timestamps, for
/// [`Tcb::set_timestamp_offset`](crate::Tcb::set_timestamp_offset).
///
/// It is the same for all connections of one tuple, so that their timestamps grow from one to the next
/// (RFC 6191 §2), and tells other peers nothing of how long the stack has been up (RFC 7323 §7.1).
pub fn timestamp_offset(secret: [u64; 2], tuple: &Tuple) -> u32 {
    hash(secret, tuple, b't') as u32
}

/// What a SYN is known by when it comes again: a number that nobody can foretell, of its tuple and initial sequence number.
pub fn syn_mark(secret: [u64; 2], tuple: &Tuple, irs: SeqNumber) -> u64 {
    mark(secret, tuple, b's', irs)
}

/// The same for an ACK that brings a SYN cookie back, which it acknowledges.
pub fn cookie_mark(secret: [u64; 2], tuple: &Tuple, ack: SeqNumber) -> u64 {
    mark(secret, tuple, b'c', ack)
}

fn mark(secret: [u64; 2], tuple: &Tuple, purpose: u8, number: SeqNumber) -> u64 {
    let mut hasher = keyed(secret, tuple);
    hasher.write_u8(purpose);
    hasher.write_u32(number.value());
    hasher.finish()
}

fn hash(secret: [u64; 2], tuple: &Tuple, purpose: u8) -> u64 {
    let mut hasher = keyed(secret, tuple);
    hasher.write_u8(purpose);
    hasher.finish()
}

/// Has a tuple in it; more may be written to it.
pub(crate) fn keyed(secret: [u64; 2], tuple: &Tuple) -> SipHasher24 {
    let mut hasher = SipHasher24::new_with_keys(secret[0], secret[1]);
    hasher.write(tuple.local.octets());
    hasher.write(tuple.remote.octets());
    hasher.write_u16(tuple.local_port);
    hasher.write_u16(tuple.remote_port);
    hasher
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_wire::address::Address;

    fn tuple() -> Tuple {
        Tuple {
            local: Address::v4([192, 0, 2, 1]),
            remote: Address::v4([192, 0, 2, 2]),
            local_port: 1000,
            remote_port: 80,
        }
    }

    #[test]
    fn the_same_tuple_climbs_with_the_clock() {
        let at = |micros: u64| {
            initial_sequence_number([1, 2], &tuple(), Instant::from_nanos(micros * 1000))
        };
        assert_eq!(at(4) - at(0), 1);
        assert_eq!(at(4_000_000) - at(0), 1_000_000);
        assert_eq!(at(4 << 32), at(0), "2^32 ticks are once around");
    }

    #[test]
    fn every_part_of_the_input_counts() {
        let start = initial_sequence_number([1, 2], &tuple(), Instant::ZERO);
        let swapped = Tuple {
            local_port: 80,
            remote_port: 1000,
            ..tuple()
        };
        for (secret, other) in [
            ([1, 3], tuple()),
            ([0, 2], tuple()),
            ([1, 2], tuple().reversed()),
            ([1, 2], swapped),
        ] {
            assert_ne!(
                initial_sequence_number(secret, &other, Instant::ZERO),
                start
            );
            assert_ne!(
                timestamp_offset(secret, &other),
                timestamp_offset([1, 2], &tuple())
            );
        }
        assert_ne!(start.value(), timestamp_offset([1, 2], &tuple()));
    }
}
