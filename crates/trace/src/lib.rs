#![doc = include_str!("../README.md")]
#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod analysis;
mod events;
mod source_settings;

pub use analysis::{Analysis, analyse, waits};
pub use events::{Events, events};

// Opening a recording, and what it says about itself.
pub use unstarve_model::{
    Batch, ClockPair, EventSource, Loss, LossKind, MemorySource, SavedTask, SourceError, TraceInfo, WallClock, WallTime,
};
pub use unstarve_readers::{OpenError, open, open_stdin};

// Ids, times and names.
pub use unstarve_model::{Comm, CpuId, CpuSet, NameId, Names, Nanos, Policy, Prio, Tid, Time};

// Events.
pub use unstarve_model::{
    BlockRequest, Context, Event, EventKind, EventSet, EventType, Issuer, PrevState, TaskRef, Vector,
};

// What the analysis makes of them.
pub use unstarve_sched::Rule;
pub use unstarve_timeline::{
    Actor, ActorId, ActorKind, Actors, Both, CpuEnd, Interrupt, Migration, OpenWait, Piece, Price, Run, RunEnd, Sink,
    Task, TaskKey, Tasks, Throughout, Unproved, Wait, WaitEnd, WaitKind, Wake, Waker, WorkItem, World,
};
