use rustc_hash::FxHashMap;
use unstarve_model::{NameId, Time};

use crate::cpu::Current;
use crate::task::WorkStart;
use crate::timeline::Timeline;
use crate::{Sink, TaskKey, WorkItem};

/// What is known of work items by their address.
#[derive(Debug, Default)]
pub(crate) struct WorkTable {
    items: FxHashMap<u64, Item>,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    function: Option<NameId>,
    workqueue: Option<NameId>,
    queued: Option<Time>,
}

impl WorkTable {
    /// Work items whose queue is remembered. Items of freed memory never come back, so a long trace would collect them.
    const LIMIT: usize = 1 << 15;
}

impl Timeline {
    pub(crate) fn work_queued(&mut self, work: u64, function: Option<NameId>, workqueue: Option<NameId>) {
        let items = &mut self.work.items;
        if items.len() >= WorkTable::LIMIT {
            items.clear();
        }
        items.insert(work, Item { function, workqueue, queued: Some(self.world.now) });
    }

    pub(crate) fn work_start(&mut self, index: usize, work: u64, function: Option<NameId>) {
        let Current::Task(worker) = self.cpus[index].current else { return };
        let now = self.world.now;
        let item = self.work.items.get_mut(&work);
        let (known_function, workqueue, queued) = match item {
            Some(item) => (item.function, item.workqueue, item.queued.take()),
            None => (None, None, None),
        };
        let task = self.world.tasks.get_mut(worker);
        task.work = Some((function.or(known_function), workqueue));
        task.work_start = Some(WorkStart { work, start: now, queued, preemptions: 0 });
    }

    pub(crate) fn work_end(&mut self, index: usize, work: u64, function: Option<NameId>, sink: &mut impl Sink) {
        let Current::Task(worker) = self.cpus[index].current else { return };
        let now = self.world.now;
        let task = self.world.tasks.get_mut(worker);
        let Some(begun) = task.work_start.take_if(|begun| begun.work == work) else { return };
        let (known_function, workqueue) = task.work.take().unwrap_or_default();
        let item = WorkItem {
            worker,
            function: known_function.or(function),
            workqueue,
            queued: begun.queued,
            start: begun.start,
            end: now,
            preemptions: begun.preemptions,
        };
        sink.work_item(&self.world, &item);
    }

    /// A stack shows what the worker does.
    pub(crate) fn work_on_stack(&mut self, worker: TaskKey, function: NameId) {
        self.world.tasks.get_mut(worker).work = Some((Some(function), None));
    }
}
