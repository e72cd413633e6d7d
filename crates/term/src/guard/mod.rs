//! What `unstarve guard` would change, and what came of it.

mod plan;
mod verify;

pub use plan::{note_text, owner_text, plan_page, starter_text};
pub(crate) use verify::single_waits;
pub use verify::verify_page;
