//! What belongs to neither half: state, what the handshake agreed on, teardown.

use crate::config::Config;
use crate::ecn::{Ecn, Usual};
use crate::fast_open::Attempt;
use crate::reset::Reset;
use crate::slow::{Slow, SlowTimers, UserTimeout};
use crate::state::{State, Step};
use braidnet_wire::seq::SeqNumber;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use braidnet_wire::time::{Duration, Instant};
use std::sync::Arc;

/// The segment size to send with if the peer names none (RFC 9293 §3.7.1, MUST-15).
const DEFAULT_MSS: u16 = 536;
/// The least that a peer's MSS option counts for; see `docs/rfc-departures.md`.
pub(crate) const LEAST_MSS: u16 = 88;
/// Bytes that timestamps take from each segment (RFC 7323 appendix A).
pub(crate) const TIMESTAMPS_BYTES: u32 = 12;

/// Bytes that options take from each segment.
pub(crate) const fn option_bytes(timestamps: bool) -> u32 {
    if timestamps { TIMESTAMPS_BYTES } else { 0 }
}

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) state: State,
    /// Whether timestamps are in use: each segment but a RST carries them (RFC 7323 §3.2).
    pub(crate) timestamps: bool,
    /// Whether selective acknowledgment is in use.
    pub(crate) sack: bool,
    /// The peer's SYN has a window scale, and ours may.
    pub(crate) peer_scales: bool,
    pub(crate) ecn: Ecn,
    /// What there is of Fast Open while the handshake is under way.
    pub(crate) fast_open: Option<Box<Attempt>>,
    /// Data are exchanged before the handshake is over, or were (FastOpened of RFC 7413 §4.2): where what we send begins beyond it.
    pub(crate) early: Option<SeqNumber>,
    /// What most segments look like.
    pub(crate) usual: Usual,
    /// Our SYN or SYN-ACK is to be sent, or sent again.
    pub(crate) handshake_due: bool,
    /// How often it has been sent.
    pub(crate) handshakes_sent: u8,
    /// The window that our SYN announces, in bytes.
    pub(crate) announced_in_syn: u32,
    /// Payload bytes per full segment that we send, once agreed on.
    pub(crate) smss: u32,
    /// The same as the SYNs have it, whatever the path can do.
    pub(crate) agreed_smss: u32,
    /// Opened by us (RFC 9293: active OPEN).
    pub(crate) active: bool,
    /// The user has closed before the handshake was over.
    pub(crate) close_pending: bool,
    /// Nobody reads any more.
    pub(crate) unread: bool,
    /// A RST that waits to be sent.
    pub(crate) reset: Option<Reset>,
    /// What our timestamps add to the clock (RFC 7323 §7.1).
    pub(crate) ts_offset: u32,
    /// Timers that hardly ever expire.
    pub(crate) slow: SlowTimers,
    /// When the peer last said something that belongs to this connection.
    pub(crate) heard: Instant,
    /// Keepalive probes since then.
    pub(crate) keepalive_probes: u8,
    /// A keepalive probe is to be sent.
    pub(crate) keepalive_due: bool,
    pub(crate) user_timeout: UserTimeout,
    challenges: Challenges,
    /// The longest packet, in bytes, that the path to the peer carries, as far as is known.
    pub(crate) path_mtu: u32,
    /// SND.UNA when the network last said that segments are not delivered.
    pub(crate) undelivered: Option<SeqNumber>,
    /// The segment size that we announce.
    pub(crate) mss: u16,
    /// How it is set: as all are that are opened alike, until it is set otherwise.
    pub(crate) config: Arc<Config>,
}

/// Room for challenge ACKs, per connection: a count shared by several would tell an attacker about the others
/// (RFC 5961 §7 as amended by what CVE-2016-5696 showed).
#[derive(Debug)]
struct Challenges {
    period_start: Instant,
    left: u8,
}

/// What the options of the two SYNs agree on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Agreed {
    /// Payload bytes per full segment that we send.
    pub(crate) smss: u32,
    pub(crate) snd_wind_shift: u8,
    pub(crate) rcv_wind_shift: u8,
    /// Bytes that options take from each segment.
    pub(crate) option_bytes: u32,
}

impl Connection {
    pub(crate) fn new(config: &Arc<Config>, mss: u16, state: State, now: Instant) -> Connection {
        Connection {
            state,
            timestamps: false,
            sack: false,
            peer_scales: false,
            ecn: Ecn::default(),
            fast_open: None,
            early: None,
            usual: Usual::default(),
            handshake_due: true,
            handshakes_sent: 0,
            announced_in_syn: config.receive_buffer_bytes.min(65535),
            smss: u32::from(mss),
            agreed_smss: u32::from(mss),
            active: state == State::SynSent,
            close_pending: false,
            unread: false,
            reset: None,
            ts_offset: 0,
            slow: SlowTimers::default(),
            heard: now,
            keepalive_probes: 0,
            keepalive_due: false,
            user_timeout: UserTimeout::default(),
            challenges: Challenges {
                period_start: now,
                left: config.challenge_acks,
            },
            path_mtu: u32::MAX,
            undelivered: None,
            mss,
            config: Arc::clone(config),
        }
    }

    /// To set this connection otherwise than those that were opened alike.
    pub(crate) fn set(&mut self) -> &mut Config {
        Arc::make_mut(&mut self.config)
    }

