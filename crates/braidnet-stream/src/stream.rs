//! The stream: a head, modules and a tail, wired once and then only read.

mod wiring;

use crate::cluster::ModuleSet;
use crate::counters::StreamCounter;
use crate::module::{Direction, Module, ModuleId, Stages};
use crate::queues::{MAX_MODULES, QueueId, Stage};
use core::fmt;
use std::sync::Arc;
use wiring::{Rising, Wiring};

/// A wired stream. It holds no state of the data path and is shared by every processor that turns a part of it.
pub struct Stream {
    entries: Vec<Entry>,
    /// By queue.
    sites: Vec<Site>,
    cores: u64,
    downward: u64,
    free: u64,
    rising: Rising,
    /// The modules that settle, as a mask.
    settling: u32,
}

pub(crate) struct Entry {
    pub(crate) code: Code,
    pub(crate) stages: Stages,
    /// The module's first function on the way up, and on the way down; the neighbour's if it has none.
    entry_up: QueueId,
    entry_down: QueueId,
    links: Links,
    /// The same for what the core makes: by way of the module's own `after` where it has one.
    pub(crate) core_links: Links,
}

/// A module's code, which its entry and its sites share. A count of a pointer to it, not of the code itself: where that
/// lies behind the count would have to be computed anew for every call, as its alignment is not known.
pub(crate) type Code = Arc<Box<dyn Module>>;

/// What a module's function needs to know of its place in the stream.
#[derive(Clone)]
pub(crate) struct Links {
    /// First index of the module's counters.
    pub(crate) counter_base: usize,
    /// Where each upper link leads.
    pub(crate) up: Ways,
    /// Where each lower link leads.
    pub(crate) down: Ways,
}

/// Where the links of one side lead: at least one.
#[derive(Clone)]
pub(crate) struct Ways {
    pub(crate) first: QueueId,
    others: Vec<QueueId>,
}

impl Links {
    /// Those of no function.
    pub(crate) const NONE: &Links = &Links {
        counter_base: 0,
        up: Ways {
            first: QueueId::HEAD,
            others: Vec::new(),
        },
        down: Ways {
            first: QueueId::TAIL,
            others: Vec::new(),
        },
    };
}

impl Ways {
    /// `end` stands in for an empty list.
    fn new(ways: &[QueueId], end: QueueId) -> Ways {
        let (first, others) = ways.split_first().unwrap_or((&end, &[]));
        Ways {
            first: *first,
            others: others.to_vec(),
        }
    }

    /// The `link`-th; the last one if there are fewer.
    #[inline]
    pub(crate) fn get(&self, link: usize) -> QueueId {
        let Some(last) = self.others.last() else {
            return self.first;
        };
        match link.checked_sub(1) {
            None => self.first,
            Some(other) => *self.others.get(other).unwrap_or(last),
        }
    }

    fn iter(&self) -> impl Iterator<Item = QueueId> {
        core::iter::once(self.first).chain(self.others.iter().copied())
    }
}

/// One function of one module in one direction.
#[derive(Clone, Copy)]
pub(crate) struct Step {
    pub(crate) module: ModuleId,
    pub(crate) direction: Direction,
    pub(crate) stage: Stage,
}

/// Everything that serving the queue of one function needs to know, in one place: two cache lines.
#[repr(align(64))]
pub(crate) struct Site {
    pub(crate) step: Step,
    /// The queue that it is the site of.
    pub(crate) queue: QueueId,
    /// Where what stays in the run goes.
    pub(crate) stay: QueueId,
    /// That queue, as a mask.
    pub(crate) stay_bit: u64,
    /// That queue and all that are served before it, as a mask.
    pub(crate) up_to_stay: u64,
    pub(crate) links: Links,
    pub(crate) code: Code,
}

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
            entries,
            sites,
        }
    }
}

impl Entry {
    #[inline]
    fn links_of(&self, stage: Stage) -> &Links {
        if stage == Stage::Core {
            &self.core_links
        } else {
            &self.links
        }
    }
}

