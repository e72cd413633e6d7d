//! A measurement of a load, as a line: `metric NAME NUMBER UNIT higher|lower|neither`. Other lines are for people.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which direction is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Higher, as for throughput.
    Higher,
    /// Lower, as for latency.
    Lower,
    /// Neither: it only describes.
    Neither,
}

/// The line.
pub fn line(name: &str, value: impl fmt::Display, unit: &str, better: Better) -> String {
    let better = match better {
        Better::Higher => "higher",
        Better::Lower => "lower",
        Better::Neither => "neither",
    };
    format!("metric {name} {value} {unit} {better}")
}
