use rustc_hash::{FxHashMap, FxHashSet};
use unstarve_facts::{Facts, Snapshot};
use unstarve_model::{Comm, CpuId, Loss, Nanos, Policy, Prio, Tid, Time, WallClock, clean};
use unstarve_sched::{KernelThread, Rule};
use unstarve_timeline::{Actor, ActorId, World};

use crate::ledger::{Account, Ledger};
use crate::observers::Observers;

/// Everything that findings are made of, to be read only.
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

/// An occupant, a rule, and how long it kept one victim waiting in all.
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

    /// The same where this clock tells the time of day.
    pub fn on(self, wall: Option<WallClock>) -> Case<'a> {
        Case { wall, ..self }
    }

    /// The time in UTC, as RFC 3339, where it is known.
    pub fn utc(&self, time: Time) -> Option<String> {
        Some(self.wall?.at(time).to_string())
    }

    /// The process of a thread, where the snapshot knows it.
    pub fn process_of(&self, tid: Tid) -> Option<Tid> {
        self.snapshot?.process_of(tid)
    }

    /// Who created a thread's process, where the snapshot knows it.
    pub fn parent_of(&self, tid: Tid) -> Option<Tid> {
        let snapshot = self.snapshot?;
        snapshot.task(snapshot.process_of(tid)?)?.parent
    }

    /// The path of a thread's cgroup, where the snapshot knows it; harmless to terminals.
    pub fn cgroup_of(&self, tid: Tid) -> Option<String> {
        Some(clean(self.snapshot?.cgroup_of(tid)?).into_owned())
    }

    /// How long the trace is, or the part of it that is reported.
    pub fn span(&self) -> Nanos {
        self.ledger.span(self.world)
    }

    pub fn actor(&self, id: ActorId) -> &Actor {
        self.world.actors.get(id)
    }

    /// Tasks that waited, with their sums, in the order of their first appearance. Who only watches is none: that it
    /// came late harms nobody, and it must not make a healthy host look ill. (As occupants they are shown.)
    pub fn victims(&self) -> impl Iterator<Item = (ActorId, &Account)> {
        self.runners().filter(|(_, account)| account.waits > 0)
    }

    /// The same, and tasks that never waited.
    pub fn runners(&self) -> impl Iterator<Item = (ActorId, &Account)> {
        self.world
            .actors
            .iter()
            .filter(|(id, actor)| actor.comm().is_some() && !self.observers.may_contain(*id))
            .filter_map(|(id, _)| Some((id, self.ledger.account(id)?)))
    }

    /// Whether it is the recorder or else only watches.
    pub fn is_observer(&self, id: ActorId) -> bool {
        self.observers.contains(id)
    }

    /// The CPU time of those that only watch.
    pub fn observing(&self) -> Option<Nanos> {
        self.observers.took(self.ledger)
    }

    /// Who kept it waiting, longest first; adds up to its waits.
    pub fn blame(&self, victim: ActorId) -> &[Blame] {
        self.blame.get(&victim).map_or(&[], Vec::as_slice)
    }

    /// The part of its waits that fits.
    pub fn blamed(&self, victim: ActorId, fits: impl Fn(&Blame) -> bool) -> Nanos {
        self.blame(victim).iter().filter(|blame| fits(blame)).map(|blame| blame.length).sum()
    }

    /// Who slept because it waited, most first.
    pub fn payers(&self, victim: ActorId) -> &[(ActorId, Nanos)] {
        self.payers.get(&victim).map_or(&[], Vec::as_slice)
    }

    /// The part of a price of which the events show, and nothing infers, that the victim led to the payer's wakeup.
    pub fn certain_price(&self, victim: ActorId, payer: ActorId) -> Nanos {
        self.ledger.prices.get(&(victim, payer)).map_or(Nanos::ZERO, |paid| paid.certain)
    }

    /// The part of a price that came to the payer through a block device.
    pub fn price_through_device(&self, victim: ActorId, payer: ActorId) -> Nanos {
        self.ledger.prices.get(&(victim, payer)).map_or(Nanos::ZERO, |paid| paid.through_device)
    }

    /// What its waits cost others.
    pub fn price(&self, victim: ActorId) -> Nanos {
        self.payers(victim).iter().map(|(_, length)| *length).sum()
    }

    /// The longest that `occupant`, of a higher class, kept one wait of `victim` waiting at a time; stays below a
    /// millisecond are not kept.
    pub fn longest_stay(&self, victim: ActorId, occupant: ActorId) -> Nanos {
        self.ledger.longest_stays.get(&(victim, occupant)).copied().unwrap_or(Nanos::ZERO)
    }

    /// Wakeups of `wakee` by `waker`.
    pub fn wakes(&self, waker: ActorId, wakee: ActorId) -> u64 {
        self.ledger.wakes.get(&(waker, wakee)).copied().unwrap_or(0)
    }

    /// The same with those of which nobody knows whether `waker` did them or was only interrupted.
    pub fn possible_wakes(&self, waker: ActorId, wakee: ActorId) -> u64 {
        self.wakes(waker, wakee) + self.ledger.doubtful_wakes.get(&(waker, wakee)).copied().unwrap_or(0)
    }

    /// How often `by` took the CPU from `victim` right after being woken.
    pub fn wakeup_preemptions(&self, victim: ActorId, by: ActorId) -> u64 {
        self.ledger.preemptions.get(&(victim, by)).map_or(0, |preemptions| preemptions.by_wakeup)
    }

    /// All actors of this name.
    pub fn actors_named(&self, comm: Comm) -> impl Iterator<Item = ActorId> {
        self.by_name.get(&comm).map_or(&[][..], Vec::as_slice).iter().copied()
    }

    /// Of what a thread was in the trace, what it ran most as, where its id was kept.
    pub fn main_actor_of(&self, tid: Tid) -> Option<ActorId> {
        self.by_tid.get(&tid).copied()
    }

    /// What the thread of this actor ran most as; the actor itself if it has several threads. A thread is a copy of its parent before
    /// it becomes what its name says.
    pub fn mainly(&self, id: ActorId) -> ActorId {
        if self.actor(id).tids.len() == 1 { self.mainly_each(id)[0] } else { id }
    }

    /// The same of each of its threads whose id was kept.
    pub fn mainly_each(&self, id: ActorId) -> Vec<ActorId> {
        let actor = self.actor(id);
        let main = |tid: &Tid| self.main_actor_of(*tid).filter(|main| self.actor(*main).shares(actor, *tid));
        let mut each: Vec<ActorId> = actor.tids.iter().map(|tid| main(tid).unwrap_or(id)).collect();
        if each.is_empty() {
            each.push(id);
        }
        each
    }

    /// The threads that the trace shows as real-time or deadline at some time, as far as their ids were kept.
    pub fn realtime_threads(&self) -> FxHashSet<Tid> {
        let is_realtime = |actor: &&Actor| matches!(actor.policy(), Some(Policy::Rt | Policy::Deadline));
        let actors = self.world.actors.iter().map(|(_, actor)| actor).filter(is_realtime);
        actors.flat_map(|actor| actor.tids.iter().copied()).collect()
    }

    /// Whether it is of the fair class.
    pub fn is_fair(&self, id: ActorId) -> bool {
        self.actor(id).policy() == Some(Policy::Fair)
    }

    /// Its name for people; interrupts, idle and unknown have one too.
    pub fn name(&self, id: ActorId) -> String {
        clean(&self.world.name(id)).into_owned()
    }

    /// What a worker did most: function and, where known, workqueue.
    pub fn work(&self, id: ActorId) -> Option<(String, Option<String>)> {
        let main = self.ledger.account(id)?.work.as_ref()?.main()?;
        let text = |name| clean(self.world.names.get(name)).into_owned();
        Some((text(main.function?), main.workqueue.map(text)))
    }

    /// A kernel thread that others' requests go through: its wait is theirs. (RCU and memory housekeeping wait too, but
    /// seldom hold up a request.)
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

    /// The kernel threads that its tasks are by their name, unless something shows that they are programs.
    pub fn kernel_thread(&self, id: ActorId) -> Option<KernelThread> {
        self.actor(id).kernel_thread.filter(|_| self.snapshot_says_kernel_thread(id) != Some(false))
    }

    /// Whether nothing but its name shows that it is a kernel thread: no snapshot, and nobody saw it created.
    pub fn is_kernel_thread_by_name_alone(&self, id: ActorId) -> bool {
        self.kernel_thread(id).is_some()
            && !self.actor(id).confirmed_kernel
            && self.snapshot_says_kernel_thread(id).is_none()
    }

    /// Whether it is the stop class's thread of a CPU, which works for the kernel alone. That is believed of who has the priority with which
    /// this class is shown and takes little: any program may bear the name, and a stopper that keeps a CPU is a fault like any other.
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

    /// Any kernel thread, housekeeping included: what the snapshot says, or else its name.
    pub fn is_kernel_thread(&self, id: ActorId) -> bool {
        let actor = self.actor(id);
        let by_name = || !actor.is_impostor() && actor.comm().is_some_and(|comm| KernelThread::is_name_of_one(&comm));
        self.snapshot_says_kernel_thread(id).unwrap_or_else(by_name)
    }

    /// Whether all of these are kernel threads, or all are programs, by more than their names; see [`together`].
    pub fn shown_to_be_kernel(&self, ids: &[ActorId]) -> Option<bool> {
        together(ids.iter().map(|id| self.actor(*id).is_kernel()))
    }

    /// Those of these that a report names: where some are shown to be kernel threads and none to be a program, not those of which nothing
    /// shows what they are. Any program can be called like a kernel thread and end before the snapshot.
    pub fn named(&self, ids: &[ActorId]) -> Vec<ActorId> {
        let is_kernel = self.shown_to_be_kernel(ids) == Some(true);
        ids.iter().copied().filter(|id| !is_kernel || self.actor(*id).is_kernel() == Some(true)).collect()
    }

    /// Whether the snapshot knows each of these threads.
    pub fn knows_all(&self, tids: &[u32]) -> bool {
        self.snapshot.is_some_and(|snapshot| tids.iter().all(|tid| snapshot.task(Tid(*tid)).is_some()))
    }

    fn snapshot_says_kernel_thread(&self, id: ActorId) -> Option<bool> {
        self.snapshot?.is_kernel_thread(self.first_tid(id)?)
    }

    /// Whether the snapshot tells in which cgroup its tasks are; those that lived only while the recording ran it never
    /// saw.
    pub fn knows_group(&self, id: ActorId) -> bool {
        self.snapshot.zip(self.first_tid(id)).is_some_and(|(snapshot, tid)| snapshot.cgroup_of(tid).is_some())
    }

    /// The CPU on which these waited longest, if possible one to which they did not come only while they waited.
    pub fn worst_cpu(&self, victims: &[ActorId]) -> Option<CpuId> {
        let accounts = victims.iter().filter_map(|victim| self.ledger.account(*victim));
        let worst =
            accounts.flat_map(|account| account.worst.sorted()).max_by_key(|(length, spot)| (!spot.moved, *length));
        worst.map(|(_, spot)| spot.cpu)
    }

    /// The CPU on which the intruders kept the victims waiting: where they may run alone, else of the longest waits that were theirs.
    pub fn cpu_of(&self, intruders: &[ActorId], victims: &[ActorId]) -> Option<CpuId> {
        let is_theirs = |actor: ActorId, _| intruders.contains(&actor);
        let spots = || {
            victims.iter().filter_map(|victim| self.ledger.account(*victim)).flat_map(|account| account.worst.sorted())
        };
        let theirs =
            spots().filter(|(_, spot)| !spot.moved && spot.is_mostly(is_theirs)).max_by_key(|(length, _)| *length);
        // One that was moved while it waited says where it ended, not where it was kept.
        let alone = || {
            let tids = intruders.iter().flat_map(|id| &self.actor(*id).tids);
            let cpus = tids.map(|tid| self.snapshot?.allowed_cpus(*tid).filter(|cpus| cpus.len() == 1)?.last());
            let cpus: Option<FxHashSet<CpuId>> = cpus.collect();
            cpus.filter(|cpus| cpus.len() == 1)?.into_iter().next()
        };
        alone().or_else(|| theirs.map(|(_, spot)| spot.cpu)).or_else(|| self.worst_cpu(victims))
    }

    /// Whether the snapshot has its tasks, and so says whether they are SCHED_IDLE.
    pub fn knows_policy(&self, id: ActorId) -> bool {
        self.snapshot.zip(self.first_tid(id)).is_some_and(|(snapshot, tid)| snapshot.task(tid).is_some())
    }

    /// Whether the snapshot tells which CPUs its tasks may use.
    pub fn knows_affinity(&self, id: ActorId) -> bool {
        self.snapshot.zip(self.first_tid(id)).is_some_and(|(snapshot, tid)| snapshot.allowed_cpus(tid).is_some())
    }

    /// One of its tasks, to ask the snapshot about.
    pub fn first_tid(&self, id: ActorId) -> Option<Tid> {
        self.actor(id).tids.first().copied()
    }
}

/// What several are, of each of which it may be shown that it is a kernel thread or a program. A kernel worker that ended before the
/// snapshot is shown to be neither: beside others that are kernel threads it takes nothing from them. What is called programs all must be.
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

/// For each thread the actor under which it ran most; of equals the last. An actor of several threads does not say how long each of
/// them ran: its part is taken for a quarter of the average, so that one that is this thread alone goes before, unless it was hardly there.
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
