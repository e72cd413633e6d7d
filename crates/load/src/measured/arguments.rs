//! Arguments of measured loads.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

/// What is wrong with a load's arguments.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ArgumentError {
    /// No such kind of load.
    #[error("no load `{kind}`; there are {known}")]
    Kind {
        /// The requested kind.
        kind: String,
        /// The known kinds.
        known: String,
    },
    /// Not of the form `key=value`.
    #[error("`{0}`: expected key=value")]
    Form(String),
    /// An unknown key.
    #[error("unknown argument `{0}`")]
    Unknown(String),
    /// A value out of range.
    #[error("{key}={value}: expected {expected}")]
    Value {
        /// The key.
        key: String,
        /// The given value.
        value: String,
        /// What was expected.
        expected: String,
    },
}

/// `key=value` arguments. Each is taken once; [`Arguments::done`] refuses those that were not taken.
pub(super) struct Arguments(BTreeMap<String, String>);

impl Arguments {
    pub(super) fn read(arguments: &[String]) -> Result<Arguments, ArgumentError> {
        let pair = |text: &String| {
            let (key, value) = text.split_once('=').ok_or_else(|| ArgumentError::Form(text.clone()))?;
            Ok((key.to_owned(), value.to_owned()))
        };
        Ok(Arguments(arguments.iter().map(pair).collect::<Result<_, _>>()?))
    }

    /// A whole number within `range`.
    pub(super) fn number(&mut self, key: &str, default: u64, range: RangeInclusive<u64>) -> Result<u64, ArgumentError> {
        let Some(value) = self.0.remove(key) else { return Ok(default) };
        match value.parse() {
            Ok(number) if range.contains(&number) => Ok(number),
            _ => {
                let expected = format!("{} to {}", range.start(), range.end());
                Err(ArgumentError::Value { key: key.to_owned(), value, expected })
            }
        }
    }

    /// A UDP or TCP port.
    pub(super) fn port(&mut self, default: u16) -> Result<u16, ArgumentError> {
        Ok(self.number("port", u64::from(default), 1..=u64::from(u16::MAX))? as u16)
    }

    /// A duration in microseconds.
    pub(super) fn micros(&mut self, key: &str, default: u64) -> Result<Duration, ArgumentError> {
        self.number(key, default, 0..=10_000_000).map(Duration::from_micros)
    }

    /// A duration in milliseconds.
    pub(super) fn millis(&mut self, key: &str, default: u64) -> Result<Duration, ArgumentError> {
        self.number(key, default, 0..=60_000).map(Duration::from_millis)
    }

    pub(super) fn text(&mut self, key: &str, default: &str) -> String {
        self.0.remove(key).unwrap_or_else(|| default.to_owned())
    }

    /// Takes `seconds` and `seed`, which every load has, and refuses any others left.
    pub(super) fn done(&mut self) -> Result<(Duration, u64), ArgumentError> {
        let seed = self.number("seed", 1, 0..=u64::MAX)?;
        let value = self.text("seconds", "1");
        let seconds = value.parse().ok().filter(|seconds: &f64| *seconds > 0.0 && *seconds <= 60.0);
        let seconds = seconds.ok_or_else(|| ArgumentError::Value {
            key: "seconds".to_owned(),
            value,
            expected: "more than 0, at most 60".to_owned(),
        })?;
        match self.0.keys().next() {
            Some(key) => Err(ArgumentError::Unknown(key.clone())),
            None => Ok((Duration::from_secs_f64(seconds), seed)),
        }
    }
}
