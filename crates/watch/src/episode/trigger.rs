//! The condition that triggered an episode.

use serde::{Deserialize, Serialize};
use unstarve_model::{Nanos, Severity};

/// What was above its threshold.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Trigger {
    /// A wait that ended.
    Wait {
        /// It took at least this long.
        ns: u64,
        /// More than this.
        threshold_ns: u64,
    },
    /// Many waits.
    Share {
        /// This part of the last second.
        share: f64,
        /// More than this.
        threshold: f64,
    },
    /// A wait that lasts.
    Oldest {
        /// So far.
        ns: u64,
        /// More than this.
        threshold_ns: u64,
    },
    /// Long waits behind real-time tasks.
    Stalled {
        /// This part of the last second, a whole one at most.
        share: f64,
        /// More than this.
        threshold: f64,
    },
    /// A group that its CPU limit stops.
    Stopped {
        /// This part of the time for which it would have run, had it been let.
        share: f64,
        /// More than this.
        threshold: f64,
    },
    /// A wait that lasts behind an equal that does not leave the CPU.
    Stuck {
        /// So far.
        ns: u64,
        /// More than this.
        threshold_ns: u64,
    },
    /// A real-time task's wait behind a task of a lower class.
    NotPreempted {
        /// It took at least this long, or has lasted so long.
        ns: u64,
        /// More than this.
        threshold_ns: u64,
    },
    /// Waits for one reason that the verdict's table calls an alarm.
    Verdict {
        /// The longest took at least so long, or has lasted so long.
        ns: u64,
        /// All of them took so much of the time: of those that waited for one CPU at once each moment once.
        lost_ns: u64,
        /// The time that was looked at; 0 where the longest alone is an alarm.
        span_ns: u64,
        /// How bad the table calls that.
        severity: Severity,
    },
    /// A wait that lasts while the CPU is idle.
    Idle {
        /// So far.
        ns: u64,
        /// More than this.
        threshold_ns: u64,
    },
}

impl Trigger {
    /// How long after the begin of what was looked at the longest wait had begun for sure: nothing where that is the begin of a wait.
    pub(crate) fn looked_before(&self) -> Nanos {
        match self {
            Trigger::Verdict { ns, span_ns, .. } => Nanos(span_ns.saturating_sub(*ns)),
            Trigger::Share { .. } | Trigger::Stalled { .. } | Trigger::Stopped { .. } => Nanos::from_millis(1000),
            Trigger::Wait { .. }
            | Trigger::Oldest { .. }
            | Trigger::Stuck { .. }
            | Trigger::NotPreempted { .. }
            | Trigger::Idle { .. } => Nanos::ZERO,
        }
    }

    /// Whether so much of blamed time is a sum over the tasks of a role, and not one task's wait. A histogram's step has twice its lower bound.
    pub(crate) fn is_sum(&self, blamed_ns: u64) -> bool {
        match self {
            Trigger::Share { .. } | Trigger::Stalled { .. } | Trigger::Stopped { .. } | Trigger::Verdict { .. } => true,
            Trigger::Wait { ns, .. }
            | Trigger::Oldest { ns, .. }
            | Trigger::Stuck { ns, .. }
            | Trigger::NotPreempted { ns, .. }
            | Trigger::Idle { ns, .. } => blamed_ns > ns.saturating_mul(2),
        }
    }

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
