//! What the machine allows, and how to get what it does not.
//!
//! Each thing is tried, not looked up: a TUN device is made and removed again, a thread is kept on each processor.

use braidnet_device::packet;
use braidnet_device::tun::{Mode, TunConfig, TunDevice};
use braidnet_device::xdp;
use braidnet_device::{Device, Offloads};
use braidnet_sync::clock::{Clock, ClockSource};
use braidnet_sync::group::{Member, Placement, ThreadGroup, allowed_processors};
use serde::Serialize;
use std::fs;

/// The devices that are made to see whether they can be, and that are gone when the answer is there.
const TUN_NAME: &str = "braidnet-doc0";
const TAP_NAME: &str = "braidnet-doc1";

/// How well the machine does for something.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// All that braidnet can use of it is there.
    Good,
    /// It works, with less than there could be.
    Limited,
    /// It does not work.
    Missing,
}

/// What was found out about one thing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// What it is about, in a word or two.
    pub subject: &'static str,
    /// How well the machine does.
    pub verdict: Verdict,
    /// What there is.
    pub found: String,
    /// How to get more, where there is more.
    pub remedy: Option<String>,
}

/// Looks at everything that braidnet uses of a machine; needs no privilege, and says what would.
pub fn examine() -> Vec<Finding> {
    vec![
        processors(&allowed_processors().unwrap_or_default(), online()),
        pinning(&allowed_processors().unwrap_or_default()),
        clock(Clock::shared().source()),
        tunnel("TUN device", Mode::Tun, TUN_NAME),
        tunnel("TAP device", Mode::Tap, TAP_NAME),
        interfaces(packet::check_system()),
        taking_over(xdp::check_system()),
    ]
}

/// Processors that the machine has, as far as the kernel says.
fn online() -> Option<usize> {
    count_of(
        fs::read_to_string("/sys/devices/system/cpu/online")
            .ok()?
            .trim(),
    )
}

/// How many numbers a list of ranges such as `0-3,8` has.
fn count_of(ranges: &str) -> Option<usize> {
    let of_range = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let [first, last] = [first, last].map(|number| number.parse::<usize>().ok());
        (last? + 1).checked_sub(first?)
    };
    ranges.split(',').map(of_range).sum()
}

fn processors(allowed: &[usize], online: Option<usize>) -> Finding {
    let count = allowed.len();
    let all = online.unwrap_or(count).max(count);
    let (verdict, remedy) = if count < all {
        let remedy =
            "this process is kept off the others: see `taskset -p $$` and the cgroup's cpuset";
        (Verdict::Limited, Some(remedy.to_owned()))
    } else if count < 2 {
        let remedy = "architectures differ where there are two processors or more";
        (Verdict::Limited, Some(remedy.to_owned()))
    } else {
        (Verdict::Good, None)
    };
    Finding {
        subject: "processors",
        verdict,
        found: format!("{count} of {all} may be used"),
        remedy,
    }
}

/// Keeps a thread on each processor.
fn pinning(allowed: &[usize]) -> Finding {
    let bodies = allowed.iter().map(|_| |member: Member| member.processor);
    let placement = Placement::Pinned(allowed.to_vec());
    let (verdict, found, remedy) = match ThreadGroup::spawn("doctor", &placement, bodies) {
        Ok(group) => {
            group.start();
            group.join();
            (
                Verdict::Good,
                "a thread can be kept on each processor".to_owned(),
                None,
            )
        }
        Err(error) => {
            let remedy = "braidnet works without --pin, and its figures vary more";
            (Verdict::Missing, error.to_string(), Some(remedy.to_owned()))
        }
    };
    Finding {
        subject: "pinning",
        verdict,
        found,
        remedy,
    }
}

fn clock(source: ClockSource) -> Finding {
    let (verdict, found, remedy) = match source {
        ClockSource::TimeStampCounter => {
            (Verdict::Good, "the processor's time stamp counter", None)
        }
        ClockSource::Kernel => (
            Verdict::Limited,
            "the kernel's: the processor's counter does not run evenly on all processors",
            Some("nothing to do: measurements that read the clock for each message cost more"),
        ),
    };
    Finding {
        subject: "clock",
        verdict,
        found: found.to_owned(),
        remedy: remedy.map(str::to_owned),
    }
}

/// Makes a device, and removes it.
fn tunnel(subject: &'static str, mode: Mode, name: &str) -> Finding {
    let config = TunConfig {
        name: Some(name.to_owned()),
        ..TunConfig::new(mode)
    };
    match TunDevice::create(config) {
        Ok(device) => offloads(subject, device.capabilities().offloads),
        Err(error) => Finding {
            subject,
            verdict: Verdict::Missing,
            found: "none can be made".to_owned(),
            remedy: Some(error.to_string()),
        },
    }
}

