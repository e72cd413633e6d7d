use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use unstarve_model::{NameId, Time};
use unstarve_sched::KernelThread;

use crate::cpus::Current;
use crate::tasks::WorkStart;
use crate::timeline::Timeline;
use crate::{Sink, TaskKey, WorkItem};

/// What it costs somebody that a task slept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SleepLoss {
    Nothing,
    /// It needed from then on what it was woken for.
    Since(Time),
    /// It did not need it, but the one that waits for it did: it hands on what led to its wakeup.
    OfOthers(Time),
}

/// What is known of work items by their address.
#[derive(Debug, Default)]
pub(crate) struct WorkTable {
    items: FxHashMap<u64, Item>,
    /// Items by the time when they were queued, the oldest first. Those that have been started since are still among them.
    by_age: BinaryHeap<Reverse<(Time, u64)>>,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    function: Option<NameId>,
    workqueue: Option<NameId>,
    queued: Option<Time>,
    /// When it was first queued of the times since it was last started: `mod_delayed_work()` puts it off, and queues it anew.
    wanted: Option<Time>,
}

impl WorkTable {
    /// Work items whose queue is remembered. Items of freed memory never come back, so a long trace would collect them.
    const LIMIT: usize = 1 << 15;

    fn queue(&mut self, work: u64, function: Option<NameId>, workqueue: Option<NameId>, now: Time) {
        if self.items.len() >= WorkTable::LIMIT {
            self.items.clear();
        }
        // An item that is cancelled has no event, and stays.
        if self.by_age.len() >= 2 * WorkTable::LIMIT {
            let items = &self.items;
            self.by_age.retain(|Reverse((time, work))| is_wanted(items, *work, *time));
        }
        let before = self.items.get(&work).and_then(|item| item.wanted);
        if before.is_none() {
            self.by_age.push(Reverse((now, work)));
        }
        self.items.insert(work, Item { function, workqueue, queued: Some(now), wanted: before.or(Some(now)) });
    }

    /// Since when the oldest item has been waiting for a worker; `None` if none is.
    fn oldest(&mut self) -> Option<Time> {
        while let Some(Reverse((time, work))) = self.by_age.peek() {
            if is_wanted(&self.items, *work, *time) {
                return Some(*time);
            }
            self.by_age.pop();
        }
        None
    }
}

fn is_wanted(items: &FxHashMap<u64, Item>, work: u64, time: Time) -> bool {
    items.get(&work).is_some_and(|item| item.wanted == Some(time))
}

impl Timeline {
    pub(crate) fn work_queued(&mut self, work: u64, function: Option<NameId>, workqueue: Option<NameId>) {
        let now = self.world.now;
        self.queues_recorded = true;
        self.work.queue(work, function, workqueue, now);
    }

    /// What a task's sleep may have cost it.
    ///
    /// A worker sleeps in its pool until there is work. From then on it is kept waiting, if the worker that is to wake it has no
    /// CPU. Which pool an item is in shows in no event, so the oldest of all counts. Other threads of the kernel that have
    /// nothing to do are woken as soon as they have.
    #[inline]
    pub(crate) fn loss_of_sleeper(&mut self, wakee: TaskKey) -> SleepLoss {
        let task = self.world.tasks.get(wakee);
        let Some(start) = task.sleep_start.get() else { return SleepLoss::Nothing };
        // Mostly a program's thread that waits for another.
        if task.kernel_thread.is_none() && !task.slept_without_work {
            return SleepLoss::Since(start);
        }
        self.loss_of_idler(wakee, start)
    }

    #[inline(never)]
    fn loss_of_idler(&mut self, wakee: TaskKey, start: Time) -> SleepLoss {
        let task = self.world.tasks.get(wakee);
        let worker = task.kernel_thread.is_some_and(KernelThread::is_worker);
        let of_kernel = || task.kernel_thread.is_some() || KernelThread::is_name_of_one(&task.comm);
        let idle = task.slept_without_work && of_kernel()
            || matches!(task.kernel_thread, Some(KernelThread::Ksoftirqd { .. }));
        match (idle, worker && self.queues_recorded) {
            (false, _) => SleepLoss::Since(start),
            (true, true) => self.work.oldest().map_or(SleepLoss::Nothing, |oldest| SleepLoss::Since(oldest.max(start))),
            (true, false) if worker => SleepLoss::Since(start),
            (true, false) => SleepLoss::OfOthers(start),
        }
    }

    pub(crate) fn work_start(&mut self, index: usize, work: u64, function: Option<NameId>) {
        let Current::Task(worker) = self.cpus[index].current else { return };
        let now = self.world.now;
        let item = self.work.items.get_mut(&work);
        let (known_function, workqueue, queued) = match item {
            Some(item) => {
                item.wanted = None;
                (item.function, item.workqueue, item.queued.take())
            }
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
