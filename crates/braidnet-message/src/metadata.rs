//! What a message carries beside its bytes.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::message::Message;
use crate::node::{Label, NOTE_WORDS, Place};

/// The type of a message (ASX §2.3): data, or news about it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Kind {
    /// Bytes of a stream or datagram.
    #[default]
    Data,
    /// A request, indication or parameter that stays in order with the data.
    Control,
    /// A control message that overtakes everything else.
    HighPriority,
}

/// Bytes of scratch that a message carries.
pub const NOTE_BYTES: usize = NOTE_WORDS * 8;

/// What lies in the head of the message. A fresh message has kind data and zero everywhere else; views and splits begin
/// with a copy of what their origin has, notes excepted.
impl Message {
    /// Data, control or high priority.
    #[inline]
    pub fn kind(&self) -> Kind {
        self.node().label.get().kind
    }

    /// Sets the kind.
    #[inline]
    pub fn set_kind(&mut self, kind: Kind) {
        let label = &self.node().label;
        label.set(Label {
            kind,
            ..label.get()
        });
    }

    /// The priority band in its queue: 0 is ordinary, higher is served first.
    #[inline]
    pub fn band(&self) -> u8 {
        self.node().label.get().band
    }

    /// Sets the priority band.
    #[inline]
    pub fn set_band(&mut self, band: u8) {
        let label = &self.node().label;
        label.set(Label {
            band,
            ..label.get()
        });
    }

    /// The index of the bucket that the message's connection lies in.
    #[inline]
    pub fn bucket(&self) -> u16 {
        self.node().label.get().bucket
    }

    /// Sets the bucket.
    #[inline]
    pub fn set_bucket(&mut self, bucket: u16) {
        let label = &self.node().label;
        label.set(Label {
            bucket,
            ..label.get()
        });
    }

    /// The connection, as the owner of the connection table names it: found once at entry and carried (PPF §4).
    #[inline]
    pub fn connection(&self) -> u64 {
        self.node().place.get().connection
    }

    /// Sets the connection.
    #[inline]
    pub fn set_connection(&mut self, connection: u64) {
        let place = &self.node().place;
        place.set(Place {
            connection,
            ..place.get()
        });
    }

    /// The offset in the stream, or the position in the window, of the message's first byte.
    #[inline]
    pub fn position(&self) -> u64 {
        self.node().place.get().position
    }

    /// Sets the position.
    #[inline]
    pub fn set_position(&mut self, position: u64) {
        let place = &self.node().place;
        place.set(Place {
            position,
            ..place.get()
        });
    }

    /// The number under which the message rejoins its order (PLP §4.2).
    #[inline]
    pub fn ticket(&self) -> u64 {
        self.node().place.get().ticket
    }

    /// Sets the ticket.
    #[inline]
    pub fn set_ticket(&mut self, ticket: u64) {
        let place = &self.node().place;
        place.set(Place {
            ticket,
            ..place.get()
        });
    }

    /// A copy of the note: what a module's order-free part has left to its ordered part.
    ///
    /// `T` is at most [`NOTE_BYTES`] long and aligned to at most 8 bytes; anything else does not compile. A fresh message
    /// has whatever was noted last in its memory: read only what was [set](Message::set_note).
    ///
    /// ```
    /// # use braidnet_message::{Arena, Pool};
    /// # let mut pool = Pool::new(&Arena::new(1 << 20));
    /// # let mut message = pool.allocate(0, 64).unwrap();
    /// message.set_note([1u32, 2, 3]);
    /// assert_eq!(message.note::<[u32; 3]>(), [1, 2, 3]);
    /// ```
    ///
    /// ```compile_fail
    /// # use braidnet_message::{Arena, Pool};
    /// # let mut pool = Pool::new(&Arena::new(1 << 20));
    /// # let mut message = pool.allocate(0, 64).unwrap();
    /// message.set_note([0u64; 15]);
    /// ```
    #[inline]
    pub fn note<T: FromBytes + Immutable + KnownLayout>(&self) -> T {
        const { fits::<T>() };
        let notes = self.node().notes.get();
        // SAFETY: the words are initialised, aligned to 8, and long enough (checked above); any bytes are a `T`. Only the
        // message's holder uses them.
        unsafe { notes.cast::<T>().read() }
    }

    /// The note as a `T`, where it lies.
    #[inline]
    pub fn note_ref<T: FromBytes + Immutable + KnownLayout>(&self) -> &T {
        const { fits::<T>() };
        let notes = self.node().notes.get();
        // SAFETY: as in `note`; whoever writes the words borrows the message mutably.
        unsafe { &*notes.cast::<T>() }
    }

    /// The note in place, as for [`note`](Message::note).
    #[inline]
    pub fn note_mut<T: FromBytes + IntoBytes + KnownLayout>(&mut self) -> &mut T {
        const { fits::<T>() };
        let notes = self.node().notes.get();
        // SAFETY: as in `note`; the result borrows the message, and leaves initialised bytes.
        unsafe { &mut *notes.cast::<T>() }
    }

    /// Leaves a note, over the last one.
    #[inline]
    pub fn set_note<T: IntoBytes + Immutable + KnownLayout>(&mut self, note: T) {
        const { fits::<T>() };
        let notes = self.node().notes.get();
        // SAFETY: long enough and aligned (checked above), and the message's holder alone uses them. A `T` has no
        // padding, so the words stay initialised.
        unsafe { notes.cast::<T>().write(note) };
    }

    /// Forgets all that is known beside the bytes, the sums of all blocks with it; notes stay, as in a fresh message.
    #[inline]
    pub fn forget(&mut self) {
        self.node().clear_metadata();
        for block in self.nodes() {
            block.clear_sum();
        }
    }

    /// Copies everything but bytes, counts and sums from `from`.
    pub(crate) fn copy_head(&mut self, from: &Message) {
        self.node().copy_metadata(from.node());
        self.set_note(from.note::<[u64; NOTE_WORDS]>());
    }
}

const fn fits<T>() {
    assert!(size_of::<T>() <= NOTE_BYTES, "a note has at most 112 bytes");
    assert!(
        align_of::<T>() <= align_of::<u64>(),
        "a note is aligned to at most 8 bytes"
    );
}
