//! Sums over a trace per actor: the input of all findings.
//!
//! The timeline calls the ledger for each wait, run and wakeup, on the hot path. It keeps sums and a bounded number of extreme
//! cases, and allocates only when it meets an actor, a pair or a record for the first time. Its size depends on the number of
//! kinds of tasks, not on the length of the trace.

mod account;
mod episodes;
mod quantiles;
mod real_time;
mod spans;
mod table;
mod unequal;
mod work_log;
mod worst;
mod worst_window;

use rustc_hash::FxHashMap;
use unstarve_model::{CpuId, Nanos, Policy, Time};
use unstarve_sched::{KernelThread, Rule};
use unstarve_timeline::{
    ActorId, Interrupt, Migration, Piece, Run, RunEnd, Selection, Sink, Unproved, Wait, Wake, Waker, WorkItem, World,
};

pub(crate) use account::{Account, FAIR_PERIOD, TICK};
pub(crate) use episodes::{Episodes, Period};
pub(crate) use quantiles::Quantiles;
use real_time::RealTimeStays;
pub(crate) use table::Table;
pub(crate) use unequal::{Unequal, UnequalWaits};
pub(crate) use work_log::WorkLog;
pub(crate) use worst::{LongWait, Longest, OpenSpot, Spot, Worst};
pub(crate) use worst_window::{WORST_WINDOW, WorstWindow};

/// How often one actor preempted another.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Preemptions {
    pub count: u64,
    pub by_wakeup: u64,
}

/// What one actor paid for another's waits.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Paid {
    pub length: Nanos,
    /// The part for which events show which task woke which; nothing is inferred.
    pub certain: Nanos,
    /// The part that came through a block device.
    pub through_device: Nanos,
}

/// Sums over a trace. Pairs beyond the capacity of a [`Table`] are counted under [`ActorId::OTHERS`].
#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    selection: Selection,
    /// Whether the selection is the whole trace: then no event needs a check against it.
    whole: bool,
    accounts: Vec<Account>,
    /// (victim, occupant, rule) → time.
    pub blame: Table<(ActorId, ActorId, Rule), Nanos>,
    /// (victim, occupant, rule) → the most time lost within [`WORST_WINDOW`] to a higher class or priority, to an equal, or to an
    /// occupant that was not preempted. The sum over all occupants is under [`ActorId::OTHERS`].
    pub worst_windows: Table<(ActorId, ActorId, Rule), WorstWindow>,
    /// (victim, occupant) → the longest single run of the occupant within one wait. Only precedence by class or priority, or
    /// order among equals, of 1 ms or more.
    pub longest_stays: Table<(ActorId, ActorId), Nanos>,
    /// Victim → the longest time in one wait that the CPU itself did not run ([`ActorId::STOPPED`]).
    stops: FxHashMap<ActorId, Nanos>,
    /// (victim, occupant) → the longest time in one wait that an occupant of lower class or priority was not preempted.
    pub not_preempted: Table<(ActorId, ActorId), Nanos>,
    real_time: RealTimeStays,
    /// The long runs of fair tasks.
    fair: RealTimeStays,
    /// (preempted, preempting) → preemptions.
    pub preemptions: Table<(ActorId, ActorId), Preemptions>,
    /// (waker, wakee) → wakeups, task to task.
    pub wakes: Table<(ActorId, ActorId), u64>,
    /// (current, wakee) → wakeups that the current task may have done, or an interrupt that interrupted it.
    pub doubtful_wakes: Table<(ActorId, ActorId), u64>,
    /// (victim, payer) → time that the payer slept because the victim waited.
    pub prices: Table<(ActorId, ActorId), Paid>,
    /// (interrupt handler or softirq, CPU) → runs.
    pub interrupts: Table<(ActorId, CpuId), Stays>,
    pub longest: Longest<LongWait>,
    /// The wait that fair sharing explains least.
    pub unequal: Option<Unequal>,
    pub waits: u64,
    pub waited: Nanos,
    pub runs: u64,
    pub migrations: u64,
}

