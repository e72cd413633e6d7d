//! Drift: values that other programs changed since the guard set them. Corrects, yields or reports them.

use std::time::{Duration, Instant};

use unstarve_model::{SchedPolicy, Tid};

use super::{Reconciler, ReconcilerError};
use crate::policy::{OnDrift, Want};
use crate::task::{Kind, Task};
use crate::task_view::TaskView;
use unstarve_change::{Aspect, TaskKey, Value};
use unstarve_executor::act::{self, Outcome};
use unstarve_executor::audit::{Entry, Event};
use unstarve_executor::host::Host;
use unstarve_executor::journal::Step;

/// The kernel itself sets nice, policy and affinity of a new kernel thread (`kthread()`, `create_worker()`). What it overwrites
/// in this time is set again and does not count as drift.
const SETTLING: Duration = Duration::from_secs(1);

impl<H: Host, S: TaskView> Reconciler<H, S> {
    /// Another task changed a task's scheduling attributes.
    pub(super) fn changed(&mut self, tid: Tid, by: Tid, by_comm: &str) -> Result<(), ReconcilerError> {
        if self.closed || !self.by_tid.contains_key(&tid) {
            return Ok(());
        }
        let Some(task) = self.sight.task(tid) else { return Ok(()) };
        let who = format!("{by_comm}[{by}]");
        self.check(&task, Some(&who))
    }

    /// Compares a task's attributes with what was set.
    pub(super) fn check(&mut self, task: &Task, by: Option<&str>) -> Result<(), ReconcilerError> {
        let Some(managed) = self.managed.get_mut(&task.key) else { return Ok(()) };
        let now = Instant::now();
        let settling = now.duration_since(managed.since) < SETTLING && task.kind != Kind::User && by.is_none();
        managed.corrections.retain(|at| now.duration_since(*at) < Duration::from_secs(60));
        let mut again: Vec<(usize, Step)> = Vec::new();
        let mut given_up = Vec::new();
        for (rule, change) in &mut managed.set {
            let Some(value) = task.attributes.value(change.new.aspect()) else { continue };
            if value.same(&change.new) || managed.reported.iter().any(|reported| reported.same(&value)) {
                continue;
            }
            // A task that lowers its own policy keeps its other values: it stays managed and in the budget.
            let steps_down = value.is_step_down(&change.old, &change.new);
            if change.from.is_some() && steps_down {
                change.new = value;
                continue;
            }
            if change.from.is_some() {
                // No rule wanted this value for it: what a child sets for itself stays.
                given_up.push(change.new.aspect());
                continue;
            }
            let mut entry = Entry {
                rule: Some(&change.rule),
                target: Some(&change.target),
                comm: Some(&managed.comm),
                old: Some(&change.new),
                new: Some(&value),
                reason: by,
                ..Entry::of(Event::Drift)
            };
            if settling {
                again.push((*rule, Step { old: value, ..change.clone() }));
                continue;
            }
            self.metrics.counts.drift += 1;
            self.audit.log(&entry);
            let keep = self.policy.rules[*rule].on_drift == OnDrift::Keep;
            if keep && managed.corrections.len() < self.policy.limits.corrections as usize {
                managed.corrections.push(now);
                // A step down still counts as the guard's value, so undo restores the value from before it.
                let old = if steps_down { change.old.clone() } else { value };
                again.push((*rule, Step { old, ..change.clone() }));
            } else {
                if keep {
                    entry.event = Event::GaveUp;
                    self.audit.log(&entry);
                }
                match self.policy.rules[*rule].on_drift {
                    _ if steps_down => change.new = value,
                    // Reported again at the next change. The value is no longer the guard's: children do not inherit a value of
                    // this rule.
                    OnDrift::Report => {
                        managed.reported.retain(|reported| reported.aspect() != value.aspect());
                        managed.reported.push(value);
                    }
                    _ => given_up.push(change.new.aspect()),
                }
            }
        }
        managed.set.retain(|(_, change)| !given_up.contains(&change.new.aspect()));
        managed.yielded.extend(given_up);
        let corrected = if settling { 0 } else { again.len() as u64 };
        self.put_back(task, again)?;
        self.drop_lonely_reset(task.key);
        self.metrics.counts.corrected += corrected;
        Ok(())
    }

    /// Reverts a reset-on-fork that no rule sets once no raised value is left to keep from children, or once a value that the
    /// task had before is not ordinary: children would lose that, too.
    pub(super) fn drop_lonely_reset(&mut self, key: TaskKey) {
        let rules = &self.policy.rules;
        let Some(managed) = self.managed.get_mut(&key) else { return };
        let is_ordinary = |value: &Value| match value {
            Value::Nice(nice) => *nice == 0,
            Value::Class { policy, .. } => *policy == SchedPolicy::Other,
            _ => true,
        };
        if managed.set.iter().any(|(_, change)| change.new.is_privileged()) && managed.before.iter().all(is_ordinary) {
            return;
        }
        let asks = |want: &Want| want.aspect() == Aspect::ResetOnFork;
        let is_lonely = |(rule, change): &mut (usize, Step)| {
            let is_implied = rules.get(*rule).is_some_and(|rule| !rule.set.iter().any(asks));
            is_implied && change.from.is_none() && change.new.aspect() == Aspect::ResetOnFork
        };
        let lonely: Vec<(usize, Step)> = managed.set.extract_if(.., is_lonely).collect();
        if !lonely.is_empty() {
            self.take_from(key, lonely);
        }
    }

    fn put_back(&mut self, task: &Task, again: Vec<(usize, Step)>) -> Result<(), ReconcilerError> {
        if again.is_empty() {
            return Ok(());
        }
        let (rules, mut changes): (Vec<usize>, Vec<Step>) = again.into_iter().unzip();
        let outcomes = act::apply(&mut self.host, &mut self.journal, &mut self.audit, &mut changes)?;
        for ((rule, change), outcome) in rules.into_iter().zip(changes).zip(outcomes) {
            if matches!(outcome, Outcome::Done) {
                self.metrics.counts.applied += 1;
                self.remember(task, rule, change);
            }
        }
        Ok(())
    }

    /// Makes settings that are not yet as the policy says, unless another program has changed them since.
    pub(super) fn settings(&mut self) -> Result<(), ReconcilerError> {
        let found = self.sight.settings(&self.policy);
        let mut changes = Vec::new();
        for found in found {
            let name = &self.policy.settings[found.setting].name;
            match self.files.get(&found.target) {
                Some(value) if value.same(&found.old) => {}
                Some(value) => {
                    self.metrics.counts.drift += 1;
                    self.audit.log(&Entry {
                        rule: Some(name),
                        target: Some(&found.target),
                        old: Some(value),
                        new: Some(&found.old),
                        ..Entry::of(Event::Drift)
                    });
                    self.files.insert(found.target, found.old);
                }
                None if found.old.same(&found.new) => {}
                None => {
                    changes.push(Step::new(found.target.clone(), "", name, found.old, found.new.clone()));
                    self.files.insert(found.target, found.new);
                }
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        let outcomes = act::apply(&mut self.host, &mut self.journal, &mut self.audit, &mut changes)?;
        let done = outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Done)).count() as u64;
        self.metrics.counts.applied += done;
        self.metrics.counts.failed += outcomes.len() as u64 - done;
        Ok(())
    }
}
