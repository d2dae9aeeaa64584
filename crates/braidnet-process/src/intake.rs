//! How a worker comes by what the device received.

use crate::exchange::{MAILBOX, Mailbox, mailboxes};
use crate::filtered::{Filtered, Queue, Sorting, Taker};
use crate::leased::Leased;
use crate::plan::{Classify, PlanError};
use braidnet_device::{Alarm, QueuePair, Receiver, Transmitter};
use braidnet_message::{Message, Pool, Run};
use braidnet_stream::Claims;
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use braidnet_sync::parker::Unparker;
use braidnet_sync::ring::mpsc;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How the workers that take from one receive queue get along.
#[derive(Clone)]
pub(crate) enum Manner {
    /// There is only one.
    Alone,
    /// They take turns at polling it, and hand each other what is theirs.
    InTurns(Sorting),
    /// Each has its own, or takes turns at one, and those of others while it is their guest.
    Leased(Sorting),
    /// Each asks it, waiting for the lock: the driver of PLP §2.3, called from every processor. Where runs get numbers, the filter says
    /// what for.
    Asked(LockKind, Option<Arc<dyn Classify>>),
}

/// A receive queue, or a share in one.
enum Intake {
    Nothing,
    Own(Box<dyn Receiver>),
    Filtered(Filtered),
    Leased(Box<Leased>),
    Asked {
        queue: Arc<Lock<Box<dyn Receiver>>>,
        /// Where runs get numbers.
        filter: Option<Arc<dyn Classify>>,
        /// Wakes another of those that share the queue.
        fellow: Unparker,
    },
}

/// One worker's share of the device: a way in, and a way out.
pub(crate) struct Share {
    intake: Intake,
    /// What becomes readable when something arrives.
    fd: Option<OwnedFd>,
    /// What says when something is due that the device holds back; none where it never does.
    pub(crate) alarm: Option<Alarm>,
    /// Nothing will ever arrive again.
    gone: Arc<AtomicBool>,
    pub(crate) transmitter: Option<Box<dyn Transmitter>>,
}

impl Share {
    /// None: the worker lives on what others hand it.
    pub(crate) fn nothing() -> Share {
        Share {
            intake: Intake::Nothing,
            fd: None,
            alarm: None,
            gone: Arc::default(),
            transmitter: None,
        }
    }

    /// Takes memory for runs of so many messages.
    pub(crate) fn reserve(&mut self, messages: usize) {
        let filtered = match &mut self.intake {
            Intake::Filtered(filtered) => filtered,
            Intake::Leased(leased) => &mut leased.own,
            Intake::Nothing | Intake::Own(_) | Intake::Asked { .. } => return,
        };
        filtered.taker.unsorted = Run::with_capacity(messages);
    }

    /// The seats whose guest the worker is, if it can be one.
    pub(crate) fn guest_of(&mut self) -> Option<&mut Vec<usize>> {
        match &mut self.intake {
            Intake::Leased(leased) => Some(&mut leased.guest_of),
            _ => None,
        }
    }

    /// How many of the packets that it dealt with last it handed to others.
    pub(crate) fn handed(&self) -> usize {
        match &self.intake {
            Intake::Leased(leased) => leased.own.taker.handed,
            _ => 0,
        }
    }

    /// How many packets it has handed to others since it was last asked.
    pub(crate) fn take_uncounted(&mut self) -> u64 {
        match &mut self.intake {
            Intake::Filtered(filtered) => core::mem::take(&mut filtered.taker.uncounted),
            Intake::Leased(leased) => core::mem::take(&mut leased.own.taker.uncounted),
            Intake::Nothing | Intake::Own(_) | Intake::Asked { .. } => 0,
        }
    }

    /// Whether it is a share in a queue at all.
    pub(crate) fn is_something(&self) -> bool {
        !matches!(self.intake, Intake::Nothing)
    }

    /// Where buckets are leased.
    pub(crate) fn leased(&mut self) -> Option<&mut Leased> {
        match &mut self.intake {
            Intake::Leased(leased) => Some(leased),
            _ => None,
        }
    }

    /// Takes up to `max` packets; how many it dealt with. Where there were as many, a fellow is woken: there may be more.
    #[inline]
    pub(crate) fn receive(
        &mut self,
        pool: &mut Pool,
        into: &mut Run,
        max: usize,
        claims: &mut Claims<'_>,
    ) -> usize {
        let taken = match &mut self.intake {
            Intake::Nothing => return 0,
            Intake::Own(receiver) => receiver.receive(pool, into, max),
            Intake::Filtered(filtered) => filtered.receive(pool, into, max, claims),
            Intake::Leased(leased) => leased.receive(pool, into, max, claims),
            Intake::Asked {
                queue,
                filter,
                fellow,
            } => {
                let taken = queue.with(|receiver| match filter {
                    None => receiver.receive(pool, into, max),
                    Some(filter) => {
                        take_numbered(&mut **receiver, &**filter, pool, into, max, claims)
                    }
                });
                if taken == max && max > 0 {
                    fellow.unpark();
                }
                taken
            }
        };
        if taken == 0 {
            self.look_whether_gone();
        }
        taken
    }

