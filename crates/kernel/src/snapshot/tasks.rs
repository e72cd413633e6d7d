use std::fs::File;
use std::io::Read;

use serde::{Deserialize, Serialize};
use unstarve_model::{Policy, Prio, Tid};

use super::seen::{Seen, sums};
use super::{CgroupVersion, Detail, Gaps, Hierarchy};
use crate::{CpuSet, Root};

/// A thread, as `/proc` shows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct TaskFacts {
    /// The thread.
    pub tid: Tid,
    /// Its process; the same as `tid` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tgid: Option<Tid>,
    /// Its name. Of a worker with what it does (`kworker/0:1-dio/nvme0n1`), which no trace knows.
    pub comm: String,
    /// Its policy.
    pub policy: SchedPolicy,
    /// 1 (lowest) to 99 for FIFO and RR, otherwise 0.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rt_priority: u32,
    /// −20 (heaviest) to 19. It matters only to the fair policies.
    #[serde(default, skip_serializing_if = "is_zero_nice")]
    pub nice: i32,
    /// The CPUs on which it may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowed: Option<CpuSet>,
    /// Its group in the hierarchy that has the CPU controller; `/` is the root group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
    /// Whether it is a kernel thread (PF_KTHREAD).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kernel_thread: bool,
    /// Whether user space may not change its affinity (PF_NO_SETAFFINITY), as of every bound kernel thread.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub affinity_fixed: bool,
    /// The process that made it (its parent), of a process's first thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Tid>,
    /// CPU time that it used since it was created, user and system, in clock ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ticks: Option<u64>,
    /// CPU time of the children of its process that ended and were waited for, in clock ticks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_ticks: Option<u64>,
    /// Page faults of children that it waited for: above zero, its process has had children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_faults: Option<u64>,
    /// Whether its children begin as SCHED_OTHER (SCHED_RESET_ON_FORK). Asked for real-time and deadline tasks of the
    /// running host alone; `/proc` does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reset_on_fork: Option<bool>,
    /// The command line of a process's first thread, its words joined by blanks. In snapshots of older versions alone: it
    /// may hold passwords.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cmdline: Option<String>,
    /// What it was doing when it was looked at; of a recording, when that began. Absent for a task that came later, and in
    /// snapshots of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen: Option<Seen>,
    /// The same when a recording ended; absent for a task that was gone by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_last: Option<Seen>,
    /// When it was created, in clock ticks (1/100 s on all architectures but Alpha and ia64) since boot. With `tid` it
    /// names one thread for good, however often ids are used again.
    pub start_ticks: u64,
}

impl TaskFacts {
    /// The kernel's priority, as events show it: 120 + nice, 99 - real-time priority; `None` for an unknown policy.
    pub fn prio(&self) -> Option<Prio> {
        Some(match self.policy.class()? {
            Policy::Fair => Prio(120 + self.nice.clamp(-20, 19)),
            Policy::Rt => Prio(99 - self.rt_priority.min(99) as i32),
            Policy::Deadline => Prio(-1),
            Policy::Idle => return None,
        })
    }

    /// Whether it was runnable when a recording began and when it ended, and did not get a CPU in between; `None` if that
    /// is not known. (That it did not sleep either, the recording's events tell.)
    pub fn has_only_waited(&self) -> Option<bool> {
        let (begin, end) = (self.seen?, self.seen_last?);
        if !begin.is_runnable() || !end.is_runnable() {
            return Some(false);
        }
        let (before, after) = (begin.sums?, end.sums?);
        // One that ran all the time had no new turn either.
        Some(before.turns == after.turns && before.ran_ns == after.ran_ns)
    }
}

fn is_zero(number: &u32) -> bool {
    *number == 0
}

fn is_zero_nice(nice: &i32) -> bool {
    *nice == 0
}

/// A task's policy (`include/uapi/linux/sched.h`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SchedPolicy {
    /// SCHED_NORMAL.
    Other,
    /// SCHED_FIFO.
    Fifo,
    /// SCHED_RR.
    Rr,
    /// SCHED_BATCH: fair, taken to be CPU-bound.
    Batch,
    /// SCHED_IDLE: fair, with the weight 3.
    Idle,
    /// SCHED_DEADLINE.
    Deadline,
    /// SCHED_EXT: scheduled by a BPF program if one is loaded, else fair.
    Ext,
    /// A policy that this program does not know.
    #[serde(other)]
    Unknown,
}

