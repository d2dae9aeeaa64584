//! Threads that are made together, start together and end together.
//!
//! # The protocol
//!
//! Spawning returns when every thread exists, is pinned where asked, and waits at a [gate](crate::gate): nothing has run yet, so that
//! a stream can be wired whole before a message flows (ASX §2.6.2). `start` opens the gate. From then on members pass a
//! [brake](crate::brake) once per turn: `suspend` holds it and waits until all stand there, `resume` lets go, `cancel` ends it.
//! Whoever sleeps on the parker that each member was given is woken for that. `join` waits for all. A group that was never
//! started, or is dropped, dismisses its members unrun, and waits for them.
//!
//! The brake's word changes with release before the unpark, and unparking brings the fence: a member that looks at the brake
//! between announcing sleep and sleeping misses neither.

use core::any::Any;
use core::fmt;
use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::brake::Brake;
use crate::gate::Gate;
use crate::parker::{Parker, Unparker};
use crate::primitives::{Arc, mpsc, processors, thread};

/// The processors that the calling thread may run on, in ascending order; its affinity mask.
///
/// # Errors
///
/// If the system does not say, as with more processors than the 1,024 that a mask holds.
pub fn allowed_processors() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&processor| set.is_set(processor))
        .collect())
}

/// Where a group's threads run.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub enum Placement {
    /// Wherever the system puts them.
    #[default]
    Free,
    /// Member `i` on the `i`th of these processors, round and round. None listed is as good as [`Free`](Placement::Free).
    Pinned(Vec<usize>),
    /// Wherever the system puts them among these processors. None listed is as good as [`Free`](Placement::Free).
    Among(Vec<usize>),
}

impl Placement {
    /// The processor that a member is pinned to.
    fn of(&self, member: usize) -> Option<usize> {
        match self {
            Placement::Free | Placement::Among(_) => None,
            Placement::Pinned(processors) => processors
                .get(member.checked_rem(processors.len())?)
                .copied(),
        }
    }

    /// Where a member may run; nowhere listed is anywhere.
    fn among(&self, member: usize) -> Vec<usize> {
        match self {
            Placement::Free | Placement::Pinned(_) => self.of(member).into_iter().collect(),
            Placement::Among(processors) => processors.clone(),
        }
    }
}

/// Why a group could not be made. None of its threads is left.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The system gave no thread.
    #[error("thread {index} of the group could not be made: {reason}")]
    Thread {
        /// Which member.
        index: usize,
        /// What the system said.
        reason: io::Error,
    },
    /// The system refused the processor.
    #[error("thread {index} may not run on processor {processor}: {reason}")]
    Pin {
        /// Which member.
        index: usize,
        /// Which processor.
        processor: usize,
        /// What the system said.
        reason: io::Error,
    },
    /// The system gave no event descriptor for a member's parker.
    #[error("thread {index} of the group could not be given an event to sleep on: {reason}")]
    Event {
        /// Which member.
        index: usize,
        /// What the system said.
        reason: io::Error,
    },
}

/// How a member ended without a result.
#[derive(thiserror::Error)]
pub enum MemberError {
    /// The group was never started.
    #[error("the group was never started")]
    NeverStarted,
    /// The member panicked; the panic's payload is here, for `std::panic::resume_unwind`.
    #[error("a thread of the group panicked: {}", message(.0.as_ref()))]
    Panicked(Box<dyn Any + Send>),
}

impl fmt::Debug for MemberError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What a panic said, where it said anything.
fn message(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message")
}

/// What a member of a group has.
#[derive(Debug)]
pub struct Member {
    /// Which member this is, from 0.
    pub index: usize,
    /// The processor it is pinned to.
    pub processor: Option<usize>,
    /// What it sleeps on; the group's cancel, and whoever asked the group for its unparker, wakes it. It can sleep on devices.
    pub parker: Parker,
    /// Its turns end and begin at this brake's [boundary](Brake::boundary), which says whether there is to be another; and between
    /// announcing sleep and sleeping it looks whether it [is on](Brake::is_on). The group counts it as going round from its start
    /// to its end.
    pub brake: Arc<Brake>,
}

