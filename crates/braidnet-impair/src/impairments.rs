//! What one direction of a link does.

use crate::Share;
use core::num::NonZeroU64;
use core::time::Duration;

/// What one direction of a link does to packets. By default nothing.
///
/// # Text
///
/// Words with values, separated by commas, in any order, each at most once; `none` is nothing at all. What is printed can be read
/// again.
///
/// | word | does | value |
/// |---|---|---|
/// | `loss` | loses this share of packets, each by itself | `1%` |
/// | `burst-loss` | begins a burst at this share of packets, ends it at that, and loses this share in it (all) | `0.1%:20%`, `0.1%:20%:80%` |
/// | `duplicate` | lets this share arrive twice | `0.1%` |
/// | `corrupt` | changes one bit in this share | `0.01%` |
/// | `delay` | lets every packet arrive so much later | `20ms` |
/// | `jitter` | and up to so much later still, none before an earlier one, or `overtaking` | `5ms`, `5ms:overtaking` |
/// | `reorder` | holds this share back by so much more, while others overtake it | `3%:5ms`, `3%:1ms-5ms` |
/// | `rate` | sends so many bits per second | `100mbit` |
/// | `burst` | sends so many bytes at once after a pause | `32k` (0) |
/// | `queue` | lets so many bytes wait for the line, and drops what comes then | `1M` (`256k`) |
/// | `ecn` | marks what finds more bytes waiting, where it can be marked (RFC 3168 §5) | `64k` |
/// | `limit` | keeps so many packets under way, and drops what comes then | `1000` (65536) |
/// | `seed` | decides everything | `7` (1) |
///
/// In brackets what holds where the word is missing. Units: `ns us ms s`; `k M G` of 1,024 bytes and so on; `bit kbit mbit gbit` of
/// 1,000.
///
/// ```
/// use braidnet_impair::Impairments;
/// let impairments: Impairments = "rate=100mbit,loss=1%,delay=20ms".parse()?;
/// assert_eq!(impairments.to_string(), "loss=1%,delay=20ms,rate=100mbit");
/// let refused = "los=1%".parse::<Impairments>().unwrap_err();
/// assert!(refused.to_string().starts_with("`los` is not known here: there are loss, burst-loss, "));
/// # Ok::<(), braidnet_impair::ImpairmentError>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Impairments {
    /// Packets that are lost, each by itself. In a burst that one's share holds instead.
    pub loss: Share,
    /// Losses in bursts.
    pub burst_loss: Option<BurstLoss>,
    /// Packets that arrive twice.
    pub duplicate: Share,
    /// Packets with one bit changed.
    pub corrupt: Share,
    /// How much later every packet arrives.
    pub delay: Duration,
    /// How much later still, at most.
    pub jitter: Jitter,
    /// Packets that are held back.
    pub reorder: Reorder,
    /// How fast the line is; `None`: it takes no time.
    pub rate: Option<Rate>,
    /// Packets that may be under way; those that come then are dropped.
    pub limit_packets: usize,
    /// Decides everything.
    pub seed: u64,
}

/// Losses in bursts: the model of Gilbert and Elliott, whose good state loses [`Impairments::loss`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BurstLoss {
    /// Packets outside a burst that begin one.
    pub begin: Share,
    /// Packets in a burst, its first not counted, that end it.
    pub end: Share,
    /// Packets of a burst that are lost.
    pub loss: Share,
}

/// A delay that differs from packet to packet, drawn evenly from nothing to `most`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Jitter {
    /// The most.
    pub most: Duration,
    /// Whether a packet may arrive before an earlier one. Where not, one that would arrives with that, so that under dense traffic
    /// the delay stays near the most.
    pub overtaking: bool,
}

/// Packets that are held back while others overtake them, by a time drawn evenly from `least` to `most`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reorder {
    /// How many.
    pub share: Share,
    /// The least time.
    pub least: Duration,
    /// The most; no less than the least.
    pub most: Duration,
}

/// A line and the queue in front of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rate {
    /// Bits that it sends in a second.
    pub bits_per_second: NonZeroU64,
    /// Bytes that it sends at once after a pause: a token bucket's depth. With 0 it sends bit after bit, and a packet leaves when
    /// its last bit does.
    pub burst_bytes: u64,
    /// Bytes that may wait. A packet that would be more is dropped, unless it finds nothing waiting.
    pub queue_bytes: u64,
    /// A packet that finds more bytes waiting is to be marked.
    pub mark_bytes: Option<u64>,
}

impl Impairments {
    /// What [`limit_packets`](Impairments::limit_packets) is where nothing is said.
    pub const LIMIT_PACKETS: usize = 65_536;
    /// What [`seed`](Impairments::seed) is where nothing is said.
    pub const SEED: u64 = 1;

    /// Nothing: every packet arrives at once, as it is.
    pub const fn none() -> Impairments {
        Impairments {
            loss: Share::NONE,
            burst_loss: None,
            duplicate: Share::NONE,
            corrupt: Share::NONE,
            delay: Duration::ZERO,
            jitter: Jitter {
                most: Duration::ZERO,
                overtaking: false,
            },
            reorder: Reorder {
                share: Share::NONE,
                least: Duration::ZERO,
                most: Duration::ZERO,
            },
            rate: None,
            limit_packets: Impairments::LIMIT_PACKETS,
            seed: Impairments::SEED,
        }
    }

    /// The longest that a packet can be under way, the copy of another included; the line's own time not counted, nor how long it
    /// waits for an earlier one that must not be overtaken.
    pub fn delay_max(&self) -> Duration {
        let held = match self.reorder.share.is_none() {
            true => Duration::ZERO,
            false => self.reorder.most.max(self.reorder.least),
        };
        self.delay
            .saturating_add(self.jitter.most)
            .saturating_add(held)
    }
}

impl Default for Impairments {
    fn default() -> Impairments {
        Impairments::none()
    }
}

impl BurstLoss {
    /// The share of packets that are lost in the long run, where outside bursts `loss` are.
    pub fn long_run(&self, loss: Share) -> f64 {
        let (begin, end) = (self.begin.as_fraction(), self.end.as_fraction());
        // The share of packets in bursts: of the chain's two states, in the long run.
        let in_burst = match begin + end {
            0.0 => 0.0,
            sum => begin / sum,
        };
        in_burst * self.loss.as_fraction() + (1.0 - in_burst) * loss.as_fraction()
    }
}

impl Rate {
    /// What [`queue_bytes`](Rate::queue_bytes) is where nothing is said.
    pub const QUEUE_BYTES: u64 = 256 << 10;

    /// So many bits per second, nothing at once, and a queue of [`Rate::QUEUE_BYTES`].
    pub const fn new(bits_per_second: NonZeroU64) -> Rate {
        Rate {
            bits_per_second,
            burst_bytes: 0,
            queue_bytes: Rate::QUEUE_BYTES,
            mark_bytes: None,
        }
    }
}
