//! What one thread has to do, and the doing of it.

use std::sync::atomic::{AtomicU64, Ordering};

use unstarve_sim::{Actor, Op};

use super::costs::Costs;
use super::own_time::{OwnTime, monotonic};
use super::stage::{Entered, Stage};

/// One operation, ready to be done. 16 bytes: a program has millions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Step {
    what: What,
    /// For a wake the actor; for a run what its end comes early, because of what follows.
    number: u32,
    ns: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Run,
    RunByClock,
    Block,
    Take,
    SleepUntil,
    SleepFor,
    Wake,
}

/// The steps of an actor. Runs that follow each other are one.
pub(super) fn steps(actor: &Actor, costs: &Costs) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::with_capacity(actor.ops.len());
    for op in &actor.ops {
        let step = |what, ns, number| Step { what, ns, number };
        let (step, lead) = match *op {
            Op::Run(time) => {
                if let Some(Step { what: What::Run, ns, .. }) = steps.last_mut() {
                    *ns = ns.saturating_add(time.0);
                    continue;
                }
                (step(What::Run, time.0, 0), 0)
            }
            Op::RunByClock(time) => (step(What::RunByClock, time.0, 0), 0),
            Op::Block => (step(What::Block, actor.costs.sleep.0, 0), costs.before_block),
            Op::Take => (step(What::Take, actor.costs.sleep.0, 0), costs.before_block),
            Op::SleepUntil(time) => (step(What::SleepUntil, time.0, 0), costs.before_sleep),
            Op::SleepFor(time) => (step(What::SleepFor, time.0, 0), costs.before_sleep),
            Op::Wake(woken) => (step(What::Wake, actor.costs.wake.0, woken.0), costs.before_wake),
            // A guest has no device that answers: such programs are not played.
            Op::WakeAfter(..) => continue,
        };
        if let Some(Step { what: What::Run, number, .. }) = steps.last_mut() {
            *number = lead;
        }
        steps.push(step);
    }
    steps
}

/// How far a thread is.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// Operations begun.
    pub(super) operations: AtomicU64,
    /// When it was done, in ns from T0, plus 1; 0 if it is not.
    pub(super) finished: AtomicU64,
}

/// CPU time accounted since a wake is as long as the time since, but for what comes between the waker's look at the clock and the
/// kernel's.
const ACCOUNTED_NEAR: u64 = 5_000;

/// A thread at work.
struct Performer<'a> {
    stage: &'a Stage,
    own: OwnTime,
    /// The CPU time at which the runs so far end.
    due: i64,
    /// How long what it did since it last looked at the clock takes.
    since_look: u64,
    /// The least CPU time that a block took.
    least_block: u64,
}

/// Does all steps of the thread's part. The first sleep begins before T0, so that nobody gets the CPU at T0 only to sleep.
pub(super) fn perform(stage: &Stage, entered: &Entered<'_>) {
    let t0 = stage.t0();
    let steps = entered.steps;
    let starts_asleep = steps
        .first()
        .is_some_and(|step| matches!(step.what, What::Block | What::Take | What::SleepUntil | What::SleepFor));
    if !starts_asleep {
        sleep_until(t0);
    }
    let own = OwnTime::start();
    let mut performer = Performer { stage, due: 0, own, since_look: 0, least_block: u64::MAX };
    performer.due = performer.own.ask() as i64;
    for (index, step) in (1..).zip(steps) {
        entered.progress.operations.store(index, Ordering::Relaxed);
        // What sleeps first sleeps from T0.
        let from = if index == 1 { t0 } else { 0 };
        performer.perform(step, entered, t0, from);
        if let (What::Run, Some(end)) = (step.what, entered.run_ends.get(index as usize - 1)) {
            end.store(performer.own.when(performer.due), Ordering::Relaxed);
        }
        if stage.is_over() {
            return;
        }
    }
    entered.progress.finished.store(monotonic().saturating_sub(t0) + 1, Ordering::Release);
    stage.leave();
}

