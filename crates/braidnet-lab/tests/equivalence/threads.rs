//! The stack under test on threads of its own, with a real clock.

use crate::bench::{Bench, Setup};
use crate::script::{Scene, Script};
use crate::turned::Observed;
use crate::wire;
use braidnet_process::{RunningConfig, Suspended, Worker};
use braidnet_sync::clock::Clock;
use braidnet_wire::time::{Duration, Instant};

/// Longer than any scene takes, on any machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Plays the script against processors that run.
///
/// # Errors
/// The first law of the wire that was broken.
pub fn on_threads(setup: &Setup) -> Result<Observed, String> {
    let mut bench = Bench::new(setup, false);
    let config = RunningConfig {
        name: "equivalence".to_owned(),
        ..RunningConfig::default()
    };
    let suspended =
        Suspended::<Vec<Worker>>::spawn(&config, setup.processors).expect("threads can be had");
    let workers = bench.workers(setup, suspended.wakers());
    let running = suspended.start(workers);
    bench.far.turn(now());
    let mut script = Script::open(&mut bench.far, setup.seed);
    for scene in [Scene::Opening, Scene::Data, Scene::Ending] {
        script.scene = scene;
        until(&format!("{setup:?}, {scene:?}"), || {
            script.step(&mut bench.far);
            bench.far.turn(now());
            script.is_over(|port| bench.discarded(port))
        });
    }
    until(&format!("{setup:?}, the last connections"), || {
        bench.far.turn(now());
        bench.open_connections() == 0
    });
    for finished in running.stop() {
        assert!(finished.is_ok(), "{setup:?}: a thread panicked");
    }
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
