//! The reading: what an engine returns.

mod histogram;
mod limited_group;
mod place;
mod role;
mod workload;

use serde::Serialize;
use unstarve_model::{ClockPair, Comm, CpuId, Nanos, Tid};
use unstarve_sched::Rule;

pub use self::histogram::{Bucket, Histogram};
pub use self::limited_group::LimitedGroup;
pub(crate) use self::limited_group::shares;
pub use self::place::Place;
pub(crate) use self::place::place_of;
pub use self::role::{Role, RoleId, RoleKind, VictimClass};
pub use self::workload::{Workload, WorkloadSums, Workloads};

/// Sums since the engine started, and the tasks that starve now.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// When it was taken: `CLOCK_MONOTONIC` and wall clock.
    pub at: ClockPair,
    /// When the engine started to count.
    pub since: ClockPair,
    /// By [`RoleId`]: first those of [`RoleKind::FIXED`], then groups. `None`: the id is free.
    pub roles: Vec<Option<Role>>,
    /// Waits by victim, occupant and rule; each combination once, none with zero time. For each victim they add up to
    /// [`Waits::waited`], to the nanosecond.
    pub blame: Vec<Blame>,
    /// Waits by [`RoleId`], as many as `roles`.
    pub waits: Vec<Waits>,
    /// The same by CPU, for CPUs on which a higher class kept tasks of a role waiting; each role and CPU once, sorted. The sums include earlier
    /// groups with the same id: only their growth while a role keeps its id is meaningful.
    pub cpus: Vec<CpuWaits>,
    /// For how long real-time and deadline tasks have had each CPU, by CPU number; zero for CPUs beyond the last.
    pub real_time: Vec<Nanos>,
    /// The real-time program that has had a CPU for longer in about the last second than all other such programs, for CPUs that have one; sorted
    /// by CPU.
    pub real_time_tasks: Vec<(CpuId, TaskId)>,
    /// The longest waits in progress, longest first: for each CPU at least the oldest of each role, among those longer than
    /// the configured minimum. Each one was confirmed: `/proc` shows the task as runnable.
    pub oldest: Vec<OldestWait>,
    /// Groups with a CPU quota, as far as they are known, and the kernel's counters of their throttling.
    pub limits: Vec<LimitedGroup>,
    /// Waits by pod and unit.
    pub workloads: Workloads,
    /// What could not be observed.
    pub lost: Lost,
    /// The cost of counting.
    pub cost: Cost,
}

/// For how long tasks of one role waited while tasks of another role had the CPU by one rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Blame {
    /// The waiting role.
    pub victim: RoleId,
    /// The role that had the CPU.
    pub occupant: RoleId,
    /// Why it had the CPU.
    pub rule: Rule,
    /// Duration, summed over the waiting tasks.
    pub ns: Nanos,
}

/// Waits of one role.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Waits {
    /// Total time, including waits in progress up to now.
    pub waited: Nanos,
    /// For how long other tasks were preferred while tasks of the role waited. However many tasks wait for a CPU at once, each moment counts once,
    /// so that this is no longer than the preferred tasks had the CPU. Waits of threads behind a thread of their own role that
    /// preempted them on wakeup are not included.
    pub preferred: Nanos,
    /// Number of finished waits.
    pub count: u64,
    /// Finished waits by length.
    pub histogram: Histogram,
    /// Number of tasks that wait now.
    pub waiting: u32,
    /// For how long quotas have throttled tasks of the role, by the kernel's counters. The kernel counts a throttling when it ends, so that this
    /// can grow by more than what is already blamed on [`Rule::Throttled`].
    pub stopped: Nanos,
}

/// Waits of one role for one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuWaits {
    /// The CPU.
    pub cpu: CpuId,
    /// The waiting role.
    pub role: RoleId,
    /// Total time.
    pub waited: Nanos,
    /// The part of it in which a task of a higher class had the CPU.
    pub by_class: Nanos,
}

/// The ids and the name of a task.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct TaskId {
    /// The thread.
    pub tid: Tid,
    /// Its process.
    pub tgid: Tid,
    /// Its name.
    pub comm: Comm,
}

/// A wait in progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct OldestWait {
    /// The CPU that the task waits for.
    pub cpu: CpuId,
    /// The waiting task.
    pub task: TaskId,
    /// The role of the waiting task.
    pub role: RoleId,
    /// Duration so far.
    pub ns: Nanos,
    /// The task that has the CPU now; `None` if unknown or not a task.
    pub occupant: Option<TaskId>,
    /// The role of the occupant.
    pub occupant_role: RoleId,
    /// For how long the occupant has had the CPU without a break; zero if unknown.
    pub occupied: Nanos,
}

