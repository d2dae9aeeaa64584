//! A device with several receive queues, made of one that has one: packets are dealt by their ports, as a network card
//! deals them by its own hash, so that a connection keeps to a queue, which need not be that of its bucket's processor.

use braidnet_device::{
    Capabilities, Counters, Device, DeviceError, QueuePair, Receiver, Transmitter,
};
use braidnet_message::{Message, Pool, Run};
use braidnet_sync::lock::{Lock, LockClass, LockKind};
use braidnet_sync::parker::Unparker;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// `device` with so many queues.
pub struct Dealt<D> {
    pub device: D,
    pub queues: usize,
}

struct Shared {
    receiver: Box<dyn Receiver>,
    arrived: Run,
    waiting: Vec<VecDeque<Message>>,
    wakers: Vec<Option<Unparker>>,
}

struct Queue {
    shared: Arc<Lock<Shared>>,
    index: usize,
}

impl<D: Device> Device for Dealt<D> {
    fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let Dealt { device, queues } = *self;
        let mut pairs = Box::new(device).open()?;
        if queues <= 1 {
            return Ok(pairs);
        }
        let pair = pairs.pop().expect("a wire has a queue");
        let mut ways_out: Vec<Box<dyn Transmitter>> = (1..queues)
            .map(|_| pair.transmitter.another())
            .collect::<Result<_, _>>()?;
        ways_out.push(pair.transmitter);
        let shared = Shared {
            receiver: pair.receiver,
            arrived: Run::new(),
            waiting: (0..queues).map(|_| VecDeque::new()).collect(),
            wakers: vec![None; queues],
        };
        // Behind the lock of a queue, where that has one.
        let shared = Arc::new(Lock::new(LockKind::default(), LockClass::Queue, shared).ranked(1));
        let pair = |(index, transmitter)| QueuePair {
            receiver: Box::new(Queue {
                shared: shared.clone(),
                index,
            }),
            transmitter,
        };
        Ok(ways_out.into_iter().enumerate().map(pair).collect())
    }
}

/// Which of so many queues a packet is dealt to: by the sum of its ports (IPv4 without options).
fn queue_of(packet: &Message, queues: usize) -> usize {
    let ports = packet.bytes().get(20..24).unwrap_or_default();
    let words = ports
        .chunks(2)
        .map(|port| usize::from(port[0]) * 256 + usize::from(port[1]));
    words.sum::<usize>() % queues
}

impl Receiver for Queue {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        self.shared.with(|shared| {
            let Shared {
                receiver,
                arrived,
                waiting,
                wakers,
            } = shared;
            receiver.receive(pool, arrived, max);
            for packet in arrived.drain() {
                let queue = queue_of(&packet, waiting.len());
                waiting[queue].push_back(packet);
                if let Some(waker) = wakers[queue].as_ref().filter(|_| queue != self.index) {
                    waker.unpark();
                }
            }
            let taken = waiting[self.index].len().min(max);
            into.extend(waiting[self.index].drain(..taken));
            taken
        })
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Packets wake whoever has the first queue, and whoever deals them the others.
    fn wake_with(&mut self, waker: Unparker) -> bool {
        self.shared.with(|shared| {
            let is_first = self.index == 0;
            let wakes = !is_first || shared.receiver.wake_with(waker.clone());
            shared.wakers[self.index] = Some(waker);
            wakes
        })
    }

    fn has_waiting(&self) -> bool {
        self.shared
            .with(|shared| !shared.waiting[self.index].is_empty() || shared.receiver.has_waiting())
    }

    fn counters(&self) -> Counters {
        self.shared.with(|shared| shared.receiver.counters())
    }
}
