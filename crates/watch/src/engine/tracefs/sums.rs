//! Sums up the waits of a timeline by role.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;
use unstarve_model::{Comm, NameId, Nanos, Policy, Prio, Tid, Time};
use unstarve_sched::counted::{Yields, as_counted, place};
use unstarve_sched::{KernelThread, Rule};
use unstarve_timeline::{
    Actor, ActorId, ActorKind, Migration, OnCpu, Run, Sink, TaskKey, Timeline, Wait, WaitEnd, WorkItem, World,
};

use super::at_once::AtOnce;
use super::workload_sums::{Occupant, Stage, WorkloadTotals};
use crate::engine::proc::top_of;
use crate::engine::reading::{OldestWait, RoleId, RoleKind, TaskId, Workloads, is_precedence};
use crate::engine::reading::{Place, place_of};
use crate::engine::role_table::RoleTable;
use crate::engine::task_lookup::TaskLookup;
use crate::engine::totals::Totals;

/// Maximum tasks whose group is cached.
const TASKS: usize = 1 << 16;
/// Tasks of one name whose workloads are compared; of more the workload is unknown.
const MOST_TASKS: usize = 16;
/// Maximum waits in progress that are reported.
const OLDEST: usize = 64;
/// A task's cached group is valid for this long.
const TRUSTED: Duration = Duration::from_secs(5);
/// Within this time after its wakeup, a task migrates to the CPU where it waits.
const PLACED_WITHIN: Nanos = Nanos::from_millis(1);

/// Sums of finished waits.
pub(crate) struct Sums {
    pub totals: Totals,
    workloads: WorkloadTotals,
    at_once: AtOnce,
    roles: Roles,
}

/// Maps tasks to roles.
struct Roles {
    lookup: Box<dyn TaskLookup>,
    /// Ids of groups by path.
    groups: FxHashMap<String, RoleId>,
    tasks: FxHashMap<Tid, (RoleId, Option<Arc<Place>>)>,
    /// Workloads by cgroup, so that all tasks of one share it.
    places: FxHashMap<String, Arc<Place>>,
    /// Whether tasks with the name of a kernel thread are kernel threads.
    natures: FxHashMap<Tid, bool>,
    /// Whether tasks belong to observers.
    watching: FxHashMap<(ActorId, Tid), bool>,
    asked: Instant,
    /// The role of workers by their last work item.
    workers: FxHashMap<ActorId, RoleKind>,
    /// When tasks last migrated while waiting.
    moved: FxHashMap<TaskKey, Time>,
}

impl Sums {
    /// Empty sums, with `lookup` to find the tasks' groups.
    pub fn new(lookup: Box<dyn TaskLookup>) -> Sums {
        let roles = Roles {
            lookup,
            groups: FxHashMap::default(),
            tasks: FxHashMap::default(),
            places: FxHashMap::default(),
            natures: FxHashMap::default(),
            watching: FxHashMap::default(),
            asked: Instant::now(),
            workers: FxHashMap::default(),
            moved: FxHashMap::default(),
        };
        Sums { totals: Totals::default(), workloads: WorkloadTotals::default(), at_once: AtOnce::default(), roles }
    }

    /// Groups were created or removed: drops the cached roles.
    pub fn renew(&mut self, table: &RoleTable) {
        self.roles.groups = table.paths();
        self.roles.ask_anew();
    }

    /// Drops cached roles that are too old: tasks move to other groups, end, and their ids are reused without a recorded event.
    pub fn ask_anew_if_due(&mut self) {
        if self.roles.asked.elapsed() >= TRUSTED {
            self.roles.ask_anew();
        }
    }
}

impl Roles {
    fn ask_anew(&mut self) {
        self.tasks.clear();
        self.places.clear();
        self.natures.clear();
        self.asked = Instant::now();
    }

    /// The role of a task of this actor.
    fn of(&mut self, world: &World, tid: Option<Tid>, actor: ActorId) -> RoleId {
        let known = world.actors.get(actor);
        let (comm, prio) = match known.kind {
            ActorKind::Unknown | ActorKind::Stopped => return fixed(RoleKind::Unknown),
            ActorKind::Idle => return fixed(RoleKind::Idle),
            ActorKind::Irq { .. } | ActorKind::Vector(_) | ActorKind::Softirq { .. } => return fixed(RoleKind::Kernel),
            ActorKind::Others => return fixed(RoleKind::Other),
            ActorKind::Tasks { comm, prio, .. } => (comm, prio),
        };
        if self.is_kernel(known, tid) {
            return fixed(self.workers.get(&actor).copied().unwrap_or_else(|| of_kernel(&comm)));
        }
        if is_real_time(prio) {
            return fixed(RoleKind::RealTime);
        }
        match tid.or_else(|| known.tids.first().copied()) {
            Some(tid) => self.of_program(tid).0,
            None => fixed(RoleKind::Other),
        }
    }

