//! Everything about files that may wait, on threads of its own.
//!
//! A connection has one [`Errand`] out at a time, so the queue is never longer than there are connections. An errand
//! carries an empty message as its envelope: it comes back through the stack's mailboxes with the segments that were read
//! behind it, and always comes back, because the envelope was there before: even where the work panics, which costs that
//! connection its response and nobody else anything.

use super::DirectoryError;
use super::answer::respond;
use super::request::Request;
use super::root::Root;
use super::session::Http;
use braidnet::inet::HEADROOM;
use braidnet::message::{Message, Pool};
use braidnet::{Jobs, Ticket};
use rustix::fd::OwnedFd;
use rustix::io::{Errno, ReadWriteFlags};
use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

/// Directories to be served, and the threads that read their files.
#[derive(Clone, Default)]
pub struct Files {
    queue: Arc<Queue>,
}

impl Files {
    /// None yet.
    pub fn new() -> Files {
        Files::default()
    }

    /// The same, with the time of day from `clock` in place of the system's.
    pub fn with_clock(clock: fn() -> SystemTime) -> Files {
        Files {
            queue: Arc::new(Queue {
                clock,
                ..Queue::default()
            }),
        }
    }

    /// A service of the files of the directory at `path`.
    ///
    /// # Errors
    /// If the directory cannot be opened.
    pub fn directory(&self, path: impl AsRef<Path>) -> Result<Http, DirectoryError> {
        Ok(Http::new(Root::open(path.as_ref())?, self.queue.clone()))
    }

    /// A reader for the server of `jobs`, for a caller who turns it: nothing is looked for or read but by that.
    pub fn reader(&self, jobs: &Jobs) -> FileReader {
        FileReader {
            queue: self.queue.clone(),
            pool: jobs.pool(),
            jobs: jobs.clone(),
            scratch: vec![0; READ_BYTES],
            patience: 0,
        }
    }

    /// Starts `threads` (at least one) threads that read for the server of `jobs`. Until then requests wait. From then on the stack's processors answer
    /// by themselves what need not be waited for.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(&self, threads: usize, jobs: &Jobs) -> io::Result<FileThreads> {
        let mut started = FileThreads {
            queue: self.queue.clone(),
            threads: Vec::new(),
        };
        for number in 0..threads.max(1) {
            let mut reader = self.reader(jobs);
            reader.patience = BUFFER_WAITS;
            let thread = std::thread::Builder::new()
                .name(format!("braidnet-files-{number}"))
                .spawn(move || reader.work())?;
            started.threads.push(thread);
        }
        self.queue.has_threads.store(true, Ordering::Relaxed);
        Ok(started)
    }
}

/// The threads that read files; dropping it ends them. What is still asked for then is answered only where nobody has to wait for it.
pub struct FileThreads {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

impl Drop for FileThreads {
    fn drop(&mut self) {
        self.queue.close();
        for thread in self.threads.drain(..) {
            // A panic in there has been reported, and there is nothing left to save.
            let _ = thread.join();
        }
    }
}

/// A piece of work for the threads.
pub(super) struct Errand {
    pub(super) ticket: Ticket,
    /// An empty message.
    pub(super) envelope: Message,
    /// Where the rest of the file is left for the session.
    pub(super) returns: Returns,
    /// Bytes of the longest message that is best sent.
    pub(super) piece: usize,
    /// Bytes of the file to read at most.
    pub(super) max: usize,
    pub(super) work: Work,
}

pub(super) enum Work {
    /// Look for the file, make the head of the response, and read the first bytes.
    Open {
        root: Arc<Root>,
        request: Box<Request>,
        keep_alive: bool,
    },
    /// Send this head, and read the first bytes of a file that has been opened.
    Answer(Vec<u8>, Transfer),
    /// Read on.
    Read(Transfer),
}

/// Where an errand leaves what is still to be read.
pub(super) type Returns = Arc<Mutex<Option<Transfer>>>;

/// An open file and what of it is still to be sent.
#[derive(Debug)]
pub(super) struct Transfer {
    file: OwnedFd,
    offset: u64,
    end: u64,
}

impl Transfer {
    /// The bytes of `file` from `offset` to `end`.
    pub(super) fn new(file: OwnedFd, offset: u64, end: u64) -> Transfer {
        Transfer { file, offset, end }
    }

    /// Fills `to` with the next bytes, if the system has all of them in memory and nothing of them has to be waited for; whether it did.
    pub(super) fn read_cached(&self, to: &mut [u8]) -> bool {
        let wanted = to.len();
        let read = rustix::io::preadv2(
            &self.file,
            &mut [IoSliceMut::new(to)],
            self.offset,
            ReadWriteFlags::NOWAIT,
        );
        read == Ok(wanted)
    }

