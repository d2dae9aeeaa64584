//! The grid: what is compared.

use super::error::CompareError;
use crate::{ConfigError, Direction, Mode, Presentation, TtcpConfig};
use braidnet_process::{Architecture, Refusal};
use core::fmt;
use std::time::Duration;

/// Fewest repetitions of a cell.
pub const LEAST_REPETITIONS: usize = 5;

/// What is compared: every combination of the four lists, all else as in `base`.
#[derive(Clone, PartialEq, Debug)]
pub struct CompareConfig {
    /// The architectures.
    pub architectures: Vec<Architecture>,
    /// The numbers of processors. Speed-up needs 1 among them.
    pub processors: Vec<usize>,
    /// The numbers of connections.
    pub connections: Vec<usize>,
    /// What stands between transport and application.
    pub presentations: Vec<Presentation>,
    /// How often each cell is measured at least, 5 or more.
    pub repetitions: usize,
    /// How many repetitions of one cell are measured again because their probes moved, at most.
    pub most_repeats: usize,
    /// After this time nothing is measured again. What was planned is measured whatever it takes.
    pub budget: Duration,
    /// What the order within each round is shuffled by.
    pub seed: u64,
    /// How long a probe of the ceiling takes.
    pub probe_duration: Duration,
    /// Every other knob. Its architecture, processors, connections, presentation, mode, direction and sampling are not
    /// looked at; where a cell has fewer processors that take from the device than `device_queues`, it has as many
    /// queues as those; and what is for architectures whose processors share connections is set in their cells only.
    pub base: TtcpConfig,
}

impl Default for CompareConfig {
    /// The default grid of a machine of one processor; see [`doubling`].
    fn default() -> CompareConfig {
        CompareConfig {
            architectures: Architecture::UNDIVIDED.to_vec(),
            processors: vec![1],
            connections: vec![1, 20],
            presentations: Presentation::ALL.to_vec(),
            repetitions: LEAST_REPETITIONS,
            most_repeats: 3,
            budget: Duration::from_secs(75),
            seed: 1,
            probe_duration: Duration::from_millis(40),
            base: TtcpConfig::default(),
        }
    }
}

impl CompareConfig {
    /// The grid of CP/MP §3.4.1, figure 7: on so many processors, all of them in use, with 1 to 20 connections, without
    /// presentation. With no single processor among them it tells no speed-up.
    pub fn sweep(processors: usize) -> CompareConfig {
        CompareConfig {
            processors: vec![processors],
            connections: (1..=20).collect(),
            presentations: vec![Presentation::None],
            budget: Duration::from_secs(300),
            ..CompareConfig::default()
        }
    }

