//! Queries on a snapshot.

use unstarve_model::{CpuSet, Prio, SchedPolicy, Tid, Time};

use super::kept::is_scheduling_option;
use super::{CgroupFacts, IrqFacts, Snapshot, TaskFacts, Throttled};

/// Queries about one task, interrupt or setting. `None` means "not in this snapshot" unless a method says otherwise.
impl Snapshot {
    /// The task with this id; if the id was reused during a recording, the younger task.
    pub fn task(&self, tid: Tid) -> Option<&TaskFacts> {
        let end = self.tasks.partition_point(|task| task.tid <= tid);
        self.tasks[..end].last().filter(|task| task.tid == tid)
    }

    /// The task's policy. [`SchedPolicy::class`] gives the scheduling class.
    pub fn policy_of(&self, tid: Tid) -> Option<SchedPolicy> {
        Some(self.task(tid)?.policy)
    }

    /// The latest priority of the task that the host was read with, and when, on the recording's clock; `None` if that
    /// clock was not read at that moment.
    ///
    /// Not for tasks of the recorder: it raises itself while it reads the host.
    pub fn read_prio(&self, tid: Tid) -> Option<(Time, Prio)> {
        let task = self.task(tid)?;
        if self.recorder.is_some() && self.process_of(tid) == self.recorder {
            return None;
        }
        match (task.policy_last, task.seen) {
            (Some(last), _) => Some((self.clock_pairs.last()?.trace, last.prio()?)),
            (None, Some(_)) => Some((self.clock_pairs.first()?.trace, task.prio()?)),
            // Created after the beginning: it was read at some moment in between, or did not run at the end.
            (None, None) => None,
        }
    }

    /// The CPUs on which the task may run.
    pub fn allowed_cpus(&self, tid: Tid) -> Option<&CpuSet> {
        self.task(tid)?.allowed.as_ref()
    }

    /// The path of the task's cgroup in the hierarchy with the CPU controller; `/` is the root group.
    pub fn cgroup_of(&self, tid: Tid) -> Option<&str> {
        self.task(tid)?.cgroup.as_deref()
    }

    /// The process of a thread.
    pub fn process_of(&self, tid: Tid) -> Option<Tid> {
        let task = self.task(tid)?;
        Some(task.tgid.unwrap_or(task.tid))
    }

    /// Whether the task is a kernel thread.
    pub fn is_kernel_thread(&self, tid: Tid) -> Option<bool> {
        Some(self.task(tid)?.kernel_thread)
    }

    /// The cgroup with this path; `None` also for the root group.
    pub fn cgroup(&self, path: &str) -> Option<&CgroupFacts> {
        let index = self.cgroups.binary_search_by(|group| group.path.as_str().cmp(path)).ok()?;
        self.cgroups.get(index)
    }

    /// The top-level cgroup that contains the task. On a CPU this group competes as one entity with kernel threads,
    /// which are all in the root group. `None` also for a task in the root group.
    pub fn top_cgroup_of(&self, tid: Tid) -> Option<&CgroupFacts> {
        let path = self.cgroup_of(tid)?.strip_prefix('/')?;
        let top = path.split('/').next().filter(|name| !name.is_empty() && *name != "..")?;
        self.cgroup(&format!("/{top}"))
    }

    /// The load weight (nice 0 = 1024) of that group as a whole; see [`CgroupFacts::load_weight`]. `None` in the root
    /// group, and in a v2 group for which the CPU controller is not enabled: there tasks compete individually.
    pub fn weight_of_top_cgroup(&self, tid: Tid) -> Option<u32> {
        self.top_cgroup_of(tid)?.load_weight()
    }

    /// The nearest cgroup with a CPU limit: the task's own or an ancestor.
    pub fn limited_cgroup_of(&self, tid: Tid) -> Option<&CgroupFacts> {
        let mut path = self.cgroup_of(tid)?;
        loop {
            if let Some(group) = self.cgroup(path).filter(|group| group.limit.is_some()) {
                return Some(group);
            }
            path = path.rsplit_once('/')?.0;
        }
    }