    /// Bytes that are still to be read.
    pub(super) fn left(&self) -> u64 {
        self.end - self.offset
    }

    /// How many of `max` bytes it has left.
    fn left_of(&self, max: usize) -> usize {
        max.min(usize::try_from(self.left()).unwrap_or(usize::MAX))
    }
}

/// How an errand ended: the note in its envelope.
pub(super) const DONE: u32 = 0;
/// The file could not be read to its end, the memory of the stack is used up, or the reader panicked: the response cannot be
/// completed.
pub(super) const FAILED: u32 = 1;

/// Errands that wait for a thread.
pub(super) struct Queue {
    waiting: Mutex<Waiting>,
    more: Condvar,
    clock: fn() -> SystemTime,
    /// Threads carry errands out, and not a caller in his own time.
    has_threads: AtomicBool,
}

impl Default for Queue {
    fn default() -> Queue {
        Queue {
            waiting: Mutex::default(),
            more: Condvar::new(),
            clock: SystemTime::now,
            has_threads: AtomicBool::new(false),
        }
    }
}

#[derive(Default)]
struct Waiting {
    errands: VecDeque<Errand>,
    idle: usize,
    closed: bool,
}

impl Queue {
    /// Leaves an errand; held for a few instructions only, so that the data path does not wait.
    pub(super) fn push(&self, errand: Errand) {
        let mut waiting = self.lock();
        waiting.errands.push_back(errand);
        let wake = waiting.idle > 0;
        drop(waiting);
        if wake {
            self.more.notify_one();
        }
    }

    /// The next errand, when there is one; `None` at the end.
    fn pop(&self) -> Option<Errand> {
        let mut waiting = self.lock();
        loop {
            if waiting.closed {
                return None;
            }
            if let Some(errand) = waiting.errands.pop_front() {
                return Some(errand);
            }
            waiting.idle += 1;
            waiting = self
                .more
                .wait(waiting)
                .unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
    }

    /// The next errand, if there is one now.
    fn try_pop(&self) -> Option<Errand> {
        self.lock().errands.pop_front()
    }

    fn close(&self) {
        let mut waiting = self.lock();
        waiting.closed = true;
        waiting.errands.clear();
        drop(waiting);
        self.more.notify_all();
    }

    /// The time of day.
    pub(super) fn now(&self) -> SystemTime {
        (self.clock)()
    }

    /// Whether a session may answer by itself.
    pub(super) fn has_threads(&self) -> bool {
        self.has_threads.load(Ordering::Relaxed)
    }

    fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// A thread that panicked has left nothing half done here.
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes read with one system call.
const READ_BYTES: usize = 64 << 10;
/// How long, and how often, a thread waits for a buffer before it gives the response up.
const BUFFER_WAIT: Duration = Duration::from_millis(1);
const BUFFER_WAITS: usize = 1000;

/// Does what connections ask of files, on the thread of whoever turns it.
pub struct FileReader {
    queue: Arc<Queue>,
    jobs: Jobs,
    pool: Pool,
    scratch: Vec<u8>,
    /// How often it waits for a buffer.
    patience: usize,
}

impl FileReader {
    /// Carries out everything that waits, and says how much that was. It waits for the disk, and for nothing else.
    pub fn turn(&mut self) -> usize {
        let mut done = 0;
        while let Some(errand) = self.queue.try_pop() {
            self.carry_out(errand);
            done += 1;
        }
        done
    }

    /// The life of a thread.
    fn work(mut self) {
        while let Some(errand) = self.queue.pop() {
            self.carry_out(errand);
        }
    }

    fn carry_out(&mut self, errand: Errand) {
        let (ticket, returns) = (errand.ticket, errand.returns);
        let mut pool = self.pool.bind();
        let mut desk = Desk {
            queue: &self.queue,
            pool: &mut pool,
            scratch: &mut self.scratch,
            patience: self.patience,
            segments: Segments {
                envelope: errand.envelope,
                open: None,
                piece: errand.piece,
            },
        };
        // Nothing outlives a panic in there but the segments, which go back with a note that they are not whole.
        let transfer = catch_unwind(AssertUnwindSafe(|| desk.carry_out(errand.work, errand.max)))
            .unwrap_or(Err(GivenUp));
        let mut envelope = desk.segments.finish();
        match transfer {
            Ok(transfer) => {
                envelope.set_note(DONE);
                *returns.lock().unwrap_or_else(PoisonError::into_inner) = transfer;
            }
            Err(GivenUp) => envelope.set_note(FAILED),
        }
        self.jobs.hand_back(ticket, envelope);
        pool.flush_away();
    }
}

/// A response that cannot be completed.
struct GivenUp;

/// What a thread works with on one errand.
struct Desk<'a> {
    queue: &'a Queue,
    pool: &'a mut Pool,
    scratch: &'a mut [u8],
    patience: usize,
    segments: Segments,
}

impl Desk<'_> {
    /// Does the work; what is still to be read, if anything.
    fn carry_out(&mut self, work: Work, max: usize) -> Result<Option<Transfer>, GivenUp> {
        let transfer = match work {
            Work::Read(transfer) => Some(transfer),
            Work::Open {
                root,
                request,
                keep_alive,
            } => {
                let (head, transfer) = respond(&root, &request, keep_alive, self.queue.now());
                let body = transfer
                    .as_ref()
                    .map_or(0, |transfer| transfer.left_of(max));
                self.write(&head, body)?;
                transfer
            }
            Work::Answer(head, transfer) => {
                self.write(&head, transfer.left_of(max))?;
                Some(transfer)
            }
        };
        match transfer {
            Some(transfer) => self.read(transfer, max),
            None => Ok(None),
        }
    }

