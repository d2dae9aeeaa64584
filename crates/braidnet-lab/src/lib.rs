//! The braidnet laboratory: simulated far ends, ttcp and compare.
#![forbid(unsafe_code)]

pub mod compare;

mod config;
mod result;

pub use config::{
    ConfigError, Direction, MAX_BATCH, MAX_CONNECTIONS, MAX_MTU, MAX_PROCESSORS, MAX_SIZE, MIN_MTU,
    MIN_WINDOW_BYTES, Mode, Presentation, Transport, TtcpConfig, UnknownWord,
};
pub use result::{LabError, RttResult, RunResult};
