//! The directory, and an hour of it as it is found.

mod commit_auth;
mod directory;
mod effects;
mod holds;
mod hour_state;
mod misplaced_files;

pub(crate) use directory::{Content, Entry, Hour, Readers};
pub use directory::{Effect, Store};
pub(crate) use effects::random;
pub use holds::Holds;
pub use hour_state::live;
pub(crate) use hour_state::{Depth, State};
