//! The same vocabulary over shuttle, for runs of whole stacks.
//!
//! # What is modelled
//!
//! Every thread of a run is a coroutine on one thread of the system, and shuttle's scheduler says which goes on, before each
//! operation on an atomic, each wait, wake-up and spin. The order of memory is total: what a weaker order would let through is for loom to
//! find. Cells are plain.
//!
//! Atomics are std's, with a scheduling point in front, so that what is laid out by hand stays as it is, and what is made
//! outside a run works there too, without any.
//!
//! # Time
//!
//! There is no clock in a run but the one in [`World`]. A look at it moves it on by [`LOOK`]. Where all threads sleep it moves to the first
//! deadline among them: so a second of waiting costs nothing, and a run in which nobody would ever wake is told apart from one that waits
//! for time. A thread that has looked often in a row without sleeping lets others go first, for no processor is alone for ever.
//!
//! # Sleeping
//!
//! The kernel's queue of sleepers is the list in [`World`], by the address of the word. Comparing the word and queueing the sleeper happen
//! without a scheduling point in between, as under the kernel's lock.

use core::cell::{Cell, RefCell};
use core::ops::Deref;
use core::time::Duration;
use std::sync::atomic as plain;

use shuttle::sync::mpsc::{Sender, channel};

use super::Waited;

pub(crate) use super::cell::UnsafeCell;
pub use plain::Ordering;
#[doc(hidden)]
pub use shuttle;
pub(crate) use shuttle::sync::mpsc;
pub(crate) use std::sync::Arc;

pub(crate) mod thread;

/// By how many nanoseconds a look at the clock moves it on: what a turn that finds nothing takes.
const LOOK: u64 = 1_000;

/// Looks at the clock after which a thread lets others go first.
const LOOKS: u32 = 64;

/// The time, and who sleeps.
struct World {
    now: u64,
    looks: u32,
    /// Threads that do not sleep.
    awake: usize,
    sleepers: Vec<Sleeper>,
}

struct Sleeper {
    word: usize,
    lane: u32,
    until: Option<u64>,
    ending: Sender<Waited>,
}

std::thread_local! {
    static WORLD: RefCell<World> = const { RefCell::new(World::NEW) };
}

impl World {
    /// One thread, some time after the beginning of time.
    const NEW: World = World {
        now: 1_000_000_000,
        looks: 0,
        awake: 1,
        sleepers: Vec::new(),
    };

    /// One thread less is awake; who is woken by time, if it was the last.
    fn fall_asleep(&mut self) -> Option<Sender<Waited>> {
        self.awake -= 1;
        if self.awake > 0 {
            return None;
        }
        let due = self.sleepers.iter().enumerate();
        let (at, first) = due
            .filter_map(|(at, sleeper)| Some((sleeper.until?, at)))
            .min()
            .map(|(until, at)| (at, until))?;
        self.now = self.now.max(first);
        Some(self.wake(at))
    }

    fn wake(&mut self, at: usize) -> Sender<Waited> {
        self.awake += 1;
        self.sleepers.remove(at).ending
    }
}

fn with_world<R>(work: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(work)
}

/// Begins a run: the calling thread is its first.
pub(crate) fn begin() {
    let last = with_world(|world| core::mem::replace(world, World::NEW));
    // Of a run that failed, whose threads are no more.
    core::mem::forget(last.sleepers);
}

/// Whether the caller is a thread of a run.
fn is_inside() -> bool {
    shuttle::current::try_get_current_task().is_some()
}

