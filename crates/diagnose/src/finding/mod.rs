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

use rustc_hash::{FxHashMap, FxHashSet};
use unstarve_model::{EventType, counted};
use unstarve_timeline::ActorId;

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

/// `kworker/0:2 (iomap_dio_complete_work on dio/nullb0)`, `nfsd (128 threads)`, `cc1`.
fn title(case: &Case<'_>, victims: &[ActorId]) -> String {
    let victims = case.named(victims);
    let Some(&first) = victims.first() else { return String::new() };
    let name = case.name(first);
    let tasks = crate::draft::members(case, victims.iter().copied());
    match case.work(first) {
        Some((function, Some(workqueue))) => format!("{name} ({function} on {workqueue})"),
        Some((function, None)) => format!("{name} ({function})"),
        None if tasks > 1 => format!("{name} ({tasks} threads)"),
        None => name,
    }
}

/// `text` with the thread ids appended, if an actor on the other side has the same name.
fn told_apart(case: &Case<'_>, text: String, these: &[ActorId], others: &[ActorId]) -> String {
    let shared = |id: &&ActorId| others.iter().any(|other| case.name(*other) == case.name(**id));
    let these = case.named(these);
    let mut tids: Vec<u32> =
        these.iter().filter(shared).flat_map(|id| case.actor(*id).tids.iter().map(|tid| tid.0)).collect();
    tids.sort_unstable();
    tids.dedup();
    let more = if tids.len() > MAX_LISTED_TIDS { ", …" } else { "" };
    let listed: Vec<String> = tids.iter().take(MAX_LISTED_TIDS).map(u32::to_string).collect();
    if listed.is_empty() { text } else { format!("{text}[{}{more}]", listed.join(", ")) }
}

/// Maximum ids listed per side of a sentence.
const MAX_LISTED_TIDS: usize = 4;

/// `37 %`, `0.4 %`.
fn percent(share: f64) -> String {
    if share < 0.0995 { format!("{:.1} %", share * 100.0) } else { format!("{:.0} %", share * 100.0) }
}

/// `1 CPU`, `4 CPUs`.
fn cpus(count: u32) -> String {
    counted(count.into(), "CPU")
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

/// Maximum numbered names that are listed; of more, only the stem.
const MAX_NUMBERED_NAMES: usize = 3;

/// The names, each once: `a, b and c`, at most four.
pub(crate) fn names(case: &Case<'_>, actors: impl IntoIterator<Item = ActorId>) -> String {
    let mut seen = FxHashSet::default();
    let mut known: FxHashMap<String, usize> = FxHashMap::default();
    let mut stems: Vec<(Vec<String>, u32)> = Vec::new();
    for name in actors.into_iter().map(|actor| case.name(actor)) {
        if !seen.insert(name.clone()) {
            continue;
        }
        let index = *known.entry(stem(&name).to_owned()).or_insert(stems.len());
        if index == stems.len() {
            stems.push((Vec::new(), 0));
        }
        let (few, count) = &mut stems[index];
        *count += 1;
        if few.len() < MAX_NUMBERED_NAMES {
            few.push(name);
        }
    }
    let mut names: Vec<String> = Vec::new();
    for (mut few, count) in stems {
        if count as usize > MAX_NUMBERED_NAMES {
            names.push(format!("{}… ({count} names)", stem(&few[0])));
        } else {
            names.append(&mut few);
        }
    }
    if names.len() > 4 {
        let more = names.len() - 3;
        names.truncate(3);
        names.push(format!("{more} more"));
    }
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}
