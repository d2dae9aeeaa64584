//! How a worker comes by what the device received.

use braidnet_device::{DeviceError, QueuePair, Receiver, Transmitter};
use braidnet_message::{Pool, Run};
use braidnet_sync::baton::Baton;
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// A worker's share in a device's receive queues.
pub(crate) enum Intake {
    /// None: it lives on what others hand it.
    Nothing,
    /// A queue of its own.
    Own(Box<dyn Receiver>),
    /// A queue that several take turns at polling: whoever finds it held goes on with something else.
    InTurns(Arc<Baton<Box<dyn Receiver>>>),
    /// A queue that several ask, each waiting for the lock: the driver of PLP §2.3, called from every processor.
    Asked(Arc<Lock<Box<dyn Receiver>>>),
}

impl Intake {
    /// Takes up to `max` packets.
    #[inline]
    pub(crate) fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        match self {
            Intake::Nothing => 0,
            Intake::Own(receiver) => receiver.receive(pool, into, max),
            Intake::InTurns(shared) => match shared.try_take() {
                Some(mut receiver) => receiver.receive(pool, into, max),
                None => 0,
            },
            Intake::Asked(shared) => shared.with(|receiver| receiver.receive(pool, into, max)),
        }
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
    InTurns(Arc<Baton<Box<dyn Receiver>>>),
    Asked(Arc<Lock<Box<dyn Receiver>>>),
}

impl Source {
    /// A queue for one worker.
    pub(crate) fn alone(pair: QueuePair) -> Source {
        Source::new(pair, |receiver| Shareable::Alone(Some(receiver)))
    }

    /// A queue that its workers take turns at.
    pub(crate) fn in_turns(pair: QueuePair) -> Source {
        Source::new(pair, |receiver| {
            Shareable::InTurns(Arc::new(Baton::new(receiver)))
        })
    }

    /// A queue that its workers ask, one after the other, in no particular order.
    pub(crate) fn asked(pair: QueuePair, lock: LockKind) -> Source {
        Source::new(pair, |receiver| {
            Shareable::Asked(Arc::new(Lock::new(lock, LockClass::Queue, receiver)))
        })
    }

    fn new(pair: QueuePair, shareable: impl FnOnce(Box<dyn Receiver>) -> Shareable) -> Source {
        let fd = pair
            .receiver
            .fd()
            .and_then(|fd| fd.try_clone_to_owned().ok());
        Source {
            receiver: shareable(pair.receiver),
            transmitter: pair.transmitter,
            fd,
        }
    }

    /// One worker's share: a way in, a descriptor to sleep on, a way out.
    pub(crate) fn share(
        &mut self,
    ) -> Result<(Intake, Option<OwnedFd>, Box<dyn Transmitter>), DeviceError> {
        let intake = match &mut self.receiver {
            Shareable::Alone(receiver) => receiver.take().map_or(Intake::Nothing, Intake::Own),
            Shareable::InTurns(shared) => Intake::InTurns(shared.clone()),
            Shareable::Asked(shared) => Intake::Asked(shared.clone()),
        };
        let fd = self.fd.as_ref().and_then(|fd| fd.try_clone().ok());
        Ok((intake, fd, self.transmitter.another()?))
    }
}
