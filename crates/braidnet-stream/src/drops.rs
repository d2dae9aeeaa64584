//! Who is told of what is dropped.
//!
//! Every drop has a name, which is that of a counter, and a counter does not say which packet it was. Where a stream has a [`DropWatch`], that is told of each, on the processor
//! that drops, as it counts. By then the message may be gone, handed to an engine that did not want it, or be of its last layer only: so what it is known by is its
//! [`Trace`], where its first byte lay, and whoever saw the packet arrive knows what lies around that. A trace costs nothing to take, and without a watch a drop costs
//! one look whether there is one.

use braidnet_message::Message;
use core::fmt;
use std::sync::Arc;

/// Where the first byte of a message lies, or lay: what remains of it when it is gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Trace(usize);

impl Trace {
    /// A message's; one that is empty lies behind the header that was stripped last.
    #[inline]
    pub fn of(message: &Message) -> Trace {
        Trace(message.bytes().as_ptr().addr())
    }

    /// The address in memory.
    pub fn address(self) -> usize {
        self.0
    }
}

/// A message that has been dropped on its way up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dropped {
    /// Where it lay.
    pub trace: Trace,
    /// The module that dropped it.
    pub module: &'static str,
    /// The counter under which it did.
    pub reason: &'static str,
}

/// Told of every message that a module drops on its way up, by the name under which that is counted.
///
/// It is called by processors, perhaps inside of a bucket's perimeter, and has to be done soon: it waits for nobody who waits for a stack.
///
/// ```
/// use braidnet_stream::{DropWatch, StreamBuilder};
///
/// let mut stream = StreamBuilder::new();
/// stream.watch_drops(DropWatch::new(|dropped| println!("{}.{}", dropped.module, dropped.reason)));
/// ```
#[derive(Clone)]
pub struct DropWatch(Arc<dyn Fn(Dropped) + Send + Sync>);

impl DropWatch {
    /// This is told.
    pub fn new(tell: impl Fn(Dropped) + Send + Sync + 'static) -> DropWatch {
        DropWatch(Arc::new(tell))
    }

    pub(crate) fn tell(&self, dropped: Dropped) {
        (self.0)(dropped);
    }
}

impl fmt::Debug for DropWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DropWatch").finish_non_exhaustive()
    }
}
