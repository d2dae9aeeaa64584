//! What can be chosen for a connection before it is opened.

use crate::FastOpen;
use core::fmt;
use core::str::FromStr;
use core::time::Duration;
use std::sync::Arc;

/// The largest window that a 16-bit field and a shift of 14 can announce (RFC 7323 §2.3).
pub const MAX_WINDOW_BYTES: u32 = 65535 << 14;

/// How many times what it began with a receive buffer may become: the scale that such a window needs must let the first one be told.
const MOST_GROWTH: u32 = 1024;

/// The choices of one connection. The engine copies it at open.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Room for what the peer sends until the application takes it, in bytes: 1 to [`MAX_WINDOW_BYTES`]; what lies
    /// outside is moved to the nearer end. It is announced as the window.
    pub receive_buffer_bytes: u32,
    /// Room for what the application sends until the peer acknowledges it, in bytes: 1 to [`MAX_WINDOW_BYTES`].
    pub send_buffer_bytes: u32,
    /// Unless it is 0, whoever sends is to wait while so many bytes or more wait to leave for the first time, though the send buffer has room: then what
    /// leaves next is not old (`TCP_NOTSENT_LOWAT` of Linux). The engine takes more all the same; [`Tcb::is_drained`](crate::Tcb::is_drained) says when to go on.
    pub not_sent_low_water: u32,
    /// Upper bound of the segment size that is announced and sent, in bytes (RFC 9293 §3.7.1); the path may ask for less.
    pub maximum_segment: u16,
    /// Up to so many bytes the receive buffer grows where it is what holds the peer back, at most [`MAX_WINDOW_BYTES`] and 1024 times what it
    /// begins with; it stays as it is if this is no more. The window scale that is announced has room for it.
    pub receive_buffer_max_bytes: u32,
    /// Up to so many bytes the send buffer grows, to twice the congestion window where round trips are the shortest of the last minutes, to less where they take longer,
    /// by as much: what only waits on its way needs no buffer. It stays as it is if this is no more. So on a path that has become twice as long it grows
    /// half as far until the shorter one is forgotten.
    pub send_buffer_max_bytes: u32,
    /// How the congestion window grows and shrinks.
    pub congestion: CongestionControl,
    /// Whether what the congestion window allows is spread over the round trip instead of leaving at once: twice the window in a
    /// round trip in slow start, 1.2 times of it afterwards; at the rate of the model where there is one, whether asked for or not. [`Tcb::deadline`](crate::Tcb::deadline) then says when more may leave.
    pub pacing: bool,
    /// Whether routers may fragment what is sent, and whether what they say of its length is heeded.
    pub path_mtu_discovery: PathMtuDiscovery,
    /// Whether the length of segments that the path carries is found out by trying (RFC 4821). Not where routers may fragment them.
    pub path_probing: PathProbing,
    /// The segment size that is tried where nothing is known of the path, in bytes as the MSS option counts them: 1024 by RFC 4821 §7.2.
    pub path_base_segment: u16,
    /// After how long a path that was found narrow is tried for more: ten minutes by RFC 4821 §7.3.
    pub path_search_again: Duration,
    /// Whether a small segment waits until everything before it is acknowledged (RFC 9293 §3.7.4).
    pub nagle: bool,
    /// Whether what leaves at once goes in trains of two segments, the second with PSH, so that a receiver that joins segments before its TCP
    /// sees them hands them on without waiting for more (RFC 9293 §3.9.1.2 asks for PSH where no data follows only). Linux does so where a round
    /// trip is long for its window, and in longer trains where it is not. Where segments leave one by one it changes nothing.
    pub push_pairs: bool,
    /// Whether timestamps are offered and agreed to (RFC 7323 §3).
    pub timestamps: bool,
    /// Whether selective acknowledgment is offered and agreed to (RFC 2018).
    pub sack: bool,
    /// Whether losses are found by time, and the tail of a flight is probed (RFC 8985), where SACK is in use.
    pub rack: bool,
    /// Whether window scaling is offered and agreed to (RFC 7323 §2). Without it, windows end at 65,535 bytes.
    pub window_scale: bool,
    /// Hops that a packet may take: the TTL of IPv4 (RFC 9293 §3.9.2). 0 leaves it to IP.
    pub time_to_live: u8,
    /// The Differentiated Services Code Point of every packet, 0 to 63 (RFC 2474 §3, RFC 9293 §3.9.1.9); of more, the six lowest bits.
    pub differentiated_services: u8,
    /// Whether the network may mark data in place of dropping it (RFC 3168), where the peer wants that, too.
    pub ecn: EcnMode,
    /// Whether data may travel with SYNs (RFC 7413). Who replays a SYN brings its data to the application once more, in another connection:
    /// only for applications that can bear that (§6.1).
    pub fast_open: FastOpen,
    /// Most connections of one listener that data have opened before their handshake was over, and whose handshake still is not
    /// (PendingFastOpenRequests of RFC 7413 §4.2, §5.1); one more opens as others do.
    pub fast_open_pending: u32,
    /// Whether a listener that uses Fast Open takes the data of a SYN that has no good cookie, too. RFC 7413 §4.2.2 asks for one: who can forge an
    /// address has a server work, and send others answers that they have not asked for. Only where the network lets nobody do that.
    pub fast_open_without_cookie: bool,
    /// How long an acknowledgment may wait for company; RFC 9293 §3.8.6.3 allows less than 500 ms.
    pub delayed_ack: Duration,
    /// How many of the first acknowledgments of data do not wait for company: so many segments are acknowledged each on its own, so that the
    /// peer's slow start, which counts ACKs, goes twice as fast (RFC 5681 §3.1, §4.2). Linux has 16.
    pub quick_acks: u8,
    /// Whether the acknowledgment of the FIN by which the peer closes first waits for company as that of data does, behind which it comes: an
    /// application that then closes, too, sends both in one segment. As on Linux.
    pub fin_ack_waits: bool,
    /// Lower bound of the retransmission timeout. RFC 6298 §2.4 asks for one second; see `docs/rfc-departures.md`.
    pub min_rto: Duration,
    /// Retransmission timeout before the first measurement (RFC 6298 §2.1).
    pub initial_rto: Duration,
    /// Upper bound of the retransmission timeout, at least 60 seconds by RFC 6298 §2.5.
    pub max_rto: Duration,
    /// Granularity of the caller's clock: G of RFC 6298 §2.
    pub clock_granularity: Duration,
    /// Stay in TIME-WAIT: twice the maximum segment lifetime (RFC 9293 §3.4.2).
    pub time_wait: Duration,
    /// Stay in FIN-WAIT-2 once nobody reads any more ([`Tcb::shut_receive`](crate::Tcb::shut_receive)).
    pub fin_wait_2: Duration,
    /// Timeouts without an answer after which the user is told that the peer is silent ([`Events::SILENT`](crate::Events::SILENT)): R1 of RFC
    /// 9293 §3.8.3, which asks for 3 at least. 0 tells nothing.
    pub silent_retransmissions: u8,
    /// Timeouts without an answer after which a connection is given up: R2 of RFC 9293 §3.8.3. With the default timeouts
    /// 15 are about eight minutes.
    pub retransmissions: u8,
    /// As `retransmissions`, for the SYN of an active open: 7 are three minutes (RFC 9293 §3.8.3, MUST-23).
    pub syn_retransmissions: u8,
    /// As `retransmissions`, for the SYN-ACK of a passive open.
    pub syn_ack_retransmissions: u8,
    /// Upper bound of segments kept out of order; fewer if they are small, see `docs/rfc-departures.md`.
    pub reassembly_segments: u32,
    /// Segments out of order, ours and the peer's, for which memory is taken when the connection opens, so that they ask the
    /// allocator for nothing when they come; unless it is 0, so does what is remembered of a loss. At most `reassembly_segments` count.
    pub reassembly_reserve: u32,
    /// Pieces in which a connection tells apart what is on its way, by when it left and how it fared: 8 or more. What would need one
    /// more is found lost later than it could be.
    pub flight_pieces: u32,
    /// Times of departure by which a connection under [`CongestionControl::Bbr`] measures how fast the path delivers: 1 or more. Of one more the
    /// oldest is forgotten, and what left then measures nothing.
    pub rate_stamps: u32,
    /// Challenge ACKs that one connection may send in [`challenge_period`](Config::challenge_period) (RFC 5961 §7).
    pub challenge_acks: u8,
    /// The time for which those are counted.
    pub challenge_period: Duration,
    /// Whether, and how, a peer that says nothing is asked whether it is still there.
    pub keepalive: Keepalive,
    /// How long the oldest that there is to send may go unacknowledged before the connection is given up: USER_TIMEOUT of RFC
    /// 5482 §3.1, in place of what the peer asks for. It counts instead of `retransmissions`, of which there are 255 at most
    /// (some four hours), and beside those of a handshake, and holds for a peer that keeps its window closed as well.
    pub user_timeout: Option<Duration>,
    /// Tells the peer of this user timeout and heeds the one that it tells of (RFC 5482 §3: ADV_UTO, and ENABLED if it is set),
    /// at least a second. With it, and without `user_timeout`, the longest of both and the lower limit counts.
    pub advertised_user_timeout: Option<Duration>,
    /// The shortest and the longest user timeout that a peer can bring about: L_LIMIT and U_LIMIT of RFC 5482 §3.1.
    pub user_timeout_limits: (Duration, Duration),
}

