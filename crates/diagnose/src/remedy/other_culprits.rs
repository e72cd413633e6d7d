//! Removes remedies of one finding that would favour a culprit of another finding.

use rustc_hash::FxHashSet;
use unstarve_change::{Change, Selector, Target, To, Value};
use unstarve_model::{Policy, Tid};

use crate::report::{Finding, Remedy};

/// Removes remedies that favour a thread which another finding names as culprit: raised for one finding, it would do more of what
/// the other reports. Remedies of a finding against its own culprits stay.
///
/// `is_realtime` returns whether the trace shows a thread as real-time or deadline: without a snapshot, a change does not contain
/// the old policy.
pub(crate) fn spare_no_other_culprit(
    process_of: impl Fn(Tid) -> Option<Tid>,
    is_realtime: impl Fn(Tid) -> bool,
    findings: &mut [Finding],
) {
    let own: Vec<FxHashSet<u32>> = findings.iter().map(culprits).collect();
    let accused: FxHashSet<u32> = own.iter().flatten().copied().collect();
    for (finding, own) in findings.iter_mut().zip(&own) {
        finding.remedies.retain(|remedy| !touches_another(&process_of, &is_realtime, remedy, &accused, own));
    }
}

fn culprits(finding: &Finding) -> FxHashSet<u32> {
    finding.culprits.iter().flat_map(|culprit| culprit.tids.iter().copied()).collect()
}

fn touches_another(
    process_of: impl Fn(Tid) -> Option<Tid>,
    is_realtime: impl Fn(Tid) -> bool,
    remedy: &Remedy,
    accused: &FxHashSet<u32>,
    own: &FxHashSet<u32>,
) -> bool {
    // Removing a thread from the real-time class does not favour it. Moving it from SCHED_IDLE to the same class does.
    let was_higher = |change: &Change, tid: Tid| match &change.was {
        Some(Value::Class { policy, .. }) => matches!(policy.class(), Some(Policy::Rt | Policy::Deadline)),
        _ => is_realtime(tid),
    };
    let lowered: FxHashSet<Tid> = remedy
        .changes
        .iter()
        .filter(|change| is_to_fair(change))
        .filter_map(|change| thread_of(&change.target).filter(|tid| was_higher(change, *tid)))
        .collect();
    let is_lowered = |target: &Target| thread_of(target).is_some_and(|tid| lowered.contains(&tid));
    remedy.changes.iter().filter(|change| !is_lowered(&change.target)).any(|change| match &change.target {
        Target::Thread(thread) => accused.contains(&thread.tid.0) && !own.contains(&thread.tid.0),
        Target::Threads(Selector::Process(process)) => {
            accused.iter().any(|tid| !own.contains(tid) && process_of(Tid(*tid)) == Some(process.tid))
        }
        _ => false,
    })
}

fn is_to_fair(change: &Change) -> bool {
    match &change.to {
        Some(To::Value(Value::Class { policy, .. })) => policy.class() == Some(Policy::Fair),
        _ => false,
    }
}

/// The thread that a target names; for a process, its first thread.
fn thread_of(target: &Target) -> Option<Tid> {
    match target {
        Target::Thread(thread) | Target::Threads(Selector::Process(thread)) => Some(thread.tid),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use unstarve_change::Thread;
    use unstarve_model::SchedPolicy;

    use super::*;

    /// A finding whose culprit is this thread, with a remedy for each target.
    fn finding(culprit: u32, targets: &[Target]) -> Finding {
        let remedies: Vec<_> = targets
            .iter()
            .map(|target| {
                let changes = [Change::of(target.clone(), Value::Nice(-10))];
                serde_json::json!({"id": "r", "text": "", "apply": "", "undo": "", "risk": "", "valid_on": "", "changes": changes})
            })
            .collect();
        serde_json::from_value(serde_json::json!({
            "id": "f", "severity": "warning", "confidence": 1.0, "sentence": "", "blame": [], "cpus": [], "period_ns": null,
            "victim": {"kind": "task", "comm": "v", "tids": [1], "tasks": 1, "policy": null, "prio": null, "work": null},
            "culprits": [{"comm": "c", "tids": [culprit], "policy": null, "prio": null, "rule": "class", "ns": 1}],
            "waits": {"count": 1, "total_ns": 1, "max_ns": 1, "p99_ns": 1, "owed_ns": 1},
            "price": [], "evidence": [], "worst": [], "losses": [], "remedies": remedies,
        }))
        .expect("a finding")
    }

    #[test]
    fn another_findings_culprit_is_not_raised_and_ones_own_may_be_lowered() {
        let thread = |tid| Target::Thread(Thread::known_by(Tid(tid), "t"));
        let process = |tid| Target::Threads(Selector::Process(Thread::known_by(Tid(tid), "t")));
        let targets = [thread(10), thread(21), thread(30), process(20), process(30)];
        let mut findings = [finding(10, &targets), finding(21, &[])];
        // 21 is a thread of process 20.
        spare_no_other_culprit(|tid| Some(Tid(tid.0 / 10 * 10)), |_| false, &mut findings);
        let left: Vec<_> = findings[0].remedies.iter().map(|remedy| remedy.changes[0].target.clone()).collect();
        assert_eq!(left, [thread(10), thread(30), process(30)]);
    }

    #[test]
    fn a_wrapper_that_another_finding_names_too_leaves_the_real_time_class_with_its_program() {
        // `timeout` was still an ordinary task in the other finding.
        assert_eq!(left_of_a_change_to_fair(None, |tid| tid == Tid(20)), 1, "the trace shows it");
        assert_eq!(left_of_a_change_to_fair(Some((SchedPolicy::Fifo, 10)), |_| false), 1, "the snapshot says it");
    }

    #[test]
    fn another_findings_culprit_does_not_leave_sched_idle() {
        assert_eq!(left_of_a_change_to_fair(Some((SchedPolicy::Idle, 0)), |_| true), 0);
        assert_eq!(left_of_a_change_to_fair(None, |_| false), 0, "nobody knows what it was");
    }

    /// The number of remaining remedies that make another finding's culprit an ordinary task with more weight.
    fn left_of_a_change_to_fair(was: Option<(SchedPolicy, u32)>, is_realtime: impl Fn(Tid) -> bool) -> usize {
        let thread = |tid| Target::Thread(Thread::known_by(Tid(tid), "t"));
        let class = |(policy, rt_priority)| Value::Class { policy, rt_priority, slice: None };
        let mut findings = [finding(10, &[thread(10)]), finding(20, &[])];
        let to_fair = class((SchedPolicy::Other, 0));
        findings[0].remedies[0].changes = vec![
            Change::of(thread(10), to_fair.clone()),
            Change::of(thread(20), to_fair).from(was.map(class)),
            Change::of(thread(20), Value::Nice(-10)),
        ];
        spare_no_other_culprit(Some, is_realtime, &mut findings);
        findings[0].remedies.len()
    }
}
