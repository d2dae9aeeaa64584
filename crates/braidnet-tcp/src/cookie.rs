//! SYN cookies (RFC 4987 §3.6, appendix A): a listener that has no room for another half-open connection puts what it would have
//! to remember into its SYN-ACK, and takes it from the ACK that answers that.
//!
//! The initial sequence number is the cookie: five bits of a clock that ticks every 64 seconds, three that stand for a segment
//! size, and 24 of keyed hashes: four of the clock and the tuple, 20 of these and the peer's initial sequence number. Where the peer
//! sends timestamps, the last six bits of ours, which it echoes, hold its window scale and whether it takes selective
//! acknowledgments and congestion notification; without them none of these is agreed to. The peer could change these six, and harm
//! nobody but itself.

use crate::config::{Config, EcnMode};
use crate::connection::Connection;
use crate::ecn::SETUP;
use crate::state::State;
use crate::{Payload, Tcb, isn};
use braidnet_wire::address::Tuple;
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use braidnet_wire::time::Instant;
use core::hash::Hasher;
use siphasher::sip::SipHasher24;
use std::sync::Arc;

/// The segment sizes that three bits stand for; a peer counts as if it had asked for the largest that it can take.
const SEGMENT_SIZES: [u16; 8] = [88, 536, 1220, 1360, 1400, 1440, 1460, 8960];
/// A tick of the clock, in nanoseconds.
const TICK: u64 = 64_000_000_000;
/// Ticks that a cookie outlives: it is good for two to three minutes.
const LIFETIME: u64 = 2;
const HASH_BITS: u32 = 24;
/// Of these, the lowest are of both ends and the time only; the others hang on the peer's initial sequence number as well, so that
/// two lives of a connection begin far from each other.
const ENDS_BITS: u32 = 4;
const ENDS_MASK: u32 = (1 << ENDS_BITS) - 1;
const SYN_BITS: u32 = HASH_BITS - ENDS_BITS;
/// The last bits of a timestamp: the scale, 15 for none, selective acknowledgment, and congestion notification.
const OPTION_BITS: u32 = 0x3f;
const NO_SCALE: u32 = 15;
const SACK_BIT: u32 = 1 << 4;
const ECN_BIT: u32 = 1 << 5;

/// What makes and recognises the cookies of one tuple at one time.
#[derive(Clone, Copy)]
pub struct SynCookie<'a> {
    /// Drawn at random once per stack and kept to it.
    pub secret: [u64; 2],
    /// From the listener's side.
    pub tuple: &'a Tuple,
    /// The present.
    pub now: Instant,
}

/// What an ACK says that brings a cookie back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Redeemed {
    iss: SeqNumber,
    /// The SYN that it was given for, as far as it is remembered.
    syn: TcpHeader,
}

