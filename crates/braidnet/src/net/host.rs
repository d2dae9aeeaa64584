//! A stack with sockets that runs by itself.
//!
//! # Who turns it
//!
//! A [`HostProcessor`], carried as those of servers are: named, placed and idle as [`RunningConfig`] says, asleep on the device and on a parker.
//! Other threads use the sockets behind their lock, which the processor has for one turn at a time: at most
//! [`StackConfig::batch`] packets, and what came of them. What they ask for waits for the next turn. Only where the processor sleeps, or is about to, the first
//! of them wakes it, by one system call; [`Shared::rest`] has the protocol.
//!
//! Or a [`Driver`](super::Driver), carried by a task of a runtime; or whoever has asked for it ([`Host::turned`]). [Which to choose](super#who-turns-it).
//!
//! # How it ends
//!
//! Handles and sockets hold on to the host, the processor to the sockets alone. The last to go waits until peers have
//! acknowledged what was sent, then ends the processor: nothing else could send it again. Where that is not to wait, as it is dropped by the processor itself
//! or on a thread of a runtime of tokio's, whose other tasks it would hold up, a thread is made that does. A processor that is gone, by that or by a panic, leaves
//! the sockets [down](crate::socket::SocketError::Down).

use crate::config::StackConfig;
use crate::error::StackError;
use crate::limits::Limits;
use crate::socket::{Shared, Sockets};
use braidnet_device::Device;
use braidnet_inet::LimitError;
use braidnet_message::Message;
use braidnet_process::{Running, RunningConfig, Suspended};
use braidnet_stream::{Next, Processor};
use braidnet_sync::parker::Unparker;
use braidnet_wire::time::{Duration, Instant};
use core::cell::Cell;
use core::mem;
use core::task::Waker;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak, mpsc};
use std::task::Wake;
use std::thread;

/// How long the last handle waits for peers to acknowledge what was sent.
pub(super) const CLOSING_FOR: Duration = Duration::from_secs(2);

/// A stack with sockets on a device, turned by a thread of its own, by a [task](Host::driven), or by whoever [asked for that](Host::turned). Cheap to clone: a
/// clone is another handle on the same host.
///
/// With the last handle and the last of its sockets it goes. Whoever drops that waits, two seconds at most, until peers have
/// acknowledged what was sent and its end; what is left then is lost, and its peers find out by themselves. Connections that have nothing on its way are not
/// waited for.
///
/// With the feature `tokio`, nobody waits where a runtime of tokio's is entered: a thread of its own, called `braidnet-ends`, does. A process that ends
/// meanwhile loses what is left: keep a handle that is dropped behind the runtime to be sure.
#[derive(Clone)]
pub struct Host {
    inner: Arc<Inner>,
}

pub(super) struct Inner {
    shared: Arc<Shared>,
    /// None where somebody else turns it.
    running: Option<Running<HostProcessor>>,
}

impl Host {
    /// A host on `device`, on a thread that is called `braidnet-host-0`.
    ///
    /// # Errors
    /// If the configuration makes no sense, the device cannot be opened, or the system gives no thread.
    pub fn start(config: &StackConfig, device: impl Device) -> Result<Host, StackError> {
        let running = RunningConfig {
            name: "braidnet-host".to_owned(),
            ..RunningConfig::default()
        };
        Host::start_with(config, device, &running)
    }

    /// The same on a thread that is named, placed and idle like this.
    ///
    /// # Errors
    /// As [`start`](Host::start), or if the system refuses the processor.
    pub fn start_with(
        config: &StackConfig,
        device: impl Device,
        running: &RunningConfig,
    ) -> Result<Host, StackError> {
        let suspended = Suspended::spawn(running, 1)?;
        let mut processor = HostProcessor::new(config, device)?;
        for unparker in suspended.wakers() {
            processor.wake_with(unparker.clone());
        }
        let shared = processor.shared.clone();
        let running = Some(suspended.start(vec![processor]));
        Ok(Host {
            inner: Arc::new(Inner { shared, running }),
        })
    }

    /// The same without a thread, for whoever turns it himself, as a simulation does. Nothing happens between turns.
    ///
    /// # Errors
    /// If the configuration makes no sense, or the device cannot be opened.
    pub fn turned(
        config: &StackConfig,
        device: impl Device,
    ) -> Result<(Host, HostProcessor), StackError> {
        let processor = HostProcessor::new(config, device)?;
        let inner = Inner {
            shared: processor.shared.clone(),
            running: None,
        };
        let host = Host {
            inner: Arc::new(inner),
        };
        Ok((host, processor))
    }

