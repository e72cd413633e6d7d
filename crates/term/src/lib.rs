//! What people read: the terminal page of an explanation, and the lines and the table of `unstarve timeline`.
//!
//! Everything here turns data into text and does no I/O but to the writer that it is given. The caller decides on the width, the colours and whether the
//! terminal can show more than ASCII ([`Look`]). No text from a trace reaches a terminal unescaped.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod audit;
mod bars;
mod comparison;
mod doctor;
mod evidence;
mod finding;
mod first_screen;
pub mod fix;
mod gate;
pub mod guard;
mod hosts;
mod ink;
mod kernel_words;
mod kinds;
mod knobs;
pub mod lab;
mod latency;
mod look;
mod measured;
mod page;
mod predict;
mod summary;
mod text;
mod timehist;
mod topic;
mod word;
mod worst;

pub use audit::{audit_full_page, audit_page, audit_shell, rules_page};
pub use comparison::{Extent, comparison_page};
pub use doctor::doctor_page;
pub use first_screen::first_screen;
pub use gate::gate_page;
pub use hosts::hosts_page;
pub use kinds::kinds_page;
pub use knobs::{DriftLine, KnobLine, difference_page, explanation_page, knobs_page};
pub use latency::{Spikes, latency_page};
pub use look::{Charset, Colours, Look};
pub use page::{finding_page, page, page_of};
pub use predict::{prediction_in_a_sentence, predictions_page};
pub use summary::Summary;
pub use timehist::{Lines, Timehist, TimelineLine};
pub use topic::{Topic, topic_page, topics_page};
pub use unstarve_model::clean;
