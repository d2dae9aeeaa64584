//! Processors that run: one thread for each, spawned suspended, started and stopped together.

use braidnet_stream::{Next, Processor};
use braidnet_sync::clock::Clock;
use braidnet_sync::group::{Member, MemberError, Placement, SpawnError, ThreadGroup};
use braidnet_sync::parker::Unparker;
use braidnet_sync::usage::Usage;
use braidnet_wire::time::{Duration, Instant};
use std::sync::mpsc;

/// What a processor's thread does when there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Idle {
    /// How long it goes on asking before it sleeps. A wake-up costs tens of microseconds, so a few of them are worth
    /// spending; zero sleeps at once. Others that want the processor get it meanwhile.
    pub poll: Duration,
}

impl Default for Idle {
    fn default() -> Idle {
        Idle {
            poll: Duration::from_micros(50),
        }
    }
}

/// How the threads of a stack are set.
#[derive(Clone, Debug, Default)]
pub struct RunningConfig {
    /// Their name; each gets its number behind it.
    pub name: String,
    /// Whether thread `n` stays on the `n`-th of these processors.
    pub placement: Placement,
    /// What they do when there is nothing to do.
    pub idle: Idle,
}

/// Threads that have been spawned and pinned and wait, so that everything is wired before a message flows (ASX §2.6.2).
pub struct Suspended<P> {
    group: ThreadGroup<Finished<P>>,
    seats: Vec<mpsc::SyncSender<P>>,
}

/// Threads that turn processors.
pub struct Running<P> {
    group: ThreadGroup<Finished<P>>,
}

/// What is left of a thread that has ended.
pub struct Finished<P> {
    /// The processor, as it stood after its last turn.
    pub processor: P,
    /// What the thread used of its processor.
    pub usage: Usage,
    /// How many turns it made.
    pub turns: u64,
}

/// How long a thread that has nothing to do keeps its processor from others that want it.
const PATIENCE: Duration = Duration::from_micros(20);

/// Messages that a thread lets its processor do in one turn.
const BUDGET: usize = 256;

impl<P: Processor + 'static> Suspended<P> {
    /// Spawns `count` threads, suspended.
    ///
    /// # Errors
    /// If the system gives no thread or refuses a processor.
    pub fn spawn(config: &RunningConfig, count: usize) -> Result<Suspended<P>, SpawnError> {
        let (seats, bodies): (Vec<_>, Vec<_>) = (0..count)
            .map(|_| {
                let (seat, taken) = mpsc::sync_channel::<P>(1);
                let idle = config.idle;
                (seat, move |member: Member| {
                    taken.recv().map(|processor| carry(processor, member, idle))
                })
            })
            .unzip();
        // A thread whose seat stays empty is never started, so that the receiver has always got something.
        let bodies = bodies.into_iter().map(|body| {
            move |member: Member| match body(member) {
                Ok(finished) => finished,
                Err(mpsc::RecvError) => {
                    unreachable!("threads are started only after every seat is taken")
                }
            }
        });
        Ok(Suspended {
            group: ThreadGroup::spawn(&config.name, &config.placement, bodies)?,
            seats,
        })
    }

    /// What wakes each thread.
    pub fn wakers(&self) -> &[Unparker] {
        self.group.unparkers()
    }

    /// Gives each thread its processor and lets all run.
    ///
    /// # Panics
    /// If there are not as many processors as threads.
    pub fn start(self, processors: Vec<P>) -> Running<P> {
        assert_eq!(
            processors.len(),
            self.seats.len(),
            "one processor for each thread"
        );
        for (seat, processor) in self.seats.iter().zip(processors) {
            if seat.send(processor).is_err() {
                unreachable!("a suspended thread keeps its seat");
            }
        }
        self.group.start();
        Running { group: self.group }
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

    /// Whether every thread has ended, as after a panic of all.
    pub fn is_finished(&self) -> bool {
        self.group.is_finished()
    }

    /// Whether some thread has ended. Before [`cancel`](Running::cancel) only a panic does that.
    pub fn has_finished_one(&self) -> bool {
        self.group.has_finished_one()
    }

    /// What wakes each thread.
    pub fn wakers(&self) -> &[Unparker] {
        self.group.unparkers()
    }

    /// Cancels, and waits for every thread to end.
    pub fn stop(self) -> Vec<Result<Finished<P>, MemberError>> {
        self.group.cancel();
        self.group.join()
    }
}

/// The life of a processor's thread.
fn carry<P: Processor>(mut processor: P, mut member: Member, idle: Idle) -> Finished<P> {
    let clock = Clock::shared();
    let mut idle_since = None;
    let mut turns = 0;
    while member.brake.boundary() {
        let now = Instant::from_nanos(clock.now_nanos());
        turns += 1;
        match processor.turn(now, BUDGET) {
            Next::Again => idle_since = None,
            next => {
                let idle_for = now.since(*idle_since.get_or_insert(now));
                if idle_for < idle.poll.min(PATIENCE) {
                    core::hint::spin_loop();
                } else if idle_for < idle.poll {
                    // Whoever is awaited may be waiting for this very processor.
                    std::thread::yield_now();
                } else {
                    processor.rest();
                    sleep(&processor, &mut member, next, now);
                    idle_since = None;
                }
            }
        }
    }
    Finished {
        processor,
        usage: Usage::thread(),
        turns,
    }
}

/// Sleeps until there is something to do. Announces first and looks once more, so that nothing that is left in between is
/// slept over.
fn sleep<P: Processor>(processor: &P, member: &mut Member, next: Next, now: Instant) {
    let at_most = match next {
        Next::Again => return,
        Next::At(at) => Some(at.since(now)),
        Next::Idle => None,
    };
    let announced = member.parker.announce();
    if processor.has_work() || member.brake.is_on() {
        announced.cancel();
        return;
    }
    match (processor.fd(), at_most) {
        (Some(fd), at_most) => {
            // What the system refuses to poll is asked again in the next turn.
            let _ = announced.park_on(&[fd], at_most);
        }
        (None, Some(at_most)) => {
            announced.park_timeout(at_most);
        }
        (None, None) => {
            announced.park();
        }
    }
}
