//! The stack under test on threads of its own, with the clock that they go by: a real one, or a run's under a schedule.

use crate::bench::{Bench, Setup, Shared};
use crate::random::Random;
use crate::script::{Scene, Script};
use crate::tap::Moved;
use crate::turned::Observed;
use crate::wire;
use braidnet_process::{RunningConfig, Suspended, Worker};
use braidnet_sync::clock::Clock;
use braidnet_sync::parker::Parker;
use braidnet_wire::time::{Duration, Instant};

/// Longer than any scene takes, on any machine; in the time of a run under a schedule, longer than all timers but those that make
/// good what was lost.
pub const PATIENCE: Duration = Duration::from_secs(if cfg!(shuttle) { 1 } else { 60 });

/// Plays the script against processors that run as `config` says and, with `suspensions`, are suspended and resumed all the time
/// at moments that the seed draws.
///
/// What came of it, and what processors have shared.
///
/// # Errors
/// The first law of the wire that was broken.
pub fn on_threads(
    setup: &Setup,
    config: &RunningConfig,
    suspensions: bool,
) -> Result<(Observed, Shared), String> {
    let mut bench = Bench::new(setup, false);
    let suspended =
        Suspended::<Vec<Worker>>::spawn(config, setup.processors).expect("threads can be had");
    let workers = bench.workers(setup, suspended.wakers());
    let running = suspended.start(workers);
    bench.far.turn(now());
    let mut script = Script::open(&mut bench.far, setup.length, setup.seed);
    let mut random = Random::new(setup.seed);
    let mut suspended = 0;
    let mut draw = || match random.between(0, 7) {
        0 if suspended < 3 => {
            running.suspend();
            suspended += 1;
        }
        1..=4 if suspended > 0 => {
            assert!(running.resume());
            suspended -= 1;
        }
        _ => {}
    };
    let mut rest = Rest {
        parker: core::mem::take(&mut bench.rest),
        moved: bench.moved.clone(),
    };
    for scene in [Scene::Opening, Scene::Data, Scene::Ending] {
        script.scene = scene;
        rest.until(&format!("{setup:?}, {scene:?}"), || {
            if suspensions {
                draw();
            }
            script.step(&mut bench.far);
            bench.far.turn(now());
            script.is_over(|port| bench.discarded(port))
        });
    }
    while running.resume() {}
    rest.until(&format!("{setup:?}, the last connections"), || {
        bench.far.turn(now());
        bench.open_connections() == 0
    });
    if running.stop().is_err() {
        panic!("{setup:?}: a thread panicked");
    }
    let shared = bench.shared();
    let trace = bench.trace.lock().expect("no test thread panicked").clone();
    let near = bench.book.lock().expect("no test thread panicked").clone();
    let observed = Observed {
        near,
        far: script.records().collect(),
        sent: wire::check(&trace)?,
        verdicts: Vec::new(),
        open: bench.open_connections(),
    };
    Ok((observed, shared))
}

fn now() -> Instant {
    Instant::from_nanos(Clock::shared().now_nanos())
}

/// What the far end's caller does while there is nothing to do.
struct Rest {
    parker: Parker,
    moved: [Moved; 2],
}

impl Rest {
    /// Its timers can be as late.
    const MOST: Duration = Duration::from_micros(20);

    fn until(&mut self, what: &str, mut over: impl FnMut() -> bool) {
        let end = now() + PATIENCE;
        while !over() {
            assert!(now() < end, "{what}: not over in {PATIENCE:?}");
            if cfg!(shuttle) {
                self.sleep();
            } else {
                std::thread::yield_now();
            }
        }
    }

    /// Sleeps until a packet comes, or for a moment.
    fn sleep(&mut self) {
        let announced = self.parker.announce();
        let [there, here] = &self.moved;
        if here.given() == there.taken() {
            announced.park_timeout(Rest::MOST);
        }
    }
}
