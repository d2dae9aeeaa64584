//! The life of a thread that has a processor of its own.

use crate::patience::Patience;
use crate::running::Idle;
use braidnet_stream::{Next, Processor};
use braidnet_sync::clock::Clock;
use braidnet_sync::group::Member;
use braidnet_wire::time::Instant;

/// Messages that a thread lets a processor do in one turn.
pub(crate) const BUDGET: usize = 256;

/// Turns the processor until the group is cancelled, and gives it back.
pub(crate) fn carry<P: Processor>(mut processor: P, mut member: Member, idle: Idle) -> P {
    let clock = Clock::shared();
    let mut patience = Patience::new(idle);
    let mut due = Instant::MAX;
    processor.begin();
    while member.brake.boundary() {
        let now = Instant::from_nanos(clock.now_nanos());
        match processor.turn(now, BUDGET) {
            Next::Again => patience.on_work(now),
            next => {
                // What a timer did is work as well.
                if due <= now {
                    patience.on_work(now);
                }
                due = match next {
                    Next::At(at) => at,
                    _ => Instant::MAX,
                };
                if !patience.lingers(now) {
                    processor.rest();
                    sleep(&processor, &mut member, next, now);
                }
            }
        }
    }
    processor
}

/// Sleeps until there is something to do. Announces first and looks once more, so that nothing that is left in between is
/// slept over.
fn sleep<P: Processor>(processor: &P, member: &mut Member, next: Next, now: Instant) {
    let at_most = match next {
        Next::Again => return,
        Next::At(at) => Some(at.since(now)),
        Next::Idle => None,
    };
    let announced = member.parker.announce();
    if processor.has_work() || member.brake.is_on() {
        announced.cancel();
        return;
    }
    match (processor.fd(), at_most) {
        (Some(fd), at_most) => {
            // What the system refuses to poll is asked again in the next turn.
            let _ = announced.park_on(&[fd], at_most);
        }
        (None, Some(at_most)) => {
            announced.park_timeout(at_most);
        }
        (None, None) => {
            announced.park();
        }
    }
}
