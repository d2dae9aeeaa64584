//! A device with several receive queues, made of one that has one: packets are dealt by their ports, as a network card
//! deals them by its own hash, so that a connection keeps to a queue, which need not be that of its bucket's processor.

use braidnet_device::{
    Capabilities, Counters, Device, DeviceError, QueuePair, Receiver, Transmitter,
};
use braidnet_message::{Message, Pool, Run};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};

/// `device` with so many queues.
pub struct Dealt<D> {
    pub device: D,
    pub queues: usize,
}

struct Shared {
    receiver: Box<dyn Receiver>,
    arrived: Run,
    waiting: Vec<VecDeque<Message>>,
}

struct Queue {
    shared: Arc<Mutex<Shared>>,
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
        let shared = Arc::new(Mutex::new(Shared {
            receiver: pair.receiver,
            arrived: Run::new(),
            waiting: (0..queues).map(|_| VecDeque::new()).collect(),
        }));
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
        let mut shared = self.shared.lock().expect("no test thread panicked");
        let Shared {
            receiver,
            arrived,
            waiting,
        } = &mut *shared;
        receiver.receive(pool, arrived, max);
        for packet in arrived.drain() {
            let queue = queue_of(&packet, waiting.len());
            waiting[queue].push_back(packet);
        }
        let taken = waiting[self.index].len().min(max);
        into.extend(waiting[self.index].drain(..taken));
        taken
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn has_waiting(&self) -> bool {
        let shared = self.shared.lock().expect("no test thread panicked");
        !shared.waiting[self.index].is_empty() || shared.receiver.has_waiting()
    }

    fn counters(&self) -> Counters {
        let shared = self.shared.lock().expect("no test thread panicked");
        shared.receiver.counters()
    }
}
