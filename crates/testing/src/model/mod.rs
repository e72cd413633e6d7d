//! A host on which the commands that `explain` and `check` print are run, without touching the machine.
//!
//! ```no_run
//! use unstarve_testing::model::Model;
//! # let snapshot = unstarve_facts::Snapshot::from_json("{}").unwrap();
//! let mut host = Model::of(&snapshot).start().expect("namespaces");
//! host.there_and_back("echo 100 > /sys/fs/cgroup/x/cpu.weight", "echo 900 > /sys/fs/cgroup/x/cpu.weight").expect("restored");
//! ```
//!
//! `/proc`, `/sys`, `/run` and `/etc` are directories of its own, seen in a mount namespace that a shell waits in. They have
//! exactly the threads and files of a snapshot, and what a test adds. `chrt`, `renice`, `taskset`, `pgrep`, `sysctl` and
//! `systemctl` are stand-ins that keep what they set in files, print what util-linux and procps print, and refuse what the
//! kernel refuses. Files that do not read back what is written to them (features, a list with the chosen word in
//! parentheses, `cpu.max`) are put into their form after each script.

mod files;
mod host;
mod running;

pub use host::{Model, ModelThread};
pub use running::{NotHere, Running, State};
