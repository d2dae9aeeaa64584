//! Recording what passes through a device, as a pcapng file that Wireshark and tcpdump read.
//!
//! A [`Capture`] is a file; [`Capture::around`] wraps a device so that every packet it takes and gives is recorded with
//! its direction and the time in nanoseconds. Receivers and transmitters can be wrapped one by one with
//! [`Captured::new`].
//!
//! ```
//! use braidnet_device::capture::Capture;
//! use braidnet_device::{Capabilities, Device, memory};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let path = std::env::temp_dir().join(format!("braidnet-doc-{}.pcapng", std::process::id()));
//! let (near, far) = memory::wire(Capabilities::ip(1500), 256);
//! let capture = Capture::create(&path, 0)?;
//! let queues = Box::new(capture.around("near", near)).open()?;
//! capture.flush()?;
//! # std::fs::remove_file(path)?;
//! # Ok(())
//! # }
//! ```
//!
//! What it costs: on the path of the packets one read of the clock per run and two copies of what is recorded (with a
//! small snap length, of the headers only). Writing is a thread's of its own. Where the file's disk does not keep up,
//! packets pass unrecorded once 16 MiB wait ([`Capture::set_held_bytes`]); the file's last blocks and [`Capture::seen`] say how many. Nor does a full disk hold anybody up: what it
//! refuses is missing and counted likewise, and what comes when there is room again is recorded.
//!
//! # What becomes of packets
//!
//! A capture that [notes drops](Capture::note_drops) records a packet that is dropped once more, as it arrived, with a comment that names the reason, as in `dropped: tcp.tcp_checksum_wrong`: Wireshark
//! shows it, and finds all of them by `frame.comment`. Those packets lie on an interface of their own beside the device's, called as it is and `dropped`. Of segments that were joined and are dropped
//! together it is the first. What is dropped on its way down is not recorded so, nor what a device drops before anybody sees it: those are counted alone.
//!
//! # Files
//!
//! [`Capture::create_ring`] goes on from file to file, each complete by itself, and keeps the last ones.

mod arrivals;
mod destination;
mod files;
mod pcapng;
mod sink;

pub use files::Ring;
pub use pcapng::Direction;
pub use sink::Seen;

use crate::{
    Alarm, Capabilities, Counters, Device, DeviceError, Medium, QueuePair, Receiver, Transmitter,
};
use arrivals::Arrivals;
use braidnet_message::{Message, Pool, Run};
use braidnet_sync::parker::Unparker;
use destination::{Destination, Stream};
use files::Files;
use pcapng::PacketHeader;
use sink::Sink;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

/// Why a capture could not be made or written.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CaptureError {
    /// The file could not be made.
    #[error("the capture file {path} cannot be made: {source}")]
    Create {
        /// Where it was to lie.
        path: PathBuf,
        /// What the system said.
        source: Arc<io::Error>,
    },
    /// The thread that writes the file could not be started.
    #[error("no thread could be started to write the capture: {0}")]
    Thread(Arc<io::Error>),
    /// The file could not be written. What was to be is missing, and counted ([`Seen::lost`]).
    #[error("the capture is not whole, its file could not be written: {0}")]
    Write(Arc<io::Error>),
}

/// A pcapng file that any number of devices are recorded in. Handles are cheap to clone and share the file.
///
/// Recorded packets are written at the latest after a second, by [`flush`](Capture::flush), and when the last handle
/// and the last device around it are dropped.
#[derive(Clone)]
pub struct Capture {
    file: Arc<CaptureFile>,
}

struct CaptureFile {
    sink: Arc<Sink>,
    writer: Option<JoinHandle<()>>,
    /// Bytes recorded per packet at most.
    snaplen: usize,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
    /// Where drops are noted.
    arrivals: OnceLock<Arrivals>,
}

/// What the comment on a packet that was dropped begins with.
pub(crate) const DROPPED: &str = "dropped: ";

impl Capture {
    /// Makes the file at `path`, or empties it. At most `snaplen` bytes are recorded of each packet; 0: all.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Create`] and [`CaptureError::Thread`].
    pub fn create(path: impl AsRef<Path>, snaplen: usize) -> Result<Self, CaptureError> {
        Self::in_files(path.as_ref(), None, snaplen)
    }

    /// The same in files that follow each other, each complete by itself: for `packets.pcapng` they are called `packets_00001.pcapng`, `packets_00002.pcapng` and so on. One
    /// is begun where the next packet would make the last longer than the [ring](Ring) says, and no packet is missing there. What an earlier capture has left under
    /// these names is emptied as its number comes up.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Create`] and [`CaptureError::Thread`].
    pub fn create_ring(
        path: impl AsRef<Path>,
        ring: Ring,
        snaplen: usize,
    ) -> Result<Self, CaptureError> {
        Self::in_files(path.as_ref(), Some(ring), snaplen)
    }