/// Whether routers may fragment packets, and whether what they say of packets that are too long is heeded (RFC 1191), as Linux's `IP_MTU_DISCOVER`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PathMtuDiscovery {
    /// They may, and it is not: datagrams of any length leave.
    Dont,
    /// They may not, and it is. Of UDP, they may where a datagram is longer than the path is known to carry.
    #[default]
    Want,
    /// They may not, and it is. Datagrams of UDP that are longer are refused.
    Do,
    /// They may not, and it is not: for those who find out by themselves what the path carries. Datagrams of UDP that are longer than the device carries are
    /// refused.
    Probe,
}

impl PathMtuDiscovery {
    /// Every choice, in the order of Linux's numbers.
    pub const ALL: [PathMtuDiscovery; 4] = [
        PathMtuDiscovery::Dont,
        PathMtuDiscovery::Want,
        PathMtuDiscovery::Do,
        PathMtuDiscovery::Probe,
    ];

    /// Whether what the network says of the path's MTU is heeded.
    pub const fn heeds(self) -> bool {
        matches!(self, PathMtuDiscovery::Want | PathMtuDiscovery::Do)
    }
}

/// Whether the length of segments that the path carries is found out by trying, with longer ones among them (RFC 4821), as Linux's
/// `tcp_mtu_probing`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum PathProbing {
    /// No: what the two sides agree on is sent, or what ICMP says.
    Off,
    /// Once full segments, or others that are not short, are not acknowledged again and again (RFC 4821 §7.7), or ICMP has said that they are too long and a while has passed.
    #[default]
    BlackHoles,
    /// Always: from a segment that nearly every path carries on.
    Always,
}

