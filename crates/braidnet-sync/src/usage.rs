//! Switches and processor time, as the kernel counts them.
//!
//! A *voluntary* switch is a thread that slept; an *involuntary* one was made to give its processor to another. Times of
//! [`Usage`] come in the kernel's accounting precision; [`thread_cpu_nanos`] is exact.

use core::iter::Sum;
use core::ops::{Add, AddAssign, Sub};

use rustix::time::{ClockId, clock_gettime};

/// What a thread, or the process, has used so far.
///
/// ```
/// use braidnet_sync::usage::Usage;
/// let before = Usage::thread();
/// std::thread::yield_now();
/// let used = Usage::thread() - before;
/// println!("{} voluntary switches", used.voluntary_switches);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Times a thread gave up its processor to wait.
    pub voluntary_switches: u64,
    /// Times a thread was made to give up its processor.
    pub involuntary_switches: u64,
    /// Nanoseconds in user mode.
    pub user_nanos: u64,
    /// Nanoseconds in the kernel.
    pub system_nanos: u64,
}

impl Usage {
    /// The calling thread's.
    pub fn thread() -> Self {
        Self::ask(libc::RUSAGE_THREAD)
    }

    /// The whole process's: all threads, those that have ended included.
    pub fn process() -> Self {
        Self::ask(libc::RUSAGE_SELF)
    }

    /// Nanoseconds in user mode and in the kernel.
    pub const fn cpu_nanos(&self) -> u64 {
        self.user_nanos.wrapping_add(self.system_nanos)
    }

    fn ask(who: libc::c_int) -> Self {
        let mut answer = core::mem::MaybeUninit::<libc::rusage>::zeroed();
        // SAFETY: the kernel writes one rusage where the pointer says, and there is room for one.
        let outcome = unsafe { libc::getrusage(who, answer.as_mut_ptr()) };
        debug_assert_eq!(
            outcome, 0,
            "both questions are known to every kernel that runs this"
        );
        // SAFETY: all its fields are integers, for which zeroes are as good as what the kernel has written.
        let answer = unsafe { answer.assume_init() };
        Usage {
            voluntary_switches: answer.ru_nvcsw.cast_unsigned(),
            involuntary_switches: answer.ru_nivcsw.cast_unsigned(),
            user_nanos: nanos(answer.ru_utime),
            system_nanos: nanos(answer.ru_stime),
        }
    }

    fn combine(self, other: Self, each: fn(u64, u64) -> u64) -> Self {
        Usage {
            voluntary_switches: each(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: each(self.involuntary_switches, other.involuntary_switches),
            user_nanos: each(self.user_nanos, other.user_nanos),
            system_nanos: each(self.system_nanos, other.system_nanos),
        }
    }
}

fn nanos(time: libc::timeval) -> u64 {
    u64::try_from(i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_usec) * 1_000)
        .unwrap_or(0)
}

impl Add for Usage {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        self.combine(other, u64::wrapping_add)
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sub for Usage {
    type Output = Self;

    /// What was used since `earlier`; zero where `earlier` is in fact later.
    fn sub(self, earlier: Self) -> Self {
        self.combine(earlier, u64::saturating_sub)
    }
}

impl Sum for Usage {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Usage::default(), Add::add)
    }
}

/// Nanoseconds for which the calling thread has been on a processor.
pub fn thread_cpu_nanos() -> u64 {
    clock_nanos(ClockId::ThreadCPUTime)
}

/// Nanoseconds for which all threads of the process together have been on a processor.
pub fn process_cpu_nanos() -> u64 {
    clock_nanos(ClockId::ProcessCPUTime)
}

fn clock_nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    u64::try_from(i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_field_by_field() {
        let one = Usage {
            voluntary_switches: 1,
            involuntary_switches: 2,
            user_nanos: 3,
            system_nanos: 4,
        };
        let mut two = one;
        two += one;
        assert_eq!(
            two,
            Usage {
                voluntary_switches: 2,
                involuntary_switches: 4,
                user_nanos: 6,
                system_nanos: 8
            }
        );
        assert_eq!(two - one, one);
        assert_eq!(one - two, Usage::default());
        assert_eq!([one, one].into_iter().sum::<Usage>(), two);
        assert_eq!(two.cpu_nanos(), 14);
    }

    #[test]
    fn work_shows_on_the_thread_that_did_it() {
        let spin = |nanos: u64| {
            let start = thread_cpu_nanos();
            while thread_cpu_nanos() - start < nanos {}
        };
        let (here, process) = (thread_cpu_nanos(), process_cpu_nanos());
        let there = std::thread::scope(|scope| {
            let worker = scope.spawn(|| {
                spin(3_000_000);
                thread_cpu_nanos()
            });
            worker.join().unwrap()
        });
        assert!(there >= 3_000_000);
        assert!(process_cpu_nanos() - process >= 3_000_000);
        assert!(thread_cpu_nanos() - here < 3_000_000);
    }

    #[test]
    fn sleeping_is_a_voluntary_switch() {
        let before = Usage::thread();
        // Waiting for a thread that has only just been made is a sleep, nearly every time.
        for _ in 0..100 {
            std::thread::spawn(|| ()).join().unwrap();
        }
        let used = Usage::thread() - before;
        assert!(used.voluntary_switches > 0, "{used:?}");
        assert!((Usage::process() - before).voluntary_switches >= used.voluntary_switches);
    }
}
