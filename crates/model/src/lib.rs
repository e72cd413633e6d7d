//! The data model of unstarve: ids, clocks, scheduler events, and losses.
//!
//! No I/O, and nothing about where an event came from: trace files, live kernels and simulators all yield the same
//! [`Event`]s, so the analysis treats them alike.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod buffer_pool;
mod coverage;
mod cpu_set;
mod escape;
mod event;
mod glob;
mod ids;
mod loss;
mod names;
mod number_format;
mod prefetch;
mod sched_policy;
mod severity;
mod source;
mod task;
mod time;
mod wall;

pub use buffer_pool::{EmptyBuffers, UsedBuffers, buffer_pool};
pub use coverage::{Coverage, CpuCoverage, Presence, Proof, ProvedBy, Until};
pub use cpu_set::{CpuSet, CpuSetError};
pub use escape::{clean, clean_bytes, is_harmful};
pub use event::{BlockRequest, Context, Event, EventKind, EventSet, EventType, Issuer, PrevState, TaskRef, Vector};
pub use glob::Glob;
pub use ids::{Comm, CpuId, Tid};
pub use loss::{BroughtBy, Loss, LossKind};
pub use names::{NameId, Names};
pub use number_format::{counted, grouped};
pub use prefetch::prefetch;
pub use sched_policy::SchedPolicy;
pub use severity::Severity;
pub use source::{Batch, EventSource, MemorySource, SavedTask, SourceError, TraceInfo};
pub use task::{Policy, Prio};
pub use time::{Nanos, Time};
pub use wall::{ClockPair, WallClock, WallTime};