impl PathProbing {
    /// Every choice.
    pub const ALL: [PathProbing; 3] = [
        PathProbing::Off,
        PathProbing::BlackHoles,
        PathProbing::Always,
    ];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            PathProbing::Off => "off",
            PathProbing::BlackHoles => "black-holes",
            PathProbing::Always => "always",
        }
    }
}

impl fmt::Display for PathProbing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no choice of probing the path.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} says not how the path is probed; there are off, black-holes and always")]
pub struct UnknownPathProbing(String);

impl FromStr for PathProbing {
    type Err = UnknownPathProbing;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        PathProbing::ALL
            .into_iter()
            .find(|probing| probing.name() == word)
            .ok_or_else(|| UnknownPathProbing(word.to_owned()))
    }
}

/// How to find out whether a peer that says nothing is still there (RFC 9293 §3.8.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keepalive {
    /// Whether it is asked at all; not unless somebody wants that (MUST-24, MUST-25).
    pub on: bool,
    /// Silence before the first probe; two hours unless somebody knows better (MUST-28).
    pub idle: Duration,
    /// Between one probe and the next.
    pub interval: Duration,
    /// Probes without an answer after which the connection is given up; one alone may have been lost (MUST-29). 0 counts as 1.
    pub probes: u8,
}

impl Default for Keepalive {
    fn default() -> Self {
        Keepalive {
            on: false,
            idle: Duration::from_secs(2 * 3600),
            interval: Duration::from_secs(75),
            probes: 9,
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Config {
            receive_buffer_bytes: 256 * 1024,
            send_buffer_bytes: 256 * 1024,
            receive_buffer_max_bytes: 0,
            send_buffer_max_bytes: 0,
            not_sent_low_water: 0,
            maximum_segment: u16::MAX,
            congestion: CongestionControl::Cubic,
            pacing: false,
            path_mtu_discovery: PathMtuDiscovery::Want,
            path_probing: PathProbing::BlackHoles,
            path_base_segment: 1024,
            path_search_again: Duration::from_secs(600),
            nagle: true,
            push_pairs: false,
            timestamps: true,
            sack: true,
            rack: true,
            window_scale: true,
            time_to_live: 64,
            differentiated_services: 0,
            ecn: EcnMode::Passive,
            fast_open: FastOpen::Off,
            fast_open_pending: 128,
            fast_open_without_cookie: false,
            delayed_ack: Duration::from_millis(40),
            quick_acks: 0,
            fin_ack_waits: false,
            min_rto: Duration::from_millis(200),
            initial_rto: Duration::from_secs(1),
            max_rto: Duration::from_secs(60),
            clock_granularity: Duration::from_micros(1),
            time_wait: Duration::from_secs(60),
            fin_wait_2: Duration::from_secs(60),
            silent_retransmissions: 3,
            retransmissions: 15,
            syn_retransmissions: 7,
            syn_ack_retransmissions: 5,
            reassembly_segments: 8192,
            reassembly_reserve: 0,
            flight_pieces: 8192,
            rate_stamps: 4096,
            challenge_acks: 10,
            challenge_period: Duration::from_secs(5),
            keepalive: Keepalive::default(),
            user_timeout: None,
            advertised_user_timeout: None,
            user_timeout_limits: (Duration::from_secs(100), Duration::from_secs(24 * 3600)),
        }
    }
}

impl Config {
    /// The same with the buffers inside their ranges; itself where they are.
    pub(crate) fn bounded(self: &Arc<Config>) -> Arc<Config> {
        let receive_buffer_bytes = self.receive_buffer_bytes.clamp(1, MAX_WINDOW_BYTES);
        let send_buffer_bytes = self.send_buffer_bytes.clamp(1, MAX_WINDOW_BYTES);
        let receive_buffer_max_bytes = (self.receive_buffer_max_bytes)
            .min(self.receive_buffer_bytes.saturating_mul(MOST_GROWTH))
            .min(MAX_WINDOW_BYTES);
        let send_buffer_max_bytes = self.send_buffer_max_bytes.min(MAX_WINDOW_BYTES);
        let is_bounded = receive_buffer_bytes == self.receive_buffer_bytes
            && send_buffer_bytes == self.send_buffer_bytes
            && receive_buffer_max_bytes == self.receive_buffer_max_bytes
            && send_buffer_max_bytes == self.send_buffer_max_bytes;
        match is_bounded {
            true => Arc::clone(self),
            false => Arc::new(Config {
                receive_buffer_bytes,
                send_buffer_bytes,
                receive_buffer_max_bytes,
                send_buffer_max_bytes,
                ..**self
            }),
        }
    }