impl SchedPolicy {
    /// The policy of a number of the kernel's (`SCHED_*` in `include/uapi/linux/sched.h`).
    pub fn from_number(number: u32) -> SchedPolicy {
        match number {
            0 => SchedPolicy::Other,
            1 => SchedPolicy::Fifo,
            2 => SchedPolicy::Rr,
            3 => SchedPolicy::Batch,
            5 => SchedPolicy::Idle,
            6 => SchedPolicy::Deadline,
            7 => SchedPolicy::Ext,
            _ => SchedPolicy::Unknown,
        }
    }

    /// What people call it: `RR`, `FIFO`, `deadline`.
    pub fn word(self) -> &'static str {
        match self {
            SchedPolicy::Other => "normal",
            SchedPolicy::Fifo => "FIFO",
            SchedPolicy::Rr => "RR",
            SchedPolicy::Batch => "batch",
            SchedPolicy::Idle => "idle",
            SchedPolicy::Deadline => "deadline",
            SchedPolicy::Ext => "ext",
            SchedPolicy::Unknown => "unknown",
        }
    }

    /// The scheduling class; `None` for a policy that this program does not know. SCHED_EXT counts as fair.
    pub fn class(self) -> Option<Policy> {
        Some(match self {
            SchedPolicy::Other | SchedPolicy::Batch | SchedPolicy::Idle | SchedPolicy::Ext => Policy::Fair,
            SchedPolicy::Fifo | SchedPolicy::Rr => Policy::Rt,
            SchedPolicy::Deadline => Policy::Deadline,
            SchedPolicy::Unknown => return None,
        })
    }
}

/// `include/linux/sched.h`; unchanged from 2.6.23 and 3.10 to 7.2.
const PF_KTHREAD: u64 = 0x0020_0000;
const PF_NO_SETAFFINITY: u64 = 0x0400_0000;

/// All threads, sorted. One that ends while it is read is left out: nothing is wrong then.
pub(super) fn read_all(
    root: &Root,
    hierarchy: Option<&Hierarchy>,
    detail: Detail,
    missing: &mut Gaps,
) -> Vec<TaskFacts> {
    let processes = root.names("/proc").unwrap_or_else(|error| {
        missing.note("/proc", error);
        Vec::new()
    });
    let version = hierarchy.map(|hierarchy| hierarchy.version);
    let mut reader = Reader { root, detail, buffer: Vec::with_capacity(4096) };
    let mut tasks: Vec<TaskFacts> = Vec::new();
    for tgid in processes.iter().filter_map(|name| name.parse().ok().map(Tid)) {
        for name in root.names(&format!("/proc/{tgid}/task")).unwrap_or_default() {
            let Ok(tid) = name.parse().map(Tid) else { continue };
            tasks.extend(reader.task(tgid, tid, version));
        }
    }
    if tasks.is_empty() {
        missing.note("tasks", "/proc shows none");
    }
    tasks.sort_unstable_by_key(|task| (task.tid, task.start_ticks));
    tasks
}

/// The tasks of a recording's beginning and end: the facts of the beginning where both know one, and what it was doing at
/// both.
pub(super) fn finish(begin: Vec<TaskFacts>, mut end: Vec<TaskFacts>) -> Vec<TaskFacts> {
    end.iter_mut().for_each(|task| task.seen_last = task.seen.take());
    let mut tasks = begin;
    tasks.append(&mut end);
    tasks.sort_by_key(|task| (task.tid, task.start_ticks));
    tasks.dedup_by(|later, earlier| {
        let same = (later.tid, later.start_ticks) == (earlier.tid, earlier.start_ticks);
        if same {
            earlier.seen_last = later.seen_last;
        }
        same
    });
    tasks
}

