//! Tasks that were runnable when the trace began.
//!
//! No event shows that, and if they never get the CPU, none ever will: the worst possible starvation. Other data about the
//! host, recorded along with the trace, can show it.

use std::collections::BTreeMap;

use unstarve_model::{CpuId, Nanos, TaskRef, Time};
use unstarve_sched::Rule;

use crate::cpus::Cpu;
use crate::effort::Effort;
use crate::machine::Machine;
use crate::waits::attribution::split;
use crate::waits::parts::{Part, add_span, keep_longest};
use crate::waits::pending::Pending;
use crate::waits::{Outcome, Waits, begin};
use crate::{Actors, CpuEnd, OpenWait, Piece, Sink, State, TaskKey, Throughout, WaitEnd, WaitKind, World};

/// Maximum number of such tasks.
const MAX_INITIAL_TASKS: usize = 1 << 16;
/// The slice of the fair class (`sched_base_slice_ns`, 0.75 ms to 3 ms from 2 to 8 CPUs): a task with a thousandth of a
/// competitor's weight runs once for each thousand slices of the other.
const BASE_SLICE: Nanos = Nanos::from_millis(3);
/// The share of the trace that must belong to competitors which would have kept the task off for at least half of it.
const HELD_BY_RIVALS: f64 = 0.99;

/// What is known besides the events.
#[derive(Debug, Default)]
pub(super) struct InitialRunnable {
    runnable: Vec<(TaskRef, CpuId)>,
    quiet: Vec<(TaskRef, CpuId)>,
    /// By CPU, the time of each occupant from the trace's start to the last update; kept if a quiet task may have waited there.
    occupants: BTreeMap<usize, (Time, Vec<Part>)>,
}

impl InitialRunnable {
    /// Updates the sums of the CPU's occupants, if they are kept.
    pub fn add_up(&mut self, cpu: &Cpu, now: Time, actors: &Actors, effort: &mut Effort) {
        if let Some((since, parts)) = self.occupants.get_mut(&cpu.index()) {
            add_span(parts, cpu.occupancy(), (*since, now), None, effort);
            keep_longest(parts, 1, actors, effort);
            *since = now;
        }
    }
}

/// Adds a task, if there is room and both task and CPU can exist.
fn remember(list: &mut Vec<(TaskRef, CpuId)>, task: TaskRef, cpu: CpuId) {
    if !task.tid().is_idle() && cpu.0 < CpuId::LIMIT && list.len() < MAX_INITIAL_TASKS {
        list.push((task, cpu));
    }
}

impl Waits {
    /// See [`crate::Timeline::runnable_before`].
    pub fn add_runnable_before(&mut self, task: TaskRef, cpu: CpuId) {
        remember(&mut self.initial.runnable, task, cpu);
    }

    /// See [`crate::Timeline::quiet_before`].
    pub fn add_quiet_before(&mut self, task: TaskRef, cpu: CpuId) {
        remember(&mut self.initial.quiet, task, cpu);
    }

    /// The trace begins.
    #[cold]
    pub fn begin_initial(&mut self, machine: &mut Machine) {
        let now = machine.world.now;
        for (task, cpu) in std::mem::take(&mut self.initial.runnable) {
            machine.cpu(cpu);
            let key = machine.task(&task);
            if machine.world.tasks.get(key).is_unseen() {
                begin(machine, key, WaitKind::Preemption, cpu, (now, None));
                if let Some(pending) = &mut machine.world.tasks.get_mut(key).pending {
                    pending.assumed = true;
                }
            }
        }
        for (_, cpu) in &self.initial.quiet {
            let index = machine.cpu(*cpu);
            self.initial.occupants.entry(index).or_insert((now, Vec::new()));
        }
    }

    /// The task is woken: if it was only assumed to be waiting, it was not.
    #[inline]
    pub fn disprove(&mut self, machine: &mut Machine, key: TaskKey) {
        if machine.world.tasks.get(key).pending.as_ref().is_some_and(Pending::is_assumed) {
            self.disprove_wait(machine, key);
        }
    }

    #[cold]
    fn disprove_wait(&mut self, machine: &mut Machine, key: TaskKey) {
        self.drop_wait(machine, key);
        machine.world.tasks.get_mut(key).state = State::Unknown;
    }

    /// At the trace's end: reports the waits of tasks that no event names. Returns their number.
    pub fn report_quiet(&mut self, machine: &mut Machine, switches_are_missing: bool, sink: &mut impl Sink) -> u64 {
        let (start, end) = (machine.world.start, machine.world.now);
        for cpu in machine.cpus.iter() {
            self.initial.add_up(cpu, end, &machine.world.actors, &mut self.effort);
        }
        let mut guessed = 0;
        for (task, cpu) in std::mem::take(&mut self.initial.quiet) {
            let tasks = &machine.world.tasks;
            if tasks.find(task.tid()).is_some_and(|key| !tasks.get(key).is_unseen()) {
                continue;
            }
            let Some((_, parts)) = self.initial.occupants.get(&cpu.index()) else { continue };
            let parts = parts.clone();
            let rivals = machine.queues[cpu.index()].weight();
            let key = machine.task(&task);
            let world = &mut machine.world;
            let known = world.tasks.get(key);
            let weight = u64::from(known.weight());
            let owed = end.since(start).0 as f64 * weight as f64 / (weight + rivals) as f64;
            let pending = Pending { parts, owed, ..Pending::new(WaitKind::Preemption, known.actor, start, cpu) };
            let (parts, limited) = (&pending.parts, known.may_be_throttled());
            let pieces = split(&pending, parts, limited, switches_are_missing, end, &world.actors, &mut self.pieces);
            if !had_no_turn(&pending, pieces, end.since(start), &world.actors) {
                continue;
            }
            guessed += 1;
            // Without its tid its cgroup, whose weight decides its wait, could not be looked up.
            world.actors.join(world.tasks.get_mut(key));
            let outcome = Outcome { end, open: None, idle_elsewhere: None, beside_unheard: None, queue_length: 1 };
            let mut wait = outcome.wait(key, &pending, WaitEnd::TraceEnd, pieces);
            wait.throughout = Some(Throughout::Guessed);
            wait.open = Some(OpenWait::whole(&wait, CpuEnd::Believed));
            sink.wait(world, &wait);
        }
        guessed
    }
}

/// Whether to report a wait still in progress at the trace's end.
pub(crate) fn is_believed(world: &World, key: TaskKey) -> bool {
    let task = world.tasks.get(key);
    !task.pending.as_ref().is_some_and(Pending::is_assumed) || world.settings().has_only_waited(task.tid)
}

/// Whether the competitors weigh so much more that the task could not have run in that time.
fn had_no_turn(pending: &Pending, pieces: &[Piece], length: Nanos, actors: &Actors) -> bool {
    let victim = actors.get(pending.actor).contender;
    let keeps_off = |piece: &&Piece| {
        let times = actors.get(piece.occupant).contender.times_heavier(&victim, actors.groups());
        piece.rule == Rule::Weight && BASE_SLICE.0 as f64 * times >= length.0 as f64 / 2.0
    };
    let held: Nanos = pieces.iter().filter(keeps_off).map(|piece| piece.length).sum();
    let idle = pieces.iter().any(|piece| matches!(piece.rule, Rule::Idle | Rule::Throttled));
    !idle && held.share_of(length) >= HELD_BY_RIVALS
}
