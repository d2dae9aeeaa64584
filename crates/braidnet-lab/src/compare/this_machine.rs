//! The laboratory that measures.

use super::campaign::Laboratory;
use crate::{LabError, RunResult, TtcpConfig};
use std::time::{Duration, Instant};

/// The machine that this process runs on.
#[derive(Debug)]
pub struct ThisMachine {
    start: Instant,
}

impl ThisMachine {
    /// Starts its clock.
    pub fn new() -> ThisMachine {
        ThisMachine {
            start: Instant::now(),
        }
    }
}

impl Default for ThisMachine {
    fn default() -> ThisMachine {
        ThisMachine::new()
    }
}

impl Laboratory for ThisMachine {
    fn processors(&self) -> usize {
        // A system that does not say which processors there are has at least the one that asks.
        braidnet_sync::group::allowed_processors().map_or(1, |allowed| allowed.len())
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn run(&mut self, config: &TtcpConfig) -> Result<RunResult, LabError> {
        crate::run(config)
    }

    fn latency_ns(&mut self, processors: (usize, usize)) -> Result<f64, LabError> {
        crate::probe::latency_ns(processors)
    }

    fn ceiling(
        &mut self,
        processors: usize,
        config: &TtcpConfig,
        duration: Duration,
    ) -> Result<f64, LabError> {
        crate::probe::ceiling(processors, config, duration)
    }
}
