//! A scenario's file: small TOML that users copy and edit.
//!
//! Every step, load and knob may carry `when`: `"fault"` (only with the fault), `"healthy"` (only without),
//! `"remedy:ID"` or `"unless-remedy:ID"`. Without `when` it always applies. See [`Scenario::parse`] and
//! [`crate::run::Request`], which picks what applies.

mod check;
mod step;
mod when;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use check::{Placement, ScenarioError, check_knob_name};
pub use when::{When, WhenError, kernel_suits};

/// A scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// `kubepods`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// The published case behind it.
    pub source: String,
    /// Virtual CPUs.
    pub cpus: u32,
    /// Guest memory in MiB.
    #[serde(default = "default_memory")]
    pub memory_mib: u32,
    /// Virtual seconds that are measured and recorded.
    pub seconds: f64,
    /// Kernel modules, loaded in the order of their dependencies before the first step.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Programs copied from the host with their libraries: `fio`, `mkfs.xfs`.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Kernels on which it makes sense, e.g. `[">=6.1"]`; empty: all.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// Done in order before the loads start.
    #[serde(default)]
    pub setup: Vec<Step>,
    /// What runs. Exactly one is `main`: recording and measuring last as long as it does.
    pub load: Vec<Load>,
    /// Knobs that the scenario itself sets, like `--set`.
    #[serde(default)]
    pub knob: Vec<Knob>,
    /// Remedies that `lab prove` knows.
    #[serde(default)]
    pub remedy: Vec<Remedy>,
    /// What `explain` must say of it.
    pub expect: Expect,
}

fn default_memory() -> u32 {
    1024
}

/// One thing to prepare.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// When it applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Kernels on which it is done, e.g. `["<6.2"]`; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<String>,
    /// What to do.
    #[serde(flatten)]
    pub action: Action,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Makes null block devices `/dev/nullb0…` (through configfs on every kernel).
    NullBlk {
        /// How many.
        devices: u32,
        /// Size of each in MiB.
        size_mib: u32,
        /// Time of each request in ns; 0 completes at once.
        completion_ns: u64,
    },
    /// Makes and mounts a filesystem.
    Filesystem {
        /// `/dev/nullb0`.
        device: String,
        /// `xfs` or `ext4`.
        kind: String,
        /// Where.
        at: String,
    },
    /// Mounts something that needs no making, such as `nfsd`, `tmpfs` or an NFS export.
    Mount {
        /// What, as in `mount SOURCE`; for file systems without a device their kind.
        source: String,
        /// `tmpfs`, `nfsd`, `nfs4`.
        kind: String,
        /// Where; made if it is not there.
        at: String,
        /// The kernel's own options; what `mount.nfs` would work out has to be spelt out.
        #[serde(default)]
        options: String,
    },
    /// Makes a top-level cgroup (v2).
    Cgroup {
        /// Its path below the root.
        path: String,
        /// `cpu.weight`.
        weight: Option<u32>,
        /// `cpu.max`.
        max: Option<String>,
    },
    /// Writes a text to a file.
    Write {
        /// Where.
        path: String,
        /// What.
        text: String,
    },
    /// Runs a program to its end.
    Run {
        /// Program and arguments.
        argv: Vec<String>,
    },
    /// Sets policy, nice or affinity of all threads whose name fits.
    Threads {
        /// `kworker/0:*`, `ksoftirqd/1`: an anchored glob.
        comm: String,
        /// `fifo:20`, `rr:10`, `other`.
        policy: Option<String>,
        /// −20…19.
        nice: Option<i32>,
        /// `0`, `2-7`.
        cpus: Option<String>,
    },
    /// Runs `unstarve guard run` while it is measured.
    Guard {
        /// The policy's text.
        policy: String,
        /// `ebpf`, `netlink` or `scan`; none: the best that works in the guest.
        #[serde(default)]
        source: Option<String>,
    },
}

/// Something that runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Its name in metrics and in the results' file names.
    pub name: String,
    /// When it applies.
    #[serde(default)]
    pub when: Option<String>,
    /// Program and arguments; `{seconds}`, `{seed}` are filled in. The program `load` is our own: `load burn …`.
    pub argv: Vec<String>,
    /// `0`, `2-7`; none: all.
    #[serde(default)]
    pub cpus: Option<String>,
    /// `fifo:20`, `rr:10`; none: fair.
    #[serde(default)]
    pub policy: Option<String>,
    /// −20…19.
    #[serde(default)]
    pub nice: Option<i32>,
    /// The cgroup it is started in.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// Starts this long after the recording began; seeds shift it by up to `jitter_ms`.
    #[serde(default)]
    pub start_ms: u64,
    /// See `start_ms`.
    #[serde(default)]
    pub jitter_ms: u64,
    /// The one that is measured.
    #[serde(default)]
    pub main: bool,
    /// How to read its output: `fio` (JSON), `load` (our own's lines); none: kept as a file only.
    #[serde(default)]
    pub metrics: Option<String>,
}

/// A knob that the scenario sets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Knob {
    /// When it applies.
    #[serde(default)]
    pub when: Option<String>,
    /// Kernels on which it is set, e.g. `["<5.13"]`; empty: all. The same setting lives elsewhere on another kernel.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// As after `--set`.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A remedy that can be proved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remedy {
    /// The id that `explain` gives it.
    pub id: String,
    /// One line for people.
    pub title: String,
    /// Done after the setup, and again whenever a new thread fits (workers are born at any time).
    #[serde(default)]
    pub steps: Vec<Action>,
}

/// What `explain` must say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// With the fault the top finding is one of these; empty: nothing is starved, only slower, and `explain` stays quiet.
    pub finding: Vec<String>,
    /// Its victim: `kind`, `comm`, `work`.
    #[serde(default)]
    pub victim: BTreeMap<String, String>,
    /// One of its culprits.
    #[serde(default)]
    pub culprit: Option<String>,
    /// The metrics that matter, the first one most: shown first, compared first.
    pub metrics: Vec<String>,
}
