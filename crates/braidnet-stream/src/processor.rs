//! The processor: whatever can be turned.

use braidnet_wire::time::Instant;

/// What a processor wants after a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// There is more to do: turn again.
    Again,
    /// Nothing to do before this time, unless something arrives.
    At(Instant),
    /// Nothing to do until something arrives.
    Idle,
}

impl Next {
    /// The more urgent of two.
    pub fn sooner(self, other: Next) -> Next {
        match (self, other) {
            (Next::Again, _) | (_, Next::Again) => Next::Again,
            (Next::At(a), Next::At(b)) => Next::At(a.min(b)),
            (Next::At(at), Next::Idle) | (Next::Idle, Next::At(at)) => Next::At(at),
            (Next::Idle, Next::Idle) => Next::Idle,
        }
    }
}

/// Something that carries protocol work forward when it is turned. A spawned thread, a user's own loop, a simulator and
/// a model checker are equal callers; none of them is known here.
pub trait Processor: Send {
    /// Does at most about `budget` messages' worth of work at time `now` and says what it wants next. It never blocks.
    fn turn(&mut self, now: Instant, budget: usize) -> Next;
}
