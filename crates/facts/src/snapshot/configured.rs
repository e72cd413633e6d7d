//! Configured settings: what files and the boot line set.

use serde::{Deserialize, Serialize};

/// One setting in one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Configured {
    /// The program that reads it.
    pub by: ConfiguredBy,
    /// The file; `/proc/cmdline` for a boot parameter of the running kernel.
    pub file: String,
    /// The line number, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The TuneD profile or the unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The setting: `kernel.sched_rt_runtime_us`, `sched_min_granularity_ns` (TuneD), `CPUWeight` (a unit), `preempt`.
    pub key: String,
    /// The value; empty for a boot parameter without one.
    pub value: String,
}

/// The program that reads a setting.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ConfiguredBy {
    /// `sysctl --system`, systemd-sysctl.
    Sysctl,
    /// TuneD.
    Tuned,
    /// systemd.
    Unit,
    /// The kernel, from its command line.
    Boot,
    /// Unknown to this version of unstarve.
    #[serde(other)]
    Unknown,
}

impl Configured {
    /// `file:line`, or the file only.
    pub fn place(&self) -> String {
        match self.line {
            Some(line) => format!("{}:{line}", self.file),
            None => self.file.clone(),
        }
    }
}
