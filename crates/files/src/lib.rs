//! Safe file handling for a program that runs as root.
//!
//! *Can the content of this file be trusted?* [`trust`]: only if every component of its path and the file itself belong
//! to root or to this process's user, and nobody else can write them.
//!
//! *How does a result get its name?* [`target`]: it is written under an unguessable name in a directory that stays
//! open, and renamed there when it is complete.
//!
//! *How much of a file given by a user is read?* [`whole`]: no more than a sensible limit.
//!
//! *May a program be executed, and which environment does it get?* [`program`]: the same rule as for trust, checked
//! before it runs, and an environment of a few known variables.
//!
//! No path is resolved twice: a directory is opened once, and everything after that uses its descriptor.

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
