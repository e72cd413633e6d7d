use std::fmt::Write as _;

use unstarve_model::{Nanos, Severity};

use super::line::named;
use super::{Episode, Trigger};

impl Trigger {
    /// What was above which threshold: `one wait took 250 ms or more; the threshold is wait = 50.0 ms`.
    pub fn words(&self) -> String {
        let percent = |part: &f64| format!("{:.0} %", part * 100.0);
        match self {
            Trigger::Wait { ns, threshold_ns } => {
                format!("one wait took {} or more; the threshold is wait = {}", Nanos(*ns), Nanos(*threshold_ns))
            }
            Trigger::Oldest { ns, threshold_ns } => {
                format!("one wait had lasted {}; the threshold is oldest = {}", Nanos(*ns), Nanos(*threshold_ns))
            }
            Trigger::Share { share, threshold } => format!(
                "others went before waiting tasks for {} of a second; the threshold is share = {threshold:.2}",
                percent(share)
            ),
            Trigger::Stalled { share, threshold } => format!(
                "long waits behind real-time tasks took {} of a second; the threshold is stalled = {threshold:.2}",
                percent(share)
            ),
            Trigger::Stuck { ns, threshold_ns } => format!(
                "one wait had lasted {} behind a task that did not leave the CPU; the threshold is stuck = {}",
                Nanos(*ns),
                Nanos(*threshold_ns)
            ),
            Trigger::NotPreempted { ns, threshold_ns } => format!(
                "a task of a lower class was not preempted for {} or more; the threshold is not-preempted = {}",
                Nanos(*ns),
                Nanos(*threshold_ns)
            ),
            Trigger::Idle { ns, threshold_ns } => format!(
                "one wait had lasted {} while its CPU was idle; the threshold is idle = {}",
                Nanos(*ns),
                Nanos(*threshold_ns)
            ),
            Trigger::Verdict { ns, lost_ns, span_ns, severity } => {
                let of = if *span_ns > 0 { format!(" of {}", Nanos(*span_ns)) } else { String::new() };
                format!(
                    "waits for this reason took {}{of}, {} or more at a time; the table of verdicts calls that {}",
                    Nanos(*lost_ns),
                    Nanos(*ns),
                    match severity {
                        Severity::Info => "a remark",
                        Severity::Warning => "a warning",
                        Severity::Critical => "critical",
                    }
                )
            }
            Trigger::Stopped { share, threshold } => format!(
                "its limit stopped it for {} of the time in which it would have run; the threshold is stopped = {threshold:.2}",
                percent(share)
            ),
        }
    }
}

/// How an episode began, as the counters saw it; `None` of a dump on demand.
pub fn began(episode: &Episode) -> Option<String> {
    let seen = episode.trigger.as_ref()?;
    let mut text = String::from("began when ");
    text += &seen.victim.as_ref().map_or_else(|| "somebody".to_owned(), named);
    text += " waited";
    if let Some(ns) = seen.blamed_ns.filter(|ns| *ns > 0) {
        let _ = write!(text, " {}", Nanos(ns));
    }
    if let Some(culprit) = &seen.culprit {
        let _ = write!(text, " while {} had the CPU", named(culprit));
    }
    if let Some(rule) = seen.rule {
        let _ = write!(text, " ({rule})");
    }
    Some(format!("{text}: {}", seen.trigger.words()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::episode::{Party, Seen};

    #[test]
    fn the_beginning_has_who_why_and_the_threshold() {
        let party = |comm: &str, tid| Party { comm: comm.to_owned(), tid: Some(tid), ..Party::default() };
        let seen = Seen {
            trigger: Trigger::Wait { ns: 50_000_000, threshold_ns: 20_000_000 },
            since_mono_ns: None,
            victim: Some(party("ksoftirqd/1", 18)),
            culprit: Some(party("hog\n", 4711)),
            rule: Some(unstarve_sched::Rule::Weight),
            blamed_ns: Some(54_400_000),
        };
        let episode = Episode { trigger: Some(seen), verdict: Some("Nobody is starved.".into()), ..Episode::default() };
        assert_eq!(
            began(&episode).as_deref(),
            Some(
                "began when ksoftirqd/1[18] waited 54.4 ms while hog\\n[4711] had the CPU (weight): one wait took 50.0 ms or \
                 more; the threshold is wait = 20.0 ms"
            )
        );
        assert_eq!(began(&Episode::default()), None);
    }
}
