//! Who starves whom, by which rule, summed up all the time.
//!
//! An [`Engine`] gives a [`Reading`] when it is asked: sums by role of who waited, who had the CPU meanwhile and why, since it
//! began. Nothing is sent for each wait. [`Scripted`] gives prepared readings, for tests.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod config;
pub mod control;
mod engine;
pub mod episode;
mod guarded;
mod histogram;
mod reading;
mod role;
pub mod run;
mod scribe;
mod scripted;
pub mod store;
pub mod tell;
#[cfg(test)]
mod testing;

pub use engine::{Engine, EngineError};
pub use histogram::{Bucket, Histogram};
pub use reading::{Blame, Cost, Lost, OldestWait, Reading, TaskId, Waits};
pub use role::{Role, RoleId, RoleKind};
pub use scribe::{ExplainCommand, trace_in};
pub use scripted::Scripted;
