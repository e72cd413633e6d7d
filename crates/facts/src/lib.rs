//! What is known about a Linux kernel: the state of a host at one moment ([`Snapshot`]), facts that depend on the
//! kernel ([`Facts`], and row by row with sources the [`Table`]s), its settings ([`Knob`]) and the arithmetic of weights.
//!
//! Pure: nothing here reads or writes a host; `unstarve-host` does. A version label is not a scheduler identity (stable
//! series change features and slices), so whatever a snapshot can answer is answered by it; the version is asked only where
//! the snapshot is silent.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod allowed;
mod bugs;
mod facts;
mod knob;
mod modes;
mod rights;
mod snapshot;
mod span;
mod stat;
mod tables;
mod version;

pub use allowed::{Allowed, Availability};
pub use bugs::{BUGS, Bug};
pub use facts::{Facts, Holds, PreemptionKnob};
pub use knob::{
    Change, ChangeKind, Drift, DriftKind, Explanation, FeatureState, Form, KNOBS, Knob, Presence,
    changes_between_kernels, changes_between_snapshots, drifts, explain, explainable, feature_at, is_feature,
    undecided_between_kernels,
};
pub use modes::{Distribution, PreemptMode};
pub use rights::{effective_rights, hides_addresses};
pub use snapshot::{
    Autogroup, Bandwidth, CgroupFacts, CgroupVersion, Configured, ConfiguredBy, Cpus, DeadlineFacts, Hierarchy,
    IrqFacts, KernelInfo, Missing, Mount, NetworkFacts, NfsdFacts, Pseudonyms, RunSums, Seen, Services, Snapshot,
    SnapshotError, TaskFacts, Throttled, View, WATCHED, WorkqueueFacts, kept, kernel_thread,
};
pub use stat::{Stat, flag};
pub use tables::{Confidence, FEATURES, KTHREADS, REGRESSIONS, Row, TUNABLES, Table, WORKQUEUES};
pub use version::{Version, VersionError};
