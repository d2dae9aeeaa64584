//! The working queues of a cluster: one per module, direction and stage, with a bit mask of those that hold work.
//!
//! They are laid out in the order in which a cluster serves them, lowest bit first: up through the modules from the
//! tail, then down from the head, then the two ends.

use crate::module::{Direction, ModuleId};
use braidnet_message::{Message, Run};

/// Most modules a stream can hold.
pub(crate) const MAX_MODULES: usize = 20;

/// One of the three functions of a module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    Before = 0,
    Core = 1,
    After = 2,
}

/// Which working queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueId(u8);

const DOWN: usize = 3 * MAX_MODULES;

impl QueueId {
    /// Messages that leave the stream at its tail, for the device.
    pub(crate) const TAIL: QueueId = QueueId(6 * MAX_MODULES as u8);
    /// Messages that leave the stream at its head, for the application.
    pub(crate) const HEAD: QueueId = QueueId(6 * MAX_MODULES as u8 + 1);
    /// All queues on the way down, the tail's among them, as a mask.
    pub(crate) const DOWNWARD: u128 =
        (u128::MAX >> (128 - 6 * MAX_MODULES - 1)) & !((1 << DOWN) - 1);
    pub(crate) const COUNT: usize = 6 * MAX_MODULES + 2;

    pub(crate) fn new(module: ModuleId, direction: Direction, stage: Stage) -> QueueId {
        let index = match direction {
            Direction::Up => 3 * module.index() + stage as usize,
            Direction::Down => DOWN + 3 * (MAX_MODULES - 1 - module.index()) + stage as usize,
        };
        QueueId(index as u8)
    }

    pub(crate) fn parts(self) -> (ModuleId, Direction, Stage) {
        let index = self.0 as usize;
        let stage = match index % 3 {
            0 => Stage::Before,
            1 => Stage::Core,
            _ => Stage::After,
        };
        if index < DOWN {
            (ModuleId((index / 3) as u8), Direction::Up, stage)
        } else {
            (
                ModuleId((MAX_MODULES - 1 - (index - DOWN) / 3) as u8),
                Direction::Down,
                stage,
            )
        }
    }

    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    pub(crate) const fn bit(self) -> u128 {
        1 << self.0
    }

    /// The lowest queue of a mask.
    pub(crate) fn lowest(mask: u128) -> Option<QueueId> {
        (mask != 0).then(|| QueueId(mask.trailing_zeros() as u8))
    }
}

/// The working queues.
pub(crate) struct Queues {
    runs: Vec<Run>,
    ready: u128,
}

impl Queues {
    pub(crate) fn new() -> Queues {
        Queues {
            runs: (0..QueueId::COUNT).map(|_| Run::new()).collect(),
            ready: 0,
        }
    }

    /// Which queues hold work.
    pub(crate) fn ready(&self) -> u128 {
        self.ready
    }

    pub(crate) fn push(&mut self, queue: QueueId, message: Message) {
        self.runs[queue.index()].push(message);
        self.ready |= queue.bit();
    }

    pub(crate) fn append(&mut self, queue: QueueId, run: &mut Run) {
        if run.is_empty() {
            return;
        }
        self.ready |= queue.bit();
        let target = &mut self.runs[queue.index()];
        if target.is_empty() {
            core::mem::swap(target, run);
        } else {
            target.append(run);
        }
    }

    /// Takes what the queue holds; give the emptied run back with [`Queues::restore`] so that its capacity stays.
    pub(crate) fn take(&mut self, queue: QueueId) -> Run {
        self.ready &= !queue.bit();
        core::mem::take(&mut self.runs[queue.index()])
    }

    pub(crate) fn restore(&mut self, queue: QueueId, run: Run) {
        debug_assert!(run.is_empty());
        let slot = &mut self.runs[queue.index()];
        if slot.is_empty() {
            *slot = run;
        }
    }

    pub(crate) fn len(&self, queue: QueueId) -> usize {
        self.runs[queue.index()].len()
    }

    pub(crate) fn run_mut(&mut self, queue: QueueId) -> &mut Run {
        &mut self.runs[queue.index()]
    }

    /// Brings the queue's bit in line after its run was changed through [`Queues::run_mut`].
    pub(crate) fn refresh(&mut self, queue: QueueId) {
        if self.runs[queue.index()].is_empty() {
            self.ready &= !queue.bit();
        } else {
            self.ready |= queue.bit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbering_is_a_bijection_and_serves_up_before_down() {
        let mut last = None;
        for direction in [Direction::Up, Direction::Down] {
            let mut modules: Vec<u8> = (0..MAX_MODULES as u8).collect();
            if direction == Direction::Down {
                modules.reverse();
            }
            for module in modules {
                for stage in [Stage::Before, Stage::Core, Stage::After] {
                    let queue = QueueId::new(ModuleId(module), direction, stage);
                    assert_eq!(queue.parts(), (ModuleId(module), direction, stage));
                    assert!(last.is_none_or(|last| queue.index() == last + 1));
                    last = Some(queue.index());
                }
            }
        }
        assert_eq!(last, Some(QueueId::TAIL.index() - 1));
        const { assert!(QueueId::COUNT <= 128) };
    }
}
