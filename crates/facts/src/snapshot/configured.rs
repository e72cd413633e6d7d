use serde::{Deserialize, Serialize};

/// One setting at one place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Configured {
    /// What reads it.
    pub by: ConfiguredBy,
    /// The file; `/proc/cmdline` for a boot parameter of the running kernel.
    pub file: String,
    /// The line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The TuneD profile or the unit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// What is set: `kernel.sched_rt_runtime_us`, `sched_min_granularity_ns` (TuneD), `CPUWeight` (a unit), `preempt`.
    pub key: String,
    /// To what; empty for a boot parameter without a value.
    pub value: String,
}

/// What reads a setting.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
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
    /// Something that this program does not know.
    #[serde(other)]
    Unknown,
}

impl Configured {
    /// `file:line`, or the file alone.
    pub fn place(&self) -> String {
        match self.line {
            Some(line) => format!("{}:{line}", self.file),
            None => self.file.clone(),
        }
    }
}
