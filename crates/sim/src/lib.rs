//! Recordings as programs: what threads did by themselves, without what the scheduler did to them, and what another setting or
//! kernel would do to them.
//!
//! [`Extractor`] takes a [`Program`] from a recording, [`Program::with`] changes a setting in it, an engine plays it
//! ([`engine`] here, the lab's guests elsewhere), and [`Felt`] says what each thread felt, in a recording and in a replay alike.
//! No I/O.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod change;
mod check;
mod corrected;
pub mod engine;
mod extract;
mod felt_waits;
pub mod form;
mod kernel_refuses;
mod notation;
pub mod predict;
mod program;
mod shifted;
mod shrink;

pub use change::{CannotPlay, Changed};
pub use check::ProgramError;
pub use extract::{Extracted, Extraction, Extractor, Inference, LossOfExtraction, MAX_OPERATIONS, NoProgram};
pub use felt_waits::{ActorFelt, Felt, FeltSoFar};
pub use notation::NotationError;
pub use program::{Actor, ActorId, Cgroup, Class, Deadline, Op, Placement, Program, Quota, SwitchCosts};
pub use shrink::shrink;
