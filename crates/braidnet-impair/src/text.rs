//! Impairments as people write them.

use crate::share::WHOLE;
use crate::{BurstLoss, Impairments, Jitter, Rate, Reorder, Share};
use core::fmt;
use core::num::NonZeroU64;
use core::str::FromStr;
use core::time::Duration;

/// Why a text says no [`Impairments`].
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ImpairmentError {
    /// There is no such word.
    #[error("`{word}` is not known here: there are {}", words())]
    Unknown {
        /// The word.
        word: String,
    },
    /// The word's value is not what it takes.
    #[error("{name} takes {takes}, not `{given}`")]
    Value {
        /// The word.
        name: &'static str,
        /// What it takes.
        takes: &'static str,
        /// What was given.
        given: String,
    },
    /// The word stands there twice.
    #[error("{name} is said twice")]
    Twice {
        /// The word.
        name: &'static str,
    },
    /// The word says something of a line that has no rate.
    #[error("{name} needs a rate, such as rate=100mbit")]
    NeedsRate {
        /// The word.
        name: &'static str,
    },
    /// No share of anything.
    #[error("a share is written as 1% or 0.05%, and is at most 100%")]
    Share,
}

/// A word: how it is called and what it takes.
struct Word {
    name: &'static str,
    takes: &'static str,
    read: fn(&mut Draft, &str) -> Option<()>,
}

const SHARE: &str = "a share such as 1% or 0.05%";
const SIZE: &str = "a number of bytes such as 64k or 1M";

/// The longest time, an hour, and the fastest line, a terabit per second: what lies beyond is a slip of the pen.
const TIME_MAX: u64 = 3_600 * SECOND;
const RATE_MAX: u64 = 1_000_000_000_000;
const SECOND: u64 = 1_000_000_000;

const WORDS: [Word; 13] = [
    Word {
        name: "loss",
        takes: SHARE,
        read: |draft, text| set(&mut draft.of.loss, text.parse().ok()),
    },
    Word {
        name: "burst-loss",
        takes: "how many packets begin a burst, how many end it and, if not all, how many are lost in it, such as 0.1%:20% or 0.1%:20%:80%",
        read: |draft, text| set(&mut draft.of.burst_loss, burst_loss(text).map(Some)),
    },
    Word {
        name: "duplicate",
        takes: SHARE,
        read: |draft, text| set(&mut draft.of.duplicate, text.parse().ok()),
    },
    Word {
        name: "corrupt",
        takes: SHARE,
        read: |draft, text| set(&mut draft.of.corrupt, text.parse().ok()),
    },
    Word {
        name: "delay",
        takes: "a time up to 3600s such as 20ms or 150us",
        read: |draft, text| set(&mut draft.of.delay, time(text)),
    },
    Word {
        name: "jitter",
        takes: "a time up to 3600s such as 5ms, or 5ms:overtaking where packets may overtake each other",
        read: |draft, text| set(&mut draft.of.jitter, jitter(text)),
    },
    Word {
        name: "reorder",
        takes: "a share and a time or two, such as 3%:5ms or 3%:1ms-5ms",
        read: |draft, text| set(&mut draft.of.reorder, reorder(text)),
    },
    Word {
        name: "rate",
        takes: "bits per second, up to 1000gbit, such as 100mbit or 2.5gbit",
        read: |draft, text| set(&mut draft.rate, rate(text).map(Some)),
    },
    Word {
        name: "burst",
        takes: SIZE,
        read: |draft, text| set(&mut draft.burst, size(text).map(Some)),
    },
    Word {
        name: "queue",
        takes: SIZE,
        read: |draft, text| set(&mut draft.queue, size(text).map(Some)),
    },
    Word {
        name: "ecn",
        takes: SIZE,
        read: |draft, text| set(&mut draft.mark, size(text).map(Some)),
    },
    Word {
        name: "limit",
        takes: "a number of packets, 1 at least",
        read: |draft, text| {
            let limit = text.parse().ok().filter(|limit| *limit > 0);
            set(&mut draft.of.limit_packets, limit)
        },
    },
    Word {
        name: "seed",
        takes: "a number",
        read: |draft, text| set(&mut draft.of.seed, text.parse().ok()),
    },
];

fn words() -> String {
    WORDS.map(|word| word.name).join(", ")
}

