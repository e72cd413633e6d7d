//! Blame, findings and remedies from a timeline.

pub mod report;
