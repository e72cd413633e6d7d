//! The state of a host at one moment: everything that affects scheduling, as far as it could be read.

mod cgroups;
mod configured;
mod cpu_times;
mod devices;
mod ext_scheduler;
pub mod kept;
mod kernel;
mod network;
mod pseudonyms;
mod queries;
mod redact;
mod seen;
mod services;
mod tasks;
mod view;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use unstarve_model::{ClockPair, Tid};

pub use cgroups::{Bandwidth, CgroupFacts, Hierarchy, Throttled};
pub use configured::{Configured, ConfiguredBy};
pub use cpu_times::CpuTimes;
pub use devices::{Cpus, IrqFacts, Mount, WorkqueueFacts};
pub use ext_scheduler::{EXT_SCHEDULER_FILES, ExtScheduler};
pub use kernel::KernelInfo;
pub use network::NetworkFacts;
pub use pseudonyms::{Pseudonyms, kernel_thread};
pub use seen::{RunSums, Seen};
pub use services::{NfsdFacts, Services, WATCHED_PROGRAMS};
pub use tasks::{Autogroup, DeadlineFacts, PolicyFacts, TaskFacts};
pub use unstarve_sched::setting::cgroup::CgroupVersion;
pub use view::View;

/// The state of a host, stored as JSON with the schema id [`Snapshot::SCHEMA`]. Later versions only add fields.
///
/// What could not be read is absent (never zero) and listed in [`Snapshot::missing`] with the reason.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Snapshot {
    /// The schema id.
    pub schema: String,
    /// The kernel.
    pub kernel: KernelInfo,
    /// Build options that affect scheduling, without `CONFIG_`: `HZ` → `250`, `PREEMPT_RT` → `y`. Options that are off
    /// are absent. `None` if the configuration could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<BTreeMap<String, String>>,
    /// Scheduler feature bits (debugfs), name → on. `None` if they could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<BTreeMap<String, bool>>,
    /// In a preview of another kernel: features whose default is unknown. A feature that is neither here nor in
    /// [`Snapshot::features`] does not exist.
    #[serde(skip)]
    pub undecided_features: BTreeSet<String>,
    /// Scheduler and workqueue settings: absolute path → text of the file. See [`Snapshot::setting`].
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The CPUs.
    #[serde(default)]
    pub cpus: Cpus,
    /// The hierarchy with the CPU controller; `None` if there is none or it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hierarchy: Option<Hierarchy>,
    /// The cgroups of that hierarchy below its root, sorted by path.
    #[serde(default)]
    pub cgroups: Vec<CgroupFacts>,
    /// For each cgroup, how much the throttling counters grew during the recording. Set by [`Snapshot::finished_by`];
    /// contains only cgroups that were throttled in that time. `None` in a snapshot of a single moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_meanwhile: Option<BTreeMap<String, Throttled>>,
    /// Threads, sorted by tid. In a recording: those that existed at its beginning, at its end, or when a recorded
    /// command had run for 0.1, 1, 10, … seconds.
    #[serde(default)]
    pub tasks: Vec<TaskFacts>,
    /// Interrupts, sorted by number.
    #[serde(default)]
    pub irqs: Vec<IrqFacts>,
    /// Workqueues with files in sysfs (only those created with WQ_SYSFS), sorted by name.
    #[serde(default)]
    pub workqueues: Vec<WorkqueueFacts>,
    /// Mounted file systems on block devices.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// The process that made the recording, so that no other process can pass for it by name. `None` in a snapshot by
    /// itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder: Option<Tid>,
    /// The host's name (`uname -n`). `None` also if it was left out for privacy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The boot id (`/proc/sys/kernel/random/boot_id`): within a boot a thread id means the same thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// In a recording: the trace clock and CLOCK_REALTIME at the same moment, at the beginning and at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock_pairs: Vec<ClockPair>,
    /// Clock ticks (1/100 s) since boot, comparable with [`TaskFacts::start_ticks`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime_ticks: Option<u64>,
    /// Softirqs handled since boot, by kind (`NET_RX`) and CPU, without zeros.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softirqs: Option<BTreeMap<String, BTreeMap<u32, u64>>>,
    /// What each CPU spent its time on since boot (`/proc/stat`). Absent in snapshots of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_times: Option<BTreeMap<u32, CpuTimes>>,
    /// In a recording: the growth of [`Snapshot::cpu_times`]. Set by [`Snapshot::finished_by`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_times_meanwhile: Option<BTreeMap<u32, CpuTimes>>,
    /// Network interfaces, sorted by name. This and all following fields are not in a recording's snapshot.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkFacts>,
    /// Programs that change how other tasks are scheduled, and NFS threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<Services>,
    /// Scheduling settings in files and on the boot line, with their places. sysctl lines are in the order in which
    /// they are applied, so the last line for a key wins.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configured: Vec<Configured>,
    /// The viewpoint from which the host was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<View>,
    /// What could not be read.
    #[serde(default)]
    pub missing: Vec<Missing>,
}

