//! The state of a host at one moment: everything about it that decides who runs, as far as it could be read.

mod cgroups;
mod configured;
mod devices;
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

pub use cgroups::{Bandwidth, CgroupFacts, CgroupVersion, Hierarchy, Throttled};
pub use configured::{Configured, ConfiguredBy};
pub use devices::{Cpus, IrqFacts, Mount, WorkqueueFacts};
pub use kernel::KernelInfo;
pub use network::NetworkFacts;
pub use pseudonyms::{Pseudonyms, kernel_thread};
pub use seen::{RunSums, Seen};
pub use services::{NfsdFacts, Services, WATCHED};
pub use tasks::{Autogroup, DeadlineFacts, TaskFacts};
pub use view::View;

/// The state of a host, as JSON with the schema id [`Snapshot::SCHEMA`]. Later versions only add fields.
///
/// What could not be read is absent (never zero) and named in [`Snapshot::missing`] with the reason.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Snapshot {
    /// The schema id.
    pub schema: String,
    /// Which kernel this is.
    pub kernel: KernelInfo,
    /// The options of the kernel's build that bear on scheduling, without `CONFIG_`: `HZ` → `250`, `PREEMPT_RT` → `y`.
    /// An option that is off is absent. `None` when the configuration could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<BTreeMap<String, String>>,
    /// Scheduler feature bits (debugfs), name → on. `None` when they could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub features: Option<BTreeMap<String, bool>>,
    /// Of a preview of another kernel: features of which it is not known whether that kernel has them on. What is neither
    /// here nor in [`Snapshot::features`] is not there.
    #[serde(skip)]
    pub undecided_features: BTreeSet<String>,
    /// Scheduler and workqueue settings: absolute path → text of the file. See [`Snapshot::setting`].
    #[serde(default)]
    pub settings: BTreeMap<String, String>,
    /// The CPUs.
    #[serde(default)]
    pub cpus: Cpus,
    /// The hierarchy that decides CPU weights and limits; `None` when there is none or it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hierarchy: Option<Hierarchy>,
    /// The cgroups of that hierarchy below its root, sorted by path.
    #[serde(default)]
    pub cgroups: Vec<CgroupFacts>,
    /// Per cgroup, how much more throttling there was when the recording ended than when it began. Filled by
    /// [`Snapshot::finished_by`]; only cgroups that were throttled in that time are listed. `None` in a snapshot of one
    /// moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_meanwhile: Option<BTreeMap<String, Throttled>>,
    /// Threads, sorted by tid; of a recording, those that lived at its beginning, at its end, or when a recorded command
    /// had run for 0.1, 1, 10, … seconds.
    #[serde(default)]
    pub tasks: Vec<TaskFacts>,
    /// Interrupts, sorted by number.
    #[serde(default)]
    pub irqs: Vec<IrqFacts>,
    /// Workqueues that sysfs shows (only those created with WQ_SYSFS), sorted by name.
    #[serde(default)]
    pub workqueues: Vec<WorkqueueFacts>,
    /// Mounted filesystems that live on a block device.
    #[serde(default)]
    pub mounts: Vec<Mount>,
    /// The process that made the recording around this snapshot, so that nobody else passes for it by name. `None` in a
    /// snapshot by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorder: Option<Tid>,
    /// The name of the host (`uname -n`). `None` also where it was left out so that nobody can tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// The boot (`/proc/sys/kernel/random/boot_id`): thread ids mean the same threads only within one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// Of a recording: the trace's clock and CLOCK_REALTIME at the same moment, when it began and when it ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clock_pairs: Vec<ClockPair>,
    /// Clock ticks (1/100 s) since boot, comparable with [`TaskFacts::start_ticks`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uptime_ticks: Option<u64>,
    /// Softirqs served since boot, by kind (`NET_RX`) and CPU; zeros are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub softirqs: Option<BTreeMap<String, BTreeMap<u32, u64>>>,
    /// Network interfaces, sorted by name. Not in a recording's snapshot, like all that follows.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub networks: Vec<NetworkFacts>,
    /// Programs that change how others are scheduled, and NFS threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub services: Option<Services>,
    /// What files and the boot line say about scheduling, with the place; sysctl lines in the order in which they are
    /// applied, so that the last of a key holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub configured: Vec<Configured>,
    /// From where the host was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub view: Option<View>,
    /// What could not be read.
    #[serde(default)]
    pub missing: Vec<Missing>,
}

/// Something that a snapshot should hold and does not.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Missing {
    /// What: a path or a thing (`scheduler features`).
    pub what: String,
    /// Why, for people.
    pub why: String,
}

impl Missing {
    const BELOW_GROUP: &str = "cgroups below ";

    /// Some of the groups below a group; the path of the root is empty.
    pub fn below_group(path: &str) -> String {
        format!("{}{}", Missing::BELOW_GROUP, if path.is_empty() { "/" } else { path })
    }
}

/// Why JSON is not a snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It is not JSON of the right shape.
    #[error("the host snapshot is damaged: {0}")]
    Json(#[from] serde_json::Error),
    /// It is something else, or from a version that changed more than additions.
    #[error("the host snapshot has schema `{0}`, expected `unstarve.snapshot/1`")]
    Schema(String),
}

impl Snapshot {
    /// The id of the JSON form.
    pub const SCHEMA: &str = "unstarve.snapshot/1";

    /// This snapshot, taken when a recording began, completed by `end`, taken when it ended: tasks that came meanwhile
    /// are added, [`Snapshot::throttled_meanwhile`] is the difference of the counters. Where both know a task, the
    /// beginning's facts stay: they held for the most part of what is explained.
    #[must_use]
    pub fn finished_by(mut self, end: Snapshot) -> Snapshot {
        self.throttled_meanwhile = Some(cgroups::throttled_between(&self.cgroups, &end.cgroups));
        self.tasks = tasks::finish(self.tasks, end.tasks);
        self
    }

    /// A recording's snapshot with what was there only in between, seen by `middle`: the tasks of a recorded command, and
    /// the cgroups they were in. What both know is kept as it was first seen.
    #[must_use]
    pub fn joined_by(mut self, middle: Snapshot) -> Snapshot {
        self.tasks = tasks::union(self.tasks, middle.tasks);
        self.cgroups.extend(middle.cgroups);
        // The sort is stable, so what was known already comes first and is what dedup keeps.
        self.cgroups.sort_by(|a, b| a.path.cmp(&b.path));
        self.cgroups.dedup_by(|later, earlier| later.path == earlier.path);
        self
    }

    /// The JSON form, on one line.
    pub fn to_json(&self) -> String {
        // Maps have text keys and every type derives Serialize: nothing in it can fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the JSON form back.
    pub fn from_json(text: &str) -> Result<Snapshot, SnapshotError> {
        let mut snapshot: Snapshot = serde_json::from_str(text)?;
        if snapshot.schema != Snapshot::SCHEMA {
            return Err(SnapshotError::Schema(snapshot.schema));
        }
        // The queries search by bisection; a file edited by hand may be in another order.
        snapshot.tasks.sort_by_key(|task| (task.tid, task.start_ticks));
        snapshot.cgroups.sort_by(|a, b| a.path.cmp(&b.path));
        snapshot.irqs.sort_by_key(|irq| irq.irq);
        Ok(snapshot)
    }
}
