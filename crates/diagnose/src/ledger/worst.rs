//! Bounded lists of the longest waits, per actor and for the whole trace.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use unstarve_model::{Comm, CpuId, Nanos, Tid, Time};
use unstarve_sched::Rule;
use unstarve_timeline::{ActorId, OpenWait, Piece, Wait, World};

/// Keeps a fixed number of the longest items.
#[derive(Clone, Debug)]
pub(crate) struct Longest<T> {
    heap: BinaryHeap<Reverse<(Nanos, Ranked<T>)>>,
    keep: usize,
    /// Items shorter than this are not kept.
    least: Nanos,
}

/// Wrapper that compares equal to everything, so that only the length orders the heap.
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
        Longest { heap: BinaryHeap::new(), keep, least: Nanos::ZERO }
    }

    /// Offers an item; `make` is called only if it is among the longest so far.
    #[inline]
    pub fn offer(&mut self, length: Nanos, make: impl FnOnce() -> T) {
        if length >= self.least {
            self.take(length, make());
        }
    }

    #[cold]
    fn take(&mut self, length: Nanos, item: T) {
        if self.heap.len() < self.keep {
            self.heap.push(Reverse((length, Ranked(item))));
        } else if let Some(mut least) = self.heap.peek_mut() {
            *least = Reverse((length, Ranked(item)));
        }
        if self.heap.len() == self.keep {
            self.least = self.heap.peek().map_or(Nanos::ZERO, |least| least.0.0 + Nanos(1));
        }
    }

    /// Longest first.
    pub fn sorted(&self) -> Vec<(Nanos, &T)> {
        let mut list: Vec<(Nanos, &T)> = self.heap.iter().map(|Reverse((length, item))| (*length, &item.0)).collect();
        list.sort_by_key(|(length, _)| Reverse(*length));
        list
    }
}

/// Where and when a task waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spot {
    /// The waiting task.
    pub tid: Tid,
    pub cpu: CpuId,
    pub start: Time,
    pub end: Time,
    /// Whether the task was migrated to that CPU while it waited.
    pub moved: bool,
    /// The occupants that had most of it, longest first.
    parts: [Option<Part>; Spot::PARTS],
}

/// A wait that was not over at the end of the recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenSpot {
    /// The waiting task.
    pub tid: Tid,
    pub cpu: CpuId,
    /// How much of it is proved, and how long it may be: from its beginning to the end of the recording.
    pub open: OpenWait,
}

/// The share of one occupant and rule in a wait.
#[derive(Clone, Copy, Debug)]
struct Part {
    occupant: ActorId,
    rule: Rule,
    /// 0 to 1.
    share: f32,
}

impl Spot {
    /// Maximum parts kept per wait.
    const PARTS: usize = 4;
    /// From this share up, a part is most of the wait.
    const MAIN_PART: f32 = 0.5;

    /// The place and time of a wait, with its longest parts.
    pub fn of(world: &World, wait: &Wait<'_>) -> Spot {
        let share = |piece: &Piece| piece.length.share_of(wait.length()) as f32;
        let mut parts = [None; Spot::PARTS];
        for (part, piece) in parts.iter_mut().zip(wait.pieces) {
            *part = Some(Part { occupant: piece.occupant, rule: piece.rule, share: share(piece) });
        }
        let (tid, moved) = (world.tasks.get(wait.task).tid, wait.migrations > 0);
        Spot { tid, cpu: wait.cpu, start: wait.start, end: wait.end, moved, parts }
    }

    /// The longest part that matches `fits`, if it was most of the wait.
    pub fn main(&self, fits: impl Fn(ActorId, Rule) -> bool) -> Option<(ActorId, Rule)> {
        let part = self.parts.iter().flatten().find(|part| fits(part.occupant, part.rule))?;
        Some((part.occupant, part.rule))
    }

    /// Whether the parts that match `fits` are half of the wait or more. Not all parts of a crowd are kept: if all kept parts
    /// match, the wait counts as the crowd's.
    pub fn is_mostly(&self, fits: impl Fn(ActorId, Rule) -> bool) -> bool {
        let parts = || self.parts.iter().flatten();
        let fitting = || parts().filter(|part| fits(part.occupant, part.rule));
        let is_crowd = || parts().count() == Spot::PARTS && fitting().count() == Spot::PARTS;
        fitting().map(|part| part.share).sum::<f32>() >= Spot::MAIN_PART || is_crowd()
    }
}

/// The longest waits of one actor, some for each rule, because the longest of all may have another reason than the one that a
/// finding asks about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Worst {
    by_rule: Vec<(Rule, Longest<Spot>)>,
    /// Waits shorter than this are not kept, per rule.
    least: [Nanos; Rule::ALL.len()],
}

impl Worst {
    const KEPT: usize = 16;

    /// Offers a wait whose main reason is `rule`.
    #[inline(always)]
    pub fn offer(&mut self, rule: Rule, length: Nanos, make: impl FnOnce() -> Spot) {
        if length >= self.least[rule as usize] {
            self.take(rule, length, make());
        }
    }

    #[cold]
    fn take(&mut self, rule: Rule, length: Nanos, spot: Spot) {
        let index = match self.by_rule.iter().position(|(known, _)| *known == rule) {
            Some(index) => index,
            None => {
                self.by_rule.push((rule, Longest::new(Worst::KEPT)));
                self.by_rule.len() - 1
            }
        };
        let longest = &mut self.by_rule[index].1;
        longest.offer(length, || spot);
        self.least[rule as usize] = longest.least;
    }

    /// Whether all waits with this main reason were kept.
    pub fn has_all(&self, rule: Rule) -> bool {
        self.by_rule.iter().all(|(known, longest)| *known != rule || longest.heap.len() < longest.keep)
    }

    /// All kept waits, longest first.
    pub fn sorted(&self) -> Vec<(Nanos, &Spot)> {
        let mut list: Vec<(Nanos, &Spot)> = self.by_rule.iter().flat_map(|(_, longest)| longest.sorted()).collect();
        list.sort_by_key(|(length, spot)| (Reverse(*length), spot.start));
        list
    }
}

/// One of the longest waits of the trace, with everything that a report shows of it.
#[derive(Clone, Debug)]
pub(crate) struct LongWait {
    pub comm: Comm,
    pub tid: Tid,
    pub spot: Spot,
    pub pieces: Vec<Piece>,
    /// Whether it is a kernel thread, if more than its name shows it.
    pub is_kernel: Option<bool>,
    /// Set if it was not over at the end of the recording.
    pub open: Option<OpenWait>,
}

impl LongWait {
    pub fn of(world: &World, wait: &Wait<'_>) -> LongWait {
        let task = world.tasks.get(wait.task);
        let is_kernel = world.actors.get(wait.actor).is_kernel();
        LongWait {
            comm: task.comm,
            tid: task.tid,
            spot: Spot::of(world, wait),
            pieces: wait.pieces.to_vec(),
            is_kernel,
            open: wait.open,
        }
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
