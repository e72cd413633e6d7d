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
    /// Virtual seconds measured and recorded.
    #[serde(default = "default_seconds")]
    pub seconds: f64,
    /// Virtual nanoseconds that an instruction takes, a power of 2. With more than 1 the guest is a slow computer: what
    /// lasts by the clock (a watchdog's 30 s beside a thread that never sleeps) costs the host fewer instructions.
    #[serde(default = "default_instruction_ns", skip_serializing_if = "is_default_instruction_ns")]
    pub instruction_ns: u32,
    /// Kernel modules, loaded in dependency order before the first step.
    #[serde(default)]
    pub modules: Vec<String>,
    /// Programs copied from the host with their libraries: `fio`, `mkfs.xfs`, `./mine`. Their place is the guest's
    /// `/usr/bin`.
    #[serde(default)]
    pub tools: Vec<String>,
    /// The user's own files in the guest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub file: Vec<GuestFile>,
    /// Kernels that it applies to, e.g. `[">=6.1"]`; empty: all.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// Steps before the loads start, in order.
    #[serde(default)]
    pub setup: Vec<Step>,
    /// The loads. Exactly one is `main`: the recording lasts as long as it does.
    pub load: Vec<Load>,
    /// Knobs that the scenario itself sets, like `--set`.
    #[serde(default)]
    pub knob: Vec<Knob>,
    /// Remedies for `lab prove`.
    #[serde(default)]
    pub remedy: Vec<Remedy>,
    /// What `explain` must report.
    #[serde(default)]
    pub expect: Expect,
}

fn default_cpus() -> u32 {
    1
}

fn default_memory() -> u32 {
    1024
}

fn default_instruction_ns() -> u32 {
    1
}

fn is_default_instruction_ns(ns: &u32) -> bool {
    *ns == default_instruction_ns()
}

fn default_seconds() -> f64 {
    1.0
}

/// A file or directory present in the guest from the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestFile {
    /// Where it is in the guest, from the root.
    pub path: String,
    /// Its content; excludes `from`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The host's file or directory to copy, relative to the scenario's directory; a program brings its libraries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<PathBuf>,
    /// Whether `text` is an executable script.
    #[serde(default, skip_serializing_if = "is_false")]
    pub executable: bool,
}

fn is_false(value: &bool) -> bool {
    !value
}

/// A setup step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// When it applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<String>,
    /// Kernels that it applies to, e.g. `["<6.2"]`; empty: all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kernels: Vec<String>,
    /// The action.
    #[serde(flatten)]
    pub action: Action,
}

/// The action of a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Action {
    /// Creates null block devices `/dev/nullb0…` (through configfs on every kernel).
    NullBlk {
        /// How many.
        devices: u32,
        /// Size of each in MiB.
        size_mib: u32,
        /// Time of each request in ns; 0 completes at once.
        completion_ns: u64,
    },
    /// Creates and mounts a file system.
    Filesystem {
        /// `/dev/nullb0`.
        device: String,
        /// `xfs` or `ext4`.
        kind: String,
        /// Where.
        at: String,
    },
    /// Mounts a file system that needs no mkfs, such as `nfsd`, `tmpfs` or an NFS export.
    Mount {
        /// The source, as in `mount SOURCE`; the type for file systems without a device.
        source: String,
        /// `tmpfs`, `nfsd`, `nfs4`.
        kind: String,
        /// The mount point; created if missing.
        at: String,
        /// The kernel's options; options that `mount.nfs` would derive must be given.
        #[serde(default)]
        options: String,
    },
    /// Creates a cgroup (v2) with its missing ancestors.
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
        /// Further files of the group with their values: `memory.max`, `cpu.idle`.
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
    /// Sets policy, nice or affinity of all threads whose name matches.
    Threads {
        /// `kworker/0:*`, `ksoftirqd/1`: an anchored glob.
        comm: String,
        /// As for a load.
        policy: Option<String>,
        /// −20…19.
        nice: Option<i32>,
        /// `0`, `2-7`.
        cpus: Option<String>,
    },
    /// Runs `unstarve guard run` during the measurement.
    Guard {
        /// The policy's text.
        policy: String,
        /// `ebpf`, `netlink` or `scan`; by default the best that works in the guest.
        #[serde(default)]
        source: Option<String>,
    },
}

/// A program that runs during the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    /// Its name in metrics and file names; by default the program's.
    #[serde(default)]
    pub name: String,
    /// When it applies.
    #[serde(default)]
    pub when: Option<String>,
    /// Program and arguments; `{seconds}`, `{milliseconds}`, `{seed}` and `{copy}` are substituted. The program `load`
    /// is built in: `load burn …`.
    pub argv: Vec<String>,
    /// The number of copies, named `NAME-1`, `NAME-2`, …; the first copy of the main load is the main one.
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
    /// The cgroup that it starts in.
    #[serde(default)]
    pub cgroup: Option<String>,
    /// Starts this long after the recording began, plus up to `jitter_ms` by the seed. Negative: at least this long
    /// before it.
    #[serde(default)]
    pub start_ms: i64,
    /// See `start_ms`.
    #[serde(default)]
    pub jitter_ms: u64,
    /// The load that is measured; a single load is the main one.
    #[serde(default)]
    pub main: bool,
    /// The format of its output: `fio` (JSON), `load` (built-in loads); without it the output is only stored.
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
    /// Whether it starts before the recording.
    pub fn is_early(&self) -> bool {
        self.start_ms < 0
    }

    /// Its copies, each with its name and `{copy}` substituted.
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
    /// Kernels that it applies to, e.g. `["<5.13"]`; empty: all. Another kernel may have the setting elsewhere.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// As in `--set`.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// A remedy that can be proved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Remedy {
    /// The id by which `explain` knows it; with `own` any other.
    pub id: String,
    /// One line for people; `explain`'s remedies have their own.
    #[serde(default)]
    pub title: String,
    /// Specific to the scenario (a guard's policy, a machine without the device), not offered by `explain`. For
    /// `explain`'s remedies the report on the faulty guest decides what they do.
    #[serde(default, skip_serializing_if = "is_false")]
    pub own: bool,
    /// For an own remedy: steps after the setup, repeated when a new matching thread appears (workers are created at
    /// any time).
    #[serde(default)]
    pub steps: Vec<Action>,
}
