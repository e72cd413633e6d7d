//! Work items: when they are queued, which worker executes them, and what a worker's sleep cost others.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;
use unstarve_model::{NameId, Time};
use unstarve_sched::KernelThread;

use crate::tasks::WorkStart;
use crate::{Sink, Task, TaskKey, WorkItem, World};

/// Whether a delay of a sleeping task's wakeup costs that task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SleepLoss {
    Nothing,
    /// Yes, from then on: it needed what it was woken for.
    Since(Time),
    /// Not the task, but tasks that wait for it: it passes on the debts that led to its wakeup.
    OfOthers(Time),
}

/// What is known of work items, by address.
#[derive(Debug, Default)]
pub(super) struct WorkTable {
    items: FxHashMap<u64, Item>,
    /// Items by queueing time, the oldest first. Items that have been started since may still be included.
    by_age: BinaryHeap<Reverse<(Time, u64)>>,
    /// Whether queueing of items is recorded.
    queueing_recorded: bool,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    function: Option<NameId>,
    workqueue: Option<NameId>,
    queued: Option<Time>,
    /// When it was first queued since its last start: `mod_delayed_work()` delays it, and queues it again.
    wanted: Option<Time>,
}

impl WorkTable {
    /// Maximum number of items whose queue is kept. Items in freed memory never come back, so a long trace would accumulate
    /// them.
    const LIMIT: usize = 1 << 15;

    /// An item is queued.
    pub fn queue(&mut self, work: u64, function: Option<NameId>, workqueue: Option<NameId>, now: Time) {
        self.queueing_recorded = true;
        if self.items.len() >= WorkTable::LIMIT {
            self.items.clear();
        }
        // A cancelled item has no event, and stays.
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

    /// Since when the oldest item has been waiting for a worker; `None` if there is none.
    fn oldest(&mut self) -> Option<Time> {
        while let Some(Reverse((time, work))) = self.by_age.peek() {
            if is_wanted(&self.items, *work, *time) {
                return Some(*time);
            }
            self.by_age.pop();
        }
        None
    }

    /// What a task's sleep may have cost it. A worker sleeps in its pool until there is work. From then on it is delayed if the
    /// worker that is to wake it has no CPU. No event shows the pool of an item, so the oldest item of all counts. Other kernel
    /// threads without work are woken as soon as they have some.
    #[inline]
    pub fn loss_of_sleeper(&mut self, wakee: &Task) -> SleepLoss {
        let Some(start) = wakee.sleep_start.get() else { return SleepLoss::Nothing };
        // Mostly a program's thread that waits for another one.
        if wakee.kernel_thread.is_none() && !wakee.slept_without_work {
            return SleepLoss::Since(start);
        }
        self.loss_of_idler(wakee, start)
    }

    #[inline(never)]
    fn loss_of_idler(&mut self, wakee: &Task, start: Time) -> SleepLoss {
        let worker = wakee.kernel_thread.is_some_and(KernelThread::is_worker);
        let of_kernel = || wakee.kernel_thread.is_some() || KernelThread::is_name_of_one(&wakee.comm);
        let idle = wakee.slept_without_work && of_kernel()
            || matches!(wakee.kernel_thread, Some(KernelThread::Ksoftirqd { .. }));
        match (idle, worker && self.queueing_recorded) {
            (false, _) => SleepLoss::Since(start),
            (true, true) => self.oldest().map_or(SleepLoss::Nothing, |oldest| SleepLoss::Since(oldest.max(start))),
            (true, false) if worker => SleepLoss::Since(start),
            (true, false) => SleepLoss::OfOthers(start),
        }
    }

    /// The worker starts the item.
    pub fn start(&mut self, worker: &mut Task, work: u64, function: Option<NameId>, now: Time) {
        let (known_function, workqueue, queued) = match self.items.get_mut(&work) {
            Some(item) => {
                item.wanted = None;
                (item.function, item.workqueue, item.queued.take())
            }
            None => (None, None, None),
        };
        worker.work = Some((function.or(known_function), workqueue));
        worker.work_start = Some(WorkStart { work, start: now, queued, preemptions: 0 });
    }
}

fn is_wanted(items: &FxHashMap<u64, Item>, work: u64, time: Time) -> bool {
    items.get(&work).is_some_and(|item| item.wanted == Some(time))
}

/// The worker finished the item: reports it.
pub(super) fn end(worker: TaskKey, world: &mut World, work: u64, function: Option<NameId>, sink: &mut impl Sink) {
    let task = world.tasks.get_mut(worker);
    let Some(begun) = task.work_start.take_if(|begun| begun.work == work) else { return };
    let (known_function, workqueue) = task.work.take().unwrap_or_default();
    let item = WorkItem {
        worker,
        function: known_function.or(function),
        workqueue,
        queued: begun.queued,
        start: begun.start,
        end: world.now,
        preemptions: begun.preemptions,
    };
    sink.work_item(world, &item);
}
