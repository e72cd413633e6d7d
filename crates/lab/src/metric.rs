//! What a run measures.

use serde::{Deserialize, Serialize};

/// One number that a load or the guest's kernel reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Metric {
    /// `fio.iops`, `ping.max`, `switches.per_io`.
    pub name: String,
    /// The value, in `unit`.
    pub value: f64,
    /// `1/s`, `ns`, `switches/io`, ….
    pub unit: String,
    /// Which way is good.
    pub better: Better,
}

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Throughput.
    Higher,
    /// Latency.
    Lower,
    /// Neither: it describes.
    Neither,
}
