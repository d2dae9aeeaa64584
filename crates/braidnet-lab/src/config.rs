//! One measurement's knobs.

use crate::content::NUMBER_BYTES;
use braidnet_codec::record::MARK_BYTES;
use braidnet_codec::xdr::BatchShape;
use braidnet_process::Architecture;
use braidnet_sync::lock::LockKind;
use braidnet_tcp::{CongestionControl, MAX_WINDOW_BYTES};
use core::fmt;
use core::str::FromStr;
use std::time::Duration;

/// One measurement: what is measured, on how many processors, under which load.
///
/// ```
/// use braidnet_lab::TtcpConfig;
/// let config = TtcpConfig { connections: 20, ..TtcpConfig::default() };
/// assert!(config.validate().is_ok());
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TtcpConfig {
    /// How processors are bound to protocol work.
    pub architecture: Architecture,
    /// How many processors, 1 to 256. Every busy thread counts, the far end's work included.
    pub processors: usize,
    /// How many connections (under UDP: pairs of ports), 1 to 10,000, dealt to processors evenly.
    pub connections: usize,
    /// TCP or UDP.
    pub transport: Transport,
    /// How many messages are measured at least, over all connections: 1 to 10^12.
    pub messages: u64,
    /// How many messages go before, unmeasured: at most 10^12.
    pub warmup: u64,
    /// Bytes of a message: 1 to 16 MiB; under UDP what a datagram can hold; under [`Presentation::Xdr`] a multiple of four of at
    /// least 8 (a record mark of four bytes stands before each under TCP and is not counted).
    pub size: usize,
    /// Longest IP packet of the device in bytes, 128 to 65,535. The FDDI device of the papers has 4352.
    pub mtu: usize,
    /// Room for received bytes, and for bytes sent and not acknowledged, of each connection: 2,048 bytes to 1 GiB.
    pub window_bytes: u32,
    /// Whether the stack makes and verifies TCP and UDP checksums. Off is a mode of the laboratory after PLP §2.3: the device
    /// says of every packet that it has verified and will fill in the checksum, which nobody does, so that what is measured is
    /// a stack whose device does that work. IP header checksums stay.
    pub checksum: bool,
    /// What stands between transport and application.
    pub presentation: Presentation,
    /// Which way the messages go. [`Mode::Echo`] goes both ways and does not look at it.
    pub direction: Direction,
    /// A stream of messages, or one-message round trips.
    pub mode: Mode,
    /// What shared buckets and queues are locked with under `message`.
    pub lock: LockKind,
    /// Most messages that are taken from one place at once, 1 to 1,024.
    pub batch: usize,
    /// How many queues the device has: 1 to as many as processors take from it.
    pub device_queues: usize,
    /// Whether each thread stays on a processor of its own.
    pub pin: bool,
    /// How long the measured part lasts at least; messages go on being measured until it is filled.
    pub min_duration: Duration,
    /// How the congestion window of our senders grows and shrinks.
    pub congestion: CongestionControl,
    /// Whether waits for locks are timed. That costs time itself, so it belongs into repetitions of its own.
    pub sync_sampling: bool,
}

impl Default for TtcpConfig {
    fn default() -> TtcpConfig {
        TtcpConfig {
            architecture: Architecture::Connection,
            processors: 1,
            connections: 1,
            transport: Transport::Tcp,
            messages: 20_000,
            warmup: 10_000,
            size: 4096,
            mtu: 4352,
            window_bytes: 1 << 20,
            checksum: true,
            presentation: Presentation::None,
            direction: Direction::Receive,
            mode: Mode::Bulk,
            lock: LockKind::Adaptive,
            batch: 64,
            device_queues: 1,
            pin: false,
            min_duration: Duration::from_millis(300),
            congestion: CongestionControl::Cubic,
            sync_sampling: false,
        }
    }
}

