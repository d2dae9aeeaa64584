//! Services that run to completion on the stack's own processors.
//!
//! A [`Service`] makes a [`Session`] for every connection to its port. A session lives in its connection's bucket: its
//! methods run inside the bucket's perimeter, on whichever processor that is, one at a time, and must not block. What is
//! slow (files, other services) it gives away with [`Io::ticket`] and gets back in [`Session::job`].
//!
//! | what | where |
//! |---|---|
//! | what a service is, and what its sessions can do | here |
//! | services that decline order | [`pieces`] |
//! | the module that TCP's services are, and what they keep in a bucket | [`module`], [`sessions`] |
//! | services over UDP, and their module | [`datagrams`] |

mod datagrams;
mod module;
mod pieces;
mod sessions;

pub use datagrams::DatagramService;
pub(crate) use datagrams::Datagrams;
pub(crate) use module::Services;
pub use pieces::Piece;

use braidnet_inet::HEADROOM;
use braidnet_message::{Kind, Message, Pool, Scarcity};
use braidnet_stream::{ConnectionId, Context, Verb};
use braidnet_wire::address::Tuple;
use braidnet_wire::time::Instant;
use sessions::Slot;

/// Something that answers connections to a port.
pub trait Service: Send + Sync + 'static {
    /// A session for a connection that has just been established.
    fn open(&self, tuple: &Tuple) -> Box<dyn Session>;

    /// Whether it declines order (PLP §4.2): then the bytes of its connections come to [`piece`](Service::piece) and not to
    /// [`Session::data`]. It is asked for each connection, before [`open`](Service::open).
    fn declines_order(&self) -> bool {
        false
    }

    /// Bytes of a stream of a service that has declined order: each once, with its place in the stream.
    ///
    /// It is called outside every perimeter, on whichever processor has the bytes: several pieces at a time, in no order, even of one
    /// connection. So under [`Architecture::Message`](crate::Architecture::Message) and [`Braid`](crate::Architecture::Braid) nobody waits
    /// for a turn. The window is given back when a piece is on its way here, and everything else is told to the session:
    /// [`Session::end_of_data`] may come before the last pieces have, and [`Io::received`] says there how many bytes they have
    /// in all.
    ///
    /// A panic in here is the processor's end, as in any order-free function.
    ///
    /// ```
    /// use braidnet::wire::address::Tuple;
    /// use braidnet::{Io, Piece, Service, Session};
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU64, Ordering};
    ///
    /// /// Sums bytes, each times its place: in which order does not matter.
    /// struct Sum(Arc<AtomicU64>);
    /// struct Quiet;
    ///
    /// impl Service for Sum {
    ///     fn open(&self, _: &Tuple) -> Box<dyn Session> {
    ///         Box::new(Quiet)
    ///     }
    ///
    ///     fn declines_order(&self) -> bool {
    ///         true
    ///     }
    ///
    ///     fn piece(&self, piece: &Piece<'_>) {
    ///         let bytes = piece.blocks().flatten();
    ///         let sum = bytes.zip(piece.offset()..).map(|(byte, place)| u64::from(*byte).wrapping_mul(place));
    ///         self.0.fetch_add(sum.fold(0, u64::wrapping_add), Ordering::Relaxed);
    ///     }
    /// }
    ///
    /// impl Session for Quiet {
    ///     fn data(&mut self, _: braidnet::message::Message, _: &mut Io<'_, '_>) {
    ///         unreachable!("the service has declined order")
    ///     }
    /// }
    /// ```
    fn piece(&self, piece: &Piece<'_>) {
        let _ = piece;
    }
}

/// One connection's side of a service.
///
/// A session that panics poisons its bucket: all connections of the bucket are reset, and their sessions dropped, since nobody knows how far
/// any of them got. Other buckets, and the processor, go on (`services.poisoned` counts).
///
/// The peer may send as much as the window lets it until [`Io::took`] says that the application has done with what came:
/// a session that does not take slows its peer down, and nothing else. When the connection is gone the session is dropped.
pub trait Session: Send {
    /// The connection is established.
    fn connected(&mut self, io: &mut Io<'_, '_>) {
        let _ = io;
    }

    /// The next bytes of the stream, in order.
    fn data(&mut self, message: Message, io: &mut Io<'_, '_>);

    /// More can be sent than before.
    fn space(&mut self, io: &mut Io<'_, '_>) {
        let _ = io;
    }

    /// The peer has sent everything it will.
    fn end_of_data(&mut self, io: &mut Io<'_, '_>) {
        io.close();
    }

    /// What was given away with [`Io::ticket`] has come back.
    fn job(&mut self, message: Message, io: &mut Io<'_, '_>) {
        let _ = (message, io);
    }

