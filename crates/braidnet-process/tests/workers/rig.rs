//! A device that does as it is told, a stream of one module that notes what it gets, and workers that the test turns.

use braidnet_device::{Counters, DeviceError, QueuePair, Receiver, Transmitter};
use braidnet_message::{Arena, Pool, Run};
use braidnet_process::{Architecture, Classify, NoApplication, Plan, PlanError, Sharing, Worker};
use braidnet_stream::{
    Arrival, Context, Direction, Exclusion, Module, ModuleId, Stages, State, Stream,
};
use braidnet_sync::lock::LockKind;
use braidnet_sync::parker::{Parker, Unparker};
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

pub const BATCH: usize = 8;

/// Something to do.
pub type Act = Box<dyn FnMut() + Send>;

/// What the test has in hand of the device.
#[derive(Clone, Default)]
pub struct Device {
    /// Packets that wait: bucket and number.
    pub packets: Arc<Mutex<VecDeque<(u16, u32)>>>,
    /// It takes no packet.
    pub full: Arc<AtomicBool>,
    pub gone: Arc<AtomicBool>,
    /// What happens while it is polled.
    pub meanwhile: Arc<Mutex<Option<Act>>>,
    /// What happens once, when somebody has looked whether something waits.
    pub looked: Arc<Mutex<Option<Act>>>,
}

struct Queue {
    device: Device,
    fd: Option<std::io::PipeReader>,
}

impl Receiver for Queue {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let mut packets = self.device.packets.lock().unwrap();
        let taken = packets.len().min(max);
        for (bucket, number) in packets.drain(..taken) {
            let bytes = [bucket.to_be_bytes().as_slice(), &number.to_be_bytes()].concat();
            into.push(pool.copy_from_slice(0, &bytes).unwrap());
        }
        if let Some(meanwhile) = &mut *self.device.meanwhile.lock().unwrap() {
            meanwhile();
        }
        taken
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.fd.as_ref().map(AsFd::as_fd)
    }

    fn has_waiting(&self) -> bool {
        let waits = !self.device.packets.lock().unwrap().is_empty();
        let looked = self.device.looked.lock().unwrap().take();
        if let Some(mut looked) = looked {
            looked();
        }
        waits
    }

    fn is_gone(&self) -> bool {
        self.device.gone.load(Ordering::Relaxed)
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

struct WayOut(Device);

impl Transmitter for WayOut {
    fn transmit(&mut self, run: &mut Run) {
        if !self.0.full.load(Ordering::Relaxed) {
            run.clear();
        }
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        Ok(Box::new(WayOut(self.0.clone())))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn counters(&self) -> Counters {
        Counters::default()
    }
}

impl Device {
    /// One queue; `fd` is what to sleep on.
    pub fn queue(&self, fd: Option<std::io::PipeReader>) -> QueuePair {
        QueuePair {
            receiver: Box::new(Queue {
                device: self.clone(),
                fd,
            }),
            transmitter: Box::new(WayOut(self.clone())),
        }
    }

    pub fn bring(&self, packets: impl IntoIterator<Item = (u16, u32)>) {
        self.packets.lock().unwrap().extend(packets);
    }
}

/// The packet filter: packets begin with their bucket.
struct ByFirstBytes;

impl Classify for ByFirstBytes {
    fn classify(&self, run: &mut Run) {
        for message in run.iter_mut() {
            let bytes = message.bytes();
            let bucket = u16::from_be_bytes([bytes[0], bytes[1]]);
            message.set_bucket(bucket);
        }
    }
}

/// Notes what it gets, in order; what comes up it sends back.
struct Notes(Arc<Mutex<Vec<(u16, u32)>>>);

impl Module for Notes {
    fn name(&self) -> &'static str {
        "notes"
    }

    fn stages(&self) -> Stages {
        Stages::BEFORE_UP | Stages::CORE_UP | Stages::CORE_DOWN
    }

    fn key(&self) -> braidnet_stream::Key {
        braidnet_stream::Key::Connection
    }

    fn before(&self, _: Direction, run: &mut Run, _: &mut Context<'_>) {
        ByFirstBytes.classify(run);
    }

    fn core(&self, _: &mut dyn State, direction: Direction, run: &mut Run, cx: &mut Context<'_>) {
        for message in run.iter() {
            let number = message.bytes()[2..6].try_into().unwrap();
            let noted = (message.bucket(), u32::from_be_bytes(number));
            self.0.lock().unwrap().push(noted);
        }
        if direction == Direction::Up {
            run.drain().for_each(|message| cx.reply(message));
        }
    }
}

pub struct Rig {
    pub workers: Vec<Vec<Worker>>,
    pub stream: Arc<Stream>,
    pub arena: Arc<Arena>,
    pub module: ModuleId,
    pub noted: Arc<Mutex<Vec<(u16, u32)>>>,
}

/// Workers on these queues, two buckets (1 and 2) besides the device's.
pub fn workers(
    architecture: Architecture,
    processors: usize,
    queues: Vec<QueuePair>,
) -> Result<Rig, PlanError> {
    workers_over(architecture, processors, queues, 3, Sharing::default())
}

/// Workers on these queues over so many buckets, which share their work so soon under `braid`.
pub fn workers_over(
    architecture: Architecture,
    processors: usize,
    queues: Vec<QueuePair>,
    buckets: u32,
    sharing: Sharing,
) -> Result<Rig, PlanError> {
    let noted = Arc::new(Mutex::new(Vec::new()));
    let mut builder = Stream::builder();
    let module = builder.push(Notes(noted.clone()));
    let stream = builder.build().expect("one module");
    let arena = Arena::new(64 << 20);
    let plan = Plan {
        stream: stream.clone(),
        split: None,
        buckets,
        arena: arena.clone(),
        queues,
        classify: Arc::new(ByFirstBytes),
        exclusion: Exclusion::Lock(LockKind::Adaptive),
        extent: Default::default(),
        arrival: Arrival::AsItComes,
        sharing,
        batch: BATCH,
        water_marks: (1 << 10, 2 << 10),
    };
    let wakers: Vec<Unparker> = (0..processors).map(|_| Parker::new().unparker()).collect();
    let workers = plan.workers(architecture, &wakers, &mut |_| Box::new(NoApplication))?;
    Ok(Rig {
        workers,
        stream,
        arena,
        module,
        noted,
    })
}
