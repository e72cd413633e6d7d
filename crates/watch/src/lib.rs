//! Who starves whom, by which rule, summed up all the time.
//!
//! An [`Engine`] gives a [`Reading`] when it is asked: sums by role of who waited, who had the CPU meanwhile and why, since it
//! began. Nothing is sent for each wait. [`Scripted`] gives prepared readings, for tests.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod alone;
mod clocks;
pub mod config;
pub mod control;
#[cfg(feature = "bpf")]
mod ebpf;
mod engine;
pub mod episode;
mod explainer;
mod groups;
mod guarded;
mod herald;
mod histogram;
mod hurry;
mod limit_files;
mod limits;
#[cfg(feature = "bpf")]
mod lockdown;
mod machine;
mod memory;
mod open;
mod outputs;
mod places;
mod proc;
mod reading;
mod recording;
mod rights;
mod role;
mod role_table;
mod rollup;
pub mod run;
mod said;
mod scribe;
mod scripted;
mod serving;
mod stood;
pub mod store;
pub mod tell;
mod teller;
#[cfg(test)]
mod testing;
mod totals;
mod tracefs;
mod word;

pub use alone::first_watch;
#[cfg(feature = "bpf")]
pub use ebpf::Ebpf;
pub use engine::{Engine, EngineError, EngineName, Options, Quiet, TaskMemory};
pub use episode::is_precedence;
pub use explainer::ExplainCommand;
pub use histogram::{Bucket, Histogram};
pub use limits::LimitedGroup;
pub use open::{Opened, open};
pub use reading::{Blame, Cost, CpuWaits, Lost, OldestWait, Reading, TaskId, Waits};
pub use recording::Recording;
pub use role::{Role, RoleId, RoleKind, VictimClass};
pub use scribe::trace_in;
pub use scripted::Scripted;
pub use tracefs::Tracefs;
pub use word::{Word, waited};
