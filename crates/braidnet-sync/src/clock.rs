//! Nanoseconds of the monotonic clock, from the time stamp counter where that can be trusted.
//!
//! Asking the kernel costs some 26 ns even without a system call, reading the counter 11. The counter is used if the processor
//! says that it is invariant (same rate in every power state; CPUID 8000_0007h, EDX bit 8), and the kernel itself
//! keeps its time by it, which says that it agrees between processors as well. Otherwise the kernel is asked.
//!
//! # From ticks to nanoseconds
//!
//! Calibration takes the kernel's clock and the counter together at two points some milliseconds apart, each the
//! tightest of several readings (counter, clock, counter), and so knows the rate to a few parts in a million. A reading is
//! one multiplication: `origin_nanos + ((ticks - origin_ticks) * scale >> 32)`, with `scale` in nanoseconds per tick,
//! 32 bits of it behind the point.
//!
//! The clock starts level with the kernel's and then goes its own way: over an hour, expect it to be some milliseconds
//! off. It is for durations and deadlines.

use std::sync::OnceLock;

use crate::primitives::monotonic_nanos;

/// Where a [`Clock`] has its time from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClockSource {
    /// The processor's time stamp counter.
    TimeStampCounter,
    /// The kernel's monotonic clock.
    Kernel,
}

/// A monotonic clock that is cheap to read and to copy.
///
/// ```
/// use braidnet_sync::clock::Clock;
/// let clock = Clock::shared();
/// let start = clock.now_nanos();
/// assert!(clock.now_nanos() >= start);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    /// Nanoseconds per tick in 32.32 fixed point; 0: ask the kernel.
    scale: u64,
    origin_ticks: u64,
    origin_nanos: u64,
}

impl Clock {
    /// The process's clock. The first call calibrates it, which takes some milliseconds.
    pub fn shared() -> Clock {
        static SHARED: OnceLock<Clock> = OnceLock::new();
        *SHARED.get_or_init(|| Clock::counter().unwrap_or(Clock::kernel()))
    }

    /// A clock that asks the kernel.
    pub const fn kernel() -> Clock {
        Clock {
            scale: 0,
            origin_ticks: 0,
            origin_nanos: 0,
        }
    }

    /// Where the time comes from.
    pub const fn source(&self) -> ClockSource {
        if self.scale == 0 {
            ClockSource::Kernel
        } else {
            ClockSource::TimeStampCounter
        }
    }

    /// Nanoseconds on the kernel's monotonic clock or close to it.
    ///
    /// Never smaller than an earlier answer on the same thread.
    #[inline]
    pub fn now_nanos(&self) -> u64 {
        if self.scale == 0 {
            return monotonic_nanos();
        }
        // A processor whose counter is a hair behind the calibrating one's shows the origin.
        let passed = ticks().saturating_sub(self.origin_ticks);
        self.origin_nanos.wrapping_add(scaled(passed, self.scale))
    }

    /// A clock calibrated anew, or none where the counter cannot be trusted.
    #[cfg(target_arch = "x86_64")]
    fn counter() -> Option<Clock> {
        // The time of a run under shuttle is its own, and Miri has no counter.
        (cfg!(not(any(shuttle, miri))) && counter_is_trusted()).then_some(())?;
        let start = Pair::read();
        while monotonic_nanos().saturating_sub(start.nanos) < CALIBRATION_NANOS {
            core::hint::spin_loop();
        }
        Clock::through(start, Pair::read())
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn counter() -> Option<Clock> {
        None
    }

    /// The clock on which both readings lie; none if no counter we know would show them.
    #[cfg_attr(
        not(target_arch = "x86_64"),
        allow(dead_code, reason = "only x86-64 has a counter that is read here")
    )]
    fn through(start: Pair, end: Pair) -> Option<Clock> {
        let ticks = u128::from(end.ticks.checked_sub(start.ticks)?);
        let nanos = u128::from(end.nanos.checked_sub(start.nanos)?);
        let scale = u64::try_from((nanos << 32).checked_div(ticks)?).ok()?;
        // From 100 MHz to 20 GHz.
        let plausible = (1 << 32) / 20..=10 << 32;
        plausible.contains(&scale).then_some(Clock {
            scale,
            origin_ticks: end.ticks,
            origin_nanos: end.nanos,
        })
    }
}

