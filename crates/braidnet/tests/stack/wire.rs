//! A wire that loses, doubles and delays.

use braidnet::device::{
    Capabilities, Counters, Device, DeviceError, QueuePair, RECEIVE_HEADROOM, Receiver, memory,
};
use braidnet::message::{Message, Pool, Run};
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

/// What a wire does to the packets of one direction, each of so many in a thousand.
#[derive(Clone, Copy, Default)]
pub struct Impairment {
    pub seed: u64,
    pub dropped: u64,
    pub doubled: u64,
    pub delayed: u64,
}

/// A device that does it.
pub struct Impaired {
    pub inner: memory::WireEnd,
    pub impairment: Impairment,
}

impl Device for Impaired {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let seed = self.impairment.seed | 1;
        let impairment = Impairment {
            seed,
            ..self.impairment
        };
        let pairs = Box::new(self.inner.copying()).open()?;
        let impaired = |pair: QueuePair| QueuePair {
            receiver: Box::new(ImpairedReceiver {
                inner: pair.receiver,
                impairment,
                arrived: Run::new(),
                late: VecDeque::new(),
            }),
            transmitter: pair.transmitter,
        };
        Ok(pairs.into_iter().map(impaired).collect())
    }
}

struct ImpairedReceiver {
    inner: Box<dyn Receiver>,
    impairment: Impairment,
    arrived: Run,
    late: VecDeque<Message>,
}

impl ImpairedReceiver {
    /// Whether something that happens to so many in a thousand happens now (xorshift64).
    fn happens(&mut self, of_thousand: u64) -> bool {
        if of_thousand == 0 {
            return false;
        }
        let state = &mut self.impairment.seed;
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        (*state >> 20) % 1000 < of_thousand
    }
}

impl Receiver for ImpairedReceiver {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let before = into.len();
        let late = self.late.len();
        self.inner.receive(pool, &mut self.arrived, max);
        for message in std::mem::take(&mut self.arrived).drain() {
            if self.happens(self.impairment.dropped) {
                continue;
            }
            if self.happens(self.impairment.doubled) {
                into.extend(pool.copy_from_slice(RECEIVE_HEADROOM, message.bytes()));
            }
            if self.happens(self.impairment.delayed) {
                self.late.push_back(message);
            } else {
                into.push(message);
            }
        }
        // What was late before comes behind what has come since.
        into.extend(self.late.drain(..late));
        into.len() - before
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}