impl OldestWait {
    /// Whether the occupant is of that role and has had the CPU for most of the wait. Otherwise it is any task of its role that happens to run now.
    pub(crate) fn is_mostly_behind(&self, role: RoleId) -> bool {
        self.occupant_role == role && self.occupied.0.saturating_mul(2) >= self.ns.0
    }
}

/// Counts of what could not be observed, since the engine started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, schemars::JsonSchema)]
pub struct Lost {
    /// Tasks that could not be tracked because a table was full: their waits are missing. Also counts tasks not found when they got a CPU.
    pub untracked_tasks: u64,
    /// Events that the kernel dropped.
    pub events: u64,
    /// Context switches that the kernel did not report, inferred from later events. Waits affected by them end when they were last certain.
    pub missing_switches: u64,
    /// Waits in progress according to events that `/proc` or an idle CPU disproved.
    pub disbelieved: u64,
    /// Groups now counted as [`RoleKind::Other`] because no role is left.
    pub groups_in_other: u64,
}

/// The cost of counting since the engine started. `None`: unknown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Cost {
    /// CPU time of the BPF programs, if the kernel measures it (`kernel.bpf_stats_enabled`).
    pub programs: Option<Nanos>,
    /// Number of their runs, if the kernel counts them.
    pub runs: Option<u64>,
    /// CPU time of this process.
    pub process: Nanos,
}

impl Reading {
    /// Waits of a role per CPU, sorted by CPU.
    pub(crate) fn cpus_of(&self, role: RoleId) -> &[CpuWaits] {
        let from = self.cpus.partition_point(|row| row.role < role);
        let (_, rows) = self.cpus.split_at(from);
        rows.split_at(rows.partition_point(|row| row.role == role)).0
    }

    /// For how long real-time and deadline tasks had a CPU since an earlier reading.
    pub(crate) fn real_time_since(&self, then: &Reading, cpu: CpuId) -> Nanos {
        let of = |reading: &Reading| reading.real_time.get(cpu.index()).copied().unwrap_or(Nanos::ZERO);
        of(self).saturating_sub(of(then))
    }

    /// The real-time program that has had most of a CPU lately.
    pub(crate) fn real_time_task(&self, cpu: CpuId) -> Option<TaskId> {
        let index = self.real_time_tasks.binary_search_by_key(&cpu, |(cpu, _)| *cpu).ok()?;
        self.real_time_tasks.get(index).map(|(_, task)| *task)
    }

    /// The same, summed over all CPUs.
    pub(crate) fn real_time_of_all_since(&self, then: &Reading) -> Nanos {
        (0..self.real_time.len() as u32).map(|cpu| self.real_time_since(then, CpuId(cpu))).sum()
    }

    /// The role with this id.
    pub fn role(&self, id: RoleId) -> Option<&Role> {
        self.roles.get(id.index())?.as_ref()
    }

    /// The id of the role of this kind and cgroup.
    pub fn find(&self, kind: RoleKind, cgroup: Option<&str>) -> Option<RoleId> {
        let is = |role: &Role| role.kind == kind && role.cgroup.as_deref() == cgroup;
        let index = self.roles.iter().position(|role| role.as_ref().is_some_and(is))?;
        u8::try_from(index).ok().map(RoleId)
    }

    /// Removes threads of this process as occupants. The process that reads the counters has a CPU at that moment, and would be named
    /// for a wait that another task caused.
    #[must_use]
    pub fn without_occupant(mut self, process: Tid) -> Reading {
        for wait in &mut self.oldest {
            wait.occupant = wait.occupant.filter(|task| task.tgid != process);
        }
        self
    }

    /// Whether it has the same roles and combinations of victim, occupant and rule as another reading, which is the usual case.
    pub fn has_combinations_of(&self, other: &Reading) -> bool {
        let key = |row: &Blame| (row.victim, row.occupant, row.rule);
        self.roles == other.roles && self.blame.iter().map(key).eq(other.blame.iter().map(key))
    }

    /// Total waits of a role, summed over occupants and rules.
    pub fn blamed(&self, victim: RoleId) -> Nanos {
        self.blame.iter().filter(|blame| blame.victim == victim).map(|blame| blame.ns).sum()
    }
}

/// Almost nothing has waited since the last reading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quiet {
    /// The end of that time.
    pub at: ClockPair,
    /// [`Reading::real_time`] at that time.
    pub real_time: Vec<Nanos>,
}

/// Whether a rule prefers the occupant to the waiting task.
pub fn is_precedence(rule: Rule) -> bool {
    match rule {
        Rule::Irq
        | Rule::Softirq
        | Rule::Throttled
        | Rule::Class
        | Rule::Priority
        | Rule::Order
        | Rule::NotPreempted
        | Rule::WakeupPreemption
        | Rule::Weight
        | Rule::Count => true,
        Rule::Unknown | Rule::Unranked | Rule::Idle | Rule::Fair => false,
    }
}