    /// Whether the task, or the actor's first task, is a kernel thread: a name alone proves nothing.
    fn is_kernel(&mut self, actor: &Actor, tid: Option<Tid>) -> bool {
        if !actor.comm().is_some_and(|comm| KernelThread::is_name_of_one(&comm)) {
            return actor.confirmed_kernel;
        }
        let Some(tid) = tid.or_else(|| actor.tids.first().copied()).filter(|_| actor.is_kernel().is_none()) else {
            return actor.confirmed_kernel;
        };
        if self.natures.len() >= TASKS {
            self.natures.clear();
        }
        *self.natures.entry(tid).or_insert_with(|| self.lookup.is_kernel_thread(tid))
    }

    /// Whether the task waited for one CPU only, from its wakeup on: if it migrated later, the split between the CPUs is unknown.
    fn was_all_there(&self, wait: &Wait<'_>) -> bool {
        let moved = self.moved.get(&wait.task).filter(|_| wait.migrations > 0);
        moved.is_none_or(|at| at.since(wait.start) <= PLACED_WITHIN)
    }

    fn identity(&self, tid: Tid, comm: Comm) -> Option<TaskId> {
        Some(TaskId { tid, tgid: self.lookup.process_of(tid)?, comm })
    }

    /// The role and the workload of a program.
    fn of_program(&mut self, tid: Tid) -> (RoleId, Option<Arc<Place>>) {
        if let Some(known) = self.tasks.get(&tid) {
            return known.clone();
        }
        let group = self.lookup.group(tid);
        let place = group.as_ref().and_then(|group| self.place(group));
        let role = group
            .as_deref()
            .and_then(top_of)
            .and_then(|top| self.groups.get(&top).copied())
            .unwrap_or(fixed(RoleKind::Other));
        if self.tasks.len() >= TASKS {
            self.tasks.clear();
        }
        self.tasks.insert(tid, (role, place.clone()));
        (role, place)
    }

    fn place(&mut self, group: &str) -> Option<Arc<Place>> {
        if let Some(known) = self.places.get(group) {
            return Some(Arc::clone(known));
        }
        let place = Some(place_of(group)).filter(|place| *place != Place::default())?;
        if self.places.len() >= TASKS {
            self.places.clear();
        }
        let place = Arc::new(place);
        self.places.insert(group.to_owned(), Arc::clone(&place));
        Some(place)
    }

    /// The workload of a task, or of an actor if all its tasks are of one.
    fn workload(&mut self, world: &World, tid: Option<Tid>, actor: ActorId) -> Option<Arc<Place>> {
        let known = world.actors.get(actor);
        if !matches!(known.kind, ActorKind::Tasks { .. }) || self.is_kernel(known, tid) {
            return None;
        }
        let tids = tid.map_or(known.tids.as_slice(), |_| &[]);
        let first = self.of_program(tid.or_else(|| tids.first().copied())?).1;
        let is_same = tids.len() <= MOST_TASKS && tids.iter().skip(1).all(|tid| self.of_program(*tid).1 == first);
        first.filter(|_| is_same)
    }

    /// The role of the waiting task.
    fn of_waiting(&mut self, world: &World, wait: &Wait<'_>) -> RoleId {
        let tid = world.tasks.get(wait.task).tid;
        let comm = world.actors.get(wait.actor).comm();
        if self.watching.len() >= TASKS {
            self.watching.clear();
        }
        let lookup = &self.lookup;
        let only_watches = self
            .watching
            .entry((wait.actor, tid))
            .or_insert_with(|| comm.is_some_and(|comm| lookup.only_watches(tid, comm)));
        if *only_watches { fixed(RoleKind::Unknown) } else { self.of(world, Some(tid), wait.actor) }
    }

