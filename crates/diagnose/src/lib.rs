//! Blame, findings and remedies from a timeline.
//!
//! [`explain`] leads from an event source to a [`report::Report`]; [`drive`] is the part of it that others use too: any source
//! through a timeline into any sink.
//!
//! | module | what it is |
//! |---|---|
//! | `drive` | decodes on one thread, analyses on another |
//! | `ledger` | sums over the trace by actor, filled on the hot path |
//! | `case` | the ledger, the world and the host snapshot, to be read only |
//! | `finding` | one module for each finding: a pure function from a case |
//! | `draft` | from a finding's own words to a [`report::Finding`]; its blame adds up to its waits |
//! | `observers` | who only watches: the recorder and its like |
//! | `compare` | two recordings set against each other, by role and rule |
//! | `rivals` | who competes with whom by which weight |
//! | `proofs` | what remedies were proved to do on real kernels |
//! | `verdict` | how bad a wait is: one table |
//! | `waiter` | which row of that table a task belongs to |
//! | `remedy` | exact commands with their undo, by kernel and snapshot |

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod case;
mod cgroup_competition;
pub mod compare;
mod data_quality;
mod draft;
mod drive;
mod explain;
mod finding;
mod host_settings;
mod ledger;
mod observers;
mod origin;
pub mod proofs;
mod recent;
mod remedy;
pub mod report;
mod throughout;
pub mod verdict;
mod waiter;

pub use drive::{Driven, ExplainError, drive, timeline};
pub use explain::{Explained, Options, explain, explain_beside};
pub use finding::{FINDINGS, FindingKind, THROTTLED};
pub use observers::only_watches;
pub use proofs::Proofs;
pub use recent::{Recent, seems_to_wait};
pub use remedy::{REMEDIES, RemedyKind};
