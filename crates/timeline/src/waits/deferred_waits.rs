//! Waits that are over, of which a part is a stay that still lasts.
//!
//! Only at its end does a stay tell what the task was meanwhile (see `stays`). A wait of which it has a long part, and that
//! ended on another CPU, is given out then.

use std::num::NonZeroU32;

use unstarve_model::{CpuId, Nanos, Time};

use crate::cpus::{Cpu, Current};
use crate::timeline::Timeline;
use crate::waits::attribution::{PieceRoom, split};
use crate::waits::parts::add;
use crate::waits::{Pending, wait_of};
use crate::{ActorId, OpenWait, Sink, TaskKey, Tasks, WaitEnd};

/// Parts shorter than this are not worth a delay: one of each wakeup that moves a task is some microseconds. The balancer,
/// which takes tasks away from a busy CPU, comes with the tick, which is 1 ms at the shortest.
const WORTH_HOLDING: Nanos = Nanos::from_millis(1);
/// Parts of one stay, and waits in all, that are remembered at once.
const PARTS: usize = 4096;
const WAITS: usize = 4096;

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
pub(crate) struct Ended {
    pub task: TaskKey,
    pub pending: Pending,
    pub end: Time,
    /// Where the trace ended first.
    pub open: Option<OpenWait>,
    pub idle_elsewhere: Option<Nanos>,
    pub beside_unheard: Option<CpuId>,
    pub queue_length: u32,
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
pub(crate) struct Held {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Held {
    /// The wait is about to stop counting on this CPU: remembers which part of it the run in progress there has.
    #[inline]
    pub fn note(&mut self, cpu: &mut Cpu, pending: &mut Pending, task: TaskKey, now: Time) {
        let from = pending.segment.max(cpu.run_start);
        if now.since(from) >= WORTH_HOLDING && matches!(cpu.current, Current::Task(_)) {
            self.note_part(cpu, pending, task, from, now);
        }
    }

    #[cold]
    fn note_part(&mut self, cpu: &mut Cpu, pending: &mut Pending, task: TaskKey, from: Time, now: Time) {
        let length = cpu.occupancy.time_of(cpu.base, from, now);
        if length < WORTH_HOLDING || cpu.open.len() >= PARTS {
            return;
        }
        let Some(wait) = pending.hold.or_else(|| self.add(task)) else { return };
        pending.hold = Some(wait);
        self.slots[wait.place() as usize].open += 1;
        cpu.open.push(OpenPart { wait, from, to: now, length, stopped: pending.is_stopped() });
    }

    fn add(&mut self, task: TaskKey) -> Option<HoldId> {
        let state = State::Waiting(task);
        if let Some(index) = self.free.pop() {
            self.slots[index as usize].state = state;
            return Some(HoldId::at(index));
        }
        if self.slots.len() >= WAITS {
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
    fn settle(&mut self, part: &OpenPart, correction: Option<&Correction>, tasks: &mut Tasks) -> Option<Box<Ended>> {
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

impl Timeline {
    /// The stay in progress on the CPU is over: gives out the waits that waited for its end.
    pub(crate) fn settle_open(&mut self, index: usize, correction: Option<&Correction>, sink: &mut impl Sink) {
        let mut open = std::mem::take(&mut self.cpus[index].open);
        for part in open.drain(..) {
            if let Some(ended) = self.held.settle(&part, correction, &mut self.world.tasks) {
                self.give_out(&ended, sink);
            }
        }
        self.cpus[index].open = open;
    }

    fn give_out(&mut self, ended: &Ended, sink: &mut impl Sink) {
        let mut pieces = std::mem::take(&mut self.pieces);
        let given = self.held_so_far(ended, &mut pieces, sink);
        self.effort.take_pieces(given);
        self.pieces = pieces;
        self.world.tasks.unpin(ended.task);
    }

    /// Reports a wait that is over by what is known of it now, and returns how many pieces it has.
    pub(crate) fn held_so_far(&self, ended: &Ended, pieces: &mut PieceRoom, sink: &mut impl Sink) -> usize {
        let limited = self.world.tasks.get(ended.task).may_be_throttled();
        let missing = self.missing_switches > 0;
        let parts = &ended.pending.parts;
        let pieces = split(&ended.pending, parts, limited, missing, ended.end, &self.world.actors, pieces);
        let over = (ended.end, if ended.open.is_some() { WaitEnd::TraceEnd } else { WaitEnd::Ran });
        let mut wait = wait_of(ended.task, &ended.pending, over, pieces, ended.idle_elsewhere, ended.queue_length);
        wait.beside_unheard = ended.beside_unheard;
        wait.open = ended.open;
        sink.wait(&self.world, &wait);
        pieces.len()
    }
}
