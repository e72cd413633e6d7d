//! Where tasks belong: asked of the host, or of a recording.

use std::sync::Arc;

use unstarve_diagnose::only_watches;
use unstarve_facts::Snapshot;
use unstarve_model::{Comm, Tid};

use crate::engine::groups::{TopGroup, TopGroups};
use crate::engine::proc;

/// Knows the groups and processes of tasks.
pub(crate) trait Places: Send {
    /// The path of the task's top-level cgroup; `None` in the root, or if it is not known.
    fn top_group(&self, tid: Tid) -> Option<String>;

    /// The process of a thread; `None` if the thread has gone.
    fn process_of(&self, tid: Tid) -> Option<Tid>;

    /// Whether a task that is called like a kernel thread is one.
    fn is_kernel_thread(&self, tid: Tid) -> bool;

    /// Whether the task only watches, so that its waits are nobody's trouble.
    fn only_watches(&self, tid: Tid, comm: Comm) -> bool;
}

/// This host, as it is now.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    /// Whether the hierarchy is v2.
    pub unified: bool,
}

impl Places for Host {
    fn top_group(&self, tid: Tid) -> Option<String> {
        proc::top_group(tid, self.unified)
    }

    fn process_of(&self, tid: Tid) -> Option<Tid> {
        proc::process_of(tid)
    }

    fn is_kernel_thread(&self, tid: Tid) -> bool {
        // Kernel threads seldom end. Of one that has gone it is more likely that it was a program.
        proc::is_kernel_thread(tid) == Some(true)
    }

    fn only_watches(&self, _: Tid, _: Comm) -> bool {
        false
    }
}

/// A host as a recording's snapshot has it, if it has one.
pub(crate) struct Recorded(pub Option<Arc<Snapshot>>);

impl Recorded {
    /// The groups at the top, heaviest first; those of one weight by name.
    pub fn top_groups(&self) -> TopGroups {
        let groups = self.0.iter().flat_map(|snapshot| &snapshot.cgroups).enumerate();
        let is_top = |path: &str| path.strip_prefix('/').is_some_and(|name| !name.is_empty() && !name.contains('/'));
        let mut top: Vec<TopGroup> = groups
            .filter(|(_, group)| is_top(&group.path))
            // The recording does not keep the kernel's numbers: any will do that differ.
            .map(|(index, group)| TopGroup { id: index as u64, path: group.path.clone(), weight: group.load_weight() })
            .collect();
        top.sort_by(|a, b| b.weight.cmp(&a.weight).then_with(|| a.path.cmp(&b.path)));
        TopGroups { groups: top, more: 0 }
    }
}

impl Places for Recorded {
    fn top_group(&self, tid: Tid) -> Option<String> {
        let name = self.0.as_ref()?.cgroup_of(tid)?.strip_prefix('/')?.split('/').next()?;
        (!name.is_empty()).then(|| format!("/{name}"))
    }

    fn process_of(&self, tid: Tid) -> Option<Tid> {
        // A thread that came and went between two looks is taken for a process of its own.
        Some(self.0.as_ref().and_then(|snapshot| snapshot.process_of(tid)).unwrap_or(tid))
    }

    fn is_kernel_thread(&self, tid: Tid) -> bool {
        // Where nobody asked, there is the name alone.
        self.0.as_ref().is_none_or(|snapshot| snapshot.is_kernel_thread(tid) == Some(true))
    }

    fn only_watches(&self, tid: Tid, comm: Comm) -> bool {
        only_watches(self.0.as_deref(), tid, comm)
    }
}
