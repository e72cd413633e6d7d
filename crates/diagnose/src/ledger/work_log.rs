//! What a kernel worker executed: work items by function and workqueue.

use unstarve_model::{NameId, Nanos};
use unstarve_timeline::WorkItem;

/// What a kernel worker executed.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkLog {
    pub items: u64,
    /// Items during which the worker was preempted.
    pub preempted_items: u64,
    pub kinds: Vec<WorkKind>,
}

/// Work items of one function on one workqueue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WorkKind {
    pub function: Option<NameId>,
    pub workqueue: Option<NameId>,
    pub items: u64,
    /// Waits of the worker during such an item, where a stack or an event shows it.
    pub waits: u64,
    /// Items whose queueing was recorded, and the total time from queueing to their end.
    pub timed: u64,
    pub turnaround: Nanos,
}

impl WorkLog {
    /// Maximum kinds; a worker of a busy host executes some tens of kinds.
    const KINDS: usize = 64;

    pub fn add_item(&mut self, item: &WorkItem) {
        self.items += 1;
        self.preempted_items += u64::from(item.preemptions > 0);
        if let Some(kind) = self.kind(item.function, item.workqueue) {
            kind.items += 1;
            if let Some(queued) = item.queued {
                kind.timed += 1;
                kind.turnaround += item.end.since(queued);
            }
        }
    }

    pub fn add_wait(&mut self, function: Option<NameId>, workqueue: Option<NameId>) {
        if let Some(kind) = self.kind(function, workqueue) {
            kind.waits += 1;
        }
    }

    fn kind(&mut self, function: Option<NameId>, workqueue: Option<NameId>) -> Option<&mut WorkKind> {
        let found = self.kinds.iter().position(|kind| kind.function == function && kind.workqueue == workqueue);
        let index = match found {
            Some(index) => index,
            None if self.kinds.len() < WorkLog::KINDS => {
                self.kinds.push(WorkKind {
                    function,
                    workqueue,
                    items: 0,
                    waits: 0,
                    timed: 0,
                    turnaround: Nanos::ZERO,
                });
                self.kinds.len() - 1
            }
            None => return None,
        };
        // Move common kinds to the front, where the search finds them first.
        if index > 0 && self.kinds[index].items > self.kinds[index - 1].items {
            self.kinds.swap(index, index - 1);
            return self.kinds.get_mut(index - 1);
        }
        self.kinds.get_mut(index)
    }

    /// The kind that it executed most.
    pub fn main(&self) -> Option<&WorkKind> {
        self.kinds.iter().filter(|kind| kind.function.is_some()).max_by_key(|kind| (kind.items, kind.waits))
    }
}
