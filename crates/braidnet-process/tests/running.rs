//! Threads that turn processors.

use braidnet_process::{Agents, Idle, Running, RunningConfig, Suspended};
use braidnet_stream::{Next, Processor};
use braidnet_sync::parker::{MOST_DEVICES, Unparker};
use braidnet_wire::time::{Duration, Instant};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{PipeReader, Write};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::thread::{self, ThreadId};

/// Has nothing to do, and tells when it is to rest.
struct Idler {
    rests: mpsc::Sender<()>,
}

impl Processor for Idler {
    fn turn(&mut self, _now: Instant, _budget: usize) -> Next {
        Next::Idle
    }

    fn rest(&mut self) {
        self.rests.send(()).unwrap();
    }
}

#[test]
fn a_processor_rests_before_its_thread_sleeps() {
    let (rests, rested) = mpsc::channel();
    let threads = Suspended::spawn(&RunningConfig::default(), 1).unwrap();
    let running = threads.start(vec![vec![Box::new(Idler { rests })]]);
    rested
        .recv_timeout(Duration::from_secs(60))
        .expect("it is told, by way of all that wraps it");
    assert_eq!(running.stop().unwrap().len(), 1);
}

/// Notes who begins, and fails if turned before, or by another.
struct Beginner {
    begins: mpsc::Sender<()>,
    on: Option<ThreadId>,
}

impl Processor for Beginner {
    fn begin(&mut self) {
        assert_eq!(self.on.replace(thread::current().id()), None, "once");
        self.begins.send(()).unwrap();
    }

    fn turn(&mut self, _now: Instant, _budget: usize) -> Next {
        assert_eq!(self.on, Some(thread::current().id()), "begun, and here");
        Next::Idle
    }
}

#[test]
fn a_processor_begins_on_the_thread_that_turns_it() {
    let (begins, begun) = mpsc::channel();
    let beginner = || Beginner {
        begins: begins.clone(),
        on: None,
    };
    let threads = Suspended::spawn(&RunningConfig::default(), 2).unwrap();
    let running = threads.start(vec![vec![Box::new(beginner())], vec![Box::new(beginner())]]);
    for _ in 0..2 {
        begun
            .recv_timeout(Duration::from_secs(60))
            .expect("it is told, by way of all that wraps it");
    }
    assert_eq!(running.stop().unwrap().len(), 2);
}

/// Hands a token on to the next, which is woken for it, until it has gone round often enough.
struct Runner {
    me: usize,
    /// Who has the token, and how often it has been handed on.
    token: Arc<[AtomicU64; 2]>,
    wakers: Arc<OnceLock<Vec<Unparker>>>,
    turns: u64,
}

const HANDED_ON: u64 = 20_000;

impl Processor for Runner {
    fn turn(&mut self, _now: Instant, _budget: usize) -> Next {
        self.turns += 1;
        if self.has_work() {
            let wakers = self.wakers.get().expect("they were told before the start");
            let next = (self.me + 1) % wakers.len();
            self.token[1].fetch_add(1, Ordering::Relaxed);
            self.token[0].store(next as u64, Ordering::Release);
            wakers[next].unpark();
        }
        Next::Idle
    }

    fn has_work(&self) -> bool {
        self.token[0].load(Ordering::Acquire) == self.me as u64
            && self.token[1].load(Ordering::Relaxed) < HANDED_ON
    }
}

fn tasks(threads: usize, idle: Idle) -> RunningConfig {
    RunningConfig {
        agents: Agents::Tasks {
            threads: NonZeroUsize::new(threads).unwrap(),
        },
        idle,
        ..RunningConfig::default()
    }
}

fn runners(config: &RunningConfig, count: usize) -> (Running<Runner>, Arc<[AtomicU64; 2]>) {
    let threads = Suspended::spawn(config, count).unwrap();
    assert_eq!(threads.wakers().len(), count);
    let token = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
    let wakers = Arc::new(OnceLock::from(threads.wakers().to_vec()));
    let runner = |me| Runner {
        me,
        token: token.clone(),
        wakers: wakers.clone(),
        turns: 0,
    };
    (threads.start((0..count).map(runner).collect()), token)
}