    /// Adds a wait; returns the role, and for how long other tasks were preferred.
    fn count(
        &mut self,
        totals: &mut Totals,
        workloads: &mut WorkloadTotals,
        world: &World,
        wait: &Wait<'_>,
        stage: Stage,
    ) -> (RoleId, u64) {
        let when = (stage, wait.end);
        let own = self.workload(world, Some(world.tasks.get(wait.task).tid), wait.actor);
        workloads.waits(own.as_ref(), when, wait.length());
        let victim = self.of_waiting(world, wait);
        let prio = world.actors.get(wait.actor).prio();
        let yields = prio.map_or(Yields::ToNobody, Yields::of);
        let has_reservation = prio.is_some_and(|prio| prio.policy() == Policy::Deadline);
        let (mut by_class, mut preferred) = (0_u64, 0_u64);
        for piece in wait.pieces {
            let occupant = self.of(world, None, piece.occupant);
            let behind = match world.actors.get(piece.occupant).kind {
                ActorKind::Idle | ActorKind::Stopped => Occupant::Nobody,
                _ => Occupant::Workload(self.workload(world, None, piece.occupant)),
            };
            workloads.waits_behind(own.as_ref(), when, &behind, piece.length);
            let is_alone = !is_group(victim) || occupant == victim;
            let rule = as_counted(piece.rule, yields, is_alone, has_reservation);
            totals.add((victim.index(), occupant.index(), place(rule)), piece.length.0);
            by_class += if rule.is_precedence() { piece.length.0 } else { 0 };
            // Threads of a pool that preempt each other on wakeup are of the same role.
            let is_sibling = rule == Rule::WakeupPreemption && occupant == victim;
            preferred += if is_precedence(rule) && !is_sibling { piece.length.0 } else { 0 };
        }
        if self.was_all_there(wait) {
            totals.add_on_cpu(victim.index(), wait.cpu.0, wait.length().0, by_class);
        }
        let role = &mut totals.roles[victim.index()];
        role.waited += wait.length().0;
        if wait.ended == WaitEnd::Ran {
            role.ended += 1;
            role.histogram.add(wait.length(), 1);
        } else {
            role.waiting += 1;
        }
        (victim, preferred)
    }
}

/// Adds a run of a real-time task to the CPU's sum, and of a program to what it had lately.
fn count_run(totals: &mut Totals, roles: &mut Roles, world: &World, run: &Run) {
    if !world.actors.get(run.actor).prio().is_some_and(is_real_time) {
        return;
    }
    totals.add_real_time(run.cpu.index(), run.length().0);
    let task = world.tasks.get(run.task);
    if roles.of(world, Some(task.tid), run.actor) == fixed(RoleKind::RealTime)
        && let Some(task) = roles.identity(task.tid, task.comm)
    {
        totals.recent_mut(run.cpu).add(task, run.length(), run.end);
    }
}

impl Sink for Sums {
    fn run(&mut self, world: &World, run: &Run) {
        count_run(&mut self.totals, &mut self.roles, world, run);
    }

    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let (role, preferred) = self.roles.count(&mut self.totals, &mut self.workloads, world, wait, Stage::Over);
        let new = self.at_once.add(role.index(), wait.cpu.0, (wait.start, wait.end), preferred);
        self.totals.roles[role.index()].preferred += new;
    }

    fn migration(&mut self, world: &World, migration: &Migration) {
        if world.tasks.get(migration.task).waiting_since().is_some() {
            // A wait can be reported after the next one has begun: so entries are not removed when a wait ends.
            if self.roles.moved.len() >= TASKS {
                self.roles.moved.clear();
            }
            self.roles.moved.insert(migration.task, migration.time);
        }
    }

    fn work_item(&mut self, world: &World, item: &WorkItem) {
        let actor = world.tasks.get(item.worker).actor;
        match item.function.and_then(|function| of_function(world, function)) {
            Some(kind) => self.roles.workers.insert(actor, kind),
            None => self.roles.workers.remove(&actor),
        };
    }
}

/// Sums that include waits in progress.
pub(crate) struct Lasting<'a> {
    totals: Totals,
    /// Those of finished waits: which workloads there are stays the same from reading to reading.
    workloads: &'a mut WorkloadTotals,
    /// Finished waits; and the same with waits in progress, for each role and CPU that has one.
    over: &'a AtOnce,
    at_once: AtOnce,
    roles: &'a mut Roles,
    from: Nanos,
    oldest: Vec<OldestWait>,
}

