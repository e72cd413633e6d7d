//! What a comparison of two recordings comes to.

use crate::compare::{Change, FindingChange};

pub(crate) enum Difference<'a> {
    TooLittle { side: &'static str, reason: &'a str },
    // So many rates are the same, and so many unclear.
    Nothing { same: usize, unclear: usize },
    // The finding that changed first, and the rate that changed most.
    Finding { finding: &'a FindingChange, rate: Option<&'a Change> },
    Rate(Option<&'a Change>),
}

/// The number of findings of each side that are called neither new nor gone.
pub(crate) struct Unjudged {
    pub in_a: u64,
    pub in_b: u64,
}