/// A recording's tasks, and those that were seen only in between.
pub(super) fn union(known: Vec<TaskFacts>, mut between: Vec<TaskFacts>) -> Vec<TaskFacts> {
    between.iter_mut().for_each(|task| task.seen = None);
    let mut tasks = known;
    tasks.append(&mut between);
    // The sort is stable, so the beginning's facts come first and are the ones that dedup keeps.
    tasks.sort_by_key(|task| (task.tid, task.start_ticks));
    tasks.dedup_by_key(|task| (task.tid, task.start_ticks));
    tasks
}

struct Reader<'a> {
    root: &'a Root,
    detail: Detail,
    buffer: Vec<u8>,
}

impl Reader<'_> {
    fn task(&mut self, tgid: Tid, tid: Tid, version: Option<CgroupVersion>) -> Option<TaskFacts> {
        let directory = format!("/proc/{tgid}/task/{tid}");
        let mut task = stat(tid, &self.file(&directory, "stat")?)?;
        task.tgid = (tgid != tid).then_some(tgid);
        task.parent = task.parent.filter(|_| tgid == tid);
        if let Some(seen) = task.seen.as_mut().filter(|seen| seen.is_runnable()) {
            seen.sums = self.file(&directory, "schedstat").and_then(|text| sums(&text));
        }
        let status = self.file(&directory, "status")?;
        task.allowed =
            status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).and_then(|list| list.parse().ok());
        if let (Some(version), Some(text)) = (version, self.file(&directory, "cgroup")) {
            task.cgroup = cgroup(&text, version);
        }
        let keeps_class = matches!(task.policy.class(), Some(Policy::Rt | Policy::Deadline));
        if keeps_class && self.root.is_host() {
            task.reset_on_fork = reset_on_fork(task.tid);
        }
        if self.detail == Detail::Whole {
            self.add_details(&directory, tgid == tid, &mut task);
        }
        Some(task)
    }

    fn add_details(&mut self, directory: &str, leads: bool, task: &mut TaskFacts) {
        if leads && !task.kernel_thread {
            task.cmdline = self.file(directory, "cmdline").and_then(|text| command_line(&text));
        }
    }

    fn file(&mut self, directory: &str, name: &str) -> Option<String> {
        self.buffer.clear();
        let file = File::open(self.root.path(&format!("{directory}/{name}"))).ok()?;
        // A process says itself how long its command line is (PR_SET_MM_MAP), up to all of its memory.
        file.take(LONGEST).read_to_end(&mut self.buffer).ok()?;
        Some(String::from_utf8_lossy(&self.buffer).into_owned())
    }
}

/// Of a file of a process.
const LONGEST: u64 = 64 << 10;

/// Parses `/proc/PID/stat` (proc_pid_stat(5)). The name stands in parentheses and may itself hold them and blanks, so
/// the fields are counted from the last one on.
pub(super) fn stat(tid: Tid, text: &str) -> Option<TaskFacts> {
    let (head, tail) = text.rsplit_once(')')?;
    let (_, comm) = head.split_once('(')?;
    let fields: Vec<&str> = tail.split_ascii_whitespace().collect();
    // The manual numbers fields from 1; the third is the first after the name.
    let field = |number: usize| fields.get(number - 3).copied();
    let flags: u64 = field(9)?.parse().ok()?;
    Some(TaskFacts {
        tid,
        tgid: None,
        comm: comm.to_owned(),
        policy: SchedPolicy::from_number(field(41)?.parse().ok()?),
        rt_priority: field(40)?.parse().ok()?,
        nice: field(19)?.parse().ok()?,
        allowed: None,
        cgroup: None,
        kernel_thread: flags & PF_KTHREAD != 0,
        affinity_fixed: flags & PF_NO_SETAFFINITY != 0,
        parent: field(4).and_then(|text| text.parse().ok()).map(Tid),
        cpu_ticks: ticks(field(14), field(15)),
        child_ticks: ticks(field(16), field(17)),
        child_faults: field(11).and_then(|text| text.parse().ok()),
        reset_on_fork: None,
        cmdline: None,
        seen: field(3).and_then(|text| text.chars().next()).map(|state| Seen {
            state,
            cpu: field(39).and_then(|text| text.parse().ok()),
            sums: None,
        }),
        seen_last: None,
        start_ticks: field(22)?.parse().ok()?,
    })
}

