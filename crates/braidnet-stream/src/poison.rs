//! What a panic leaves behind, and what takes its place.
//!
//! A panic inside a perimeter may have left the bucket's state in any condition: it is *poisoned*. The processor catches the panic, be it one
//! of several in a turn, a fresh bucket takes the place of the poisoned one, whose modules are told of it, and the turn goes on with what
//! it was not inside of. What was on its way into the poisoned bucket's cores is gone with it; what had left them goes on.
//!
//! A shared bucket is marked while somebody is inside, under its lock. Whoever enters and finds the mark knows that who
//! was there before did not come out, and replaces the bucket before doing anything else: nobody works on what a panic left.
//!
//! A panic outside every perimeter is no bucket's affair, and is passed on.

use crate::bucket::Bucket;
use crate::cluster::ModuleSet;
use crate::context::Context;
use crate::module::{Direction, Key};
use crate::session::attend;
use braidnet_wire::time::Instant;
use core::panic::AssertUnwindSafe;
use std::panic::catch_unwind;

/// Puts a fresh bucket, with the state of these modules, in the place of a poisoned one.
#[cold]
pub(crate) fn replace(bucket: &mut Bucket, modules: ModuleSet, cx: &mut Context<'_>) {
    let fresh = Bucket::open(bucket.id, cx.stream, |module| modules.contains(module));
    let mut poisoned = core::mem::replace(bucket, fresh);
    // The wheels' entries are as they were.
    bucket.armed = poisoned.armed;
    bucket.perimeter = poisoned.perimeter;
    cx.bucket = Some(bucket.id);
    cx.deadline = Instant::MAX;
    let stream = cx.stream;
    for (module, code) in stream.modules() {
        if code.key() == Key::None || !modules.contains(module) {
            continue;
        }
        attend(cx, module, Direction::Down);
        // What a panic has left may make others: as much is told as can be.
        let (old, new) = (poisoned.state(module), bucket.state(module));
        let _ = catch_unwind(AssertUnwindSafe(|| code.poisoned(old, new, cx)));
    }
    bucket.deadline = cx.deadline;
    cx.bucket = None;
    for state in poisoned.states.drain(..) {
        let _ = catch_unwind(AssertUnwindSafe(|| drop(state)));
    }
}
