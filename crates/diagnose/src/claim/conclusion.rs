//! What a report comes to.

use unstarve_model::Nanos;

use crate::report::{Finding, Report, Selected, WorstWait};

pub(crate) struct Conclusion<'a> {
    /// The file is cut.
    pub is_cut: bool,
    /// What kind of waits the recording does not show.
    pub invisible: Option<&'a str>,
    pub answer: Answer<'a>,
}

pub(crate) enum Answer<'a> {
    NoEvents,
    // Nothing can be concluded; the longest wait is stated nevertheless, if it is long.
    NoVerdict { why: Reservation<'a>, longest: Option<&'a WorstWait> },
    // With the wait time without a known occupant, if it is much.
    Healthy { report: &'a Report, unknown: Option<Nanos> },
    // Of the selected part, with its longest wait.
    HealthyPart { longest: Option<Nanos>, selected: Option<&'a Selected> },
    // The worst finding, and the number of others that are no info.
    Found { lead: Lead<'a>, worst: &'a Finding, others: u64, selected: Option<&'a Selected> },
}

pub(crate) enum Lead<'a> {
    Unsure(Reservation<'a>),
    Starved,
    LikelyStarved,
    NotOutright,
}

#[derive(Clone, Copy)]
pub(crate) enum Reservation<'a> {
    // What the recording lacks.
    TooLittle(&'a str),
    // The findings have less than this confidence.
    LessCertain(f64),
}
