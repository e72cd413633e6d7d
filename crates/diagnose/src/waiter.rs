//! The kind of waiter that a task is in the verdict table.

use unstarve_model::{Nanos, Policy};
use unstarve_sched::{KernelThread, Rule};
use unstarve_timeline::ActorId;

use crate::case::Case;
use crate::finding::impact;
use crate::ledger::WORST_WINDOW;
use crate::verdict::{Cause, Cost, Plight, Waiter};

/// Work of kworkers that may run late without effect: statistics, shrinking of caches, internal timers (`mm/vmstat.c`,
/// `kernel/sched/psi.c`, `mm/slab.c`, `net/core/neighbour.c`, `kernel/rcu/tree.c`, `security/keys/gc.c`).
const HOUSEKEEPING_WORK: [&str; 16] = [
    "cache_reap",
    "check_corruption",
    "clocksource_watchdog_work",
    "delayed_vfree_work",
    "drain_vmap_area_work",
    "free_obj_work",
    "hrtick_work",
    "key_garbage_collector",
    "kfree_rcu_monitor",
    "lru_add_drain_per_cpu",
    "neigh_managed_work",
    "neigh_periodic_work",
    "psi_avgs_work",
    "toggle_allocation_gate",
    "vmstat_shepherd",
    "vmstat_update",
];
/// The load weight of nice 19 (SCHED_IDLE: 3). A task with at most this weight is configured to run last.
const WEIGHT_OF_NICE_19: u32 = 15;
/// Kernel threads that run at nice 19, whether the recording shows it or not (`mm/khugepaged.c`, `mm/ksm.c`).
const LAST_BY_DESIGN: [&str; 3] = ["khugepaged", "ksmd", "kdamond"];

impl Waiter {
    /// A kernel thread of the fair class by its name, kind and, for a worker, work. Counters in the kernel have no more than
    /// that.
    pub fn of_kernel_thread(name: &str, kind: Option<KernelThread>, work: Option<&str>) -> Waiter {
        match LAST_BY_DESIGN.iter().any(|last| name.starts_with(last)) {
            true => Waiter::AskedToBeLast,
            false => Waiter::of_kind(kind, work),
        }
    }

    fn of_kind(kind: Option<KernelThread>, work: Option<&str>) -> Waiter {
        match kind {
            Some(kind) if kind.is_worker() => match work {
                Some(function) if !HOUSEKEEPING_WORK.contains(&function) => Waiter::ServingThread,
                _ => Waiter::HousekeepingThread,
            },
            // The stop class works only for the kernel.
            Some(KernelThread::Migration) | None => Waiter::HousekeepingThread,
            Some(_) => Waiter::ServingThread,
        }
    }
}

impl Case<'_> {
    /// The kind of waiter for the verdict table.
    pub fn waiter(&self, id: ActorId) -> Waiter {
        let actor = self.actor(id);
        if matches!(actor.policy(), Some(Policy::Rt | Policy::Deadline)) {
            return Waiter::RealTime;
        }
        let last = actor.own_weight().is_some_and(|weight| weight <= WEIGHT_OF_NICE_19);
        if last {
            return Waiter::AskedToBeLast;
        }
        if !self.is_kernel_thread(id) && self.kernel_thread(id).is_none() {
            return if self.is_of_idle_group(id) { Waiter::AskedToBeLast } else { Waiter::Program };
        }
        let work = self.work(id).map(|work| work.function);
        let name = self.name(id);
        // A program with the name of a kernel thread gets no special treatment.
        if !self.is_kernel_thread(id) {
            return Waiter::of_kind(self.kernel_thread(id), work.as_deref());
        }
        Waiter::of_kernel_thread(&name, self.kernel_thread(id), work.as_deref())
    }

    /// Whether its cgroup is configured to run last (`cpu.idle`), whatever the nice of the task.
    fn is_of_idle_group(&self, id: ActorId) -> bool {
        self.snapshot.zip(self.first_tid(id)).is_some_and(|(snapshot, tid)| snapshot.idle_cgroup_of(tid).is_some())
    }

    /// The loss of a victim by one cause, of which `longest` was in one wait.
    pub fn plight(&self, victim: ActorId, cause: Cause, longest: Nanos, lost: Nanos) -> Plight {
        let waiter = self.waiter(victim);
        let period = (waiter == Waiter::RealTime && !self.is_kernel_thread(victim)).then(|| self.own_period(victim));
        Plight::new(waiter, cause, longest, lost, self.span()).at_cost(self.cost(victim, lost)).every(period.flatten())
    }

    /// The share of the victim's worst ten seconds that it lost to these occupants by this rule; as a share of a long recording
    /// it may be small.
    pub fn share_of_window(&self, victim: ActorId, occupants: &[ActorId], rule: Rule) -> f64 {
        let most = |occupant: ActorId| {
            self.ledger.worst_windows.get(&(victim, occupant, rule)).map_or(Nanos::ZERO, |window| window.most())
        };
        let by_these: Nanos = occupants.iter().map(|occupant| most(*occupant)).sum();
        let threads = f64::from(self.actor(victim).members.max(1));
        // The worst ten seconds of each occupant may be different ones.
        by_these.min(most(ActorId::OTHERS)).share_of(WORST_WINDOW) / threads
    }

    /// Whether the victim's loss had an effect. A program's own waits always have.
    pub fn cost(&self, victim: ActorId, lost: Nanos) -> Cost {
        let felt = match self.waiter(victim) {
            Waiter::Program | Waiter::AskedToBeLast => false,
            Waiter::RealTime if !self.is_kernel_thread(victim) => impact::is_paid_for(self, victim, lost),
            _ if lost == Nanos::ZERO => false,
            _ => self.ledger.account(victim).is_some_and(|account| impact::is_felt(self, victim, account, lost)),
        };
        if felt { Cost::Felt } else { Cost::NotSeen }
    }

    /// The steady interval at which it runs.
    fn own_period(&self, id: ActorId) -> Option<Nanos> {
        let account = self.ledger.account(id)?;
        account.runs.episodes.period(self.world.start, self.world.now).map(|period| period.interval)
    }
}
