//! The measured window: how it is opened and closed, and what it cost.
//!
//! The thread that conducts a measurement sleeps; processors turn. The phase is one word that every processor reads once per
//! turn, and that is written twice: where a thread sees that it has changed, it notes its own clocks and counts. What the
//! application has received is read from counters that each processor writes for itself. So nothing is locked and nothing
//! waited for on the data path, and a processor that was off its processor when the word changed has a window of its own
//! that is a little later: costs are taken as rates over the windows that they were measured in.

use crate::config::{MAX_PROCESSORS, TtcpConfig};
use crate::rig::warm;
use braidnet_process::Worker;
use braidnet_stream::{Next, Processor};
use braidnet_sync::clock::Clock;
use braidnet_sync::lock::LockSnapshot;
use braidnet_sync::usage::{Usage, thread_cpu_nanos};
use braidnet_wire::time::{Duration, Instant};
use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::collections::HashMap;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, ThreadId};

/// Which part of a measurement is under way.
#[derive(Debug, Default)]
pub(crate) struct Phase(AtomicU32);

const MEASURING: u32 = 1;
const OVER: u32 = 2;

impl Phase {
    /// Whether what happens now counts.
    #[inline]
    pub(crate) fn is_measuring(&self) -> bool {
        self.word() == MEASURING
    }

    #[inline]
    fn word(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Opens the window, or closes it.
    pub(crate) fn advance(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

/// A processor's clocks and counts at one moment.
#[derive(Clone, Copy)]
struct Mark {
    wall_ns: u64,
    cpu_ns: u64,
    usage: Usage,
    locks: LockSnapshot,
}

impl Mark {
    fn now() -> Mark {
        Mark {
            wall_ns: Clock::shared().now_nanos(),
            cpu_ns: thread_cpu_nanos(),
            usage: Usage::thread(),
            locks: LockSnapshot::thread(),
        }
    }
}

/// Where threads leave what they have noted: each for itself, whatever it carries.
pub(crate) struct Notes {
    threads: Mutex<HashMap<ThreadId, [Option<Mark>; 2]>>,
    /// Processors that have seen the end.
    ended: AtomicUsize,
    /// Nanoseconds of all turns, where they are timed.
    turns: AtomicU64,
}

impl Default for Notes {
    /// With room for all threads: they note while a measurement is under way, in which nothing asks the allocator.
    fn default() -> Notes {
        Notes {
            threads: Mutex::new(HashMap::with_capacity(MAX_PROCESSORS)),
            ended: AtomicUsize::new(0),
            turns: AtomicU64::new(0),
        }
    }
}

thread_local! {
    /// What the thread has seen of the phase: it notes once, however many it carries.
    static SEEN: Cell<u32> = const { Cell::new(0) };
}

impl Notes {
    /// Of so many threads, for which there is room from the start.
    pub(crate) fn of(threads: usize) -> Notes {
        Notes {
            threads: Mutex::new(HashMap::with_capacity(threads)),
            ended: AtomicUsize::new(0),
            turns: AtomicU64::new(0),
        }
    }

    /// What the window cost each thread that noted both of its ends.
    pub(crate) fn costs(&self) -> Vec<Cost> {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let whole = |marks: &[Option<Mark>; 2]| Some(((*marks)[0]?, (*marks)[1]?));
        let cost = |(from, to): (Mark, Mark)| Cost {
            wall_ns: to.wall_ns.saturating_sub(from.wall_ns).max(1),
            cpu_ns: to.cpu_ns.saturating_sub(from.cpu_ns),
            usage: to.usage - from.usage,
            locks: to.locks - from.locks,
        };
        threads.values().filter_map(whole).map(cost).collect()
    }

    /// Nanoseconds of all turns so far, where they are timed.
    pub(crate) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Whether so many processors have seen the end.
    pub(crate) fn is_over(&self, processors: usize) -> bool {
        self.ended.load(Ordering::Relaxed) == processors
    }

    /// Whether every thread that has noted anything has noted the end. One that carries nothing any more never does.
    pub(crate) fn is_whole(&self) -> bool {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.values().all(|marks| marks[1].is_some())
    }

    /// Called by the thread.
    fn note(&self, word: u32) {
        let mark = Mark::now();
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        let marks = threads.entry(thread::current().id()).or_default();
        if word >= MEASURING && marks[0].is_none() {
            marks[0] = Some(mark);
        }
        if word >= OVER {
            marks[1] = Some(mark);
        }
        SEEN.set(word);
    }
}

/// What a window cost one thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) wall_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) usage: Usage,
    /// What its locks cost; nothing where that is not metered.
    pub(crate) locks: LockSnapshot,
}

/// One processor of a measurement: its workers, of one stack or of both, turned as one, and metered.
pub(crate) struct Metered {
    workers: Vec<Worker>,
    /// How the thread that turns them is to make what is theirs, if it is.
    makes: Option<Arc<TtcpConfig>>,
    phase: Arc<Phase>,
    seen: u32,
    notes: Arc<Notes>,
    /// Where its turns are timed, their clock.
    timed: Option<Clock>,
}

/// A processor with nothing to do looks again after this long: a far end has no thread that would wake it.
const NAP: Duration = Duration::from_millis(2);

impl Metered {
    pub(crate) fn new(
        workers: Vec<Worker>,
        makes: Option<Arc<TtcpConfig>>,
        phase: Arc<Phase>,
        notes: Arc<Notes>,
    ) -> Metered {
        Metered {
            workers,
            makes,
            phase,
            seen: 0,
            notes,
            timed: None,
        }
    }

    /// The same, with its turns timed or not.
    pub(crate) fn timed(self, is_timed: bool) -> Metered {
        Metered {
            timed: is_timed.then(Clock::shared),
            ..self
        }
    }

    fn turn_all(&mut self, now: Instant, budget: usize) -> Next {
        self.workers.iter_mut().fold(Next::Idle, |next, worker| {
            next.sooner(worker.turn(now, budget))
        })
    }

    #[cold]
    fn note(&mut self, word: u32) {
        if word != SEEN.get() {
            self.notes.note(word);
        }
        if word != self.seen {
            self.seen = word;
            if word >= OVER {
                self.notes.ended.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

impl Processor for Metered {
    fn begin(&mut self) {
        let Some(config) = self.makes.take() else {
            return;
        };
        let mut workers = Vec::with_capacity(self.workers.len());
        for mut worker in self.workers.drain(..) {
            worker.rebuild();
            warm(&mut worker, &config);
            workers.push(worker);
        }
        self.workers = workers;
    }

    fn turn(&mut self, now: Instant, budget: usize) -> Next {
        let word = self.phase.word();
        if word != self.seen || word != SEEN.get() {
            self.note(word);
        }
        let next = match self.timed {
            None => self.turn_all(now, budget),
            Some(clock) => {
                let from = clock.now_nanos();
                let next = self.turn_all(now, budget);
                let took = clock.now_nanos().saturating_sub(from);
                self.notes.turns.fetch_add(took, Ordering::Relaxed);
                next
            }
        };
        let nap = Instant::from_nanos(now.nanos().saturating_add(NAP.as_nanos() as u64));
        next.sooner(Next::At(nap))
    }

    fn has_work(&self) -> bool {
        self.workers.iter().any(Worker::has_work)
    }

    fn rest(&mut self) {
        self.workers.iter_mut().for_each(Worker::rest);
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}
