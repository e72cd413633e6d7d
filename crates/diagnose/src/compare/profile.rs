//! Sums of each role over time.

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use unstarve_model::{CpuId, Nanos, Time};
use unstarve_sched::Rule;
use unstarve_timeline::{
    ActorId, ActorKind, Interrupt, Migration, Run, RunEnd, Selection, Sink, TaskKey, Wait, WaitEnd, Wake, WorkItem,
    World,
};

use super::role::Role;
use crate::ledger::Quantiles;

/// Maximum roles; later ones are counted only in the sum of all tasks.
const ROLES: usize = 1 << 10;

/// Maximum time slices with separate sums. When the trace outgrows them, pairs are merged, so their number stays between half of
/// this and this.
const SLICES: usize = 64;

/// The initial length of a slice.
const SHORTEST: Nanos = Nanos::from_millis(1);

/// Sums over one slice.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Sums {
    pub waits: u64,
    pub waited: u64,
    /// By [`Rule`].
    pub by_rule: [u64; Rule::ALL.len()],
    pub ran: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub wakeups: u64,
    pub migrations: u64,
    pub items: u64,
    /// Work items whose queueing was recorded, and their total time from queueing to end.
    pub timed_items: u64,
    pub turnaround: u64,
    pub softirq: u64,
    pub irq: u64,
}

impl Sums {
    fn add(&mut self, other: &Sums) {
        self.waits += other.waits;
        self.waited += other.waited;
        self.by_rule.iter_mut().zip(other.by_rule).for_each(|(sum, more)| *sum += more);
        self.ran += other.ran;
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.wakeups += other.wakeups;
        self.migrations += other.migrations;
        self.items += other.items;
        self.timed_items += other.timed_items;
        self.turnaround += other.turnaround;
        self.softirq += other.softirq;
        self.irq += other.irq;
    }
}

/// The waits of a role in numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, schemars::JsonSchema)]
#[cfg_attr(feature = "typescript", derive(ts_rs::TS), ts(rename = "RoleWaits"))]
pub struct Waits {
    /// How many.
    pub count: u64,
    /// Half of them were no longer.
    pub p50_ns: u64,
    /// 99 of 100 were no longer.
    pub p99_ns: u64,
    /// The longest.
    pub max_ns: u64,
}

/// One role over time.
#[derive(Clone, Default, Debug)]
pub(super) struct Course {
    slices: Vec<Sums>,
    pub longest: Nanos,
    pub quantiles: Quantiles,
}

impl Course {
    fn slice(&mut self, index: usize) -> &mut Sums {
        if self.slices.len() <= index {
            self.slices.resize(index + 1, Sums::default());
        }
        &mut self.slices[index]
    }

    /// All waits; `None` without waits.
    pub fn waits(&self) -> Option<Waits> {
        // The upper end of a bucket can be above the longest wait in it.
        let at = |quantile| self.quantiles.at(quantile).map(|ns| ns.0.min(self.longest.0));
        let count = self.slices.iter().map(|slice| slice.waits).sum();
        Some(Waits { count, p50_ns: at(0.5)?, p99_ns: at(0.99)?, max_ns: self.longest.0 })
    }

    fn halve(&mut self) {
        let halved = self.slices.chunks(2).map(|pair| {
            let mut sum = pair[0];
            pair.iter().skip(1).for_each(|more| sum.add(more));
            sum
        });
        self.slices = halved.collect();
    }
}

/// The sums of each role in a trace; a [`Sink`].
#[derive(Debug)]
pub struct Profile {
    /// What counts.
    selection: Selection,
    length: Nanos,
    everyone: Course,
    courses: Vec<(Role, Course)>,
    by_role: FxHashMap<Role, usize>,
    by_actor: Vec<Option<Option<usize>>>,
    span: Nanos,
}

impl Default for Profile {
    fn default() -> Profile {
        Profile::of(Selection::default())
    }
}

