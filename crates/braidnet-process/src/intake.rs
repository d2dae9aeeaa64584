//! How a worker comes by what the device received.

use braidnet_device::{DeviceError, QueuePair, Receiver, Transmitter};
use braidnet_message::{Pool, Run};
use braidnet_stream::Parcel;
use braidnet_sync::baton::Baton;
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use braidnet_sync::parker::Unparker;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// How the workers that take from one receive queue get along.
#[derive(Clone, Copy)]
pub(crate) enum Manner {
    /// There is only one.
    Alone,
    /// They take turns at polling it: whoever finds it held goes on with something else.
    InTurns,
    /// Each asks it, waiting for the lock: the driver of PLP §2.3, called from every processor.
    Asked(LockKind),
}

/// A receive queue whose packets are told apart by a packet filter, and what of them has not found its way yet.
///
/// Whoever has the baton polls, and hands the packets of others over before it gives the baton back: so every mailbox gets its
/// packets in the order of the queue. What a full mailbox does not take stays here, and nobody polls before it has.
pub(crate) struct Filtered {
    pub(crate) receiver: Box<dyn Receiver>,
    /// Per worker.
    pub(crate) left: Vec<Vec<Parcel>>,
}

/// A receive queue, or a share in one.
enum Intake {
    Nothing,
    Own(Box<dyn Receiver>),
    InTurns(Arc<Baton<Filtered>>),
    Asked(Arc<Lock<Box<dyn Receiver>>>),
}

/// One worker's share of the device: a way in, and a way out.
pub(crate) struct Share {
    intake: Intake,
    /// What becomes readable when something arrives.
    fd: Option<OwnedFd>,
    pub(crate) transmitter: Option<Box<dyn Transmitter>>,
    /// Wakes another of those that share the queue.
    fellow: Option<Unparker>,
}

impl Share {
    /// None: the worker lives on what others hand it.
    pub(crate) fn nothing() -> Share {
        Share {
            intake: Intake::Nothing,
            fd: None,
            transmitter: None,
            fellow: None,
        }
    }

    /// Whether nothing arrives here but from others.
    #[inline]
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self.intake, Intake::Nothing)
    }

    /// Takes up to `max` packets. Where there were as many, a fellow is woken: there may be more.
    #[inline]
    pub(crate) fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let taken = match &mut self.intake {
            Intake::Nothing => 0,
            Intake::Own(receiver) => return receiver.receive(pool, into, max),
            Intake::InTurns(shared) => match shared.try_take() {
                Some(mut filtered) => filtered.receiver.receive(pool, into, max),
                None => 0,
            },
            Intake::Asked(shared) => shared.with(|receiver| receiver.receive(pool, into, max)),
        };
        self.wake_fellow(taken == max && max > 0);
        taken
    }

    /// Lets `work` poll a filtered queue if nobody else does, and answers how many packets it says that it took.
    #[inline]
    pub(crate) fn take_turn(
        &mut self,
        max: usize,
        work: impl FnOnce(&mut Filtered) -> usize,
    ) -> usize {
        let Intake::InTurns(shared) = &self.intake else {
            return 0;
        };
        let Some(mut filtered) = shared.try_take() else {
            return 0;
        };
        let taken = work(&mut filtered);
        drop(filtered);
        self.wake_fellow(taken == max && max > 0);
        taken
    }

    #[inline]
    fn wake_fellow(&self, wake: bool) {
        if wake && let Some(fellow) = &self.fellow {
            fellow.unpark();
        }
    }

    /// Whether a packet waits, as far as can be told without a system call.
    pub(crate) fn has_waiting(&self) -> bool {
        match &self.intake {
            Intake::Nothing => false,
            Intake::Own(receiver) => receiver.has_waiting(),
            // Whoever holds it looks.
            Intake::InTurns(shared) => shared
                .try_take()
                .is_some_and(|filtered| filtered.receiver.has_waiting()),
            Intake::Asked(shared) => shared.with(|receiver| receiver.has_waiting()),
        }
    }

    /// Whether packets of others arrive in this share, to be told apart by the packet filter. A queue of one's own brings
    /// one's own packets; the few that it does not find their way as parcels.
    pub(crate) fn is_filtered(&self) -> bool {
        matches!(self.intake, Intake::InTurns(_))
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }
}

/// One queue of the device, while it is being shared out.
pub(crate) struct Source {
    receiver: Shareable,
    transmitter: Box<dyn Transmitter>,
    fd: Option<OwnedFd>,
}

enum Shareable {
    Alone(Option<Box<dyn Receiver>>),
    InTurns(Arc<Baton<Filtered>>),
    Asked(Arc<Lock<Box<dyn Receiver>>>),
}

impl Source {
    /// A queue that is shared in this manner by some of `workers` workers and wakes this processor.
    pub(crate) fn new(pair: QueuePair, manner: Manner, workers: usize, waker: &Unparker) -> Source {
        let QueuePair {
            mut receiver,
            transmitter,
        } = pair;
        let fd = receiver.fd().and_then(|fd| fd.try_clone_to_owned().ok());
        receiver.wake_with(waker.clone());
        let receiver = match manner {
            Manner::Alone => Shareable::Alone(Some(receiver)),
            Manner::InTurns => {
                let left = (0..workers).map(|_| Vec::with_capacity(64)).collect();
                Shareable::InTurns(Arc::new(Baton::new(Filtered { receiver, left })))
            }
            Manner::Asked(lock) => {
                Shareable::Asked(Arc::new(Lock::new(lock, LockClass::Queue, receiver)))
            }
        };
        Source {
            receiver,
            transmitter,
            fd,
        }
    }

    /// One worker's share; `fellow` wakes another that shares the queue.
    pub(crate) fn share(&mut self, fellow: &Unparker) -> Result<Share, DeviceError> {
        let (intake, fellow) = match &mut self.receiver {
            Shareable::Alone(receiver) => {
                (receiver.take().map_or(Intake::Nothing, Intake::Own), None)
            }
            Shareable::InTurns(shared) => (Intake::InTurns(shared.clone()), Some(fellow.clone())),
            Shareable::Asked(shared) => (Intake::Asked(shared.clone()), Some(fellow.clone())),
        };
        let fd = self.fd.as_ref().and_then(|fd| fd.try_clone().ok());
        let transmitter = Some(self.transmitter.another()?);
        Ok(Share {
            intake,
            fd,
            transmitter,
            fellow,
        })
    }
}