/// What has been read so far.
#[derive(Default)]
struct Draft {
    of: Impairments,
    rate: Option<NonZeroU64>,
    burst: Option<u64>,
    queue: Option<u64>,
    mark: Option<u64>,
}

/// Sets what could be read.
fn set<T>(place: &mut T, value: Option<T>) -> Option<()> {
    *place = value?;
    Some(())
}

impl FromStr for Impairments {
    type Err = ImpairmentError;

    fn from_str(text: &str) -> Result<Impairments, ImpairmentError> {
        let mut draft = Draft::default();
        let mut said = [false; WORDS.len()];
        if matches!(text.trim(), "" | "none") {
            return Ok(draft.of);
        }
        for part in text.split(',') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let (name, value) = (name.trim(), value.trim());
            let known = WORDS.iter().zip(&mut said);
            let Some((word, said)) = known.into_iter().find(|(word, _)| word.name == name) else {
                return Err(ImpairmentError::Unknown {
                    word: name.to_owned(),
                });
            };
            if core::mem::replace(said, true) {
                return Err(ImpairmentError::Twice { name: word.name });
            }
            (word.read)(&mut draft, value).ok_or_else(|| ImpairmentError::Value {
                name: word.name,
                takes: word.takes,
                given: value.to_owned(),
            })?;
        }
        draft.finish()
    }
}

impl Draft {
    fn finish(self) -> Result<Impairments, ImpairmentError> {
        let Some(bits_per_second) = self.rate else {
            let of_rate = [
                ("burst", self.burst),
                ("queue", self.queue),
                ("ecn", self.mark),
            ];
            return match of_rate.into_iter().find(|(_, value)| value.is_some()) {
                Some((name, _)) => Err(ImpairmentError::NeedsRate { name }),
                None => Ok(self.of),
            };
        };
        let plain = Rate::new(bits_per_second);
        let rate = Rate {
            burst_bytes: self.burst.unwrap_or(plain.burst_bytes),
            queue_bytes: self.queue.unwrap_or(plain.queue_bytes),
            mark_bytes: self.mark,
            ..plain
        };
        Ok(Impairments {
            rate: Some(rate),
            ..self.of
        })
    }
}

fn burst_loss(text: &str) -> Option<BurstLoss> {
    let (begin, rest) = text.split_once(':')?;
    let (end, loss) = match rest.split_once(':') {
        Some((end, loss)) => (end, loss.parse().ok()?),
        None => (rest, Share::ALL),
    };
    Some(BurstLoss {
        begin: begin.parse().ok()?,
        end: end.parse().ok()?,
        loss,
    })
}

fn jitter(text: &str) -> Option<Jitter> {
    let (most, overtaking) = match text.split_once(':') {
        Some((most, "overtaking")) => (most, true),
        Some(_) => return None,
        None => (text, false),
    };
    Some(Jitter {
        most: time(most)?,
        overtaking,
    })
}

fn reorder(text: &str) -> Option<Reorder> {
    let (share, times) = text.split_once(':')?;
    let (least, most) = times.split_once('-').unwrap_or((times, times));
    let (least, most) = (time(least)?, time(most)?);
    (least <= most).then_some(Reorder {
        share: share.parse().ok()?,
        least,
        most,
    })
}

fn time(text: &str) -> Option<Duration> {
    let nanos = number(text, TIMES)?;
    (nanos <= TIME_MAX).then(|| Duration::from_nanos(nanos))
}

fn size(text: &str) -> Option<u64> {
    number(text, SIZES)
}

fn rate(text: &str) -> Option<NonZeroU64> {
    let bits = number(text, RATES).filter(|bits| *bits <= RATE_MAX)?;
    NonZeroU64::new(bits)
}

/// Units, the largest first; of those that are equal the one that is printed first.
type Units = &'static [(&'static str, u64)];

const TIMES: Units = &[
    ("s", SECOND),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("µs", 1_000),
    ("ns", 1),
];
const SIZES: Units = &[
    ("G", 1 << 30),
    ("M", 1 << 20),
    ("k", 1 << 10),
    ("K", 1 << 10),
    ("", 1),
];
const RATES: Units = &[
    ("gbit", SECOND),
    ("mbit", 1_000_000),
    ("kbit", 1_000),
    ("bit", 1),
];

/// A number with a unit, with decimals as far as it comes out even.
fn number(text: &str, units: Units) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim())?;
    scaled(digits, *factor)
}

