//! Processors as user-level tasks, carried in turns by few threads.
//!
//! The [roster](braidnet_sync::roster) says whose turn is next. A task's processor lies in a place by its number, as a baton that only its
//! carrier takes. The carrier makes a turn of it, and lets those that wait go before the next. A task that has had nothing to do for long
//! enough is parked: its carrier notes when it wants to be turned again, and whether it listens to a device, and wakes
//! it then, unless somebody else has; a carrier with nothing to carry sleeps until the first of those times, and on those devices.

use crate::patience::Patience;
use crate::running::Idle;
use crate::threads::BUDGET;
use braidnet_stream::{Next, Processor};
use braidnet_sync::baton::{Baton, Turn};
use braidnet_sync::clock::Clock;
use braidnet_sync::group::Member;
use braidnet_sync::parker::{MOST_DEVICES, TaskParker, Unparker, Wake};
use braidnet_sync::roster::Roster;
use braidnet_wire::time::{Duration, Instant};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// Processors, and who is to be turned next.
pub(crate) struct Tasks<P> {
    roster: Arc<Roster>,
    tasks: Vec<Task<P>>,
}

struct Task<P> {
    parker: TaskParker,
    unparker: Unparker,
    /// What the processor listens to, for carriers that do not have it.
    fd: Option<OwnedFd>,
    carried: Baton<Carried<P>>,
}

struct Carried<P> {
    processor: P,
    patience: Patience,
}

/// A parked task that listens to a device is turned after so long where its carrier does not sleep on that device: it has others to carry,
/// or too many to listen for.
const LOOK: Duration = Duration::from_micros(500);

impl<P: Processor> Tasks<P> {
    pub(crate) fn new(
        roster: Arc<Roster>,
        parkers: Vec<TaskParker>,
        processors: Vec<P>,
        idle: Idle,
    ) -> Tasks<P> {
        let tasks = parkers.into_iter().zip(processors);
        let tasks = tasks.map(|(parker, processor)| Task {
            unparker: parker.unparker(),
            parker,
            // Without one it is looked after by time.
            fd: processor.fd().and_then(|fd| fd.try_clone_to_owned().ok()),
            carried: Baton::new(Carried {
                processor,
                patience: Patience::new(idle),
            }),
        });
        Tasks {
            roster,
            tasks: tasks.collect(),
        }
    }

    /// The life of a thread that carries them, until the group is cancelled.
    pub(crate) fn carry(&self, mut member: Member, idle: Idle) {
        let clock = Clock::shared();
        let mut patience = Patience::new(idle);
        let mut carrier = Carrier {
            tasks: self,
            parked: self.tasks.iter().map(|_| None).collect(),
            next_due: Instant::MAX,
            devices: Vec::with_capacity(self.tasks.len().min(MOST_DEVICES)),
        };
        let mut current = None;
        while member.brake.boundary() {
            let now = Instant::from_nanos(clock.now_nanos());
            carrier.wake_due(now);
            match current.take().or_else(|| self.roster.next()) {
                Some(task) => {
                    current = carrier.turn(task, now);
                    patience.on_work(now);
                }
                None => {
                    if !patience.lingers(now) {
                        carrier.sleep(&mut member, now);
                    }
                }
            }
        }
    }
}

impl<P> Tasks<P> {
    /// The processors, when nobody carries them any more.
    pub(crate) fn into_processors(self) -> impl Iterator<Item = P> {
        let tasks = self.tasks.into_iter();
        tasks.map(|task| task.carried.into_inner().processor)
    }
}

/// A thread that carries tasks.
struct Carrier<'a, P> {
    tasks: &'a Tasks<P>,
    /// Of each task how this carrier last parked it, until it has woken it. Somebody else may have before: then it is woken for
    /// nothing, once.
    parked: Vec<Option<Parked>>,
    /// None of those is due before.
    next_due: Instant,
    /// Empty but for a sleep; kept for its memory.
    devices: Vec<BorrowedFd<'a>>,
}