    /// What is gone with the last handle and the last socket.
    pub(super) fn downgrade(&self) -> Weak<Inner> {
        Arc::downgrade(&self.inner)
    }

    /// Its sockets, by the verbs of POSIX. Those that are opened there are for their owner to close.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.inner.shared
    }

    /// An empty message for at most `size` bytes to [write](super::TcpStream::write_message), from the host's memory, which it has until it is dropped or its bytes are
    /// acknowledged. Best is what goes into one segment ([`TcpInfo::smss`](braidnet_tcp::TcpInfo::smss)). Whoever needs many asks
    /// [`Sockets::allocate`] for them in one visit to the [sockets](Host::shared).
    ///
    /// # Errors
    /// `OutOfMemory` if the host's is used up ([`StackConfig::memory_bytes`]), but for what is kept to hear of what frees it; `InvalidInput` if no buffer is so long.
    pub fn allocate(&self, size: usize) -> io::Result<Message> {
        let allocated = self.shared().with(|sockets| sockets.allocate(size));
        allocated.map_err(io::Error::from)
    }

    /// Every counter that is not zero, as [`Sockets::counters`].
    pub fn counters(&self) -> BTreeMap<String, u64> {
        self.shared().with(|sockets| sockets.counters())
    }

    /// The stack may hold so much from now on.
    ///
    /// # Errors
    /// If a limit is not in its range; none is changed then.
    pub fn set_limits(&self, limits: &Limits) -> Result<(), LimitError> {
        self.shared().with(|sockets| sockets.set_limits(limits))
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let Some(running) = self.running.take() else {
            // Whoever drives it may have been waiting for that.
            return self.shared.with(Sockets::ask_for_turn);
        };
        // A waker that had the last handle, called by the very processor: it cannot wait for itself.
        let is_processor = IS_PROCESSOR.get();
        if !is_processor && !is_on_runtime() {
            return end(running, &self.shared);
        }
        let shared = self.shared.clone();
        let (hand_over, handed_over) = mpsc::channel();
        let ends = move || handed_over.recv().map(|running| end(running, &shared));
        let thread = thread::Builder::new().name("braidnet-ends".to_owned());
        match thread.spawn(ends) {
            // It waits for just that.
            Ok(_) => drop(hand_over.send(running)),
            // The system has no thread left. The processor ends with this turn, and what is left is lost.
            Err(_) if is_processor => {
                running.cancel();
                mem::forget(running);
            }
            Err(_) => end(running, &self.shared),
        }
    }
}

/// Waits until peers have acknowledged what was sent, within bounds, and for the processor to end.
fn end(running: Running<HostProcessor>, shared: &Shared) {
    if !running.has_finished_one() {
        shared.wait_until_sent(CLOSING_FOR);
    }
}

/// Whether waiting here would hold up a runtime's tasks.
#[cfg(feature = "tokio")]
fn is_on_runtime() -> bool {
    ::tokio::runtime::Handle::try_current().is_ok()
}

#[cfg(not(feature = "tokio"))]
const fn is_on_runtime() -> bool {
    false
}

thread_local! {
    /// The calling thread does what the processor of some host has to do.
    static IS_PROCESSOR: Cell<bool> = const { Cell::new(false) };
}

/// Has the calling thread be a processor's until it is dropped.
struct AsProcessor {
    was_before: bool,
}

impl AsProcessor {
    fn enter() -> AsProcessor {
        AsProcessor {
            was_before: IS_PROCESSOR.replace(true),
        }
    }
}

impl Drop for AsProcessor {
    fn drop(&mut self) {
        IS_PROCESSOR.set(self.was_before);
    }
}

/// What turns a [`Host`]: a processor, for a thread of its own or for whoever [asked for it](Host::turned). Dropped, it leaves the
/// sockets [down](crate::socket::SocketError::Down).
///
/// Before sleeping, ask [`has_work`](Processor::has_work) once more, or, with a task's waker, [`Shared::rest`]; sleep on
/// [`fd`](Processor::fd), or [wake with](HostProcessor::wake_with) an unparker.
pub struct HostProcessor {
    pub(super) shared: Arc<Shared>,
    /// The device's, as that is behind the lock.
    fd: Option<OwnedFd>,
    /// Nothing arrives any more, or nobody would look at it.
    is_gone: bool,
    /// Unparks who turns it.
    driver: Option<Waker>,
}

