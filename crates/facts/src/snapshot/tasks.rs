//! Threads in a snapshot.

use serde::{Deserialize, Serialize};
use unstarve_model::{CpuSet, Policy, Prio, SchedPolicy, Tid};

use super::Seen;

/// A thread, as `/proc` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TaskFacts {
    /// The thread.
    pub tid: Tid,
    /// Its process; absent if it is the same as `tid`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tgid: Option<Tid>,
    /// Its name. For a worker with its workqueue (`kworker/0:1-dio/nvme0n1`), which is not in traces.
    pub comm: String,
    /// Its policy.
    pub policy: SchedPolicy,
    /// 1 (lowest) to 99 for FIFO and RR, otherwise 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rt_priority: u32,
    /// −20 (highest weight) to 19. Applies only to fair policies.
    #[serde(default, skip_serializing_if = "is_zero_nice")]
    pub nice: i32,
    /// Its policy at the end of a recording, if it was runnable then. A running task can change it, and no event shows that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_last: Option<PolicyFacts>,
    /// The CPUs on which it may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<CpuSet>,
    /// The CPUs on which it might run at the end of a recording, if they are others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed_last: Option<CpuSet>,
    /// Its cgroup in the hierarchy with the CPU controller; `/` is the root group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Whether it is a kernel thread (PF_KTHREAD).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel_thread: bool,
    /// The real user of a program's thread. Absent for kernel threads, and in snapshots of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<u32>,
    /// Whether user space may not change its affinity (PF_NO_SETAFFINITY), as for every per-CPU kernel thread.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub affinity_fixed: bool,
    /// The parent process; only for the first thread of a process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Tid>,
    /// CPU time used since its creation, user and system, in clock ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ticks: Option<u64>,
    /// CPU time of its process's exited and reaped children, in clock ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_ticks: Option<u64>,
    /// Page faults of its process's reaped children. Above zero if the process has had children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_faults: Option<u64>,
    /// Whether its children start as SCHED_OTHER (SCHED_RESET_ON_FORK). Not in `/proc`, so it is queried for tasks of
    /// the running host: for programs, and for real-time kernel threads. Older versions queried only real-time and
    /// deadline tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_on_fork: Option<bool>,
    /// The parameters of a SCHED_DEADLINE task. Not in `/proc`, so they are queried for tasks of the running host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<DeadlineFacts>,
    /// The autogroup of its session, if autogroup is on and the task is not in the default one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub autogroup: Option<Autogroup>,
    /// The command line of a process's first thread, its words joined by spaces. Only in snapshots of older versions,
    /// because it may contain passwords.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmdline: Option<String>,
    /// Its state when the snapshot was taken; in a recording, at its beginning. Absent for tasks created later, and in
    /// snapshots of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
    /// Its state at the end of a recording; absent if it had exited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_last: Option<Seen>,
    /// When it was created, in clock ticks since boot (1/100 s on all architectures but Alpha and ia64). Together with
    /// `tid` it identifies a thread even if ids are reused.
    pub start_ticks: u64,
}

/// A policy with its priorities; see the fields of [`TaskFacts`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PolicyFacts {
    /// The policy.
    pub policy: SchedPolicy,
    /// 1 (lowest) to 99 for FIFO and RR, otherwise 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rt_priority: u32,
    /// −20 (highest weight) to 19. Applies only to fair policies.
    #[serde(default, skip_serializing_if = "is_zero_nice")]
    pub nice: i32,
}

impl PolicyFacts {
    /// The kernel's priority, as events show it: 120 + nice, 99 - real-time priority; `None` for an unknown policy.
    pub fn prio(&self) -> Option<Prio> {
        Some(match self.policy.class()? {
            Policy::Fair => Prio(120 + self.nice.clamp(-20, 19)),
            Policy::Rt => Prio(99 - self.rt_priority.min(99) as i32),
            Policy::Deadline => Prio(-1),
            Policy::Idle => return None,
        })
    }
}

/// `runtime` in each `period`, by `deadline`, as for sched_setattr(2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeadlineFacts {
    /// CPU time that it may use in each period, in ns.
    pub runtime_ns: u64,
    /// The deadline for this time, from the beginning of the period, in ns.
    pub deadline_ns: u64,
    /// The length of the period, in ns.
    pub period_ns: u64,
}

/// A line of `/proc/PID/autogroup`: `/autogroup-123 nice 0`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Autogroup {
    /// Its number.
    pub id: u64,
    /// The nice value of the autogroup, −20 to 19.
    #[serde(default, skip_serializing_if = "is_zero_nice")]
    pub nice: i32,
}

