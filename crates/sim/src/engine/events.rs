//! What a played program would have recorded: the same rules that judge recordings judge it.

use unstarve_model::{
    Comm, Context, CpuId, Event, EventKind, Issuer, PrevState, Prio, SchedPolicy, TaskRef, Tid, Time,
};

use super::run::Engine;
use crate::{ActorId, Class, Op, Program};

/// Events of a program while it is played.
#[derive(Debug, Default)]
pub(super) struct Log {
    pub events: Vec<Event>,
    /// The actor that wakes others, if it is no timer.
    pub waker: Option<ActorId>,
}

/// What is beyond is not judged: half a gigabyte.
const MOST_LOGGED: usize = 8_000_000;

/// The clock of a recording does not begin at 0.
const START: u64 = 1_000_000_000;

impl Engine<'_> {
    fn task(&self, id: Option<ActorId>) -> TaskRef {
        id.map_or_else(|| TaskRef::new(Tid::IDLE, "swapper".into(), Some(Prio::NORMAL)), |id| task_of(self.program, id))
    }

    fn cpu_id(&self, place: usize) -> CpuId {
        self.program.cpus.iter().nth(place).unwrap_or(CpuId(place as u32))
    }

    fn add(&mut self, cpu: usize, current: Option<ActorId>, context: Context, kind: EventKind) {
        let (time, cpu) = (Time(START + self.now), self.cpu_id(cpu));
        let issuer = Issuer::new(Some(self.task(current).tid()), context);
        if let Some(log) = self.log.as_mut().filter(|log| log.events.len() < MOST_LOGGED) {
            log.events.push(Event { time, cpu, issuer, kind });
        }
    }

    pub(super) fn note_switch(&mut self, cpu: usize, prev: Option<ActorId>, stays: bool, next: Option<ActorId>) {
        if self.log.is_some() {
            let prev_state = if stays || prev.is_none() { PrevState::Preempted } else { PrevState::Sleeping };
            let kind = EventKind::Switch { prev: self.task(prev), prev_state, next: self.task(next) };
            self.add(cpu, prev, Context::Task, kind);
        }
    }

    pub(super) fn note_wakeup(&mut self, id: ActorId) {
        let Some(log) = &self.log else { return };
        let waker = log.waker;
        let (task, target) = (self.task(Some(id)), self.actors[id.index()].cpu);
        let (cpu, context) = match waker {
            Some(waker) => (self.actors[waker.index()].cpu, Context::Task),
            None => (target, Context::Hardirq),
        };
        let current = self.cpus[cpu].current;
        let target_cpu = self.cpu_id(target);
        self.add(cpu, current, context, EventKind::Waking { task, target_cpu });
        self.add(cpu, current, context, EventKind::Wakeup { task, target_cpu });
    }

    /// Actors that want to run from the beginning.
    pub(super) fn note_beginning(&mut self) {
        let ready =
            self.program.actors().filter(|(_, actor)| !actor.ops.first().is_none_or(|op: &Op| op.begins_item()));
        let ready: Vec<ActorId> = ready.map(|(id, _)| id).collect();
        ready.into_iter().for_each(|id| self.note_wakeup(id));
    }
}

fn task_of(program: &Program, id: ActorId) -> TaskRef {
    let actor = program.actor(id);
    let prio = match actor.placement.class {
        Class::Fair { policy: SchedPolicy::Idle, .. } => Prio(120),
        Class::Fair { nice, .. } => Prio(120 + nice),
        Class::Realtime { priority, .. } => Prio(99 - priority as i32),
        Class::Deadline(_) => Prio(-1),
    };
    TaskRef::new(actor.tid, Comm::from(actor.comm.as_str()), Some(prio))
}
