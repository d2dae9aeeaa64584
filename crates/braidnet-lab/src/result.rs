//! What one measurement gives.

use crate::config::ConfigError;
use braidnet::StackError;
use braidnet_device::DeviceError;
use braidnet_process::PlanError;
use braidnet_sync::group::{MemberError, SpawnError};
use serde::Serialize;
use std::collections::BTreeMap;

/// What was measured in one window of steady state.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct RunResult {
    /// Messages that went whole through the window, over all connections.
    pub messages: u64,
    /// Wall time of the window in nanoseconds.
    pub wall_ns: u64,
    /// Application bytes of the window.
    pub bytes: u64,
    /// Application bits per nanosecond of wall time.
    pub throughput_gbps: f64,
    /// Processor time of all threads, far ends included, per message.
    pub cpu_ns_per_message: f64,
    /// Processor time in user mode, in the kernel's accounting precision.
    pub user_ms: f64,
    /// Processor time in the kernel, likewise.
    pub system_ms: f64,
    /// Times that a processor's thread slept.
    pub voluntary_switches: u64,
    /// Times that a processor's thread was made to give way.
    pub involuntary_switches: u64,
    /// Time between asking for a lock and having it, and between asking to enter what is delegated and being inside or having left the
    /// work there, per message; measured only where [`sync_sampling`](crate::TtcpConfig::sync_sampling) is set, 0 elsewhere.
    pub sync_ns_per_message: f64,
    /// What locks cost by class ([`LockClass::name`](braidnet_sync::lock::LockClass::name)), per message; those that were taken. Measured
    /// where `sync_ns_per_message` is.
    pub locks_per_message: BTreeMap<&'static str, LockCost>,
    /// What delegation costs, per message, measured likewise. None where nothing delegated was entered.
    pub delegation_per_message: Option<DelegationCost>,
    /// Of the data segments that reached TCP, those that were not next in order, in percent (PLP table 1). In direction
    /// `send`, of those that left on the wire.
    pub out_of_order_percent: f64,
    /// The share of order-free functions in a processor's time; measured only where
    /// [`order_free_sampling`](crate::TtcpConfig::order_free_sampling) is set.
    pub order_free_share: Option<f64>,
    /// Round trips, in mode echo.
    pub rtt: Option<RttResult>,
    /// Hash of what the application has received, over all connections from the first message to the last before a point that
    /// depends on the configuration alone: equal for every architecture and number of processors.
    pub payload_hash: u64,
    /// Counters of the stacks and far ends over the window, by name; those that are not zero.
    pub counters: BTreeMap<String, u64>,
}

/// What the locks of one class cost.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct LockCost {
    /// How often one was taken.
    pub acquisitions: f64,
    /// How often it was held by somebody else then.
    pub contended: f64,
    /// Estimated nanoseconds between asking and having.
    pub waited_ns: f64,
    /// Estimated nanoseconds between having and giving back.
    pub held_ns: f64,
}

/// What entering by delegation costs.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct DelegationCost {
    /// How often something was entered, or would have been had nobody been inside.
    pub entries: f64,
    /// How often somebody else was inside, and was left the work.
    pub left: f64,
    /// Estimated nanoseconds between asking and being inside, or having left the work.
    pub entering_ns: f64,
    /// Estimated nanoseconds inside, others' work included.
    pub inside_ns: f64,
    /// Estimated nanoseconds that work lay there between being left and being served. Nobody waits for it meanwhile.
    pub deferred_ns: f64,
}

impl DelegationCost {
    /// What part of the entries found somebody inside.
    pub fn contention(&self) -> f64 {
        self.left / self.entries.max(f64::MIN_POSITIVE)
    }

    /// How long each piece that was left lay there, in nanoseconds; none if none was left.
    pub fn deferred_each_ns(&self) -> Option<f64> {
        (self.left > 0.0).then(|| self.deferred_ns / self.left)
    }
}

/// One-message round trips.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct RttResult {
    /// Median.
    pub p50_ns: u64,
    /// 99 of 100 took no longer.
    pub p99_ns: u64,
    /// 999 of 1,000 took no longer.
    pub p999_ns: u64,
    /// Over all connections.
    pub round_trips_per_second: f64,
}

/// Why a measurement could not be made.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// It is set to something that cannot be.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A stack cannot be made.
    #[error(transparent)]
    Stack(#[from] StackError),
    /// The architecture cannot be placed.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A device cannot be opened.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The system gives no thread.
    #[error(transparent)]
    Spawn(#[from] SpawnError),
    /// A processor's thread died.
    #[error("a processor's thread ended early: {0}")]
    Thread(#[from] MemberError),
    /// The processors that this process may use cannot be listed.
    #[error("the processors that this process may use cannot be listed: {0}")]
    Processors(std::io::Error),
    /// A processor that this process may not use.
    #[error("processor {processor} is not one of the {allowed} that this process may use")]
    NoSuchProcessor {
        /// Its number.
        processor: usize,
        /// How many there are.
        allowed: usize,
    },
    /// No port hashes to a processor that needs one.
    #[error("no port is left whose connection falls to processor {processor}")]
    NoPort {
        /// The processor.
        processor: usize,
    },
    /// Messages stopped flowing.
    #[error(
        "no message has passed for {seconds} s, after {messages}: the measurement is given up ({state})"
    )]
    Stalled {
        /// How long.
        seconds: u64,
        /// How many messages had passed.
        messages: u64,
        /// What the counters say.
        state: String,
    },
    /// The application received something else than was sent.
    #[error("connection {connection} received something else than was sent")]
    Corrupt {
        /// Which one.
        connection: usize,
    },
}