    /// The time asked for with [`Io::wake_at`] has come. It is asked for anew each time.
    fn wake(&mut self, io: &mut Io<'_, '_>) {
        let _ = io;
    }

    /// The stack is about to stop: finish what is being done. What is not closed some time later is reset.
    fn stopping(&mut self, io: &mut Io<'_, '_>) {
        let _ = io;
    }
}

/// What a session can do to its connection.
pub struct Io<'a, 'c> {
    slot: &'a mut Slot,
    cx: &'a mut Context<'c>,
}

impl Io<'_, '_> {
    /// Both ends of the connection.
    pub fn tuple(&self) -> &Tuple {
        &self.slot.tuple
    }

    /// The time of this turn.
    pub fn now(&self) -> Instant {
        self.cx.now()
    }

    /// Bytes that can be sent now.
    ///
    /// What the peer acknowledges is given back in quarters of the send buffer: more than three quarters come free sooner or
    /// later, all of it perhaps never.
    pub fn space(&self) -> u64 {
        self.slot.space
    }

    /// Bytes that go into one segment. For so many there is [`space`](Io::space) sooner or later.
    pub fn mss(&self) -> usize {
        self.slot.mss as usize
    }

    /// The best size of a long message to send, in bytes: a whole number of segments of [`mss`](Io::mss) bytes, one, or where the device takes several at once as many of
    /// them. For so many bytes there is [`space`](Io::space) sooner or later.
    pub fn piece(&self) -> usize {
        self.slot.piece as usize
    }

    /// An empty message for at most `size` bytes to send, with [`HEADROOM`] in front; `None` if the stack's memory is used
    /// up, but for what is kept to hear of what frees it. There may be one for [`mss`](Io::mss) bytes where there is none for more.
    pub fn allocate(&mut self, size: usize) -> Option<Message> {
        let pool = self.cx.pool();
        if pool.scarcity() != Scarcity::Ample {
            return None;
        }
        match size > self.slot.mss as usize {
            // Nobody else need be refused for want of long ones.
            true => pool.allocate_spare(HEADROOM, size),
            false => pool.allocate(HEADROOM, size),
        }
    }

    /// The processor's buffers.
    pub fn pool(&mut self) -> &mut Pool {
        self.cx.pool()
    }

    /// Sends a message as it is, without copying.
    ///
    /// # Errors
    /// Hands it back if there is not [`space`](Io::space) for all of it, or if the session has closed. For a message longer
    /// than [`piece`](Io::piece), as one received may be, there may never be: split it.
    pub fn send(&mut self, mut message: Message) -> Result<(), Message> {
        let len = message.total_len() as u64;
        if self.slot.closing || len > self.slot.space {
            return Err(message);
        }
        self.slot.space -= len;
        message.set_kind(Kind::Data);
        message.set_connection(self.slot.id.0);
        self.cx.down(message);
        Ok(())
    }

    /// Sends a copy of `bytes`, as many as there is space and memory for; how many.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        let (mut written, mut most) = (0, self.piece());
        while written < bytes.len() {
            let piece = (bytes.len() - written)
                .min(most)
                .min(self.slot.space as usize);
            let Some(mut message) = (piece > 0).then(|| self.allocate(piece)).flatten() else {
                if piece > self.mss() {
                    // Where there is no long buffer there may be a short one.
                    most = self.mss();
                    continue;
                }
                break;
            };
            message.extend_from_slice_summed(&bytes[written..written + piece]);
            if self.send(message).is_err() {
                break;
            }
            written += piece;
        }
        written
    }

    /// Says that `bytes` received bytes have been dealt with, so that the peer may send as many more.
    pub fn took(&mut self, bytes: usize) {
        self.slot.taken += bytes as u64;
    }

    /// Bytes that have been handed to [`Service::piece`], or are on their way there; none, unless the service has declined order.
    pub fn received(&self) -> u64 {
        self.slot.received
    }

    /// Sends no more; what was sent still goes out. Receiving goes on.
    pub fn close(&mut self) {
        if !core::mem::replace(&mut self.slot.closing, true) {
            self.slot.asks = Some(Verb::Close);
        }
    }

    /// Resets the connection.
    pub fn abort(&mut self) {
        self.slot.closing = true;
        self.slot.asks = Some(Verb::Abort);
    }

    /// Asks for [`Session::wake`] at `at` or soon after, in place of what was asked for before.
    pub fn wake_at(&mut self, at: Instant) {
        self.slot.wake_at = at;
        self.cx.wake_at(at);
    }

    /// What work that is done elsewhere on the session's behalf must carry to come back to it.
    pub fn ticket(&self) -> Ticket {
        Ticket {
            connection: self.slot.id,
        }
    }
}

/// Names the session that a piece of work was done for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ticket {
    pub(crate) connection: ConnectionId,
}