/// Fewest bytes of [`TtcpConfig::mtu`]: headers with all options, and something behind them.
pub const MIN_MTU: usize = 128;
/// Most bytes of [`TtcpConfig::mtu`] (RFC 791 §3.1).
pub const MAX_MTU: usize = 65_535;
/// Most of [`TtcpConfig::processors`].
pub const MAX_PROCESSORS: usize = 256;
/// Most of [`TtcpConfig::connections`]: each needs a port of the far end's in its processor's share of them.
pub const MAX_CONNECTIONS: usize = 10_000;
/// Most messages, so that neither their number nor their bytes overflow.
pub const MAX_MESSAGES: u64 = 1_000_000_000_000;
/// Most bytes of [`TtcpConfig::size`].
pub const MAX_SIZE: usize = 16 << 20;
/// Most of [`TtcpConfig::batch`].
pub const MAX_BATCH: usize = 1024;
/// Fewest bytes of [`TtcpConfig::window_bytes`].
pub const MIN_WINDOW_BYTES: u32 = 2048;

/// Bytes of an IPv4 header without options (RFC 791 §3.1), and with a UDP header behind it (RFC 768).
const IP_HEADER_BYTES: usize = 20;
const UDP_HEADERS_BYTES: usize = IP_HEADER_BYTES + 8;

impl TtcpConfig {
    /// Says whether this can be measured.
    ///
    /// # Errors
    /// [`ConfigError`], a sentence for whoever set it.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let within = |what, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::OutOfRange {
                    what,
                    value,
                    least,
                    most,
                })
            }
        };
        let sized = |what, value: usize, least: usize, most: usize| {
            within(what, value as u64, least as u64, most as u64)
        };
        sized("processors", self.processors, 1, MAX_PROCESSORS)?;
        sized("connections", self.connections, 1, MAX_CONNECTIONS)?;
        sized("the size of a message", self.size, 1, MAX_SIZE)?;
        sized("the MTU", self.mtu, MIN_MTU, MAX_MTU)?;
        sized("the batch", self.batch, 1, MAX_BATCH)?;
        let (least, most) = (MIN_WINDOW_BYTES.into(), MAX_WINDOW_BYTES.into());
        within("the window", self.window_bytes.into(), least, most)?;
        if self.messages == 0 {
            return Err(ConfigError::NoMessages);
        }
        within("the number of messages", self.messages, 1, MAX_MESSAGES)?;
        within(
            "the number of messages before",
            self.warmup,
            0,
            MAX_MESSAGES,
        )?;
        self.validate_message()?;
        let takers = self.takers();
        if self.device_queues == 0 || self.device_queues > takers {
            return Err(ConfigError::DeviceQueues {
                queues: self.device_queues,
                takers,
            });
        }
        Ok(())
    }

    fn validate_message(&self) -> Result<(), ConfigError> {
        let size = self.size;
        if self.transport == Transport::Udp && size > self.mtu - UDP_HEADERS_BYTES {
            return Err(ConfigError::DatagramTooLong {
                size,
                room: self.mtu - UDP_HEADERS_BYTES,
                mtu: self.mtu,
            });
        }
        if self.transport == Transport::Udp && size < self.least_datagram() {
            return Err(ConfigError::DatagramTooShort {
                size,
                least: self.least_datagram(),
            });
        }
        if self.presentation == Presentation::Xdr {
            if BatchShape::filling(size).is_err() {
                return Err(ConfigError::UnevenRecord { size });
            }
            // The framer gives a record's bytes back to the window when it is whole, so one and a half must fit.
            let least = (size + MARK_BYTES) * 2;
            if self.transport == Transport::Tcp && (self.window_bytes as usize) < least {
                return Err(ConfigError::RecordAboveWindow {
                    size,
                    window_bytes: self.window_bytes,
                    least,
                });
            }
            if self.mode == Mode::Echo {
                return Err(ConfigError::EchoPresentation);
            }
        }
        if self.mode == Mode::Echo
            && self.transport == Transport::Tcp
            && size > self.window_bytes as usize / 2
        {
            return Err(ConfigError::EchoAboveWindow {
                size,
                window_bytes: self.window_bytes,
            });
        }
        Ok(())
    }

    /// A datagram carries its number, eight bytes, and under XDR a batch behind it.
    fn least_datagram(&self) -> usize {
        match self.presentation {
            Presentation::None => NUMBER_BYTES,
            Presentation::Xdr => 2 * NUMBER_BYTES,
        }
    }

    /// How many processors take from the device: all, but under `task` one of each pipeline.
    pub fn takers(&self) -> usize {
        match self.architecture {
            Architecture::Task => (self.processors / 2).max(1),
            Architecture::Connection | Architecture::Message => self.processors,
        }
    }
}