    /// The architectures that can be compared with this base: all, but where there is no work to divide those that need none.
    pub fn comparable(base: &TtcpConfig) -> &'static [Architecture] {
        if base.work.is_zero() {
            &Architecture::UNDIVIDED
        } else {
            &Architecture::ALL
        }
    }

    /// About how long it takes to measure these cells, nothing of it again, on a machine that has nothing else to do.
    pub fn time_needed(&self, cells: &[Cell]) -> Duration {
        /// What goes before a measurement or probe: threads, connections, warm caches.
        const SET_UP: Duration = Duration::from_millis(20);
        /// Processor time of a message, at most, where nothing works on it.
        const MESSAGE: Duration = Duration::from_micros(1);
        let messages = u32::try_from(self.base.messages).unwrap_or(u32::MAX);
        let all_messages = (self.base.work + MESSAGE).saturating_mul(messages);
        let one = SET_UP + self.base.min_duration.max(all_messages);
        let sampled = SET_UP + (self.base.min_duration / 3).max(all_messages);
        let repetitions = u32::try_from(self.repetitions).unwrap_or(u32::MAX);
        let needed = |cell: &Cell| {
            // A probe serves the measurements on both its sides, where they are of one load.
            let probes = match cell.processors {
                1 => Duration::ZERO,
                _ => (SET_UP + self.probe_duration) * 3 / 2,
            };
            (one + probes)
                .saturating_mul(repetitions)
                .saturating_add(sampled)
        };
        cells
            .iter()
            .map(needed)
            .fold(Duration::ZERO, Duration::saturating_add)
    }

    /// The cells in the order of the table, each once, on a machine of which `allowed` processors may be used. What cannot be only
    /// because of its number of processors or connections is left out, if anything is left.
    ///
    /// # Errors
    /// The usage errors of [`CompareError`].
    pub fn cells(&self, allowed: usize) -> Result<Vec<Cell>, CompareError> {
        self.split(allowed).map(|(cells, _)| cells)
    }

    /// The cells, and what is left out: a sentence for each reason.
    pub(super) fn split(&self, allowed: usize) -> Result<(Vec<Cell>, Vec<String>), CompareError> {
        let (mut cells, mut left_out) = (Vec::new(), Vec::new());
        let mut first = None;
        for cell in self.product(allowed)? {
            let round_trip = cell.round_trip(&self.base);
            let mut configs = core::iter::once(cell.config(&self.base)).chain(round_trip);
            let Some(error) = configs.find_map(|config| config.validate().err()) else {
                cells.push(cell);
                continue;
            };
            let what = cell.out_of_reach(&error);
            let sentence = what.map(|what| format!("{what} is left out: {error}."));
            let refusal = CompareError::Cell { cell, error };
            match sentence {
                None => return Err(refusal),
                Some(sentence) if !left_out.contains(&sentence) => left_out.push(sentence),
                Some(_) => {}
            }
            first.get_or_insert(refusal);
        }
        match first {
            Some(refusal) if cells.is_empty() => Err(refusal),
            _ => Ok((cells, left_out)),
        }
    }

    fn product(&self, allowed: usize) -> Result<Vec<Cell>, CompareError> {
        let lists = [
            ("architectures", self.architectures.is_empty()),
            ("processors", self.processors.is_empty()),
            ("connections", self.connections.is_empty()),
            ("presentations", self.presentations.is_empty()),
        ];
        if let Some((list, _)) = lists.iter().find(|(_, empty)| *empty) {
            return Err(CompareError::Empty(list));
        }
        if self.repetitions < LEAST_REPETITIONS {
            return Err(CompareError::TooFewRepetitions(self.repetitions));
        }
        if let Some(&asked) = self.processors.iter().find(|&&asked| asked > allowed) {
            return Err(CompareError::TooManyProcessors { asked, allowed });
        }
        let mut cells = Vec::new();
        for &connections in &self.connections {
            for &presentation in &self.presentations {
                for &architecture in &self.architectures {
                    cells.extend(self.processors.iter().map(|&processors| Cell {
                        connections,
                        presentation,
                        architecture,
                        processors,
                    }));
                }
            }
        }
        cells.sort_unstable();
        cells.dedup();
        Ok(cells)
    }
}

/// The numbers of processors of the default grid: 1, 2, 4 and so on, and all that are allowed.
///
/// ```
/// use braidnet_lab::compare::doubling;
/// assert_eq!(doubling(6), [1, 2, 4, 6]);
/// ```
pub fn doubling(allowed: usize) -> Vec<usize> {
    let allowed = allowed.max(1);
    let mut list: Vec<usize> =
        core::iter::successors(Some(1usize), |processors| processors.checked_mul(2))
            .take_while(|&processors| processors < allowed)
            .collect();
    list.push(allowed);
    list
}

/// One cell of the grid. Cells sort as the table shows them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cell {
    /// How many connections.
    pub connections: usize,
    /// What stands between transport and application.
    pub presentation: Presentation,
    /// How processors are bound to protocol work.
    pub architecture: Architecture,
    /// How many processors.
    pub processors: usize,
}

impl Cell {
    /// The measurement of this cell's throughput: up the stack, from a simulated sender.
    pub fn config(&self, base: &TtcpConfig) -> TtcpConfig {
        self.fitted(TtcpConfig {
            architecture: self.architecture,
            processors: self.processors,
            connections: self.connections,
            presentation: self.presentation,
            direction: Direction::Receive,
            mode: Mode::Bulk,
            sync_sampling: false,
            ..base.clone()
        })
    }

    /// The sampled repetition: a third as long, with every wait for a lock timed.
    pub fn sampled(&self, base: &TtcpConfig) -> TtcpConfig {
        TtcpConfig {
            sync_sampling: true,
            min_duration: base.min_duration / 3,
            ..self.config(base)
        }
    }

