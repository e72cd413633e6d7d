//! What a report says of a selected part of a recording.
//!
//! A wait counts in full if it overlaps the selected time, wherever it is cut: half of a long wait is no short wait. What is a
//! starvation in the whole recording is one in each part through which the victim waited, even if the part alone
//! does not show it: the thread that slept for the victim may be woken later.
//!
//! | a wait, and the selected time | counts |
//! |---|---|
//! | inside | in full |
//! | cut at the beginning, at the end, or at both | in full |
//! | outside, or on another CPU | no |
//!
//! | the selected task is, in a finding | place | said of it |
//! |---|---|---|
//! | the victim | first | the finding |
//! | another victim of the same culprits | second | waited for the same CPU |
//! | the culprit | third | not starved, it is the culprit |
//! | asleep until the victim was done | fourth | not starved, it waits for a thread that is |
//! | nothing of these | not shown | not starved; in one line, which thread is |

use serde::{Deserialize, Serialize};
use unstarve_model::{Comm, CpuId, Nanos, Severity, Tid, Time};
use unstarve_timeline::Selection;

use crate::case::{Blame, Case};
use crate::draft::{cpus, rows, waits};
use crate::ledger::FAIR_PERIOD;
use crate::report::{Culprit, Finding};
use crate::words;

/// A wait of a known victim behind its culprits is shown from this length up.
const SHOWN_FROM: Nanos = FAIR_PERIOD;
/// Shorter waits are shown if they add up to this…
const SHOWN_FROM_IN_ALL: Nanos = Nanos::from_millis(4);
/// …and to this share of the selected time.
const SHOWN_FROM_SHARE: f64 = 0.05;

/// The selected part that a report covers.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Selected {
    /// All of it, for people: `nfsd, CPU 0, +0.100 s to +0.850 s`.
    pub text: String,
    /// The selected tasks, for people; none if all are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<String>,
    /// The worst that the recording shows, if it is not in the selected part: its severity and what happens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<String>,
}

impl Selected {
    pub(crate) fn of(case: &Case<'_>, selection: &Selection, all: &[Finding], shown: &[Finding]) -> Selected {
        let is_shown = |finding: &Finding| {
            shown.iter().any(|other| other.severity > Severity::Info && other.headline == finding.headline)
        };
        let has_alarm = shown.iter().any(|finding| finding.severity > Severity::Info);
        let elsewhere = all.iter().find(|finding| finding.severity > Severity::Info && !is_shown(finding));
        Selected {
            text: words::selection(selection, case.world.start),
            tasks: selection.tasks.iter().map(words::task_pattern).collect(),
            elsewhere: elsewhere.filter(|_| !has_alarm).map(words::elsewhere),
        }
    }
}

/// What the selected tasks are in a finding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SelectedAs {
    /// The victim.
    Victim,
    /// Another victim of the same culprits.
    OtherVictim,
    /// The culprit.
    Culprit,
    /// A task that slept until the victim was done.
    SleptForVictim,
}

impl SelectedAs {
    /// Nothing if the selected tasks are not in the finding.
    pub(crate) fn of(selection: &Selection, finding: &Finding) -> Option<SelectedAs> {
        // Rows without a thread id still match by name.
        let has = |comm: &str, tids: &[u32]| {
            let comm = Comm::from(comm);
            tids.iter().chain(&[u32::MAX]).any(|tid| selection.has_task(&comm, Tid(*tid)))
        };
        // One that had the CPU for a moment is no culprit.
        let all: u64 = finding.culprits.iter().map(|row| row.ns).fold(0, u64::saturating_add);
        let has_culprit = |row: &Culprit| row.ns >= all / 10 && has(&row.comm, &row.tids);
        let payer = finding.price.iter().filter(|payer| has(&payer.comm, &payer.tids));
        if has(&finding.victim.comm, &finding.victim.tids) {
            Some(SelectedAs::Victim)
        } else if payer.clone().any(|payer| payer.waited_ns > 0) {
            Some(SelectedAs::OtherVictim)
        } else if finding.culprits.iter().any(has_culprit) {
            Some(SelectedAs::Culprit)
        } else {
            payer.map(|_| SelectedAs::SleptForVictim).next()
        }
    }
}

