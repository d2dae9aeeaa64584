//! Where and how something was measured.

use serde::Serialize;
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};

/// What a program knows of itself and cannot be read from the machine.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Provenance {
    /// The commit that it was built from, if that is known.
    pub commit: Option<String>,
    /// The command line that asked for the measurement.
    pub command_line: String,
}

/// Where and how something was measured.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Machine {
    /// The processors' model, as the kernel names it.
    pub cpu_model: String,
    /// How many processors this process may use.
    pub allowed_processors: usize,
    /// The numbers by which the kernel calls them.
    pub processor_numbers: Vec<usize>,
    /// The kernel and its release.
    pub kernel: String,
    /// Version of braidnet.
    pub version: &'static str,
    /// The commit that it was built from, if that is known.
    pub commit: Option<String>,
    /// When it began, in UTC (RFC 3339).
    pub date: String,
    /// The command line that asked for it.
    pub command_line: String,
}

impl Machine {
    /// Reads this machine.
    pub fn read(provenance: &Provenance, now: SystemTime) -> Machine {
        let processor_numbers = braidnet_sync::group::allowed_processors().unwrap_or_default();
        let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
        Machine {
            cpu_model: cpu_model(&fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            allowed_processors: processor_numbers.len().max(1),
            processor_numbers,
            kernel: format!("Linux {}", release.trim()).trim_end().to_owned(),
            version: env!("CARGO_PKG_VERSION"),
            commit: provenance.commit.clone(),
            date: date(now),
            command_line: provenance.command_line.clone(),
        }
    }
}

/// The model that `/proc/cpuinfo` names; where it names none, as on most Arm kernels, the architecture.
fn cpu_model(cpuinfo: &str) -> String {
    cpuinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| matches!(key.trim(), "model name" | "Model" | "cpu model"))
        .map_or(std::env::consts::ARCH, |(_, model)| model.trim())
        .to_owned()
}

/// A moment in UTC to the second, as RFC 3339 §5.6 writes it.
fn date(now: SystemTime) -> String {
    let seconds = now
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    // Years are counted from March, so that the leap day ends them; eras are of 400 years, which repeat.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn moments_are_written_as_rfc_3339_does() {
        // As `date -u -d @SECONDS +%FT%TZ` prints them.
        let rows = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_798_761_599, "2026-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, written) in rows {
            assert_eq!(date(UNIX_EPOCH + Duration::from_secs(seconds)), written);
        }
    }

    #[test]
    fn the_model_is_found_on_several_kernels() {
        let rows = [
            (
                "processor\t: 0\nmodel\t\t: 2\nmodel name\t: AMD EPYC 9575F\n",
                "AMD EPYC 9575F",
            ),
            (
                "processor\t: 0\nCPU part\t: 0xd40\nModel\t\t: Raspberry Pi 5\n",
                "Raspberry Pi 5",
            ),
            ("", std::env::consts::ARCH),
        ];
        for (cpuinfo, model) in rows {
            assert_eq!(cpu_model(cpuinfo), model);
        }
    }
}