/// How long calibration looks at the clock.
const CALIBRATION_NANOS: u64 = 10_000_000;

/// `ticks` times a 32.32 fixed-point number, modulo 2^64.
#[inline(always)]
const fn scaled(ticks: u64, scale: u64) -> u64 {
    ((ticks as u128 * scale as u128) >> 32) as u64
}

/// The counter and the kernel's clock at one moment.
#[derive(Clone, Copy)]
#[cfg_attr(
    not(target_arch = "x86_64"),
    allow(dead_code, reason = "only x86-64 has a counter that is read here")
)]
struct Pair {
    ticks: u64,
    nanos: u64,
}

impl Pair {
    /// The tightest of several readings: being preempted in all of them is unlikely.
    #[cfg(target_arch = "x86_64")]
    fn read() -> Pair {
        let mut tightest = u64::MAX;
        let mut pair = Pair { ticks: 0, nanos: 0 };
        for _ in 0..32 {
            let before = ticks();
            let nanos = monotonic_nanos();
            let width = ticks().wrapping_sub(before);
            if width < tightest {
                tightest = width;
                pair = Pair {
                    ticks: before.wrapping_add(width / 2),
                    nanos,
                };
            }
        }
        pair
    }
}

/// Whether the counter runs at one rate for ever and on all processors alike.
#[cfg(target_arch = "x86_64")]
fn counter_is_trusted() -> bool {
    const POWER_MANAGEMENT: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    let highest = core::arch::x86_64::__cpuid(0x8000_0000).eax;
    let invariant = highest >= POWER_MANAGEMENT
        && core::arch::x86_64::__cpuid(POWER_MANAGEMENT).edx & INVARIANT != 0;
    let kernel_uses =
        std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    invariant && kernel_uses.is_ok_and(|source| source.trim() == "tsc")
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; a kernel that forbids it does not keep time by the counter.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn ticks() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_shows_the_readings_it_was_made_from() {
        for hertz in [100_000_000, 2_399_999_789, 3_000_000_000, 5_700_000_001_u64] {
            let start = Pair {
                ticks: 7_000,
                nanos: 5_000_000_000,
            };
            let end = Pair {
                ticks: 7_000 + hertz / 100,
                nanos: 5_010_000_000,
            };
            let clock = Clock::through(start, end).unwrap();
            assert_eq!(clock.source(), ClockSource::TimeStampCounter);
            // A year later the rounding has grown to less than a part in ten million.
            let year = 365 * 86_400;
            let error = scaled(hertz * year, clock.scale).abs_diff(year * 1_000_000_000);
            assert!(
                error < year * 1_000_000_000 / 10_000_000,
                "{hertz} Hz: {error} ns in a year"
            );
        }
    }

    #[test]
    fn readings_that_no_counter_shows_are_refused() {
        let at = |ticks, nanos| Pair { ticks, nanos };
        for (start, end) in [
            (at(0, 0), at(0, 10_000_000)),
            (at(5, 0), at(4, 10_000_000)),
            (at(0, 10), at(1_000, 9)),
            (at(0, 0), at(1_000, 10_000_000)),
            (at(0, 0), at(1_000_000_000, 10_000_000)),
        ] {
            assert!(Clock::through(start, end).is_none());
        }
    }

    #[test]
    fn goes_forward_and_stays_near_the_kernels() {
        for clock in [Clock::shared(), Clock::kernel()] {
            let mut last = clock.now_nanos();
            for _ in 0..10_000 {
                let now = clock.now_nanos();
                assert!(now >= last, "{:?}", clock.source());
                last = now;
            }
            assert!(
                clock.now_nanos().abs_diff(monotonic_nanos()) < 1_000_000_000,
                "{:?}",
                clock.source()
            );
        }
        assert_eq!(Clock::kernel().source(), ClockSource::Kernel);
    }
}