fn ticks(user: Option<&str>, system: Option<&str>) -> Option<u64> {
    let user: u64 = user?.parse().ok()?;
    user.checked_add(system?.parse().ok()?)
}

/// Words end with NUL. A kernel thread and a zombie have none.
fn command_line(text: &str) -> Option<String> {
    let words = text.trim_end_matches('\0').replace('\0', " ");
    (!words.is_empty()).then(|| words.chars().take(MAX_COMMAND_LINE).collect())
}

/// A Java program's class path may have megabytes.
const MAX_COMMAND_LINE: usize = 1000;

/// Asks the kernel; `None` if the thread has ended.
fn reset_on_fork(tid: Tid) -> Option<bool> {
    /// `include/uapi/linux/sched.h`.
    const SCHED_RESET_ON_FORK: i32 = 0x4000_0000;
    let tid = i32::try_from(tid.0).ok()?;
    // SAFETY: the call takes a number and touches no memory of ours.
    let policy = unsafe { libc::sched_getscheduler(tid) };
    (policy >= 0).then_some(policy & SCHED_RESET_ON_FORK != 0)
}

/// The path in a line `7:cpu,cpuacct:/user.slice` (v1) or `0::/user.slice` (v2) of `/proc/PID/cgroup`.
fn cgroup(text: &str, version: CgroupVersion) -> Option<String> {
    text.lines().find_map(|line| {
        let (_, tail) = line.split_once(':')?;
        let (controllers, path) = tail.split_once(':')?;
        let wanted = match version {
            CgroupVersion::V1 => controllers.split(',').any(|controller| controller == "cpu"),
            CgroupVersion::V2 => controllers.is_empty(),
        };
        wanted.then(|| path.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let text = "7 (a) R) b) S 2 0 0 0 -1 69238880 0 0 0 0 0 0 0 0 -51 -5 1 0 123 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 17 0 50 1 0";
        let task = stat(Tid(7), text).unwrap();
        assert_eq!(task.comm, "a) R) b");
        assert_eq!((task.policy, task.rt_priority, task.nice, task.start_ticks), (SchedPolicy::Fifo, 50, -5, 123));
        assert!(task.kernel_thread && task.affinity_fixed);
        assert!(stat(Tid(7), "7 (cut").is_none());
    }

    #[test]
    fn who_was_runnable_at_both_ends_and_got_no_turn_has_only_waited() {
        let task = |state: &str, turns: u64| {
            let text = format!(
                "7 (x) {state} 1 0 0 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 9 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0 17 3 0 0 0"
            );
            let mut task = stat(Tid(7), &text).unwrap();
            if let Some(seen) = &mut task.seen {
                assert_eq!(seen.cpu, Some(3));
                seen.sums = sums(&format!("100 20 {turns}\n"));
            }
            task
        };
        let waited = |begin, end| finish(vec![begin], vec![end])[0].has_only_waited();
        assert_eq!(waited(task("R", 5), task("R", 5)), Some(true));
        assert_eq!(waited(task("R", 5), task("R", 6)), Some(false));
        assert_eq!(waited(task("R", 5), task("S", 5)), Some(false));
        assert_eq!(finish(vec![task("R", 5)], vec![])[0].has_only_waited(), None, "it is gone");
        let came = finish(vec![], vec![task("R", 5)]);
        assert_eq!((came[0].seen, came[0].seen_last.map(|seen| seen.state)), (None, Some('R')));
        let between = union(came, vec![task("S", 5)]);
        assert_eq!((between.len(), between[0].seen), (1, None));
    }

    #[test]
    fn the_group_is_the_one_that_the_cpu_controller_sees() {
        let text = "4:cpuset:/a\n3:cpu,cpuacct:/b:c\n1:name=systemd:/d\n0::/e\n";
        assert_eq!(cgroup(text, CgroupVersion::V1).as_deref(), Some("/b:c"));
        assert_eq!(cgroup(text, CgroupVersion::V2).as_deref(), Some("/e"));
    }
}
