//! Finished waits whose blame depends on a run still in progress.
//!
//! Only the end of a stay shows what its task was meanwhile (see `run_interval`). A wait of which it has a long part, and that
//! ended on another CPU, is reported then.

use std::num::NonZeroU32;

use unstarve_model::{Nanos, Time};

use crate::cpus::Cpu;
use crate::waits::Outcome;
use crate::waits::attribution::{PieceRoom, split};
use crate::waits::parts::add;
use crate::waits::pending::Pending;
use crate::{ActorId, Sink, TaskKey, Tasks, WaitEnd, World};

/// Parts shorter than this delay no report: one of each wakeup that moves a task is some microseconds. The balancer,
/// which takes tasks away from a busy CPU, comes with the tick, which is 1 ms at the shortest.
const WORTH_DEFERRING: Nanos = Nanos::from_millis(1);
/// Parts of one stay, and waits in all, that are remembered at once.
const MAX_OPEN_PARTS: usize = 4096;
const MAX_DEFERRED: usize = 4096;

/// A place among the waits held back, plus one, so that an `Option` of it is no larger.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HoldId(NonZeroU32);

impl HoldId {
    fn at(place: u32) -> HoldId {
        HoldId(NonZeroU32::MIN.saturating_add(place))
    }

    fn place(self) -> u32 {
        self.0.get() - 1
    }
}

/// A part of a wait that is part of the stay in progress on a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenPart {
    wait: HoldId,
    from: Time,
    to: Time,
    length: Nanos,
    /// Whether a limit stopped the task meanwhile.
    stopped: bool,
}

/// What a stay was, if not what was thought.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Correction {
    pub was: ActorId,
    pub is: ActorId,
    pub from: Time,
}

/// A wait that is over.
#[derive(Debug)]
pub(super) struct Ended {
    pub task: TaskKey,
    pub pending: Pending,
    pub outcome: Outcome,
}

#[derive(Debug)]
enum State {
    Free,
    /// It goes on; the task has it.
    Waiting(TaskKey),
    Ended(Box<Ended>),
    /// It was given up.
    Dropped,
}

#[derive(Debug)]
struct Slot {
    state: State,
    /// Its parts of stays that still last.
    open: u32,
}

/// All waits that have open parts.
#[derive(Debug, Default)]
pub(super) struct DeferredWaits {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// By CPU, parts of waits that are parts of the run in progress, for the case that its task turns out to be something else.
    open: Vec<Vec<OpenPart>>,
}

impl DeferredWaits {
    /// The wait is about to stop counting on this CPU: remembers which part of it the run in progress there has.
    #[inline]
    pub fn note(&mut self, cpu: &Cpu, pending: &mut Pending, task: TaskKey, now: Time) {
        let from = pending.segment.max(cpu.run_start());
        if now.since(from) >= WORTH_DEFERRING && cpu.task().is_some() {
            self.note_part(cpu, pending, task, from, now);
        }
    }

    #[cold]
    fn note_part(&mut self, cpu: &Cpu, pending: &mut Pending, task: TaskKey, from: Time, now: Time) {
        if self.open.len() <= cpu.index() {
            self.open.resize_with(cpu.index() + 1, Vec::new);
        }
        let length = cpu.occupancy().time_of(cpu.holder(), from, now);
        if length < WORTH_DEFERRING || self.open[cpu.index()].len() >= MAX_OPEN_PARTS {
            return;
        }
        let Some(wait) = pending.hold.or_else(|| self.add(task)) else { return };
        pending.hold = Some(wait);
        self.slots[wait.place() as usize].open += 1;
        self.open[cpu.index()].push(OpenPart { wait, from, to: now, length, stopped: pending.is_stopped() });
    }

    /// Whether waits have parts in the run in progress on this CPU.
    #[inline(always)]
    pub fn has_parts(&self, index: usize) -> bool {
        self.open.get(index).is_some_and(|open| !open.is_empty())
    }

    /// Takes the parts of the run in progress on this CPU out.
    pub fn take_parts(&mut self, index: usize) -> Vec<OpenPart> {
        self.open.get_mut(index).map(std::mem::take).unwrap_or_default()
    }

