//! Blame, findings and remedies from a timeline.
//!
//! [`explain`] leads from an event source to a [`report::Report`]; [`drive`] is the part of it that others use too: any source
//! through a timeline into any sink.
//!
//! | module | what it is |
//! |---|---|
//! | `drive` | decodes on one thread, analyses on another |
//! | `ledger` | sums over the trace per actor, filled on the hot path |
//! | `case` | read-only access to the ledger, the world and the host snapshot |
//! | `finding` | one module per kind of finding: a pure function from a case |
//! | `claim` | what findings state, as data |
//! | `words` | the text of claims |
//! | `draft` | builds a [`report::Finding`]; its blame adds up to its waits |
//! | `observers` | the recorder and other tasks that only observe |
//! | `compare` | compares two recordings by role and rule |
//! | `cgroup_competition` | the load weights by which two tasks compete |
//! | `data_quality` | whether a trace is complete enough for an all-clear |
//! | `proofs` | results of remedies on real kernels |
//! | `verdict` | how bad a wait is: one table |
//! | `waiter` | the kind of waiter that a task is in that table |
//! | `remedy` | exact commands with their undo, by kernel and snapshot |

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod case;
mod certainty;
mod cgroup_competition;
mod claim;
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
mod selected;
mod throughout;
pub mod verdict;
mod waiter;
mod words;

pub use drive::{Driven, ExplainError, drive, timeline};
pub use explain::{Explained, Options, explain, explain_beside};
pub use finding::{FINDINGS, FindingKind, THROTTLED};
pub use observers::only_watches;
pub use proofs::Proofs;
pub use recent::{Recent, seems_to_wait};
pub use remedy::{REMEDIES, RemedyKind};