impl Stream {
    /// A builder.
    pub fn builder() -> StreamBuilder {
        StreamBuilder::new()
    }

    /// The queues of a module's cores, as a mask.
    pub(crate) fn cores_of(&self, module: ModuleId) -> u64 {
        let cores = self
            .sites
            .iter()
            .filter(|site| site.step.module == module && site.step.stage == Stage::Core);
        cores.fold(0, |mask, site| mask | site.queue.bit())
    }

    /// The queues that a module's cores hand on to and from which order matters: to other cores, and down.
    pub(crate) fn handed_on(&self, module: ModuleId) -> u64 {
        let Links { up, down, .. } = &self.entries[module.index()].core_links;
        let mask = |ways: &Ways| ways.iter().fold(0, |mask, queue| mask | queue.bit());
        mask(down) | mask(up) & !self.free & !QueueId::HEAD.bit()
    }

    /// The modules from the tail up.
    pub fn modules(&self) -> impl Iterator<Item = (ModuleId, &dyn Module)> {
        self.entries
            .iter()
            .enumerate()
            .map(|(index, entry)| (ModuleId(index as u8), &**entry.code))
    }

    /// The module called `name`.
    pub fn find(&self, name: &str) -> Option<ModuleId> {
        self.modules()
            .find(|(_, module)| module.name() == name)
            .map(|(id, _)| id)
    }

