//! Children of managed tasks inherit what was set, so the guard manages them, too.

use rustc_hash::{FxHashMap, FxHashSet};
use unstarve_model::Tid;

use super::{BIRTHS_UNDER_WAY, Reconciler, ReconcilerError};
use crate::task::{Kind, Task};
use crate::task_events::Born;
use crate::task_view::TaskView;
use unstarve_change::{Place, TaskKey};
use unstarve_executor::act;
use unstarve_executor::host::Host;
use unstarve_executor::journal::Step;
use unstarve_executor::sched::{self, TICK_NS};

impl<H: Host, S: TaskView> Reconciler<H, S> {
    /// Manages a new task that inherited values from its creator.
    pub(super) fn inherit(&mut self, born: &Born, task: &Task) -> Result<(), ReconcilerError> {
        let creator = match born.creator {
            Some(creator) => self.by_tid.get(&creator),
            None => self.by_process.get(&born.tgid),
        };
        let ended = || self.ended.get(&born.creator?);
        // The creator may have started and exited before it was read.
        let origin = || {
            let origin = self.host.origin(task.key.tid)?;
            self.by_tid.get(&origin).and_then(|key| self.managed.get(key)).or_else(|| self.ended.get(&origin))
        };
        let creator = creator.filter(|key| **key != task.key).and_then(|key| self.managed.get(key));
        let Some(from) = creator.or_else(ended).or_else(origin) else { return Ok(()) };
        // A value that differs from what was set is the task's own.
        let inherited = from.passed_on(task);
        self.adopt(task, inherited)
    }

    /// Finds children whose forks were not reported, because events were lost or there is no event source.
    pub(super) fn find_heirs(&mut self, tasks: &[Task]) -> Result<(), ReconcilerError> {
        if !tasks.iter().any(|task| task.kind == Kind::User && self.managed.contains_key(&task.key)) {
            return Ok(());
        }
        let mut by_task: FxHashMap<TaskKey, Vec<Step>> = FxHashMap::default();
        for heir in self.host.heirs(&self.journal.open_changes()) {
            if let Place::Task(key) = heir.target {
                by_task.entry(key).or_default().push(heir);
            }
        }
        for task in tasks {
            let Some(heirs) = by_task.remove(&task.key) else { continue };
            let inherited = heirs.into_iter().map(|heir| (self.rule_of(&heir), heir)).collect();
            self.adopt(task, inherited)?;
        }
        Ok(())
    }

    fn rule_of(&self, change: &Step) -> usize {
        // A journal names rules by name; this policy may lack one of them.
        self.policy.rules.iter().position(|rule| rule.name == change.rule).unwrap_or(usize::MAX)
    }

    fn adopt(&mut self, task: &Task, inherited: Vec<(usize, Step)>) -> Result<(), ReconcilerError> {
        let known = self.managed.get(&task.key);
        let is_new = |change: &Step| {
            known.is_none_or(|known| known.set.iter().all(|(_, set)| set.new.aspect() != change.new.aspect()))
        };
        let (rules, mut changes): (Vec<usize>, Vec<Step>) =
            inherited.into_iter().filter(|(_, change)| is_new(change)).unzip();
        if changes.is_empty() {
            return Ok(());
        }
        act::adopt(&mut self.journal, &mut self.audit, &mut changes)?;
        self.metrics.counts.inherited += changes.len() as u64;
        for (rule, change) in rules.into_iter().zip(changes) {
            self.remember(task, rule, change);
        }
        if let Some(follow) = &self.follow {
            follow(task.key.tid);
        }
        self.metrics.counts.managed = self.managed.len() as u64;
        Ok(())
    }

    /// A thread that is not the leader executed another program: it becomes the leader, with the leader's tid and start time,
    /// and all other threads exit. Its changes move to the new key.
    pub(super) fn take_over(&mut self, task: &Task) -> Result<(), ReconcilerError> {
        if !self.by_process.contains_key(&task.tgid) {
            return Ok(());
        }
        let of_process = |(key, managed): &(&TaskKey, &super::Managed)| managed.tgid == task.tgid && **key != task.key;
        let others: Vec<TaskKey> = self.managed.iter().filter(of_process).map(|(key, _)| *key).collect();
        for key in others {
            if self.host.is_there(&Place::Task(key)) {
                continue;
            }
            let Some(gone) = self.managed.remove(&key) else { continue };
            self.by_tid.remove(&key.tid);
            let taken = gone.passed_on(task);
            self.adopt(task, taken)?;
        }
        Ok(())
    }

    /// A managed task exited: counts what it ran as a real-time task since the last budget check.
    pub(super) fn ended(&mut self, tid: Tid, ran: u64, cpu: u32, realtime: bool) {
        let managed = self.by_tid.remove(&tid).and_then(|key| Some((key, self.managed.remove(&key)?)));
        let Some((key, managed)) = managed else {
            // It exited before it was ever read; its class came from its parent.
            if realtime {
                *self.burned.entry(cpu).or_default() += ran;
            }
            return;
        };
        if realtime && managed.set.iter().any(|(_, change)| change.new.is_realtime()) {
            // Before it was managed it may have run for long.
            let in_our_care = managed.since.elapsed().as_nanos().try_into().unwrap_or(u64::MAX);
            let ran = managed.ran.map_or(ran.min(in_our_care), |before| ran.saturating_sub(before));
            *self.burned.entry(cpu).or_default() += ran;
        }
        if self.by_process.get(&managed.tgid) == Some(&key) {
            self.by_process.remove(&managed.tgid);
        }
        // Events of its children, and of grandchildren whose parent was never read, may still come.
        self.ended.insert(tid, managed);
        self.metrics.counts.managed = self.managed.len() as u64;
    }

    /// Drops tasks with all values reverted, once no child can inherit them any more.
    pub(super) fn forget_released(&mut self) {
        let now = sched::boot_ns() / TICK_NS;
        let is_over = |managed: &super::Managed| {
            let is_plain = managed.set.is_empty() && managed.yielded.is_empty() && managed.reported.is_empty();
            is_plain && managed.released.iter().all(|released| released.at + BIRTHS_UNDER_WAY < now)
        };
        let over: Vec<TaskKey> = self.managed.iter().filter(|(_, m)| is_over(m)).map(|(key, _)| *key).collect();
        for key in over {
            self.host.forget(key.tid);
            let Some(managed) = self.managed.remove(&key) else { continue };
            self.by_tid.remove(&key.tid);
            if self.by_process.get(&managed.tgid) == Some(&key) {
                let other = self.managed.iter().find(|(_, other)| other.tgid == managed.tgid).map(|(key, _)| *key);
                match other {
                    Some(other) => self.by_process.insert(managed.tgid, other),
                    None => self.by_process.remove(&managed.tgid),
                };
            }
        }
        for managed in self.managed.values_mut() {
            managed.released.retain(|released| released.at + BIRTHS_UNDER_WAY >= now);
        }
        self.metrics.counts.managed = self.managed.len() as u64;
    }

    /// Drops tasks that no longer exist.
    pub(super) fn forget_all_but(&mut self, living: &FxHashSet<TaskKey>) {
        self.ended.clear();
        self.host.forget_ended();
        self.managed.retain(|key, _| living.contains(key));
        self.by_tid.retain(|_, key| living.contains(key));
        self.by_process.retain(|_, key| living.contains(key));
    }
}
