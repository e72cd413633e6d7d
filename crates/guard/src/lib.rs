//! Keeps tasks where a policy says.
//!
//! [`Policy`] is what somebody wrote, [`scan::Scanner`] what the machine has, [`decide`] the pure difference; a
//! [`reconciler::Reconciler`] carries it out, each change in the [`journal`] before it is made, and [`undo()`] takes back what nobody
//! else has changed since.

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