/// Threads that start, are cancelled and are joined together.
///
/// ```
/// use braidnet_sync::group::{Placement, ThreadGroup};
/// let bodies = (0..2).map(|_| |member: braidnet_sync::group::Member| member.index * 10);
/// let group = ThreadGroup::spawn("worker", &Placement::Free, bodies).unwrap();
/// group.start();
/// let results: Vec<_> = group.join().into_iter().map(Result::unwrap).collect();
/// assert_eq!(results, [0, 10]);
/// ```
#[derive(Debug)]
pub struct ThreadGroup<R> {
    gate: Arc<Gate>,
    brake: Arc<Brake>,
    unparkers: Vec<Unparker>,
    threads: Vec<thread::JoinHandle<Option<R>>>,
}

impl<R: Send + 'static> ThreadGroup<R> {
    /// Makes one thread per body, named `name` and its index, placed, and suspended until [`start`](Self::start).
    ///
    /// # Errors
    ///
    /// If the system refuses a thread, a processor or a descriptor.
    pub fn spawn<F>(
        name: &str,
        placement: &Placement,
        bodies: impl IntoIterator<Item = F>,
    ) -> Result<Self, SpawnError>
    where
        F: FnOnce(Member) -> R + Send + 'static,
    {
        // The first to ask allocates: here, and not where two of the threads first want one lock.
        let _ = processors();
        let mut group = ThreadGroup {
            gate: Arc::new(Gate::new()),
            brake: Arc::default(),
            unparkers: Vec::new(),
            threads: Vec::new(),
        };
        let (pinning, pinned) = mpsc::channel();
        for (index, body) in bodies.into_iter().enumerate() {
            let parker =
                Parker::with_event().map_err(|reason| SpawnError::Event { index, reason })?;
            group.unparkers.push(parker.unparker());
            let processor = placement.of(index);
            let member = Member {
                index,
                processor,
                parker,
                brake: Arc::clone(&group.brake),
            };
            let among = placement.among(index);
            let (gate, pinning) = (Arc::clone(&group.gate), pinning.clone());
            let thread = thread::Builder::new()
                .name(format!("{name}-{index}"))
                .spawn(move || {
                    // The group waits for every answer, so somebody is there to hear it.
                    let _ = pinning.send(place(index, &among));
                    drop(pinning);
                    let brake = Arc::clone(&member.brake);
                    gate.wait().then(|| {
                        let _going = brake.set_off();
                        body(member)
                    })
                });
            group
                .threads
                .push(thread.map_err(|reason| SpawnError::Thread { index, reason })?);
        }
        drop(pinning);
        pinned.iter().collect::<Result<(), _>>()?;
        Ok(group)
    }
}

impl<R> ThreadGroup<R> {
    /// Lets every member run. No effect the second time.
    pub fn start(&self) {
        self.gate.open();
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.threads.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.threads.is_empty()
    }

    /// What wakes each member, by index.
    pub fn unparkers(&self) -> &[Unparker] {
        &self.unparkers
    }

    /// Suspends all: waits until every member stands at the boundary of its turn, or has ended, and keeps it there until
    /// [`resume`](Self::resume) (ASX §2.6.2). Suspensions nest: each needs a resumption of its own. A group that has not been
    /// started yet is suspended in its start.
    ///
    /// What members did in their turns is visible to the caller, and what it does to them before it resumes. It may be called
    /// from any thread but a member's, which would wait for itself.
    ///
    /// # Panics
    /// With more than 32,767 suspensions at a time.
    pub fn suspend(&self) {
        self.brake.put_on();
        self.wake_all();
        self.brake.await_stop();
    }

    /// Takes one suspension back; with the last, all go on. False if there was none.
    pub fn resume(&self) -> bool {
        self.brake.let_go()
    }

    fn wake_all(&self) {
        for unparker in &self.unparkers {
            unparker.unpark();
        }
    }

    /// Asks every member to return at its next turn boundary, and wakes those that sleep or are suspended.
    pub fn cancel(&self) {
        self.brake.end();
        self.wake_all();
    }

    /// Whether some member has ended: of its own accord, after [`cancel`](ThreadGroup::cancel), or by a panic.
    pub fn has_finished_one(&self) -> bool {
        self.threads.iter().any(thread::JoinHandle::is_finished)
    }

