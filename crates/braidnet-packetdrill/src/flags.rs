//! What `--so_flags` says, and what the stack is set to.
//!
//! Scripts begin with a shell command that sets Linux for them (`defaults.sh`), which means nothing to a stack in a shared object: what it
//! asks for is what this one begins with. What some of them set besides, flags of the same names do.

use braidnet::StackConfig;
use braidnet::tcp::{Config, CongestionControl, EcnMode, FastOpen, SharedKeys};
use core::time::Duration;
use std::net::IpAddr;

/// What `--so_flags` says.
#[derive(Clone, Debug)]
pub(crate) struct Flags {
    pub(crate) local: IpAddr,
    pub(crate) mtu: usize,
    tcp: Config,
    fast_open_keys: Option<SharedKeys>,
}

impl Flags {
    /// Reads the flags.
    ///
    /// # Errors
    /// A sentence that says what cannot be read.
    pub(crate) fn parse(text: &str) -> Result<Flags, String> {
        let mut flags = Flags {
            local: IpAddr::from([192, 168, 0, 1]),
            mtu: 1500,
            tcp: as_scripts_want(),
            fast_open_keys: SCRIPTS_KEY.parse().ok(),
        };
        for word in text.split(',').filter(|word| !word.is_empty()) {
            flags
                .take(word)
                .ok_or_else(|| format!("{word:?} is no flag, or has no such value"))?;
        }
        Ok(flags)
    }

    fn take(&mut self, word: &str) -> Option<()> {
        let (name, value) = word.split_once('=')?;
        let tcp = &mut self.tcp;
        match name {
            "local" => self.local = value.parse().ok()?,
            "mtu" => self.mtu = value.parse().ok()?,
            "tcp_timestamps" => tcp.timestamps = on(value)?,
            "tcp_sack" => tcp.sack = on(value)?,
            "tcp_window_scaling" => tcp.window_scale = on(value)?,
            "tcp_ecn" => {
                tcp.ecn = match value {
                    "0" => EcnMode::Off,
                    "1" => EcnMode::On,
                    "2" => EcnMode::Passive,
                    _ => return None,
                }
            }
            "tcp_congestion_control" => {
                tcp.congestion = match value {
                    "reno" => CongestionControl::NewReno,
                    other => other.parse().ok()?,
                }
            }
            "tcp_rmem" => {
                (tcp.receive_buffer_bytes, tcp.receive_buffer_max_bytes) = sizes(value)?;
            }
            "tcp_wmem" => (tcp.send_buffer_bytes, tcp.send_buffer_max_bytes) = sizes(value)?,
            "tcp_fastopen" => {
                let bits = number(value)?;
                tcp.fast_open = match bits & FAST_OPEN_CLIENT {
                    0 => FastOpen::Off,
                    _ => FastOpen::Connect,
                };
                let all_listen = FAST_OPEN_SERVER | FAST_OPEN_WITHOUT_OPTION;
                tcp.fast_open = tcp.fast_open.listening(bits & all_listen == all_listen);
                tcp.fast_open_without_cookie = bits & FAST_OPEN_WITHOUT_COOKIE != 0;
            }
            "tcp_fastopen_key" => self.fast_open_keys = Some(value.parse().ok()?),
            "tcp_rto_max_ms" => tcp.max_rto = Duration::from_millis(value.parse().ok()?),
            _ => return None,
        }
        Some(())
    }

    /// The stack that they ask for.
    pub(crate) fn stack(&self) -> StackConfig {
        let mut config = StackConfig::new(self.local);
        config.buckets = 2;
        config.memory_bytes = 64 << 20;
        config.tcp = self.tcp;
        config.fast_opening.shared_keys = self.fast_open_keys;
        config
    }
}

/// What `defaults.sh` asks for, and what Linux has besides.
fn as_scripts_want() -> Config {
    Config {
        receive_buffer_bytes: 540_000,
        receive_buffer_max_bytes: 15 << 20,
        send_buffer_bytes: 256 << 10,
        send_buffer_max_bytes: 4 << 20,
        ecn: EcnMode::Off,
        // Who wants more says so with a call or an option.
        fast_open: FastOpen::Connect,
        quick_acks: 16,
        fin_ack_waits: true,
        push_pairs: true,
        syn_retransmissions: 5,
        ..Config::default()
    }
}

/// Under which Linux makes its cookies once `defaults.sh` has run.
const SCRIPTS_KEY: &str = "a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4";

/// Bits of `tcp_fastopen`: connections that are opened, those that are taken, without a cookie, and by every listener.
const FAST_OPEN_CLIENT: u32 = 1;
const FAST_OPEN_SERVER: u32 = 2;
const FAST_OPEN_WITHOUT_COOKIE: u32 = 0x200;
const FAST_OPEN_WITHOUT_OPTION: u32 = 0x400;

/// A number, in hexadecimal digits behind `0x`.
fn number(value: &str) -> Option<u32> {
    match value.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => value.parse().ok(),
    }
}

fn on(value: &str) -> Option<bool> {
    match value {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// The least, the first and the largest size; the least means nothing here.
fn sizes(value: &str) -> Option<(u32, u32)> {
    let mut words = value.split_whitespace().map(str::parse);
    let (Some(Ok(_)), Some(Ok(first)), Some(Ok(most)), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return None;
    };
    Some((first, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_or_refused_by_name() {
        let text =
            "mtu=1280,local=10.0.0.1,tcp_timestamps=0,tcp_ecn=1,tcp_rmem=4096 131072 33554432";
        let flags = Flags::parse(text).unwrap();
        assert_eq!(
            (flags.mtu, flags.local.to_string()),
            (1280, "10.0.0.1".into())
        );
        let tcp = flags.stack().tcp;
        assert_eq!((tcp.timestamps, tcp.ecn), (false, EcnMode::On));
        assert_eq!(tcp.receive_buffer_bytes, 131_072);
        assert_eq!(tcp.receive_buffer_max_bytes, 32 << 20);
        assert_eq!(Flags::parse("").unwrap().stack().tcp, as_scripts_want());
        let opens = |text: &str| {
            let tcp = Flags::parse(text).unwrap().stack().tcp;
            (tcp.fast_open, tcp.fast_open_without_cookie)
        };
        assert_eq!(opens("tcp_fastopen=0x207"), (FastOpen::Connect, true));
        assert_eq!(opens("tcp_fastopen=1030"), (FastOpen::Listen, false));
        let keys = Flags::parse("tcp_fastopen_key=1-2-3-4").unwrap().stack();
        assert_eq!(keys.fast_opening.shared_keys, "1-2-3-4".parse().ok());
        for wrong in [
            "local",
            "local=home",
            "mtu=many",
            "colour=red",
            "tcp_sack=2",
            "tcp_rmem=1 2",
            "tcp_fastopen=0xg",
            "tcp_fastopen_key=1-2",
        ] {
            assert!(Flags::parse(wrong).unwrap_err().contains(wrong));
        }
    }
}
