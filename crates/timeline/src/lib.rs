//! From scheduler events to run intervals, waits with their occupants, wake edges, interrupts and work items.
//!
//! [`Timeline::push`] takes events in time order and calls a [`Sink`] for each thing that they complete. It keeps a
//! state per CPU and per living task and nothing of the past, so memory does not grow with the length of the trace.
//!
//! The contract of a [`Wait`]: its [`Piece`]s add up to its length exactly, each has one occupant and one [`unstarve_sched::Rule`];
//! `docs/blame.md` gives the order in which rules are tried.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod actor;
mod attribution;
mod cpu;
mod deferred_waits;
mod device;
mod effort;
mod grace;
mod idle;
mod initial_runnable;
mod interrupts;
mod moment;
mod now;
mod occupancy;
mod opt_time;
mod origin;
mod parts;
mod places;
mod pre_first_event;
mod run_interval;
mod selection;
mod settings;
mod sink;
mod so_far;
mod switches;
mod tail;
mod task;
mod throttle_detection;
mod ticks;
mod tid_map;
mod timeline;
mod unrecorded;
mod waits;
mod wake_chain;
mod waker_inference;
mod wakes;
mod work;

pub use actor::{Actor, ActorId, ActorKind, Actors};
pub use moment::{Moment, NotAMoment};
pub use now::OnCpu;
pub use origin::{Ancestor, Birth, Claim, Nature};
pub use selection::{NoTask, Selection, TaskPattern};
pub use settings::{NoSettings, Settings};
pub use sink::{
    Both, CpuEnd, Interrupt, Migration, OpenWait, Piece, Price, Run, RunEnd, SilentCpu, Sink, Throughout, Unproved,
    Wait, WaitEnd, WaitKind, Wake, Waker, WorkItem, World,
};
pub use task::{State, Task, TaskKey, Tasks};
pub use timeline::Timeline;
