use serde::{Deserialize, Serialize};

/// Programs that change how others are scheduled, and knfsd's pool.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Services {
    /// Those of [`WATCHED`] that run; kept by name also in a redacted snapshot.
    #[serde(default)]
    pub running: Vec<String>,
    /// The active TuneD profile, or several, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tuned_profiles: Vec<String>,
    /// knfsd, if it is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nfsd: Option<NfsdFacts>,
}

/// knfsd's threads.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct NfsdFacts {
    /// How many there should be.
    pub threads: u32,
    /// `global`, `auto`, `percpu` or `pernode` (sunrpc's `pool_mode`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool_mode: Option<String>,
}

/// Programs that move interrupts or change policies, by their task's name.
pub const WATCHED: [&str; 10] = [
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
    /// Whether a program of [`WATCHED`] runs.
    pub fn runs(&self, name: &str) -> bool {
        self.running.iter().any(|running| running == name)
    }
}
