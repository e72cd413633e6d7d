//! What a host says of itself in `/proc`, `/sys` and its files: [`take`] reads a whole
//! [`Snapshot`](unstarve_facts::Snapshot), [`Live`] reads one setting and says what a new value would change.
//!
//! A host is a [`Root`]: the machine we run on, another's files below a directory, or a test's. No file of it is trusted to
//! be what it should be: it may be missing, cut off, huge, a FIFO, or a link that leads elsewhere.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod allows;
mod cgroup_paths;
mod group_walk;
mod knob;
mod refusal;
mod root;
mod sched_attr;
mod snapshot;

pub use allows::allows;
pub use cgroup_paths::whole_cgroups;
pub use knob::{KnobError, Live, Plan, Step};
pub use refusal::refusal;
pub use root::Root;
pub use sched_attr::SchedAttr;
pub use snapshot::{cpu_cgroup, cpu_hierarchy, take, take_whole, task};
