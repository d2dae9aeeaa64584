//! Wiring a stream.

use super::wiring::{Rising, Wiring};
use super::{Entry, Links, Site, Step, Stream, Ways};
use crate::drops::DropWatch;
use crate::module::{Direction, Module, ModuleId, Stages};
use crate::queues::{MAX_MODULES, QueueId, Stage};
use core::fmt;
use std::sync::Arc;

/// Why a stream cannot be wired.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StreamError {
    /// More modules, or more functions of modules, than a stream can hold.
    TooMany,
    /// No module at all.
    Empty,
    /// Two modules have this name.
    Duplicate(&'static str),
    /// A link must lead from a lower module to a higher one; this one does not.
    Order(&'static str, &'static str),
}

impl fmt::Display for StreamError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StreamError::TooMany => write!(
                f,
                "a stream holds at most {MAX_MODULES} modules with {} functions together",
                QueueId::MAX_STEPS
            ),
            StreamError::Empty => write!(f, "a stream needs at least one module"),
            StreamError::Duplicate(name) => write!(f, "two modules of the stream are named {name}"),
            StreamError::Order(below, above) => {
                write!(
                    f,
                    "{below} cannot be linked below {above}: it was pushed after it"
                )
            }
        }
    }
}

impl std::error::Error for StreamError {}

/// Wires a [`Stream`] from the tail upwards.
#[derive(Default)]
pub struct StreamBuilder {
    modules: Vec<Box<dyn Module>>,
    links: Vec<(ModuleId, ModuleId)>,
    waits_above: bool,
    drop_watch: Option<DropWatch>,
}

impl StreamBuilder {
    /// An empty stream.
    pub fn new() -> StreamBuilder {
        StreamBuilder::default()
    }

    /// Tells this of what modules drop on its way up.
    pub fn watch_drops(&mut self, watch: DropWatch) {
        self.drop_watch = Some(watch);
    }

    /// Puts a module above all that are there, linked to nothing yet.
    pub fn module(&mut self, module: impl Module) -> ModuleId {
        self.modules.push(Box::new(module));
        ModuleId((self.modules.len() - 1).min(u8::MAX as usize) as u8)
    }

    /// Links `below` to `above`. A module's upper links are numbered in the order of these calls, and so are its lower
    /// ones; a module with no upper link has the stream's head there, one with no lower link the tail.
    pub fn link(&mut self, below: ModuleId, above: ModuleId) -> &mut Self {
        self.links.push((below, above));
        self
    }

    /// Has processors that bring something to a core above order-free functions wait until what left the bucket before it has been
    /// brought (PLP §4.2). Else nobody waits. The order is the same; this is there to be measured.
    pub fn waiting_above(&mut self) -> &mut Self {
        self.waits_above = true;
        self
    }

    /// Puts something else in the place of each module: a wrapper around it.
    pub(crate) fn wrap(&mut self, around: impl FnMut(Box<dyn Module>) -> Box<dyn Module>) {
        self.modules = self.modules.drain(..).map(around).collect();
    }

    /// Pushes a module onto the top: links it above the module pushed last.
    pub fn push(&mut self, module: impl Module) -> ModuleId {
        let id = self.module(module);
        if id.index() > 0 {
            self.link(ModuleId(id.0 - 1), id);
        }
        id
    }

    /// The wired stream.
    ///
    /// # Errors
    /// See [`StreamError`].
    pub fn build(self) -> Result<Arc<Stream>, StreamError> {
        if self.modules.is_empty() {
            return Err(StreamError::Empty);
        }
        let functions: usize = self
            .modules
            .iter()
            .map(|module| module.stages().functions())
            .sum();
        if self.modules.len() > MAX_MODULES || functions > QueueId::MAX_STEPS {
            return Err(StreamError::TooMany);
        }
        for (index, module) in self.modules.iter().enumerate() {
            if self.modules[..index]
                .iter()
                .any(|other| other.name() == module.name())
            {
                return Err(StreamError::Duplicate(module.name()));
            }
        }
        for (below, above) in &self.links {
            if below >= above {
                let name = |id: &ModuleId| self.modules[id.index()].name();
                return Err(StreamError::Order(name(below), name(above)));
            }
        }
        Ok(Arc::new(self.wire()))
    }

    fn wire(self) -> Stream {
        let stages: Vec<Stages> = self.modules.iter().map(|module| module.stages()).collect();
        let wiring = Wiring::new(&stages, &self.links);
        let mut counter_base = 0;
        let mut entries = Vec::with_capacity(self.modules.len());
        for (index, code) in self.modules.into_iter().enumerate() {
            let id = ModuleId(index as u8);
            let up = wiring.beyond(id, Direction::Up);
            let down = wiring.beyond(id, Direction::Down);
            let by_way_of =
                |direction, beyond: &[QueueId]| match wiring.queue(id, direction, Stage::After) {
                    Some(after) => vec![after],
                    None => beyond.to_vec(),
                };
            let links = |up: &[QueueId], down: &[QueueId]| Links {
                counter_base,
                up: Ways::new(up, QueueId::HEAD),
                down: Ways::new(down, QueueId::TAIL),
            };
            entries.push(Entry {
                stages: stages[index],
                entry_up: wiring.entry(id, Direction::Up),
                entry_down: wiring.entry(id, Direction::Down),
                core_links: links(
                    &by_way_of(Direction::Up, &up),
                    &by_way_of(Direction::Down, &down),
                ),
                links: links(&up, &down),
                code: Arc::new(code),
            });
            counter_base += entries[index].code.counters().len();
        }
        let site = |(index, &step): (usize, &Step)| {
            let entry: &Entry = &entries[step.module.index()];
            let stay = wiring.stay(step);
            Site {
                step,
                queue: QueueId(index as u8),
                stay,
                stay_bit: stay.bit(),
                up_to_stay: stay.and_lower(),
                links: entry.links_of(step.stage).clone(),
                code: entry.code.clone(),
            }
        };
        let sites: Vec<Site> = wiring.steps.iter().enumerate().map(site).collect();
        let mask = |wanted: &dyn Fn(&Step) -> bool| {
            sites
                .iter()
                .enumerate()
                .filter(|(_, site)| wanted(&site.step))
                .fold(0, |mask, (index, _)| mask | 1 << index)
        };
        let settling = stages
            .iter()
            .enumerate()
            .filter(|(_, stages)| stages.contains(Stages::SETTLE))
            .fold(0, |mask, (index, _)| mask | 1 << index);
        let highest_core = sites
            .iter()
            .filter(|site| site.step.direction == Direction::Up && site.step.stage == Stage::Core)
            .map(|site| site.step.module)
            .max();
        let above = |step: &Step| match step.stage {
            Stage::Core => false,
            Stage::Before => Some(step.module) > highest_core,
            Stage::After => Some(step.module) >= highest_core,
        };
        let rising = Rising::of(&sites, &stages, &entries, self.waits_above);
        Stream {
            rising,
            free: mask(&|step| step.direction == Direction::Up && above(step)),
            cores: mask(&|step| step.stage == Stage::Core),
            downward: mask(&|step| step.direction == Direction::Down) | QueueId::TAIL.bit(),
            settling,
            drop_watch: self.drop_watch,
            entries,
            sites,
        }
    }
}
