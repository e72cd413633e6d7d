//! Settings of the running system, read, set and set back; and the journal of what was set.

mod journal;
mod live;

pub use journal::{Contents, Entry, Journal, JournalError};
pub use live::{Extent, KnobError, Live, Plan, Step, Undone};
