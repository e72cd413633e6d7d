//! All kinds of findings, one module each: a pure function from a [`Case`] to findings.
//!
//! Thresholds are constants at the top of each module, each with its reason. They are fractions of the trace's length, lengths
//! that the kernel itself uses, or counts per item; none is fitted to a file.
//!
//! *Waiting* alone is no finding: ten equals on one CPU all wait. What counts is CPU time that a task was owed and did not get
//! (owed time), and time that others lost because of it (price).

mod boosters;
mod completion_ping_pong;
mod cpu_stopped;
mod deadline_overrun;
mod idle_while_runnable;
pub(crate) mod impact;
mod intruders;
mod irq_interference;
mod limits;
mod long_wait;
mod migration_churn;
mod not_preemptible;
mod order;
mod overrun;
mod preemption_thrash;
mod rt_starvation;
mod stuck_equal;
mod throttled;
mod wake_storm;
mod weight_starvation;

use unstarve_model::EventType;

use crate::case::Case;
use crate::ledger::FAIR_PERIOD;
use crate::remedy;
use crate::report::Finding;

pub(crate) use stuck_equal::CROWDED_CPU;
pub use throttled::KIND as THROTTLED;
pub(crate) use weight_starvation::KIND as WEIGHT_STARVATION;

/// A kind of finding.
#[derive(Clone, Copy, Debug)]
pub struct FindingKind {
    /// Its id, in kebab-case; never reused.
    pub id: &'static str,
    /// What it finds, in one line.
    pub title: &'static str,
    /// How the problem arises, and when it is reported.
    pub about: &'static str,
    /// Kinds of events, besides switches, without which the finding is less certain or impossible.
    pub needs: &'static [EventType],
    /// What it uses of the host snapshot.
    pub snapshot: Option<&'static str>,
    /// Finds all of this kind; the second argument are the findings of the kinds before it.
    pub(crate) find: fn(&Case<'_>, &[Finding]) -> Vec<Finding>,
}

/// All kinds of findings, in the order of the documentation.
pub const FINDINGS: [FindingKind; 15] = [
    rt_starvation::KIND,
    completion_ping_pong::KIND,
    weight_starvation::KIND,
    wake_storm::KIND,
    preemption_thrash::KIND,
    irq_interference::KIND,
    idle_while_runnable::KIND,
    migration_churn::KIND,
    throttled::KIND,
    deadline_overrun::KIND,
    not_preemptible::KIND,
    stuck_equal::KIND,
    stuck_equal::CROWDED_CPU,
    cpu_stopped::KIND,
    long_wait::KIND,
];

impl FindingKind {
    /// The kind with this id.
    pub fn of_id(id: &str) -> Option<&'static FindingKind> {
        FINDINGS.iter().find(|kind| kind.id == id)
    }
}

/// All findings, worst first.
pub(crate) fn find(case: &Case<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for kind in FINDINGS {
        let more = (kind.find)(case, &findings);
        findings.extend(more);
    }
    let realtime = case.realtime_threads();
    remedy::spare_no_other_culprit(|tid| case.process_of(tid), |tid| realtime.contains(&tid), &mut findings);
    order::worst_first(case, &mut findings);
    findings
}

/// A name without the number at its end: `job` of `job23`, `rcuc` of `rcuc/3`; the name itself if nothing is left.
pub(crate) fn stem(name: &str) -> &str {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if bare.len() == name.len() {
        return name;
    }
    let bare = bare.trim_end_matches(['-', '_', ':', '/', '.', '#']);
    if bare.len() < 2 { name } else { bare }
}