/// How often and how long an interrupt had a CPU.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stays {
    pub count: u64,
    pub total: Nanos,
    pub longest: Nanos,
    /// Runs of a softirq that directly followed a hard interrupt's handler.
    pub after_handler: u64,
}

/// Shorter runs are normal for real-time tasks.
const STAY_KEPT: Nanos = Nanos::from_millis(1);

/// Waits kept in full: the ten that are reported.
const LONGEST: usize = 10;

impl Ledger {
    pub fn new(selection: Selection) -> Ledger {
        Ledger {
            whole: selection == Selection::default(),
            selection,
            accounts: Vec::new(),
            blame: Table::default(),
            worst_windows: Table::default(),
            longest_stays: Table::default(),
            stops: FxHashMap::default(),
            not_preempted: Table::default(),
            real_time: RealTimeStays::default(),
            fair: RealTimeStays::default(),
            preemptions: Table::default(),
            wakes: Table::default(),
            doubtful_wakes: Table::default(),
            prices: Table::default(),
            interrupts: Table::default(),
            longest: Longest::new(LONGEST),
            unequal: None,
            waits: 0,
            waited: Nanos::ZERO,
            runs: 0,
            migrations: 0,
        }
    }

    /// An empty ledger for what follows. Keeps the latest runs of real-time and fair tasks, because waits in progress were behind
    /// them.
    pub fn followed_by(self, selection: Selection) -> Ledger {
        Ledger { real_time: self.real_time, fair: self.fair, ..Ledger::new(selection) }
    }

    /// The length of the selected part of the trace.
    pub fn span(&self, world: &World) -> Nanos {
        let (start, end) = (world.start, world.now);
        let from = self.selection.from.map_or(start, |moment| moment.on(start).max(start));
        let to = self.selection.to.map_or(end, |moment| moment.on(start).min(end));
        to.since(from)
    }

    /// Whether the CPU and time are in the selection.
    #[inline]
    fn takes(&self, world: &World, cpu: CpuId, start: Time, end: Time) -> bool {
        self.whole || self.selection.has_cpu(cpu) && self.selection.has_span(start, end, world.start)
    }

    /// Whether the task is in the selection, so that its wait may be listed among the longest.
    #[inline]
    fn lists(&self, world: &World, wait: &Wait<'_>) -> bool {
        if self.whole {
            return true;
        }
        let task = world.tasks.get(wait.task);
        self.selection.has_task(&task.comm, task.tid)
    }

    #[cold]
    fn note_unequal(&mut self, world: &World, wait: &Wait<'_>, listed: bool) {
        let longest_stay = |actor: ActorId| self.fair.longest_of(actor, wait);
        let Some(unequal) = Unequal::of(world, wait, longest_stay) else { return };
        if listed {
            self.unequal = Some(unequal).max(self.unequal.take());
        }
        UnequalWaits::add(&mut self.account_mut(wait.actor).unequal, unequal);
    }

    /// Records how long the runs were that a wait had to sit out; returns the longest stretch of them without a gap.
    fn note_stays(&mut self, world: &World, wait: &Wait<'_>) -> Option<Nanos> {
        // Checked first: most waits are shorter.
        if wait.length() < STAY_KEPT {
            return None;
        }
        let by_class =
            |piece: &&Piece| (piece.rule.is_precedence() || piece.rule == Rule::Order) && piece.length >= STAY_KEPT;
        wait.pieces.iter().find(by_class)?;
        let all: Nanos = wait.pieces.iter().filter(by_class).map(|piece| piece.length).sum();
        let is_known = self.real_time.knows(wait, all);
        for piece in wait.pieces.iter().filter(by_class) {
            let known = self.real_time.longest_of(piece.occupant, wait).filter(|_| is_known);
            let longest = known.unwrap_or(piece.length).min(piece.length);
            let overflow = (wait.actor, ActorId::OTHERS);
            let is_kept = || keeps(world, wait.actor, piece.occupant);
            let known = self.longest_stays.entry_of((wait.actor, piece.occupant), overflow, is_kept);
            *known = (*known).max(longest);
        }
        self.real_time.longest_stretch(wait).filter(|_| is_known)
    }