impl<'a> Lasting<'a> {
    pub fn of(sums: &'a mut Sums, from: Nanos) -> Lasting<'a> {
        let (totals, at_once) = (sums.totals.clone(), AtOnce::default());
        let workloads = &mut sums.workloads;
        workloads.begin_reading();
        Lasting { totals, workloads, over: &sums.at_once, at_once, roles: &mut sums.roles, from, oldest: Vec::new() }
    }

    /// All sums, and the longest waits.
    pub fn finish(mut self, timeline: &Timeline) -> (Totals, Workloads, Vec<OldestWait>) {
        self.oldest.sort_by_key(|wait| std::cmp::Reverse(wait.ns));
        self.oldest.truncate(OLDEST);
        let world = timeline.world();
        let waits_there =
            |tid: Tid| world.tasks.find(tid).is_some_and(|task| timeline.waits_beside_idle(world.tasks.get(task)));
        for wait in &mut self.oldest {
            match timeline.on_cpus().find(|(cpu, _)| *cpu == wait.cpu) {
                Some((_, OnCpu::Task { task, since })) => {
                    wait.occupied = world.now.since(since);
                    let task = world.tasks.get(task);
                    wait.occupant_role = self.roles.of(world, Some(task.tid), task.actor);
                    wait.occupant = self.roles.identity(task.tid, task.comm);
                }
                // Otherwise the idle CPU may have run the task.
                Some((_, OnCpu::Idle)) if waits_there(wait.task.tid) => wait.occupant_role = fixed(RoleKind::Idle),
                _ => {}
            }
        }
        (self.totals, self.workloads.report(), self.oldest)
    }
}

impl Sink for Lasting<'_> {
    fn run(&mut self, world: &World, run: &Run) {
        count_run(&mut self.totals, self.roles, world, run);
    }

    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        let (role, preferred) = self.roles.count(&mut self.totals, self.workloads, world, wait, Stage::Lasting);
        self.at_once.begin_with(self.over, role.index(), wait.cpu.0);
        let new = self.at_once.add(role.index(), wait.cpu.0, (wait.start, wait.end), preferred);
        self.totals.roles[role.index()].preferred += new;
        let task = world.tasks.get(wait.task);
        if wait.ended != WaitEnd::Ran
            && wait.length() >= self.from
            && let Some(task) = self.roles.identity(task.tid, task.comm)
        {
            let occupant_role = fixed(RoleKind::Unknown);
            let (cpu, ns) = (wait.cpu, wait.length());
            let occupied = Nanos::ZERO;
            self.oldest.push(OldestWait { cpu, task, role, ns, occupant: None, occupant_role, occupied });
        }
    }
}

fn is_group(role: RoleId) -> bool {
    role.index() >= RoleKind::FIXED.len()
}

fn fixed(kind: RoleKind) -> RoleId {
    kind.fixed_id().unwrap_or(RoleId(0))
}

fn is_real_time(prio: Prio) -> bool {
    prio.policy() > Policy::Fair
}

/// The role of a kernel thread by name. Must match `kernel_role` of bpf/roles.h.
fn of_kernel(comm: &Comm) -> RoleKind {
    let name = comm.as_bytes();
    let begins = |text: &str| name.starts_with(text.as_bytes());
    match () {
        () if begins("kworker/") => RoleKind::Kworker,
        () if begins("ksoftirq") => RoleKind::Ksoftirqd,
        () if begins("rcu") => RoleKind::Rcu,
        () if ["jbd2/", "xfsaild/", "kswapd"].iter().any(|text| begins(text)) => RoleKind::Storage,
        () if name == b"nfsd" => RoleKind::Nfsd,
        () => RoleKind::Kernel,
    }
}

fn of_function(world: &World, function: NameId) -> Option<RoleKind> {
    RoleKind::of_work(world.names.get(function))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_beyond_the_fixed_roles() {
        assert!(!is_group(fixed(RoleKind::Kernel)) && !is_group(fixed(RoleKind::Other)) && is_group(RoleId(20)));
    }

    #[test]
    fn kernel_threads_have_the_roles_that_the_programs_give_them() {
        let role = |name: &str| of_kernel(&Comm::from(name));
        assert_eq!(role("kworker/0:1H"), RoleKind::Kworker);
        assert_eq!(role("ksoftirqd/3"), RoleKind::Ksoftirqd);
        assert_eq!(role("rcuog/2"), RoleKind::Rcu);
        assert_eq!(role("jbd2/sda1-8"), RoleKind::Storage);
        assert_eq!(role("nfsd"), RoleKind::Nfsd);
        assert_eq!(role("nfsd4_callbacks"), RoleKind::Kernel);
        assert_eq!(role("migration/0"), RoleKind::Kernel);
    }
}
