//! A reference run queue of one CPU: which task runs next, and how long each task waits for which occupant, by which rule.
//!
//! It is written for clarity, not speed: it keeps every waiting task and calls [`Contender::ahead_of`] for each. The timeline
//! and the eBPF programs compute the same faster, and are tested against it.

use unstarve_model::{Nanos, Policy, Time};

use crate::counted::WAKEUP_PREEMPTION_WITHIN;
use crate::{Ahead, Contender, Groups, Rule, load_weight_of_nice, precedes};

/// A task that waits for the CPU.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Waiting<K> {
    /// The task.
    pub key: K,
    /// The properties that decide when it competes.
    pub contender: Contender,
    /// When it was put on this queue.
    since: Time,
    /// Whether it was woken, and not preempted or migrated here.
    was_woken: bool,
    /// Whether the running task preempted it right after that task's wakeup.
    lost_to_a_wakeup: bool,
    /// Its run time divided by its weight; see [`RunQueue::pick_next`].
    virtual_runtime: f64,
    /// Its position among real-time tasks of the same priority.
    order: i64,
}

/// The task that has the CPU.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Running<K> {
    /// The task.
    pub key: K,
    /// The properties that decide when it competes.
    pub contender: Contender,
    since: Time,
    virtual_runtime: f64,
    order: i64,
}

/// A part of a wait: the waiting task, the occupant (none if the CPU was idle), the rule and the length.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Charge<K> {
    /// The task that waited.
    pub waiting: Waiting<K>,
    /// The task that had the CPU.
    pub occupant: Option<Running<K>>,
    /// Why the occupant had the CPU.
    pub rule: Rule,
    /// For how long.
    pub length: Nanos,
}

/// The run queue of one CPU.
#[derive(Clone, PartialEq, Debug)]
pub struct RunQueue<K> {
    current: Option<Running<K>>,
    waiting: Vec<Waiting<K>>,
    /// The time up to which waits have been charged.
    charged: Time,
    /// The time of the last context switch.
    switched: Time,
    last_order: i64,
}

impl<K: Copy + Eq> RunQueue<K> {
    /// An idle CPU without waiting tasks.
    pub fn new(now: Time) -> RunQueue<K> {
        RunQueue { current: None, waiting: Vec::new(), charged: now, switched: now, last_order: 0 }
    }

    /// The running task; `None` if the CPU is idle.
    pub fn current(&self) -> Option<&Running<K>> {
        self.current.as_ref()
    }

    /// The tasks that wait here.
    pub fn waiting(&self) -> &[Waiting<K>] {
        &self.waiting
    }

    /// Puts a woken task on this queue.
    pub fn wake(&mut self, now: Time, key: K, contender: Contender) {
        self.enqueue(now, key, contender, true);
    }

    /// Puts a waiting task of another CPU's queue on this queue.
    pub fn move_here(&mut self, now: Time, key: K, contender: Contender) {
        self.enqueue(now, key, contender, false);
    }

    fn enqueue(&mut self, now: Time, key: K, contender: Contender, was_woken: bool) {
        // A task gains no claim by sleeping.
        let virtual_runtime = self.least_virtual_runtime();
        self.last_order += 1;
        let order = self.last_order;
        self.waiting.push(Waiting {
            key,
            contender,
            since: now,
            was_woken,
            lost_to_a_wakeup: false,
            virtual_runtime,
            order,
        });
    }

    fn least_virtual_runtime(&self) -> f64 {
        let all = self.waiting.iter().map(|task| task.virtual_runtime);
        let all = all.chain(self.current.map(|task| task.virtual_runtime));
        all.min_by(f64::total_cmp).unwrap_or_default()
    }

    /// Removes a waiting task that migrates to another CPU's queue, and charges its wait here.
    pub fn move_away(&mut self, now: Time, key: K, groups: &Groups, charge: &mut impl FnMut(&Charge<K>)) {
        self.charge(now, groups, charge);
        self.waiting.retain(|task| task.key != key);
    }

