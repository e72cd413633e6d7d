//! What a commit of an hour is: which files count. Pure; who reads a store by other means (an object store) uses it, too.

mod live_files;
mod name;
mod sum;
mod text;
mod writer;

pub use live_files::{Files, counting};
pub use name::Name;
pub use sum::Sum;
pub use text::{BadCommit, COMMIT_BYTES, Commit, HEAD_BYTES, Head, HourlyFile, Input, Output, Retired};
pub use writer::{OTHERS_WRITE, Trusted, Writer};
