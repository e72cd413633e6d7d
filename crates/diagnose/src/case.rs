//! Read-only input of all findings: the ledger, the world and the host snapshot, with lookups by actor.

use rustc_hash::{FxHashMap, FxHashSet};
use unstarve_facts::{ExtScheduler, Facts, Poller, Snapshot};
use unstarve_model::{Comm, CpuId, Loss, Nanos, Policy, Prio, SchedPolicy, Tid, Time, WallClock, clean};
use unstarve_sched::{KernelThread, Rule};
use unstarve_timeline::{Actor, ActorId, World};

use crate::claim::Share;
use crate::ledger::{Account, Ledger};
use crate::observers::Observers;
use crate::report::Work;

/// The read-only input of all findings.
pub(crate) struct Case<'a> {
    pub ledger: &'a Ledger,
    pub world: &'a World,
    pub snapshot: Option<&'a Snapshot>,
    pub facts: Facts<'a>,
    pub losses: &'a [Loss],
    pub events: u64,
    wall: Option<WallClock>,
    observers: Observers,
    by_name: FxHashMap<Comm, Vec<ActorId>>,
    by_tid: FxHashMap<Tid, ActorId>,
    blame: FxHashMap<ActorId, Vec<Blame>>,
    payers: FxHashMap<ActorId, Vec<(ActorId, Nanos)>>,
}

/// The time for which an occupant, by one rule, kept one victim waiting.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Blame {
    pub occupant: ActorId,
    pub rule: Rule,
    pub length: Nanos,
}

