//! Threads that turn processors.

use braidnet_process::{RunningConfig, Suspended};
use braidnet_stream::{Next, Processor};
use braidnet_wire::time::Instant;
use std::sync::mpsc;
use std::time::Duration;

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
    for finished in running.stop() {
        finished.unwrap();
    }
}
