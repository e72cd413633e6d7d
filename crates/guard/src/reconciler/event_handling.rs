//! Handles task events: forks, renames, execs, user and cgroup changes, work items, exits.

use std::time::{Duration, Instant};

use unstarve_change::TaskKey;
use unstarve_executor::act;
use unstarve_executor::audit::{Entry, Event};
use unstarve_executor::host::Host;
use unstarve_executor::journal::Step;
use unstarve_executor::sched::{self, TICK_NS};
use unstarve_model::Tid;

use super::{Due, MOST_WORKERS, Reconciler, ReconcilerError, Released};
use crate::task::{Task, Work};
use crate::task_events::{Born, Signal};
use crate::task_view::TaskView;

/// When a new kernel thread is read again.
const LOOKS: [Duration; 2] = [Duration::from_millis(5), Duration::from_millis(100)];

impl<H: Host, S: TaskView> Reconciler<H, S> {
    /// Handles a batch of events.
    pub fn hear(&mut self, signals: &mut Vec<Signal>) -> Result<(), ReconcilerError> {
        self.metrics.counts.events += signals.len() as u64;
        let mut due = Vec::new();
        for signal in signals.drain(..) {
            match signal {
                Signal::Born(born) => self.born(&born, &mut due)?,
                Signal::Renamed { tid, tgid } => {
                    let born = self.unnamed.remove(&tid);
                    self.look(tgid, tid, born, &mut due);
                }
                // When one thread changes its user, its other threads soon follow (glibc, nptl/setxid).
                Signal::Reowned { tid, tgid } => self.look(tgid, tid, None, &mut due),
                Signal::Moved { tid, tgid } => self.moved(tgid, tid, &mut due),
                Signal::Executed { tid, time } => self.executed(tid, time, &mut due)?,
                Signal::Worked { tid, work } => self.worked(tid, work, &mut due),
                Signal::Changed { tid, by, by_comm } => self.changed(tid, by, &by_comm)?,
                Signal::Ended { tid, ran, cpu, realtime } => self.ended(tid, ran, cpu, realtime),
                Signal::Lost(count) => {
                    self.metrics.counts.events_lost += count;
                    self.lost(Event::Lost);
                }
                Signal::Throttled(count) => {
                    self.metrics.counts.throttled += count;
                    self.lost(Event::Throttled);
                }
            }
        }
        self.make(due)
    }

    fn lost(&mut self, event: Event) {
        // Once for each scan, not for each of a thousand events.
        if !self.must_look {
            self.audit.log(&Entry { reason: Some("everything is looked at soon"), ..Entry::of(event) });
            self.must_look = true;
        }
    }

    /// When [`Reconciler::look_again`] is due.
    pub fn next_look(&self) -> Option<Instant> {
        self.looks.first().map(|(at, _)| *at)
    }

    /// Reads new kernel threads again that the kernel may have set up since.
    pub fn look_again(&mut self) -> Result<(), ReconcilerError> {
        let now = Instant::now();
        let count = self.looks.partition_point(|(at, _)| *at <= now);
        let mut due = Vec::new();
        for (_, tid) in self.looks.drain(..count).collect::<Vec<_>>() {
            let born = self.unnamed.remove(&tid);
            if let Some(task) = self.sight.task(tid) {
                if self.managed.contains_key(&task.key) {
                    self.check(&task, None)?;
                }
                self.consider(task, born, &mut due);
            }
        }
        self.make(due)
    }

    fn born(&mut self, born: &Born, due: &mut Vec<Due>) -> Result<(), ReconcilerError> {
        if born.kernel != Some(true) {
            let Some(task) = self.sight.task_in(born.tgid, born.tid) else {
                self.metrics.counts.gone += 1;
                return Ok(());
            };
            self.inherit(born, &task)?;
            if !self.managed.contains_key(&task.key) && !self.closed {
                // The task was ordinary at its fork, so its children inherit nothing.
                self.host.forget(task.key.tid);
            }
            if born.will_execute {
                return Ok(());
            }
            if let Some(task) = self.release(task) {
                self.consider(task, Some(born.time), due);
            }
            return Ok(());
        }
        // Until it has its own name it looks like kthreadd, and a rule for kthreadd is not meant for it.
        self.unnamed.insert(born.tid, born.time);
        let now = Instant::now();
        for after in LOOKS {
            let at = self.looks.partition_point(|(at, _)| *at <= now + after);
            self.looks.insert(at, (now + after, born.tid));
        }
        Ok(())
    }

