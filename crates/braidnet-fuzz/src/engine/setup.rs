//! How a connection opens: what the first record of an input chooses.

use super::input::Record;
use super::model::Agreed;
use braidnet_tcp::{Config, CongestionControl, EcnMode, Keepalive};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use braidnet_wire::time::{Duration, Instant};

/// Who begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opening {
    /// We wait for a SYN, and get one.
    Passive,
    /// The same, and keep nothing until a cookie comes back.
    Cookie,
    /// We send a SYN.
    Active,
}

/// What an opening has of Fast Open (RFC 7413).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fast {
    /// Octets that come with the peer's SYN, or are there to go with ours.
    pub octets: u16,
    pub cookie: Cookie,
    /// The largest segment that we know the peer to take, where we begin.
    pub known_mss: u16,
}

/// Who shows a cookie to whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cookie {
    /// The SYN brings a good one.
    Good,
    /// The SYN asks for one, or brings one that is not good; our SYN-ACK gives one.
    Wanted,
    /// The SYN brings a good one, and our SYN-ACK gives another.
    Replaced,
}

/// What an input chooses.
pub struct Setup {
    pub opening: Opening,
    /// The handshake is completed at once.
    pub shaken: bool,
    pub config: Config,
    pub mss: u16,
    pub iss: u32,
    pub now: Instant,
    /// The peer's SYN.
    pub syn: TcpHeader,
    /// Data leaves in pieces of at most so many bytes.
    pub longest_piece: u32,
    /// Data may travel with the SYN.
    pub fast: Option<Fast>,
    /// How many octets of these the SYN-ACK acknowledges where the handshake is completed at once.
    pub share: Share,
}

/// A part of what there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Share {
    None,
    All,
    Half,
    One,
}

impl Share {
    pub fn of(self, octets: i64) -> i64 {
        match self {
            Share::None => 0,
            Share::All => octets,
            Share::Half => octets / 2,
            Share::One => octets.min(1),
        }
    }
}

impl Setup {
    pub fn of(record: Record<'_>) -> Setup {
        let bit = |bit| record.bit(1, bit);
        let opening = record.one_of(0, [Opening::Passive, Opening::Active, Opening::Cookie]);
        let config = Config {
            timestamps: !bit(0),
            sack: !bit(1),
            window_scale: !bit(2),
            nagle: bit(3),
            rack: !bit(4),
            keepalive: Keepalive {
                on: bit(5),
                idle: Duration::from_secs(3),
                ..Keepalive::default()
            },
            user_timeout: bit(6).then_some(Duration::from_secs(20)),
            advertised_user_timeout: (record.byte(4) & 0x30 == 0x30)
                .then_some(Duration::from_secs(5)),
            pacing: bit(7),
            receive_buffer_bytes: record.one_of(2, [4000, 1000, 20_000, 1, 100_000]),
            receive_buffer_max_bytes: record.one_of(3, [0, 0, 30_000]),
            send_buffer_bytes: record.one_of(2, [30_000, 5000, 1, 200_000]),
            send_buffer_max_bytes: record.one_of(3, [0, 0, 0, 60_000]),
            congestion: record.one_of(4, CongestionControl::ALL),
            reassembly_segments: if record.bit(4, 6) { 5 } else { 8192 },
            flight_pieces: if record.bit(4, 7) { 8 } else { 8192 },
            clock_granularity: record
                .one_of(9, [Duration::from_micros(1), Duration::from_millis(10)]),
            ecn: match opening {
                Opening::Active => ECN_OF_OPENERS[usize::from(record.byte(9) >> 5 & 3)],
                _ => EcnMode::ALL[usize::from(record.byte(5) >> 5 & 3)],
            },
            ..Config::default()
        };
        let syn = TcpHeader {
            seq: SeqNumber::new(start(record.byte(13))),
            // Congestion notification is asked for, or not.
            flags: match record.bit(5, 7) {
                true => TcpFlags(TcpFlags::SYN.0 | TcpFlags::ECE.0 | TcpFlags::CWR.0),
                false => TcpFlags::SYN,
            },
            // Every option but a user timeout, less what is said, and AE.
            present: 15 & !record.byte(5) | (record.byte(5) & 16) << 1,
            mss: record.word(6),
            window_scale: record.byte(8) % 20,
            window: record.word(10),
            ts_value: u32::from(record.byte(14)) << 24,
            ..TcpHeader::default()
        };
        Setup {
            opening,
            shaken: record.byte(0) & 0x80 == 0,
            config,
            mss: record.one_of(9, [1460, 536, 88, 9000]),
            iss: start(record.byte(12)),
            now: Instant::from_millis(u64::from(record.byte(15)) << 8),
            syn,
            longest_piece: if record.bit(9, 7) { 100 } else { u32::MAX },
            fast: (opening != Opening::Cookie && record.bit(9, 2)).then(|| Fast::of(record)),
            share: record.one_of(11, [Share::None, Share::All, Share::Half, Share::One]),
        }
    }

    /// What our SYN offers, or would; the last says whether scales are among it.
    pub fn offers(&self) -> (Agreed, bool) {
        let most = self
            .config
            .receive_buffer_bytes
            .max(self.config.receive_buffer_max_bytes);
        let shift = (0..14).find(|shift| most >> shift <= 65535).unwrap_or(14);
        let offers = Agreed {
            timestamps: self.config.timestamps,
            sack: self.config.sack,
            snd_shift: 0,
            rcv_shift: shift,
        };
        (offers, self.config.window_scale)
    }
}

/// What an opener makes of congestion notification.
const ECN_OF_OPENERS: [EcnMode; 4] = [
    EcnMode::Passive,
    EcnMode::On,
    EcnMode::Accurate,
    EcnMode::Off,
];

impl Fast {
    fn of(record: Record<'_>) -> Fast {
        let (cookie, known_mss) = [
            (Cookie::Good, record.word(6)),
            (Cookie::Wanted, 536),
            (Cookie::Replaced, 90),
            (Cookie::Good, u16::MAX),
        ][usize::from(record.byte(9) >> 3 & 3)];
        Fast {
            octets: record.word(14) % 3000,
            cookie,
            known_mss,
        }
    }
}

/// An initial sequence number: near the wrap mostly, where it hurts.
fn start(byte: u8) -> u32 {
    u32::from(byte).wrapping_mul(0x0101_0101).wrapping_sub(300)
}