    /// Needs no limit of its own: the number of actors is limited.
    #[cold]
    fn note_stopped(&mut self, victim: ActorId, length: Nanos) {
        let longest = self.stops.entry(victim).or_default();
        *longest = (*longest).max(length);
    }

    /// The longest time in one wait of an actor that the CPU itself did not run.
    pub fn longest_stop(&self, victim: ActorId) -> Option<Nanos> {
        self.stops.get(&victim).copied()
    }

    /// The account of an actor; `None` if it never ran, waited or moved.
    pub fn account(&self, actor: ActorId) -> Option<&Account> {
        self.accounts.get(actor.index())
    }

    /// Called at the end of the trace, for sums that need to know the whole trace.
    pub fn settle(&mut self, world: &World) {
        for account in &mut self.accounts {
            account.settle(&world.idle_until_heard);
        }
    }

    #[inline(always)]
    fn account_mut(&mut self, actor: ActorId) -> &mut Account {
        let index = actor.index();
        if index >= self.accounts.len() {
            self.add_accounts(index);
        }
        &mut self.accounts[index]
    }

    #[cold]
    fn add_accounts(&mut self, index: usize) {
        self.accounts.resize_with(index + 1, Account::new);
    }
}

/// The kernel checks a deadline task's runtime on ticks, or a little late. A run this close to the runtime counts as ended by it.
const SPENT: f64 = 0.95;

/// Whether the pair gets the room reserved for privileged actors. Task names that any user can choose may have filled the table.
fn keeps(world: &World, victim: ActorId, occupant: ActorId) -> bool {
    world.actors.is_privileged(victim) || world.actors.is_privileged(occupant)
}

fn is_worker(world: &World, actor: ActorId) -> bool {
    world.actors.get(actor).kernel_thread.is_some_and(KernelThread::is_worker)
}

// Not inlined: with these methods and all of the timeline in one function, one of two profile-guided builds analysed a third
// slower than the other.
impl Sink for Ledger {
    #[inline(never)]
    fn wait(&mut self, world: &World, wait: &Wait<'_>) {
        if !self.takes(world, wait.cpu, wait.start, wait.end) {
            return;
        }
        self.waits += 1;
        self.waited += wait.length();
        let length = wait.length();
        let listed = length > Nanos::ZERO && self.lists(world, wait);
        if listed {
            self.longest.offer(length, || LongWait::of(world, wait));
        }
        if length > unequal::TOO_LONG {
            self.note_unequal(world, wait, listed);
        }
        for piece in wait.pieces {
            let overflow = (wait.actor, ActorId::OTHERS, piece.rule);
            let is_kept = || keeps(world, wait.actor, piece.occupant);
            *self.blame.entry_of((wait.actor, piece.occupant, piece.rule), overflow, is_kept) += piece.length;
            if piece.occupant == ActorId::STOPPED {
                self.note_stopped(wait.actor, piece.length);
            }
            if piece.rule.is_precedence() || matches!(piece.rule, Rule::Order | Rule::NotPreempted) {
                let since_start = wait.start.since(world.start);
                let of_all = (wait.actor, ActorId::OTHERS, piece.rule);
                for key in [(wait.actor, piece.occupant, piece.rule), of_all] {
                    self.worst_windows.entry_of(key, of_all, is_kept).add(since_start, piece.length);
                }
            }
            if piece.rule == Rule::NotPreempted {
                let overflow = (wait.actor, ActorId::OTHERS);
                let longest = self.not_preempted.entry_of((wait.actor, piece.occupant), overflow, is_kept);
                *longest = (*longest).max(piece.length);
            }
        }
        let stretch = self.note_stays(world, wait);
        let work = if is_worker(world, wait.actor) { world.tasks.get(wait.task).work } else { None };
        let account = self.account_mut(wait.actor);
        account.add_wait(world, wait, stretch);
        if let Some((function, workqueue)) = work {
            account.work.get_or_insert_default().add_wait(function, workqueue);
        }
    }

