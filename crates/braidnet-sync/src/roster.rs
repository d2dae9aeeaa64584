//! Many tasks, carried in turns by few threads.
//!
//! A *task* is work that is done a turn at a time; its *carriers* are threads of which any may give it its next turn (CP/MP §3.1: user-level
//! threads multiplexed over light-weight processes). A roster says whose turn is next. What a task is made of stands elsewhere,
//! in a place by its number, which only the carrier that has the number touches.
//!
//! # The protocol
//!
//! A task is *idle*, *queued* or *running*; beside that it may have been *woken while running*. Its state word is that of a
//! [parker](crate::parker), with the roster in the place of the kernel:
//!
//! - Its carrier *announces* that the task is about to be idle, issues a sequentially consistent fence, and looks once more at what
//!   could have been left for it. If there is nothing it puts the task's things in their place and *parks* the task: a compare-and-swap from `ANNOUNCED` to
//!   `ON_ROSTER` (release), which fails if somebody has unparked it since: woken while running, it goes on. When it has succeeded,
//!   the carrier has let go of the task.
//! - Whoever brings work makes that visible, issues the fence, and swaps in `AWAKE` (acquire and release) unless the word says so already. The one
//!   who finds `ON_ROSTER` queues the task: so it is queued once, and has one carrier.
//!
//! The queue, first in first out, and the list of carriers that have nothing to carry, stand behind one lock. Who queues a task takes
//! a carrier from the list under the same lock, and unparks it after. A carrier enters the list only while the queue is empty,
//! announces its own sleep, and looks at the queue once more: the parker's argument again. A carrier that takes a
//! task and leaves others in the queue wakes the next from the list, since it may be away for long.
//!
//! The lock carries what was done in one turn of a task to its next: the word's release and acquire bring it to whoever queues it, and the
//! lock to whoever takes it.

use std::collections::VecDeque;

use crossbeam_utils::CachePadded;

use crate::lock::Guarded;
use crate::parker::{TaskParker, Unparker};
use crate::primitives::{Arc, AtomicUsize, Ordering};

/// Whose turn is next, of tasks that some threads carry.
///
/// ```
/// use braidnet_sync::parker::Parker;
/// use braidnet_sync::roster::Roster;
/// let (roster, tasks) = Roster::new(vec![Parker::new().unparker()], 2);
/// // All begin queued.
/// assert_eq!(roster.next(), Some(0));
/// // Task 0 has nothing to do: it is parked, and queued again when it is unparked.
/// tasks[0].announce();
/// assert!(tasks[0].park());
/// assert_eq!((roster.next(), roster.next()), (Some(1), None));
/// tasks[0].unparker().unpark();
/// assert_eq!(roster.next(), Some(0));
/// ```
pub struct Roster {
    lists: CachePadded<Guarded<Lists>>,
    /// How many are queued, for a look without the lock.
    queued: AtomicUsize,
    carriers: Vec<Unparker>,
}

struct Lists {
    queue: VecDeque<u32>,
    /// Carriers that have nothing to carry.
    idle: Vec<usize>,
}

impl Roster {
    /// A roster of `tasks` tasks, all queued in the order of their numbers, for carriers whom these wake. Of each task it gives what its
    /// carrier parks it with.
    pub fn new(carriers: Vec<Unparker>, tasks: u32) -> (Arc<Roster>, Vec<TaskParker>) {
        let lists = Lists {
            queue: (0..tasks).collect(),
            idle: Vec::with_capacity(carriers.len()),
        };
        let roster = Arc::new(Roster {
            lists: CachePadded::new(Guarded::new(lists)),
            queued: AtomicUsize::new(tasks as usize),
            carriers,
        });
        let parkers = (0..tasks).map(|task| TaskParker::new(Arc::clone(&roster), task));
        let parkers = parkers.collect();
        (roster, parkers)
    }

    /// For a carrier that has nothing to carry: the task whose turn it is. It is the caller's until it parks it, or goes
    /// [behind](Roster::behind) with it.
    pub fn next(&self) -> Option<u32> {
        if !self.has_queued() {
            return None;
        }
        let (task, another) = self.with(|lists| {
            let task = lists.queue.pop_front();
            let more = task.is_some() && !lists.queue.is_empty();
            (task, more.then(|| lists.idle.pop()).flatten())
        });
        self.wake(another);
        task
    }

