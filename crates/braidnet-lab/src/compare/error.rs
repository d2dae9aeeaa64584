//! Why a comparison was not made.

use super::config::{Cell, LEAST_REPETITIONS};
use crate::{ConfigError, LabError};

/// Why a comparison was not made.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A list of what to compare holds nothing.
    #[error("there is nothing to compare: the list of {0} is empty")]
    Empty(
        /// Which list.
        &'static str,
    ),
    /// More processors than there are: their ceiling could not be probed.
    #[error(
        "{asked} processors cannot be compared here: this process may use {allowed} (see taskset or the container's limits)"
    )]
    TooManyProcessors {
        /// How many were asked for.
        asked: usize,
        /// How many this process may use.
        allowed: usize,
    },
    /// Too few repetitions for an interval that means something.
    #[error(
        "{0} repetitions are too few to tell a difference from noise: at least {LEAST_REPETITIONS}"
    )]
    TooFewRepetitions(
        /// How many were asked for.
        usize,
    ),
    /// A cell of the grid that cannot be measured as it is set.
    #[error("{cell}: {error}")]
    Cell {
        /// Which one.
        cell: Cell,
        /// Why not.
        error: ConfigError,
    },
    /// A measurement or probe that failed.
    #[error("{what}: {error}")]
    Measurement {
        /// Which one.
        what: String,
        /// Why.
        error: LabError,
    },
    /// The same load did not deliver the same bytes.
    #[error(
        "{cell} delivered other bytes than {other} did (payload hash {hash:016x} instead of {expected:016x}): this is a fault in braidnet, please report it"
    )]
    Disagreement {
        /// The cell that differs.
        cell: Cell,
        /// The cell of the same load that was measured before it.
        other: Cell,
        /// What the application received, hashed.
        hash: u64,
        /// What the other one's application received, hashed.
        expected: u64,
    },
}

impl CompareError {
    /// Whether what was asked for cannot be, as opposed to something that failed while it was done.
    pub fn is_usage(&self) -> bool {
        match self {
            CompareError::Empty(_)
            | CompareError::TooManyProcessors { .. }
            | CompareError::TooFewRepetitions(_)
            | CompareError::Cell { .. } => true,
            CompareError::Measurement { .. } | CompareError::Disagreement { .. } => false,
        }
    }
}
