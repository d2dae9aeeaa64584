//! A tap on the far end's device: it writes down every packet in the order in which the wire carried it, and holds packets
//! back where the test asks for it.

use braidnet_device::{
    Capabilities, Counters, Device, DeviceError, QueuePair, Receiver, Transmitter,
};
use braidnet_message::{Message, Pool, Run};
use braidnet_sync::parker::Unparker;
use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

/// Which way a packet went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    ToFarEnd,
    FromFarEnd,
}

/// Every packet that passed, in order.
pub type Trace = Arc<Mutex<Packets>>;

/// Packets in the order in which they passed.
pub type Packets = Vec<(Way, Vec<u8>)>;

/// How many more packets one end may take; without bound unless the test says so.
#[derive(Clone)]
pub struct Gate(Arc<AtomicUsize>);

impl Gate {
    pub fn open() -> Gate {
        Gate(Arc::new(AtomicUsize::new(usize::MAX)))
    }

    pub fn shut() -> Gate {
        Gate(Arc::new(AtomicUsize::new(0)))
    }

    pub fn let_one_in(&self) {
        self.0.store(1, SeqCst);
    }
}

/// Packets that one end has taken from and given to the wire.
#[derive(Clone, Default)]
pub struct Moved {
    taken: Arc<AtomicUsize>,
    given: Arc<AtomicUsize>,
}

impl Moved {
    pub fn taken(&self) -> usize {
        self.taken.load(SeqCst)
    }

    pub fn given(&self) -> usize {
        self.given.load(SeqCst)
    }
}

/// Gives packets of the test's own to the wire, beside what the device's owner sends.
#[derive(Clone, Default)]
pub struct Injector(Arc<Mutex<Option<Box<dyn Transmitter>>>>);

impl Injector {
    pub fn inject(&self, pool: &mut Pool, packet: &[u8]) {
        let mut run = Run::new();
        run.extend(pool.copy_from_slice(0, packet));
        let mut transmitter = self.0.lock().expect("no test thread panicked");
        transmitter
            .as_mut()
            .expect("the device is open")
            .transmit(&mut run);
    }
}

/// A device with a gate in front of what it receives, and, at the far end, a tap.
pub struct Tapped<D> {
    pub device: D,
    pub gate: Gate,
    pub moved: Moved,
    pub trace: Option<Trace>,
    pub injector: Injector,
    /// Whom packets wake, if whoever opens the device has nobody in mind.
    pub wakes: Option<Unparker>,
}

impl<D: Device> Device for Tapped<D> {
    fn capabilities(&self) -> &Capabilities {
        self.device.capabilities()
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let Tapped {
            device,
            gate,
            moved,
            trace,
            injector,
            wakes,
        } = *self;
        let mut tapped = Vec::new();
        for QueuePair {
            mut receiver,
            transmitter,
        } in Box::new(device).open()?
        {
            if let Some(wakes) = &wakes {
                receiver.wake_with(wakes.clone());
            }
            let receiver = In {
                receiver,
                gate: gate.clone(),
                moved: moved.clone(),
                trace: trace.clone(),
            };
            let transmitter = Out {
                transmitter,
                moved: moved.clone(),
                trace: trace.clone(),
            };
            if trace.is_some() {
                *injector.0.lock().expect("no test thread panicked") = Some(transmitter.another()?);
            }
            tapped.push(QueuePair {
                receiver: Box::new(receiver),
                transmitter: Box::new(transmitter),
            });
        }
        Ok(tapped)
    }
}

struct In {
    receiver: Box<dyn Receiver>,
    gate: Gate,
    moved: Moved,
    trace: Option<Trace>,
}

impl Receiver for In {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let allowed = self.gate.0.load(SeqCst);
        let before = into.len();
        let taken = self.receiver.receive(pool, into, max.min(allowed));
        if allowed != usize::MAX {
            self.gate.0.store(allowed - taken, SeqCst);
        }
        self.moved.taken.fetch_add(taken, SeqCst);
        note(
            self.trace.as_ref(),
            Way::ToFarEnd,
            &into.as_slice()[before..],
        );
        taken
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.receiver.fd()
    }

    fn has_waiting(&self) -> bool {
        self.gate.0.load(SeqCst) > 0 && self.receiver.has_waiting()
    }

    fn wake_with(&mut self, unparker: Unparker) -> bool {
        self.receiver.wake_with(unparker)
    }

    fn is_gone(&self) -> bool {
        self.receiver.is_gone()
    }

    fn counters(&self) -> Counters {
        self.receiver.counters()
    }
}

struct Out {
    transmitter: Box<dyn Transmitter>,
    moved: Moved,
    trace: Option<Trace>,
}

impl Transmitter for Out {
    fn transmit(&mut self, run: &mut Run) {
        self.moved.given.fetch_add(run.len(), SeqCst);
        note(self.trace.as_ref(), Way::FromFarEnd, run.as_slice());
        self.transmitter.transmit(run);
        assert!(
            run.is_empty(),
            "the wire is long enough for all that is under way"
        );
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        let transmitter = self.transmitter.another()?;
        Ok(Box::new(Out {
            transmitter,
            moved: self.moved.clone(),
            trace: self.trace.clone(),
        }))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.transmitter.fd()
    }

    fn counters(&self) -> Counters {
        self.transmitter.counters()
    }
}

fn note(trace: Option<&Trace>, way: Way, packets: &[Message]) {
    let Some(trace) = trace else { return };
    let mut trace = trace.lock().expect("no test thread panicked");
    for packet in packets {
        let mut bytes = vec![0; packet.total_len()];
        packet.copy_to_slice(&mut bytes);
        trace.push((way, bytes));
    }
}
