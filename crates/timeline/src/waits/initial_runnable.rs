//! Tasks that were runnable when the trace began.
//!
//! No event says so, and if they never get the CPU, none ever will: the worst starvation there is. What was seen of the
//! host beside the trace can tell.

use unstarve_model::{CpuId, Nanos, TaskRef};
use unstarve_sched::Rule;

use crate::timeline::Timeline;
use crate::waits::attribution::split;
use crate::waits::{Pending, wait_of};
use crate::{Actors, CpuEnd, OpenWait, Piece, Sink, State, TaskKey, Throughout, WaitEnd, WaitKind};

/// Tasks that are remembered for the trace's begin.
const LIMIT: usize = 1 << 16;
/// The slice of the fair class (`sched_base_slice_ns`, 0.75 ms to 3 ms from 2 to 8 CPUs): a task that weighs a thousandth
/// of its rival has a turn for each thousand of the other's.
const SLICE: Nanos = Nanos::from_millis(3);
/// This part of the trace must belong to rivals that would not have let the task in before half of it was over.
const HELD_BY_RIVALS: f64 = 0.99;

/// What is known beside the events.
#[derive(Debug, Default)]
pub(crate) struct Before {
    runnable: Vec<(TaskRef, CpuId)>,
    quiet: Vec<(TaskRef, CpuId)>,
}

impl Timeline {
    /// The task was runnable when the trace began, and this was its CPU: it ran, or waited there. Its first event tells
    /// which.
    pub fn runnable_before(&mut self, task: TaskRef, cpu: CpuId) {
        if !task.tid().is_idle() && cpu.0 < CpuId::LIMIT && self.before.runnable.len() < LIMIT {
            self.before.runnable.push((task, cpu));
        }
    }

    /// The task lived when the trace began, may use this CPU alone, and has hardly run in its life. If no event ever names
    /// it, it has slept, or it has waited all the time; where the CPU's other tasks weigh so much that it could not have
    /// had a turn yet, it is taken to have waited.
    pub fn quiet_before(&mut self, task: TaskRef, cpu: CpuId) {
        if !task.tid().is_idle() && cpu.0 < CpuId::LIMIT && self.before.quiet.len() < LIMIT {
            self.before.quiet.push((task, cpu));
        }
    }

    /// The trace begins.
    #[cold]
    pub(crate) fn begin_before(&mut self) {
        let now = self.world.now;
        for (task, cpu) in std::mem::take(&mut self.before.runnable) {
            self.cpu(cpu);
            let key = self.task(&task);
            if self.world.tasks.get(key).is_unseen() {
                self.begin_wait(key, WaitKind::Preemption, cpu, now, None);
                if let Some(pending) = &mut self.world.tasks.get_mut(key).pending {
                    pending.assumed = true;
                }
            }
        }
        for place in 0..self.before.quiet.len() {
            let index = self.cpu(self.before.quiet[place].1);
            self.cpus[index].whole.get_or_insert((now, Vec::new()));
        }
    }

    /// The task is woken: if it was only assumed to be waiting, it was not.
    #[inline]
    pub(crate) fn disprove(&mut self, key: TaskKey) {
        let task = self.world.tasks.get(key);
        if task.pending.as_ref().is_some_and(|pending| pending.assumed) {
            self.disprove_wait(key);
        }
    }

    #[cold]
    fn disprove_wait(&mut self, key: TaskKey) {
        self.drop_wait(key);
        self.world.tasks.get_mut(key).state = State::Unknown;
    }

    /// Whether a wait that is still going on at the trace's end is to be reported.
    pub(crate) fn is_believed(&self, key: TaskKey) -> bool {
        let task = self.world.tasks.get(key);
        let assumed = task.pending.as_ref().is_some_and(|pending| pending.assumed);
        !assumed || self.world.settings.0.has_only_waited(task.tid)
    }

    /// The trace is over: reports the waits of tasks that no event names.
    pub(crate) fn report_quiet(&mut self, sink: &mut impl Sink) {
        let (start, end) = (self.world.start, self.world.now);
        self.cpus.iter_mut().for_each(|cpu| cpu.add_up_whole(end, &self.world.actors, &mut self.effort));
        for (task, cpu) in std::mem::take(&mut self.before.quiet) {
            if self.world.tasks.find(task.tid()).is_some_and(|key| !self.world.tasks.get(key).is_unseen()) {
                continue;
            }
            let here = &self.cpus[cpu.index()];
            let Some((_, parts)) = &here.whole else { continue };
            let parts = parts.clone();
            let rivals = here.fairness.weight();
            let key = self.task(&task);
            let known = self.world.tasks.get(key);
            let weight = u64::from(known.weight());
            let owed = end.since(start).0 as f64 * weight as f64 / (weight + rivals) as f64;
            let pending = Pending { parts, owed, ..Pending::new(WaitKind::Preemption, known.actor, start, cpu) };
            let pieces = split(
                &pending,
                &pending.parts,
                known.may_be_throttled(),
                self.missing_switches > 0,
                end,
                &self.world.actors,
                &mut self.pieces,
            );
            if !had_no_turn(&pending, pieces, end.since(start), &self.world.actors) {
                continue;
            }
            self.guessed += 1;
            // Without its id nobody could look up its cgroup, by whose weight it waits.
            self.world.actors.join(self.world.tasks.get_mut(key));
            let mut wait = wait_of(key, &pending, (end, WaitEnd::TraceEnd), pieces, None, 1);
            wait.throughout = Some(Throughout::Guessed);
            wait.open = Some(OpenWait::whole(&wait, CpuEnd::Believed));
            sink.wait(&self.world, &wait);
        }
    }
}

/// Whether the rivals weigh so much more that the task could not have had a turn in the time.
fn had_no_turn(pending: &Pending, pieces: &[Piece], length: Nanos, actors: &Actors) -> bool {
    let victim = actors.get(pending.actor).contender;
    let keeps_off = |piece: &&Piece| {
        let times = actors.get(piece.occupant).contender.times_heavier(&victim, actors.groups());
        piece.rule == Rule::Weight && SLICE.0 as f64 * times >= length.0 as f64 / 2.0
    };
    let held: Nanos = pieces.iter().filter(keeps_off).map(|piece| piece.length).sum();
    let idle = pieces.iter().any(|piece| matches!(piece.rule, Rule::Idle | Rule::Throttled));
    !idle && held.share_of(length) >= HELD_BY_RIVALS
}
