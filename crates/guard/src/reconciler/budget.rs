//! Limits the CPU time of tasks that rules made real-time.

use std::time::Duration;

use rustc_hash::FxHashMap;

use super::{Reconciler, ReconcilerError};
use crate::policy::Want;
use crate::survey::Crowd;
use crate::task::Task;
use crate::task_view::TaskView;
use unstarve_change::Aspect;
use unstarve_change::TaskKey;
use unstarve_executor::act;
use unstarve_executor::audit::{Entry, Event};
use unstarve_executor::host::Host;

impl<H: Host, S: TaskView> Reconciler<H, S> {
    /// Enforces the real-time budget on each CPU. `elapsed` is the time since the last call.
    pub fn watch_budget(&mut self, elapsed: Duration) {
        // Includes tasks that have exited: children that inherit a real-time policy may live only for a moment each.
        let burned = std::mem::take(&mut self.burned);
        let mut by_cpu: FxHashMap<u32, (u64, Vec<TaskKey>)> =
            burned.iter().map(|(cpu, ran)| (*cpu, (*ran, Vec::new()))).collect();
        for (key, managed) in &mut self.managed {
            if !managed.set.iter().any(|(_, change)| change.new.is_realtime()) {
                continue;
            }
            let Some((ran, cpu)) = self.sight.ran_on(*key) else { continue };
            let before = managed.ran.replace(ran);
            let slot = by_cpu.entry(cpu).or_default();
            slot.0 += before.map_or(0, |before| ran.saturating_sub(before));
            slot.1.push(*key);
        }
        let budget = elapsed.as_nanos() as u64 / 100 * u64::from(self.policy.limits.rt_budget);
        for (cpu, (ran, keys)) in by_cpu {
            if ran > budget {
                // Exited children can no longer be matched to parents, and a real-time parent may be on any CPU.
                let keys = if burned.contains_key(&cpu) { self.managed.keys().copied().collect() } else { keys };
                self.over_budget(cpu, ran, elapsed, &keys);
            }
        }
    }

    fn over_budget(&mut self, cpu: u32, ran: u64, elapsed: Duration, keys: &[TaskKey]) {
        let reason = format!(
            "real-time tasks of rules ran {} ms of {} ms on CPU {cpu}; they are no longer real-time",
            ran / 1_000_000,
            elapsed.as_millis()
        );
        self.no_longer_realtime(&reason, keys);
    }

    /// Checks how many programs are real-time. At the first scan too many are an error; later, when their number has grown,
    /// their real-time policies are reverted.
    pub(super) fn watch_crowd(&mut self, tasks: &[Task]) -> Result<(), ReconcilerError> {
        let Err(crowd) = Crowd::check_all(&self.policy, &self.surroundings, tasks) else { return Ok(()) };
        if self.metrics.counts.scans <= 1 {
            return Err(crowd.into());
        }
        if self.has_realtime() {
            let everybody: Vec<TaskKey> = self.managed.keys().copied().collect();
            self.no_longer_realtime(&crowd.to_string(), &everybody);
        }
        let rules = self.policy.rules.iter().enumerate();
        self.tripped.extend(rules.filter(|(_, rule)| rule.set.iter().any(Want::is_realtime)).map(|(index, _)| index));
        Ok(())
    }

    /// Reverts real-time policies; the rules that set them set none from now on.
    fn no_longer_realtime(&mut self, reason: &str, keys: &[TaskKey]) {
        self.metrics.counts.over_budget += 1;
        self.audit.log(&Entry { reason: Some(reason), ..Entry::of(Event::OverBudget) });
        let mut changes = Vec::new();
        for key in keys {
            let Some(managed) = self.managed.get_mut(key) else { continue };
            for (rule, change) in managed.set.extract_if(.., |(_, change)| change.new.is_realtime()) {
                self.tripped.insert(rule);
                managed.yielded.push(Aspect::Class);
                changes.push(change);
            }
        }
        let undone = act::undo(&mut self.host, &mut self.journal, &mut self.audit, &changes);
        self.metrics.counts.restored += (undone.restored + undone.inherited) as u64;
        keys.iter().for_each(|key| self.drop_lonely_reset(*key));
    }

    /// Whether a rule has made a task real-time.
    pub fn has_realtime(&self) -> bool {
        self.managed.values().any(|managed| managed.set.iter().any(|(_, change)| change.new.is_realtime()))
    }
}
