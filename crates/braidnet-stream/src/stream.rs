//! The stream: a head, modules and a tail, wired once and then only read.

use crate::cluster::ModuleSet;
use crate::module::{Direction, Module, ModuleId, Stages};
use crate::queues::{MAX_MODULES, QueueId, Stage};
use core::fmt;
use std::sync::Arc;

/// A wired stream. It holds no state of the data path and is shared by every processor that turns a part of it.
pub struct Stream {
    entries: Vec<Entry>,
    cores: u128,
}

struct Entry {
    code: Box<dyn Module>,
    stages: Stages,
    /// First index of the module's counters.
    counter_base: usize,
    /// Where each upper link leads, and each lower one.
    up: Vec<QueueId>,
    down: Vec<QueueId>,
    /// The same for what the core makes: by way of the module's own `after` where it has one.
    core_up: Vec<QueueId>,
    core_down: Vec<QueueId>,
}

/// Why a stream cannot be wired.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StreamError {
    /// More modules than a stream can hold.
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
            StreamError::TooMany => write!(f, "a stream holds at most {MAX_MODULES} modules"),
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
}

impl StreamBuilder {
    /// An empty stream.
    pub fn new() -> StreamBuilder {
        StreamBuilder::default()
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
        if self.modules.len() > MAX_MODULES {
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
        let wiring = Wiring {
            stages: &stages,
            links: &self.links,
        };
        let mut counter_base = 0;
        let mut entries = Vec::with_capacity(self.modules.len());
        for (index, code) in self.modules.into_iter().enumerate() {
            let id = ModuleId(index as u8);
            let up = wiring.beyond(id, Direction::Up);
            let down = wiring.beyond(id, Direction::Down);
            let by_way_of = |direction, stage, beyond: &[QueueId]| {
                if stages[index].contains(stage) {
                    vec![QueueId::new(id, direction, Stage::After)]
                } else {
                    beyond.to_vec()
                }
            };
            entries.push(Entry {
                stages: stages[index],
                counter_base,
                core_up: by_way_of(Direction::Up, Stages::AFTER_UP, &up),
                core_down: by_way_of(Direction::Down, Stages::AFTER_DOWN, &down),
                up,
                down,
                code,
            });
            counter_base += entries[index].code.counters().len();
        }
        let mut cores = 0;
        for (index, stages) in stages.iter().enumerate() {
            for (bit, direction) in [
                (Stages::CORE_UP, Direction::Up),
                (Stages::CORE_DOWN, Direction::Down),
            ] {
                if stages.contains(bit) {
                    cores |= QueueId::new(ModuleId(index as u8), direction, Stage::Core).bit();
                }
            }
        }
        Stream { entries, cores }
    }
}

/// What routes are computed from.
struct Wiring<'a> {
    stages: &'a [Stages],
    links: &'a [(ModuleId, ModuleId)],
}

impl Wiring<'_> {
    /// Where the links of `module` in this direction lead.
    fn beyond(&self, module: ModuleId, direction: Direction) -> Vec<QueueId> {
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
    fn entry(&self, module: ModuleId, direction: Direction) -> QueueId {
        let stages = stage_bits(direction);
        [Stage::Before, Stage::Core, Stage::After]
            .into_iter()
            .find(|stage| self.stages[module.index()].contains(stages[*stage as usize]))
            .map_or_else(
                || self.beyond(module, direction)[0],
                |stage| QueueId::new(module, direction, stage),
            )
    }
}

const fn stage_bits(direction: Direction) -> [Stages; 3] {
    match direction {
        Direction::Up => [Stages::BEFORE_UP, Stages::CORE_UP, Stages::AFTER_UP],
        Direction::Down => [Stages::BEFORE_DOWN, Stages::CORE_DOWN, Stages::AFTER_DOWN],
    }
}

impl Stream {
    /// A builder.
    pub fn builder() -> StreamBuilder {
        StreamBuilder::new()
    }

