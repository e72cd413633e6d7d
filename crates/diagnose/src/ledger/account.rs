//! The sums of one actor over the trace: waits, runs, owed time, and idle CPUs during its waits.

use unstarve_model::{CpuId, CpuSet, Nanos, Time};
use unstarve_sched::Rule;
use unstarve_timeline::{ActorId, Piece, Run, RunEnd, Throughout, Unproved, Wait, WaitKind, World};

use super::spans::Spans;
use super::unequal::UnequalWaits;
use super::{Episodes, OpenSpot, Quantiles, Spot, WorkLog, Worst};
use crate::verdict::INTERRUPTED_PART;

/// The sums of one actor over the trace.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub waits: u64,
    /// Waits that began with a wakeup or with the task's creation; the others began with a preemption.
    pub wakeup_waits: u64,
    pub waited: Nanos,
    pub longest: Nanos,
    pub quantiles: Quantiles,
    /// The longest time in one wait under each [`Rule`]. For [`Rule::Class`] and [`Rule::Priority`]: the longest time without a
    /// gap.
    pub longest_by_rule: [Nanos; Rule::ALL.len()],
    /// Like `longest_by_rule`, but only from waits of which the rule had half or more: it is their main reason.
    pub longest_mainly: [Nanos; Rule::ALL.len()],
    /// The time under each rule in stalls: waits in which it was the main reason and took at least [`FAIR_PERIOD`].
    pub stalled_mainly: [Nanos; Rule::ALL.len()],
    /// For stalls by weight: the sum of the number of tasks, itself included, that waited on the same CPU at the end.
    pub queued_in_stalls: u64,
    /// The number of stalls with this rule as the main reason.
    pub stalls_mainly: [u64; Rule::ALL.len()],
    /// The number of waits in which this rule took at least [`FAIR_PERIOD`], main reason or not.
    pub stalls_by_rule: [u64; Rule::ALL.len()],
    /// The longest time that interrupts took from one wait, among waits of which they took a third or more. In a long wait behind
    /// something else, interrupts can add up to as much time without being the reason.
    pub longest_interrupted: Nanos,
    /// CPU time that an ideal processor would have given the actor while it was runnable.
    pub ideal: Nanos,
    /// CPU time received, without interrupts.
    pub got: Nanos,
    /// The sum over all waits of the number of tasks, itself included, that waited on the same CPU at the end.
    pub queued_together: u64,
    pub cpus: CpuSet,
    pub worst: Worst,
    pub episodes: Episodes,
    pub runs: Runs,
    pub wakeups: u64,
    pub migrations: u64,
    pub moves_while_waiting: u64,
    pub idle_elsewhere: IdleElsewhere,
    /// Set if one of the waits filled the whole trace.
    pub throughout: Option<Throughout>,
    /// The wait, among those not over at the end of the recording, that may be the longest. A wait that is not proved at all is
    /// not in the sums.
    pub open: Option<Box<OpenSpot>>,
    /// Added to `idle_elsewhere` only by [`Account::settle`].
    beside_unheard: Vec<BesideUnheard>,
    /// Waits that fair sharing does not explain.
    pub unequal: Option<Box<UnequalWaits>>,
    /// Only for kernel workers.
    pub work: Option<Box<WorkLog>>,
}

/// The runs of an actor.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs {
    pub count: u64,
    pub total: Nanos,
    pub longest: Nanos,
    pub irq: Nanos,
    pub softirq: Nanos,
    pub slept: u64,
    pub preempted: u64,
    pub preempted_by_wakeup: u64,
    /// For a deadline task: runs that ended while it was runnable and had used up its runtime. `None` if its runtime is unknown.
    pub spent: Option<u64>,
    /// Long runs over time; filled only for real-time and deadline tasks.
    pub episodes: Episodes,
}