/// A decimal number times a factor, where that is whole.
fn scaled(digits: &str, factor: u64) -> Option<u64> {
    let (whole, decimals) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || decimals.len() > 18 || digits.ends_with('.') {
        return None;
    }
    let divisor = 10u128.checked_pow(decimals.len() as u32)?;
    let parts: u128 = match decimals {
        "" => 0,
        decimals => decimals.parse().ok()?,
    };
    let whole: u128 = whole.parse().ok()?;
    let value = whole.checked_mul(divisor)?.checked_add(parts)?;
    let value = value.checked_mul(u128::from(factor))?;
    match value % divisor {
        0 => u64::try_from(value / divisor).ok(),
        _ => None,
    }
}

/// As [`number`] reads it, in the largest unit in which it is whole.
struct Scaled(u64, Units);

impl fmt::Display for Scaled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Scaled(value, units) = *self;
        let fits = |unit: &&(&str, u64)| value >= unit.1 && value.is_multiple_of(unit.1);
        match units.iter().find(fits).or(units.last()) {
            Some((unit, factor)) => write!(f, "{}{unit}", value / factor),
            None => write!(f, "{value}"),
        }
    }
}

fn of_time(time: Duration) -> Scaled {
    Scaled(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), TIMES)
}

impl FromStr for Share {
    type Err = ImpairmentError;

    fn from_str(text: &str) -> Result<Share, ImpairmentError> {
        let parts = text.strip_suffix('%').and_then(|digits| {
            let parts = scaled(digits.trim_end(), u64::from(WHOLE / 100))?;
            u32::try_from(parts).ok().filter(|parts| *parts <= WHOLE)
        });
        parts
            .map(Share::parts_per_billion)
            .ok_or(ImpairmentError::Share)
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, decimals) = (self.parts() / (WHOLE / 100), self.parts() % (WHOLE / 100));
        if decimals == 0 {
            return write!(f, "{whole}%");
        }
        let decimals = format!("{decimals:07}");
        write!(f, "{whole}.{}%", decimals.trim_end_matches('0'))
    }
}

impl fmt::Display for Impairments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        let mut say = |is_said: bool, name: &str, value: &dyn fmt::Display| {
            if is_said {
                parts.push(format!("{name}={value}"));
            }
        };
        say(!self.loss.is_none(), "loss", &self.loss);
        if let Some(burst) = self.burst_loss {
            let loss = match burst.loss {
                Share::ALL => String::new(),
                loss => format!(":{loss}"),
            };
            let text = format!("{}:{}{loss}", burst.begin, burst.end);
            say(true, "burst-loss", &text);
        }
        say(!self.duplicate.is_none(), "duplicate", &self.duplicate);
        say(!self.corrupt.is_none(), "corrupt", &self.corrupt);
        say(!self.delay.is_zero(), "delay", &of_time(self.delay));
        let overtaking = if self.jitter.overtaking {
            ":overtaking"
        } else {
            ""
        };
        let jitter = format!("{}{overtaking}", of_time(self.jitter.most));
        say(self.jitter != Jitter::default(), "jitter", &jitter);
        let Reorder { share, least, most } = self.reorder;
        let times = match least == most {
            true => of_time(least).to_string(),
            false => format!("{}-{}", of_time(least), of_time(most)),
        };
        let is_said = self.reorder != Reorder::default();
        say(is_said, "reorder", &format!("{share}:{times}"));
        if let Some(rate) = self.rate {
            let bits = rate.bits_per_second;
            say(true, "rate", &Scaled(bits.get(), RATES));
            say(
                rate.burst_bytes > 0,
                "burst",
                &Scaled(rate.burst_bytes, SIZES),
            );
            let is_said = rate.queue_bytes != Rate::QUEUE_BYTES;
            say(is_said, "queue", &Scaled(rate.queue_bytes, SIZES));
            let mark = rate.mark_bytes;
            say(mark.is_some(), "ecn", &Scaled(mark.unwrap_or(0), SIZES));
        }
        let is_said = self.limit_packets != Impairments::LIMIT_PACKETS;
        say(is_said, "limit", &self.limit_packets);
        say(self.seed != Impairments::SEED, "seed", &self.seed);
        match parts.is_empty() {
            true => f.write_str("none"),
            false => f.write_str(&parts.join(",")),
        }
    }
}

#[cfg(test)]
mod tests;
