//! What the stack has said of each connection.

use braidnet_wire::address::Tuple;
use braidnet_wire::tcp::{TcpFlags, TcpHeader};
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicU32, AtomicU64, Ordering};

/// The far end's connections.
pub(super) struct Lines {
    lines: Vec<Line>,
    /// For each port of the far end's the connection's number; [`NONE`] for no connection.
    by_port: Vec<u32>,
    queue_of: Vec<usize>,
    /// One bit for each connection that its receiver should look at.
    news: Vec<AtomicU64>,
}

const NONE: u32 = u32::MAX;

/// One connection, as the stack's packets have shown it. On cache lines of its own: one processor writes it most of the time.
#[repr(align(128))]
pub(super) struct Line {
    /// Seen from the stack.
    pub(super) tuple: Tuple,
    state: AtomicU32,
    /// Sequence number of the first byte of the stack's stream.
    their_first: AtomicU32,
    /// Latest TSval of the stack's.
    their_time: AtomicU32,
    shift: AtomicU16,
    mss: AtomicU16,
    /// Bytes of our stream that are acknowledged, and up to which we may send.
    acknowledged: AtomicU64,
    edge: AtomicU64,
    /// Acknowledgments since the last one that was news.
    duplicates: AtomicU32,
    /// Bytes of the stack's stream that have come in order.
    received: AtomicU64,
    /// The stack must be told again what has come: something else came.
    tell_again: AtomicBool,
}

/// Where a connection is in its life, seen from the far end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    /// Nothing has come from the stack.
    Opening,
    /// The stack has answered the SYN.
    Open,
    /// The stack has reset it.
    Reset,
}

/// Sequence number of the far end's SYN, on every connection; its stream begins one later.
pub(super) const ISS: u32 = 0x0bad_cafe;

impl Lines {
    pub(super) fn new(tuples: &[Tuple], queue_of: Vec<usize>) -> Lines {
        let mut by_port = vec![NONE; 1 << 16];
        for (number, tuple) in tuples.iter().enumerate() {
            by_port[usize::from(tuple.remote_port)] = number as u32;
        }
        Lines {
            lines: tuples.iter().map(Line::new).collect(),
            by_port,
            queue_of,
            news: (0..tuples.len().div_ceil(64))
                .map(|_| AtomicU64::new(0))
                .collect(),
        }
    }

    /// The connection with this port of the far end's.
    #[inline]
    pub(super) fn by_port(&self, port: u16) -> Option<(u32, &Line)> {
        let number = self.by_port[usize::from(port)];
        self.lines.get(number as usize).map(|line| (number, line))
    }

    #[inline]
    pub(super) fn get(&self, number: u32) -> &Line {
        &self.lines[number as usize]
    }

    pub(super) fn len(&self) -> usize {
        self.lines.len()
    }

    /// The numbers of the connections of device queue `queue`.
    pub(super) fn of_queue(&self, queue: usize) -> Vec<u32> {
        (0..self.lines.len() as u32)
            .filter(|number| self.queue_of[*number as usize] == queue)
            .collect()
    }

    /// Marks the connection for its receiver to look at.
    #[inline]
    pub(super) fn mark(&self, number: u32) {
        self.mark_all(number as usize / 64, 1 << (number % 64));
    }

    /// Marks those of 64 connections whose bits are set.
    #[inline]
    pub(super) fn mark_all(&self, word: usize, bits: u64) {
        // Release: whoever takes the marks sees what they are about.
        self.news[word].fetch_or(bits, Ordering::Release);
    }

    /// Takes the marks of 64 connections, those in `mine`.
    #[inline]
    pub(super) fn take_marks(&self, word: usize, mine: u64) -> u64 {
        if self.news[word].load(Ordering::Relaxed) & mine == 0 {
            return 0;
        }
        self.news[word].fetch_and(!mine, Ordering::Acquire) & mine
    }

    pub(super) fn words(&self) -> usize {
        self.news.len()
    }
}

impl Line {
    fn new(tuple: &Tuple) -> Line {
        Line {
            tuple: *tuple,
            state: AtomicU32::new(0),
            their_first: AtomicU32::new(0),
            their_time: AtomicU32::new(0),
            shift: AtomicU16::new(0),
            mss: AtomicU16::new(0),
            acknowledged: AtomicU64::new(0),
            edge: AtomicU64::new(0),
            duplicates: AtomicU32::new(0),
            received: AtomicU64::new(0),
            tell_again: AtomicBool::new(false),
        }
    }

    #[inline]
    pub(super) fn state(&self) -> State {
        // Acquire: the handshake's figures come before the state that they lead to.
        match self.state.load(Ordering::Acquire) {
            0 => State::Opening,
            1 => State::Open,
            _ => State::Reset,
        }
    }