    /// A task executed another program. Until then a child looks like its parent, so another rule or none may match now.
    fn executed(&mut self, tid: Tid, time: u64, due: &mut Vec<Due>) -> Result<(), ReconcilerError> {
        let Some(task) = self.sight.task_in(tid, tid) else {
            self.metrics.counts.gone += 1;
            return Ok(());
        };
        self.take_over(&task)?;
        if let Some(task) = self.release(task) {
            self.consider(task, Some(time), due);
        }
        Ok(())
    }

    /// Reverts values, set or inherited, whose rules no longer match the task. Returns the task as it is afterwards, so that
    /// the next rule records the original value; `None` if the task is gone. A rule may match a child and not its parent, or
    /// the reverse, and either only until an exec, a rename, or a change of user or cgroup. Each of these events checks its
    /// task, and each scan checks all.
    pub(super) fn release(&mut self, mut task: Task) -> Option<Task> {
        loop {
            let rules = &self.policy.rules;
            let Some(managed) = self.managed.get_mut(&task.key).filter(|_| !self.closed) else { return Some(task) };
            // A worker's items change all the time; it keeps the values of the item that it was raised for.
            let is_over = |rule: usize| {
                let selector = rules.get(rule).map(|rule| &rule.selector);
                selector.is_some_and(|selector| !selector.asks_for_work() && !selector.matches(&task))
            };
            let over: Vec<(usize, Step)> = managed.set.extract_if(.., |(rule, _)| is_over(*rule)).collect();
            if over.is_empty() {
                return Some(task);
            }
            self.take_from(task.key, over);
            task = self.sight.task_in(task.tgid, task.key.tid).filter(|now| now.key == task.key)?;
        }
    }

    /// Reverts some values of a task that remains managed.
    pub(super) fn take_from(&mut self, key: TaskKey, over: Vec<(usize, Step)>) {
        let (rules, over): (Vec<usize>, Vec<Step>) = over.into_iter().unzip();
        let undone = act::release(&mut self.host, &mut self.journal, &mut self.audit, &over);
        self.metrics.counts.restored += undone.restored as u64;
        self.recall(key, &over);
        let Some(managed) = self.managed.get_mut(&key) else { return };
        let at = sched::boot_ns() / TICK_NS;
        managed.released.extend(rules.into_iter().zip(over).map(|(rule, change)| Released { at, rule, change }));
    }

    /// A process, or one of its threads, moved to another cgroup.
    fn moved(&mut self, tgid: Tid, tid: Tid, due: &mut Vec<Due>) {
        let of_process = self.managed.iter().filter(|(_, managed)| managed.tgid == tgid).map(|(key, _)| key.tid);
        let mut tids: Vec<Tid> = of_process.chain([tid]).collect();
        tids.sort_unstable();
        tids.dedup();
        tids.into_iter().for_each(|tid| self.look(tgid, tid, None, due));
    }

    /// The reverted value may uncover an inherited one, which the task's children will inherit, too.
    fn recall(&mut self, key: TaskKey, over: &[Step]) {
        for taken in over {
            let aspect = taken.new.aspect();
            let below =
                self.journal.open_of(&taken.target).filter(|change| change.new.aspect() == aspect).last().cloned();
            let Some(managed) = self.managed.get_mut(&key) else { return };
            match below {
                Some(below) => {
                    let rule = self.policy.rules.iter().position(|rule| rule.name == below.rule);
                    managed.set.push((rule.unwrap_or(usize::MAX), below));
                }
                None => managed.before.retain(|value| value.aspect() != aspect),
            }
        }
    }

    fn worked(&mut self, tid: Tid, work: Work, due: &mut Vec<Due>) {
        // A kernel thread is a process of its own.
        let Some(task) = self.sight.task_in(tid, tid) else { return };
        if self.works.len() >= MOST_WORKERS {
            self.works.clear();
        }
        let works = self.works.entry(task.key).or_default();
        if !works.contains(&work) {
            works.push(work);
        }
        self.consider(task, None, due);
    }

    fn look(&mut self, tgid: Tid, tid: Tid, born: Option<u64>, due: &mut Vec<Due>) {
        match self.sight.task_in(tgid, tid) {
            Some(task) => {
                if let Some(task) = self.release(task) {
                    self.consider(task, born, due);
                }
            }
            None => self.metrics.counts.gone += u64::from(born.is_some()),
        }
    }
}