impl Profile {
    /// Sums of the selected tasks on the selected CPUs. Rates are of the selected time.
    pub fn of(selection: Selection) -> Profile {
        Profile {
            selection,
            length: SHORTEST,
            everyone: Course::default(),
            courses: Vec::new(),
            by_role: FxHashMap::default(),
            by_actor: Vec::new(),
            span: Nanos::ZERO,
        }
    }

    fn takes(&self, world: &World, task: TaskKey, cpu: Option<CpuId>, (start, end): (Time, Time)) -> bool {
        let task = world.tasks.get(task);
        self.selection.has_task(&task.comm, task.tid)
            && cpu.is_none_or(|cpu| self.selection.has_cpu(cpu))
            && self.selection.has_span(start, end, world.start)
    }

    /// Adds to the sums of an actor's role and of all tasks.
    fn add(&mut self, world: &World, actor: ActorId, at: Time, add: impl Fn(&mut Sums)) {
        let index = self.slice_at(world, at);
        add(self.everyone.slice(index));
        if let Some(role) = self.role(world, actor) {
            add(self.courses[role].1.slice(index));
        }
    }

    /// Adds to each slice the part of something that lies in it, as if it were spread evenly: what still lasts at the end of the trace is otherwise in
    /// the last slice alone, of which a part is missing.
    fn spread(
        &mut self,
        world: &World,
        actor: ActorId,
        (start, end): (Time, Time),
        add: impl Fn(&mut Sums, &dyn Fn(u64) -> u64),
    ) {
        let last = self.slice_at(world, end);
        let first = self.slice_at(world, start).min(last);
        let role = self.role(world, actor);
        let (zero, total) = (self.zero(world), end.since(start).0.max(1));
        // What lies before and after the selected time is in no slice.
        let selected = self.selection.to.map_or(end, |to| to.on(world.start).min(end)).since(start).0;
        let mut before = zero.since(start).0.min(selected);
        for index in first..=last {
            let next = Time(zero.0.saturating_add(self.length.0.saturating_mul(index as u64 + 1)));
            let until = if index == last { selected } else { next.since(start).0.min(selected) };
            let up_to = |amount: u64, time: u64| (u128::from(amount) * u128::from(time) / u128::from(total)) as u64;
            let part = |amount: u64| match (before, until) {
                (0, until) if until == total => amount,
                _ => up_to(amount, until) - up_to(amount, before),
            };
            add(self.everyone.slice(index), &part);
            if let Some(role) = role {
                add(self.courses[role].1.slice(index), &part);
            }
            before = until;
        }
    }

    fn zero(&self, world: &World) -> Time {
        self.selection.from.map_or(world.start, |from| from.on(world.start).max(world.start))
    }

    fn slice_at(&mut self, world: &World, at: Time) -> usize {
        let zero = self.zero(world);
        let end = |at: Time| self.selection.to.map_or(at, |to| to.on(world.start).min(at));
        self.span = self.span.max(end(world.now).since(zero));
        let since = end(at).since(zero).0;
        while since / self.length.0 >= SLICES as u64 {
            self.length = Nanos(self.length.0.saturating_mul(2));
            self.everyone.halve();
            self.courses.iter_mut().for_each(|(_, course)| course.halve());
        }
        (since / self.length.0) as usize
    }

    fn role(&mut self, world: &World, actor: ActorId) -> Option<usize> {
        let index = actor.index();
        if self.by_actor.len() <= index {
            self.by_actor.resize(index + 1, None);
        }
        if let Some(known) = self.by_actor[index] {
            return known;
        }
        let found = Role::of(world.actors.get(actor)).and_then(|role| match self.by_role.get(&role) {
            Some(&known) => Some(known),
            None if self.courses.len() < ROLES => {
                self.courses.push((role.clone(), Course::default()));
                self.by_role.insert(role, self.courses.len() - 1);
                Some(self.courses.len() - 1)
            }
            None => None,
        });
        self.by_actor[index] = Some(found);
        found
    }

    /// All tasks together, then each role.
    pub(super) fn courses(&self) -> impl Iterator<Item = (Role, &Course)> {
        let everyone = std::iter::once((Role::everyone(), &self.everyone));
        everyone.chain(self.courses.iter().map(|(role, course)| (role.clone(), course)))
    }

