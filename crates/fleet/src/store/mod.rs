//! The store's directory, and the state of its hours.

mod counting;
#[cfg(feature = "columnar")]
mod digest;
mod directory;
mod dropped;
mod effects;
mod hour;
mod kinds;
mod place;
mod trees;

pub(crate) use counting::walk;
pub use counting::{Counting, CountingFile, CountingKind, counting};
#[cfg(feature = "columnar")]
pub(crate) use digest::digest_of;
pub use directory::Store;
pub(crate) use directory::{MAX_INPUT_BYTES, MAX_OUTPUT_BYTES};
pub(crate) use dropped::DroppedHours;
pub(crate) use effects::random;
pub(crate) use hour::{Depth, Hour};
pub use kinds::{Holds, StoreKind};
pub use place::Effect;
pub(crate) use place::{Content, Entry, HIDDEN_PREFIX, OTHERS_WRITE, Place, Readers, Stamp};
pub(crate) use trees::Tree;