    /// Bounds the segment size that is announced, and returns what it is then. Before the handshake only.
    pub(crate) fn limit_segments(&mut self, bytes: u16) -> u16 {
        self.set().maximum_segment = bytes;
        self.mss = self.mss.min(bytes);
        self.smss = u32::from(self.mss);
        self.mss
    }

    /// The receive buffer is so large, by which the handshake goes. Before it only.
    pub(crate) fn set_receive_buffer(&mut self, bytes: u32) {
        let config = self.set();
        config.receive_buffer_bytes = bytes;
        config.receive_buffer_max_bytes = 0;
        self.announced_in_syn = bytes.min(65535);
    }

    /// Moves on by `step` (RFC 9293 figure 5).
    pub(crate) fn advance(&mut self, now: Instant, step: Step) {
        let after = self.state.after(step);
        if after == self.state {
            return;
        }
        self.state = after;
        match after {
            State::TimeWait => {
                // All is said: nothing is left to wait for but this.
                self.slow.clear();
                self.live_for(now, self.config.time_wait);
            }
            State::FinWait2 if self.unread => self.live_for(now, self.config.fin_wait_2),
            _ => {}
        }
    }

    /// The connection is over after so long.
    pub(crate) fn live_for(&mut self, now: Instant, stay: Duration) {
        self.slow.start(Slow::Lifetime, now, stay);
    }

    /// Compares the options of the peer's SYN with what we offer.
    pub(crate) fn agree(&mut self, syn: &TcpHeader) -> Agreed {
        let config = Arc::clone(&self.config);
        // RFC 7323 §2.2, §3.2 and RFC 2018 §2: in use only if both SYNs carry the option.
        self.timestamps = config.timestamps && syn.has(TcpHeader::HAS_TIMESTAMPS);
        self.sack = config.sack && syn.has(TcpHeader::HAS_SACK_PERMITTED);
        self.peer_scales = config.window_scale && syn.has(TcpHeader::HAS_WINDOW_SCALE);
        self.agree_on_ecn(syn);
        let (snd_wind_shift, rcv_wind_shift) = if self.peer_scales {
            (syn.window_scale.min(14), config.wanted_shift())
        } else {
            (0, 0)
        };
        // RFC 9293 §3.7.1, RFC 6691 §2: the lesser of what the peer can take and what our path can carry, less options.
        let peer_mss = if syn.has(TcpHeader::HAS_MSS) {
            syn.mss
        } else {
            DEFAULT_MSS
        };
        let mss = peer_mss.max(LEAST_MSS).min(self.mss.max(LEAST_MSS));
        let option_bytes = option_bytes(self.timestamps);
        Agreed {
            smss: u32::from(mss) - option_bytes,
            snd_wind_shift,
            rcv_wind_shift,
            option_bytes,
        }
    }

    /// A SYN with what we offer, or with what we agree to once the peer's is there (RFC 9293 §3.7.1, RFC 7323 §2.2 and §3.2, RFC
    /// 2018 §2).
    pub(crate) fn syn(&self, now: Instant) -> TcpHeader {
        let config = &self.config;
        let mut header = TcpHeader {
            flags: TcpFlags::SYN,
            window: self.announced_in_syn as u16,
            present: TcpHeader::HAS_MSS,
            mss: self.mss,
            ..TcpHeader::default()
        };
        let (mut scale, mut sack, mut timestamps) =
            (config.window_scale, config.sack, config.timestamps);
        if self.state == State::SynReceived {
            scale &= self.peer_scales;
            sack = self.sack;
            timestamps = self.timestamps;
        }
        if scale {
            header.present |= TcpHeader::HAS_WINDOW_SCALE;
            header.window_scale = config.wanted_shift();
        }
        if sack {
            header.present |= TcpHeader::HAS_SACK_PERMITTED;
        }
        if timestamps {
            header.present |= TcpHeader::HAS_TIMESTAMPS;
            header.ts_value = self.ts_value(now);
        }
        self.put_ecn_setup(&mut header);
        header
    }

    /// Whether one more challenge ACK may be sent now (RFC 5961 §7).
    pub(crate) fn may_challenge(&mut self, now: Instant) -> bool {
        if now.since(self.challenges.period_start) >= self.config.challenge_period {
            self.challenges = Challenges {
                period_start: now,
                left: self.config.challenge_acks,
            };
        }
        let may = self.challenges.left > 0;
        self.challenges.left -= u8::from(may);
        may
    }

    /// The present value of our timestamp clock, which ticks every millisecond (RFC 7323 §5.4).
    #[inline]
    pub(crate) fn ts_value(&self, now: Instant) -> u32 {
        (now.millis() as u32).wrapping_add(self.ts_offset)
    }

    /// Timeouts without an answer that this connection bears (RFC 9293 §3.8.3, R2).
    pub(crate) fn patience(&self) -> u8 {
        match self.state {
            State::SynSent => self.config.syn_retransmissions,
            State::SynReceived if self.active => self.config.syn_retransmissions,
            State::SynReceived => self.config.syn_ack_retransmissions,
            // Time decides (RFC 5482 §3.1).
            _ if self.user_timeout.limit(&self.config).is_some() => u8::MAX,
            _ => self.config.retransmissions,
        }
    }
}

#[cfg(test)]
mod tests;