/// Lets the scheduler say who goes on.
#[inline]
fn point() {
    if is_inside() && !std::thread::panicking() {
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// Nanoseconds of the run's clock, or of a clock that stands still.
pub(crate) fn monotonic_nanos() -> u64 {
    let (now, long) = with_world(|world| {
        world.now += LOOK;
        world.looks += 1;
        (world.now, world.looks % LOOKS == 0)
    });
    if long {
        yield_now();
    }
    now
}

/// Nothing: the order of memory is total.
pub(crate) fn fence(_: Ordering) {}

/// A spinning thread can only go on once another has run.
pub fn pause() {
    yield_now();
}

/// Gives the processor away for a moment.
pub fn yield_now() {
    if is_inside() {
        shuttle::thread::yield_now();
    }
}

/// Unknown: the hint may only change how soon a waiter sleeps, never what is correct.
pub(crate) fn processor_hint() -> u32 {
    0
}

pub(crate) fn processors() -> u32 {
    2
}

/// A number for the calling thread that no other thread of the run has; never 0, always even.
pub(crate) fn thread_token() -> u64 {
    let task = shuttle::current::try_get_current_task();
    task.map_or(2, |task| (usize::from(task) as u64 + 2) << 1)
}

#[derive(Debug)]
pub(crate) struct Futex(AtomicU32);

impl Futex {
    pub(crate) const fn new(value: u32) -> Self {
        Futex(AtomicU32::new(value))
    }

    pub(crate) fn wait(&self, expected: u32, deadline: Option<&Deadline>) -> Waited {
        self.wait_in(u32::MAX, expected, deadline)
    }

    pub(crate) fn wait_in(&self, lane: u32, expected: u32, deadline: Option<&Deadline>) -> Waited {
        // A scheduling point of its own, which the comparison and the queueing behind it are not.
        if self.0.load(Ordering::Relaxed) != expected {
            return Waited::LookAgain;
        }
        assert!(is_inside(), "who sleeps outside a run sleeps for ever");
        let (ending, ended) = channel();
        let due = with_world(|world| {
            world.sleepers.push(Sleeper {
                word: self.address(),
                lane,
                until: deadline.map(|deadline| deadline.0),
                ending,
            });
            world.fall_asleep()
        });
        if let Some(due) = due {
            let _ = due.send(Waited::TimedOut);
        }
        ended.recv().unwrap_or(Waited::LookAgain)
    }

    pub(crate) fn wake_one(&self) {
        self.waker().wake_one();
    }

    pub(crate) fn wake_all(&self) {
        self.waker().wake(u32::MAX, usize::MAX);
    }

    pub(crate) fn wake_lane(&self, lane: u32) {
        self.waker().wake(lane, usize::MAX);
    }

    pub(crate) fn waker(&self) -> FutexWaker {
        FutexWaker(self.address())
    }

    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }
}

impl Deref for Futex {
    type Target = AtomicU32;

    fn deref(&self) -> &AtomicU32 {
        &self.0
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FutexWaker(usize);

impl FutexWaker {
    pub(crate) fn wake_one(self) {
        self.wake(u32::MAX, 1);
    }

    fn wake(self, lanes: u32, most: usize) {
        point();
        let woken: Vec<_> = with_world(|world| {
            let mut woken = Vec::new();
            while woken.len() < most
                && let Some(at) = (world.sleepers.iter())
                    .position(|sleeper| sleeper.word == self.0 && sleeper.lane & lanes != 0)
            {
                woken.push(world.wake(at));
            }
            woken
        });
        for sleeper in woken {
            let _ = sleeper.send(Waited::LookAgain);
        }
    }
}

/// A point on the run's clock.
#[derive(Clone, Copy)]
pub(crate) struct Deadline(u64);

impl Deadline {
    pub(crate) fn after(after: Duration) -> Self {
        let after = u64::try_from(after.as_nanos()).unwrap_or(u64::MAX);
        Deadline(monotonic_nanos().saturating_add(after))
    }
}

/// A cell of which each thread has its own; outside a run, each of the system's threads.
#[derive(Debug)]
pub struct ThreadCell<T: 'static> {
    #[doc(hidden)]
    pub inside: &'static shuttle::thread::LocalKey<Cell<T>>,
    #[doc(hidden)]
    pub outside: &'static std::thread::LocalKey<Cell<T>>,
}

impl<T: Copy> ThreadCell<T> {
    /// Gives access to the calling thread's cell.
    pub fn with<R>(&'static self, work: impl FnOnce(&Cell<T>) -> R) -> R {
        if is_inside() {
            self.inside.with(work)
        } else {
            self.outside.with(work)
        }
    }

    /// The value in the calling thread's cell.
    pub fn get(&'static self) -> T {
        self.with(Cell::get)
    }

    /// Changes the value in the calling thread's cell.
    pub fn set(&'static self, value: T) {
        self.with(|cell| cell.set(value));
    }
}

/// Declares cells of which each thread has its own.
#[doc(hidden)]
#[macro_export]
macro_rules! __thread_local {
    ($($(#[$attribute:meta])* static $name:ident: Cell<$type:ty> = const { $init:expr };)*) => {$(
        $(#[$attribute])*
        static $name: $crate::primitives::ThreadCell<$type> = {
            $crate::primitives::shuttle::thread_local! {
                static INSIDE: Cell<$type> = const { $init };
            }
            std::thread_local! {
                static OUTSIDE: Cell<$type> = const { $init };
            }
            $crate::primitives::ThreadCell { inside: &INSIDE, outside: &OUTSIDE }
        };
    )*};
}
pub use crate::__thread_local as thread_local;

/// std's atomic with a scheduling point before each operation that another thread could see, or see otherwise.
macro_rules! atomics {
    ($($name:ident $(<$parameter:ident>)?: $value:ty, $($more:ident)*;)*) => {$(
        /// std's, with a scheduling point before each operation.
        #[repr(transparent)]
        pub struct $name$(<$parameter>)?(plain::$name$(<$parameter>)?);

        impl$(<$parameter>)? $name$(<$parameter>)? {
            /// As std's.
            pub const fn new(value: $value) -> Self {
                $name(plain::$name::new(value))
            }

            /// As std's.
            pub fn load(&self, order: Ordering) -> $value {
                point();
                self.0.load(order)
            }

            /// As std's.
            pub fn store(&self, value: $value, order: Ordering) {
                point();
                self.0.store(value, order);
            }

            /// As std's.
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                point();
                self.0.swap(value, order)
            }

            /// As std's.
            ///
            /// # Errors
            /// The value, if it was another.
            pub fn compare_exchange(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                point();
                self.0.compare_exchange(current, new, success, failure)
            }

            /// As std's, and never for no reason.
            ///
            /// # Errors
            /// The value, if it was another.
            pub fn compare_exchange_weak(
                &self,
                current: $value,
                new: $value,
                success: Ordering,
                failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// As std's, in one step.
            ///
            /// # Errors
            /// The value, if there is no other to put in its place.
            pub fn try_update(
                &self,
                set: Ordering,
                fetch: Ordering,
                update: impl FnMut($value) -> Option<$value>,
            ) -> Result<$value, $value> {
                point();
                self.0.try_update(set, fetch, update)
            }

            /// As std's.
            pub fn get_mut(&mut self) -> &mut $value {
                self.0.get_mut()
            }

            $(
                /// As std's.
                pub fn $more(&self, value: $value, order: Ordering) -> $value {
                    point();
                    self.0.$more(value, order)
                }
            )*
        }

        impl$(<$parameter>)? Default for $name$(<$parameter>)? {
            fn default() -> Self {
                $name(plain::$name::default())
            }
        }

        impl$(<$parameter>)? core::fmt::Debug for $name$(<$parameter>)? {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                self.0.fmt(f)
            }
        }
    )*};
}

atomics! {
    AtomicBool: bool, fetch_or fetch_and;
    AtomicU8: u8, fetch_add fetch_sub fetch_or fetch_and fetch_max;
    AtomicU32: u32, fetch_add fetch_sub fetch_or fetch_and fetch_max;
    AtomicU64: u64, fetch_add fetch_sub fetch_or fetch_and fetch_max;
    AtomicUsize: usize, fetch_add fetch_sub fetch_or fetch_and fetch_max;
    AtomicI64: i64, fetch_add fetch_sub;
    AtomicPtr<T>: *mut T,;
}
