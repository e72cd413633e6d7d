//! Sums by task over the last seconds.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use unstarve_model::{Comm, CpuId, NameId, Nanos, Tid, Time};
use unstarve_sched::Rule;
use unstarve_timeline::{ActorId, Run, Selection, Sink, Timeline, Wait, Wake, Waker, WorkItem, World};

use crate::cpus::{CpuBusyTime, CpuView};
use crate::history::WaitHistory;

/// The number of steps in which the window moves.
pub(crate) const WINDOW_SLICES: u64 = 20;
/// Maximum tasks in one slice; only hostile traces have more.
pub(crate) const MAX_TASKS: usize = 1 << 14;
/// Maximum waits kept for the opened task.
const MAX_LAST_WAITS: usize = 32;
/// Maximum wakers and work functions kept for each task.
const MAX_KINDS: usize = 32;

/// A task by id and name: an id may be reused.
pub(crate) type TaskIdent = (Tid, Comm);

/// A task's sums in a slice or in the window.
#[derive(Clone, Default, Debug)]
pub(crate) struct Sums {
    pub waits: u64,
    pub waited: Nanos,
    pub longest: Nanos,
    pub ran: Nanos,
    /// The CPU where it last waited.
    pub cpu: Option<CpuId>,
    pub actor: Option<ActorId>,
    pub pieces: FxHashMap<(ActorId, Rule), Nanos>,
    /// Wakers with counts; `None` is an unknown interrupt or an unknown waker.
    pub wakers: FxHashMap<Option<ActorId>, u64>,
    /// Its work items: their number, and the number and total time from queueing to end of those whose queueing was
    /// seen.
    pub items: FxHashMap<Option<NameId>, (u64, u64, Nanos)>,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.waits += other.waits;
        self.waited += other.waited;
        self.longest = self.longest.max(other.longest);
        self.ran += other.ran;
        self.cpu = other.cpu.or(self.cpu);
        self.actor = other.actor.or(self.actor);
        for (key, length) in &other.pieces {
            *self.pieces.entry(*key).or_default() += *length;
        }
        for (key, count) in &other.wakers {
            *self.wakers.entry(*key).or_default() += count;
        }
        for (key, (items, timed, length)) in &other.items {
            let sum = self.items.entry(*key).or_default();
            *sum = (sum.0 + items, sum.1 + timed, sum.2 + *length);
        }
    }
}

/// One wait of the opened task.
#[derive(Clone, Debug)]
pub(crate) struct LastWait {
    pub start: Time,
    pub length: Nanos,
    pub cpu: CpuId,
    pub pieces: Vec<unstarve_timeline::Piece>,
}

#[derive(Default, Debug)]
struct Slice {
    index: u64,
    tasks: FxHashMap<TaskIdent, Sums>,
}

/// The events of the last seconds.
#[derive(Debug)]
pub struct Window {
    length: Nanos,
    /// The waits that count.
    selection: Selection,
    slices: VecDeque<Slice>,
    history: WaitHistory,
    busy: CpuBusyTime,
    watched: Option<TaskIdent>,
    last: VecDeque<LastWait>,
}

impl Window {
    /// An empty window of this length.
    pub fn new(length: Nanos) -> Window {
        Window {
            length: Nanos(length.0.max(WINDOW_SLICES)),
            selection: Selection::default(),
            slices: VecDeque::new(),
            history: WaitHistory::default(),
            busy: CpuBusyTime::default(),
            watched: None,
            last: VecDeque::new(),
        }
    }

    /// Only waits of these tasks, on these CPUs, in this time.
    pub fn selecting(self, selection: Selection) -> Window {
        Window { selection, ..self }
    }

    pub(crate) fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Its length.
    pub fn length(&self) -> Nanos {
        self.length
    }

    /// The part of it that has passed since the trace began.
    pub(crate) fn elapsed(&self, world: &World) -> Nanos {
        let start = self.selection.from.map_or(world.start, |from| from.on(world.start).max(world.start));
        self.length.min(world.now.since(start))
    }

    /// The activity of each CPU.
    pub(crate) fn cpus(&self, timeline: &Timeline) -> Vec<CpuView> {
        self.busy.view(timeline, self.slice(), self.elapsed(timeline.world()))
    }

    pub(crate) fn slice(&self) -> Nanos {
        Nanos(self.length.0 / WINDOW_SLICES)
    }

