//! A lock that many readers or one writer hold, in turns.
//!
//! Brandenburg and Anderson's phase-fair lock (*Spin-Based Reader-Writer Synchronization for Multiprocessor Real-Time
//! Systems*, 2010, PF-T), with waiters that sleep after a bound.
//!
//! # The protocol
//!
//! Writers queue for a [`Ticket`] lock. Whoever has that is *the* writer; between it and the readers stand two words
//! that count, in their upper bits, the readers that have come in or wait, `entered`, and those that have gone, `left`. Both only
//! grow, and wrap; nobody is inside as a reader where they are equal, since fewer than 2^29 can be.
//!
//! - *The writer comes*: it sets [`WRITER`], and [`PHASE`] where its ticket is odd, in `entered`. The count it finds there
//!   is that of the readers who came before it, and it waits until `left` is the same. Acquire: what they read, they have read.
//!   Later readers find the bits and wait.
//! - *The writer goes*: it clears the bits in `entered` (release), wakes the readers, and gives the ticket lock back.
//! - *A reader comes*: it adds itself to `entered`. Acquire: what the last writer wrote is seen. If it finds a writer's bits, it waits
//!   until these are different ones, with acquire: not until there are none. The next writer has the other phase and has found this
//!   reader counted, so it waits for it.
//! - *A reader goes*: it adds one to `left`. Release.
//! - *Sleep*: a reader sets [`SLEEPERS`] in `entered` as seen and sleeps while that is the word; the writer's going clears it
//!   and wakes all. The writer writes down the count that it waits for, sets `SLEEPERS` in `left` (release) and sleeps likewise;
//!   a reader that finds it there when it goes (acquire) wakes the writer if it makes the count right.
//!
//! # How unfair it can be
//!
//! A reader waits for one writer at most, whoever else waits. A writer waits for the writers that came before it, and before
//! each of these and itself for the readers that came in during one phase. So neither can keep the other out.

use crate::lock::Ticket;
use crate::primitives::{AtomicU32, Futex, Ordering, fence, processors};
use crate::spin::Spin;

/// In `entered`: a writer is inside or waits for readers to leave.
const WRITER: u32 = 1;
/// In `entered`: which writer; two that follow each other differ in it.
const PHASE: u32 = 2;
/// Somebody may sleep on the word.
const SLEEPERS: u32 = 4;
/// What counts readers starts above.
const FLAGS: u32 = 7;
const READER: u32 = 8;

/// Nobody spins for more pauses than this; some microseconds on the machines we know.
const MOST_PAUSES: u32 = if crate::primitives::IS_MODEL { 1 } else { 256 };

/// A lock held by many readers or one writer, that lets neither starve the other; its waiters sleep after a bound.
///
/// A reader that comes while a writer is there waits for that one only; a writer waits for the readers that are there and for those that
/// each writer before it lets in. Reading and leaving are one atomic operation each, on lines that all readers share: it pays where
/// readers stay for long. Twenty bytes; not padded to a cache line. Not poisoned by a panic.
///
/// A thread that reads must not read again inside: a writer that came in between lets in neither. For state that is often
/// looked at and seldom changed, as tables are; the stack's data path wires such state before it starts and then only reads it,
/// without a lock.
///
/// ```
/// use braidnet_sync::lock::ReadWrite;
/// let routes = lock_api::RwLock::<ReadWrite, Vec<&str>>::new(vec!["10.0.0.0/8"]);
/// {
///     let (one, other) = (routes.read(), routes.read());
///     assert_eq!(one.len(), other.len());
///     assert!(routes.try_write().is_none());
/// }
/// routes.write().push("0.0.0.0/0");
/// assert_eq!(routes.read().len(), 2);
/// ```
#[derive(Debug)]
pub struct ReadWrite {
    entered: Futex,
    left: Futex,
    /// The count that the writer sleeps for.
    awaited: AtomicU32,
    writers: Ticket,
}

impl ReadWrite {
    /// A free lock.
    #[cfg(not(loom))]
    pub const fn new() -> Self {
        ReadWrite {
            entered: Futex::new(0),
            left: Futex::new(0),
            awaited: AtomicU32::new(0),
            writers: Ticket::new(),
        }
    }

    /// A free lock.
    #[cfg(loom)]
    pub fn new() -> Self {
        ReadWrite {
            entered: Futex::new(0),
            left: Futex::new(0),
            awaited: AtomicU32::new(0),
            writers: Ticket::new(),
        }
    }

    /// Comes in as a reader, after the writer that is there, if there is one.
    #[inline]
    pub fn read(&self) {
        let found = self.entered.fetch_add(READER, Ordering::Acquire);
        if found & WRITER != 0 {
            self.await_phase(found & (WRITER | PHASE));
        }
    }