/// Waits during which another CPU that the task may use was idle.
#[derive(Clone, Debug, Default)]
pub(crate) struct IdleElsewhere {
    /// Waits for which this is known.
    pub known: u64,
    /// Idle time elsewhere, summed over all waits.
    pub total: Nanos,
    /// Waits with more than a tick of idle time elsewhere.
    pub long: u64,
    /// Idle time elsewhere, summed over those waits.
    pub long_total: Nanos,
    /// Like `long_total`, but each moment counts once even if several tasks waited: one idle CPU can take only one of them.
    pub long_span: Nanos,
    /// The time already counted in `long_span`, as far back as is remembered.
    counted: Spans,
    /// The longest idle time elsewhere in one wait.
    pub longest: Nanos,
}

/// Waits during which one CPU had not issued any event yet. Whether it was idle is known only at the end of the trace.
#[derive(Clone, Debug)]
pub(crate) struct BesideUnheard {
    cpu: CpuId,
    /// Idle time elsewhere if that CPU turns out to have been busy, and if idle.
    if_busy: IdleElsewhere,
    if_idle: IdleElsewhere,
}

/// Maximum such CPUs tracked per actor.
const UNHEARD: usize = 8;

/// A tick at the usual CONFIG_HZ=250. The periodic load balancer looks for waiting tasks on a tick, so a CPU may legitimately
/// stay idle for this long.
pub(crate) const TICK: Nanos = Nanos::from_millis(4);
/// The period in which CFS (up to 6.5) aims to run every runnable task of a CPU, for up to 8 tasks: `sched_latency_ns` (6 ms), times 4 on eight or
/// more CPUs. With more tasks it is their number times `sched_min_granularity_ns` (`__sched_period()` in kernel/sched/fair.c), and so longer. EEVDF
/// has no period; its slices are much shorter. A longer wait that is not plain sharing is a stall.
pub(crate) const FAIR_PERIOD: Nanos = Nanos::from_millis(24);

/// An occupant or rule is the main reason of a wait if it had half of it or more. In a wait caused by a crowd of equals, whatever
/// else ran is then not counted as a stall.
#[inline(always)]
fn is_main(part: Nanos, length: Nanos) -> bool {
    length > Nanos::ZERO && part >= length.saturating_sub(part)
}

impl Account {
    pub fn new() -> Account {
        Account {
            waits: 0,
            wakeup_waits: 0,
            waited: Nanos::ZERO,
            longest: Nanos::ZERO,
            quantiles: Quantiles::default(),
            longest_by_rule: [Nanos::ZERO; Rule::ALL.len()],
            longest_mainly: [Nanos::ZERO; Rule::ALL.len()],
            stalled_mainly: [Nanos::ZERO; Rule::ALL.len()],
            stalls_mainly: [0; Rule::ALL.len()],
            stalls_by_rule: [0; Rule::ALL.len()],
            longest_interrupted: Nanos::ZERO,
            ideal: Nanos::ZERO,
            got: Nanos::ZERO,
            queued_together: 0,
            queued_in_stalls: 0,
            cpus: CpuSet::default(),
            worst: Worst::default(),
            episodes: Episodes::default(),
            runs: Runs::default(),
            wakeups: 0,
            migrations: 0,
            moves_while_waiting: 0,
            idle_elsewhere: IdleElsewhere::default(),
            throughout: None,
            open: None,
            beside_unheard: Vec::new(),
            unequal: None,
            work: None,
        }
    }

    /// Adds a wait; `stretch` is the longest time without a gap that it was behind real-time tasks, if known.
    #[inline(always)]
    pub fn add_wait(&mut self, world: &World, wait: &Wait<'_>, stretch: Option<Nanos>) {
        let length = wait.length();
        self.waits += 1;
        self.wakeup_waits += u64::from(wait.kind != WaitKind::Preemption);
        self.waited += length;
        self.longest = self.longest.max(length);
        self.quantiles.record(length);
        self.ideal += wait.owed;
        self.queued_together += u64::from(wait.queue_length);
        self.moves_while_waiting += u64::from(wait.migrations);
        self.cpus.insert(wait.cpu);
        if wait.throughout.is_some() {
            self.throughout = self.throughout.max(wait.throughout);
        }
        self.episodes.push(wait.start, wait.end);
        if let Some(open) = wait.open {
            let tid = world.tasks.get(wait.task).tid;
            self.add_open(OpenSpot { tid, cpu: wait.cpu, open });
        }
        match wait.idle_elsewhere {
            // No CPU was idle elsewhere: only the count changes.
            Some(Nanos::ZERO) if wait.beside_unheard.is_none() => self.idle_elsewhere.known += 1,
            Some(idle) => self.add_idle(idle, wait),
            None => {}
        }
        let main = match wait.pieces {
            // Fast path: most waits have one piece.
            [piece] => {
                if matches!(piece.rule, Rule::Irq | Rule::Softirq) {
                    self.add_interrupted(piece.length, length);
                }
                self.add_part(piece.rule, piece.length, wait, stretch);
                if piece.length > Nanos::ZERO { piece.rule } else { Rule::Unknown }
            }
            pieces => self.add_parts(pieces, wait, stretch),
        };
        debug_assert_eq!(main, wait.main_rule());
        self.worst.offer(main, length, || Spot::of(world, wait));
    }