    fn read(&mut self, mut transfer: Transfer, max: usize) -> Result<Option<Transfer>, GivenUp> {
        let mut left = max;
        while left > 0 && transfer.left() > 0 {
            let wanted = transfer.left_of(left).min(READ_BYTES);
            match rustix::io::pread(&transfer.file, &mut self.scratch[..wanted], transfer.offset) {
                // Shorter than it was: what the head has promised cannot be kept.
                Ok(0) => return Err(GivenUp),
                Ok(n) => {
                    let scratch = core::mem::take(&mut self.scratch);
                    transfer.offset += n as u64;
                    left -= n;
                    let written = self.write(&scratch[..n], transfer.left_of(left));
                    self.scratch = scratch;
                    written?;
                }
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Err(GivenUp),
            }
        }
        Ok((transfer.left() > 0).then_some(transfer))
    }

    /// Copies bytes into pieces, summing them on the way; waits a while for buffers. Behind them come about `more`.
    fn write(&mut self, bytes: &[u8], more: usize) -> Result<(), GivenUp> {
        let mut rest = bytes;
        let mut waits = 0;
        while !rest.is_empty() {
            let written = self.segments.write(rest, more, self.pool);
            rest = &rest[written..];
            if written == 0 {
                waits += 1;
                if waits > self.patience || self.queue.is_closed() {
                    return Err(GivenUp);
                }
                std::thread::sleep(BUFFER_WAIT);
            }
        }
        Ok(())
    }
}

/// Bytes of the buffer that is asked for where there is no longer one.
const LITTLE: usize = 1460;

/// Pieces behind an envelope.
struct Segments {
    envelope: Message,
    /// The one that is being filled.
    open: Option<Message>,
    /// Bytes of the longest.
    piece: usize,
}

impl Segments {
    /// Writes into one piece, which has room for the `more` bytes that come behind; how many bytes, 0 if there is no buffer.
    fn write(&mut self, bytes: &[u8], more: usize, pool: &mut Pool) -> usize {
        let size = self.piece.min(bytes.len() + more);
        let fresh = || {
            let usual = pool.allocate(HEADROOM, size);
            usual.or_else(|| pool.allocate(HEADROOM, size.min(LITTLE)))
        };
        let Some(mut open) = self.open.take().or_else(fresh) else {
            return 0;
        };
        let n = bytes.len().min(self.piece - open.len());
        let written = open.extend_from_slice_summed(&bytes[..n]);
        if open.len() == self.piece || open.tailroom() == 0 {
            self.envelope.push_continuation(open);
        } else {
            self.open = Some(open);
        }
        written
    }

    fn finish(mut self) -> Message {
        if let Some(segment) = self.open.take() {
            self.envelope.push_continuation(segment);
        }
        self.envelope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_full_but_the_last_and_summed() {
        let arena = braidnet::message::Arena::new(1 << 20);
        let mut pool = Pool::new(&arena);
        let mut segments = Segments {
            envelope: pool.allocate(0, 0).unwrap(),
            open: None,
            piece: 1000,
        };
        let bytes: Vec<u8> = (0..2500u32).map(|n| n as u8).collect();
        for piece in bytes.chunks(700) {
            let mut rest = piece;
            while !rest.is_empty() {
                rest = &rest[segments.write(rest, 2500, &mut pool)..];
            }
        }
        let mut rest = segments.finish().take_continuation();
        let (mut lens, mut all) = (Vec::new(), Vec::new());
        while let Some(mut segment) = rest {
            rest = segment.take_continuation();
            assert!(segment.headroom() >= HEADROOM);
            lens.push(segment.len());
            all.extend_from_slice(segment.bytes());
        }
        assert_eq!((lens, all), (vec![1000, 1000, 500], bytes));
    }
}
