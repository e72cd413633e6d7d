//! Names and commits, as text. Pure.

mod name;
mod sum;
mod text;

pub use name::Name;
pub use sum::Sum;
pub use text::{BadCommit, COMMIT_BYTES, Commit, Head, HourlyFile, Input, Output};
