//! What people read: the terminal page of an explanation.
//!
//! Everything here turns data into text and does no I/O. The caller decides on the width, the colours and whether the
//! terminal can show more than ASCII ([`Look`]). No text from a trace reaches a terminal unescaped.

mod bars;
mod finding;
mod ink;
mod look;
mod page;
mod text;
mod verdict;
mod worst;

pub use look::{Charset, Colours, Look};
pub use page::page;
pub use text::clean;
