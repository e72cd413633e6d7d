//! Records scheduler events into a `trace.dat` file that `trace-cmd report` and KernelShark can open.
//!
//! The kernel's ring buffer pages go to disk unchanged, moved with splice(2); nothing is decoded on the way. All
//! changes to the system are in one tracefs instance of our own. It is always removed: on every return by [`Drop`],
//! after SIGKILL by a process that waits for it, or else by the next recording. See `docs/recording.md`.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod attempt;
mod buffer;
mod capture;
mod clocks;
mod command;
mod cpus;
mod disk_limit;
mod drain;
mod error;
mod extra_events;
mod flight;
mod instance;
mod limit_counters;
mod live;
mod notice;
mod options;
mod output;
mod recording;
mod redact;
mod remover;
mod ring_buffer;
mod salvage;
mod set_up;
mod signals;
mod stats;
mod tracefs;

pub use attempt::attempt;
pub use disk_limit::Full;
pub use error::RecordError;
pub use extra_events::Guess;
pub use flight::{Flight, Frozen, Roll, Saved};
pub use limit_counters::Look;
pub use live::Live;
pub use notice::Notice;
pub use options::{BufferSize, Events, Names, Options, Until};
pub use recording::{CommandEnd, Lost, Progress, Recording, record};
pub use salvage::{Salvage, Salvaged, salvage};