/// What can be done on interfaces of the system's.
fn interfaces(tried: Result<(), packet::PacketError>) -> Finding {
    let (verdict, found, remedy) = match tried {
        Ok(()) => (
            Verdict::Good,
            "can be joined (AF_PACKET); checksums and segments are offloaded, and from Linux 6.2 on datagrams, packets have up to 64 KiB",
            None,
        ),
        Err(error) => (
            Verdict::Missing,
            "none can be joined",
            Some(error.to_string()),
        ),
    };
    Finding {
        subject: "interfaces",
        verdict,
        found: found.to_owned(),
        remedy,
    }
}

/// Whether interfaces of the system's can be taken over.
fn taking_over(tried: Result<(), xdp::XdpError>) -> Finding {
    let (verdict, found, remedy) = match tried {
        Ok(()) => (Verdict::Good, "can be taken over (AF_XDP)", None),
        Err(error) => (
            Verdict::Missing,
            "none can be taken over",
            Some(error.to_string()),
        ),
    };
    Finding {
        subject: "XDP",
        verdict,
        found: found.to_owned(),
        remedy,
    }
}

fn offloads(subject: &'static str, offloads: Offloads) -> Finding {
    let (verdict, found, remedy) = match offloads {
        Offloads {
            datagrams: true, ..
        } => (
            Verdict::Good,
            "can be made; checksums, segments and datagrams are offloaded, packets have up to 64 KiB",
            None,
        ),
        Offloads { segments: true, .. } => (
            Verdict::Limited,
            "can be made; checksums and segments are offloaded, datagrams are not",
            Some(
                "the kernel's TUN driver does not take TUN_F_USO4 and TUN_F_USO6: Linux 6.2 and newer do",
            ),
        ),
        Offloads { checksum: true, .. } => (
            Verdict::Limited,
            "can be made; checksums are offloaded, segments are not",
            Some("the kernel's TUN driver does not take TUN_F_TSO4: a newer kernel does"),
        ),
        _ => (
            Verdict::Limited,
            "can be made, without offloads: each packet is one segment",
            Some(
                "the kernel's TUN driver has no IFF_VNET_HDR or no TUNSETOFFLOAD: a newer kernel has",
            ),
        ),
    };
    Finding {
        subject,
        verdict,
        found: found.to_owned(),
        remedy: remedy.map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_processors_are_counted() {
        for (ranges, count) in [("0", Some(1)), ("0-3", Some(4)), ("0-3,8,10-11", Some(7))] {
            assert_eq!(count_of(ranges), count, "{ranges}");
        }
        for ranges in ["", "a", "3-1", "1-"] {
            assert_eq!(count_of(ranges), None, "{ranges:?}");
        }
    }

    #[test]
    fn what_is_less_than_there_could_be_says_how_to_get_more() {
        let all = [
            (processors(&[0, 1], Some(2)), Verdict::Good),
            (processors(&[0, 1], None), Verdict::Good),
            (processors(&[1], Some(1)), Verdict::Limited),
            (processors(&[2, 3], Some(4)), Verdict::Limited),
            (clock(ClockSource::TimeStampCounter), Verdict::Good),
            (clock(ClockSource::Kernel), Verdict::Limited),
            (offloads("device", Offloads::ALL), Verdict::Good),
            (
                offloads(
                    "device",
                    Offloads {
                        datagrams: false,
                        ..Offloads::ALL
                    },
                ),
                Verdict::Limited,
            ),
            (
                offloads(
                    "device",
                    Offloads {
                        checksum: true,
                        ..Offloads::NONE
                    },
                ),
                Verdict::Limited,
            ),
            (offloads("device", Offloads::NONE), Verdict::Limited),
            (taking_over(Ok(())), Verdict::Good),
            (taking_over(Err(xdp::XdpError::NoSystem)), Verdict::Missing),
            (interfaces(Ok(())), Verdict::Good),
            (
                interfaces(Err(packet::PacketError::NoPrivilege)),
                Verdict::Missing,
            ),
            (pinning(&[usize::MAX]), Verdict::Missing),
            (tunnel("device", Mode::Tun, "no/name"), Verdict::Missing),
        ];
        for (finding, verdict) in all {
            assert_eq!(finding.verdict, verdict, "{finding:?}");
            assert_eq!(
                finding.remedy.is_none(),
                verdict == Verdict::Good,
                "{finding:?}"
            );
        }
    }

    #[test]
    fn everything_is_looked_at_once() {
        let subjects: Vec<_> = examine().iter().map(|finding| finding.subject).collect();
        assert_eq!(
            subjects,
            [
                "processors",
                "pinning",
                "clock",
                "TUN device",
                "TAP device",
                "interfaces",
                "XDP"
            ]
        );
    }
}
