//! The guard: keeps tasks at the scheduling attributes that a policy sets.
//!
//! [`Policy`] is the parsed file, [`scan::Scanner`] reads the tasks of the machine, and [`decide`] compares the two without
//! I/O. A [`reconciler::Reconciler`] makes the changes and writes each to the [`journal`] first. [`undo()`] reverts values that
//! nobody has changed since.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod decide;
pub mod metrics;
pub mod notify;
mod owner;
mod policy;
pub mod reconciler;
pub mod run;
pub mod scan;
pub mod settings;
pub mod survey;
mod task;
pub mod task_events;
pub mod task_view;
pub mod verify;

pub use owner::{Owner, Uid, UidSet, Users};
pub use policy::{
    Limits, OnDrift, Parent, Policy, PolicyError, Remark, Rule, Selector, Setting, SettingKind, Starts, Want,
};
pub use task::{Kind, Task, Work};
