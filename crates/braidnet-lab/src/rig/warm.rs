//! Memory that is taken before a measurement begins, so that none is asked for in its course.
//!
//! What can be on its way at a time is bounded by the windows; how much of it is, changes with every whim of the scheduler. So
//! every processor's pool is grown to that bound, and its runs, beforehand; where there are more than two, to twice its part of it:
//! all their pools together must fit the stack's memory, and be touched before anything is measured.

use crate::config::{Direction, Mode, Presentation, Transport, TtcpConfig};
use crate::content::segment_bytes;
use braidnet_inet::HEADROOM;
use braidnet_message::{Message, Pool};
use braidnet_process::Worker;

/// Most messages that memory is taken for.
const MOST_MESSAGES: usize = 1 << 15;
/// Most bytes of segments that memory is taken for in each pool.
const MOST_BYTES: usize = 64 << 20;
/// Datagrams that can be on their way: what queues and mailboxes hold.
const DATAGRAMS: usize = 4096;
/// Messages beside data: acknowledgments and verbs.
const OTHERS: usize = 1024;

/// Grows a worker's pool and runs.
pub(crate) fn warm(worker: &mut Worker, config: &TtcpConfig) {
    let windows = config.window_bytes as usize / segment_bytes(config.mtu) + 2;
    let segments = match config.transport {
        // What is acknowledged, and freed to be sent again, may still lie in a queue of the receiver's.
        Transport::Tcp => part(2 * windows * config.connections, config).max(2 * windows),
        Transport::Udp => DATAGRAMS,
    };
    let sends = config.direction != Direction::Receive && config.mode == Mode::Bulk;
    // Every window may come free, and every hole be filled, in one turn.
    worker.reserve(segments + OTHERS);
    let mut pool = worker.cluster().pool().bind();
    let views = match config.presentation {
        Presentation::None => segments,
        Presentation::Xdr => 3 * segments,
    };
    grow(&mut pool, segments + OTHERS, |pool| {
        pool.allocate(HEADROOM, 0)
    });
    if let Some(message) = pool.allocate(0, 0) {
        grow(&mut pool, views + OTHERS, |pool| message.share(pool));
    }
    if sends {
        let size = match config.transport {
            Transport::Tcp => segment_bytes(config.mtu),
            Transport::Udp => config.size,
        };
        let count = segments.min(MOST_BYTES / (size + HEADROOM));
        grow(&mut pool, count, |pool| pool.allocate(HEADROOM, size));
    }
}

/// What one of the processors can come to hold of so many messages.
fn part(all: usize, config: &TtcpConfig) -> usize {
    (2 * all)
        .div_ceil(config.carried())
        .min(all)
        .min(MOST_MESSAGES)
}

/// Holds so many messages at once, and lets them go.
fn grow(pool: &mut Pool, count: usize, mut make: impl FnMut(&mut Pool) -> Option<Message>) {
    // Fewer if the arena refuses.
    let held: Vec<Message> = (0..count).map_while(|_| make(pool)).collect();
    drop(held);
}