    /// The round trip of this cell's architecture on as many processors: one message on one connection between two whole
    /// stacks, whatever the cell's own connections and presentation are. `None` under an architecture that needs work to divide:
    /// a round trip has none.
    pub fn round_trip(&self, base: &TtcpConfig) -> Option<TtcpConfig> {
        let config = TtcpConfig {
            architecture: self.architecture,
            processors: self.processors,
            connections: 1,
            presentation: Presentation::None,
            direction: Direction::Both,
            mode: Mode::Echo,
            work: Duration::ZERO,
            skew: None,
            sync_sampling: false,
            ..base.clone()
        };
        (Architecture::UNDIVIDED.contains(&self.architecture)).then(|| self.fitted(config))
    }

    /// The load without what answers it: cells of one load must deliver the same bytes.
    pub(super) fn load(&self) -> (usize, Presentation) {
        (self.connections, self.presentation)
    }

    /// The part of it that cannot be measured for this reason, where other cells of the grid can.
    fn out_of_reach(&self, error: &ConfigError) -> Option<String> {
        match error {
            ConfigError::Refused(Refusal::TooManyBraided(_)) => {
                let processors = Processors(self.processors);
                Some(format!("`{}` on {processors}", self.architecture))
            }
            ConfigError::NothingToMix => Some(Connections(self.connections).to_string()),
            _ => None,
        }
    }

    /// The same with no more than there can be for this architecture.
    fn fitted(&self, config: TtcpConfig) -> TtcpConfig {
        TtcpConfig {
            device_queues: config.device_queues.min(config.takers()),
            ..config.suited()
        }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} on {}",
            self.architecture,
            Processors(self.processors)
        )?;
        write!(f, ", {}", Connections(self.connections))?;
        match self.presentation {
            Presentation::None => Ok(()),
            presentation => write!(f, ", {presentation}"),
        }
    }
}

/// Prints "1 processor", "2 processors".
pub(super) struct Processors(pub usize);

impl fmt::Display for Processors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} processor{plural}", self.0)
    }
}

/// Prints "1 connection", "20 connections".
pub(super) struct Connections(pub usize);

