//! Which function comes after which.

use super::{Entry, Site, Step};
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

/// The ways up from a core, over order-free functions, to another core that takes what comes in order only.
pub(crate) struct Rising {
    /// The queues in which the ways begin, as a mask.
    pub(crate) exits: u64,
    /// All queues on them, as a mask.
    pub(crate) ways: u64,
    /// Whether processors wait for their turns at the end of them.
    pub(crate) waits: bool,
}

impl Rising {
    pub(super) fn of(sites: &[Site], stages: &[Stages], entries: &[Entry], waits: bool) -> Rising {
        let is_up = |site: &Site| site.step.direction == Direction::Up;
        let is_core = |site: &Site| site.step.stage == Stage::Core;
        let next = |site: &Site| {
            let links = site.links.up.iter().collect::<Vec<_>>();
            links.into_iter().chain([site.stay])
        };
        // Each leads to higher ones only.
        let mut leads_to_core = 0u64;
        for (index, site) in sites
            .iter()
            .enumerate()
            .rev()
            .filter(|(_, site)| is_up(site))
        {
            let leads = if is_core(site) {
                !stages[site.step.module.index()].contains(Stages::ANY_ORDER)
            } else {
                next(site).any(|queue| queue.is_in(leads_to_core))
            };
            leads_to_core |= u64::from(leads) << index;
        }
        let cores = sites.iter().filter(|site| is_core(site));
        let order_free = sites.iter().filter(|site| is_up(site) && !is_core(site));
        let order_free = order_free.fold(0, |mask, site| mask | site.queue.bit());
        let exits = cores
            .flat_map(|site| {
                let made = entries[site.step.module.index()].core_links.up.iter();
                made.chain(is_up(site).then_some(site.stay))
            })
            .fold(0, |mask, queue| mask | queue.bit())
            & order_free
            & leads_to_core;
        let mut ways = exits;
        for site in sites.iter().filter(|site| !is_core(site)) {
            if site.queue.is_in(ways) {
                ways |= next(site).fold(0, |mask, queue| mask | queue.bit())
                    & order_free
                    & leads_to_core;
            }
        }
        Rising { exits, ways, waits }
    }
}