    /// The nearest cgroup that is SCHED_IDLE as a whole (`cpu.idle`): the task's own or an ancestor.
    pub fn idle_cgroup_of(&self, tid: Tid) -> Option<&CgroupFacts> {
        let mut path = self.cgroup_of(tid)?;
        loop {
            if let Some(group) = self.cgroup(path).filter(|group| group.idle) {
                return Some(group);
            }
            path = path.rsplit_once('/')?.0;
        }
    }

    /// How much the cgroup was throttled during the recording; `None` if it was not, or if this is not a recording's
    /// snapshot.
    pub fn throttled_meanwhile(&self, path: &str) -> Option<Throttled> {
        self.throttled_meanwhile.as_ref()?.get(path).copied()
    }

    /// `uname -r` of the host.
    pub fn kernel_release(&self) -> Option<&str> {
        self.kernel.release.as_deref()
    }

    /// The interrupt with this number.
    pub fn irq(&self, irq: u32) -> Option<&IrqFacts> {
        let index = self.irqs.binary_search_by_key(&irq, |facts| facts.irq).ok()?;
        self.irqs.get(index)
    }

    /// The CPUs to which an interrupt may be delivered.
    pub fn irq_affinity(&self, irq: u32) -> Option<&CpuSet> {
        self.irq(irq)?.affinity.as_ref()
    }

    /// The path and text of the setting whose path ends in `/name` (`sched_rt_runtime_us`, `base_slice_ns`,
    /// `fair_server/cpu0/runtime`).
    pub fn setting(&self, name: &str) -> Option<(&str, &str)> {
        self.settings
            .iter()
            .find(|(path, _)| path.strip_suffix(name).is_some_and(|head| head.ends_with('/')))
            .map(|(path, value)| (path.as_str(), value.as_str()))
    }

    /// Whether a scheduler feature bit is on; `None` if the kernel does not have it or it could not be read.
    pub fn feature(&self, name: &str) -> Option<bool> {
        self.features.as_ref()?.get(name).copied()
    }

    /// The value of a build option (`HZ`), `Some("n")` if it is off. `None` if the configuration could not be read, and
    /// for options that do not affect scheduling, which a snapshot does not store.
    pub fn config(&self, name: &str) -> Option<&str> {
        let config = self.config.as_ref().filter(|_| is_scheduling_option(name))?;
        Some(config.get(name).map_or("n", String::as_str))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// The snapshot of a recording with this task of nice 0, read at these moments.
    fn read(moments: &[u64], more: Value) -> Option<(u64, i32)> {
        let mut task = json!({ "tid": 7, "comm": "x", "policy": "other", "start_ticks": 9 });
        more.as_object().expect("fields").iter().for_each(|(key, value)| task[key] = value.clone());
        let pairs: Vec<Value> = moments.iter().map(|ns| json!({ "trace_ns": ns, "realtime_ns": ns })).collect();
        let snapshot = json!({
            "schema": Snapshot::SCHEMA, "kernel": {}, "tasks": [task], "clock_pairs": pairs, "recorder": 70,
        });
        let snapshot = Snapshot::from_json(&snapshot.to_string()).expect("a snapshot");
        snapshot.read_prio(Tid(7)).map(|(time, prio)| (time.0, prio.0))
    }

    #[test]
    fn a_priority_was_read_when_the_task_was() {
        let seen = json!({ "state": "R" });
        let fifo = json!({ "policy": "fifo", "rt_priority": 20 });
        // The flight recorder reads the host once, at the end; a recorder that was killed has read the beginning.
        assert_eq!(read(&[900], json!({ "seen": seen })), Some((900, 120)));
        // At both ends, at the beginning alone, at the end alone.
        assert_eq!(read(&[10, 900], json!({ "seen": seen, "seen_last": seen, "policy_last": fifo })), Some((900, 79)));
        assert_eq!(read(&[10, 900], json!({ "seen": seen })), Some((10, 120)));
        assert_eq!(read(&[10, 900], json!({ "seen_last": seen, "policy_last": fifo })), Some((900, 79)));
        // In between, or by a version that did not write when.
        assert_eq!(read(&[10, 900], json!({})), None);
        assert_eq!(read(&[], json!({ "seen": seen, "policy_last": fifo })), None);
        // A thread of the recorder.
        assert_eq!(read(&[900], json!({ "seen": seen, "tgid": 70 })), None);
    }
}