/// Leaves the findings about the selected tasks, those first in which they are victims. Remarks come after all others.
pub(crate) fn about_tasks(selection: &Selection, findings: &mut Vec<Finding>) {
    if selection.tasks.is_empty() {
        return;
    }
    for finding in findings.iter_mut() {
        finding.selected_as = SelectedAs::of(selection, finding);
    }
    findings.retain(|finding| finding.selected_as.is_some());
    findings.sort_by_key(|finding| (finding.severity == Severity::Info, finding.selected_as));
}

/// Adds what the whole recording shows to be starvation and what went on in the selected part.
pub(crate) fn add_from_whole(part: &Case<'_>, selection: &Selection, whole: &[Finding], found: &mut Vec<Finding>) {
    for finding in whole.iter().filter(|finding| finding.severity > Severity::Info) {
        let same_victim = |other: &Finding| other.actors.iter().any(|actor| finding.actors.contains(actor));
        // The same, or another reason that the part alone shows.
        let is_found =
            |other: &Finding| same_victim(other) && other.severity >= finding.severity.min(Severity::Warning);
        if found.iter().any(|other| is_found(other) && (other.id != finding.id || other.severity >= finding.severity)) {
            continue;
        }
        let Some(in_part) = in_part(part, selection, finding) else { continue };
        found.retain(|other| !(other.id == finding.id && same_victim(other)));
        found.push(in_part);
    }
    // Stable: those of the part keep their order.
    found.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
}

/// A finding of the whole recording with the numbers of the selected part; `None` if its victims hardly waited there.
fn in_part(part: &Case<'_>, selection: &Selection, finding: &Finding) -> Option<Finding> {
    let all: Vec<Blame> = finding.actors.iter().flat_map(|victim| part.blame(*victim)).copied().collect();
    let is_row = |row: &Culprit, blame: &Blame| {
        let prio = part.actor(blame.occupant).prio().map(|prio| prio.0);
        row.rule == blame.rule && row.prio == prio && row.comm == part.name(blame.occupant)
    };
    let guilty: Vec<Blame> =
        all.iter().filter(|blame| finding.culprits.iter().any(|row| is_row(row, blame))).copied().collect();
    // Some culprits caused the waits by what they did before.
    let is_earlier = !finding.culprits.iter().any(|row| {
        finding.blame.iter().any(|other| other.comm == row.comm && other.rule == row.rule && other.prio == row.prio)
    });
    let total: Nanos = if is_earlier { &all } else { &guilty }.iter().map(|blame| blame.length).sum();
    let waits = waits(part, &finding.actors);
    let is_much = total >= SHOWN_FROM || total >= SHOWN_FROM_IN_ALL && total.share_of(part.span()) >= SHOWN_FROM_SHARE;
    if !is_much {
        return None;
    }
    let overlaps = |start, end| selection.has_span(Time(start), Time(end), part.world.start);
    let mut worst = finding.worst.clone();
    worst.retain(|at| overlaps(at.start_ns, at.end_ns) && selection.has_cpu(CpuId(at.cpu)));
    let longest = worst.first().map(|at| Nanos(at.end_ns.saturating_sub(at.start_ns)));
    let longest = longest.unwrap_or(Nanos(waits.max_ns));
    let mut evidence = vec![words::judged_by_the_whole(finding)];
    evidence.extend(finding.evidence.iter().cloned());
    // Places in `culprits` do not hold for other rows.
    worst.iter_mut().for_each(|at| at.culprit = None);
    Some(Finding {
        sentence: words::in_part(finding, total, longest),
        culprits: if is_earlier { finding.culprits.clone() } else { rows(part, guilty) },
        blame: rows(part, all),
        cpus: cpus(part, &finding.actors),
        lists_all: false,
        waits,
        worst,
        evidence,
        ..finding.clone()
    })
}
