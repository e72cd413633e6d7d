//! What the threads of a recording felt, by the actors of a program.

use std::collections::HashMap;

use unstarve_diagnose::{ExplainError, drive};
use unstarve_model::{EventSource, Nanos, Tid, Time};
use unstarve_sim::{ActorId, Felt, FeltSoFar};
use unstarve_timeline::{Run, RunEnd, Sink, Wait, Wake, World};

/// The part of a recording that counts, and whose threads are which actors.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    /// Where it begins.
    pub(crate) start: Time,
    /// Its length.
    pub(crate) length: Nanos,
    /// The actor of each thread.
    pub(crate) actors: HashMap<Tid, ActorId>,
}

impl Window {
    /// What its actors felt.
    pub(crate) fn felt(&self, source: Box<dyn EventSource>) -> Result<Felt, ExplainError> {
        let mut collector = Collector { window: self, so_far: FeltSoFar::default() };
        drive(source, &mut collector, |_| {})?;
        let actors = self.actors.values().map(|actor| actor.index() + 1).max().unwrap_or(0);
        Ok(collector.so_far.felt(actors, self.length))
    }

    fn end(&self) -> Time {
        self.start + self.length
    }

    /// How much of this time is in the window.
    fn part(&self, start: Time, end: Time) -> Nanos {
        end.min(self.end()).since(start.max(self.start))
    }

    fn has(&self, time: Time) -> bool {
        (self.start..self.end()).contains(&time)
    }
}

struct Collector<'a> {
    window: &'a Window,
    so_far: FeltSoFar,
}

impl Collector<'_> {
    fn actor(&self, world: &World, task: unstarve_timeline::TaskKey) -> Option<ActorId> {
        self.window.actors.get(&world.tasks.get(task).tid).copied()
    }
}

impl Sink for Collector<'_> {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let length = self.window.part(wait.start, wait.end);
        if length > Nanos::ZERO
            && let Some(actor) = self.actor(world, wait.task)
        {
            self.so_far.waited(actor, length);
        }
    }

    fn run(&mut self, world: &World, run: &Run) {
        let length = self.window.part(run.start, run.end);
        if length > Nanos::ZERO
            && let Some(actor) = self.actor(world, run.task)
        {
            self.so_far.ran(actor, own_time(run, length), matches!(run.ended, RunEnd::Preempted { .. }));
        }
    }

    fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        if self.window.has(wake.time)
            && let Some(actor) = self.actor(world, wake.wakee)
        {
            self.so_far.woke(actor);
        }
    }
}

/// A part of a run without its share of the interrupts in the run.
pub(crate) fn own_time(run: &Run, part: Nanos) -> Nanos {
    let interrupts = (run.irq + run.softirq).0 as f64 * part.share_of(run.length());
    part.saturating_sub(Nanos(interrupts.round() as u64))
}
