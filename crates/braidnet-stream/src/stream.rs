//! The stream: a head, modules and a tail, wired once and then only read.

mod builder;
mod wiring;

use crate::cluster::ModuleSet;
use crate::counters::StreamCounter;
use crate::drops::DropWatch;
use crate::module::{Direction, Module, ModuleId, Stages};
use crate::queues::{QueueId, Stage};
use core::fmt;
use std::sync::Arc;
use wiring::Rising;

pub use builder::{StreamBuilder, StreamError};

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
    drop_watch: Option<DropWatch>,
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

    /// Who is told of what is dropped.
    #[inline]
    pub(crate) fn drop_watch(&self) -> Option<&DropWatch> {
        self.drop_watch.as_ref()
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