    pub(super) fn set_reset(&self) {
        self.state.store(2, Ordering::Release);
    }

    /// The stack's SYN-ACK.
    pub(super) fn opened(&self, header: &TcpHeader) {
        if self.state() != State::Opening {
            return;
        }
        let shift = if header.has(TcpHeader::HAS_WINDOW_SCALE) {
            header.window_scale.min(14)
        } else {
            0
        };
        let mss = if header.has(TcpHeader::HAS_MSS) {
            header.mss
        } else {
            536
        };
        self.their_first
            .store(header.seq.value().wrapping_add(1), Ordering::Relaxed);
        self.their_time.store(header.ts_value, Ordering::Relaxed);
        self.shift.store(u16::from(shift), Ordering::Relaxed);
        self.mss.store(mss, Ordering::Relaxed);
        // The window of a SYN is never scaled (RFC 7323 §2.2).
        self.edge.store(u64::from(header.window), Ordering::Relaxed);
        self.state.store(1, Ordering::Release);
    }

    /// An acknowledgment of the stack's (RFC 9293 §3.10.7.4): what it covers, and how far the window reaches now.
    #[inline]
    pub(super) fn acknowledged_by(&self, header: &TcpHeader, has_data: bool) {
        if !header.flags.contains(TcpFlags::ACK) {
            return;
        }
        self.their_time.store(header.ts_value, Ordering::Relaxed);
        let before = self.acknowledged.load(Ordering::Relaxed);
        let Some(covered) = unwrapped(header.ack.value().wrapping_sub(ISS + 1), before) else {
            return;
        };
        let reach = covered + (u64::from(header.window) << self.shift.load(Ordering::Relaxed));
        if covered > before {
            self.acknowledged.fetch_max(covered, Ordering::Relaxed);
            self.duplicates.store(0, Ordering::Relaxed);
        } else if !has_data && covered == before && reach == self.edge.load(Ordering::Relaxed) {
            self.duplicates.fetch_add(1, Ordering::Relaxed);
        }
        self.edge.fetch_max(reach, Ordering::Release);
    }

    /// Bytes of our stream that are acknowledged, and up to which the window lets us send.
    #[inline]
    pub(super) fn window(&self) -> (u64, u64) {
        let edge = self.edge.load(Ordering::Acquire);
        (self.acknowledged.load(Ordering::Relaxed), edge)
    }

    /// Whether as many duplicate acknowledgments have come as tell of a loss (RFC 5681 §3.2); begins to count anew.
    #[inline]
    pub(super) fn take_loss(&self) -> bool {
        self.duplicates.load(Ordering::Relaxed) >= 3 && {
            self.duplicates.store(0, Ordering::Relaxed);
            true
        }
    }

    /// Largest segment that the stack takes.
    pub(super) fn mss(&self) -> usize {
        usize::from(self.mss.load(Ordering::Relaxed))
    }

    /// The TSval to echo.
    #[inline]
    pub(super) fn their_time(&self) -> u32 {
        self.their_time.load(Ordering::Relaxed)
    }

    /// Takes a data segment; its position in the stack's stream if it is the next.
    #[inline]
    pub(super) fn take(&self, seq: u32, len: usize) -> Option<u64> {
        let expected = self.received.load(Ordering::Acquire);
        let offset = seq.wrapping_sub(self.their_first.load(Ordering::Relaxed));
        let next = offset == expected as u32
            && self
                .received
                .compare_exchange(
                    expected,
                    expected + len as u64,
                    Ordering::AcqRel,
                    Ordering::Relaxed,
                )
                .is_ok();
        if next {
            return Some(expected);
        }
        self.tell_again.store(true, Ordering::Relaxed);
        None
    }

    /// Bytes of the stack's stream that have come in order.
    #[inline]
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Acquire)
    }

    /// The sequence number of the stack's byte at `position`.
    #[inline]
    pub(super) fn their_seq(&self, position: u64) -> u32 {
        self.their_first
            .load(Ordering::Relaxed)
            .wrapping_add(position as u32)
    }

    /// Whether something has come that was not next since this was last asked.
    #[inline]
    pub(super) fn take_tell_again(&self) -> bool {
        self.tell_again.load(Ordering::Relaxed) && self.tell_again.swap(false, Ordering::Relaxed)
    }
}

/// The position nearest to `near` whose low 32 bits are `low`; `None` if that is more than half the sequence space back, before
/// the beginning.
#[inline]
fn unwrapped(low: u32, near: u64) -> Option<u64> {
    let step = low.wrapping_sub(near as u32) as i32;
    near.checked_add_signed(i64::from(step))
}
