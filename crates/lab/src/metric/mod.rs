//! The metrics of a run, parsed from the loads' output.

mod fio;
mod kernel;
mod lines;

use serde::{Deserialize, Serialize};

pub use kernel::{KernelCounters, per_operation};
pub use unstarve_load::metric::Better;

/// The kinds of output that [`parse`] reads, as a load's `metrics` names them.
pub const KINDS: [&str; 2] = ["fio", "load"];

/// Why the output of a load gives no metrics.
#[derive(Debug, thiserror::Error)]
#[error("load `{load}`{why}")]
pub struct MetricError {
    load: String,
    why: String,
}

/// Reads the metrics in the output of the load named `load`; their names begin with `load.`.
///
/// `kind` is one of [`KINDS`].
pub fn parse(kind: &str, output: &str, load: &str) -> Result<Vec<Metric>, MetricError> {
    let found = match kind {
        "fio" => fio::parse(output, load),
        "load" => lines::parse(output, load),
        _ => Err(format!(": no reader for `{kind}` output; there are {}", KINDS.join(", "))),
    };
    let measured = |found: Vec<Metric>| match found.is_empty() {
        // Nothing measured differs from a measured zero.
        true => Err(format!(" measured nothing; it printed: {}", beginning(output))),
        false => Ok(found),
    };
    found.and_then(measured).map_err(|why| MetricError { load: load.to_owned(), why })
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
    pub(crate) fn of(load: &str, name: &str, value: f64, unit: &str, better: Better) -> Metric {
        Metric { name: format!("{load}.{name}"), value, unit: unit.to_owned(), better }
    }
}