impl Autogroup {
    /// Parses `/proc/PID/autogroup`; `None` for a task in the default group, where it is empty.
    pub fn parse(text: &str) -> Option<Autogroup> {
        let (id, nice) = text.trim().strip_prefix("/autogroup-")?.split_once(" nice ")?;
        Some(Autogroup { id: id.parse().ok()?, nice: nice.parse().ok()? })
    }
}

impl TaskFacts {
    /// Its policy with its priorities: in a recording, at its beginning.
    pub fn policy_facts(&self) -> PolicyFacts {
        PolicyFacts { policy: self.policy, rt_priority: self.rt_priority, nice: self.nice }
    }

    /// The kernel's priority; see [`PolicyFacts::prio`].
    pub fn prio(&self) -> Option<Prio> {
        self.policy_facts().prio()
    }

    /// Whether it was runnable at the beginning and at the end of a recording and never got a CPU in between; `None` if
    /// unknown. (Whether it slept in between is shown by the events.)
    pub fn has_only_waited(&self) -> Option<bool> {
        let (begin, end) = (self.seen?, self.seen_last?);
        if !begin.is_runnable() || !end.is_runnable() {
            return Some(false);
        }
        let (before, after) = (begin.sums?, end.sums?);
        // A task that ran all the time had no new turn either, but its run time grew.
        Some(before.turns == after.turns && before.ran_ns == after.ran_ns)
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_zero_nice(nice: &i32) -> bool {
    *nice == 0
}

/// Combines the tasks at the beginning and at the end of a recording. For tasks in both, keeps the facts of the
/// beginning and the states at both moments.
pub(super) fn finish(begin: Vec<TaskFacts>, mut end: Vec<TaskFacts>) -> Vec<TaskFacts> {
    for task in &mut end {
        task.seen_last = task.seen.take();
        task.policy_last = task.seen_last.filter(Seen::is_runnable).map(|_| task.policy_facts());
    }
    let mut tasks = begin;
    tasks.append(&mut end);
    tasks.sort_by_key(|task| (task.tid, task.start_ticks));
    tasks.dedup_by(|later, earlier| {
        let same = (later.tid, later.start_ticks) == (earlier.tid, earlier.start_ticks);
        if same {
            earlier.seen_last = later.seen_last;
            earlier.policy_last = later.policy_last;
            earlier.allowed_last = later.allowed.take().filter(|allowed| earlier.allowed.as_ref() != Some(allowed));
            earlier.deadline = earlier.deadline.or(later.deadline);
        }
        same
    });
    tasks
}

/// A recording's tasks, with those seen only in between added.
pub(super) fn union(known: Vec<TaskFacts>, mut between: Vec<TaskFacts>) -> Vec<TaskFacts> {
    between.iter_mut().for_each(|task| task.seen = None);
    let mut tasks = known;
    tasks.append(&mut between);
    // The sort is stable, so the facts of the beginning come first, and dedup keeps the first.
    tasks.sort_by_key(|task| (task.tid, task.start_ticks));
    tasks.dedup_by(|later, earlier| {
        let same = (later.tid, later.start_ticks) == (earlier.tid, earlier.start_ticks);
        if same {
            earlier.deadline = earlier.deadline.or(later.deadline);
        }
        same
    });
    tasks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_s_autogroup_has_a_number_and_a_nice_value() {
        assert_eq!(Autogroup::parse("/autogroup-123 nice -5\n"), Some(Autogroup { id: 123, nice: -5 }));
        assert_eq!(Autogroup::parse(""), None);
        assert_eq!(Autogroup::parse("/autogroup-x nice 0"), None);
    }

    #[test]
    fn who_was_runnable_at_both_ends_and_got_no_turn_has_only_waited() {
        let task = |state: char, turns: u64| -> TaskFacts {
            let sums = serde_json::json!({ "ran_ns": 100, "run_delay_ns": 20, "turns": turns });
            let seen = serde_json::json!({ "state": state, "cpu": 3, "sums": sums });
            let task = serde_json::json!({ "tid": 7, "comm": "x", "policy": "other", "start_ticks": 9, "seen": seen });
            serde_json::from_value(task).expect("a task")
        };
        let waited = |begin, end| finish(vec![begin], vec![end])[0].has_only_waited();
        assert_eq!(waited(task('R', 5), task('R', 5)), Some(true));
        assert_eq!(waited(task('R', 5), task('R', 6)), Some(false));
        assert_eq!(waited(task('R', 5), task('S', 5)), Some(false));
        assert_eq!(finish(vec![task('R', 5)], vec![])[0].has_only_waited(), None, "it is gone");
        let came = finish(vec![], vec![task('R', 5)]);
        assert_eq!((came[0].seen, came[0].seen_last.map(|seen| seen.state)), (None, Some('R')));
        assert_eq!(came[0].policy_last, Some(came[0].policy_facts()));
        let between = union(came, vec![task('S', 5)]);
        assert_eq!((between.len(), between[0].seen), (1, None));
    }
}