/// Wakes a thread, or whatever else is parked.
struct Unparks(Unparker);

impl Wake for Unparks {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

impl HostProcessor {
    fn new(config: &StackConfig, device: impl Device) -> Result<HostProcessor, StackError> {
        let mut sockets = Sockets::new(config, device)?;
        let fd = sockets.stack().device_fd();
        let fd = fd.map(|fd| fd.try_clone_to_owned()).transpose();
        let fd = fd.map_err(StackError::Descriptor)?;
        Ok(HostProcessor {
            shared: Arc::new(Shared::new(sockets)),
            fd,
            is_gone: false,
            driver: None,
        })
    }

    /// Has `unparker` called when something is asked for that the next turn has to look after, and has been told that
    /// it [has no work](Processor::has_work); and when packets arrive, if the device does not say so by its [`fd`](Processor::fd). Before the other end
    /// of a device in memory is used.
    pub fn wake_with(&mut self, unparker: Unparker) {
        let waker = Waker::from(Arc::new(Unparks(unparker.clone())));
        self.driver = Some(waker);
        self.shared
            .with(|sockets| sockets.stack().wake_with(unparker));
    }
}

impl Processor for HostProcessor {
    fn turn(&mut self, now: Instant, _budget: usize) -> Next {
        let _entered = AsProcessor::enter();
        self.shared.turn(now)
    }

    fn has_work(&self) -> bool {
        let _entered = AsProcessor::enter();
        match &self.driver {
            Some(driver) => !self.shared.rest(driver),
            None => self.shared.with(|sockets| sockets.has_work()),
        }
    }

    fn rest(&mut self) {
        let _entered = AsProcessor::enter();
        self.is_gone = !self.shared.with(Sockets::rest);
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        // It would stay readable for ever.
        let fd = self.fd.as_ref().filter(|_| !self.is_gone);
        fd.map(AsFd::as_fd)
    }
}

impl Drop for HostProcessor {
    fn drop(&mut self) {
        let _entered = AsProcessor::enter();
        self.shared.go_down();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braidnet_device::{Capabilities, memory};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Says whether it is called by a processor, and panics then.
    struct Asks(AtomicBool);

    impl Wake for Asks {
        fn wake(self: Arc<Self>) {
            self.0.store(IS_PROCESSOR.get(), Ordering::Relaxed);
            panic!("planted");
        }
    }

    /// Whoever drops the last handle in a waker must know that he cannot wait, and nobody else be taken for a processor.
    #[test]
    fn a_thread_is_a_processor_as_long_as_it_acts_for_one() {
        use crate::socket::{Readiness, Waiter};
        type Act = fn(&mut Option<HostProcessor>, Instant);
        let acts: [Act; 2] = [
            |processor, now| {
                let processor = processor.as_mut().expect("there");
                processor.turn(now, 1);
            },
            |processor, _| drop(processor.take()),
        ];
        for act in acts {
            let (here, _there) = memory::wire(Capabilities::ip(1500), 64);
            let config = StackConfig::new([10, 0, 0, 1].into());
            let (host, processor) = Host::turned(&config, here).expect("a host");
            let shared = host.shared();
            let call = shared.with(Sockets::socket).expect("room");
            let nobody = ([10, 0, 0, 2], 7).into();
            let begun = shared.with(|sockets| sockets.connect(call, nobody));
            assert!(begun.is_err(), "in progress");
            let mut processor = Some(processor);
            let early = processor.as_mut().expect("there");
            early.turn(Instant::from_millis(1), 1);
            let asks = Arc::new(Asks(AtomicBool::new(false)));
            let waker = Waker::from(asks.clone());
            let mut waiter = Waiter::new(shared.clone(), call);
            let mut cx = core::task::Context::from_waker(&waker);
            let polled = waiter.poll(Readiness::WRITABLE, &mut cx, |sockets| {
                sockets.send(call, b"x")
            });
            assert!(polled.is_pending());
            // Nobody answers for so long that the opening is given up.
            let mut panicked = false;
            for seconds in 1..=300 {
                let now = Instant::from_millis(seconds * 1000);
                let done = catch_unwind(AssertUnwindSafe(|| act(&mut processor, now)));
                panicked |= done.is_err();
            }
            assert!(panicked && asks.0.load(Ordering::Relaxed));
            assert!(!IS_PROCESSOR.get());
        }
    }
}