    /// Switches the CPU to `next`, one of the waiting tasks, or to idle. The previous task `stays` runnable, or sleeps.
    pub fn switch(
        &mut self,
        now: Time,
        next: Option<K>,
        stays: bool,
        groups: &Groups,
        charge: &mut impl FnMut(&Charge<K>),
    ) {
        self.charge(now, groups, charge);
        for task in &mut self.waiting {
            task.lost_to_a_wakeup = false;
        }
        let began = std::mem::replace(&mut self.switched, now);
        let index = next.and_then(|key| self.waiting.iter().position(|task| task.key == key));
        let next = index.map(|index| self.waiting.remove(index));
        let by_wakeup = next.is_some_and(|next| {
            next.was_woken && next.since >= began && now.since(next.since) <= WAKEUP_PREEMPTION_WITHIN
        });
        if let Some(prev) = self.current.take().filter(|_| stays) {
            self.waiting.push(prev.preempted(now, by_wakeup));
        }
        self.current = next.map(|task| Running {
            key: task.key,
            contender: task.contender,
            since: now,
            virtual_runtime: task.virtual_runtime,
            order: task.order,
        });
    }

    /// Charges all waits up to `now` to the task that has run since the last switch.
    pub fn charge(&mut self, now: Time, groups: &Groups, charge: &mut impl FnMut(&Charge<K>)) {
        for waiting in &self.waiting {
            let length = now.since(waiting.since.max(self.charged));
            if length > Nanos::ZERO {
                charge(&Charge { waiting: *waiting, occupant: self.current, rule: self.rule(waiting, groups), length });
            }
        }
        self.charged = now;
    }

    /// Why the running task has the CPU, and not `waiting`.
    fn rule(&self, waiting: &Waiting<K>, groups: &Groups) -> Rule {
        let Some(current) = &self.current else { return Rule::Idle };
        match current.contender.ahead_of(&waiting.contender, groups) {
            Ahead::Always(rule) => rule,
            Ahead::InTurn(_) if waiting.lost_to_a_wakeup => Rule::WakeupPreemption,
            Ahead::InTurn(rule) => rule.unwrap_or(Rule::Fair),
        }
    }

    /// The task that runs next if the running task `stays` runnable or sleeps: the highest class; among real-time tasks the
    /// highest priority, first come first served; in the fair class the task with the least run time for its weight. Kernels
    /// differ within the fair class (CFS picks the lowest virtual runtime, EEVDF since 6.6 the earliest deadline among tasks
    /// with owed time). Over time both give shares by weight, and only that is modelled here.
    pub fn pick_next(&self, now: Time, stays: bool) -> Option<K> {
        let current = self.current.filter(|_| stays).map(|task| task.preempted(now, false));
        let candidates = self.waiting.iter().copied().chain(current);
        candidates.reduce(|best, task| if task.goes_before(&best) { task } else { best }).map(|task| task.key)
    }
}

impl<K: Copy> Running<K> {
    /// The running task as a waiting one, after it loses the CPU.
    fn preempted(&self, now: Time, lost_to_a_wakeup: bool) -> Waiting<K> {
        let ran = now.since(self.since).0 as f64;
        Waiting {
            key: self.key,
            contender: self.contender,
            since: now,
            was_woken: false,
            lost_to_a_wakeup,
            virtual_runtime: self.virtual_runtime + ran / self.contender.share(),
            // A preempted real-time task stays first of its priority (`enqueue_task_rt` with ENQUEUE_HEAD).
            order: self.order,
        }
    }
}

impl<K> Waiting<K> {
    /// Whether the running task preempted this one right after the running task's wakeup.
    pub fn has_lost_to_a_wakeup(&self) -> bool {
        self.lost_to_a_wakeup
    }

    fn goes_before(&self, other: &Waiting<K>) -> bool {
        let (prio, its) = (self.contender.prio(), other.contender.prio());
        if precedes(prio, its) || precedes(its, prio) {
            return precedes(prio, its);
        }
        match prio.policy() {
            Policy::Deadline | Policy::Rt => self.order < other.order,
            Policy::Fair | Policy::Idle => self.virtual_runtime < other.virtual_runtime,
        }
    }
}

