//! Makes changes and reverts them, for the guard, `fix`, `knobs` and the lab's guests.
//!
//! Each change is written to the [`journal`] before it is made ([`act`]). [`act::restore`] reverts the values that nobody has
//! changed since, also on tasks that inherited them. A [`state::State`] is the lock and the directory. A [`deadman`] process
//! reverts everything when the process that makes the changes dies.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod act;
mod attributes;
pub mod audit;
pub mod authority;
pub mod claim;
pub mod deadman;
mod groups;
pub mod host;
pub mod inherited_changes;
pub mod journal;
pub mod legacy;
mod look;
pub mod manual_changes;
pub mod plan;
pub mod proc;
pub mod registry;
pub mod sched;
mod session;
pub mod state;
pub mod trial;

pub use attributes::Attributes;
