//! Turns scheduler events into run intervals, waits with their occupants, wake edges, interrupts and work items.
//!
//! [`Timeline::push`] takes events in time order and calls a [`Sink`] for each thing that they complete. It keeps state for
//! each CPU and living task and no history, so memory does not grow with the length of the trace. The contract of a [`Wait`]:
//! its [`Piece`]s add up exactly to its length, and each has one occupant and one [`unstarve_sched::Rule`]; `docs/blame.md`
//! gives the order in which rules are tried.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod cpus;
mod effort;
mod interrupts;
mod losses;
mod machine;
mod moment;
mod opt_time;
mod recorded;
mod run_queues;
mod selection;
mod settings;
mod sink;
mod tasks;
mod timeline;
mod waits;
mod wake_graph;

pub use cpus::OnCpu;
pub use moment::{Moment, NotAMoment};
pub use selection::{NoTask, Selection, TaskPattern};
pub use settings::{NoSettings, Settings};
pub use sink::{
    Both, CpuEnd, Interrupt, Migration, OpenWait, Piece, Price, Run, RunEnd, SilentCpu, Sink, Step, StepKind,
    Throughout, TimerStart, Unproved, Wait, WaitEnd, WaitKind, Wake, Waker, WorkItem, World,
};
pub use tasks::actor::{Actor, ActorId, ActorKind, Actors};
pub use tasks::nature::{Ancestor, Birth, Claim, Nature};
pub use tasks::{State, Task, TaskKey, Tasks};
pub use timeline::Timeline;
