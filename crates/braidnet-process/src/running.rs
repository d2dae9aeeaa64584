//! Processors that run: carried by threads that are spawned suspended, started, suspended and stopped together.

use crate::tasks::Tasks;
use crate::threads;
use braidnet_stream::Processor;
use braidnet_sync::group::{MemberError, Placement, SpawnError, ThreadGroup};
use braidnet_sync::parker::{TaskParker, Unparker};
use braidnet_sync::roster::Roster;
use braidnet_wire::time::Duration;
use core::num::NonZeroUsize;
use std::sync::{Arc, mpsc};

/// What whoever carries a processor does when there is nothing to do (ASX §2.6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Idle {
    /// How long it goes on asking before it sleeps, at most. A wake-up costs tens of microseconds, so a few of them are worth
    /// spending; where waits turn out longer it asks for half as long each time, down to nothing, until one is shorter again. Others that want
    /// the processor get it meanwhile.
    pub poll: Duration,
}

impl Idle {
    /// Sleeps at once.
    pub const SLEEP: Idle = Idle {
        poll: Duration::ZERO,
    };

    /// Never sleeps.
    pub const SPIN: Idle = Idle {
        poll: Duration::MAX,
    };
}

impl Default for Idle {
    /// Asks for at most 50 µs.
    fn default() -> Idle {
        Idle {
            poll: Duration::from_micros(50),
        }
    }
}

/// What carries processors: the execution agents of CP/MP §3.1 and ASX §2.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Agents {
    /// A thread of the system's for each.
    #[default]
    Threads,
    /// Each is a user-level task, whose turns so many threads make: any of them the next, those that wait first in, first out. A task that
    /// has nothing to do costs nothing.
    Tasks {
        /// How many threads.
        threads: NonZeroUsize,
    },
}

/// How the threads of a stack are set.
#[derive(Clone, Debug, Default)]
pub struct RunningConfig {
    /// Their name; each gets its number behind it.
    pub name: String,
    /// What they carry: a processor each, or tasks.
    pub agents: Agents,
    /// Where thread `n` stays.
    pub placement: Placement,
    /// What they do when there is nothing to do.
    pub idle: Idle,
}

/// Threads that have been spawned and pinned and wait, so that everything is wired before a message flows (ASX §2.6.2).
pub struct Suspended<P> {
    group: ThreadGroup<Option<P>>,
    seats: Vec<mpsc::SyncSender<Load<P>>>,
    wakers: Vec<Unparker>,
    idle: Idle,
    /// Where processors are tasks: whose turn is next, and what each is parked with.
    tasks: Option<(Arc<Roster>, Vec<TaskParker>)>,
}

/// What a thread carries.
enum Load<P> {
    Processor(P),
    Tasks(Arc<Tasks<P>>),
}

/// Threads that turn processors.
pub struct Running<P> {
    group: ThreadGroup<Option<P>>,
    wakers: Vec<Unparker>,
    tasks: Option<Arc<Tasks<P>>>,
}

impl<P: Processor + 'static> Suspended<P> {
    /// Spawns what will carry `count` processors, suspended.
    ///
    /// # Errors
    /// If the system gives no thread or refuses a processor.
    pub fn spawn(config: &RunningConfig, count: usize) -> Result<Suspended<P>, SpawnError> {
        let idle = config.idle;
        let threads = match config.agents {
            Agents::Threads => count,
            Agents::Tasks { threads } => threads.get(),
        };
        let (seats, bodies): (Vec<_>, Vec<_>) = (0..threads)
            .map(|_| {
                let (seat, taken) = mpsc::sync_channel::<Load<P>>(1);
                let body = move |member| match taken.recv() {
                    Ok(Load::Processor(processor)) => Some(threads::carry(processor, member, idle)),
                    Ok(Load::Tasks(tasks)) => {
                        tasks.carry(member, idle);
                        None
                    }
                    Err(mpsc::RecvError) => {
                        unreachable!("threads are started only after every seat is taken")
                    }
                };
                (seat, body)
            })
            .unzip();
        let group = ThreadGroup::spawn(&config.name, &config.placement, bodies)?;
        let carriers = group.unparkers().to_vec();
        let (wakers, tasks) = match config.agents {
            Agents::Threads => (carriers, None),
            Agents::Tasks { .. } => {
                let (roster, parkers) = Roster::new(carriers, count as u32);
                let wakers = parkers.iter().map(TaskParker::unparker).collect();
                (wakers, Some((roster, parkers)))
            }
        };
        Ok(Suspended {
            group,
            seats,
            wakers,
            idle,
            tasks,
        })
    }

    /// What wakes each processor.
    pub fn wakers(&self) -> &[Unparker] {
        &self.wakers
    }

    /// Gives the threads their processors and lets all run.
    ///
    /// # Panics
    /// If there are not as many processors as were asked for.
    pub fn start(self, processors: Vec<P>) -> Running<P> {
        assert_eq!(
            processors.len(),
            self.wakers.len(),
            "as many processors as were asked for"
        );
        let mut own = Vec::new();
        let tasks = match self.tasks {
            Some((roster, parkers)) => {
                Some(Arc::new(Tasks::new(roster, parkers, processors, self.idle)))
            }
            None => {
                own = processors;
                None
            }
        };
        let shared = tasks.iter().cycle().cloned().map(Load::Tasks);
        let loads = own.into_iter().map(Load::Processor).chain(shared);
        for (seat, load) in self.seats.iter().zip(loads) {
            if seat.send(load).is_err() {
                unreachable!("a suspended thread keeps its seat");
            }
        }
        self.group.start();
        Running {
            group: self.group,
            wakers: self.wakers,
            tasks,
        }
    }
}

impl<P> Running<P> {
    /// Asks every thread to end after its current turn.
    pub fn cancel(&self) {
        self.group.cancel();
    }

    /// Waits until every thread stands between two turns, and keeps it there until [`resume`](Running::resume), so that all of a
    /// stack can be looked at, or changed, as one (ASX §2.6.2). Suspensions nest: each needs a resumption of its own. Not to be
    /// called from one of the threads.
    ///
    /// # Panics
    /// With more than 32,767 suspensions at a time.
    pub fn suspend(&self) {
        self.group.suspend();
    }

    /// Takes one suspension back; with the last, all threads go on. False if there was none.
    pub fn resume(&self) -> bool {
        self.group.resume()
    }

    /// Whether some thread has ended. Before [`cancel`](Running::cancel) only a panic does that.
    pub fn has_finished_one(&self) -> bool {
        self.group.has_finished_one()
    }

    /// What wakes each processor.
    pub fn wakers(&self) -> &[Unparker] {
        &self.wakers
    }

    /// Cancels, waits for every thread to end, and gives the processors back as they stood after their last turns.
    ///
    /// # Errors
    /// If a processor had panicked.
    pub fn stop(self) -> Result<Vec<P>, MemberError> {
        self.group.cancel();
        let ended: Vec<Option<P>> = self.group.join().into_iter().collect::<Result<_, _>>()?;
        let tasks = self.tasks.and_then(Arc::into_inner);
        let own = ended.into_iter().flatten();
        Ok(own
            .chain(tasks.into_iter().flat_map(Tasks::into_processors))
            .collect())
    }
}
