//! The stack under test turned by the test itself, in virtual time.

use crate::bench::{Bench, Setup, Shared};
use crate::inject::bad_packets;
use crate::random::Random;
use crate::recorder::Record;
use crate::script::{Scene, Script};
use crate::tap::Packets;
use crate::wire;
use braidnet_process::Worker;
use braidnet_stream::{Next, Processor};
use braidnet_sync::parker::Parker;
use braidnet_wire::time::{Duration, Instant};
use std::collections::BTreeMap;

/// What a run comes to: everything in it must be the same however the stack is turned.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Observed {
    /// What the services saw of each connection, and what the far end did, by the far end's port.
    pub near: BTreeMap<u16, Record>,
    pub far: BTreeMap<u16, Record>,
    /// What the wire carried of each connection's bytes from the stack.
    pub sent: BTreeMap<u16, Vec<u8>>,
    /// What was counted for each bad packet that was injected.
    pub verdicts: Vec<(&'static str, BTreeMap<String, u64>)>,
    /// Connections left at the end.
    pub open: u64,
}

/// A stack turned by the test.
pub struct Turned {
    setup: Setup,
    bench: Bench,
    workers: Vec<Vec<Worker>>,
    script: Script,
    random: Random,
    now: Instant,
    /// What each processor read of the time when its last turn began. It may have begun a while ago: see [`Turned::read`].
    read: Vec<Instant>,
    /// When the far end and each processor want to be turned again.
    wishes: Vec<Next>,
    /// Each packet is let in only when nothing is left to run.
    gated: bool,
}

/// Longest time between a processor's reading of the clock and its turn: as long as a preempted thread may wait.
const LONGEST_LAG_NANOS: u64 = 20_000_000;

/// More turns than nothing to do takes.
const ENDLESS: usize = 1_000_000;

impl Turned {
    pub fn new(setup: &Setup, gated: bool) -> Turned {
        let mut bench = Bench::new(setup, gated);
        let wakers: Vec<_> = (0..setup.processors)
            .map(|_| Parker::new().unparker())
            .collect();
        let workers = bench.workers(setup, &wakers);
        let now = Instant::from_millis(1000);
        bench.far.turn(now);
        let script = Script::open(
            &mut bench.far,
            setup.length,
            if gated { 0 } else { setup.seed },
        );
        Turned {
            setup: *setup,
            bench,
            workers,
            script,
            random: Random::new(setup.seed),
            now,
            read: vec![now; setup.processors],
            wishes: vec![Next::Again; setup.processors + 1],
            gated,
        }
    }

    /// Plays the script to its end, with bad packets between its first two scenes.
    ///
    /// # Errors
    /// The first law of the wire that was broken.
    pub fn play(&mut self) -> Result<(Observed, Packets), String> {
        self.play_scene(Scene::Opening);
        let verdicts = self.inject();
        self.play_scene(Scene::Data);
        self.play_scene(Scene::Ending);
        self.rest();
        let trace = self
            .bench
            .trace
            .lock()
            .expect("no test thread panicked")
            .clone();
        let observed = Observed {
            near: self
                .bench
                .book
                .lock()
                .expect("no test thread panicked")
                .clone(),
            far: self.script.records().collect(),
            sent: wire::check(&trace)?,
            verdicts,
            open: self.bench.open_connections(),
        };
        Ok((observed, trace))
    }

    /// What processors have shared.
    pub fn shared(&self) -> Shared {
        self.bench.shared()
    }

    fn play_scene(&mut self, scene: Scene) {
        self.script.scene = scene;
        loop {
            self.run_dry();
            let bench = &self.bench;
            if self.script.is_over(|port| bench.discarded(port)) {
                return;
            }
            assert!(
                self.advance(),
                "{:?}, {scene:?}: nothing will ever happen again: {}",
                self.setup,
                self.describe()
            );
        }
    }

    /// Lets every timer run out.
    fn rest(&mut self) {
        let end = self.now + Duration::from_secs(10);
        while self.now < end && self.advance() {
            self.run_dry();
        }
    }

