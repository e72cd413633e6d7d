//! Makes changes and takes them back, for the guard, `fix`, `knobs` and the lab's guests alike.
//!
//! Each change is in the [`journal`] before it is made ([`act`]); [`act::restore`] takes back what nobody else has changed since, from
//! the children of changed tasks, too. A [`state::State`] is the lock and the directory; a [`deadman`] takes over when the process
//! that makes the changes dies.

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
pub mod manual_changes;
pub mod plan;
pub mod proc;
pub mod registry;
pub mod sched;
mod session;
pub mod state;
pub mod trial;

pub use attributes::Attributes;
