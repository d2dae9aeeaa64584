//! Counting what passes through a device, for others to read.
//!
//! A device's ends count for themselves, each on its processor. [`Meter::around`] wraps a device so that what they have
//! counted is published after each run, with plain stores, where anybody may read it at any time.

use braidnet::device::{
    Alarm, Capabilities, Counters, Device, DeviceError, DropReason, QueuePair, Receiver,
    Transmitter,
};
use braidnet::message::{Pool, Run};
use braidnet::sync::parker::Unparker;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What passes through the devices that it was put around.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    received: Mutex<Vec<Arc<Board>>>,
    sent: Mutex<Vec<Arc<Board>>>,
}

/// What one end has published.
#[derive(Debug, Default)]
struct Board {
    packets: AtomicU64,
    bytes: AtomicU64,
    dropped: [AtomicU64; DropReason::ALL.len()],
}

/// What has passed in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Bytes, link headers included.
    pub bytes: u64,
    dropped: [u64; DropReason::ALL.len()],
}

impl Traffic {
    /// The reasons for which the device has dropped packets, with their counts.
    pub fn drops(&self) -> impl Iterator<Item = (DropReason, u64)> + '_ {
        DropReason::ALL
            .into_iter()
            .zip(self.dropped)
            .filter(|(_, count)| *count > 0)
    }
}

impl Meter {
    /// Around nothing yet.
    pub fn new() -> Meter {
        Meter::default()
    }

    /// Wraps a device.
    pub fn around<D: Device>(&self, device: D) -> Metered<D> {
        Metered {
            inner: device,
            meter: self.clone(),
        }
    }

    /// What has been received so far.
    pub fn received(&self) -> Traffic {
        sum(&self.shared.received)
    }

    /// What has been received so far by each queue, in the order of the device's.
    pub fn received_by_queue(&self) -> Vec<Traffic> {
        let boards = self.shared.received.lock();
        let boards = boards.unwrap_or_else(PoisonError::into_inner);
        boards.iter().map(|board| board.read()).collect()
    }

    /// What has been sent so far.
    pub fn sent(&self) -> Traffic {
        sum(&self.shared.sent)
    }

    fn receiver(&self, inner: Box<dyn Receiver>) -> MeteredReceiver {
        MeteredReceiver {
            inner,
            board: board(&self.shared.received),
        }
    }

    fn transmitter(&self, inner: Box<dyn Transmitter>) -> MeteredTransmitter {
        MeteredTransmitter {
            inner,
            board: board(&self.shared.sent),
            meter: self.clone(),
        }
    }
}

/// A new end's board among those of its direction.
fn board(of: &Mutex<Vec<Arc<Board>>>) -> Arc<Board> {
    let board = Arc::new(Board::default());
    of.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(board.clone());
    board
}

fn sum(boards: &Mutex<Vec<Arc<Board>>>) -> Traffic {
    let mut total = Traffic::default();
    for board in boards.lock().unwrap_or_else(PoisonError::into_inner).iter() {
        let Traffic {
            packets,
            bytes,
            dropped,
        } = board.read();
        total.packets += packets;
        total.bytes += bytes;
        for (sum, count) in total.dropped.iter_mut().zip(dropped) {
            *sum += count;
        }
    }
    total
}

impl Board {
    fn read(&self) -> Traffic {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        Traffic {
            packets: load(&self.packets),
            bytes: load(&self.bytes),
            dropped: self.dropped.each_ref().map(load),
        }
    }

    /// Only the end that owns the board writes.
    fn publish(&self, counters: &Counters) {
        self.packets.store(counters.packets, Ordering::Relaxed);
        self.bytes.store(counters.bytes, Ordering::Relaxed);
        for (board, reason) in self.dropped.iter().zip(DropReason::ALL) {
            board.store(counters.dropped(reason), Ordering::Relaxed);
        }
    }
}

/// A device whose traffic is published.
pub struct Metered<D> {
    inner: D,
    meter: Meter,
}

impl<D: Device> Device for Metered<D> {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn devices(&self) -> Vec<Capabilities> {
        self.inner.devices()
    }

    fn decline_offloads(&mut self) {
        self.inner.decline_offloads();
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let Metered { inner, meter } = *self;
        let queues = Box::new(inner).open()?;
        Ok(queues
            .into_iter()
            .map(
                |QueuePair {
                     receiver,
                     transmitter,
                 }| QueuePair {
                    receiver: Box::new(meter.receiver(receiver)),
                    transmitter: Box::new(meter.transmitter(transmitter)),
                },
            )
            .collect())
    }
}

struct MeteredReceiver {
    inner: Box<dyn Receiver>,
    board: Arc<Board>,
}

impl Receiver for MeteredReceiver {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let count = self.inner.receive(pool, into, max);
        // Also where all was dropped, or the end has come.
        self.board.publish(&self.inner.counters());
        count
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn has_waiting(&self) -> bool {
        self.inner.has_waiting()
    }

    fn wake_with(&mut self, unparker: Unparker) -> bool {
        self.inner.wake_with(unparker)
    }

    fn alarm(&self) -> Option<Alarm> {
        self.inner.alarm()
    }

    fn is_gone(&self) -> bool {
        self.inner.is_gone()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

struct MeteredTransmitter {
    inner: Box<dyn Transmitter>,
    board: Arc<Board>,
    meter: Meter,
}

impl Transmitter for MeteredTransmitter {
    fn transmit(&mut self, run: &mut Run) {
        self.inner.transmit(run);
        self.board.publish(&self.inner.counters());
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        Ok(Box::new(self.meter.transmitter(self.inner.another()?)))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet::device::memory;
    use braidnet::message::Arena;

    #[test]
    fn what_passes_and_what_is_dropped_is_published() {
        let meter = Meter::new();
        let (near, mut far) = {
            let (near, far) = memory::wire(Capabilities::ip(100), 16);
            (
                Box::new(meter.around(near)).open().unwrap(),
                Box::new(far).open().unwrap(),
            )
        };
        let [
            QueuePair {
                mut receiver,
                mut transmitter,
            },
        ] = <[_; 1]>::try_from(near).ok().unwrap();
        let mut another = transmitter.another().unwrap();
        let mut pool = Pool::new(&Arena::new(1 << 20));
        let mut send = |to: &mut dyn Transmitter, len: usize| {
            let mut run: Run = [pool.copy_from_slice(0, &vec![1; len]).unwrap()]
                .into_iter()
                .collect();
            to.transmit(&mut run);
        };
        send(&mut *transmitter, 60);
        send(&mut *another, 40);
        send(&mut *transmitter, 101);
        let sent = meter.sent();
        assert_eq!((sent.packets, sent.bytes), (2, 100));
        assert_eq!(
            sent.drops().collect::<Vec<_>>(),
            [(DropReason::TransmitOversize, 1)]
        );
        send(&mut *far[0].transmitter, 30);
        let mut run = Run::new();
        assert_eq!(receiver.receive(&mut pool, &mut run, 8), 1);
        assert_eq!((meter.received().packets, meter.received().bytes), (1, 30));
    }
}