    /// A course in at most `blocks` parts of equal length, and that length. The incomplete rest is left out: it says nothing
    /// about rates.
    pub(super) fn blocks(&self, course: &Course, blocks: usize) -> (Nanos, Vec<Sums>) {
        let whole = (self.span.0 / self.length.0) as usize;
        let each = whole.div_ceil(blocks).max(1);
        let sums = (0..whole / each).map(|block| {
            let mut sum = Sums::default();
            let slices = course.slices.iter().skip(block * each).take(each);
            slices.for_each(|slice| sum.add(slice));
            sum
        });
        (Nanos(self.length.0 * each as u64), sums.collect())
    }
}

impl Sink for Profile {
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        if !self.takes(world, wait.task, Some(wait.cpu), (wait.start, wait.end)) {
            return;
        }
        let length = wait.length();
        self.add(world, wait.actor, wait.end, |sums| sums.waits += u64::from(wait.ended == WaitEnd::Ran));
        self.spread(world, wait.actor, (wait.start, wait.end), |sums, part| {
            sums.waited += part(length.0);
            for piece in wait.pieces {
                sums.by_rule[piece.rule as usize] += part(piece.length.0);
            }
        });
        let role = self.role(world, wait.actor);
        let courses = std::iter::once(&mut self.everyone).chain(role.map(|role| &mut self.courses[role].1));
        for course in courses {
            course.longest = course.longest.max(length);
            course.quantiles.record(length);
        }
    }

    fn run(&mut self, world: &World, run: &Run) {
        if !self.takes(world, run.task, Some(run.cpu), (run.start, run.end)) {
            return;
        }
        let own = run.length().saturating_sub(run.irq + run.softirq).0;
        self.spread(world, run.actor, (run.start, run.end), |sums, part| sums.ran += part(own));
        self.add(world, run.actor, run.end, |sums| match run.ended {
            RunEnd::Slept | RunEnd::Died => sums.voluntary += 1,
            RunEnd::Preempted { .. } => sums.involuntary += 1,
            RunEnd::Cut => {}
        });
    }

    fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        let wakee = world.tasks.get(wake.wakee);
        if !self.takes(world, wake.wakee, wakee.last_cpu(), (wake.time, wake.time)) {
            return;
        }
        let wakee = wakee.actor;
        self.add(world, wakee, wake.time, |sums| sums.wakeups += 1);
    }

    fn migration(&mut self, world: &World, migration: &Migration) {
        if !self.takes(world, migration.task, None, (migration.time, migration.time)) {
            return;
        }
        let actor = world.tasks.get(migration.task).actor;
        self.add(world, actor, migration.time, |sums| sums.migrations += 1);
    }

    fn interrupt(&mut self, world: &World, interrupt: &Interrupt) {
        // Interrupts are of no task.
        if !self.selection.tasks.is_empty()
            || !self.selection.has_cpu(interrupt.cpu)
            || !self.selection.has_span(interrupt.start, interrupt.end, world.start)
        {
            return;
        }
        let index = self.slice_at(world, interrupt.end);
        let sums = self.everyone.slice(index);
        let length = interrupt.end.since(interrupt.start).0;
        match world.actors.get(interrupt.actor).kind {
            ActorKind::Softirq { .. } => sums.softirq += length,
            // The other recording may have been made without them.
            ActorKind::Vector(_) => {}
            _ => sums.irq += length,
        }
    }

    fn work_item(&mut self, world: &World, item: &WorkItem) {
        let worker = world.tasks.get(item.worker);
        if !self.takes(world, item.worker, worker.last_cpu(), (item.start, item.end)) {
            return;
        }
        let worker = worker.actor;
        self.add(world, worker, item.end, |sums| {
            sums.items += 1;
            if let Some(queued) = item.queued {
                sums.timed_items += 1;
                sums.turnaround += item.end.since(queued).0;
            }
        });
    }
}
