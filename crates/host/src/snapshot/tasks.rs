//! Reads threads from `/proc`.

use std::io::Read;

use unstarve_facts::{Autogroup, CgroupVersion, DeadlineFacts, Hierarchy, RunSums, Seen, Stat, TaskFacts, flag};
use unstarve_model::{Policy, SchedPolicy, Tid};

use super::{Detail, Gaps};
use crate::{Root, SchedAttr, whole_cgroups};

/// All threads, sorted. A thread that exits while being read is left out without a note.
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
    // With autogroup off, sessions are still numbered, but have no effect on scheduling.
    let setting = root.text("/proc/sys/kernel/sched_autogroup_enabled");
    let sessions = if setting.is_ok_and(|text| text.trim() == "1") { Sessions::Compete } else { Sessions::Alike };
    let mut reader = Reader { root, detail, sessions, buffer: Vec::with_capacity(4096) };
    let mut tasks: Vec<TaskFacts> = Vec::new();
    for tgid in processes.iter().filter_map(|name| name.parse().ok().map(Tid)) {
        let first = tasks.len();
        for name in root.names(&format!("/proc/{tgid}/task")).unwrap_or_default() {
            let Ok(tid) = name.parse().map(Tid) else { continue };
            tasks.extend(reader.task(tgid, tid, version));
        }
        let autogroup = reader.autogroup(tgid, &tasks[first..]);
        tasks[first..].iter_mut().for_each(|task| task.autogroup = autogroup);
    }
    if tasks.is_empty() {
        missing.note("tasks", "/proc shows none");
    }
    tasks.sort_unstable_by_key(|task| (task.tid, task.start_ticks));
    tasks
}

/// What `/proc/TID/stat` shows about a thread of the host at `root`; `None` if it does not exist.
pub fn task(root: &Root, tid: Tid) -> Option<TaskFacts> {
    facts(tid, &root.text(&format!("/proc/{tid}/stat")).ok()?)
}

struct Reader<'a> {
    root: &'a Root,
    detail: Detail,
    sessions: Sessions,
    buffer: Vec<u8>,
}

/// Whether autogroup is on (`sched_autogroup_enabled`): the tasks of a session compete with others as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sessions {
    Compete,
    Alike,
}

impl Reader<'_> {
    fn task(&mut self, tgid: Tid, tid: Tid, version: Option<CgroupVersion>) -> Option<TaskFacts> {
        let directory = format!("/proc/{tgid}/task/{tid}");
        let mut task = facts(tid, &self.file(&directory, "stat")?)?;
        task.tgid = (tgid != tid).then_some(tgid);
        task.parent = task.parent.filter(|_| tgid == tid);
        if let Some(seen) = task.seen.as_mut().filter(|seen| seen.is_runnable()) {
            seen.sums = self.file(&directory, "schedstat").and_then(|text| sums(&text));
        }
        let status = self.file(&directory, "status")?;
        task.allowed =
            status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).and_then(|list| list.parse().ok());
        task.user = user(&status).filter(|_| !task.kernel_thread);
        if let (Some(version), Some(text)) = (version, self.file(&directory, "cgroup")) {
            let text = if self.root.is_host() { whole_cgroups(text) } else { text };
            task.cgroup = cpu_cgroup(&text, version);
        }
        // A kernel thread has reset-on-fork only if a program set it together with a policy.
        let keeps_class = matches!(task.policy.class(), Some(Policy::Rt | Policy::Deadline));
        if (keeps_class || !task.kernel_thread) && self.root.is_host() {
            task.reset_on_fork = reset_on_fork(task.tid);
        }
        if task.policy == SchedPolicy::Deadline && self.root.is_host() {
            task.deadline = deadline(task.tid);
        }
        if self.detail == Detail::Whole {
            self.add_details(&directory, tgid == tid, &mut task);
        }
        Some(task)
    }

    /// The autogroup of a process with these threads.
    fn autogroup(&mut self, tgid: Tid, threads: &[TaskFacts]) -> Option<Autogroup> {
        let wanted = self.sessions == Sessions::Compete && threads.iter().any(|task| !task.kernel_thread);
        wanted
            .then(|| self.file(&format!("/proc/{tgid}"), "autogroup"))
            .flatten()
            .and_then(|text| Autogroup::parse(&text))
    }

    fn add_details(&mut self, directory: &str, leads: bool, task: &mut TaskFacts) {
        if leads && !task.kernel_thread {
            task.cmdline = self.file(directory, "cmdline").and_then(|text| command_line(&text));
        }
    }

    fn file(&mut self, directory: &str, name: &str) -> Option<String> {
        self.buffer.clear();
        let file = self.root.open(&format!("{directory}/{name}")).ok()?;
        // A process determines the length of its own command line (PR_SET_MM_MAP), up to all of its memory.
        file.take(MAX_PROC_FILE).read_to_end(&mut self.buffer).ok()?;
        Some(String::from_utf8_lossy(&self.buffer).into_owned())
    }
}

