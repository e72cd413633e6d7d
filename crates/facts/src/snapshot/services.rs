//! Services that affect scheduling.

use serde::{Deserialize, Serialize};

/// Programs that change how other tasks are scheduled, and knfsd's threads.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Services {
    /// Running programs of [`WATCHED_PROGRAMS`]; named also in a redacted snapshot.
    #[serde(default)]
    pub running: Vec<String>,
    /// The active TuneD profile, or several, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tuned_profiles: Vec<String>,
    /// knfsd, if it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nfsd: Option<NfsdFacts>,
}

/// knfsd's threads.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NfsdFacts {
    /// The configured number of threads.
    pub threads: u32,
    /// `global`, `auto`, `percpu` or `pernode` (sunrpc's `pool_mode`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_mode: Option<String>,
}

/// Programs that move interrupts or change policies, by task name.
pub const WATCHED_PROGRAMS: [&str; 10] = [
    "irqbalance",
    "tuned",
    "stalld",
    "rtkit-daemon",
    "ananicy-cpp",
    "system76-schedu",
    "kubelet",
    "containerd",
    "systemd-udevd",
    "numad",
];

impl Services {
    /// Whether a program of [`WATCHED_PROGRAMS`] runs.
    pub fn runs(&self, name: &str) -> bool {
        self.running.iter().any(|running| running == name)
    }
}
