//! A scenario's file: small TOML that users copy and edit. `docs/lab-scenarios.md` is its reference; a test keeps it whole.
//!
//! Every step, load and knob may carry `when`: `"fault"` (only with the fault), `"healthy"` (only without),
//! `"remedy:ID"` or `"unless-remedy:ID"`. Without `when` it always applies. See [`Scenario::parse`] and
//! [`crate::run::Request`], which picks what applies.

mod check;
mod expect;
mod fill;
mod glob;
mod place;
mod step;
mod when;

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use check::{ScenarioError, check_knob_name};
pub use expect::{Expect, Expected, Names, Victim};
pub use glob::fits;
pub use place::Placement;
pub use when::{When, WhenError, kernel_suits};

/// A scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// `kubepods`; the file's name if none is given.
    #[serde(default)]
    pub name: String,
    /// One line for people.
    #[serde(default)]
    pub title: String,
    /// The published case behind it.
    #[serde(default)]
    pub source: String,
    /// Virtual CPUs.
    #[serde(default = "default_cpus")]
    pub cpus: u32,
    /// Guest memory in MiB.
    #[serde(default = "default_memory")]
    pub memory_mib: u32,
    /// Virtual seconds that are measured and recorded.
    #[serde(default = "default_seconds")]
    pub seconds: f64,
    /// Kernel modules, loaded in the order of their dependencies before the first step.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Programs copied from the host with their libraries: `fio`, `mkfs.xfs`, `./mine`. They are in the guest's `/usr/bin`.
    #[serde(default)]
    pub tools: Vec<String>,
    /// Files of one's own in the guest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file: Vec<GuestFile>,
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
    #[serde(default)]
    pub expect: Expect,
}

fn default_cpus() -> u32 {
    1
}

fn default_memory() -> u32 {
    1024
}

fn default_seconds() -> f64 {
    1.0
}

/// A file or directory that the guest has before anything runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestFile {
    /// Where it is in the guest, from the root.
    pub path: String,
    /// What is in it; instead of `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The host's file or directory that it is a copy of, from the scenario's directory; a program brings its libraries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PathBuf>,
    /// Whether a `text` is a script to be run.
    #[serde(default, skip_serializing_if = "is_false")]
    pub executable: bool,
}

fn is_false(value: &bool) -> bool {
    !value
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
    /// Makes a cgroup (v2), and the groups above it that there are not yet.
    Cgroup {
        /// Its path below the root: `batch`, `prod/heavy`.
        path: String,
        /// `cpu.weight`.
        weight: Option<u32>,
        /// `cpu.max`.
        max: Option<String>,
        /// `cpuset.cpus`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cpus: Option<String>,
        /// Further files of the group and what is written to them: `memory.max`, `cpu.idle`.
        #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
        set: BTreeMap<String, String>,
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
        /// As of a load.
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
    /// Its name in metrics and in the results' file names; its program's if none is given.
    #[serde(default)]
    pub name: String,
    /// When it applies.
    #[serde(default)]
    pub when: Option<String>,
    /// Program and arguments; `{seconds}`, `{milliseconds}`, `{seed}` and `{copy}` are filled in. The program `load` is our
    /// own: `load burn …`.
    pub argv: Vec<String>,
    /// So many of it, called `NAME-1`, `NAME-2`, …; of the main load the first is the main one.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// `0`, `2-7`; none: all.
    #[serde(default)]
    pub cpus: Option<String>,
    /// `fifo:20`, `rr:10`, `deadline:RUNTIME/PERIOD` in µs, `batch`, `idle`; none: fair.
    #[serde(default)]
    pub policy: Option<String>,
    /// −20…19.
    #[serde(default)]
    pub nice: Option<i32>,
    /// The cgroup it is started in.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// Starts this long after the recording began; seeds shift it by up to `jitter_ms`. Negative: at least so long before.
    #[serde(default)]
    pub start_ms: i64,
    /// See `start_ms`.
    #[serde(default)]
    pub jitter_ms: u64,
    /// The one that is measured; a single load is.
    #[serde(default)]
    pub main: bool,
    /// How to read its output: `fio` (JSON), `load` (our own's lines); none: kept as a file only.
    #[serde(default)]
    pub metrics: Option<String>,
}

fn one() -> u32 {
    1
}

fn is_one(count: &u32) -> bool {
    *count == 1
}

impl Load {
    /// Whether it is started before the recording begins.
    pub fn is_early(&self) -> bool {
        self.start_ms < 0
    }

    /// Its copies, each with a name of its own and `{copy}` filled in.
    pub fn copies(&self) -> impl Iterator<Item = Load> {
        (1..=self.count).map(|number| Load {
            name: if self.count == 1 { self.name.clone() } else { format!("{}-{number}", self.name) },
            argv: self.argv.iter().map(|argument| argument.replace("{copy}", &number.to_string())).collect(),
            count: 1,
            main: self.main && number == 1,
            ..self.clone()
        })
    }
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
    /// The id that `explain` gives it, or with `own` any other.
    pub id: String,
    /// One line for people; `explain`'s remedies have theirs.
    #[serde(default)]
    pub title: String,
    /// The scenario's own kind of thing (a guard's policy, a machine without the device), not a remedy that `explain` offers. What
    /// one of `explain`'s does is what the report on the faulty guest says.
    #[serde(default, skip_serializing_if = "is_false")]
    pub own: bool,
    /// Of an own one: done after the setup, and again whenever a new thread fits (workers are born at any time).
    #[serde(default)]
    pub steps: Vec<Action>,
}
