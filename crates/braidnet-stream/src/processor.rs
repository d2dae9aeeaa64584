//! The processor: whatever can be turned.

use braidnet_wire::time::Instant;
use std::os::fd::BorrowedFd;

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
    /// Called once before the first turn, on the thread that is going to make all turns: what is to lie in memory beside it, it can
    /// build there. Where turns are made now by one thread, now by another, it is not called.
    fn begin(&mut self) {}

    /// Does at most about `budget` messages' worth of work at time `now` and says what it wants next. It never blocks.
    fn turn(&mut self, now: Instant, budget: usize) -> Next;

    /// Whether others have left work for it: what whoever is about to sleep on its behalf asks once more.
    fn has_work(&self) -> bool {
        false
    }

    /// Whoever turns it is about to sleep on its behalf: it lets go of what others could use meanwhile.
    fn rest(&mut self) {}

    /// What becomes readable when the device has something for it; `None` if nothing ever tells.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

/// Several processors turned as one, one after the other.
impl<P: Processor> Processor for Vec<P> {
    fn begin(&mut self) {
        self.iter_mut().for_each(P::begin);
    }

    fn turn(&mut self, now: Instant, budget: usize) -> Next {
        self.iter_mut()
            .fold(Next::Idle, |next, part| next.sooner(part.turn(now, budget)))
    }

    fn has_work(&self) -> bool {
        self.iter().any(P::has_work)
    }

    fn rest(&mut self) {
        self.iter_mut().for_each(P::rest);
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.iter().find_map(P::fd)
    }
}

impl<P: Processor + ?Sized> Processor for Box<P> {
    fn begin(&mut self) {
        (**self).begin();
    }

    fn turn(&mut self, now: Instant, budget: usize) -> Next {
        (**self).turn(now, budget)
    }

    fn has_work(&self) -> bool {
        (**self).has_work()
    }

    fn rest(&mut self) {
        (**self).rest();
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        (**self).fd()
    }
}
