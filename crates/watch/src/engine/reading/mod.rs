//! How things stand: what an engine hands out.

mod histogram;
mod limited_group;
mod role;

use serde::Serialize;
use unstarve_model::{ClockPair, Comm, CpuId, Nanos, Tid};
use unstarve_sched::Rule;

pub use self::histogram::{Bucket, Histogram};
pub use self::limited_group::LimitedGroup;
pub(crate) use self::limited_group::shares;
pub use self::role::{Role, RoleId, RoleKind, VictimClass};

/// Sums since the engine began, and what starves now.
#[derive(Clone, PartialEq, Debug)]
pub struct Reading {
    /// When it was taken: `CLOCK_MONOTONIC` and the wall's clock.
    pub at: ClockPair,
    /// When the engine began to count.
    pub since: ClockPair,
    /// By [`RoleId`]: first those of [`RoleKind::FIXED`], then groups. `None`: the id is free.
    pub roles: Vec<Option<Role>>,
    /// Who waited, who had the CPU, and by which rule; each combination once, none of no time. For each victim their sum is
    /// that of [`Waits::waited`] to the nanosecond.
    pub blame: Vec<Blame>,
    /// Waits by [`RoleId`], as many as `roles`.
    pub waits: Vec<Waits>,
    /// The same by CPU, where a higher class kept somebody of a role from it; each role and CPU once, in their order. Sums of whoever had the id since
    /// the engine began: only what they grow by while a role keeps its id says something.
    pub cpus: Vec<CpuWaits>,
    /// For how long real-time and deadline tasks have had each CPU, by its number; of CPUs beyond the last one, not at all.
    pub real_time: Vec<Nanos>,
    /// The longest waits that last at this moment, longest first: for each CPU the oldest of each role at least, of those that
    /// have lasted longer than the engine was asked to look at. Each of them was confirmed: `/proc` says that the task is
    /// runnable.
    pub oldest: Vec<OldestWait>,
    /// Groups whose CPU time is limited, as far as they are known, and what the kernel has counted of their stops.
    pub limits: Vec<LimitedGroup>,
    /// What could not be counted.
    pub lost: Lost,
    /// What counting costs.
    pub cost: Cost,
}

/// For how long tasks of one role waited while another role's had the CPU by one rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Blame {
    /// Who waited.
    pub victim: RoleId,
    /// Who had the CPU.
    pub occupant: RoleId,
    /// Why.
    pub rule: Rule,
    /// How long, summed up over the waiting tasks.
    pub ns: Nanos,
}

/// Waits of one role.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Waits {
    /// All of them, those that last included as far as they have come.
    pub waited: Nanos,
    /// For how long others were preferred while tasks of the role waited: of all that waited for one CPU at once each moment once, so that
    /// it is no longer than who was preferred had the CPU. What threads of the role wait because another one of it was woken and pushed
    /// them off is not in it.
    pub preferred: Nanos,
    /// Waits that are over.
    pub count: u64,
    /// Those that are over, by length.
    pub histogram: Histogram,
    /// Tasks that wait now.
    pub waiting: u32,
    /// For how long limits have stopped tasks of the role, by the kernel's own counters. It counts a stop when it ends, so that this may
    /// have grown by more than what is blamed on [`Rule::Throttled`] yet.
    pub stopped: Nanos,
}

/// What tasks of one role waited for one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuWaits {
    /// Which.
    pub cpu: CpuId,
    /// Who waited.
    pub role: RoleId,
    /// All of it.
    pub waited: Nanos,
    /// The part of it in which a task of a higher class had the CPU.
    pub by_class: Nanos,
}

/// A task, as people know it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct TaskId {
    /// The thread.
    pub tid: Tid,
    /// Its process.
    pub tgid: Tid,
    /// Its name.
    pub comm: Comm,
}

/// A wait that lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct OldestWait {
    /// Where.
    pub cpu: CpuId,
    /// Who waits.
    pub task: TaskId,
    /// As what it is counted.
    pub role: RoleId,
    /// For how long.
    pub ns: Nanos,
    /// Who has the CPU now, where that is known and a task.
    pub occupant: Option<TaskId>,
    /// As what that one is counted.
    pub occupant_role: RoleId,
    /// For how long that one has had the CPU without a break; nothing where that is not known.
    pub occupied: Nanos,
}

/// What could not be counted, all since the engine began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Lost {
    /// Tasks that could not be followed because a table was full: their waits are missing. Also how often a task was not found as it took a CPU.
    pub untracked_tasks: u64,
    /// Events that the kernel dropped.
    pub events: u64,
    /// Switches that the kernel did not report, seen by what came after. Waits that they touch end when they were last certain.
    pub missing_switches: u64,
    /// Waits that last according to events, and that `/proc` or an idle CPU disproved.
    pub disbelieved: u64,
    /// Groups that are counted as [`RoleKind::Other`] because there is no role left, at this moment.
    pub groups_in_other: u64,
}

/// What counting costs, all since the engine began. `None`: not known.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Cost {
    /// Time that the BPF programs ran, if the kernel measures it (`kernel.bpf_stats_enabled`).
    pub programs: Option<Nanos>,
    /// How often they ran, likewise.
    pub runs: Option<u64>,
    /// CPU time of this process.
    pub process: Nanos,
}

impl Reading {
    /// What a role waited for each CPU, in their order.
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

    /// The same of all CPUs together.
    pub(crate) fn real_time_of_all_since(&self, then: &Reading) -> Nanos {
        (0..self.real_time.len() as u32).map(|cpu| self.real_time_since(then, CpuId(cpu))).sum()
    }

    /// The role of an id.
    pub fn role(&self, id: RoleId) -> Option<&Role> {
        self.roles.get(id.index())?.as_ref()
    }

    /// The id of the role called so ([`Role::name`]).
    pub fn find(&self, kind: RoleKind, cgroup: Option<&str>) -> Option<RoleId> {
        let is = |role: &Role| role.kind == kind && role.cgroup.as_deref() == cgroup;
        let index = self.roles.iter().position(|role| role.as_ref().is_some_and(is))?;
        u8::try_from(index).ok().map(RoleId)
    }

    /// Without the names of this process where it has a CPU. Who reads the counters runs on some CPU at that moment, so that it
    /// would be named for what another task did until then.
    #[must_use]
    pub fn without_occupant(mut self, process: Tid) -> Reading {
        for wait in &mut self.oldest {
            wait.occupant = wait.occupant.filter(|task| task.tgid != process);
        }
        self
    }

    /// Whether it has the roles and the combinations of victim, occupant and rule of another one, and no others: mostly it does.
    pub fn has_combinations_of(&self, other: &Reading) -> bool {
        let key = |row: &Blame| (row.victim, row.occupant, row.rule);
        self.roles == other.roles && self.blame.iter().map(key).eq(other.blame.iter().map(key))
    }

    /// All that a role was kept waiting, by the pieces.
    pub fn blamed(&self, victim: RoleId) -> Nanos {
        self.blame.iter().filter(|blame| blame.victim == victim).map(|blame| blame.ns).sum()
    }
}

/// Nobody has waited for anything to speak of since the last reading.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Quiet {
    /// Until then.
    pub at: ClockPair,
    /// [`Reading::real_time`] at that time.
    pub real_time: Vec<Nanos>,
}

/// Whether a rule prefers the occupant to who waits.
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
