//! The braidnet laboratory: simulated far ends, ttcp and compare.
#![forbid(unsafe_code)]

pub mod compare;
pub mod doctor;

pub mod probe;

mod config;
mod content;
mod deal;
mod far;
mod load;
mod measure;
mod result;
mod rig;
mod tally;
mod ttcp;

pub use config::{
    Agents, ConfigError, Counts, Direction, MAX_AGENTS, MAX_BATCH, MAX_CONNECTIONS, MAX_MTU,
    MAX_PROCESSORS, MAX_SIZE, MAX_WORK, MIN_MTU, MIN_WINDOW_BYTES, Mode, NoShare, Order,
    OrderAbove, Perimeter, Place, Presentation, Share, Span, Transport, TtcpConfig, UnknownWord,
    Wait,
};
pub use result::{DelegationCost, LabError, LockCost, RttResult, RunResult};
pub use ttcp::{run, run_watched};