    /// Comes in as a reader if no writer is there.
    pub fn try_read(&self) -> bool {
        let mut seen = self.entered.load(Ordering::Relaxed);
        while seen & WRITER == 0 {
            match self.entered.compare_exchange(
                seen,
                seen.wrapping_add(READER),
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Goes.
    ///
    /// # Safety
    ///
    /// The caller must be inside as a reader. It may have come in on another thread.
    #[inline]
    pub unsafe fn read_unlock(&self) {
        let found = self.left.fetch_add(READER, Ordering::Release);
        if found & SLEEPERS != 0 {
            self.wake_writer(found.wrapping_add(READER) & !FLAGS);
        }
    }

    /// Comes in as the writer, after the writers that came before and the readers that are there.
    #[inline]
    pub fn write(&self) {
        self.writers.lock();
        let found = self.entered.fetch_or(self.bits(), Ordering::Relaxed);
        self.await_readers(found & !FLAGS);
    }

    /// Comes in as the writer if nobody is there.
    pub fn try_write(&self) -> bool {
        if !self.writers.try_lock() {
            return false;
        }
        let gone = self.left.load(Ordering::Relaxed) & !FLAGS;
        let alone = self
            .entered
            .compare_exchange(
                gone,
                gone | self.bits(),
                Ordering::Relaxed,
                Ordering::Relaxed,
            )
            .is_ok();
        if alone {
            // They have gone already, unless 2^29 have come between the two words.
            self.await_readers(gone);
        } else {
            // SAFETY: taken above.
            unsafe { self.writers.unlock() }
        }
        alone
    }

    /// Goes.
    ///
    /// # Safety
    ///
    /// The caller must be inside as the writer. It may have come in on another thread.
    #[inline]
    pub unsafe fn write_unlock(&self) {
        let found = self.entered.fetch_and(!FLAGS, Ordering::Release);
        if found & SLEEPERS != 0 {
            self.wake_readers();
        }
        // SAFETY: the caller is the writer, who holds this lock.
        unsafe { self.writers.unlock() }
    }

    /// Whether a writer is inside or about to be; out of date as soon as it is known.
    pub fn has_writer(&self) -> bool {
        self.entered.load(Ordering::Relaxed) & WRITER != 0
    }

    /// Whether anybody is inside or about to be; out of date as soon as it is known.
    pub fn is_locked(&self) -> bool {
        self.entered.load(Ordering::Relaxed) != self.left.load(Ordering::Relaxed) & !FLAGS
    }

    /// The bits of the writer, which asks.
    #[inline(always)]
    fn bits(&self) -> u32 {
        WRITER | if self.writers.is_odd() { PHASE } else { 0 }
    }

    #[cold]
    #[inline(never)]
    fn await_phase(&self, phase: u32) {
        await_word(&self.entered, |word| word & (WRITER | PHASE) != phase);
    }

    #[inline]
    fn await_readers(&self, count: u32) {
        if self.left.load(Ordering::Acquire) != count {
            self.await_left(count);
        }
    }

    #[cold]
    #[inline(never)]
    fn await_left(&self, count: u32) {
        self.awaited.store(count, Ordering::Relaxed);
        await_word(&self.left, |word| word & !FLAGS == count);
        // Nobody else touches the word while its count is this.
        self.left.store(count, Ordering::Relaxed);
    }

    #[cold]
    #[inline(never)]
    fn wake_writer(&self, count: u32) {
        fence(Ordering::Acquire);
        if self.awaited.load(Ordering::Relaxed) == count {
            self.left.wake_one();
        }
    }

    #[cold]
    #[inline(never)]
    fn wake_readers(&self) {
        self.entered.wake_all();
    }
}

/// Waits until the word is as wanted: spins, then marks it and sleeps.
fn await_word(word: &Futex, is_so: impl Fn(u32) -> bool) {
    let mut spin = Spin::at_most(if processors() > 1 { MOST_PAUSES } else { 0 });
    loop {
        let seen = word.load(Ordering::Acquire);
        if is_so(seen) {
            return;
        }
        if spin.again() {
            continue;
        }
        let marked = seen | SLEEPERS;
        let announced = seen == marked
            || word
                .compare_exchange(seen, marked, Ordering::Release, Ordering::Relaxed)
                .is_ok();
        if announced {
            word.wait(marked, None);
        }
    }
}

impl Default for ReadWrite {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(not(loom))]
// SAFETY: the writer holds the ticket lock, has shut later readers out and has waited for the earlier ones; acquire and release
// order it with both. Going does not depend on the thread.
unsafe impl lock_api::RawRwLock for ReadWrite {
    const INIT: Self = ReadWrite::new();

    type GuardMarker = lock_api::GuardSend;

    #[inline]
    fn lock_shared(&self) {
        self.read();
    }

    fn try_lock_shared(&self) -> bool {
        self.try_read()
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller is inside as a reader, by this method's contract.
        unsafe { self.read_unlock() }
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.write();
    }

    fn try_lock_exclusive(&self) -> bool {
        self.try_write()
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller is inside as the writer, by this method's contract.
        unsafe { self.write_unlock() }
    }

    fn is_locked(&self) -> bool {
        ReadWrite::is_locked(self)
    }

    fn is_locked_exclusive(&self) -> bool {
        self.has_writer()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn readers_share_and_a_writer_does_not() {
        let lock = lock_api::RwLock::<ReadWrite, u32>::new(1);
        {
            let (one, other) = (lock.read(), lock.try_read().unwrap());
            assert_eq!(*one + *other, 2);
            assert!(lock.is_locked() && !lock.is_locked_exclusive());
            assert!(lock.try_write().is_none());
        }
        for value in 2..5 {
            let mut writer = lock.try_write().unwrap();
            *writer = value;
            assert!(lock.is_locked_exclusive());
            assert!(lock.try_read().is_none() && lock.try_write().is_none());
        }
        assert!(!lock.is_locked());
        assert_eq!(lock.into_inner(), 4);
    }

    /// A writer that waits keeps later readers out, and lets them in before the next writer.
    #[test]
    fn phases_alternate() {
        let lock = lock_api::RwLock::<ReadWrite, Vec<&str>>::new(Vec::new());
        // SAFETY: only looked at.
        let raw: &ReadWrite = unsafe { lock.raw() };
        let seen = std::thread::scope(|scope| {
            let reader = lock.read();
            let spawn_writer = |name| {
                let lock = &lock;
                let drawn = raw.writers.drawn();
                scope.spawn(move || lock.write().push(name));
                while raw.writers.drawn() == drawn {
                    std::thread::yield_now();
                }
            };
            spawn_writer("first");
            while !raw.has_writer() {
                std::thread::yield_now();
            }
            spawn_writer("second");
            assert!(lock.try_read().is_none(), "readers could starve a writer");
            let later = scope.spawn(|| lock.read().clone());
            while raw.entered.load(Ordering::Relaxed) >> 3 < 2 {
                std::thread::yield_now();
            }
            drop(reader);
            later.join().unwrap()
        });
        assert_eq!(seen, ["first"], "writers could starve a reader");
        assert_eq!(lock.into_inner(), ["first", "second"]);
    }

    /// Counters wrap; many come and go; the writers' sums are whole.
    #[test]
    fn oversubscribed_readers_and_writers_end() {
        const THREADS: u64 = 16;
        const ROUNDS: u64 = 1_000;
        let raw = ReadWrite {
            entered: Futex::new(0_u32.wrapping_sub(64 * READER)),
            left: Futex::new(0_u32.wrapping_sub(64 * READER)),
            ..ReadWrite::new()
        };
        let lock = lock_api::RwLock::from_raw(raw, (0_u64, 0_u64));
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let lock = &lock;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        if (thread + round).is_multiple_of(4) {
                            let mut value = lock.write();
                            value.0 += 1;
                            std::thread::yield_now();
                            value.1 += 1;
                        } else {
                            let value = lock.read();
                            assert_eq!(value.0, value.1);
                        }
                    }
                });
            }
        });
        let each = THREADS * ROUNDS / 4;
        assert_eq!(lock.into_inner(), (each, each));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::ReadWrite;
    use crate::primitives::{Arc, thread};
    use loom::cell::UnsafeCell;

    struct Shared {
        lock: ReadWrite,
        value: UnsafeCell<usize>,
    }

    // SAFETY: the value is read inside as a reader and written inside as the writer; that this suffices is what the model checks.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn read(&self) -> usize {
            self.lock.read();
            let seen = self.value.with(|value| {
                // SAFETY: inside as a reader.
                unsafe { *value }
            });
            // SAFETY: came in above.
            unsafe { self.lock.read_unlock() }
            seen
        }

        fn write(&self) {
            self.lock.write();
            self.add_and_go();
        }

        fn add_and_go(&self) {
            self.value.with_mut(|value| {
                // SAFETY: the caller is inside as the writer.
                unsafe { *value += 1 }
            });
            // SAFETY: likewise.
            unsafe { self.lock.write_unlock() }
        }
    }

    /// The main thread and two others, each doing what it is given.
    fn check(work: [fn(&Shared); 3], writes: usize) {
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || {
            let shared = Arc::new(Shared {
                lock: ReadWrite::new(),
                value: UnsafeCell::new(0),
            });
            let others = [work[1], work[2]].map(|work| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || work(&shared))
            });
            work[0](&shared);
            for other in others {
                other.join().unwrap();
            }
            assert_eq!(shared.read(), writes);
        });
    }

    fn reads(shared: &Shared) {
        assert!(shared.read() <= 2);
    }

    #[test]
    fn a_writer_excludes_two_readers() {
        check([Shared::write, reads, reads], 1);
    }

    #[test]
    fn two_writers_exclude_each_other_and_a_reader() {
        check([Shared::write, Shared::write, reads], 2);
    }

    #[test]
    fn successful_attempts_exclude() {
        check(
            [
                |shared| {
                    while !shared.lock.try_write() {
                        thread::yield_now();
                    }
                    shared.add_and_go();
                },
                reads,
                |shared| {
                    if shared.lock.try_read() {
                        // SAFETY: came in just now.
                        unsafe { shared.lock.read_unlock() }
                    }
                },
            ],
            1,
        );
    }
}