    fn unproved(&mut self, world: &World, wait: &Unproved) {
        if self.takes(world, wait.cpu, wait.start, wait.start + wait.open.possible) {
            self.account_mut(wait.actor).add_unproved(world, wait);
        }
    }

    #[inline(never)]
    fn run(&mut self, world: &World, run: &Run) {
        let policy = world.actors.get(run.actor).policy();
        let real_time = matches!(policy, Some(Policy::Rt | Policy::Deadline));
        if real_time {
            self.real_time.push(run);
        } else if run.length() >= STAY_KEPT {
            self.fair.push(run);
        }
        if !self.takes(world, run.cpu, run.start, run.end) {
            return;
        }
        let runtime = match policy {
            Some(Policy::Deadline) => world.settings().deadline_runtime(world.tasks.get(run.task).tid),
            _ => None,
        };
        self.runs += 1;
        let account = self.account_mut(run.actor);
        account.add_run(run);
        if let Some(runtime) = runtime {
            let stopped = matches!(run.ended, RunEnd::Preempted { .. });
            let spent = stopped && run.length().0 as f64 >= SPENT * runtime.0 as f64;
            *account.runs.spent.get_or_insert(0) += u64::from(spent);
        }
        if real_time {
            account.runs.episodes.push(run.start, run.end);
        }
        if let RunEnd::Preempted { by, by_wakeup } = run.ended {
            let is_kept = || keeps(world, run.actor, by);
            let preemptions = self.preemptions.entry_of((run.actor, by), (run.actor, ActorId::OTHERS), is_kept);
            preemptions.count += 1;
            preemptions.by_wakeup += u64::from(by_wakeup);
        }
    }

    #[inline(never)]
    fn wake(&mut self, world: &World, wake: &Wake<'_>) {
        if !self.takes(world, wake.cpu, wake.time, wake.time + Nanos(1)) {
            return;
        }
        let wakee = world.tasks.get(wake.wakee).actor;
        self.account_mut(wakee).wakeups += 1;
        if let Waker::Task(waker) = wake.waker {
            let waker = world.tasks.get(waker).actor;
            *self.wakes.entry((waker, wakee), (waker, ActorId::OTHERS)) += 1;
        }
        if let Some(suspect) = wake.suspect {
            let suspect = world.tasks.get(suspect).actor;
            *self.doubtful_wakes.entry((suspect, wakee), (suspect, ActorId::OTHERS)) += 1;
        }
        for price in wake.prices {
            let paid = self.prices.entry((price.victim, wakee), (price.victim, ActorId::OTHERS));
            paid.length += price.length;
            paid.certain += price.certain;
            paid.through_device += price.through_device;
        }
    }

    fn migration(&mut self, world: &World, migration: &Migration) {
        if self.takes(world, migration.to, migration.time, migration.time + Nanos(1)) {
            self.migrations += 1;
            let actor = world.tasks.get(migration.task).actor;
            self.account_mut(actor).migrations += 1;
        }
    }

    fn interrupt(&mut self, world: &World, interrupt: &Interrupt) {
        if !self.takes(world, interrupt.cpu, interrupt.start, interrupt.end) {
            return;
        }
        let overflow = (ActorId::OTHERS, interrupt.cpu);
        let stays = self.interrupts.entry((interrupt.actor, interrupt.cpu), overflow);
        let length = interrupt.end.since(interrupt.start);
        stays.count += 1;
        stays.total += length;
        stays.longest = stays.longest.max(length);
        stays.after_handler += u64::from(interrupt.follows_handler);
    }

    fn work_item(&mut self, world: &World, item: &WorkItem) {
        if self.selection.has_span(item.start, item.end, world.start) {
            let worker = world.tasks.get(item.worker);
            let on_cpu = worker.last_cpu().is_none_or(|cpu| self.selection.has_cpu(cpu));
            let actor = worker.actor;
            if on_cpu {
                self.account_mut(actor).work.get_or_insert_default().add_item(item);
            }
        }
    }
}
