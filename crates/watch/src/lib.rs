//! Who starves whom, by which rule, summed up all the time.
//!
//! An [`Engine`] gives a [`Reading`] when it is asked: sums by role of who waited, who had the CPU meanwhile and why, since it
//! began. Nothing is sent for each wait. [`Scripted`] gives prepared readings, for tests.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod alert_sender;
mod clocks;
pub mod config;
pub mod control;
#[cfg(feature = "bpf")]
mod ebpf;
mod engine;
pub mod episode;
mod episode_publisher;
mod explainer;
mod groups;
mod guarded;
mod histogram;
mod instance_lock;
mod limit_files;
mod limits;
#[cfg(feature = "bpf")]
mod lockdown;
mod machine;
mod machine_pause;
mod memory;
mod open;
mod outputs;
mod places;
mod priority_boost;
mod proc;
mod reading;
mod recording;
mod rights;
mod role;
mod role_table;
mod rollup;
pub mod run;
mod said;
mod schedstat_check;
mod scripted;
mod serving;
pub mod store;
pub mod tell;
#[cfg(test)]
mod testing;
mod totals;
mod trace_writer;
mod tracefs;

#[cfg(feature = "bpf")]
pub use ebpf::Ebpf;
pub use engine::{Engine, EngineError, EngineName, Options, Quiet, TaskMemory};
pub use episode::is_precedence;
pub use explainer::ExplainCommand;
pub use histogram::{Bucket, Histogram};
pub use instance_lock::first_watch;
pub use limits::LimitedGroup;
pub use open::{Opened, open};
pub use reading::{Blame, Cost, CpuWaits, Lost, OldestWait, Reading, TaskId, Waits};
pub use recording::Recording;
pub use role::{Role, RoleId, RoleKind, VictimClass};
pub use schedstat_check::{Word, waited};
pub use scripted::Scripted;
pub use trace_writer::trace_in;
pub use tracefs::Tracefs;
