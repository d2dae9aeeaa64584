//! The measured window: how it is opened and closed, and what it cost.
//!
//! The thread that conducts a measurement sleeps; processors turn. The phase is one word that every processor reads once per
//! turn, and that is written twice: where a processor sees that it has changed, it notes its own clocks and counts. What the
//! application has received is read from counters that each processor writes for itself. So nothing is locked and nothing
//! waited for on the data path, and a processor that was off its processor when the word changed has a window of its own
//! that is a little later: costs are taken as rates over the windows that they were measured in.

use braidnet_process::Worker;
use braidnet_stream::{Next, Processor};
use braidnet_sync::clock::Clock;
use braidnet_sync::lock::LockSnapshot;
use braidnet_sync::usage::{Usage, thread_cpu_nanos};
use braidnet_wire::time::{Duration, Instant};
use core::sync::atomic::{AtomicU32, Ordering};
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

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

/// Where a processor leaves what it has noted.
#[derive(Default)]
pub(crate) struct Notes(Mutex<[Option<Mark>; 2]>);

impl Notes {
    /// What the window cost, once both of its ends have been noted.
    pub(crate) fn cost(&self) -> Option<Cost> {
        let marks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (from, to) = ((*marks)[0]?, (*marks)[1]?);
        Some(Cost {
            wall_ns: to.wall_ns.saturating_sub(from.wall_ns).max(1),
            cpu_ns: to.cpu_ns.saturating_sub(from.cpu_ns),
            usage: to.usage - from.usage,
            waited_ns: to
                .locks
                .waited_nanos()
                .saturating_sub(from.locks.waited_nanos()),
        })
    }

    /// Whether the beginning, or the end, has been noted.
    pub(crate) fn has(&self, end: bool) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[usize::from(end)].is_some()
    }
}

/// What a window cost one processor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    pub(crate) wall_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) usage: Usage,
    /// Time between asking for locks and having them; 0 where that is not metered.
    pub(crate) waited_ns: u64,
}

/// One processor of a measurement: its workers, of one stack or of both, turned as one, and metered.
pub(crate) struct Metered {
    workers: Vec<Worker>,
    phase: Arc<Phase>,
    seen: u32,
    notes: Arc<Notes>,
}

/// A processor with nothing to do looks again after this long: a far end has no thread that would wake it.
const NAP: Duration = Duration::from_millis(2);

impl Metered {
    pub(crate) fn new(workers: Vec<Worker>, phase: Arc<Phase>, notes: Arc<Notes>) -> Metered {
        Metered {
            workers,
            phase,
            seen: 0,
            notes,
        }
    }

    #[cold]
    fn note(&mut self, word: u32) {
        let mark = Mark::now();
        let mut marks = self.notes.0.lock().unwrap_or_else(PoisonError::into_inner);
        if word >= MEASURING && self.seen < MEASURING {
            marks[0] = Some(mark);
        }
        if word >= OVER {
            marks[1] = Some(mark);
        }
        self.seen = word;
    }
}

impl Processor for Metered {
    fn turn(&mut self, now: Instant, budget: usize) -> Next {
        let word = self.phase.word();
        if word != self.seen {
            self.note(word);
        }
        let next = self.workers.iter_mut().fold(Next::Idle, |next, worker| {
            next.sooner(worker.turn(now, budget))
        });
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
