//! The stack under test on threads of its own, with a real clock.

use crate::bench::{Bench, Setup};
use crate::random::Random;
use crate::script::{Scene, Script};
use crate::turned::Observed;
use crate::wire;
use braidnet_process::{RunningConfig, Suspended, Worker};
use braidnet_sync::clock::Clock;
use braidnet_wire::time::{Duration, Instant};

/// Longer than any scene takes, on any machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Plays the script against processors that run as `config` says and, with `suspensions`, are suspended and resumed all the time
/// at moments that the seed draws.
///
/// # Errors
/// The first law of the wire that was broken.
pub fn on_threads(
    setup: &Setup,
    config: &RunningConfig,
    suspensions: bool,
) -> Result<Observed, String> {
    let mut bench = Bench::new(setup, false);
    let suspended =
        Suspended::<Vec<Worker>>::spawn(config, setup.processors).expect("threads can be had");
    let workers = bench.workers(setup, suspended.wakers());
    let running = suspended.start(workers);
    bench.far.turn(now());
    let mut script = Script::open(&mut bench.far, setup.seed);
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
    for scene in [Scene::Opening, Scene::Data, Scene::Ending] {
        script.scene = scene;
        until(&format!("{setup:?}, {scene:?}"), || {
            if suspensions {
                draw();
            }
            script.step(&mut bench.far);
            bench.far.turn(now());
            script.is_over(|port| bench.discarded(port))
        });
    }
    while running.resume() {}
    until(&format!("{setup:?}, the last connections"), || {
        bench.far.turn(now());
        bench.open_connections() == 0
    });
    let ended = running.stop();
    assert!(ended.is_ok(), "{setup:?}: a thread panicked");
    let trace = bench.trace.lock().expect("no test thread panicked").clone();
    let near = bench.book.lock().expect("no test thread panicked").clone();
    Ok(Observed {
        near,
        far: script.records().collect(),
        sent: wire::check(&trace)?,
        verdicts: Vec::new(),
        open: bench.open_connections(),
    })
}

fn now() -> Instant {
    Instant::from_nanos(Clock::shared().now_nanos())
}

fn until(what: &str, mut over: impl FnMut() -> bool) {
    let end = now() + PATIENCE;
    while !over() {
        assert!(now() < end, "{what}: not over in {PATIENCE:?}");
        std::thread::yield_now();
    }
}
