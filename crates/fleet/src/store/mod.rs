//! The store's directory, and the state of its hours.

mod commit_auth;
mod digest;
mod directory;
mod effects;
mod holds;
mod hour_state;
mod misplaced_files;

pub(crate) use digest::digest_of;
pub(crate) use directory::{Content, Entry, Hour, MANIFEST_NAME, MAX_INPUT_BYTES, MAX_OUTPUT_BYTES, Readers, Stamp};
pub use directory::{Effect, Store};
pub(crate) use effects::random;
pub use holds::Holds;
pub use hour_state::live;
pub(crate) use hour_state::{Depth, MIN_OUTPUTS_TO_MERGE, State};