    /// Takes the list, empty by now, back to save an allocation.
    pub fn give_back_room(&mut self, index: usize, parts: Vec<OpenPart>) {
        if let Some(open) = self.open.get_mut(index) {
            *open = parts;
        }
    }

    fn add(&mut self, task: TaskKey) -> Option<HoldId> {
        let state = State::Waiting(task);
        if let Some(index) = self.free.pop() {
            self.slots[index as usize].state = state;
            return Some(HoldId::at(index));
        }
        if self.slots.len() >= MAX_DEFERRED {
            return None;
        }
        self.slots.push(Slot { state, open: 0 });
        Some(HoldId::at(self.slots.len() as u32 - 1))
    }

    /// The wait is over, but what it was made of is not known yet.
    pub fn keep(&mut self, id: HoldId, ended: Ended) {
        self.slots[id.place() as usize].state = State::Ended(Box::new(ended));
    }

    /// The wait is not to be reported.
    pub fn forget(&mut self, id: HoldId) {
        self.slots[id.place() as usize].state = State::Dropped;
    }

    /// Waits that are over and not given out yet.
    pub fn ended(&self) -> impl Iterator<Item = &Ended> {
        self.slots.iter().filter_map(|slot| match &slot.state {
            State::Ended(ended) => Some(&**ended),
            _ => None,
        })
    }

    /// The stay that has this part is over; a wait of which nothing is open any longer.
    pub fn settle(
        &mut self,
        part: &OpenPart,
        correction: Option<&Correction>,
        tasks: &mut Tasks,
    ) -> Option<Box<Ended>> {
        let slot = &mut self.slots[part.wait.place() as usize];
        slot.open = slot.open.saturating_sub(1);
        let done = slot.open == 0;
        match &mut slot.state {
            State::Waiting(task) => {
                if let Some(pending) = &mut tasks.get_mut(*task).pending {
                    pending.correct(part, correction);
                    pending.hold = pending.hold.filter(|_| !done);
                }
            }
            State::Ended(ended) => ended.pending.correct(part, correction),
            State::Dropped | State::Free => {}
        }
        if !done {
            return None;
        }
        self.free.push(part.wait.place());
        match std::mem::replace(&mut slot.state, State::Free) {
            State::Ended(ended) => Some(ended),
            _ => None,
        }
    }
}

impl Pending {
    fn correct(&mut self, part: &OpenPart, correction: Option<&Correction>) {
        let Some(Correction { was, is, from }) = correction.copied() else { return };
        let span = part.to.since(part.from).0;
        let after = part.to.since(from.max(part.from)).0;
        // Interrupts within the part are taken to be spread evenly.
        let length = Nanos((u128::from(part.length.0) * u128::from(after) / u128::from(span.max(1))) as u64);
        let parts = match &mut self.stopped {
            Some(stopped) if part.stopped => &mut stopped.parts,
            _ => &mut self.parts,
        };
        let Some(wrong) = parts.iter_mut().find(|known| known.0 == was) else { return };
        let length = length.min(wrong.1);
        wrong.1 = wrong.1.saturating_sub(length);
        add(parts, is, length);
        if let Some(preemptor) = self.preemptor.as_mut().filter(|preemptor| preemptor.actor == was) {
            preemptor.became = is;
        }
    }
}

impl Ended {
    /// Reports the wait by what is known of it now, and returns how many pieces it has.
    pub fn report(
        &self,
        world: &World,
        switches_are_missing: bool,
        pieces: &mut PieceRoom,
        sink: &mut impl Sink,
    ) -> usize {
        let limited = world.tasks.get(self.task).may_be_throttled();
        let parts = &self.pending.parts;
        let end = self.outcome.end;
        let pieces = split(&self.pending, parts, limited, switches_are_missing, end, &world.actors, pieces);
        let ended = if self.outcome.open.is_some() { WaitEnd::TraceEnd } else { WaitEnd::Ran };
        sink.wait(world, &self.outcome.wait(self.task, &self.pending, ended, pieces));
        pieces.len()
    }
}
