//! The parker of a task that is carried by whatever thread its [roster](crate::roster) gives it to.

use core::fmt;

use super::{ANNOUNCED, AWAKE, Futex, ON_ROSTER, Shared, Unparker};
use crate::primitives::{Arc, Ordering, fence};
use crate::roster::Roster;
use crossbeam_utils::CachePadded;

/// What a task is parked with, by the carrier that has it at the moment; [`roster`](crate::roster) has the protocol.
///
/// It is not exclusive, as a [`Parker`](super::Parker) is, because a carrier puts the task's things in their place, where the next carrier finds
/// them, before it parks the task. Whoever does not carry the task gets its [`unparker`](TaskParker::unparker) only.
pub struct TaskParker {
    shared: Arc<Shared>,
}

impl TaskParker {
    pub(crate) fn new(roster: Arc<Roster>, task: u32) -> Self {
        let mut shared = Shared::on(CachePadded::new(Futex::new(AWAKE)));
        shared.roster = Some((roster, task));
        TaskParker {
            shared: Arc::new(shared),
        }
    }

    /// A handle that queues the task if it is idle.
    pub fn unparker(&self) -> Unparker {
        Unparker {
            shared: Arc::clone(&self.shared),
        }
    }

    /// Announces that the task is about to be idle. Look at every queue of it once more, then park it, or cancel.
    pub fn announce(&self) {
        self.shared.word.store(ANNOUNCED, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// The task goes on after all.
    pub fn cancel(&self) {
        self.shared.word.swap(AWAKE, Ordering::AcqRel);
    }

    /// Lets go of the task, until somebody unparks it; false if somebody has since the announcement, and it goes on.
    pub fn park(&self) -> bool {
        self.shared
            .word
            .compare_exchange(ANNOUNCED, ON_ROSTER, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

impl fmt::Debug for TaskParker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskParker").finish_non_exhaustive()
    }
}
