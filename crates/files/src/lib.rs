//! Files as a program that runs as root has to handle them.
//!
//! Three questions, one answer each. *May what this file says be believed?* [`trust`]: every component of its path and the
//! file itself belong to root or to the user that this process is, and nobody else can write them. *How does a result get its
//! name?* [`target`]: written under an unguessable name in a directory that stays open, and renamed there when whole.
//!
//! *How much of a file that a user named is read?* [`whole`]: at most what can be meant.
//!
//! *May a program be run, and what does it get of our environment?* [`program`]: the same rule as for what is believed, asked before its first
//! byte runs, and an environment of a few known variables.
//!
//! Nothing here acts on a path twice: a directory is opened once, and everything after that goes by its descriptor.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

pub mod program;
pub mod staging_dir;
pub mod target;
pub mod trust;
pub mod whole;

pub use program::{Program, ProgramError, ThisProgram};
pub use staging_dir::Hidden;
pub use target::{Target, TargetError};
pub use trust::{Directory, TrustError, read_trusted};
pub use whole::{Limit, ReadError, open_regular, read_bytes, read_regular, read_text};
