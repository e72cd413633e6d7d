//! The pages of `unstarve guard`: planned changes, and their outcome.

mod plan;
mod verify;

pub use plan::{note_text, owner_text, plan_page, starter_text};
pub(crate) use verify::single_waits;
pub use verify::verify_page;