impl<'a> Case<'a> {
    pub fn new(
        ledger: &'a Ledger,
        world: &'a World,
        snapshot: Option<&'a Snapshot>,
        facts: Facts<'a>,
        losses: &'a [Loss],
        events: u64,
        format: &str,
    ) -> Case<'a> {
        let observers = Observers::of(world, ledger, snapshot, format);
        let mut by_name: FxHashMap<Comm, Vec<ActorId>> = FxHashMap::default();
        for (id, comm) in world.actors.iter().filter_map(|(id, actor)| Some((id, actor.comm()?))) {
            by_name.entry(comm).or_default().push(id);
        }
        let by_tid = main_actors(world, ledger);
        let mut blame: FxHashMap<ActorId, Vec<Blame>> = FxHashMap::default();
        for ((victim, occupant, rule), &length) in ledger.blame.iter() {
            blame.entry(victim).or_default().push(Blame { occupant, rule, length });
        }
        for list in blame.values_mut() {
            list.sort_unstable_by_key(|blame| (std::cmp::Reverse(blame.length), blame.occupant, blame.rule));
        }
        let mut payers: FxHashMap<ActorId, Vec<(ActorId, Nanos)>> = FxHashMap::default();
        for ((victim, payer), paid) in ledger.prices.iter().filter(|((_, payer), _)| !observers.may_contain(*payer)) {
            payers.entry(victim).or_default().push((payer, paid.length));
        }
        for list in payers.values_mut() {
            list.sort_unstable_by_key(|&(payer, length)| (std::cmp::Reverse(length), payer));
        }
        Case { ledger, world, snapshot, facts, losses, events, wall: None, observers, by_name, by_tid, blame, payers }
    }

    /// Sets the wall clock of the trace.
    pub fn on(self, wall: Option<WallClock>) -> Case<'a> {
        Case { wall, ..self }
    }

    /// The time in UTC (RFC 3339), if the wall clock is known.
    pub fn utc(&self, time: Time) -> Option<String> {
        Some(self.wall?.at(time).to_string())
    }

    /// The process of a thread, if the snapshot has it.
    pub fn process_of(&self, tid: Tid) -> Option<Tid> {
        self.snapshot?.process_of(tid)
    }

    /// The parent of a thread's process, if the snapshot has it.
    pub fn parent_of(&self, tid: Tid) -> Option<Tid> {
        let snapshot = self.snapshot?;
        snapshot.task(snapshot.process_of(tid)?)?.parent
    }

    /// The path of a thread's cgroup, if the snapshot has it; safe to print on a terminal.
    pub fn cgroup_of(&self, tid: Tid) -> Option<String> {
        Some(clean(self.snapshot?.cgroup_of(tid)?).into_owned())
    }

    /// The length of the reported part of the trace.
    pub fn span(&self) -> Nanos {
        self.ledger.span(self.world)
    }

    /// A length of time as a share of that, at most all of it: waits that begin before a selected part, or of several threads, add up to more.
    pub fn share(&self, length: Nanos) -> Share {
        Share(length.share_of(self.span()).min(1.0))
    }

    pub fn actor(&self, id: ActorId) -> &Actor {
        self.world.actors.get(id)
    }

    /// Actors that waited, with their sums, in the order of their first appearance. Without observers: a delayed recorder harms
    /// nobody and must not make a healthy host look ill. (As occupants, observers are shown.)
    pub fn victims(&self) -> impl Iterator<Item = (ActorId, &Account)> {
        self.runners().filter(|(_, account)| account.waits > 0)
    }

    /// Like [`Case::victims`], with actors that never waited.
    pub fn runners(&self) -> impl Iterator<Item = (ActorId, &Account)> {
        self.world
            .actors
            .iter()
            .filter(|(id, actor)| actor.comm().is_some() && !self.observers.may_contain(*id))
            .filter_map(|(id, _)| Some((id, self.ledger.account(id)?)))
    }

    /// Whether the actor is the recorder or another observer.
    pub fn is_observer(&self, id: ActorId) -> bool {
        self.observers.contains(id)
    }

    /// The CPU time of all observers.
    pub fn observing(&self) -> Option<Nanos> {
        self.observers.took(self.ledger)
    }

    /// The blame for the victim's waits, longest first; adds up to them.
    pub fn blame(&self, victim: ActorId) -> &[Blame] {
        self.blame.get(&victim).map_or(&[], Vec::as_slice)
    }

    /// The time of the victim's waits that matches `fits`.
    pub fn blamed(&self, victim: ActorId, fits: impl Fn(&Blame) -> bool) -> Nanos {
        self.blame(victim).iter().filter(|blame| fits(blame)).map(|blame| blame.length).sum()
    }

    /// Actors that slept because the victim waited, longest first.
    pub fn payers(&self, victim: ActorId) -> &[(ActorId, Nanos)] {
        self.payers.get(&victim).map_or(&[], Vec::as_slice)
    }

    /// The part of a price for which events show that the victim led to the payer's wakeup; nothing is inferred.
    pub fn certain_price(&self, victim: ActorId, payer: ActorId) -> Nanos {
        self.ledger.prices.get(&(victim, payer)).map_or(Nanos::ZERO, |paid| paid.certain)
    }

    /// The part of a price that came through a block device.
    pub fn price_through_device(&self, victim: ActorId, payer: ActorId) -> Nanos {
        self.ledger.prices.get(&(victim, payer)).map_or(Nanos::ZERO, |paid| paid.through_device)
    }

    /// What the victim's waits cost others.
    pub fn price(&self, victim: ActorId) -> Nanos {
        self.payers(victim).iter().map(|(_, length)| *length).sum()
    }

    /// The longest run of `occupant`, of higher class or priority or an equal in order, within one wait of `victim`. Runs below 1
    /// ms are not kept.
    pub fn longest_stay(&self, victim: ActorId, occupant: ActorId) -> Nanos {
        self.ledger.longest_stays.get(&(victim, occupant)).copied().unwrap_or(Nanos::ZERO)
    }

    /// Wakeups of `wakee` by `waker`.
    pub fn wakes(&self, waker: ActorId, wakee: ActorId) -> u64 {
        self.ledger.wakes.get(&(waker, wakee)).copied().unwrap_or(0)
    }

    /// Like [`Case::wakes`], with wakeups that `waker` or an interrupt during its run may have done.
    pub fn possible_wakes(&self, waker: ActorId, wakee: ActorId) -> u64 {
        self.wakes(waker, wakee) + self.ledger.doubtful_wakes.get(&(waker, wakee)).copied().unwrap_or(0)
    }

    /// How often `by` preempted `victim` right after a wakeup.
    pub fn wakeup_preemptions(&self, victim: ActorId, by: ActorId) -> u64 {
        self.ledger.preemptions.get(&(victim, by)).map_or(0, |preemptions| preemptions.by_wakeup)
    }

    /// All actors with this name.
    pub fn actors_named(&self, comm: Comm) -> impl Iterator<Item = ActorId> {
        self.by_name.get(&comm).map_or(&[][..], Vec::as_slice).iter().copied()
    }

    /// The actor under which this thread ran most, if its id was kept.
    pub fn main_actor_of(&self, tid: Tid) -> Option<ActorId> {
        self.by_tid.get(&tid).copied()
    }

    /// The actor under which the thread of this actor ran most; `id` itself if the actor has several threads. A new thread has
    /// its parent's name until it sets its own.
    pub fn mainly(&self, id: ActorId) -> ActorId {
        if self.actor(id).tids.len() == 1 { self.mainly_each(id)[0] } else { id }
    }

    /// [`Case::mainly`] for each of its threads whose id was kept.
    pub fn mainly_each(&self, id: ActorId) -> Vec<ActorId> {
        let actor = self.actor(id);
        let main = |tid: &Tid| self.main_actor_of(*tid).filter(|main| self.actor(*main).shares(actor, *tid));
        let mut each: Vec<ActorId> = actor.tids.iter().map(|tid| main(tid).unwrap_or(id)).collect();
        if each.is_empty() {
            each.push(id);
        }
        each
    }

    /// Threads that were real-time or deadline at any time in the trace, if their ids were kept.
    pub fn realtime_threads(&self) -> FxHashSet<Tid> {
        let is_realtime = |actor: &&Actor| matches!(actor.policy(), Some(Policy::Rt | Policy::Deadline));
        let actors = self.world.actors.iter().map(|(_, actor)| actor).filter(is_realtime);
        actors.flat_map(|actor| actor.tids.iter().copied()).collect()
    }

    /// Whether it is in the fair class.
    pub fn is_fair(&self, id: ActorId) -> bool {
        self.actor(id).policy() == Some(Policy::Fair)
    }

    /// The name to print; interrupts, idle and unknown have one too.
    pub fn name(&self, id: ActorId) -> String {
        clean(&self.world.name(id)).into_owned()
    }

    /// The policy with its own scale, as `chrt` shows it; `None` for normal threads of nice 0, and where the priority is not recorded.
    pub fn scheduled(&self, id: ActorId) -> Option<String> {
        let prio = self.actor(id).prio()?;
        let task = || self.snapshot?.task(self.first_tid(id)?);
        match prio.policy() {
            Policy::Rt => {
                let policy = match task().map(|task| task.policy) {
                    Some(SchedPolicy::Fifo) => "FIFO",
                    Some(SchedPolicy::Rr) => "RR",
                    _ => "RT",
                };
                Some(format!("{policy} {}", 99 - prio.0.clamp(-1, 99)))
            }
            Policy::Deadline => Some("deadline".to_owned()),
            _ => prio.nice().filter(|nice| *nice != 0).map(|nice| format!("nice {nice}").replace('-', "−")),
        }
    }

    /// What is known of a program that polls instead of sleeping, if this is one by its name.
    pub fn poller(&self, id: ActorId) -> Option<Poller> {
        let runs =
            |name: &str| self.snapshot.is_some_and(|snapshot| snapshot.tasks.iter().any(|task| task.comm == name));
        Poller::of_thread(&self.name(self.mainly(id)), runs)
    }

    /// The BPF scheduler that decides about all ordinary tasks in place of the fair class, if one was loaded.
    pub fn bpf_scheduler(&self) -> Option<ExtScheduler<'_>> {
        self.snapshot?.ext_scheduler().filter(|scheduler| scheduler.all_tasks)
    }

    /// How long the hypervisor ran others on a CPU during the recording, by the steal time of `/proc/stat`.
    pub fn stolen(&self, cpu: CpuId) -> Option<Nanos> {
        let times = self.snapshot?.cpu_times_meanwhile.as_ref()?.get(&cpu.0)?;
        Some(Nanos::from_millis(times.steal * 10))
    }

    /// What a worker executed most.
    pub fn work(&self, id: ActorId) -> Option<Work> {
        let main = self.ledger.account(id)?.work.as_ref()?.main()?;
        let text = |name| clean(self.world.names.get(name)).into_owned();
        Some(Work { function: text(main.function?), workqueue: main.workqueue.map(text) })
    }

    /// Whether it is a kernel thread that serves requests of others, who therefore wait with it. (RCU and memory housekeeping
    /// also wait, but rarely hold up a request.)
    pub fn is_kernel_worker(&self, id: ActorId) -> bool {
        matches!(
            self.kernel_thread(id),
            Some(
                KernelThread::BoundWorker { .. }
                    | KernelThread::UnboundWorker
                    | KernelThread::Rescuer
                    | KernelThread::Ksoftirqd { .. }
                    | KernelThread::Nfsd
                    | KernelThread::IrqThread
                    | KernelThread::Ktimers
                    | KernelThread::Storage
            )
        )
    }

    /// The kind of kernel thread by its name, unless the snapshot shows that it is a program.
    pub fn kernel_thread(&self, id: ActorId) -> Option<KernelThread> {
        self.actor(id).kernel_thread.filter(|_| self.snapshot_says_kernel_thread(id) != Some(false))
    }

    /// Whether only the name shows that it is a kernel thread: neither the snapshot nor its creation does.
    pub fn is_kernel_thread_by_name_alone(&self, id: ActorId) -> bool {
        self.kernel_thread(id).is_some()
            && !self.actor(id).confirmed_kernel
            && self.snapshot_says_kernel_thread(id).is_none()
    }

    /// Whether it is a CPU's stopper thread, which works only for the kernel. It must have the priority of the stop class and run
    /// little: any program can take the name, and a stopper that keeps a CPU is a problem like any other.
    pub fn is_stopper(&self, id: ActorId) -> bool {
        let runs = self.ledger.account(id).map(|account| &account.runs);
        let takes_little = runs.is_none_or(|runs| {
            runs.total.share_of(self.span()) <= crate::observers::LITTLE_ABOVE
                && runs.longest <= crate::observers::SHORT_ABOVE
        });
        self.kernel_thread(id) == Some(KernelThread::Migration)
            && self.actor(id).prio().is_none_or(|prio| prio == Prio::STOP)
            && takes_little
    }

    /// Whether it is any kernel thread, housekeeping included: by the snapshot, else by its name.
    pub fn is_kernel_thread(&self, id: ActorId) -> bool {
        let actor = self.actor(id);
        let by_name = || !actor.is_impostor() && actor.comm().is_some_and(|comm| KernelThread::is_name_of_one(&comm));
        self.snapshot_says_kernel_thread(id).unwrap_or_else(by_name)
    }

    /// Whether more than their names shows that all are kernel threads, or that all are programs; see [`together`].
    pub fn shown_to_be_kernel(&self, ids: &[ActorId]) -> Option<bool> {
        together(ids.iter().map(|id| self.actor(*id).is_kernel()))
    }

    /// The actors that a report names. If some are shown to be kernel threads and none to be a program, actors of unknown kind
    /// are left out: any program can take a kernel thread's name and exit before the snapshot.
    pub fn named(&self, ids: &[ActorId]) -> Vec<ActorId> {
        let is_kernel = self.shown_to_be_kernel(ids) == Some(true);
        ids.iter().copied().filter(|id| !is_kernel || self.actor(*id).is_kernel() == Some(true)).collect()
    }

    /// Whether the snapshot has all of these threads.
    pub fn knows_all(&self, tids: &[u32]) -> bool {
        self.snapshot.is_some_and(|snapshot| tids.iter().all(|tid| snapshot.task(Tid(*tid)).is_some()))
    }

    fn snapshot_says_kernel_thread(&self, id: ActorId) -> Option<bool> {
        self.snapshot?.is_kernel_thread(self.first_tid(id)?)
    }

    /// Whether the snapshot has the cgroup of its tasks; it misses tasks that lived only during the recording.
    pub fn knows_group(&self, id: ActorId) -> bool {
        self.snapshot.zip(self.first_tid(id)).is_some_and(|(snapshot, tid)| snapshot.cgroup_of(tid).is_some())
    }

    /// The CPU of the victims' longest wait; prefers waits without a migration.
    pub fn worst_cpu(&self, victims: &[ActorId]) -> Option<CpuId> {
        let accounts = victims.iter().filter_map(|victim| self.ledger.account(*victim));
        let worst =
            accounts.flat_map(|account| account.worst.sorted()).max_by_key(|(length, spot)| (!spot.moved, *length));
        worst.map(|(_, spot)| spot.cpu)
    }

    /// The CPU on which the intruders kept the victims waiting: the only CPU that the intruders may use, else the CPU of the
    /// longest wait that is mostly theirs.
    pub fn cpu_of(&self, intruders: &[ActorId], victims: &[ActorId]) -> Option<CpuId> {
        let is_theirs = |actor: ActorId, _| intruders.contains(&actor);
        let spots = || {
            victims.iter().filter_map(|victim| self.ledger.account(*victim)).flat_map(|account| account.worst.sorted())
        };
        let theirs =
            spots().filter(|(_, spot)| !spot.moved && spot.is_mostly(is_theirs)).max_by_key(|(length, _)| *length);
        // Migrated waits are left out: their CPU is where the wait ended, not where the task was kept waiting.
        let alone = || {
            let tids = intruders.iter().flat_map(|id| &self.actor(*id).tids);
            let cpus = tids.map(|tid| self.snapshot?.allowed_cpus(*tid).filter(|cpus| cpus.len() == 1)?.last());
            let cpus: Option<FxHashSet<CpuId>> = cpus.collect();
            cpus.filter(|cpus| cpus.len() == 1)?.into_iter().next()
        };
        alone().or_else(|| theirs.map(|(_, spot)| spot.cpu)).or_else(|| self.worst_cpu(victims))
    }

    /// Whether the snapshot has its tasks, and so whether they are SCHED_IDLE.
    pub fn knows_policy(&self, id: ActorId) -> bool {
        self.snapshot.zip(self.first_tid(id)).is_some_and(|(snapshot, tid)| snapshot.task(tid).is_some())
    }

    /// Whether the snapshot has the CPUs that its tasks may use.
    pub fn knows_affinity(&self, id: ActorId) -> bool {
        self.snapshot.zip(self.first_tid(id)).is_some_and(|(snapshot, tid)| snapshot.allowed_cpus(tid).is_some())
    }

    /// One of its tasks, to look up in the snapshot.
    pub fn first_tid(&self, id: ActorId) -> Option<Tid> {
        self.actor(id).tids.first().copied()
    }
}

