//! Between the processors that record and the file: a buffer that fills, and a thread that empties it.
//!
//! Processors append under a short lock: one copy of what they encoded outside. The writer sleeps while the buffer is
//! empty, is woken by its first bytes and again when [`WRITE_AT`] bytes have come, and writes what there is at the
//! latest [`WRITE_EVERY`] after that. It swaps the buffer for an empty one before it writes, so that nobody waits for
//! the disk. Where the disk does not keep up, the buffer grows to [`HELD_BYTES`], or what it is told; what comes then is counted as lost, and so is what the disk refuses.

use super::destination::Destination;
use super::pcapng::{self, ENHANCED_PACKET};
use parking_lot::{Condvar, Mutex, MutexGuard};
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes at which the writer is woken.
const WRITE_AT: usize = 256 << 10;
/// The longest that recorded packets wait to be written.
const WRITE_EVERY: Duration = Duration::from_secs(1);
/// Bytes that may wait to be written, unless it is told otherwise.
pub const HELD_BYTES: usize = 16 << 20;

/// What an interface of the file has seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Seen {
    /// Packets that were to be recorded.
    pub packets: u64,
    /// Packets of these that are not in the file: the disk was too slow or refused to take more.
    pub lost: u64,
}

/// The shared half: the writer thread holds one, the capture's handles the other.
pub struct Sink {
    state: Mutex<State>,
    /// The writer waits here.
    work: Condvar,
    /// Whoever flushes waits here.
    written: Condvar,
}

#[derive(Default)]
struct State {
    /// What is to be written next.
    filling: Vec<u8>,
    /// The most of it that recorded packets may be.
    held_bytes: usize,
    interfaces: Vec<Seen>,
    /// Flushes asked for and done. A flush waits until `done` has come to the number it drew.
    flushes_asked: u64,
    flushes_done: u64,
    closing: bool,
    /// The writer has returned or panicked.
    finished: bool,
    /// The first.
    error: Option<Arc<io::Error>>,
    /// Nothing will ever be written again.
    is_over: bool,
}

impl State {
    fn is_due(&self) -> bool {
        self.closing || self.flushes_asked != self.flushes_done || self.filling.len() >= WRITE_AT
    }

    /// Counts the packets of blocks that are not written.
    fn lose(&mut self, blocks: &[u8]) {
        let packets = pcapng::blocks(blocks).filter(|(kind, _)| *kind == ENHANCED_PACKET);
        for interface in packets.filter_map(|(_, block)| pcapng::packet_interface(block)) {
            if let Some(seen) = self.interfaces.get_mut(interface as usize) {
                seen.lost += 1;
            }
        }
    }
}

impl Sink {
    /// A sink that begins with `header`.
    pub fn new(header: Vec<u8>) -> Self {
        let state = State {
            filling: header,
            held_bytes: HELD_BYTES,
            ..State::default()
        };
        Sink {
            state: Mutex::new(state),
            work: Condvar::new(),
            written: Condvar::new(),
        }
    }

    /// Adds an interface described by `block`; returns its number.
    pub fn add_interface(&self, describe: impl FnOnce(&mut Vec<u8>)) -> u32 {
        let mut state = self.state.lock();
        describe(&mut state.filling);
        state.interfaces.push(Seen::default());
        self.work.notify_one();
        (state.interfaces.len() - 1) as u32
    }

    /// Appends the blocks of `packets` packets of one interface, or none of them.
    pub fn append(&self, interface: u32, blocks: &[u8], packets: usize) {
        let mut state = self.state.lock();
        let before = state.filling.len();
        let room = !state.is_over && before + blocks.len() <= state.held_bytes;
        if let Some(seen) = state.interfaces.get_mut(interface as usize) {
            seen.packets += packets as u64;
            seen.lost += if room { 0 } else { packets as u64 };
        }
        if !room {
            return;
        }
        state.filling.extend_from_slice(blocks);
        let after = state.filling.len();
        drop(state);
        if before == 0 || (before < WRITE_AT && after >= WRITE_AT) {
            self.work.notify_one();
        }
    }

    /// So many bytes may wait to be written from now on; what waits already goes on waiting.
    pub fn set_held_bytes(&self, bytes: usize) {
        self.state.lock().held_bytes = bytes;
    }

    /// What the interfaces have seen, in the order of their numbers.
    pub fn seen(&self) -> Vec<Seen> {
        self.state.lock().interfaces.clone()
    }

    /// Waits until everything appended so far is written; says what went wrong since the beginning.
    pub fn flush(&self) -> Result<(), Arc<io::Error>> {
        let mut state = self.state.lock();
        state.flushes_asked += 1;
        let mine = state.flushes_asked;
        self.work.notify_one();
        while state.flushes_done < mine && !state.finished {
            self.written.wait(&mut state);
        }
        state.error.clone().map_or(Ok(()), Err)
    }

    /// Ends the section with every interface's statistics, and asks the writer to finish.
    pub fn close(&self, nanos: u64) {
        let mut state = self.state.lock();
        for (number, seen) in state.interfaces.clone().into_iter().enumerate() {
            let recorded = &mut state.filling;
            pcapng::interface_statistics(recorded, number as u32, nanos, seen.packets, seen.lost);
        }
        state.closing = true;
        self.work.notify_one();
    }

    /// The writer: returns once the sink is closed and all is written.
    pub fn write_to(&self, mut destination: impl Destination) {
        // Dropped after the lock is given back, also where the writer panics.
        let _finish = Finish(self);
        let mut spare = Vec::new();
        let mut state = self.state.lock();
        loop {
            self.wait_for_work(&mut state);
            let flushing = state.flushes_asked;
            let is_over = state.is_over;
            mem::swap(&mut state.filling, &mut spare);
            let written = MutexGuard::unlocked(&mut state, || match is_over {
                false => destination.write(&spare),
                true => Ok(()),
            });
            if let Err(unwritten) = written {
                state.lose(spare.get(unwritten.from..).unwrap_or_default());
                state.is_over = unwritten.is_final;
                state.error.get_or_insert(Arc::new(unwritten.error));
            }
            spare.clear();
            state.flushes_done = flushing;
            self.written.notify_all();
            if state.closing && state.filling.is_empty() {
                return;
            }
        }
    }

    fn wait_for_work(&self, state: &mut MutexGuard<'_, State>) {
        while state.filling.is_empty() && !state.is_due() {
            self.work.wait(state);
        }
        let deadline = Instant::now() + WRITE_EVERY;
        while !state.is_due() {
            if self.work.wait_until(state, deadline).timed_out() {
                return;
            }
        }
    }
}

/// Lets go those who wait for a writer that is no more.
struct Finish<'a>(&'a Sink);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        (state.finished, state.is_over) = (true, true);
        if std::thread::panicking() && state.error.is_none() {
            state.error = Some(Arc::new(io::Error::other("the writer panicked")));
        }
        self.0.written.notify_all();
    }
}