    fn look_whether_gone(&self) {
        let gone = match &self.intake {
            Intake::Nothing => false,
            Intake::Own(receiver) => receiver.is_gone(),
            Intake::Filtered(filtered) => filtered.is_gone(),
            Intake::Leased(leased) => leased.own.is_gone(),
            Intake::Asked { queue, .. } => queue.with(|receiver| receiver.is_gone()),
        };
        if gone {
            self.gone.store(true, Ordering::Relaxed);
        }
    }

    /// Whether a packet waits, as far as can be told without a system call.
    pub(crate) fn has_waiting(&self) -> bool {
        match &self.intake {
            Intake::Nothing => false,
            Intake::Own(receiver) => receiver.has_waiting(),
            Intake::Filtered(filtered) => filtered.has_waiting(),
            Intake::Leased(leased) => leased.has_waiting(),
            Intake::Asked { queue, .. } => queue.with(|receiver| receiver.has_waiting()),
        }
    }

    /// What to sleep on; nothing once the queue is gone, whose fd stays ready for ever.
    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        let fd = self.fd.as_ref().filter(|_| !self.is_gone());
        fd.map(AsFd::as_fd)
    }

    /// Whether it has been found that nothing will ever arrive again.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// What says so to others.
    pub(crate) fn gone(&self) -> &Arc<AtomicBool> {
        &self.gone
    }
}

/// Takes packets, and draws the numbers of their runs while it is still this worker's turn.
fn take_numbered(
    receiver: &mut dyn Receiver,
    filter: &dyn Classify,
    pool: &mut Pool,
    into: &mut Run,
    max: usize,
    claims: &mut Claims<'_>,
) -> usize {
    let before = into.len();
    let taken = receiver.receive(pool, into, max);
    filter.classify(into);
    let mut last = None;
    for message in &into.as_slice()[before..] {
        let bucket = message.bucket();
        if last.replace(bucket) != Some(bucket) {
            claims.claim(bucket);
        }
    }
    taken
}

/// The device's queues, while they are being shared out.
pub(crate) struct Sources {
    sources: Vec<Source>,
    /// Per worker where packets that others found are left for it, if they take turns.
    inboxes: Vec<Option<mpsc::Consumer<Message>>>,
}

/// One queue of the device.
struct Source {
    receiver: Shareable,
    transmitter: Box<dyn Transmitter>,
    fd: Option<OwnedFd>,
    alarm: Option<Alarm>,
    gone: Arc<AtomicBool>,
}

enum Shareable {
    Alone(Option<Box<dyn Receiver>>),
    InTurns(Arc<Queue>, Sorting),
    Leased(Arc<Queue>, Sorting),
    Asked(Arc<Lock<Box<dyn Receiver>>>, Option<Arc<dyn Classify>>),
}

impl Sources {
    /// The queues, each with the processor that it wakes, to be shared in this manner by some of the workers, whom
    /// `workers` wake.
    pub(crate) fn new<'a>(
        queues: impl Iterator<Item = (QueuePair, &'a Unparker)>,
        manner: &Manner,
        workers: impl Iterator<Item = &'a Unparker>,
    ) -> Result<Sources, PlanError> {
        let (ways, inboxes) = match manner {
            Manner::InTurns(_) | Manner::Leased(_) => {
                let (ways, inboxes) = mailboxes(workers, MAILBOX);
                (ways, inboxes.into_iter().map(Some).collect())
            }
            Manner::Alone | Manner::Asked(..) => (Vec::new(), workers.map(|_| None).collect()),
        };
        let sources = queues
            .enumerate()
            .map(|(own, (pair, waker))| Source::new(pair, manner, &ways, (own, waker)))
            .collect::<Result<_, _>>()?;
        Ok(Sources { sources, inboxes })
    }

    /// The leased queues.
    fn leased(&self) -> Vec<Arc<Queue>> {
        let queues = self
            .sources
            .iter()
            .filter_map(|source| match &source.receiver {
                Shareable::Leased(queue, _) => Some(queue.clone()),
                _ => None,
            });
        queues.collect()
    }

