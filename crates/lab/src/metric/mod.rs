//! The metrics of a run, parsed from the loads' output.

mod fio;
mod kernel;
mod lines;

use serde::{Deserialize, Serialize};

pub use kernel::{KernelCounters, per_operation};
pub use unstarve_load::metric::Better;

/// The kinds of output that [`parse`] reads, as a load's `metrics` names them.
pub const KINDS: [&str; 2] = ["fio", "load"];

/// Output without a usable metric.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricError {
    /// The scenario asks for a reader that does not exist.
    #[error("load `{load}`: no reader for `{kind}` output; there are {}", KINDS.join(", "))]
    UnknownKind {
        /// The load.
        load: String,
        /// What its `metrics` says.
        kind: String,
    },
    /// fio printed no JSON, or another shape of it.
    #[error("load `{load}`: no fio JSON (is --output-format=json there?): {source}; it printed: {shown}")]
    Fio {
        /// The load.
        load: String,
        /// What the JSON reader says.
        source: serde_json::Error,
        /// The beginning of the output.
        shown: String,
    },
    /// fio itself reports an error.
    #[error("load `{load}`: fio's job `{job}` failed with error {code}")]
    FioFailed {
        /// The load.
        load: String,
        /// The job's name.
        job: String,
        /// The errno.
        code: i64,
    },
    /// A metric line of one of the lab's own loads is malformed.
    #[error("load `{load}`, line {line}: expected `metric NAME NUMBER UNIT higher|lower|neither`, found `{shown}`")]
    Line {
        /// The load.
        load: String,
        /// The line's number from 1.
        line: usize,
        /// The line.
        shown: String,
    },
    /// The load printed no metric, which differs from measuring zero.
    #[error("load `{load}` measured nothing; it printed: {shown}")]
    Nothing {
        /// The load.
        load: String,
        /// The beginning of the output.
        shown: String,
    },
}

/// Reads the metrics in the output of the load named `load`; their names begin with `load.`.
///
/// `kind` is one of [`KINDS`].
pub fn parse(kind: &str, output: &str, load: &str) -> Result<Vec<Metric>, MetricError> {
    let found = match kind {
        "fio" => fio::parse(output, load)?,
        "load" => lines::parse(output, load)?,
        _ => return Err(MetricError::UnknownKind { load: load.to_owned(), kind: kind.to_owned() }),
    };
    if found.is_empty() {
        return Err(MetricError::Nothing { load: load.to_owned(), shown: beginning(output) });
    }
    Ok(found)
}

/// The beginning of an output, for a message.
fn beginning(output: &str) -> String {
    const EXCERPT_BYTES: usize = 200;
    let text: String =
        output.trim().chars().take(EXCERPT_BYTES).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.is_empty() { "nothing".to_owned() } else { text }
}

/// One number that a load or the guest's kernel reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// `fio.iops`, `ping.max`, `switches.per_io`.
    pub name: String,
    /// The value, in `unit`.
    pub value: f64,
    /// `1/s`, `ns`, `switches/io`, ….
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
}

impl Metric {
    /// A metric of the load `load`.
    fn of(load: &str, name: &str, value: f64, unit: &str, better: Better) -> Metric {
        Metric { name: format!("{load}.{name}"), value, unit: unit.to_owned(), better }
    }
}
