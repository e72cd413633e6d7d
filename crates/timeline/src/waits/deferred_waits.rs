//! Finished waits whose blame depends on a run still in progress.
//!
//! Only the end of a run shows what its task was meanwhile (see `run_interval`). A wait that contains a long part of such a
//! run, and that ended on another CPU, is reported at the end of the run.

use std::num::NonZeroU32;

use unstarve_model::{Nanos, Time};

use crate::cpus::Cpu;
use crate::waits::Outcome;
use crate::waits::attribution::{PieceRoom, split};
use crate::waits::parts::add;
use crate::waits::pending::Pending;
use crate::{ActorId, Sink, TaskKey, Tasks, WaitEnd, World};

/// Parts shorter than this do not defer a report: each wakeup that migrates a task has one of some microseconds. The load
/// balancer, which pulls tasks from a busy CPU, runs at a tick, every 1 ms or more.
const WORTH_DEFERRING: Nanos = Nanos::from_millis(1);
/// Maximum number of open parts of one run, and of deferred waits.
const MAX_OPEN_PARTS: usize = 4096;
const MAX_DEFERRED: usize = 4096;

/// Index of a deferred wait plus one, so that an `Option` of it is no larger.
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

/// A part of a wait that is a part of the current run on a CPU.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenPart {
    wait: HoldId,
    from: Time,
    to: Time,
    length: Nanos,
    /// Whether the task was throttled meanwhile.
    stopped: bool,
}

/// What a run turned out to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Correction {
    pub was: ActorId,
    pub is: ActorId,
    pub from: Time,
}

/// A finished wait.
#[derive(Debug)]
pub(super) struct Ended {
    pub task: TaskKey,
    pub pending: Pending,
    pub outcome: Outcome,
}

#[derive(Debug)]
enum State {
    Free,
    /// Still in progress; the task has it.
    Waiting(TaskKey),
    Ended(Box<Ended>),
    /// Dropped.
    Dropped,
}

#[derive(Debug)]
struct Slot {
    state: State,
    /// Number of its parts in runs still in progress.
    open: u32,
}

/// All waits with open parts.
#[derive(Debug, Default)]
pub(super) struct DeferredWaits {
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// By CPU, parts of waits that are parts of the current run, in case its task turns out to be something else.
    open: Vec<Vec<OpenPart>>,
}

impl DeferredWaits {
    /// The wait is about to stop counting on this CPU: records its part of the current run.
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

    /// Whether waits have parts in the current run on this CPU.
    #[inline(always)]
    pub fn has_parts(&self, index: usize) -> bool {
        self.open.get(index).is_some_and(|open| !open.is_empty())
    }

    /// Takes the parts of the current run on this CPU.
    pub fn take_parts(&mut self, index: usize) -> Vec<OpenPart> {
        self.open.get_mut(index).map(std::mem::take).unwrap_or_default()
    }

    /// Returns the empty list, to save an allocation.
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

    /// The wait has ended, but its composition is not known yet.
    pub fn keep(&mut self, id: HoldId, ended: Ended) {
        self.slots[id.place() as usize].state = State::Ended(Box::new(ended));
    }

    /// The wait will not be reported.
    pub fn forget(&mut self, id: HoldId) {
        self.slots[id.place() as usize].state = State::Dropped;
    }

    /// Ended waits that are not reported yet.
    pub fn ended(&self) -> impl Iterator<Item = &Ended> {
        self.slots.iter().filter_map(|slot| match &slot.state {
            State::Ended(ended) => Some(&**ended),
            _ => None,
        })
    }

    /// The run with this part has ended; returns the wait if none of its parts is open any more.
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
        // Interrupts are assumed to be spread evenly over the part.
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
    /// Reports the wait as known now, and returns its number of pieces.
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