/// Why a measurement cannot be made as it is set.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// A number outside its range.
    #[error("{what} cannot be {value}: from {least} to {most}")]
    OutOfRange {
        /// Which one.
        what: &'static str,
        /// What it was set to.
        value: u64,
        /// The least that it may be.
        least: u64,
        /// The most that it may be.
        most: u64,
    },
    /// Nothing to measure.
    #[error("at least one message must be measured")]
    NoMessages,
    /// A datagram that does not fit into a packet.
    #[error(
        "a UDP message of {size} bytes does not fit into a packet of {mtu}: {room} at most, for nothing is fragmented"
    )]
    DatagramTooLong {
        /// Bytes of the message.
        size: usize,
        /// Bytes that there is room for.
        room: usize,
        /// The MTU.
        mtu: usize,
    },
    /// A record that no batch of samples fills.
    #[error("an XDR message must be a multiple of four bytes and at least 8, not {size}")]
    UnevenRecord {
        /// Bytes of the message.
        size: usize,
    },
    /// A datagram that has no room for its number.
    #[error("a UDP message carries its number: it must have at least {least} bytes, not {size}")]
    DatagramTooShort {
        /// Bytes of the message.
        size: usize,
        /// The fewest that do.
        least: usize,
    },
    /// Records that a window cannot carry.
    #[error(
        "XDR messages of {size} bytes need a window of at least {least} bytes, not {window_bytes}: a record stays in the window until it is whole"
    )]
    RecordAboveWindow {
        /// Bytes of the message.
        size: usize,
        /// The window.
        window_bytes: u32,
        /// The smallest window that does.
        least: usize,
    },
    /// Round trips of presented messages.
    #[error("round trips (mode echo) carry bytes as they are: there is no XDR in them")]
    EchoPresentation,
    /// A round trip's message that cannot be on its way whole.
    #[error(
        "a round trip's message of {size} bytes must fit into half of the window of {window_bytes}"
    )]
    EchoAboveWindow {
        /// Bytes of the message.
        size: usize,
        /// The window.
        window_bytes: u32,
    },
    /// More device queues than there are processors for, or none.
    #[error(
        "{queues} device queues for {takers} processors that take from the device: from 1 to {takers}"
    )]
    DeviceQueues {
        /// How many queues.
        queues: usize,
        /// How many processors take from the device.
        takers: usize,
    },
}

/// A word that is none of those that can be chosen.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no {what} is called `{word}`: choose {choices}")]
pub struct UnknownWord {
    what: &'static str,
    word: String,
    choices: &'static str,
}