    /// The names of the modules that can do some of their work in pieces.
    pub fn divisible(&self) -> impl Iterator<Item = &'static str> {
        let modules = self.modules().map(|(_, module)| module);
        modules
            .filter(|module| module.divisible().is_some())
            .map(|module| module.name())
    }

    /// How many modules.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Never true: a stream has at least one module.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What calling a module for itself, not for a queue of its functions, needs to know.
    #[inline]
    pub(crate) fn module(&self, module: ModuleId) -> &Entry {
        &self.entries[module.index()]
    }

    /// What serving a queue needs to know; `None` for the two ends.
    #[inline]
    pub(crate) fn site(&self, queue: QueueId) -> Option<&Site> {
        self.sites.get(queue.index())
    }

    /// Every function with its queue.
    pub(crate) fn steps(&self) -> impl Iterator<Item = (QueueId, Step)> {
        self.sites
            .iter()
            .enumerate()
            .map(|(index, site)| (QueueId(index as u8), site.step))
    }

    /// The modules that settle, as a mask by index.
    #[inline]
    pub(crate) fn settling(&self) -> u32 {
        self.settling
    }

    /// The queues of all cores, as a mask.
    #[inline]
    pub(crate) fn cores(&self) -> u64 {
        self.cores
    }

    /// The queues on the way down, the tail's among them, as a mask.
    #[inline]
    pub(crate) fn downward(&self) -> u64 {
        self.downward
    }

    /// The queues on the way up above which there is no core any more, as a mask: what waits there may go on anywhere, in any
    /// order.
    #[inline]
    pub(crate) fn free(&self) -> u64 {
        self.free
    }

    /// The queues by which what a core makes leaves upwards for order-free functions with a core above them that takes it in order only, as a
    /// mask.
    #[inline]
    pub(crate) fn exits(&self) -> u64 {
        self.rising.exits
    }

    /// What there is to know about these.
    pub(crate) fn rising(&self) -> &Rising {
        &self.rising
    }

    /// The queues of all cores on the way up, as a mask.
    pub(crate) fn cores_up(&self) -> u64 {
        self.cores & !self.downward
    }

    /// Where a message enters `module` in this direction.
    #[inline]
    pub(crate) fn entry(&self, module: ModuleId, direction: Direction) -> QueueId {
        let entry = &self.entries[module.index()];
        match direction {
            Direction::Up => entry.entry_up,
            Direction::Down => entry.entry_down,
        }
    }

    /// The modules that messages enter when they cross, in this direction, between the modules of `below` and the others.
    pub fn crossings(&self, below: ModuleSet, direction: Direction) -> Vec<ModuleId> {
        let mut entered = Vec::new();
        for (module, entry) in self.entries.iter().enumerate() {
            let from_below = below.contains(ModuleId(module as u8));
            let beyond = match direction {
                Direction::Up if from_below => &entry.links.up,
                Direction::Down if !from_below => &entry.links.down,
                _ => continue,
            };
            for target in beyond
                .iter()
                .filter_map(|queue| self.site(queue))
                .map(|site| site.step.module)
            {
                if below.contains(target) != from_below && !entered.contains(&target) {
                    entered.push(target);
                }
            }
        }
        entered
    }

    /// How many counters there are: those of all modules, and the [stream's own](StreamCounter).
    pub fn counter_count(&self) -> usize {
        self.modules_counters() + StreamCounter::ALL.len()
    }

    /// Index of one of the stream's own.
    pub(crate) fn own_counter(&self, counter: StreamCounter) -> usize {
        self.modules_counters() + counter as usize
    }

    fn modules_counters(&self) -> usize {
        self.entries
            .iter()
            .map(|entry| entry.code.counters().len())
            .sum()
    }

    /// Module name and counter name of every counter, in the order of their indices. The [stream's own](StreamCounter) are the last.
    pub fn counter_names(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        self.entries
            .iter()
            .flat_map(|entry| {
                let module = entry.code.name();
                entry
                    .code
                    .counters()
                    .iter()
                    .map(move |name| (module, *name))
            })
            .chain(StreamCounter::ALL.map(StreamCounter::name))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.modules().map(|(_, module)| module.name()))
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static str, Stages);

    impl Module for Named {
        fn name(&self) -> &'static str {
            self.0
        }

        fn stages(&self) -> Stages {
            self.1
        }
    }

    #[test]
    fn functions_are_served_up_from_the_tail_then_down_from_the_head() {
        let mut builder = Stream::builder();
        let low = builder.push(Named("low", Stages::BEFORE_UP | Stages::BEFORE_DOWN));
        let high = builder.push(Named(
            "high",
            Stages::CORE_UP | Stages::AFTER_DOWN | Stages::CORE_DOWN,
        ));
        let stream = builder.build().unwrap();
        let served: Vec<_> = stream
            .steps()
            .map(|(_, step)| (step.module, step.direction, step.stage))
            .collect();
        assert_eq!(
            served,
            [
                (low, Direction::Up, Stage::Before),
                (high, Direction::Up, Stage::Core),
                (high, Direction::Down, Stage::Core),
                (high, Direction::Down, Stage::After),
                (low, Direction::Down, Stage::Before),
            ]
        );
        let stays: Vec<_> = stream.sites.iter().map(|site| site.stay).collect();
        assert_eq!(
            stays,
            [
                QueueId(1),
                QueueId::HEAD,
                QueueId(3),
                QueueId(4),
                QueueId::TAIL
            ]
        );
        assert_eq!(stream.cores(), 0b110);
    }

    #[test]
    fn a_module_without_functions_is_passed_by() {
        let mut builder = Stream::builder();
        builder.push(Named("low", Stages::BEFORE_UP));
        builder.push(Named("nothing", Stages::empty()));
        builder.push(Named("high", Stages::CORE_UP));
        let stream = builder.build().unwrap();
        assert_eq!(stream.sites[0].stay, QueueId(1));
        assert_eq!(stream.entry(ModuleId(1), Direction::Down), QueueId::TAIL);
    }

    #[test]
    fn what_cannot_be_wired_is_refused() {
        assert_eq!(Stream::builder().build().err(), Some(StreamError::Empty));
        let mut twice = Stream::builder();
        twice.push(Named("one", Stages::empty()));
        twice.push(Named("one", Stages::empty()));
        assert_eq!(twice.build().err(), Some(StreamError::Duplicate("one")));
        let mut upside_down = Stream::builder();
        let low = upside_down.module(Named("low", Stages::empty()));
        let high = upside_down.module(Named("high", Stages::empty()));
        upside_down.link(high, low);
        assert_eq!(
            upside_down.build().err(),
            Some(StreamError::Order("high", "low"))
        );
    }
}
