//! One module for each finding: a pure function from a [`Case`] to findings.
//!
//! Thresholds stand as constants at the top of each module with the reason for each. They are fractions of the trace's
//! time, lengths that the kernel itself uses, or counts per item; none is fitted to a file.
//!
//! *Waiting* is no finding: ten equals on one CPU all wait. What counts is time that somebody was due and did not get
//! (owed time), and time that others lost to it (price).

mod boosters;
mod completion_ping_pong;
mod felt;
mod idle_while_runnable;
mod intruders;
mod irq_interference;
mod limits;
mod migration_churn;
mod overrun;
mod preemption_thrash;
mod rt_starvation;
mod throttled;
mod wake_storm;
mod weight_starvation;

use rustc_hash::{FxHashMap, FxHashSet};
use unstarve_model::Nanos;
use unstarve_timeline::ActorId;

use crate::case::Case;
use crate::report::{Finding, Severity};

/// The longest period in which the fair class itself means to give every runnable task a turn: `sched_latency_ns`, 6 ms,
/// times 4 on eight CPUs or more (EEVDF has no such promise, but its slices are not longer). A longer wait that is not
/// plain sharing is a stall.
pub(crate) const FAIR_PERIOD: Nanos = Nanos::from_millis(24);

/// All findings, worst first.
pub(crate) fn find(case: &Case<'_>) -> Vec<Finding> {
    let ping_pong = completion_ping_pong::find(case);
    let mut findings = rt_starvation::find(case);
    findings.extend(weight_starvation::find(case, &ping_pong));
    findings.extend(wake_storm::find(case));
    findings.extend(preemption_thrash::find(case));
    findings.extend(irq_interference::find(case));
    findings.extend(idle_while_runnable::find(case));
    findings.extend(migration_churn::find(case));
    findings.extend(throttled::find(case));
    findings.extend(overrun::find(case));
    findings.extend(ping_pong);
    findings.sort_by(|a, b| rank(b).partial_cmp(&rank(a)).unwrap_or(std::cmp::Ordering::Equal));
    findings
}

/// Worse severity first; then what has more guilty time and price behind it, weighed by how sure it is.
fn rank(finding: &Finding) -> (Severity, f64) {
    // As floats: clocks of a damaged recording may add up to more than a u64.
    let guilty: f64 = finding.culprits.iter().map(|culprit| culprit.ns as f64).sum();
    let price: f64 = finding.price.iter().map(|payer| payer.ns as f64).sum();
    (finding.severity, (guilty + price) * finding.confidence)
}

/// `kworker/0:2 (iomap_dio_complete_work on dio/nullb0)`, `nfsd (128 threads)`, `cc1`.
fn title(case: &Case<'_>, victims: &[ActorId]) -> String {
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

/// `37 %`, `0.4 %`.
fn percent(share: f64) -> String {
    if share < 0.0995 { format!("{:.1} %", share * 100.0) } else { format!("{:.0} %", share * 100.0) }
}

/// `1 CPU`, `4 CPUs`.
pub(crate) fn cpus(count: u32) -> String {
    if count == 1 { "1 CPU".to_owned() } else { format!("{count} CPUs") }
}

/// A name without the number at its end: `job` of `job23`, `rcuc` of `rcuc/3`; the name itself if nothing is left.
fn stem(name: &str) -> &str {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit());
    if bare.len() == name.len() {
        return name;
    }
    let bare = bare.trim_end_matches(['-', '_', ':', '/', '.', '#']);
    if bare.len() < 2 { name } else { bare }
}

/// Of numbered names so many are told; of more their stem.
const FEW: usize = 3;

/// Names in a row, each once: `a, b and c`, at most four.
fn names(case: &Case<'_>, actors: impl IntoIterator<Item = ActorId>) -> String {
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
        if few.len() < FEW {
            few.push(name);
        }
    }
    let mut names: Vec<String> = Vec::new();
    for (mut few, count) in stems {
        if count as usize > FEW {
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