    /// For the carrier of `task`, which could go on: queues it behind those that wait, and gives the first of them; the same if
    /// nobody waits.
    #[inline]
    pub fn behind(&self, task: u32) -> u32 {
        if self.has_queued() {
            self.exchange(task)
        } else {
            task
        }
    }

    fn exchange(&self, task: u32) -> u32 {
        self.with(|lists| {
            let first = lists.queue.pop_front();
            first.map_or(task, |first| {
                lists.queue.push_back(task);
                first
            })
        })
    }

    /// Whether a task waits for its turn: what a carrier looks at once more between announcing its sleep and sleeping.
    #[inline]
    pub fn has_queued(&self) -> bool {
        self.queued.load(Ordering::Relaxed) > 0
    }

    /// Carrier `me` has nothing to carry and is about to announce its sleep; false if there is something after all.
    pub fn rest(&self, me: usize) -> bool {
        self.with(|lists| {
            let rests = lists.queue.is_empty();
            if rests {
                lists.idle.push(me);
            }
            rests
        })
    }

    /// Carrier `me` is awake again, for whatever reason.
    pub fn rise(&self, me: usize) {
        self.with(|lists| lists.idle.retain(|carrier| *carrier != me));
    }

    /// Queues a task that was idle; whether a system call was made to wake a carrier.
    #[cold]
    pub(crate) fn queue(&self, task: u32) -> bool {
        let carrier = self.with(|lists| {
            lists.queue.push_back(task);
            lists.idle.pop()
        });
        self.wake(carrier)
    }

    fn wake(&self, carrier: Option<usize>) -> bool {
        carrier.is_some_and(|carrier| self.carriers[carrier].unpark())
    }

    fn with<R>(&self, work: impl FnOnce(&mut Lists) -> R) -> R {
        self.lists.with(|lists| {
            let result = work(lists);
            self.queued.store(lists.queue.len(), Ordering::Relaxed);
            result
        })
    }
}

impl core::fmt::Debug for Roster {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Roster")
            .field("queued", &self.queued.load(Ordering::Relaxed))
            .finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::parker::Parker;

    #[test]
    fn turns_go_round() {
        let (roster, _tasks) = Roster::new(vec![Parker::new().unparker()], 3);
        let mut task = roster.next().unwrap();
        let turns: Vec<u32> = (0..6)
            .map(|_| {
                let now = task;
                task = roster.behind(now);
                now
            })
            .collect();
        assert_eq!(turns, [0, 1, 2, 0, 1, 2]);
        assert!(roster.next().is_some() && roster.next().is_some());
        assert_eq!(
            (roster.next(), roster.behind(task)),
            (None, task),
            "alone it goes on"
        );
    }

    #[test]
    fn a_task_woken_while_it_runs_is_not_parked_and_one_woken_twice_is_queued_once() {
        let (roster, tasks) = Roster::new(vec![Parker::new().unparker()], 1);
        assert_eq!(roster.next(), Some(0));
        tasks[0].unparker().unpark();
        tasks[0].announce();
        tasks[0].unparker().unpark();
        assert!(!tasks[0].park(), "woken while it ran");
        tasks[0].announce();
        tasks[0].cancel();
        tasks[0].announce();
        assert!(tasks[0].park() && roster.next().is_none());
        tasks[0].unparker().unpark();
        tasks[0].unparker().unpark();
        assert_eq!((roster.next(), roster.next()), (Some(0), None));
    }

    #[test]
    fn who_takes_one_of_several_wakes_another_carrier() {
        let mut sleepers = [Parker::with_event().unwrap(), Parker::with_event().unwrap()];
        let carriers = sleepers.iter().map(Parker::unparker).collect();
        let (roster, _tasks) = Roster::new(carriers, 2);
        assert!(!roster.rest(1), "there is something to carry");
        let taken = [roster.next(), roster.next()];
        assert!(roster.rest(1));
        let announced = sleepers[1].announce();
        roster.queue(0);
        assert!(announced.cancel(), "it was woken");
        assert_eq!(taken, [Some(0), Some(1)]);
        roster.queue(1);
        assert!(!roster.rest(1));
        roster.with(|lists| lists.idle.push(1));
        let announced = sleepers[1].announce();
        assert_eq!(roster.next(), Some(0));
        assert!(announced.cancel(), "another is left");
        roster.rise(1);
        roster.with(|lists| assert!(lists.idle.is_empty()));
    }
}

