//! `braidnet relay`: two devices joined, with a bad network between them.

use crate::failure::Failure;
use crate::serve::values::Prefixed;
use crate::tunnel::{End, Signalled};
use crate::{impaired, output};
use braidnet::device::impair::{Impairment, Impairments, Tally};
use braidnet::device::relay::{Ended, Relay as Joined};
use braidnet::device::{Device, QueuePair};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Most memory for packets under way.
const MEMORY_BYTES: usize = 512 << 20;

const MORE: &str = "\
Words of --impair and --impair-back, separated by commas:
  loss=1%                       packets that are lost, each by itself
  burst-loss=0.1%:20%[:80%]     packets that begin a burst, that end one, and that are lost in it (all)
  duplicate=0.1%                packets that come twice
  corrupt=0.01%                 packets with one bit changed
  delay=20ms                    how much later every packet arrives
  jitter=5ms[:overtaking]       how much later still at most, in order or not
  reorder=3%:5ms, 3%:1ms-5ms    packets that are held back, and for how long, while others overtake them
  rate=100mbit                  bits per second: bit, kbit, mbit, gbit
  burst=32k                     bytes that are sent at once after a pause (0)
  queue=1M                      bytes that may wait for the line; what comes then is dropped (256k)
  ecn=64k                       bytes above which what waits is marked, where it can be [RFC 3168]
  limit=1000                    packets under way at most (65536)
  seed=7                        decides everything: equal seeds, equal fates (1)
A packet waits for the line first, and what happens on the wire happens behind it. Packets under way lie in at most 512M of memory.

Example, two hosts that are 20 ms and one packet in a hundred apart:
  ip netns add left; ip netns add right
  braidnet relay --from tun:bn0@left --from-host 10.9.0.1/24 --to tun:bn1@right --to-host 10.9.0.2/24 \\
      --impair loss=1%,delay=10ms,rate=100mbit --impair-back delay=10ms
  ip netns exec left ping 10.9.0.2";

/// Join two TUN or TAP devices, with a bad network between them
///
/// Creates the devices, or adopts persistent ones that nobody holds, and carries packets on one thread until Ctrl-C or SIGTERM. Needs
/// root or CAP_NET_ADMIN, or devices that an administrator made for this user; root for devices in other network namespaces.
#[derive(clap::Args, Debug)]
#[command(after_help = MORE)]
pub struct Relay {
    /// One device: tun:NAME or tap:NAME, with @NAMESPACE in another network namespace
    #[arg(long, value_name = "DEVICE")]
    from: End,
    /// The other
    #[arg(long, value_name = "DEVICE")]
    to: End,
    /// Address of the system's side of the one device; brings it up. Without, it is left as it is
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    from_host: Option<Prefixed>,
    /// Address of the system's side of the other
    #[arg(long, value_name = "ADDRESS/PREFIX")]
    to_host: Option<Prefixed>,
    /// Longest IP packet in bytes, 68 to 65535 [default: what the devices have, 1500 for new ones]
    #[arg(long, value_name = "BYTES")]
    mtu: Option<usize>,
    /// Do this to packets from the one to the other
    #[arg(long, value_name = "WORD=VALUE,...", default_value_t)]
    impair: Impairments,
    /// Do this to packets that go back
    #[arg(long, value_name = "WORD=VALUE,...", default_value_t)]
    impair_back: Impairments,
    /// Write what was done to this file at the end, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// What a relay has done.
#[derive(Serialize)]
struct Report {
    forward: Way,
    back: Way,
}

impl Report {
    fn write(&self, path: &Path) -> Result<(), Failure> {
        let written = serde_json::to_string_pretty(self)
            .map_err(std::io::Error::other)
            .and_then(|text| std::fs::write(path, text + "\n"));
        written.map_err(|error| {
            Failure::Runtime(format!(
                "the report {} cannot be written: {error}",
                path.display()
            ))
        })
    }
}

/// In one direction: what was taken, and what became of it.
#[derive(Serialize)]
struct Way {
    from: String,
    to: String,
    taken_packets: u64,
    taken_bytes: u64,
    offered: u64,
    lost: u64,
    lost_in_bursts: u64,
    queue_full: u64,
    too_many: u64,
    duplicated: u64,
    corrupted: u64,
    held_back: u64,
    marked: u64,
}

impl Way {
    fn new([from, to]: [&End; 2], taken: (u64, u64), tally: &Tally) -> Way {
        Way {
            from: from.name.clone(),
            to: to.name.clone(),
            taken_packets: taken.0,
            taken_bytes: taken.1,
            offered: tally.offered,
            lost: tally.lost,
            lost_in_bursts: tally.lost_in_bursts,
            queue_full: tally.queue_full,
            too_many: tally.too_many,
            duplicated: tally.duplicated,
            corrupted: tally.corrupted,
            held_back: tally.held_back,
            marked: tally.marked,
        }
    }
}

impl Relay {
    /// Relays until it is told to stop.
    pub fn run(self) -> Result<(), Failure> {
        if self.from.mode != self.to.mode {
            return Err(Failure::Usage(
                "--from and --to must both be tun or both be tap: what one carries the other has to understand".to_owned(),
            ));
        }
        let signalled = Signalled::new()?;
        let from = self.from.create(self.from_host, self.mtu)?;
        let to = self.to.create(self.to_host, self.mtu)?;
        let impairment = Impairment::new(&self.impair, &self.impair_back);
        let mut joined = Joined::new(
            open(Box::new(from))?,
            open(Box::new(impairment.around(to)))?,
            MEMORY_BYTES,
        );
        let (from, to) = (&self.from, &self.to);
        let (impair, impair_back) = (&self.impair, &self.impair_back);
        output::text(&format!(
            "{from} to {to}: {impair}\n{to} to {from}: {impair_back}\nstop with Ctrl-C\n"
        ))?;
        let ended = joined.run(signalled.fd()).map_err(|error| {
            Failure::Runtime(format!("the devices cannot be waited for: {error}"))
        })?;
        self.report(&joined, &impairment)?;
        let gone = match ended {
            Ended::Stopped => return Ok(()),
            Ended::FromGone => &self.from,
            Ended::ToGone => &self.to,
        };
        Err(Failure::Runtime(format!(
            "{gone} was removed while it was in use: start again to make it anew"
        )))
    }

    fn report(&self, joined: &Joined, impairment: &Impairment) -> Result<(), Failure> {
        let (out, returned) = (impairment.outgoing(), impairment.incoming());
        if let Some(path) = &self.report {
            let [forward, back] = joined.taken();
            let report = Report {
                forward: Way::new([&self.from, &self.to], forward, &out),
                back: Way::new([&self.to, &self.from], back, &returned),
            };
            report.write(path)?;
        }
        let there = format!("{} to {}", self.from, self.to);
        let back = format!("{} to {}", self.to, self.from);
        let mut text = impaired::line(&there, &out);
        text.push_str(&impaired::line(&back, &returned));
        for (reason, count) in joined.drops() {
            text.push_str(&format!("  {count:>10}  device.{reason} dropped\n"));
        }
        output::text(&text)
    }
}

/// The one queue of a TUN or TAP device.
fn open(device: Box<dyn Device>) -> Result<QueuePair, Failure> {
    let queue = device.open().map(|mut queues| queues.pop());
    match queue {
        Ok(Some(queue)) => Ok(queue),
        Ok(None) => Err(Failure::Runtime("the device has no queue".to_owned())),
        Err(error) => Err(Failure::Runtime(error.to_string())),
    }
}