    /// How paths are probed: not where packets of any length get through, in pieces.
    pub(crate) fn probing(&self) -> PathProbing {
        match self.path_mtu_discovery {
            PathMtuDiscovery::Dont => PathProbing::Off,
            _ => self.path_probing,
        }
    }

    /// The window scale that the receive buffer needs (RFC 7323 §2.2), 0 to 14.
    pub(crate) fn wanted_shift(&self) -> u8 {
        let mut shift = 0;
        let most = self.receive_buffer_bytes.max(self.receive_buffer_max_bytes);
        while shift < 14 && most >> shift > 65535 {
            shift += 1;
        }
        shift
    }
}

/// A rule by which the congestion window grows and shrinks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum CongestionControl {
    /// CUBIC (RFC 9438).
    #[default]
    Cubic,
    /// NewReno (RFC 5681, RFC 6582).
    NewReno,
    /// A model of the path, after BBR version 3 (draft-ietf-ccwg-bbr). What leaves is paced.
    Bbr,
}

impl CongestionControl {
    /// Every rule.
    pub const ALL: [CongestionControl; 3] = [
        CongestionControl::Cubic,
        CongestionControl::NewReno,
        CongestionControl::Bbr,
    ];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            CongestionControl::Cubic => "cubic",
            CongestionControl::NewReno => "new-reno",
            CongestionControl::Bbr => "bbr",
        }
    }
}

