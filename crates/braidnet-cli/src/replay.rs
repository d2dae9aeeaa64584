//! `braidnet replay`: recorded packets into a device.

use crate::failure::Failure;
use crate::output;
use crate::serve::values::{Prefixed, Span};
use crate::tunnel::{End, Signalled};
use braidnet::device::Device;
use braidnet::device::capture::Direction;
use braidnet::device::replay::{Pace, Recording, RecordingError, Replay as Replaying, ReplayError};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Instant;

const MORE: &str = "\
Reads pcapng, as `braidnet serve --pcap` writes it, and pcap, as `tcpdump -w` does. A TUN device gets IP packets: what Ethernet or Linux's \
cooked capture put in front of them is taken off. Packets that were recorded in part are skipped. What the system answers is not listened to.

Examples:
  braidnet replay packets.pcapng --to tun:bn0 --host 10.77.0.1/24
      to the system's own stack, as far apart as they came
  braidnet replay packets.pcapng --to tap:bn0@left --only received --speed max
      what was received once more, as fast as it goes";

/// Send recorded packets into a TUN or TAP device
///
/// Creates the device, or adopts a persistent one that nobody holds, sends, and ends. Needs root or CAP_NET_ADMIN, or a device that an
/// administrator made for this user; root for a device in another network namespace.
#[derive(clap::Args, Debug)]
#[command(after_help = MORE)]
pub struct Replay {
    /// The recording
    file: PathBuf,
    /// The device: tun:NAME or tap:NAME, with @NAMESPACE in another network namespace
    #[arg(long, value_name = "DEVICE")]
    to: End,
    /// Address of the system's side of the device; brings it up. Without, it is left as it is
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    host: Option<Prefixed>,
    /// Longest IP packet in bytes, 68 to 65535 [default: what the device has, 1500 for a new one]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<usize>,
    /// So many times as fast as it was recorded, such as 2 or 0.5, or as fast as it goes: max
    #[arg(long, value_name = "N|max", default_value = "1")]
    speed: Speed,
    /// How late packets may leave, none early: what falls due within this leaves together, and costs one wake-up; 0ns: each by itself
    #[arg(long, value_name = "TIME", default_value = "100us")]
    slack: Span,
    /// Send only what was recorded as sent, or as received
    #[arg(long, value_name = "sent|received")]
    only: Option<Way>,
}

/// How fast.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Speed(Pace);

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Speed, String> {
        if text == "max" {
            return Ok(Speed(Pace::Fastest));
        }
        match text.parse::<f64>() {
            Ok(times) if times.is_finite() && times > 0.0 => Ok(Speed(Pace::Recorded(times))),
            _ => Err("write a number above 0, such as 2 or 0.5, or max".to_owned()),
        }
    }
}

/// Which way packets went, seen from the stack that recorded them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Way {
    Sent,
    Received,
}

impl Replay {
    /// Sends until all is sent, or it is told to stop.
    pub fn run(self) -> Result<(), Failure> {
        let recording = Recording::open(&self.file).map_err(|error| self.refused(error))?;
        let signalled = Signalled::new()?;
        let device = self.to.create(self.host, self.mtu)?;
        let medium = device.capabilities().medium;
        let queue = Box::new(device).open().map(|mut queues| queues.pop());
        let Ok(Some(queue)) = queue else {
            return Err(Failure::Runtime(format!("{} cannot be opened", self.to)));
        };
        let Speed(pace) = self.speed;
        let replay = Replaying::new(recording, queue.transmitter, medium, pace);
        let replay = replay.with_slack(self.slack.0);
        let mut replay = match self.only {
            None => replay,
            Some(Way::Sent) => replay.only(Direction::Outbound),
            Some(Way::Received) => replay.only(Direction::Inbound),
        };
        let begun = Instant::now();
        let ended = replay.run(signalled.fd());
        let seconds = begun.elapsed().as_secs_f64();
        let counters = replay.counters();
        let cut_short = if matches!(ended, Ok(false)) {
            ", stopped"
        } else {
            ""
        };
        let mut text = format!(
            "sent to {}: {} packets, {} bytes in {seconds:.3} s{cut_short}\n",
            self.to, counters.packets, counters.bytes
        );
        for (reason, count) in replay.skipped() {
            text.push_str(&format!("  {count:>10}  {} skipped\n", reason.name()));
        }
        for (reason, count) in counters.drops() {
            text.push_str(&format!("  {count:>10}  device.{reason} dropped\n"));
        }
        output::text(&text)?;
        match ended {
            Ok(_) => Ok(()),
            Err(ReplayError::Recording(error)) => Err(self.refused(error)),
            Err(error) => Err(Failure::Runtime(error.to_string())),
        }
    }

    /// What is wrong with the file, and with which.
    fn refused(&self, error: RecordingError) -> Failure {
        match error {
            // It names the file itself.
            RecordingError::Open { .. } => Failure::Usage(error.to_string()),
            _ => Failure::Runtime(format!("{}: {error}", self.file.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_are_numbers_above_nothing() {
        for (text, pace) in [
            ("1", Some(Pace::Recorded(1.0))),
            ("0.5", Some(Pace::Recorded(0.5))),
            ("max", Some(Pace::Fastest)),
            ("0", None),
            ("-1", None),
            ("inf", None),
            ("NaN", None),
            ("fast", None),
        ] {
            assert_eq!(
                text.parse::<Speed>().ok().map(|Speed(pace)| pace),
                pace,
                "{text}"
            );
        }
    }
}