    /// Adds a wait that may not have been over at the end of the recording, and of which nothing is proved.
    pub fn add_unproved(&mut self, world: &World, wait: &Unproved) {
        let tid = world.tasks.get(wait.task).tid;
        self.add_open(OpenSpot { tid, cpu: wait.cpu, open: wait.open });
    }

    #[cold]
    fn add_open(&mut self, spot: OpenSpot) {
        let rank = |spot: &OpenSpot| (spot.open.possible, spot.open.proved);
        if self.open.as_ref().is_none_or(|known| rank(&spot) > rank(known)) {
            self.open = Some(Box::new(spot));
        }
    }

    /// Adds the time of each rule within a wait; returns the rule with the longest time.
    fn add_parts(&mut self, pieces: &[Piece], wait: &Wait<'_>, stretch: Option<Nanos>) -> Rule {
        // Sum the pieces of one rule: two real-time tasks that alternate are one long wait.
        let mut together = [Nanos::ZERO; Rule::ALL.len()];
        for piece in pieces {
            together[piece.rule as usize] += piece.length;
        }
        let interrupted = together[Rule::Irq as usize] + together[Rule::Softirq as usize];
        let mut main = (Nanos::ZERO, Rule::Unknown);
        for piece in pieces {
            // Each rule once, in the order of its longest piece.
            let length = std::mem::take(&mut together[piece.rule as usize]);
            if length > Nanos::ZERO {
                if length > main.0 {
                    main = (length, piece.rule);
                }
                self.add_part(piece.rule, length, wait, stretch);
            }
        }
        self.add_interrupted(interrupted, wait.length());
        main.1
    }

    #[inline]
    fn add_interrupted(&mut self, interrupted: Nanos, length: Nanos) {
        if interrupted > self.longest_interrupted && interrupted.share_of(length) >= INTERRUPTED_PART {
            self.longest_interrupted = interrupted;
        }
    }

    /// Adds the total time of one rule within a wait.
    #[inline]
    fn add_part(&mut self, rule: Rule, together: Nanos, wait: &Wait<'_>, stretch: Option<Nanos>) {
        let is_main = || is_main(together, wait.length());
        let together = match stretch {
            Some(stretch) if rule.is_precedence() => together.min(stretch),
            _ => together,
        };
        let longest = &mut self.longest_by_rule[rule as usize];
        *longest = (*longest).max(together);
        let longest = &mut self.longest_mainly[rule as usize];
        if together > *longest && is_main() {
            *longest = together;
        }
        if together >= FAIR_PERIOD {
            self.add_stall(rule, together, is_main(), wait.queue_length);
        }
    }

    #[inline(never)]
    fn add_stall(&mut self, rule: Rule, together: Nanos, is_main: bool, queue_length: u32) {
        self.stalls_by_rule[rule as usize] += 1;
        if is_main {
            self.stalled_mainly[rule as usize] += together;
            self.stalls_mainly[rule as usize] += 1;
            if rule == Rule::Weight {
                self.queued_in_stalls += u64::from(queue_length);
            }
        }
    }

