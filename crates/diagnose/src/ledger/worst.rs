use std::cmp::Reverse;
use std::collections::BinaryHeap;

use unstarve_model::{Comm, CpuId, Nanos, Tid, Time};
use unstarve_timeline::{Piece, Wait, World};

/// The longest of many, a fixed number of them.
#[derive(Clone, Debug)]
pub(crate) struct Longest<T> {
    heap: BinaryHeap<Reverse<(Nanos, Ranked<T>)>>,
    keep: usize,
}

/// Takes no part in the order.
#[derive(Clone, Debug)]
struct Ranked<T>(T);

impl<T> PartialEq for Ranked<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl<T> Eq for Ranked<T> {}
impl<T> PartialOrd for Ranked<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Ranked<T> {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl<T> Longest<T> {
    pub fn new(keep: usize) -> Longest<T> {
        Longest { heap: BinaryHeap::new(), keep }
    }

    /// Offers one; `make` is called only if it is among the longest so far.
    pub fn offer(&mut self, length: Nanos, make: impl FnOnce() -> T) {
        if self.heap.len() < self.keep {
            self.heap.push(Reverse((length, Ranked(make()))));
        } else if let Some(mut least) = self.heap.peek_mut()
            && least.0.0 < length
        {
            *least = Reverse((length, Ranked(make())));
        }
    }

    /// Longest first.
    pub fn sorted(&self) -> Vec<(Nanos, &T)> {
        let mut list: Vec<(Nanos, &T)> = self.heap.iter().map(|Reverse((length, item))| (*length, &item.0)).collect();
        list.sort_by_key(|(length, _)| Reverse(*length));
        list
    }
}

/// Where and when a wait was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    pub cpu: CpuId,
    pub start: Time,
    pub end: Time,
    /// Whether it came to that CPU only while it waited.
    pub moved: bool,
}

impl Spot {
    pub fn of(wait: &Wait<'_>) -> Spot {
        Spot { cpu: wait.cpu, start: wait.start, end: wait.end, moved: wait.migrations > 0 }
    }
}

/// One of the longest waits of the trace, with all that a report says of it.
#[derive(Clone, Debug)]
pub(crate) struct LongWait {
    pub comm: Comm,
    pub tid: Tid,
    pub spot: Spot,
    pub pieces: Vec<Piece>,
}

impl LongWait {
    pub fn of(world: &World, wait: &Wait<'_>) -> LongWait {
        let task = world.tasks.get(wait.task);
        LongWait { comm: task.comm, tid: task.tid, spot: Spot::of(wait), pieces: wait.pieces.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_longest_stay() {
        let mut longest = Longest::new(3);
        for ns in [5, 9, 1, 7, 3, 9, 2] {
            longest.offer(Nanos(ns), || ns);
        }
        let kept: Vec<u64> = longest.sorted().into_iter().map(|(_, ns)| *ns).collect();
        assert_eq!(kept, [9, 9, 7]);
    }
}
