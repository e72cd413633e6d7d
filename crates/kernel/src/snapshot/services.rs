use serde::{Deserialize, Serialize};

use super::TaskFacts;
use crate::Root;

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

pub(super) fn read(root: &Root, tasks: &[TaskFacts]) -> Services {
    let runs = |name: &&str| {
        tasks.iter().any(|task| {
            let script = |line: &String| line.split(' ').take(3).any(|word| word.rsplit('/').next() == Some(*name));
            // TuneD is a Python script: its task may have the interpreter's name.
            !task.kernel_thread
                && task.tgid.is_none()
                && (task.comm == **name || task.cmdline.as_ref().is_some_and(script))
        })
    };
    let profiles = root.text("/etc/tuned/active_profile").unwrap_or_default();
    Services {
        running: WATCHED.iter().filter(|name| runs(name)).map(|&name| name.to_owned()).collect(),
        tuned_profiles: profiles.split_ascii_whitespace().map(str::to_owned).collect(),
        nfsd: nfsd(root),
    }
}

fn nfsd(root: &Root) -> Option<NfsdFacts> {
    let threads: u32 = root.text("/proc/fs/nfsd/threads").ok()?.trim().parse().ok()?;
    (threads > 0).then(|| NfsdFacts { threads, pool_mode: root.text("/sys/module/sunrpc/parameters/pool_mode").ok() })
}