impl fmt::Display for CongestionControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no congestion control.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no congestion control is called {0:?}; there are cubic, new-reno and bbr")]
pub struct UnknownCongestionControl(String);

impl FromStr for CongestionControl {
    type Err = UnknownCongestionControl;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        CongestionControl::ALL
            .into_iter()
            .find(|control| control.name() == word)
            .ok_or_else(|| UnknownCongestionControl(word.to_owned()))
    }
}

/// Whether explicit congestion notification is used (RFC 3168 §6.1.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum EcnMode {
    /// It is neither asked for nor agreed to.
    Off,
    /// It is agreed to where the peer asks for it.
    #[default]
    Passive,
    /// It is asked for, too. A SYN that is not answered, or refused, is sent again without asking (§6.1.1.1).
    On,
    /// The same, and where both sides can they count marks (Accurate ECN, RFC 9768), by the flags of the header alone.
    Accurate,
}

impl EcnMode {
    /// Every mode.
    pub const ALL: [EcnMode; 4] = [
        EcnMode::Off,
        EcnMode::Passive,
        EcnMode::On,
        EcnMode::Accurate,
    ];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            EcnMode::Off => "off",
            EcnMode::Passive => "passive",
            EcnMode::On => "on",
            EcnMode::Accurate => "accurate",
        }
    }
}

impl fmt::Display for EcnMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A word that names no mode of explicit congestion notification.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "no mode of congestion notification is called {0:?}; there are off, passive, on and accurate"
)]
pub struct UnknownEcnMode(String);

impl FromStr for EcnMode {
    type Err = UnknownEcnMode;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        EcnMode::ALL
            .into_iter()
            .find(|mode| mode.name() == word)
            .ok_or_else(|| UnknownEcnMode(word.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_of_congestion_notification_are_read_as_written() {
        for mode in EcnMode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
        }
        assert!("On".parse::<EcnMode>().is_err());
    }

    #[test]
    fn congestion_controls_are_read_as_written() {
        for control in CongestionControl::ALL {
            assert_eq!(control.to_string().parse(), Ok(control));
        }
        assert!("Cubic".parse::<CongestionControl>().is_err());
    }

    #[test]
    fn the_shift_lets_the_whole_buffer_be_announced() {
        for (bytes, shift) in [
            (1, 0),
            (65535, 0),
            (65536, 1),
            (256 * 1024, 3),
            (MAX_WINDOW_BYTES, 14),
            (u32::MAX, 14),
        ] {
            let config = Arc::new(Config {
                receive_buffer_bytes: bytes,
                ..Config::default()
            });
            let config = config.bounded();
            assert_eq!(config.wanted_shift(), shift, "{bytes}");
            assert!(config.receive_buffer_bytes >> shift <= 65535);
        }
    }
}
