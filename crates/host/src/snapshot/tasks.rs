use std::fs::File;
use std::io::Read;

use unstarve_facts::{CgroupVersion, Hierarchy, RunSums, Seen, TaskFacts};
use unstarve_model::{Policy, SchedPolicy, Tid};

use super::{Detail, Gaps};
use crate::Root;

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

/// What `/proc/TID/stat` says of a thread of the host at `root`, no more; `None` if there is none.
pub fn task(root: &Root, tid: Tid) -> Option<TaskFacts> {
    stat(tid, &root.text(&format!("/proc/{tid}/stat")).ok()?)
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

/// `/proc/PID/task/TID/schedstat`: three numbers (`Documentation/scheduler/sched-stats.rst`). All 0 where the kernel does
/// not count (CONFIG_SCHED_INFO).
fn sums(text: &str) -> Option<RunSums> {
    let mut numbers = text.split_ascii_whitespace().map(|text| text.parse::<u64>().ok());
    let (ran_ns, run_delay_ns, turns) = (numbers.next()??, numbers.next()??, numbers.next()??);
    (ran_ns > 0 || turns > 0).then_some(RunSums { ran_ns, run_delay_ns, turns })
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
    fn the_group_is_the_one_that_the_cpu_controller_sees() {
        let text = "4:cpuset:/a\n3:cpu,cpuacct:/b:c\n1:name=systemd:/d\n0::/e\n";
        assert_eq!(cgroup(text, CgroupVersion::V1).as_deref(), Some("/b:c"));
        assert_eq!(cgroup(text, CgroupVersion::V2).as_deref(), Some("/e"));
    }
}