    fn in_files(path: &Path, ring: Option<Ring>, snaplen: usize) -> Result<Self, CaptureError> {
        let files = Files::create(path, ring).map_err(|source| CaptureError::Create {
            path: path.to_path_buf(),
            source: Arc::new(source),
        })?;
        Self::to(files, snaplen, system_nanos)
    }

    /// The same to any writer (a pipe, a socket, memory), with the time from `clock`: nanoseconds since the Unix epoch.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Thread`].
    pub fn with_clock(
        writer: impl Write + Send + 'static,
        snaplen: usize,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<Self, CaptureError> {
        Self::to(Stream(writer), snaplen, clock)
    }

    fn to(
        destination: impl Destination + Send + 'static,
        snaplen: usize,
        clock: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<Self, CaptureError> {
        let mut header = Vec::new();
        pcapng::section_header(&mut header);
        let sink = Arc::new(Sink::new(header));
        let of_writer = sink.clone();
        let thread = thread::Builder::new()
            .name("braidnet-capture".to_string())
            .spawn(move || of_writer.write_to(destination))
            .map_err(|error| CaptureError::Thread(Arc::new(error)))?;
        let snaplen = if snaplen == 0 { usize::MAX } else { snaplen };
        Ok(Capture {
            file: Arc::new(CaptureFile {
                sink,
                writer: Some(thread),
                snaplen,
                clock: Box::new(clock),
                arrivals: OnceLock::new(),
            }),
        })
    }

    /// Wraps a device, named `name` in the file, which does without offloads then: what is recorded is what a wire would carry.
    pub fn around<D: Device>(&self, name: &str, mut device: D) -> Captured<D> {
        device.decline_offloads();
        let medium = device.capabilities().medium;
        let interface = self.interface(name, &medium);
        let notes_drops = self.file.arrivals.get().is_some();
        Captured {
            dropped: notes_drops.then(|| self.interface(&format!("{name} dropped"), &medium)),
            ..Captured::new(device, self, interface)
        }
    }

    /// Devices that it is [put around](Capture::around) from now on have an interface more, for packets that they received and that were [dropped](Capture::dropped). It costs
    /// one more copy of each packet that is received.
    pub fn note_drops(&self) {
        let _ = self.file.arrivals.set(Arrivals::default());
    }

    /// A message was dropped that begins at this address in memory, or did, for a reason that this module has a counter for: the packet that arrived there is recorded once more, with
    /// that as its comment. Of the packets of all devices the last 512 are known; what arrived before, or never, is not recorded.
    pub fn dropped(&self, address: usize, (module, reason): (&str, &str)) {
        let Some(arrivals) = self.file.arrivals.get() else {
            return;
        };
        let comment = format!("{DROPPED}{module}.{reason}");
        let mut block = Vec::new();
        let recorded = arrivals.find(address, |arrival| {
            let header = PacketHeader {
                interface: arrival.interface.0,
                nanos: (self.file.clock)(),
                direction: Direction::Inbound,
                length: arrival.length,
                snaplen: arrival.bytes.len(),
            };
            let bytes = [&arrival.bytes[..]].into_iter();
            pcapng::enhanced_packet(&mut block, header, bytes, Some(&comment));
            arrival.interface
        });
        if let Some(Interface(interface)) = recorded {
            self.file.sink.append(interface, &block, 1);
        }
    }

    /// Adds an interface to the file; several wrapped queues may share it.
    pub fn interface(&self, name: &str, medium: &Medium) -> Interface {
        let link_type = pcapng::link_type(medium);
        let snaplen = u32::try_from(self.file.snaplen).unwrap_or(0);
        let describe =
            |out: &mut Vec<u8>| pcapng::interface_description(out, name, link_type, snaplen);
        Interface(self.file.sink.add_interface(describe))
    }

    /// Waits until everything recorded so far is written.
    ///
    /// # Errors
    ///
    /// [`CaptureError::Write`], with the first failure since the file was made.
    pub fn flush(&self) -> Result<(), CaptureError> {
        self.file.sink.flush().map_err(CaptureError::Write)
    }

    /// So many bytes of recorded packets may wait to be written from now on: 16 MiB unless this says otherwise. What waits already is written all
    /// the same; what finds no room is not recorded, and counted ([`Seen::lost`]).
    pub fn set_held_bytes(&self, bytes: usize) {
        self.file.sink.set_held_bytes(bytes);
    }

    /// What every interface has seen so far, in the order they were added.
    pub fn seen(&self) -> Vec<Seen> {
        self.file.sink.seen()
    }
}

impl Drop for CaptureFile {
    fn drop(&mut self) {
        self.sink.close((self.clock)());
        if let Some(writer) = self.writer.take() {
            // Its only failure would be a panic of the writer given to it, which has been reported by then.
            let _ = writer.join();
        }
    }
}

/// An interface of a capture file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interface(u32);

/// The time of the system's clock; 0 before 1970, the largest after 2554.
fn system_nanos() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// A device, receiver or transmitter whose packets are recorded.
pub struct Captured<T> {
    inner: T,
    capture: Capture,
    interface: Interface,
    /// The interface for what is dropped, where that is noted.
    dropped: Option<Interface>,
    records: Records,
}

impl<T> Captured<T> {
    /// Records what passes through `inner` as packets of `interface`, which must be one of this capture.
    pub fn new(inner: T, capture: &Capture, interface: Interface) -> Self {
        Captured {
            inner,
            capture: capture.clone(),
            interface,
            dropped: None,
            records: Records::default(),
        }
    }

    /// Encodes messages, to be committed or not.
    fn encode<'a>(&mut self, messages: impl Iterator<Item = &'a Message>, direction: Direction) {
        self.records.clear();
        let file = &self.capture.file;
        let mut header = PacketHeader {
            interface: self.interface.0,
            nanos: (file.clock)(),
            direction,
            length: 0,
            snaplen: file.snaplen,
        };
        for message in messages {
            header.length = message.total_len();
            pcapng::enhanced_packet(&mut self.records.bytes, header, message.blocks(), None);
            self.records.ends.push(self.records.bytes.len());
        }
    }

    /// Hands the first `count` encoded packets to the file.
    fn commit(&mut self, count: usize) {
        let Some(&end) = count
            .checked_sub(1)
            .and_then(|last| self.records.ends.get(last))
        else {
            return;
        };
        let blocks = self.records.bytes.get(..end).unwrap_or_default();
        self.capture
            .file
            .sink
            .append(self.interface.0, blocks, count);
    }
}

/// Encoded packets, and where each ends. Kept from run to run, so that steady state allocates nothing.
#[derive(Default)]
struct Records {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Records {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

impl<R: Receiver> Receiver for Captured<R> {
    fn receive(&mut self, pool: &mut Pool, into: &mut Run, max: usize) -> usize {
        let before = into.len();
        let count = self.inner.receive(pool, into, max);
        if count > 0 {
            self.encode(into.iter().skip(before), Direction::Inbound);
            self.commit(count);
            let file = &self.capture.file;
            if let (Some(dropped), Some(arrivals)) = (self.dropped, file.arrivals.get()) {
                arrivals.keep(dropped, into.iter().skip(before), file.snaplen);
            }
        }
        count
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn has_waiting(&self) -> bool {
        self.inner.has_waiting()
    }

    fn wake_with(&mut self, unparker: Unparker) -> bool {
        self.inner.wake_with(unparker)
    }

    fn alarm(&self) -> Option<Alarm> {
        self.inner.alarm()
    }

    fn is_gone(&self) -> bool {
        self.inner.is_gone()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

impl<T: Transmitter> Transmitter for Captured<T> {
    /// Records what the device takes, whether it then sends or drops it: a stack's own view of what it sent.
    fn transmit(&mut self, run: &mut Run) {
        let before = run.len();
        if before == 0 {
            return;
        }
        self.encode(run.iter(), Direction::Outbound);
        self.inner.transmit(run);
        self.commit(before.saturating_sub(run.len()));
    }

    fn another(&self) -> Result<Box<dyn Transmitter>, DeviceError> {
        Ok(Box::new(Captured::new(
            self.inner.another()?,
            &self.capture,
            self.interface,
        )))
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.inner.fd()
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

impl<D: Device> Device for Captured<D> {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn devices(&self) -> Vec<Capabilities> {
        self.inner.devices()
    }

    fn decline_offloads(&mut self) {
        self.inner.decline_offloads();
    }

    fn open(self: Box<Self>) -> Result<Vec<QueuePair>, DeviceError> {
        let Captured {
            inner,
            capture,
            interface,
            dropped,
            ..
        } = *self;
        let queues = Box::new(inner).open()?;
        let wrap = |QueuePair {
                        receiver,
                        transmitter,
                    }| QueuePair {
            receiver: Box::new(Captured {
                dropped,
                ..Captured::new(receiver, &capture, interface)
            }),
            transmitter: Box::new(Captured::new(transmitter, &capture, interface)),
        };
        Ok(queues.into_iter().map(wrap).collect())
    }
}

#[cfg(test)]
mod tests;