impl SynCookie<'_> {
    /// The SYN-ACK for a SYN that [`listen`](crate::listen) accepts; nothing is to be remembered of it. `mss` is as in
    /// [`Tcb::connect`], `timestamp_offset` as in [`Tcb::set_timestamp_offset`].
    pub fn answer(
        &self,
        config: &Arc<Config>,
        mss: u16,
        syn: &TcpHeader,
        timestamp_offset: u32,
    ) -> TcpHeader {
        let mut syn = *syn;
        if !(config.timestamps && syn.has(TcpHeader::HAS_TIMESTAMPS)) {
            // Nowhere to keep anything else.
            syn.present &= TcpHeader::HAS_MSS;
            syn.flags = TcpFlags::SYN;
        }
        let mut config = config.bounded();
        if config.ecn == EcnMode::Accurate {
            // There is no room for more than the classic kind.
            Arc::make_mut(&mut config).ecn = EcnMode::On;
        }
        let mss = mss.min(config.maximum_segment);
        let mut connection = Connection::new(&config, mss, State::SynReceived, self.now);
        connection.ts_offset = timestamp_offset;
        connection.agree(&syn);
        let mut header = connection.syn(self.now);
        let size = if syn.has(TcpHeader::HAS_MSS) {
            SEGMENT_SIZES.iter().rposition(|size| *size <= syn.mss)
        } else {
            Some(1)
        };
        header.seq = self.cookie(self.tick(), size.unwrap_or(0) as u32, syn.seq);
        header.flags = header.flags.union(TcpFlags::ACK);
        header.ack = syn.seq + 1;
        if connection.timestamps {
            header.ts_echo = syn.ts_value;
            header.ts_value = stamp(header.ts_value, options(&connection, &syn));
        }
        header
    }

    /// What an ACK for a listener brings back; `None` if it answers no SYN-ACK of ours, or one of more than three minutes ago.
    pub fn redeem(&self, config: &Config, ack: &TcpHeader) -> Option<Redeemed> {
        let (iss, irs) = (ack.ack - 1, ack.seq - 1);
        let age = self.tick().wrapping_sub(u64::from(iss.value() >> 27)) & 31;
        let size = (iss.value() >> HASH_BITS) & 7;
        let tick = self.tick().checked_sub(age)?;
        if age > LIFETIME || self.cookie(tick, size, irs) != iss {
            return None;
        }
        let mut syn = TcpHeader {
            seq: irs,
            flags: TcpFlags::SYN,
            present: TcpHeader::HAS_MSS,
            mss: SEGMENT_SIZES[size as usize],
            ..TcpHeader::default()
        };
        if config.timestamps && ack.has(TcpHeader::HAS_TIMESTAMPS) {
            let options = ack.ts_echo & OPTION_BITS;
            syn.present |= TcpHeader::HAS_TIMESTAMPS;
            syn.ts_value = ack.ts_value;
            if options & SACK_BIT != 0 {
                syn.present |= TcpHeader::HAS_SACK_PERMITTED;
            }
            if options & ECN_BIT != 0 {
                syn.flags = syn.flags.union(SETUP);
            }
            if options & NO_SCALE != NO_SCALE {
                syn.present |= TcpHeader::HAS_WINDOW_SCALE;
                syn.window_scale = (options & NO_SCALE) as u8;
            }
        }
        Some(Redeemed { iss, syn })
    }

    /// Whether a segment that brings no cookie back may follow one that does: it acknowledges a cookie of these two ends that is still
    /// good, given for a SYN whose sequence number this segment does not tell. One in 170 does so by chance.
    pub fn may_follow(&self, ack: &TcpHeader) -> bool {
        let iss = ack.ack - 1;
        let age = self.tick().wrapping_sub(u64::from(iss.value() >> 27)) & 31;
        let given = self.tick().checked_sub(age).filter(|_| age <= LIFETIME);
        given.is_some_and(|tick| hash_of(self.ends(tick), ENDS_BITS) == iss.value() & ENDS_MASK)
    }

    fn tick(&self) -> u64 {
        // The first cookies are as old as they look.
        self.now.nanos() / TICK + LIFETIME
    }

    /// What a cookie has of both ends and the time.
    fn ends(&self, tick: u64) -> SipHasher24 {
        let mut hasher = isn::keyed(self.secret, self.tuple);
        hasher.write_u64(tick);
        hasher
    }

    fn cookie(&self, tick: u64, size: u32, irs: SeqNumber) -> SeqNumber {
        let ends = self.ends(tick);
        let mut syn = ends;
        syn.write_u32(irs.value());
        syn.write_u32(size);
        let hash = hash_of(syn, SYN_BITS) << ENDS_BITS | hash_of(ends, ENDS_BITS);
        SeqNumber::new((tick as u32) << 27 | size << HASH_BITS | hash)
    }
}

/// The highest bits of a hash.
fn hash_of(hasher: SipHasher24, bits: u32) -> u32 {
    hasher.finish() as u32 >> (32 - bits)
}

/// What was agreed on, in six bits.
fn options(connection: &Connection, syn: &TcpHeader) -> u32 {
    let scale = match connection.peer_scales {
        true => u32::from(syn.window_scale.min(14)),
        false => NO_SCALE,
    };
    let bit = |on: bool, bit| if on { bit } else { 0 };
    scale | bit(connection.sack, SACK_BIT) | bit(connection.ecn.hears, ECN_BIT)
}

/// The latest timestamp, no later than `now`, that ends in `options`: what follows is never older.
fn stamp(now: u32, options: u32) -> u32 {
    let value = now & !OPTION_BITS | options;
    match value & OPTION_BITS > now & OPTION_BITS {
        true => value.wrapping_sub(OPTION_BITS + 1),
        false => value,
    }
}

impl<P: Payload> Tcb<P> {
    /// The connection whose SYN-ACK was a [cookie](SynCookie::answer): in SYN-RECEIVED, for the segment that brought it back to
    /// arrive next. `mss` and `timestamp_offset` are those of the SYN-ACK.
    pub fn accept_redeemed(
        config: &Arc<Config>,
        mss: u16,
        redeemed: &Redeemed,
        timestamp_offset: u32,
        now: Instant,
    ) -> Tcb<P> {
        let mut tcb = Tcb::accept(config, redeemed.iss, mss, &redeemed.syn, now);
        tcb.set_timestamp_offset(timestamp_offset);
        tcb.connection.handshakes_sent = 1;
        tcb.connection.handshake_due = false;
        // How long ago it left, nobody knows.
        tcb.sender.on_handshake_sent(now, true);
        tcb
    }
}

#[cfg(test)]
mod tests;