/// Combines whether each of several actors is shown to be a kernel thread (`Some(true)`) or a program (`Some(false)`). Kernel:
/// some are shown to be, and none is a program; a kernel worker that ended before the snapshot is `None`. Program: all are shown
/// to be.
fn together(each: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let (mut kernel, mut program, mut unknown) = (false, false, false);
    for shown in each {
        match shown {
            Some(true) => kernel = true,
            Some(false) => program = true,
            None => unknown = true,
        }
    }
    match (kernel, program, unknown) {
        (true, false, _) => Some(true),
        (false, true, false) => Some(false),
        _ => None,
    }
}

/// For each thread the actor under which it ran most; the last one on a tie. How long each thread of a multi-threaded actor ran
/// is unknown: it counts as a quarter of the average, so an actor that is only this thread wins unless it hardly ran.
fn main_actors(world: &World, ledger: &Ledger) -> FxHashMap<Tid, ActorId> {
    let rank = |id: ActorId| {
        let ran = ledger.account(id).map_or(0, |account| account.runs.total.0);
        match world.actors.get(id).tids.len() as u64 {
            0 | 1 => ran,
            threads => ran / threads / 4,
        }
    };
    let mut main: FxHashMap<Tid, ActorId> = FxHashMap::default();
    for (id, actor) in world.actors.iter().filter(|(_, actor)| actor.comm().is_some()) {
        for tid in &actor.tids {
            let known = main.entry(*tid).or_insert(id);
            if rank(id) >= rank(*known) {
                *known = id;
            }
        }
    }
    main
}

#[cfg(test)]
mod tests {
    use super::together;

    #[test]
    fn one_that_ended_before_the_snapshot_takes_nothing_from_kernel_threads() {
        let of = |each: &[Option<bool>]| together(each.iter().copied());
        let (kernel, program, unknown) = (Some(true), Some(false), None);
        assert_eq!(of(&[kernel, unknown, kernel]), Some(true));
        assert_eq!(of(&[unknown, kernel]), Some(true), "in any order");
        assert_eq!(of(&[program, program]), Some(false));
        for none in [&[][..], &[unknown], &[unknown, program], &[kernel, program], &[kernel, unknown, program]] {
            assert_eq!(of(none), None, "{none:?}");
        }
    }
}
