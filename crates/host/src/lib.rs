//! Reads a host's `/proc`, `/sys` and configuration files: [`take`] reads a whole
//! [`Snapshot`](unstarve_facts::Snapshot), [`Live`] reads a single setting and plans a change of it.
//!
//! A host is a [`Root`]: this machine, a directory with another's files, or a test's. No file is trusted to be what it
//! should be: it may be missing, truncated, huge, a FIFO, or a link to somewhere else.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod allows;
mod cgroup_paths;
mod group_walk;
mod knob;
mod machine_id;
mod refusal;
mod root;
mod sched_attr;
mod snapshot;

pub use allows::allows;
pub use cgroup_paths::whole_cgroups;
pub use knob::{KnobError, Live, Plan, Step};
pub use machine_id::machine_id;
pub use refusal::refusal;
pub use root::Root;
pub use sched_attr::SchedAttr;
pub use snapshot::{cpu_cgroup, cpu_hierarchy, take, take_whole, task};
