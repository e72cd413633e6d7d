//! Words that every part of unstarve shares: ids, clocks, scheduler events, what a trace could not say.
//!
//! No I/O here, and nothing that knows where an event came from: a trace file, a live kernel and a simulator all give
//! the same [`Event`]s, so the analysis cannot tell them apart.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod counted;
mod coverage;
mod cpu_set;
mod event;
mod glob;
mod harmless;
mod ids;
mod loss;
mod names;
mod prefetch;
mod rounds;
mod sched_policy;
mod severity;
mod source;
mod task;
mod time;
mod wall;

pub use counted::{counted, grouped};
pub use coverage::{Coverage, CpuCoverage, Presence, Proof, ProvedBy, Until};
pub use cpu_set::{CpuSet, CpuSetError};
pub use event::{BlockRequest, Context, Event, EventKind, EventSet, EventType, Issuer, PrevState, TaskRef};
pub use glob::Glob;
pub use harmless::{clean, clean_bytes, is_harmful};
pub use ids::{Comm, CpuId, Tid};
pub use loss::{BroughtBy, Loss, LossKind};
pub use names::{NameId, Names};
pub use prefetch::prefetch;
pub use rounds::{Empties, Returns, rounds};
pub use sched_policy::SchedPolicy;
pub use severity::Severity;
pub use source::{Batch, EventSource, MemorySource, SavedTask, SourceError, TraceInfo};
pub use task::{Policy, Prio};
pub use time::{Nanos, Time};
pub use wall::{ClockPair, WallClock, WallTime};
