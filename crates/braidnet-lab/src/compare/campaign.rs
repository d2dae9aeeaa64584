//! Measuring a grid: what is done after what, and when it is done again.

use super::config::{Cell, CompareConfig, Connections, Processors};
use super::error::CompareError;
use super::report::{Probe, Repetition, RoundTrip};
use super::schedule::Shuffler;
use crate::{LabError, RunResult, TtcpConfig};
use braidnet_process::Architecture;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where figures come from. [`ThisMachine`](super::ThisMachine) measures; a test plants them.
pub trait Laboratory {
    /// How many processors may be used.
    fn processors(&self) -> usize;

    /// Time since some point in the past: what the time budget is counted in.
    fn now(&self) -> Duration;

    /// Makes one measurement.
    ///
    /// # Errors
    /// Whatever keeps it from being made.
    fn run(&mut self, config: &TtcpConfig) -> Result<RunResult, LabError>;

    /// How long a cache line takes from one processor to another, one way, in nanoseconds.
    ///
    /// # Errors
    /// Whatever keeps it from being measured.
    fn latency_ns(&mut self, processors: (usize, usize)) -> Result<f64, LabError>;

    /// What so many processors that share nothing reach, over one.
    ///
    /// # Errors
    /// Whatever keeps it from being measured.
    fn ceiling(
        &mut self,
        processors: usize,
        config: &TtcpConfig,
        duration: Duration,
    ) -> Result<f64, LabError>;
}

/// Who watches a comparison go on. `()` does not look.
pub trait Progress {
    /// So many measurements are still to come, as far as is known.
    fn expect(&mut self, measurements: usize);

    /// This is measured now.
    fn begin(&mut self, what: &str);

    /// It has been measured.
    fn end(&mut self);
}

impl Progress for () {
    fn expect(&mut self, _: usize) {}
    fn begin(&mut self, _: &str) {}
    fn end(&mut self) {}
}

/// Everything that was measured.
#[derive(Default, Debug)]
pub(super) struct Measured {
    /// The repetitions of each cell, in the order in which they were made.
    pub(super) repetitions: BTreeMap<Cell, Vec<Repetition>>,
    /// The sampled repetition of each cell.
    pub(super) sampled: BTreeMap<Cell, RunResult>,
    /// The share of order-free functions under each load, and the first cell of it.
    pub(super) order_free: Vec<(Cell, f64)>,
    /// What was delivered under each load, hashed, and the cell that was measured first.
    pub(super) delivered: Vec<(Cell, u64)>,
    /// The round trip of each architecture on each number of processors, under its number of connections and presentation
    /// that come first in the grid.
    pub(super) round_trips: BTreeMap<Cell, RoundTrip>,
}

impl Measured {
    /// What was delivered under the load of a cell, and by which cell first.
    pub(super) fn delivered_under(&self, cell: &Cell) -> Option<(Cell, u64)> {
        self.delivered
            .iter()
            .copied()
            .find(|(other, _)| other.load() == cell.load())
    }

    /// The share of order-free functions under the load of a cell.
    pub(super) fn order_free_under(&self, cell: &Cell) -> Option<f64> {
        let shares = self.order_free.iter();
        shares
            .filter(|(other, _)| other.load() == cell.load())
            .map(|(_, share)| *share)
            .next()
    }

    /// The round trip that belongs to a cell.
    pub(super) fn round_trip(&self, cell: &Cell) -> Option<&RoundTrip> {
        self.round_trips
            .iter()
            .find(|(measured, _)| same_place(measured, cell))
            .map(|(_, round_trip)| round_trip)
    }
}

fn same_place(one: &Cell, other: &Cell) -> bool {
    (one.architecture, one.processors) == (other.architecture, other.processors)
}

