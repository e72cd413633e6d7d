//! Settings of the running system, as they are and as they would be.

mod live;

pub use live::{KnobError, Live, Plan, Step};
