//! Finds the cgroup and process of tasks, on the host or in a recording.

use std::sync::Arc;

use unstarve_diagnose::only_watches;
use unstarve_facts::Snapshot;
use unstarve_model::{Comm, Tid};

use crate::engine::groups::{TopGroup, TopGroups};
use crate::engine::proc;

/// Looks up properties of tasks.
pub(crate) trait TaskLookup: Send {
    /// The path of the task's cgroup; `None` if it is unknown.
    fn group(&self, tid: Tid) -> Option<String>;

    /// The process of a thread; `None` if the thread has ended.
    fn process_of(&self, tid: Tid) -> Option<Tid>;

    /// Whether a task with the name of a kernel thread is one.
    fn is_kernel_thread(&self, tid: Tid) -> bool;

    /// Whether the task belongs to an observer such as this program, so that its waits do not matter.
    fn only_watches(&self, tid: Tid, comm: Comm) -> bool;
}

/// Looks up tasks on this host, in their present state.
#[derive(Clone, Copy)]
pub(crate) struct HostTasks {
    /// Whether the hierarchy is cgroup v2.
    pub unified: bool,
}

impl TaskLookup for HostTasks {
    fn group(&self, tid: Tid) -> Option<String> {
        proc::group(tid, self.unified)
    }

    fn process_of(&self, tid: Tid) -> Option<Tid> {
        proc::process_of(tid)
    }

    fn is_kernel_thread(&self, tid: Tid) -> bool {
        // Kernel threads rarely end: a task that has ended was more likely a program.
        proc::is_kernel_thread(tid) == Some(true)
    }

    fn only_watches(&self, _: Tid, _: Comm) -> bool {
        false
    }
}

/// Looks up tasks in a recording's snapshot, if it has one.
pub(crate) struct RecordedTasks(pub Option<Arc<Snapshot>>);

impl RecordedTasks {
    /// The top-level groups, heaviest first; groups of equal weight by name.
    pub fn top_groups(&self) -> TopGroups {
        let groups = self.0.iter().flat_map(|snapshot| &snapshot.cgroups).enumerate();
        let is_top = |path: &str| path.strip_prefix('/').is_some_and(|name| !name.is_empty() && !name.contains('/'));
        let mut top: Vec<TopGroup> = groups
            .filter(|(_, group)| is_top(&group.path))
            // The recording lacks the kernel's ids: any distinct numbers will do.
            .map(|(index, group)| TopGroup { id: index as u64, path: group.path.clone(), weight: group.load_weight() })
            .collect();
        top.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.path.cmp(&b.path)));
        TopGroups { groups: top, more: 0 }
    }
}

impl TaskLookup for RecordedTasks {
    fn group(&self, tid: Tid) -> Option<String> {
        self.0.as_ref()?.cgroup_of(tid).map(str::to_owned)
    }

    fn process_of(&self, tid: Tid) -> Option<Tid> {
        // A thread that started and ended between two looks is assumed to be a process of its own.
        Some(self.0.as_ref().and_then(|snapshot| snapshot.process_of(tid)).unwrap_or(tid))
    }

    fn is_kernel_thread(&self, tid: Tid) -> bool {
        // Without a snapshot, only the name is known.
        self.0.as_ref().is_none_or(|snapshot| snapshot.is_kernel_thread(tid) == Some(true))
    }

    fn only_watches(&self, tid: Tid, comm: Comm) -> bool {
        only_watches(self.0.as_deref(), tid, comm)
    }
}