/// Something missing from a snapshot.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Missing {
    /// What is missing: a path or a thing (`scheduler features`).
    pub what: String,
    /// Why, for people.
    pub why: String,
}

impl Missing {
    const BELOW_GROUP: &str = "cgroups below ";

    /// Names the omission of some cgroups below a cgroup; the root's path is empty.
    pub fn below_group(path: &str) -> String {
        format!("{}{}", Missing::BELOW_GROUP, if path.is_empty() { "/" } else { path })
    }
}

/// Why JSON is not a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It is not JSON of the right structure.
    #[error("the host snapshot is damaged: {0}")]
    Json(#[from] serde_json::Error),
    /// It is something else, or from a version with incompatible changes.
    #[error("the host snapshot has schema `{0}`, expected `unstarve.snapshot/1`")]
    Schema(String),
}

impl Snapshot {
    /// The id of the JSON form.
    pub const SCHEMA: &str = "unstarve.snapshot/1";

    /// Completes this snapshot, taken at the beginning of a recording, by `end`, taken at its end: adds tasks created
    /// in between, and sets [`Snapshot::throttled_meanwhile`] to the growth of the counters. For a task in both, the
    /// facts of the beginning are kept: they applied to most of the recording.
    #[must_use]
    pub fn finished_by(mut self, end: Snapshot) -> Snapshot {
        self.cpu_times_meanwhile = cpu_times::grown(self.cpu_times.as_ref(), end.cpu_times.as_ref());
        self.throttled_meanwhile = Some(cgroups::throttled_between(&self.cgroups, &end.cgroups));
        self.tasks = tasks::finish(self.tasks, end.tasks);
        self
    }

    /// Adds tasks and cgroups of a recorded command that only `middle`, a snapshot taken in between, contains. Of what
    /// is in both, the earlier facts are kept.
    #[must_use]
    pub fn joined_by(mut self, middle: Snapshot) -> Snapshot {
        self.tasks = tasks::union(self.tasks, middle.tasks);
        self.cgroups.extend(middle.cgroups);
        // The sort is stable, so earlier facts come first, and dedup keeps the first.
        self.cgroups.sort_by(|a, b| a.path.cmp(&b.path));
        self.cgroups.dedup_by(|later, earlier| later.path == earlier.path);
        self
    }

    /// The JSON form, on one line.
    pub fn to_json(&self) -> String {
        // Cannot fail: maps have text keys and every type derives Serialize.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the JSON form back.
    pub fn from_json(text: &str) -> Result<Snapshot, SnapshotError> {
        let mut snapshot: Snapshot = serde_json::from_str(text)?;
        if snapshot.schema != Snapshot::SCHEMA {
            return Err(SnapshotError::Schema(snapshot.schema));
        }
        // Queries use binary search; a file edited by hand may be in another order.
        snapshot.tasks.sort_by_key(|task| (task.tid, task.start_ticks));
        snapshot.cgroups.sort_by(|a, b| a.path.cmp(&b.path));
        snapshot.irqs.sort_by_key(|irq| irq.irq);
        Ok(snapshot)
    }
}