    /// The share of worker `me` in a queue; `fellow` wakes another that shares it.
    pub(crate) fn share(
        &mut self,
        queue: usize,
        me: usize,
        fellow: &Unparker,
    ) -> Result<Share, PlanError> {
        let leased = self.leased();
        let workers = self.inboxes.len();
        let inbox = &mut self.inboxes[me];
        let source = &mut self.sources[queue];
        let mut filtered = |queue: &Arc<Queue>, sorting: &Sorting, fellow| {
            inbox.take().map(|inbox| Filtered {
                queue: queue.clone(),
                taker: Taker {
                    me,
                    filter: sorting.filter.clone(),
                    inbox,
                    handed: 0,
                    uncounted: 0,
                    unsorted: Run::new(),
                    fellow,
                },
            })
        };
        let intake = match &mut source.receiver {
            Shareable::Alone(receiver) => receiver.take().map(Intake::Own),
            Shareable::InTurns(queue, sorting) => {
                filtered(queue, sorting, Some(fellow.clone())).map(Intake::Filtered)
            }
            Shareable::Leased(queue, sorting) => {
                let is_sole = leased.len() == workers;
                let own = filtered(queue, sorting, (!is_sole).then(|| fellow.clone()));
                own.map(|own| Intake::Leased(Box::new(Leased::new(own, leased, workers))))
            }
            Shareable::Asked(queue, filter) => Some(Intake::Asked {
                queue: queue.clone(),
                filter: filter.clone(),
                fellow: fellow.clone(),
            }),
        };
        Ok(Share {
            intake: intake.unwrap_or(Intake::Nothing),
            fd: source.fd.as_ref().map(OwnedFd::try_clone).transpose()?,
            alarm: source.alarm.clone(),
            gone: source.gone.clone(),
            transmitter: Some(source.transmitter.another()?),
        })
    }
}

impl Source {
    fn new(
        pair: QueuePair,
        manner: &Manner,
        ways: &[Mailbox<Message>],
        (own, waker): (usize, &Unparker),
    ) -> Result<Source, PlanError> {
        let QueuePair {
            mut receiver,
            transmitter,
        } = pair;
        let fd = receiver
            .fd()
            .map(|fd| fd.try_clone_to_owned())
            .transpose()?;
        receiver.wake_with(waker.clone());
        let alarm = receiver.alarm();
        let receiver = match manner {
            Manner::Alone => Shareable::Alone(Some(receiver)),
            Manner::InTurns(sorting) => {
                let queue = Queue::new(receiver, ways.to_vec(), sorting, own);
                Shareable::InTurns(Arc::new(queue), sorting.clone())
            }
            Manner::Leased(sorting) => {
                let queue = Queue::new(receiver, ways.to_vec(), sorting, own);
                Shareable::Leased(Arc::new(queue), sorting.clone())
            }
            Manner::Asked(lock, filter) => Shareable::Asked(
                Arc::new(Lock::new(*lock, LockClass::Queue, receiver)),
                filter.clone(),
            ),
        };
        Ok(Source {
            receiver,
            transmitter,
            fd,
            alarm,
            gone: Arc::default(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_device::{Capabilities, Counters, Device, memory};
    use braidnet_sync::parker::Parker;
    use rustix::process::{Resource, getrlimit, setrlimit};

    /// A queue to sleep on.
    struct Readable(std::io::PipeReader);

    impl Receiver for Readable {
        fn receive(&mut self, _: &mut Pool, _: &mut Run, _: usize) -> usize {
            0
        }

        fn fd(&self) -> Option<BorrowedFd<'_>> {
            Some(self.0.as_fd())
        }

        fn counters(&self) -> Counters {
            Counters::default()
        }
    }

    #[test]
    fn a_worker_that_could_not_sleep_on_its_queue_is_not_made() {
        let waker = Parker::new().unparker();
        let (reader, _writer) = std::io::pipe().unwrap();
        let (end, _other) = memory::wire(Capabilities::ip(1500), 1);
        let mut pair = Box::new(end).open().unwrap().remove(0);
        pair.receiver = Box::new(Readable(reader));
        let sources = |pair: QueuePair, manner: Manner| {
            Sources::new([(pair, &waker)].into_iter(), &manner, [&waker].into_iter())
        };
        let again = QueuePair {
            receiver: Box::new(Readable(std::io::pipe().unwrap().0)),
            transmitter: pair.transmitter.another().unwrap(),
        };
        let mut shared = sources(again, Manner::Asked(LockKind::Adaptive, None)).unwrap();

        let limit = getrlimit(Resource::Nofile);
        let none = rustix::process::Rlimit {
            current: Some(0),
            ..limit
        };
        setrlimit(Resource::Nofile, none).unwrap();
        let refused = sources(pair, Manner::Alone).map(drop);
        let refused_share = shared.share(0, 0, &waker).map(drop);
        setrlimit(Resource::Nofile, limit).unwrap();

        for refused in [refused, refused_share] {
            assert!(matches!(refused, Err(PlanError::Descriptor(_))));
        }
        assert!(shared.share(0, 0, &waker).unwrap().fd().is_some());
    }
}