impl Performer<'_> {
    fn perform(&mut self, step: &Step, entered: &Entered<'_>, t0: u64, from: u64) {
        let costs = &self.stage.costs;
        match step.what {
            What::Run => {
                self.due = self.due.saturating_add_unsigned(step.ns);
                let target = u64::try_from(self.due - i64::from(step.number)).unwrap_or(0);
                let lost = self.own.compute_until(target, self.since_look, || self.stage.is_over());
                self.since_look = 0;
                self.due -= (lost as i64).saturating_mul(i64::from(costs.unseen_when_preempted));
            }
            What::RunByClock => {
                let until = monotonic() + step.ns;
                while monotonic() < until && !self.stage.is_over() {}
                self.due = self.own.ask() as i64;
                self.since_look = 0;
            }
            What::Wake => {
                let tokens = &self.stage.tokens[step.number as usize];
                let woke = match self.stage.is_multiprocessor {
                    true => tokens.give_at(monotonic()),
                    false => tokens.give(),
                };
                if !woke {
                    self.due = self.due.saturating_sub_unsigned(step.ns);
                }
                self.since_look += u64::from(costs.wake);
            }
            What::Block | What::Take => {
                let before = self.own.at_look();
                let sleeps = entered.tokens.take();
                match (step.what, sleeps) {
                    // What a sleep costs is part of the recorded run of one, and not of the other.
                    (What::Block, false) => self.due = self.due.saturating_sub_unsigned(step.ns),
                    (What::Take, true) => self.due = self.due.saturating_add_unsigned(step.ns),
                    _ => {}
                }
                if sleeps {
                    self.slept(costs.unseen_when_woken);
                    if self.stage.is_multiprocessor {
                        self.forgive_latency(before, entered.tokens.woken());
                    }
                }
            }
            What::SleepUntil => {
                if monotonic() < t0 + step.ns {
                    sleep_until(t0 + step.ns);
                    self.slept(costs.unseen_when_timed);
                }
            }
            What::SleepFor => {
                // The sleeping kernel function counts from its call: one clock read less than an absolute sleep.
                match from {
                    0 => sleep_for(step.ns),
                    from => sleep_until(from + step.ns),
                }
                self.slept(costs.unseen_when_timed);
            }
        }
    }

    /// Where a wake from another CPU preempts, the kernel accounts for the woken thread from the wake on
    /// (`rq_clock_skip_update()` in `wakeup_preempt()`, kernel/sched/core.c), though it gets the CPU only after the interrupt
    /// from there has come: a microsecond on a machine, a whole turn of the other CPUs in a guest. That is no CPU time of its own.
    fn forgive_latency(&mut self, before: u64, woken: u64) {
        let used = self.own.at_look().saturating_sub(before);
        let since_woken = self.own.looked().saturating_sub(woken);
        self.least_block = self.least_block.min(used);
        let accounted_since = used.saturating_sub(u64::from(self.stage.costs.before_block)) + ACCOUNTED_NEAR;
        if accounted_since >= since_woken {
            self.due = self.due.saturating_add_unsigned(used - self.least_block);
        }
    }

    /// It slept, and has the CPU again. `unseen`: see [`Costs`].
    fn slept(&mut self, unseen: i32) {
        self.due -= i64::from(unseen);
        self.own.ask();
        self.since_look = 0;
    }
}

fn timespec(ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (ns / 1_000_000_000) as libc::time_t, tv_nsec: (ns % 1_000_000_000) as libc::c_long }
}

/// Sleeps until a moment on CLOCK_MONOTONIC.
pub(super) fn sleep_until(at: u64) {
    let at = timespec(at);
    // SAFETY: reads one timespec; the remaining time is not asked for.
    while unsafe {
        libc::clock_nanosleep(libc::CLOCK_MONOTONIC, libc::TIMER_ABSTIME, &raw const at, std::ptr::null_mut())
    } == libc::EINTR
    {}
}

fn sleep_for(ns: u64) {
    let mut rest = timespec(ns);
    let rest = &raw mut rest;
    // SAFETY: reads one timespec, and on a signal writes what is left of it into the same.
    while unsafe { libc::clock_nanosleep(libc::CLOCK_MONOTONIC, 0, rest, rest) } == libc::EINTR {}
}

#[cfg(test)]
mod tests {
    use unstarve_model::{CpuSet, Nanos, SchedPolicy, Tid};
    use unstarve_sim::{ActorId, Class, Placement, SwitchCosts};

    use super::*;

    #[test]
    fn runs_are_joined_and_end_early_by_what_follows() {
        let class = Class::Fair { policy: SchedPolicy::Other, nice: 0 };
        let actor = Actor {
            tid: Tid(1),
            process: None,
            comm: "a".to_owned(),
            is_kernel_thread: false,
            begins_on: None,
            is_born: false,
            costs: SwitchCosts::default(),
            placement: Placement { class, cpus: CpuSet::default(), cgroup: None, slice: None },
            ops: vec![
                Op::Run(Nanos(10)),
                Op::Run(Nanos(5)),
                Op::Wake(ActorId(3)),
                Op::Run(Nanos(7)),
                Op::Block,
                Op::SleepFor(Nanos(9)),
                Op::Run(Nanos(1)),
            ],
        };
        let costs = Costs { before_wake: 4, before_block: 3, ..Costs::default() };
        let shown: Vec<(What, u32, u64)> =
            steps(&actor, &costs).iter().map(|step| (step.what, step.number, step.ns)).collect();
        let expected = [
            (What::Run, 4, 15),
            (What::Wake, 3, 0),
            (What::Run, 3, 7),
            (What::Block, 0, 0),
            (What::SleepFor, 0, 9),
            (What::Run, 0, 1),
        ];
        assert_eq!(shown, expected);
    }
}
