//! The watch: continuously sums up which tasks wait behind which, and by which rule.
//!
//! An [`Engine`] returns a [`Reading`] on request: sums by role of the waiting tasks, the occupants and the rules, since the engine started. No
//! data is sent per wait.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod agent;
mod engine;
pub mod episode;
#[cfg(test)]
mod testing;

pub use agent::explainer::ExplainCommand;
pub use agent::instance_lock::first_watch;
pub use agent::outputs::http::head as http_head;
pub use agent::trace_writer::trace_in;
pub use agent::{config, control, run, store};
#[cfg(feature = "bpf")]
pub use engine::Ebpf;
pub use engine::reading::{
    Blame, Bucket, Cost, CpuWaits, Histogram, LimitedGroup, Lost, OldestWait, Quiet, Reading, Role, RoleId, RoleKind,
    TaskId, VictimClass, Waits, Workload, WorkloadSums, Workloads, is_precedence,
};
pub use engine::{
    Engine, EngineError, EngineName, Opened, Options, Recording, SchedstatCheck, TaskMemory, Tracefs, open, waited,
};
