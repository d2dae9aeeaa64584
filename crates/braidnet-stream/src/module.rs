//! The module: protocol code that does not know who runs it.

use crate::bucket::BucketId;
use crate::context::Context;
use crate::dividing::Divisible;
use bitflags::bitflags;
#[cfg(doc)]
use braidnet_message::Message;
use braidnet_message::Run;
use core::any::Any;

/// Which way a message travels: up from the device (a module's read side) or down to it (its write side).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// From the tail towards the head.
    Up,
    /// From the head towards the tail.
    Down,
}

impl Direction {
    /// The other way.
    pub const fn reversed(self) -> Direction {
        match self {
            Direction::Up => Direction::Down,
            Direction::Down => Direction::Up,
        }
    }
}

/// A module's place in its stream, counted from the tail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ModuleId(pub(crate) u8);

impl ModuleId {
    /// Index of the module, 0 at the tail.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// What a module's state belongs to, and so what may not run at the same time.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Key {
    /// No state on the data path: the module has no core.
    None,
    /// One connection: the state lives in the connection's bucket.
    Connection,
    /// Two hosts (fragments): in the bucket that the pair hashes to.
    HostPair,
    /// A device (its neighbours): in [`BucketId::DEVICE`].
    Device,
    /// The whole stack: in [`BucketId::DEVICE`] as well, one owner writes.
    Global,
}

bitflags! {
    /// The functions that a module has; those it lacks are never called.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Stages: u16 {
        /// [`Module::before`] on the way up.
        const BEFORE_UP = 1;
        /// [`Module::core`] on the way up.
        const CORE_UP = 2;
        /// [`Module::after`] on the way up.
        const AFTER_UP = 4;
        /// [`Module::before`] on the way down.
        const BEFORE_DOWN = 8;
        /// [`Module::core`] on the way down.
        const CORE_DOWN = 16;
        /// [`Module::after`] on the way down.
        const AFTER_DOWN = 32;
        /// [`Module::settle`].
        const SETTLE = 64;
        /// [`Module::expire`].
        const EXPIRE = 128;
        /// Not a function but a permission: [`Module::core`] takes what comes up to it from order-free functions as it comes, not in the
        /// order in which it left the core below (PLP §4.2: some applications do not mind). Each message says where it
        /// belongs.
        const ANY_ORDER = 256;
    }
}

impl Stages {
    /// How many of the functions over runs these are.
    pub(crate) fn functions(self) -> usize {
        self.difference(Stages::SETTLE | Stages::EXPIRE | Stages::ANY_ORDER)
            .bits()
            .count_ones() as usize
    }
}

/// What a module keeps in one bucket. Any `Send` value will do; the module downcasts it.
pub trait State: Any + Send {}

impl<T: Any + Send> State for T {}

impl dyn State {
    /// The state as the type that the module put there.
    ///
    /// # Panics
    /// If the type is another: the cluster hands every module its own state, so this is our own fault.
    #[inline]
    pub fn of<T: State>(&mut self) -> &mut T {
        let any: &mut dyn Any = self;
        match any.downcast_mut() {
            Some(state) => state,
            None => unreachable!("a module was handed the state of another"),
        }
    }
}

/// Protocol code: link, IP, TCP, XDR, a cipher, an application.
///
/// Work comes as a [`Run`]. **What stays in the run goes on** in its direction, to the module's next function and then
/// to the neighbour; what the module takes out it owes an account of: handed up or down through the context, replied
/// with, kept in its state, or dropped under a name.
///
/// A run passes `before` (order-free, pure, repeatable: parse, checksum, decrypt), `core` (ordered, short, owns the
/// state of the run's bucket), `after` (order-free, pure: decode, copy out). `before` and `after` run outside every
/// perimeter, on any processor; `core` inside that of the bucket. Cores of neighbours with nothing order-free between
/// them run under one entry of the perimeter, which is over when nothing is left to do for the bucket; then
/// [`settle`](Module::settle) lets each module that worked send what the whole entry made necessary (one
/// acknowledgment for a run of segments, say).
///
/// What two processors carry away from one bucket, one after the other, may overtake each other in order-free functions. A core above these
/// gets it in the order in which it left all the same, but for one that has declined order
/// ([`Stages::ANY_ORDER`]). What an order-free function makes for a core belongs to the [bucket](Message::bucket) of what
/// it was made from.
pub trait Module: Send + Sync + 'static {
    /// Short name, unique in its stream: prefix of its counters.
    fn name(&self) -> &'static str;

    /// Which functions it has.
    fn stages(&self) -> Stages;

    /// What its state belongs to.
    fn key(&self) -> Key {
        Key::None
    }

    /// Names of its counters, drop reasons among them; [`Context::count`] and [`Context::drop`] take the index.
    fn counters(&self) -> &'static [&'static str] {
        &[]
    }

    /// What it can do in pieces, so that several processors may share in the work on one message; nothing by default.
    fn divisible(&self) -> Option<&dyn Divisible> {
        None
    }

    /// Makes its state for one bucket, when the bucket is made.
    fn open(&self, bucket: BucketId) -> Box<dyn State> {
        let _ = bucket;
        Box::new(())
    }

    /// The order-free part that comes first.
    fn before(&self, direction: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let _ = (direction, run, cx);
    }

    /// The ordered part. `run` holds messages of one bucket, in the order in which they entered.
    fn core(
        &self,
        state: &mut dyn State,
        direction: Direction,
        run: &mut Run,
        cx: &mut Context<'_>,
    ) {
        let _ = (state, direction, run, cx);
    }

    /// The order-free part that comes last.
    fn after(&self, direction: Direction, run: &mut Run, cx: &mut Context<'_>) {
        let _ = (direction, run, cx);
    }

    /// Called once at the end of an entry of the perimeter in which this module's core ran.
    fn settle(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        let _ = (state, cx);
    }

    /// Called inside the perimeter when a panic of some module has poisoned the bucket: `old` is the module's state as that left it, fit for
    /// finding out whom it concerns, and is dropped afterwards; `fresh`, made by [`open`](Module::open), takes its place. What
    /// kept connections resets them, and tells its neighbours, who may be elsewhere and not poisoned. A panic in here is the
    /// end of the telling and nothing else.
    fn poisoned(&self, old: &mut dyn State, fresh: &mut dyn State, cx: &mut Context<'_>) {
        let _ = (old, fresh, cx);
    }

    /// Called inside the perimeter when a time asked for with [`Context::wake_at`] has come. It may come early or for
    /// nothing, and must ask again for whatever is still to come.
    fn expire(&self, state: &mut dyn State, cx: &mut Context<'_>) {
        let _ = (state, cx);
    }
}