impl Contender {
    /// Its weight relative to nice 0.
    fn share(&self) -> f64 {
        f64::from(self.weight().max(1)) / f64::from(load_weight_of_nice(0))
    }
}

#[cfg(test)]
mod tests {
    use unstarve_model::Prio;

    use super::*;

    fn nice(nice: i32) -> Contender {
        Contender::of_prio(Prio(120 + nice), None)
    }

    fn fifo(priority: i32) -> Contender {
        Contender::of_prio(Prio(99 - priority), None)
    }

    /// Describes what each of the given steps charges.
    #[derive(Default)]
    struct Log(Vec<String>);

    impl Log {
        fn add(&mut self) -> impl FnMut(&Charge<char>) + '_ {
            |charge| {
                let occupant = charge.occupant.map_or('-', |task| task.key);
                self.0
                    .push(format!("{} behind {occupant} by {}: {}", charge.waiting.key, charge.rule, charge.length.0));
            }
        }
    }

    #[test]
    fn waits_are_charged_to_who_has_the_cpu() {
        //  w  wrrrrr......     woken beside a; pushes a off
        //  a  rrwwwww          goes on at 700
        //  f      w            FIFO, woken at 500; the switch comes at 600
        let (mut queue, mut log, groups) = (RunQueue::new(Time(0)), Log::default(), Groups::default());
        queue.wake(Time(0), 'a', nice(0));
        queue.switch(Time(10), Some('a'), true, &groups, &mut log.add());
        queue.wake(Time(100), 'w', nice(-5));
        queue.switch(Time(150), Some('w'), true, &groups, &mut log.add());
        queue.wake(Time(500), 'f', fifo(10));
        queue.switch(Time(600), Some('f'), true, &groups, &mut log.add());
        queue.switch(Time(700), Some('a'), false, &groups, &mut log.add());
        queue.charge(Time(800), &groups, &mut log.add());
        insta::assert_snapshot!(log.0.join("\n"), @"
        a behind - by idle: 10
        w behind a by fair: 50
        a behind w by wakeup-preemption: 450
        f behind w by not-preempted: 100
        a behind f by class: 100
        w behind f by class: 100
        w behind a by fair: 100
        ");
    }

    #[test]
    fn the_order_is_class_then_priority_then_arrival_then_least_run() {
        let mut queue = RunQueue::new(Time(0));
        let (groups, mut none) = (Groups::default(), |_: &Charge<u32>| {});
        for (key, contender) in [(1, nice(0)), (2, fifo(10)), (3, fifo(20)), (4, fifo(20)), (5, nice(-10))] {
            queue.wake(Time(key.into()), key, contender);
        }
        queue.wake(Time(6), 6, Contender::of_prio(Prio(-1), None));
        let mut order = Vec::new();
        for at in 1..=6 {
            let next = queue.pick_next(Time(at * 1000), false);
            order.extend(next);
            queue.switch(Time(at * 1000), next, false, &groups, &mut none);
        }
        assert_eq!(order, [6, 3, 4, 2, 1, 5]);
    }

    #[test]
    fn shares_of_the_fair_class_are_those_of_the_weights() {
        let (mut queue, groups, mut none) = (RunQueue::new(Time(0)), Groups::default(), |_: &Charge<usize>| {});
        queue.wake(Time(0), 0_usize, nice(0));
        queue.wake(Time(0), 1, nice(5));
        let mut ran = [0_u32; 2];
        for turn in 1..=10_000 {
            let now = Time(turn * 1_000_000);
            let next = queue.pick_next(now, true);
            if next != queue.current().map(|task| task.key) {
                queue.switch(now, next, true, &groups, &mut none);
            }
            ran[next.expect("two wait")] += 1;
        }
        // 1024 and 335.
        assert!((7520..7560).contains(&ran[0]), "{ran:?}");
    }
}