/// A grid while it is measured.
pub(super) struct Campaign<'a> {
    config: &'a CompareConfig,
    cells: &'a [Cell],
    laboratory: &'a mut dyn Laboratory,
    progress: &'a mut dyn Progress,
    shuffler: Shuffler,
    measured: Measured,
    /// The probe that was taken after the last measurement, and for which cell: it serves the next one too, if that puts the same
    /// load on as many processors.
    fresh: Option<(Cell, Probe)>,
    /// The longest that a repetition has taken, its probes included.
    longest: Duration,
}

impl<'a> Campaign<'a> {
    pub(super) fn new(
        config: &'a CompareConfig,
        cells: &'a [Cell],
        laboratory: &'a mut dyn Laboratory,
        progress: &'a mut dyn Progress,
    ) -> Campaign<'a> {
        Campaign {
            config,
            cells,
            laboratory,
            progress,
            shuffler: Shuffler::new(config.seed),
            measured: Measured::default(),
            fresh: None,
            longest: Duration::ZERO,
        }
    }

    /// Measures all of it.
    pub(super) fn measure(mut self) -> Result<Measured, CompareError> {
        let start = self.laboratory.now();
        let round_trips = self.round_trips();
        let loads = self.loads();
        let sampled = round_trips.len() + loads.len();
        let planned = self.cells.len() * (self.config.repetitions + 1) + sampled;
        self.progress.expect(planned);
        for round in 1..=self.config.repetitions {
            for cell in self.order(self.cells.to_vec()) {
                self.repeat(
                    cell,
                    &format!("round {round} of {}", self.config.repetitions),
                )?;
            }
        }
        for (cell, config) in round_trips {
            self.measure_round_trip(cell, &config)?;
        }
        for &cell in self.cells {
            self.sample(cell)?;
        }
        for cell in loads {
            self.sample_order_free(cell)?;
        }
        self.repeat_unsettled(start)?;
        Ok(self.measured)
    }

    /// The cells in an order of chance in which those of one load follow each other: they share their probes.
    fn order(&mut self, mut cells: Vec<Cell>) -> Vec<Cell> {
        self.shuffler.shuffle(&mut cells);
        let first_of_load = |cell: &Cell| cells.iter().position(|one| one.load() == cell.load());
        let mut order = cells.clone();
        order.sort_by_key(first_of_load);
        order
    }

    /// The first cell of every architecture and number of processors, with its round trip, where there is one.
    fn round_trips(&self) -> Vec<(Cell, TtcpConfig)> {
        let mut round_trips: Vec<(Cell, TtcpConfig)> = Vec::new();
        for cell in self.cells {
            if !round_trips.iter().any(|(place, _)| same_place(place, cell)) {
                let config = cell.round_trip(&self.config.base);
                round_trips.extend(config.map(|config| (*cell, config)));
            }
        }
        round_trips
    }

    /// Measures again what the machine moved under, in shuffled rounds, until every cell has its settled repetitions or
    /// has been repeated often enough, or time is up.
    fn repeat_unsettled(&mut self, start: Duration) -> Result<(), CompareError> {
        for _ in 0..self.config.most_repeats {
            let mut unsettled: Vec<Cell> = (self.measured.repetitions.iter())
                .filter(|(_, repetitions)| settled(repetitions) < self.config.repetitions)
                .map(|(cell, _)| *cell)
                .collect();
            unsettled = self.order(unsettled);
            for (done, cell) in unsettled.iter().enumerate() {
                let spent = self.laboratory.now().saturating_sub(start);
                if spent + self.longest > self.config.budget {
                    return Ok(());
                }
                self.progress.expect(unsettled.len() - done);
                self.repeat(*cell, "again, the machine moved")?;
            }
        }
        Ok(())
    }

    /// One repetition of a cell, between two probes if it is on several processors.
    fn repeat(&mut self, cell: Cell, why: &str) -> Result<(), CompareError> {
        self.progress.begin(&format!("{why}: {cell}"));
        let start = self.laboratory.now();
        let before = match self.fresh.take() {
            Some((of, probe)) if is_probed_alike(&of, &cell) => Some(probe),
            _ => self.probe(cell)?,
        };
        let result = self.run(cell, &cell.config(&self.config.base))?;
        let after = self.probe(cell)?;
        self.fresh = after.map(|probe| (cell, probe));
        let repetition = Repetition::new(result, before, after);
        let repetitions = self.measured.repetitions.entry(cell).or_default();
        repetitions.push(repetition);
        self.longest = self
            .longest
            .max(self.laboratory.now().saturating_sub(start));
        self.progress.end();
        Ok(())
    }

    fn measure_round_trip(&mut self, cell: Cell, config: &TtcpConfig) -> Result<(), CompareError> {
        let (architecture, processors) = (cell.architecture, Processors(cell.processors));
        let what = format!("round trip: {architecture} on {processors}");
        self.progress.begin(&what);
        self.fresh = None;
        let result = (self.laboratory.run(config))
            .map_err(|error| CompareError::Measurement { what, error })?;
        if let Some(round_trip) = RoundTrip::new(config, result) {
            self.measured.round_trips.insert(cell, round_trip);
        }
        self.progress.end();
        Ok(())
    }

    /// The first cell of every load.
    fn loads(&self) -> Vec<Cell> {
        let mut loads: Vec<Cell> = Vec::new();
        for cell in self.cells {
            if !loads.iter().any(|other| other.load() == cell.load()) {
                loads.push(*cell);
            }
        }
        loads
    }

    fn sample_order_free(&mut self, cell: Cell) -> Result<(), CompareError> {
        let what = format!("order-free functions: {}", Connections(cell.connections));
        self.progress.begin(&what);
        let result = self.run(cell, &cell.config(&self.config.base).alone())?;
        let share = result.order_free_share.map(|share| (cell, share));
        self.measured.order_free.extend(share);
        self.progress.end();
        Ok(())
    }

    fn sample(&mut self, cell: Cell) -> Result<(), CompareError> {
        self.progress.begin(&format!("waits for locks: {cell}"));
        let result = self.run(cell, &cell.sampled(&self.config.base))?;
        self.measured.sampled.insert(cell, result);
        self.progress.end();
        Ok(())
    }

    /// Measures, and sees that what was delivered is what every other cell of the same load delivered.
    fn run(&mut self, cell: Cell, config: &TtcpConfig) -> Result<RunResult, CompareError> {
        self.fresh = None;
        let result = (self.laboratory.run(config)).map_err(|error| CompareError::Measurement {
            what: cell.to_string(),
            error,
        })?;
        let hash = result.payload_hash;
        match self.measured.delivered_under(&cell) {
            Some((other, expected)) if expected != hash => Err(CompareError::Disagreement {
                cell,
                other,
                hash,
                expected,
            }),
            Some(_) => Ok(result),
            None => {
                self.measured.delivered.push((cell, hash));
                Ok(result)
            }
        }
    }

    /// Probes what a cell's processors can do at this moment; one processor needs no probe.
    fn probe(&mut self, cell: Cell) -> Result<Option<Probe>, CompareError> {
        let processors = cell.processors;
        if processors < 2 {
            return Ok(None);
        }
        let alone = Cell {
            architecture: Architecture::Connection,
            processors: 1,
            ..cell
        };
        let load = alone.config(&self.config.base);
        let failed = |error| CompareError::Measurement {
            what: format!("probe of {}", Processors(processors)),
            error,
        };
        let latency_ns = (self.laboratory.latency_ns((0, processors - 1))).map_err(failed)?;
        let ceiling = (self.laboratory)
            .ceiling(processors, &load, self.config.probe_duration)
            .map_err(failed)?;
        Ok(Some(Probe {
            latency_ns,
            ceiling,
        }))
    }
}

/// Whether a probe for one cell tells of the other.
fn is_probed_alike(one: &Cell, other: &Cell) -> bool {
    (one.processors, one.load()) == (other.processors, other.load())
}

fn settled(repetitions: &[Repetition]) -> usize {
    repetitions.iter().filter(|one| one.settled).count()
}