    /// The modules from the tail up.
    pub fn modules(&self) -> impl Iterator<Item = (ModuleId, &dyn Module)> {
        self.entries
            .iter()
            .enumerate()
            .map(|(index, entry)| (ModuleId(index as u8), &*entry.code))
    }

    /// The module called `name`.
    pub fn find(&self, name: &str) -> Option<ModuleId> {
        self.modules()
            .find(|(_, module)| module.name() == name)
            .map(|(id, _)| id)
    }

    /// How many modules.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Never true: a stream has at least one module.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn code(&self, module: ModuleId) -> &dyn Module {
        &*self.entries[module.index()].code
    }

    pub(crate) fn stages(&self, module: ModuleId) -> Stages {
        self.entries[module.index()].stages
    }

    /// The queues of all cores, as a mask.
    pub(crate) fn cores(&self) -> u128 {
        self.cores
    }

    /// Where what `module` sends up from `stage` goes, by link.
    pub(crate) fn up(&self, module: ModuleId, stage: Stage) -> &[QueueId] {
        let entry = &self.entries[module.index()];
        if stage == Stage::Core {
            &entry.core_up
        } else {
            &entry.up
        }
    }

    /// Where what `module` sends down from `stage` goes, by link.
    pub(crate) fn down(&self, module: ModuleId, stage: Stage) -> &[QueueId] {
        let entry = &self.entries[module.index()];
        if stage == Stage::Core {
            &entry.core_down
        } else {
            &entry.down
        }
    }

    /// Where a message enters `module` in this direction.
    pub(crate) fn entry(&self, module: ModuleId, direction: Direction) -> QueueId {
        let bits = stage_bits(direction);
        let entry = &self.entries[module.index()];
        for stage in [Stage::Before, Stage::Core, Stage::After] {
            if entry.stages.contains(bits[stage as usize]) {
                return QueueId::new(module, direction, stage);
            }
        }
        match direction {
            Direction::Up => entry.up[0],
            Direction::Down => entry.down[0],
        }
    }

    /// Where what stays in a run goes after `stage` of `module`.
    pub(crate) fn stay(&self, module: ModuleId, direction: Direction, stage: Stage) -> QueueId {
        let bits = stage_bits(direction);
        let entry = &self.entries[module.index()];
        let later = match stage {
            Stage::Before => &[Stage::Core, Stage::After][..],
            Stage::Core => &[Stage::After][..],
            Stage::After => &[],
        };
        for stage in later {
            if entry.stages.contains(bits[*stage as usize]) {
                return QueueId::new(module, direction, *stage);
            }
        }
        match direction {
            Direction::Up => entry.up[0],
            Direction::Down => entry.down[0],
        }
    }

    /// The modules that messages enter when they cross, in this direction, between the modules of `below` and the others.
    pub fn crossings(&self, below: ModuleSet, direction: Direction) -> Vec<ModuleId> {
        let mut entered = Vec::new();
        for (module, entry) in self.entries.iter().enumerate() {
            let from_below = below.contains(ModuleId(module as u8));
            let beyond = match direction {
                Direction::Up if from_below => &entry.up,
                Direction::Down if !from_below => &entry.down,
                _ => continue,
            };
            for queue in beyond
                .iter()
                .filter(|queue| **queue != QueueId::HEAD && **queue != QueueId::TAIL)
            {
                let (target, ..) = queue.parts();
                if below.contains(target) != from_below && !entered.contains(&target) {
                    entered.push(target);
                }
            }
        }
        entered
    }

    /// How many counters all modules have together.
    pub fn counter_count(&self) -> usize {
        self.entries
            .iter()
            .map(|entry| entry.code.counters().len())
            .sum()
    }

    /// Module name and counter name of every counter, in the order of their indices.
    pub fn counter_names(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.entries.iter().flat_map(|entry| {
            let module = entry.code.name();
            entry
                .code
                .counters()
                .iter()
                .map(move |name| (module, *name))
        })
    }

    pub(crate) fn counter_base(&self, module: ModuleId) -> usize {
        self.entries[module.index()].counter_base
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.modules().map(|(_, module)| module.name()))
            .finish()
    }
}
