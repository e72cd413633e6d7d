//! The text of findings: the only module in which sentences about them are made. A file for each family of [`crate::claim`].

mod actors;
mod conclusion;
mod cpu;
mod data_quality;
mod difference;
mod limit;
mod real_time;
mod sharing;
mod switching;
#[cfg(test)]
mod tests;
mod wait;

use std::fmt;

use unstarve_model::Nanos;

use crate::claim::{Claim, Headline, NeverRan, Share, Unproved};

/// The sentence of a finding. That a victim never ran is more important than the headline.
pub(crate) fn sentence(never_ran: Option<&NeverRan>, headline: &Headline, unproved: Option<&Unproved>) -> String {
    let before = never_ran.map(|never_ran| format!("{never_ran} ")).unwrap_or_default();
    let after = unproved.map(|unproved| format!(" {unproved}")).unwrap_or_default();
    format!("{before}{headline}{after}")
}

pub(crate) fn evidence(claims: &[Claim]) -> Vec<String> {
    claims.iter().map(Claim::to_string).collect()
}

/// `37 %`, `0.4 %`.
impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = self.0 * 100.0;
        if self.0 < 0.0995 { write!(f, "{percent:.1} %") } else { write!(f, "{percent:.0} %") }
    }
}

/// `, every 1.00 s`, or nothing.
fn every(period: Option<Nanos>) -> String {
    period.map(|period| format!(", every {period}")).unwrap_or_default()
}
