//! Who starves whom, by which rule, summed up all the time.
//!
//! An [`Engine`] gives a [`Reading`] when it is asked: sums by role of who waited, who had the CPU meanwhile and why, since it
//! began. Nothing is sent for each wait. [`Scripted`] gives prepared readings, for tests.

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
    TaskId, VictimClass, Waits, is_precedence,
};
pub use engine::{
    Engine, EngineError, EngineName, Opened, Options, Recording, Scripted, TaskMemory, Tracefs, Word, open, waited,
};