    fn add_idle(&mut self, idle: Nanos, wait: &Wait<'_>) {
        // A throttled task may not use any CPU, idle or not.
        let stopped = wait.pieces.iter().filter(|piece| piece.rule == Rule::Throttled);
        let stopped = stopped.fold(Nanos::ZERO, |sum, piece| sum + piece.length);
        let free = wait.length().saturating_sub(stopped);
        let idle = idle.min(free);
        match wait.beside_unheard {
            Some(cpu) => self.add_beside_unheard(cpu, idle, free, wait),
            None => self.idle_elsewhere.add(idle, wait.start, wait.end),
        }
    }

    #[cold]
    fn add_beside_unheard(&mut self, cpu: CpuId, idle: Nanos, free: Nanos, wait: &Wait<'_>) {
        let index = match self.beside_unheard.iter().position(|beside| beside.cpu == cpu) {
            Some(index) => index,
            None if self.beside_unheard.len() < UNHEARD => {
                let (if_busy, if_idle) = Default::default();
                self.beside_unheard.push(BesideUnheard { cpu, if_busy, if_idle });
                self.beside_unheard.len() - 1
            }
            None => return self.idle_elsewhere.add(idle, wait.start, wait.end),
        };
        let own = wait.pieces.iter().filter(|piece| piece.occupant == ActorId::IDLE).map(|piece| piece.length).sum();
        let beside = &mut self.beside_unheard[index];
        beside.if_busy.add(idle, wait.start, wait.end);
        beside.if_idle.add(wait.length().saturating_sub(own).min(free), wait.start, wait.end);
    }

    /// Called at the end of the trace, when it is known which CPUs were idle before their first event.
    pub fn settle(&mut self, idle: &CpuSet) {
        for beside in self.beside_unheard.drain(..) {
            let known = if idle.contains(beside.cpu) { beside.if_idle } else { beside.if_busy };
            self.idle_elsewhere.merge(&known);
        }
    }

    pub fn add_run(&mut self, run: &Run) {
        let runs = &mut self.runs;
        runs.count += 1;
        runs.total += run.length();
        runs.longest = runs.longest.max(run.length());
        runs.irq += run.irq;
        runs.softirq += run.softirq;
        self.ideal += run.ideal;
        self.got += run.length().saturating_sub(run.irq + run.softirq);
        match run.ended {
            RunEnd::Slept | RunEnd::Died => runs.slept += 1,
            RunEnd::Preempted { by_wakeup, .. } => {
                runs.preempted += 1;
                runs.preempted_by_wakeup += u64::from(by_wakeup);
            }
            RunEnd::Cut => {}
        }
    }

    /// Owed time: ideal fair-share service minus service received; zero if the actor received more than its share.
    pub fn owed(&self) -> Nanos {
        self.ideal.saturating_sub(self.got)
    }

    /// Owed time, limited to what the task would have used. A task that runs briefly and then sleeps is never owed more than it
    /// would have run, however long it waits. A task that mostly loses the CPU while runnable would have used all of it.
    pub fn starved(&self) -> Nanos {
        let would_use_all = self.throughout.is_some() || self.runs.preempted > self.runs.slept;
        if would_use_all { self.owed() } else { self.owed().min(self.got) }
    }

    /// The mean run time between a wakeup and the next sleep.
    pub fn run_per_wakeup(&self) -> Option<Nanos> {
        (self.wakeups > 0).then(|| Nanos(self.runs.total.0 / self.wakeups))
    }
}

impl IdleElsewhere {
    fn merge(&mut self, other: &IdleElsewhere) {
        self.known += other.known;
        self.total += other.total;
        self.long += other.long;
        self.long_total += other.long_total;
        self.long_span += other.long_span;
        self.counted.merge(&other.counted);
        self.longest = self.longest.max(other.longest);
    }

    #[inline]
    fn add(&mut self, idle: Nanos, start: Time, end: Time) {
        self.known += 1;
        self.total += idle;
        self.longest = self.longest.max(idle);
        if idle >= TICK {
            self.add_long(idle, start, end);
        }
    }

    #[inline(never)]
    fn add_long(&mut self, idle: Nanos, start: Time, end: Time) {
        self.long += 1;
        self.long_total += idle;
        self.long_span += idle.min(self.counted.add(start, end));
    }
}
