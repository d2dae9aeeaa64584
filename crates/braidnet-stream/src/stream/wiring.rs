//! Which function comes after which.

use super::Step;
use crate::module::{Direction, ModuleId, Stages};
use crate::queues::{QueueId, Stage};

/// Numbers the functions that modules have, in the order in which they are served.
fn number(stages: &[Stages]) -> Vec<Step> {
    let up = (0..stages.len()).map(|module| (module, Direction::Up));
    let down = (0..stages.len())
        .rev()
        .map(|module| (module, Direction::Down));
    let mut steps = Vec::new();
    for (module, direction) in up.chain(down) {
        for stage in [Stage::Before, Stage::Core, Stage::After] {
            if stages[module].contains(stage_bits(direction)[stage as usize]) {
                steps.push(Step {
                    module: ModuleId(module as u8),
                    direction,
                    stage,
                });
            }
        }
    }
    steps
}

/// What routes are computed from.
pub(super) struct Wiring<'a> {
    pub(super) steps: Vec<Step>,
    links: &'a [(ModuleId, ModuleId)],
}

impl<'a> Wiring<'a> {
    /// Of modules with these functions, linked so.
    pub(super) fn new(stages: &[Stages], links: &'a [(ModuleId, ModuleId)]) -> Wiring<'a> {
        Wiring {
            steps: number(stages),
            links,
        }
    }

    /// The queue of one function, if the module has it.
    pub(super) fn queue(
        &self,
        module: ModuleId,
        direction: Direction,
        stage: Stage,
    ) -> Option<QueueId> {
        self.steps
            .iter()
            .position(|step| {
                (step.module, step.direction, step.stage) == (module, direction, stage)
            })
            .map(|index| QueueId(index as u8))
    }

    /// Where the links of `module` in this direction lead.
    pub(super) fn beyond(&self, module: ModuleId, direction: Direction) -> Vec<QueueId> {
        let neighbours: Vec<ModuleId> = self
            .links
            .iter()
            .filter_map(|&(below, above)| match direction {
                Direction::Up if below == module => Some(above),
                Direction::Down if above == module => Some(below),
                _ => None,
            })
            .collect();
        if neighbours.is_empty() {
            return vec![match direction {
                Direction::Up => QueueId::HEAD,
                Direction::Down => QueueId::TAIL,
            }];
        }
        neighbours
            .into_iter()
            .map(|neighbour| self.entry(neighbour, direction))
            .collect()
    }

    /// Where a message enters `module`: its first function in this direction, or the neighbour beyond if it has none.
    pub(super) fn entry(&self, module: ModuleId, direction: Direction) -> QueueId {
        [Stage::Before, Stage::Core, Stage::After]
            .into_iter()
            .find_map(|stage| self.queue(module, direction, stage))
            .unwrap_or_else(|| self.beyond(module, direction)[0])
    }

    /// Where what stays in a run goes after a function: the module's next one, or the neighbour.
    pub(super) fn stay(
        &self,
        Step {
            module,
            direction,
            stage,
        }: Step,
    ) -> QueueId {
        [Stage::Core, Stage::After]
            .into_iter()
            .filter(|later| *later as u8 > stage as u8)
            .find_map(|later| self.queue(module, direction, later))
            .unwrap_or_else(|| self.beyond(module, direction)[0])
    }
}

const fn stage_bits(direction: Direction) -> [Stages; 3] {
    match direction {
        Direction::Up => [Stages::BEFORE_UP, Stages::CORE_UP, Stages::AFTER_UP],
        Direction::Down => [Stages::BEFORE_DOWN, Stages::CORE_DOWN, Stages::AFTER_DOWN],
    }
}