    /// Injects bad packets, each when nothing is left to run; what is counted for each.
    fn inject(&mut self) -> Vec<(&'static str, BTreeMap<String, u64>)> {
        let port = self.script.target();
        let aim = wire::aim(
            &self.bench.trace.lock().expect("no test thread panicked"),
            port,
        );
        let aim = aim.expect("the connection is open");
        let mut verdicts = Vec::new();
        for (name, packet, reason) in bad_packets(port, &aim) {
            let before = self.bench.counted();
            self.bench.injector.inject(&mut self.bench.pool, &packet);
            self.run_dry();
            let mut delta = self.bench.counted();
            for (counter, value) in &mut delta {
                *value -= before.get(counter).copied().unwrap_or(0);
            }
            // How its connection was found is no verdict: it depends on what came before. Nor is whose queue it came by.
            let is_verdict = |counter: &str| !["tcp.walks", "shared.handed"].contains(&counter);
            delta.retain(|counter, value| *value > 0 && is_verdict(counter));
            assert_eq!(
                delta.get(reason),
                Some(&1),
                "{name} is not called {reason}, but {delta:?}"
            );
            verdicts.push((name, delta));
        }
        verdicts
    }

    /// Turns the far end and the processors, in an order drawn by the seed, until none has anything left to do; then lets
    /// packets in, if there is a gate.
    fn run_dry(&mut self) {
        loop {
            self.run_until_idle();
            let [there, here] = &self.bench.moved;
            let waiting = [here.given() - there.taken(), there.given() - here.taken()];
            if !self.gated {
                assert_eq!(waiting, [0, 0], "packets were left on the wire");
                return;
            }
            match waiting {
                [_, (1..)] => self.bench.gates[1].let_one_in(),
                [(1..), _] => self.bench.gates[0].let_one_in(),
                _ if self.script.step(&mut self.bench.far) => {}
                _ => return,
            }
        }
    }

    fn run_until_idle(&mut self) {
        let actors = self.wishes.len();
        let mut quiet = vec![false; actors];
        for _ in 0..ENDLESS {
            let awake: Vec<usize> = (0..actors).filter(|actor| !quiet[*actor]).collect();
            if awake.is_empty() {
                return;
            }
            let actor = self.random.pick(&awake);
            if self.turn(actor) {
                quiet.fill(false);
            } else {
                quiet[actor] = true;
            }
        }
        panic!(
            "no end of work: {:?} at {:?}, has work: {:?}",
            self.wishes,
            self.now,
            self.workers
                .iter()
                .map(Processor::has_work)
                .collect::<Vec<_>>()
        );
    }

    /// One turn of the far end (0) or a processor; says whether anything came of it.
    fn turn(&mut self, actor: usize) -> bool {
        let moved = |bench: &Bench| -> usize {
            bench
                .moved
                .iter()
                .map(|moved| moved.taken() + moved.given())
                .sum()
        };
        let before = moved(&self.bench);
        let mut busy = false;
        let next = match actor.checked_sub(1) {
            None => {
                busy |= !self.gated && self.script.step(&mut self.bench.far);
                self.bench.far.turn(self.now)
            }
            Some(processor) => {
                let budget = if self.gated {
                    1
                } else {
                    self.random.sized(256) as usize
                };
                let now = self.read(processor);
                self.workers[processor].turn(now, budget)
            }
        };
        self.wishes[actor] = next;
        let due = match next {
            Next::Again => true,
            Next::At(at) => at <= self.now,
            Next::Idle => false,
        };
        busy | due
            | (moved(&self.bench) != before)
            | self.workers.iter().any(Processor::has_work)
            | self.bench.outside.has_any()
    }

    /// The time as a processor reads it, which may be preempted after that: so it lags behind, by as much as the seed draws, but
    /// never goes back.
    fn read(&mut self, processor: usize) -> Instant {
        let lag = match self.random.below(2) {
            0 if !self.gated => Duration::from_nanos(self.random.sized(LONGEST_LAG_NANOS)),
            _ => Duration::ZERO,
        };
        let read = &mut self.read[processor];
        *read = (*read).max(self.now - lag);
        *read
    }

    fn describe(&self) -> String {
        let moved: Vec<_> = self
            .bench
            .moved
            .iter()
            .map(|moved| (moved.taken(), moved.given()))
            .collect();
        format!(
            "{:?}, wire {moved:?}, {:?}; {}",
            self.bench.counted(),
            self.wishes,
            self.script.describe()
        )
    }

    /// Goes on to the next deadline; false if there is none.
    fn advance(&mut self) -> bool {
        let deadline = |next: &Next| match next {
            Next::At(at) => Some(*at),
            _ => None,
        };
        let Some(at) = self.wishes.iter().filter_map(deadline).min() else {
            return false;
        };
        self.now = self.now.max(at);
        true
    }
}