    /// Keeps single waits of this task from now on.
    pub(crate) fn watch(&mut self, who: Option<TaskIdent>) {
        if self.watched != who {
            self.watched = who;
            self.last.clear();
        }
    }

    pub(crate) fn last_waits(&self) -> impl Iterator<Item = &LastWait> {
        self.last.iter().rev()
    }

    /// Drops slices that have left the window. Called with each event, and between events as time passes.
    pub fn advance(&mut self, now: Time) {
        let index = self.index(now);
        self.history.advance(index);
        while self.slices.front().is_some_and(|slice| slice.index + WINDOW_SLICES <= index) {
            self.slices.pop_front();
        }
    }

    /// Sums by task over the window.
    pub(crate) fn sums(&self) -> FxHashMap<TaskIdent, Sums> {
        let mut all: FxHashMap<TaskIdent, Sums> = FxHashMap::default();
        for (who, sums) in self.slices.iter().flat_map(|slice| &slice.tasks) {
            all.entry(*who).or_default().add(sums);
        }
        all
    }

    /// For how long each task waited within the window.
    pub(crate) fn waited(&self, now: Time) -> FxHashMap<TaskIdent, u64> {
        self.history.in_window(self.index(now))
    }

    /// For how much of each slice of the last windows a task waited, oldest first.
    pub(crate) fn history(&self, who: TaskIdent) -> Vec<u64> {
        self.history.of(who)
    }

    fn index(&self, at: Time) -> u64 {
        at.0 / self.slice().0
    }

    fn of(&mut self, who: TaskIdent, at: Time) -> &mut Sums {
        let index = self.index(at);
        if self.slices.back().is_none_or(|slice| slice.index < index) {
            self.advance(at);
            self.slices.push_back(Slice { index, ..Slice::default() });
        }
        let newest = self.slices.len() - 1;
        let tasks = &mut self.slices[newest].tasks;
        let who =
            if tasks.len() < MAX_TASKS || tasks.contains_key(&who) { who } else { (Tid(0), Comm::from("others")) };
        tasks.entry(who).or_default()
    }
}

impl Sink for Window {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let task = world.tasks.get(wait.task);
        let who = (task.tid, task.comm);
        let is_selected = self.selection.has_task(&task.comm, task.tid)
            && self.selection.has_cpu(wait.cpu)
            && self.selection.has_span(wait.start, wait.end, world.start);
        if !is_selected {
            return;
        }
        let slice = self.slice();
        self.history.add(who, (wait.start, wait.end), slice);
        // The part of a long wait before the window counts too: it is known only now.
        let sums = self.of(who, wait.end);
        sums.waits += 1;
        sums.waited += wait.length();
        sums.longest = sums.longest.max(wait.length());
        sums.cpu = Some(wait.cpu);
        sums.actor = Some(wait.actor);
        for piece in wait.pieces {
            *sums.pieces.entry((piece.occupant, piece.rule)).or_default() += piece.length;
        }
        if self.watched == Some(who) {
            if self.last.len() >= MAX_LAST_WAITS {
                self.last.pop_front();
            }
            let pieces = wait.pieces.to_vec();
            self.last.push_back(LastWait { start: wait.start, length: wait.length(), cpu: wait.cpu, pieces });
        }
    }

    fn run(&mut self, world: &World, run: &Run) {
        let slice = self.slice();
        self.busy.add(run, slice);
        let task = world.tasks.get(run.task);
        self.of((task.tid, task.comm), run.end).ran += run.length();
    }

    fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        let task = world.tasks.get(wake.wakee);
        let waker = match wake.waker {
            Waker::Task(waker) => Some(world.tasks.get(waker).actor),
            Waker::Interrupt(actor) => actor,
            Waker::Unknown => None,
        };
        let wakers = &mut self.of((task.tid, task.comm), wake.time).wakers;
        if wakers.len() < MAX_KINDS || wakers.contains_key(&waker) {
            *wakers.entry(waker).or_default() += 1;
        }
    }

    fn work_item(&mut self, world: &World, item: &WorkItem) {
        let task = world.tasks.get(item.worker);
        let items = &mut self.of((task.tid, task.comm), item.end).items;
        if items.len() < MAX_KINDS || items.contains_key(&item.function) {
            let sum = items.entry(item.function).or_default();
            sum.0 += 1;
            if let Some(queued) = item.queued {
                sum.1 += 1;
                sum.2 += item.end.since(queued);
            }
        }
    }
}