macro_rules! words {
    (
        $(#[$doc:meta])* $name:ident, $what:literal, $choices:literal:
        $($(#[$variant_doc:meta])* $variant:ident = $word:literal,)*
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $name {
            $($(#[$variant_doc])* $variant,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &[$name] = &[$($name::$variant),*];

            /// Its name on the command line and in reports.
            pub const fn name(self) -> &'static str {
                match self {
                    $($name::$variant => $word,)*
                }
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.name())
            }
        }

        impl FromStr for $name {
            type Err = UnknownWord;

            fn from_str(word: &str) -> Result<$name, UnknownWord> {
                $name::ALL
                    .iter()
                    .copied()
                    .find(|choice| choice.name() == word)
                    .ok_or_else(|| UnknownWord { what: $what, word: word.to_owned(), choices: $choices })
            }
        }
    };
}

words! {
    /// What carries the messages.
    Transport, "transport", "tcp or udp":
    /// TCP (RFC 9293).
    Tcp = "tcp",
    /// UDP (RFC 768).
    Udp = "udp",
}

words! {
    /// What stands between transport and application.
    Presentation, "presentation", "none or xdr":
    /// Nothing: the application copies the bytes.
    None = "none",
    /// XDR (RFC 4506), in records (RFC 5531 §11) under TCP: the application sums what was decoded.
    Xdr = "xdr",
}

words! {
    /// Which way the messages go.
    Direction, "direction", "receive, send or both":
    /// Up the stack, from a simulated sender.
    Receive = "receive",
    /// Down the stack, to a simulated receiver.
    Send = "send",
    /// Down one whole stack and up another.
    Both = "both",
}

words! {
    /// What the load is.
    Mode, "mode", "bulk or echo":
    /// As many messages as possible.
    Bulk = "bulk",
    /// Round trips between two whole stacks, one outstanding for each connection.
    Echo = "echo",
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_measured_is_refused_with_a_sentence() {
        let good = TtcpConfig::default;
        let rows = [
            (
                TtcpConfig {
                    processors: 0,
                    ..good()
                },
                "processors cannot be 0: from 1 to 256",
            ),
            (
                TtcpConfig {
                    connections: 10_001,
                    ..good()
                },
                "connections cannot be 10001: from 1 to 10000",
            ),
            (
                TtcpConfig { size: 0, ..good() },
                "the size of a message cannot be 0: from 1 to 16777216",
            ),
            (
                TtcpConfig {
                    mtu: 65_536,
                    ..good()
                },
                "the MTU cannot be 65536: from 128 to 65535",
            ),
            (
                TtcpConfig { batch: 0, ..good() },
                "the batch cannot be 0: from 1 to 1024",
            ),
            (
                TtcpConfig {
                    window_bytes: 1,
                    ..good()
                },
                "the window cannot be 1: from 2048 to 1073725440",
            ),
            (
                TtcpConfig {
                    messages: 0,
                    ..good()
                },
                "at least one message must be measured",
            ),
            (
                TtcpConfig {
                    messages: u64::MAX,
                    ..good()
                },
                "the number of messages cannot be 18446744073709551615: from 1 to 1000000000000",
            ),
            (
                TtcpConfig {
                    warmup: u64::MAX,
                    ..good()
                },
                "the number of messages before cannot be 18446744073709551615: from 0 to 1000000000000",
            ),
            (
                TtcpConfig {
                    transport: Transport::Udp,
                    size: 4325,
                    ..good()
                },
                "a UDP message of 4325 bytes does not fit into a packet of 4352: 4324 at most, for nothing is fragmented",
            ),
            (
                TtcpConfig {
                    presentation: Presentation::Xdr,
                    size: 4097,
                    ..good()
                },
                "an XDR message must be a multiple of four bytes and at least 8, not 4097",
            ),
            (
                TtcpConfig {
                    presentation: Presentation::Xdr,
                    window_bytes: 8199,
                    ..good()
                },
                "XDR messages of 4096 bytes need a window of at least 8200 bytes, not 8199: a record stays in the window until it is whole",
            ),
            (
                TtcpConfig {
                    presentation: Presentation::Xdr,
                    mode: Mode::Echo,
                    ..good()
                },
                "round trips (mode echo) carry bytes as they are: there is no XDR in them",
            ),
            (
                TtcpConfig {
                    mode: Mode::Echo,
                    size: 1 << 21,
                    ..good()
                },
                "a round trip's message of 2097152 bytes must fit into half of the window of 1048576",
            ),
            (
                TtcpConfig {
                    device_queues: 2,
                    ..good()
                },
                "2 device queues for 1 processors that take from the device: from 1 to 1",
            ),
            (
                TtcpConfig {
                    architecture: Architecture::Task,
                    processors: 3,
                    device_queues: 2,
                    ..good()
                },
                "2 device queues for 1 processors that take from the device: from 1 to 1",
            ),
        ];
        for (config, sentence) in rows {
            assert_eq!(
                config.validate().map_err(|error| error.to_string()),
                Err(sentence.to_owned())
            );
        }
        let udp = TtcpConfig {
            transport: Transport::Udp,
            size: 4324,
            ..good()
        };
        let queues = TtcpConfig {
            processors: 4,
            device_queues: 4,
            ..good()
        };
        let task = TtcpConfig {
            architecture: Architecture::Task,
            processors: 5,
            device_queues: 2,
            ..good()
        };
        for config in [good(), udp, queues, task] {
            assert_eq!(config.validate(), Ok(()));
        }
    }

    #[test]
    fn words_are_read_as_they_are_written() {
        fn law<T: Copy + FromStr + fmt::Display + PartialEq + fmt::Debug>(all: &[T]) {
            for word in all {
                assert_eq!(word.to_string().parse::<T>().ok(), Some(*word));
            }
            assert!("sideways".parse::<T>().is_err());
        }
        law(Transport::ALL);
        law(Presentation::ALL);
        law(Direction::ALL);
        law(Mode::ALL);
        let error = "up".parse::<Direction>().map_err(|error| error.to_string());
        assert_eq!(
            error,
            Err("no direction is called `up`: choose receive, send or both".to_owned())
        );
    }
}