/// However many agents there are, of whatever kind, and however they wait: no wake-up is lost between them, also while all are
/// suspended now and then.
#[test]
fn agents_of_every_kind_hand_on() {
    let configs = [1, 2, 3].into_iter().flat_map(|threads| {
        [Idle::SLEEP, Idle::default(), Idle::SPIN].map(|idle| tasks(threads, idle))
    });
    let threads = RunningConfig {
        idle: Idle::SLEEP,
        ..RunningConfig::default()
    };
    for config in configs.chain([threads]) {
        for count in [1, 5] {
            let (running, token) = runners(&config, count);
            while token[1].load(Ordering::Relaxed) < HANDED_ON {
                running.suspend();
                let handed_on = token[1].load(Ordering::Relaxed);
                std::thread::yield_now();
                assert_eq!(token[1].load(Ordering::Relaxed), handed_on, "{config:?}");
                assert!(running.resume());
                std::thread::yield_now();
            }
            let runners = running.stop().unwrap();
            let numbers: Vec<usize> = runners.iter().map(|runner| runner.me).collect();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>(), "{config:?}");
            let turns: u64 = runners.iter().map(|runner| runner.turns).sum();
            assert!(turns >= HANDED_ON, "{config:?}");
        }
    }
}

/// Is told by a device, or by time.
struct Told {
    device: Option<PipeReader>,
    after: Option<Duration>,
    begun: Option<Instant>,
    told: mpsc::Sender<()>,
}

impl Processor for Told {
    fn turn(&mut self, now: Instant, _budget: usize) -> Next {
        let at = *self.begun.get_or_insert(now);
        match self.after.map(|after| at + after) {
            Some(at) if now < at => return Next::At(at),
            Some(_) => {
                self.after = None;
                self.told.send(()).unwrap();
            }
            None => {}
        }
        let is_readable = self.device.as_ref().is_some_and(|device| {
            let mut polled = [PollFd::new(device, PollFlags::IN)];
            poll(&mut polled, Some(&Timespec::default())).unwrap() > 0
        });
        if is_readable && self.device.take().is_some() {
            self.told.send(()).unwrap();
        }
        Next::Idle
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.device.as_ref().map(AsFd::as_fd)
    }
}

/// Never has enough.
struct Busy;

impl Processor for Busy {
    fn turn(&mut self, _now: Instant, _budget: usize) -> Next {
        Next::Again
    }
}

/// Also where a thread has something else to carry all the time, and where there are more devices than it can sleep on.
#[test]
fn parked_tasks_are_woken_by_devices_and_by_time() {
    for busy in [false, true] {
        let count = MOST_DEVICES + 2;
        let threads = Suspended::spawn(&tasks(1, Idle::SLEEP), count + usize::from(busy)).unwrap();
        let (told, tellings) = mpsc::channel();
        let (mut processors, mut writers) = (Vec::<Box<dyn Processor>>::new(), Vec::new());
        for number in 0..count {
            let (reader, writer) = std::io::pipe().unwrap();
            writers.push(writer);
            let timed = number % 2 == 0;
            processors.push(Box::new(Told {
                device: Some(reader),
                after: timed.then_some(Duration::from_millis(1)),
                begun: None,
                told: told.clone(),
            }));
        }
        if busy {
            processors.push(Box::new(Busy));
        }
        let running = threads.start(processors);
        let hear = || {
            tellings
                .recv_timeout(Duration::from_secs(60))
                .expect("nobody is slept over");
        };
        (0..count).step_by(2).for_each(|_| hear());
        for mut writer in writers {
            writer.write_all(b"x").unwrap();
            hear();
        }
        assert!(running.stop().is_ok());
    }
}