/// When a parked task is to be woken, if nobody has.
#[derive(Clone, Copy)]
struct Parked {
    at: Instant,
    /// When its device is looked after.
    look: Option<Instant>,
}

impl Parked {
    fn due(self) -> Instant {
        self.look.map_or(self.at, |look| look.min(self.at))
    }
}

impl<'a, P: Processor> Carrier<'a, P> {
    /// Makes a turn of a task; which is carried next, if that is known.
    fn turn(&mut self, task: u32, now: Instant) -> Option<u32> {
        let roster = &self.tasks.roster;
        // Only who got it from the roster takes it.
        let mut carried = self.tasks.tasks[task as usize].carried.try_take()?;
        match carried.processor.turn(now, BUDGET) {
            Next::Again => carried.patience.on_work(now),
            next => {
                let alone = !roster.has_queued();
                let lingers = match alone {
                    true => carried.patience.lingers(now),
                    false => carried.patience.polls(now),
                };
                if !lingers {
                    if alone {
                        carried.processor.rest();
                    }
                    if self.park(task, carried, next, now) {
                        return None;
                    }
                    return Some(roster.behind(task));
                }
            }
        }
        drop(carried);
        Some(roster.behind(task))
    }

    /// Parks a task that has nothing to do; false if it has. Announces first and looks once more, so that nothing that is
    /// left in between is slept over.
    fn park(&mut self, task: u32, carried: Turn<'_, Carried<P>>, next: Next, now: Instant) -> bool {
        let number = task as usize;
        let parker = &self.tasks.tasks[number].parker;
        parker.announce();
        let has_work = carried.processor.has_work();
        let listens = carried.processor.fd().is_some();
        // The next carrier may come as soon as it is parked.
        drop(carried);
        if has_work {
            parker.cancel();
            return false;
        }
        if !parker.park() {
            return false;
        }
        let parked = Parked {
            at: match next {
                Next::At(at) => at,
                Next::Again | Next::Idle => Instant::MAX,
            },
            look: listens.then(|| now + LOOK),
        };
        self.next_due = self.next_due.min(parked.due());
        self.parked[number] = Some(parked);
        true
    }

    /// Wakes those whose time has come.
    #[inline]
    fn wake_due(&mut self, now: Instant) {
        if now >= self.next_due {
            self.wake(|parked| parked.due() <= now);
        }
    }

    fn wake(&mut self, which: impl Fn(&Parked) -> bool) {
        for (parked, task) in self.parked.iter_mut().zip(&self.tasks.tasks) {
            if parked.take_if(|parked| which(parked)).is_some() {
                task.unparker.unpark();
            }
        }
        let due = self.parked.iter().flatten().map(|parked| parked.due());
        self.next_due = due.min().unwrap_or(Instant::MAX);
    }

    /// Sleeps until there is something to carry.
    fn sleep(&mut self, member: &mut Member, now: Instant) {
        let Tasks { roster, tasks } = self.tasks;
        if !roster.rest(member.index) {
            return;
        }
        let mut until = Instant::MAX;
        for (parked, task) in self.parked.iter().zip(tasks) {
            let Some(parked) = parked else {
                continue;
            };
            match &task.fd {
                Some(fd) if parked.look.is_some() && self.devices.len() < MOST_DEVICES => {
                    self.devices.push(fd.as_fd());
                    until = until.min(parked.at);
                }
                _ => until = until.min(parked.due()),
            }
        }
        let at_most = (until < Instant::MAX).then(|| until.since(now));
        let announced = member.parker.announce();
        if roster.has_queued() || member.brake.is_on() {
            announced.cancel();
        } else {
            // What the system refuses to poll is looked after by time.
            let ended = announced.park_on(&self.devices, at_most);
            if matches!(ended, Ok(Wake::Ready)) {
                self.wake(|parked| parked.look.is_some());
            }
        }
        self.devices.clear();
        roster.rise(member.index);
    }
}
