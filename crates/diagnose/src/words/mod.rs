//! The text of findings: the only module in which sentences about them are made. A file for each family of [`crate::claim`].

mod actors;
mod cpu;
mod limit;
mod real_time;
mod sharing;
mod switching;
#[cfg(test)]
mod tests;
mod wait;

use unstarve_model::Nanos;

use crate::claim::{Claim, Headline, NeverRan, Unproved};

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
fn percent(share: f64) -> String {
    if share < 0.0995 { format!("{:.1} %", share * 100.0) } else { format!("{:.0} %", share * 100.0) }
}

/// `, every 1.00 s`, or nothing.
fn every(period: Option<Nanos>) -> String {
    period.map(|period| format!(", every {period}")).unwrap_or_default()
}