impl fmt::Display for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.0 == 1 { "" } else { "s" };
        write!(f, "{} connection{plural}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Order;
    use braidnet_sync::lock::LockKind;

    #[test]
    fn the_default_list_of_processors_doubles_and_ends_with_all() {
        let rows: [(usize, &[usize]); 6] = [
            (0, &[1]),
            (1, &[1]),
            (2, &[1, 2]),
            (3, &[1, 2, 3]),
            (8, &[1, 2, 4, 8]),
            (12, &[1, 2, 4, 8, 12]),
        ];
        for (allowed, list) in rows {
            assert_eq!(doubling(allowed), list);
        }
    }

    #[test]
    fn two_processors_make_thirty_two_cells_each_once() {
        let config = CompareConfig {
            processors: vec![2, 1, 2],
            ..CompareConfig::default()
        };
        let cells = config.cells(2).expect("a legal grid");
        assert_eq!(cells.len(), 32);
        let lines: Vec<String> = cells[..3].iter().map(Cell::to_string).collect();
        assert_eq!(
            lines,
            [
                "task on 1 processor, 1 connection",
                "task on 2 processors, 1 connection",
                "connection on 1 processor, 1 connection",
            ]
        );
        assert_eq!(
            cells[31].to_string(),
            "braid on 2 processors, 20 connections, xdr"
        );
    }

    #[test]
    fn the_sweep_has_every_architecture_with_1_to_20_connections() {
        let cells = CompareConfig::sweep(2).cells(2).expect("a legal grid");
        assert_eq!(cells.len(), 20 * Architecture::UNDIVIDED.len());
        for (connections, row) in (1..=20).zip(cells.chunks(Architecture::UNDIVIDED.len())) {
            for (cell, architecture) in row.iter().zip(Architecture::UNDIVIDED) {
                let expected = Cell {
                    connections,
                    presentation: Presentation::None,
                    architecture,
                    processors: 2,
                };
                assert_eq!(*cell, expected);
            }
        }
    }

    #[test]
    fn the_time_that_a_grid_takes_is_known_beforehand() {
        let default = CompareConfig {
            processors: vec![1, 2],
            ..CompareConfig::default()
        };
        let worked = |work| CompareConfig {
            base: TtcpConfig {
                work: Duration::from_micros(work),
                ..TtcpConfig::default()
            },
            ..default.clone()
        };
        // On a machine of two processors the first takes 65 s. Messages of 30 µs fill 0.6 s instead of 0.3, each time.
        let rows = [
            (default.clone(), 60..75),
            (CompareConfig::sweep(2), 160..200),
            (worked(2), 60..75),
            (worked(30), 130..150),
        ];
        for (config, seconds) in rows {
            let cells = config.cells(2).expect("a legal grid");
            let needed = config.time_needed(&cells).as_secs();
            assert!(seconds.contains(&needed), "{needed} s");
        }
    }

    #[test]
    fn what_cannot_be_compared_is_refused_with_a_sentence() {
        let good = CompareConfig::default;
        let rows = [
            (
                CompareConfig {
                    processors: vec![],
                    ..good()
                },
                "there is nothing to compare: the list of processors is empty",
            ),
            (
                CompareConfig {
                    processors: vec![1, 3],
                    ..good()
                },
                "3 processors cannot be compared here: this process may use 2 (see taskset or the container's limits)",
            ),
            (
                CompareConfig {
                    repetitions: 4,
                    ..good()
                },
                "4 repetitions are too few to tell a difference from noise: at least 5",
            ),
            (
                CompareConfig {
                    connections: vec![20, 0],
                    ..good()
                },
                "task on 1 processor, 0 connections: connections cannot be 0: from 1 to 10000",
            ),
        ];
        for (config, sentence) in rows {
            let error = config.cells(2).expect_err(sentence);
            assert_eq!(error.to_string(), sentence);
            assert!(error.is_usage(), "{sentence}");
        }
    }

    #[test]
    fn what_too_many_or_too_few_keep_from_being_measured_is_left_out() {
        let all = CompareConfig {
            processors: doubling(96),
            ..CompareConfig::default()
        };
        let (cells, left_out) = all.split(96).expect("a legal grid");
        assert_eq!(
            left_out,
            [
                "`braid` on 96 processors is left out: braid shares work among 65 processors at most, not 96: choose fewer, or connection."
            ]
        );
        let (sizes, loads) = (doubling(96).len(), 4);
        assert_eq!(
            cells.len(),
            (sizes * Architecture::UNDIVIDED.len() - 1) * loads
        );
        let mixed = CompareConfig {
            base: TtcpConfig {
                skew: "0.8".parse().ok(),
                ..TtcpConfig::default()
            },
            ..CompareConfig::default()
        };
        let (cells, left_out) = mixed.split(1).expect("a legal grid");
        assert!(cells.iter().all(|cell| cell.connections == 20));
        assert_eq!(
            left_out,
            [
                "1 connection is left out: one connection has all messages: a skewed mix needs at least two."
            ]
        );
        let nothing = CompareConfig {
            connections: vec![1],
            ..mixed
        };
        assert!(nothing.split(1).is_err_and(|error| error.is_usage()));
    }

    #[test]
    fn what_only_message_can_be_set_to_is_set_under_message_only() {
        let config = CompareConfig {
            base: TtcpConfig {
                lock: LockKind::Mcs,
                order: Order::Numbered,
                ..TtcpConfig::default()
            },
            ..CompareConfig::default()
        };
        for cell in config.cells(1).expect("a legal grid") {
            let here = cell.config(&config.base);
            let is_set = (here.lock, here.order) == (LockKind::Mcs, Order::Numbered);
            assert_eq!(is_set, cell.architecture == Architecture::Message, "{cell}");
        }
    }

    #[test]
    fn a_cell_has_no_more_device_queues_than_takers() {
        let base = TtcpConfig {
            device_queues: 4,
            ..TtcpConfig::default()
        };
        let rows = [
            (Architecture::Task, 4, 2),
            (Architecture::Connection, 1, 1),
            (Architecture::Connection, 8, 4),
            (Architecture::Message, 2, 2),
        ];
        for (architecture, processors, queues) in rows {
            let cell = Cell {
                connections: 20,
                presentation: Presentation::None,
                architecture,
                processors,
            };
            assert_eq!(cell.config(&base).device_queues, queues, "{cell}");
            assert_eq!(cell.config(&base).validate(), Ok(()), "{cell}");
        }
    }
}
