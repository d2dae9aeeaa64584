//! Words that choose: `on|off`, and every enum that lists its names.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::str::FromStr;

/// `on` or `off`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Switch {
    /// Yes.
    On,
    /// No.
    Off,
}

impl Switch {
    /// Whether it is on.
    pub fn is_on(self) -> bool {
        self == Switch::On
    }
}

impl FromStr for Switch {
    type Err = String;

    fn from_str(word: &str) -> Result<Switch, String> {
        clap::ValueEnum::from_str(word, false)
            .map_err(|_| format!("{word:?} is neither `on` nor `off`"))
    }
}

/// Reads one of a list of things by its name; help and refusals list the names.
pub fn one_of<T>(
    all: &[T],
    name: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> + use<T>
where
    T: Copy + FromStr + Send + Sync + 'static,
    T::Err: std::error::Error + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.iter().copied().map(name)).try_map(|name| name.parse::<T>())
}
