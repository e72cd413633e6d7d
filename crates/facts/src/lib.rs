//! Knowledge about Linux kernels and hosts: the state of a host at one moment ([`Snapshot`]), facts that depend on the
//! kernel ([`Facts`], and with sources the [`Table`]s) and its settings ([`Knob`]).
//!
//! No I/O: `unstarve-host` reads hosts. A version does not determine the scheduler's behaviour (stable series change
//! features and slices), so the snapshot is used wherever it has the answer, and the version only otherwise.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod allowed;
mod bugs;
mod facts;
mod knob;
mod lab_cells;
mod modes;
mod place;
mod pollers;
mod rights;
mod snapshot;
mod span;
mod stat;
mod tables;
mod version;
mod weights;

pub use allowed::{Allowed, Availability, Capability};
pub use bugs::{BUGS, Bug};
pub use facts::{Facts, Holds, PreemptionKnob};
pub use knob::{
    Change, ChangeKind, Drift, DriftKind, Explanation, FeatureState, Form, KNOBS, Knob, Presence,
    changes_between_kernels, changes_between_snapshots, drifts, explain, explainable, feature_at, is_feature,
    undecided_between_kernels,
};
pub use lab_cells::{LAB_CELLS, LabChange, LabComparison};
pub use modes::{Distribution, PreemptMode};
pub use place::{Place, unit_of};
pub use pollers::{POLLERS, Poller};
pub use rights::{effective_rights, hides_addresses};
pub use snapshot::{
    Autogroup, Bandwidth, CgroupFacts, CgroupVersion, Configured, ConfiguredBy, CpuTimes, Cpus, DeadlineFacts,
    EXT_SCHEDULER_FILES, ExtScheduler, Hierarchy, IrqFacts, KernelInfo, Missing, Mount, NetworkFacts, NfsdFacts,
    PolicyFacts, Pseudonyms, RunSums, Seen, Services, Snapshot, SnapshotError, TaskFacts, Throttled, View,
    WATCHED_PROGRAMS, WorkqueueFacts, kept, kernel_thread,
};
pub use stat::{Stat, flag};
pub use tables::{Confidence, FEATURES, KTHREADS, REGRESSIONS, Row, TUNABLES, Table, WORKQUEUES};
pub use version::{Version, VersionError};
pub use weights::{WEIGHT_FORMULAS, WeightFormula};
