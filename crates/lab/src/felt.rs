//! What the threads of a recording felt, by the actors of a program.

use std::collections::HashMap;

use unstarve_diagnose::{ExplainError, drive};
use unstarve_model::{EventSource, Loss, Nanos, Tid, Time};
use unstarve_sim::{ActorId, Felt, FeltSoFar};
use unstarve_timeline::{Interrupt, Run, RunEnd, Sink, TaskKey, Wait, Wake, World};

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
    /// What its actors felt, and what the recording cannot show.
    pub(crate) fn felt(&self, source: Box<dyn EventSource>) -> Result<(Felt, Vec<Loss>), ExplainError> {
        let mut collector = Collector { window: self, so_far: FeltSoFar::default(), lost: LostToInterrupts::default() };
        let driven = drive(source, &mut collector, |_| {})?;
        let actors = self.actors.values().map(|actor| actor.index() + 1).max().unwrap_or(0);
        Ok((collector.so_far.felt(actors, self.length), driven.losses))
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
    lost: LostToInterrupts,
}

impl Collector<'_> {
    fn actor(&self, world: &World, task: TaskKey) -> Option<ActorId> {
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
        let (length, lost) = (self.window.part(run.start, run.end), self.lost.take(run.task));
        if length > Nanos::ZERO
            && let Some(actor) = self.actor(world, run.task)
        {
            let lost = Nanos((lost.0 as f64 * length.share_of(run.length())).round() as u64);
            self.so_far.ran(actor, length.saturating_sub(lost), matches!(run.ended, RunEnd::Preempted { .. }));
        }
    }

    fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        if self.window.has(wake.time)
            && let Some(actor) = self.actor(world, wake.wakee)
        {
            self.so_far.woke(actor);
        }
    }

    fn interrupt(&mut self, _: &World, interrupt: &Interrupt) {
        self.lost.note(interrupt);
    }
}

/// Time of runs in progress that went to interrupts.
///
/// A softirq that is the thread's own work is none of them, as in [`unstarve_sim::Extractor`].
#[derive(Debug, Default)]
pub(crate) struct LostToInterrupts(HashMap<TaskKey, Nanos>);

impl LostToInterrupts {
    pub(crate) fn note(&mut self, interrupt: &Interrupt) {
        if let Some(task) = interrupt.task.filter(|_| !interrupt.is_own_work) {
            *self.0.entry(task).or_default() += interrupt.end.since(interrupt.start);
        }
    }

    /// What the task's run that ends now lost.
    pub(crate) fn take(&mut self, task: TaskKey) -> Nanos {
        self.0.remove(&task).unwrap_or_default()
    }
}