/// Limit for a file of a process.
const MAX_PROC_FILE: u64 = 64 << 10;

/// Parses `/proc/PID/stat`; `None` if it lacks fields that every kernel has.
fn facts(tid: Tid, text: &str) -> Option<TaskFacts> {
    let stat = Stat::parse(text)?;
    Some(TaskFacts {
        tid,
        tgid: None,
        policy: stat.policy?,
        rt_priority: stat.rt_priority?,
        nice: stat.nice?,
        policy_last: None,
        allowed: None,
        allowed_last: None,
        cgroup: None,
        kernel_thread: stat.is_kernel_thread(),
        user: None,
        affinity_fixed: stat.flags & flag::NO_SETAFFINITY != 0,
        parent: Some(stat.parent),
        cpu_ticks: stat.cpu_ticks,
        child_ticks: stat.child_ticks,
        child_faults: stat.child_faults,
        reset_on_fork: None,
        deadline: None,
        autogroup: None,
        cmdline: None,
        seen: Some(Seen { state: stat.state, cpu: stat.cpu, sums: None }),
        seen_last: None,
        start_ticks: stat.start,
        comm: stat.comm,
    })
}

/// The real user id, the first of four in `/proc/PID/status`.
fn user(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// Parses `/proc/PID/task/TID/schedstat`: three numbers (`Documentation/scheduler/sched-stats.rst`). All are 0 if the
/// kernel does not count (CONFIG_SCHED_INFO).
fn sums(text: &str) -> Option<RunSums> {
    let mut numbers = text.split_ascii_whitespace().map(|text| text.parse::<u64>().ok());
    let (ran_ns, run_delay_ns, turns) = (numbers.next()??, numbers.next()??, numbers.next()??);
    (ran_ns > 0 || turns > 0).then_some(RunSums { ran_ns, run_delay_ns, turns })
}

/// Words end with a NUL. A kernel thread and a zombie have none.
fn command_line(text: &str) -> Option<String> {
    let words = text.trim_end_matches('\0').replace('\0', " ");
    (!words.is_empty()).then(|| words.chars().take(MAX_COMMAND_LINE).collect())
}

/// A Java program's class path may have megabytes.
const MAX_COMMAND_LINE: usize = 1000;

/// Queries the kernel; `None` if the thread has exited.
fn reset_on_fork(tid: Tid) -> Option<bool> {
    SchedAttr::of(tid).ok().map(|attr| attr.flags & SchedAttr::RESET_ON_FORK != 0)
}

/// Queries the kernel; `None` if the thread has exited, or has another policy by now.
fn deadline(tid: Tid) -> Option<DeadlineFacts> {
    let attr = SchedAttr::of(tid).ok()?;
    (SchedPolicy::from_number(attr.policy) == SchedPolicy::Deadline).then_some(DeadlineFacts {
        runtime_ns: attr.runtime,
        deadline_ns: attr.deadline,
        period_ns: attr.period,
    })
}

/// The path in a line `7:cpu,cpuacct:/user.slice` (v1) or `0::/user.slice` (v2) of `/proc/PID/cgroup`.
pub fn cpu_cgroup(text: &str, version: CgroupVersion) -> Option<String> {
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
    fn the_group_is_the_one_that_the_cpu_controller_sees() {
        let text = "4:cpuset:/a\n3:cpu,cpuacct:/b:c\n1:name=systemd:/d\n0::/e\n";
        assert_eq!(cpu_cgroup(text, CgroupVersion::V1).as_deref(), Some("/b:c"));
        assert_eq!(cpu_cgroup(text, CgroupVersion::V2).as_deref(), Some("/e"));
    }
}
