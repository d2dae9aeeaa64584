//! The loads that every stack is given, and what it answers: the border between the stacks and the comparison.

use serde::Serialize;

/// Bytes of one application message.
pub const MESSAGE_BYTES: usize = 4096;

/// Messages sent before the clock starts, every byte of which is checked.
pub const WARM_UP_MESSAGES: u64 = 1024;

/// One way, as fast as possible, over one connection between two stacks on the calling thread.
///
/// Every message is copied in from the application's memory and copied out into it; both ends make and verify every checksum; no
/// segment is larger than the MTU. Content comes from [`crate::payload`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct BulkConfig {
    /// Largest IP packet in bytes, headers included.
    pub mtu: usize,
    /// Size of each socket's send and receive buffer in bytes, and with it the window.
    pub window_bytes: usize,
    /// Messages to be timed, after [`WARM_UP_MESSAGES`] that are not.
    pub messages: u64,
    /// The most messages that the sending application writes before the stacks get their turns; `None` for as many as the
    /// window has room for. Few stay in the nearest cache until they are read, many share the turns' fixed costs.
    pub burst_messages: Option<u64>,
}

/// What a bulk run took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct BulkResult {
    /// Wall time of the timed messages in nanoseconds.
    pub wall_ns: u64,
    /// Processor time of the thread for the timed messages, both ends together, in nanoseconds.
    pub cpu_ns: u64,
    /// Packets from the sender, warm-up not counted.
    pub data_packets: u64,
    /// Packets from the receiver, warm-up not counted.
    pub ack_packets: u64,
    /// Hash of what the receiving application got: all bytes of the warm-up, samples of the timed messages. Equal for equal
    /// configurations, whatever the stack.
    pub hash: u64,
}

/// One byte there and back over one connection, again and again, beside connections that do nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PingPongConfig {
    /// Largest IP packet in bytes.
    pub mtu: usize,
    /// Established connections between the two stacks that carry nothing.
    pub idle_connections: usize,
    /// Round trips to be timed, after a tenth as many that are not.
    pub round_trips: u64,
}

/// What a ping-pong run took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct PingPongResult {
    /// Wall time of all timed round trips in nanoseconds.
    pub wall_ns: u64,
    /// Processor time of the thread for them, both ends together, in nanoseconds.
    pub cpu_ns: u64,
    /// Median round trip in nanoseconds, the reading of the clock included.
    pub p50_ns: u64,
    /// 99th percentile in nanoseconds.
    pub p99_ns: u64,
    /// Hash of the bytes that came back.
    pub hash: u64,
}

/// Connections that a churn run opens at a time.
pub const CHURN_BATCH: usize = 64;

/// Connections that are opened, carry a byte, and are closed by the one that opened them and then by the other, beside connections that do nothing. What waits in
/// TIME-WAIT is released at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct ChurnConfig {
    /// Established connections between the two stacks that carry nothing.
    pub idle_connections: usize,
    /// Batches of [`CHURN_BATCH`] connections to be timed, after a tenth as many that are not.
    pub batches: u64,
}

/// What a churn run took.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct ChurnResult {
    /// Wall time of all timed connections in nanoseconds.
    pub wall_ns: u64,
    /// Processor time of the thread for them, both ends together, in nanoseconds.
    pub cpu_ns: u64,
    /// Hash of the bytes that arrived.
    pub hash: u64,
}

/// One stack under comparison.
#[derive(Clone, Copy)]
pub struct Side {
    /// What the command line and the report call it.
    pub name: &'static str,
    /// Runs a bulk load.
    pub bulk: fn(&BulkConfig) -> BulkResult,
    /// Runs a ping-pong load.
    pub ping_pong: fn(&PingPongConfig) -> PingPongResult,
    /// Runs a churn load.
    pub churn: fn(&ChurnConfig) -> ChurnResult,
}

/// Every stack, the one that others are compared with first.
pub const SIDES: &[Side] = &[
    Side {
        name: "smoltcp",
        bulk: crate::smoltcp_side::bulk,
        ping_pong: crate::smoltcp_side::ping_pong,
        churn: crate::smoltcp_side::churn,
    },
    Side {
        name: "braidnet",
        bulk: crate::braidnet_side::bulk,
        ping_pong: crate::braidnet_side::ping_pong,
        churn: crate::braidnet_side::churn,
    },
];