#[cfg(all(test, loom))]
mod model {
    use super::Roster;
    use crate::parker::{Parker, TaskParker, Unparker};
    use crate::primitives::{Arc, AtomicUsize, Ordering, UnsafeCell, thread};

    /// Tasks that each count what was brought to them, in a place that only their carrier touches.
    struct Tasks {
        roster: Arc<Roster>,
        parkers: Vec<TaskParker>,
        brought: Vec<AtomicUsize>,
        counted: Vec<UnsafeCell<usize>>,
        done: AtomicUsize,
        all: usize,
    }

    impl Tasks {
        fn bring(&self, task: usize) {
            self.brought[task].fetch_add(1, Ordering::Relaxed);
            self.parkers[task].unparker().unpark();
        }

        fn is_over(&self) -> bool {
            self.done.load(Ordering::Relaxed) == self.all
        }

        /// Takes what was brought to `task`; whether it is parked.
        fn turn(&self, task: usize, carriers: &[Unparker]) -> bool {
            let count = self.brought[task].swap(0, Ordering::Relaxed);
            self.counted[task].with_mut(|counted| {
                // SAFETY: the model is to show that a task has one carrier; where it has two, the checked cell panics.
                unsafe { *counted += count }
            });
            if count > 0 && self.done.fetch_add(count, Ordering::Relaxed) + count == self.all {
                carriers.iter().for_each(|carrier| {
                    carrier.unpark();
                });
            }
            self.parkers[task].announce();
            if self.brought[task].load(Ordering::Relaxed) > 0 {
                self.parkers[task].cancel();
                return false;
            }
            self.parkers[task].park()
        }

        fn carry(&self, me: usize, parker: &mut Parker, carriers: &[Unparker]) {
            let mut current = None;
            while !self.is_over() {
                if let Some(task) = current.take().or_else(|| self.roster.next()) {
                    if !self.turn(task as usize, carriers) {
                        current = Some(self.roster.behind(task));
                    }
                } else if self.roster.rest(me) {
                    let announced = parker.announce();
                    if self.roster.has_queued() || self.is_over() {
                        announced.cancel();
                    } else {
                        announced.park();
                    }
                    self.roster.rise(me);
                }
            }
        }
    }

    /// Every piece of work is counted, by one carrier at a time, and nobody sleeps over it: that would be a deadlock.
    fn all_is_carried(carriers: usize, tasks: usize, bringers: &[&'static [usize]]) {
        let bringers = bringers.to_vec();
        let mut builder = loom::model::Builder::new();
        builder.preemption_bound = Some(2);
        builder.check(move || {
            let mut sleepers: Vec<_> = (0..carriers).map(|_| Parker::new()).collect();
            let wakers: Vec<_> = sleepers.iter().map(Parker::unparker).collect();
            let (roster, parkers) = Roster::new(wakers.clone(), tasks as u32);
            let tasks = Arc::new(Tasks {
                roster,
                parkers,
                brought: (0..tasks).map(|_| AtomicUsize::new(0)).collect(),
                counted: (0..tasks).map(|_| UnsafeCell::new(0)).collect(),
                done: AtomicUsize::new(0),
                all: bringers.iter().map(|brings| brings.len()).sum(),
            });
            let mut threads = Vec::new();
            for brings in &bringers {
                let (tasks, brings) = (Arc::clone(&tasks), *brings);
                threads.push(thread::spawn(move || {
                    brings.iter().for_each(|task| tasks.bring(*task))
                }));
            }
            let mut here = sleepers.remove(0);
            for (other, mut sleeper) in sleepers.into_iter().enumerate() {
                let (tasks, wakers) = (Arc::clone(&tasks), wakers.clone());
                threads.push(thread::spawn(move || {
                    tasks.carry(other + 1, &mut sleeper, &wakers)
                }));
            }
            tasks.carry(0, &mut here, &wakers);
            threads
                .into_iter()
                .for_each(|thread| thread.join().unwrap());
            assert!(tasks.is_over());
        });
    }

    #[test]
    fn one_carrier_sleeps_over_nothing() {
        all_is_carried(1, 2, &[&[0, 1]]);
    }

    #[test]
    fn a_task_that_two_wake_is_carried_once_at_a_time() {
        all_is_carried(1, 1, &[&[0], &[0]]);
    }

    #[test]
    fn two_carriers_share_a_task() {
        all_is_carried(2, 1, &[&[0, 0]]);
    }
}