    /// Waits for every member, and answers what each returned, by index. It does not cancel; a group that was never
    /// started is dismissed.
    pub fn join(mut self) -> Vec<Result<R, MemberError>> {
        self.gate.dismiss();
        self.wait()
    }

    fn wait(&mut self) -> Vec<Result<R, MemberError>> {
        self.threads
            .drain(..)
            .map(|thread| {
                thread
                    .join()
                    .map_err(MemberError::Panicked)?
                    .ok_or(MemberError::NeverStarted)
            })
            .collect()
    }
}

impl<R> Drop for ThreadGroup<R> {
    /// Cancels and waits: no member outlives its group.
    fn drop(&mut self) {
        self.gate.dismiss();
        self.cancel();
        self.wait();
    }
}

/// Puts the calling thread, member `index`, where it belongs.
fn place(index: usize, among: &[usize]) -> Result<(), SpawnError> {
    let Some(&first) = among.first() else {
        return Ok(());
    };
    let refused = |processor, reason| SpawnError::Pin {
        index,
        processor,
        reason,
    };
    let mut set = CpuSet::new();
    for &processor in among {
        if processor >= CpuSet::MAX_CPU {
            let missing = "there is no processor of this number";
            let reason = io::Error::new(io::ErrorKind::InvalidInput, missing);
            return Err(refused(processor, reason));
        }
        set.set(processor);
    }
    sched_setaffinity(None, &set).map_err(|error| refused(first, error.into()))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

    use super::*;

    type Body<R> = Box<dyn FnOnce(Member) -> R + Send>;

    #[test]
    fn nobody_runs_before_the_start() {
        let ran = Arc::new(AtomicUsize::new(0));
        let bodies = (0..4).map(|_| {
            let ran = Arc::clone(&ran);
            move |member: Member| {
                ran.fetch_add(1, Ordering::Relaxed);
                (member.index, thread::current().name().map(str::to_owned))
            }
        });
        let group = ThreadGroup::spawn("member", &Placement::Free, bodies).unwrap();
        assert_eq!(
            (group.len(), group.is_empty(), group.unparkers().len()),
            (4, false, 4)
        );
        assert!(!group.has_finished_one());
        assert_eq!(ran.load(Ordering::Relaxed), 0);
        group.start();
        group.start();
        for (index, ended) in group.join().into_iter().enumerate() {
            assert_eq!(ended.unwrap(), (index, Some(format!("member-{index}"))));
        }
        assert_eq!(ran.load(Ordering::Relaxed), 4);
    }

    #[test]
    fn a_group_never_started_is_dismissed() {
        let unreachable = || (0..2).map(|_| |_: Member| unreachable!("never started"));
        let group = ThreadGroup::<()>::spawn("idle", &Placement::Free, unreachable()).unwrap();
        let ended = group.join();
        assert_eq!(ended.len(), 2);
        assert!(
            ended
                .iter()
                .all(|ended| matches!(ended, Err(MemberError::NeverStarted)))
        );
        drop(ThreadGroup::<()>::spawn("idle", &Placement::Free, unreachable()).unwrap());
    }

    #[test]
    fn a_panic_is_an_answer_and_the_others_have_theirs() {
        let bodies: Vec<Body<u32>> = vec![
            Box::new(|_| 1),
            Box::new(|_| panic!("planted {}", 7)),
            Box::new(|_| 3),
        ];
        let group = ThreadGroup::spawn("member", &Placement::Free, bodies).unwrap();
        group.start();
        let ended = group.join();
        assert!(matches!((&ended[0], &ended[2]), (Ok(1), Ok(3))));
        let sentence = ended[1].as_ref().unwrap_err().to_string();
        assert_eq!(sentence, "a thread of the group panicked: planted 7");
    }

    #[test]
    fn cancel_reaches_those_who_sleep_and_those_who_turn() {
        let sleeper: Body<()> = Box::new(|mut member| {
            while member.brake.boundary() {
                let announced = member.parker.announce();
                if !member.brake.is_on() {
                    announced.park();
                }
            }
        });
        let turner: Body<()> = Box::new(|member| {
            while member.brake.boundary() {
                thread::yield_now();
            }
        });
        let group = ThreadGroup::spawn("member", &Placement::Free, [sleeper, turner]).unwrap();
        group.start();
        group.cancel();
        assert!(group.join().iter().all(Result::is_ok));
    }

    /// Members that turn, one that sleeps, and one that ends soon; suspended by two threads at a time, again and again.
    #[test]
    fn nobody_turns_while_suspended() {
        let turns = Arc::new(AtomicU64::new(0));
        let turner = || -> Body<()> {
            let turns = Arc::clone(&turns);
            Box::new(move |member| {
                while member.brake.boundary() {
                    turns.fetch_add(1, Ordering::Relaxed);
                }
            })
        };
        let sleeper: Body<()> = Box::new(|mut member| {
            while member.brake.boundary() {
                let announced = member.parker.announce();
                if !member.brake.is_on() {
                    announced.park();
                }
            }
        });
        let bodies = [turner(), sleeper, Box::new(|_| ()), turner(), turner()];
        let group = ThreadGroup::spawn("member", &Placement::Free, bodies).unwrap();
        group.suspend();
        group.start();
        let standing = || {
            let before = turns.load(Ordering::Relaxed);
            thread::yield_now();
            assert_eq!(turns.load(Ordering::Relaxed), before);
        };
        standing();
        assert!(group.resume() && !group.resume());
        let once_more = AtomicBool::new(true);
        thread::scope(|scope| {
            scope.spawn(|| {
                while once_more.load(Ordering::Relaxed) {
                    group.suspend();
                    assert!(group.resume());
                }
            });
            for _ in 0..200 {
                group.suspend();
                standing();
                assert!(group.resume());
            }
            once_more.store(false, Ordering::Relaxed);
        });
        let before = turns.load(Ordering::Relaxed);
        while turns.load(Ordering::Relaxed) == before {
            thread::yield_now();
        }
        group.suspend();
        group.cancel();
        assert!(
            group.join().iter().all(Result::is_ok),
            "not kept from ending"
        );
    }

    #[test]
    fn dropping_a_running_group_ends_it() {
        let ended = Arc::new(AtomicUsize::new(0));
        let bodies = (0..2).map(|_| {
            let ended = Arc::clone(&ended);
            move |member: Member| {
                while member.brake.boundary() {
                    thread::yield_now();
                }
                ended.fetch_add(1, Ordering::Relaxed);
            }
        });
        let group = ThreadGroup::spawn("member", &Placement::Free, bodies).unwrap();
        group.start();
        drop(group);
        assert_eq!(ended.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn members_are_where_they_were_put() {
        let allowed = allowed_processors().unwrap();
        assert!(!allowed.is_empty() && allowed.is_sorted());
        let placement = Placement::Pinned(allowed.clone());
        let members = allowed.len() + 1;
        let bodies = (0..members)
            .map(|_| |member: Member| (member.processor, allowed_processors().unwrap()));
        let group = ThreadGroup::spawn("pinned", &placement, bodies).unwrap();
        group.start();
        for (index, ended) in group.join().into_iter().enumerate() {
            let expected = allowed[index % allowed.len()];
            assert_eq!(ended.unwrap(), (Some(expected), vec![expected]));
        }
        assert_eq!(Placement::Pinned(Vec::new()).of(3), None);
        let among = &allowed[..1];
        let bodies =
            (0..2).map(|_| |member: Member| (member.processor, allowed_processors().unwrap()));
        let group = ThreadGroup::spawn("among", &Placement::Among(among.to_vec()), bodies).unwrap();
        group.start();
        for ended in group.join() {
            assert_eq!(ended.unwrap(), (None, among.to_vec()));
        }
    }

    #[test]
    fn a_processor_that_is_not_there_is_refused_with_a_sentence() {
        for processor in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU] {
            let bodies = (0..2).map(|_| |_: Member| ());
            let refused = ThreadGroup::spawn("lost", &Placement::Pinned(vec![processor]), bodies)
                .unwrap_err();
            assert!(
                refused
                    .to_string()
                    .contains(&format!("may not run on processor {processor}")),
                "{refused}"
            );
        }
    }
}
