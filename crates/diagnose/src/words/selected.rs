//! The text about a selected part of a recording.

use unstarve_model::{Nanos, Time, clean};
use unstarve_timeline::{Moment, Selection, TaskPattern};

use crate::report::{Finding, Selected, SelectedAs};

/// `thread 47`, `kworker/*`.
pub(crate) fn task_pattern(pattern: &TaskPattern) -> String {
    match pattern {
        TaskPattern::Tid(tid) => format!("thread {tid}"),
        TaskPattern::Name(name) => clean(name.as_str()).into_owned(),
    }
}

/// `nfsd, CPU 0, +0.100 s to +0.850 s`.
pub(crate) fn selection(selection: &Selection, start: Time) -> String {
    let mut parts: Vec<String> = selection.tasks.iter().map(task_pattern).collect();
    parts.extend(selection.cpus.as_ref().map(|cpus| format!("CPU {cpus}")));
    let at = |moment: Moment| {
        let since = moment.on(start).since(start).0;
        format!("+{}.{:03} s", since / 1_000_000_000, since / 1_000_000 % 1_000)
    };
    parts.extend(match (selection.from, selection.to) {
        (Some(from), Some(to)) => Some(format!("{} to {}", at(from), at(to))),
        (Some(from), None) => Some(format!("from {}", at(from))),
        (None, Some(to)) => Some(format!("up to {}", at(to))),
        (None, None) => None,
    });
    parts.join(", ")
}

/// `critical: keeper is starved by cruncher`.
pub(crate) fn elsewhere(finding: &Finding) -> String {
    format!("{}: {}", finding.severity.word(), finding.headline)
}

/// The sentence of a finding about a part, after the judgement of the whole.
pub(crate) fn in_part(finding: &Finding, total: Nanos, longest: Nanos) -> String {
    let longest = if finding.victim.tasks > 1 { longest } else { longest.min(total) };
    format!("{}: waited {total} in the selected part, up to {longest} at a time.", finding.headline)
}

pub(crate) fn judged_by_the_whole(finding: &Finding) -> String {
    format!("in the whole recording: {}", finding.sentence.trim_end_matches('.'))
}

/// What is said of the selected tasks before the finding that names another victim; nothing if they are the victim.
pub(crate) fn before_finding(selected: &Selected, role: Option<SelectedAs>) -> String {
    let tasks = selected.tasks.join(", ");
    match role {
        None | Some(SelectedAs::Victim) => String::new(),
        Some(SelectedAs::OtherVictim) => format!("{tasks} waited for the same CPU. "),
        Some(SelectedAs::Culprit) => format!("{}, but the culprit. ", nobody(Some(selected))),
        Some(SelectedAs::SleptForVictim) => {
            format!("{}, but sleeps until the victim is done. ", nobody(Some(selected)))
        }
    }
}

/// `nfsd is not starved`, `Nobody is starved in the selected part`.
pub(crate) fn nobody(selected: Option<&Selected>) -> String {
    match selected.map(|selected| selected.tasks.as_slice()) {
        Some([task]) => format!("{task} is not starved"),
        Some([_, _, ..]) => {
            format!("None of {} is starved", selected.map(|one| one.tasks.join(", ")).unwrap_or_default())
        }
        _ => "Nobody is starved in the selected part".to_owned(),
    }
}
