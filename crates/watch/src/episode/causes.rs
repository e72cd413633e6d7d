//! Waits by causes with thresholds of their own: an equal that does not leave the CPU, a lower class that is not preempted, an idle CPU.
//!
//! The sums are per role and do not show single runs. For equals and idle CPUs, only waits in progress count, which `/proc` has confirmed.

use unstarve_model::Nanos;
use unstarve_sched::Rule;

use super::pair::{Counts, Met, Pair};
use super::settings::Length;
use super::trigger::Trigger;
use super::verdict::waiter;
use crate::engine::reading::{OldestWait, RoleKind};
use unstarve_diagnose::verdict::Waiter;

/// Tolerance within which two readings of a wait agree on its start: the clocks are read at slightly different times.
const SAME: Nanos = Nanos::from_millis(1);

impl<'a> Pair<'a> {
    /// A wait in progress behind an equal that has had the CPU without a break.
    pub(super) fn stuck(&self, limit: Length) -> Option<Met<'a>> {
        let met = |wait: &'a OldestWait| {
            let ns = wait.ns.0.min(wait.occupied.0);
            let is_last = waiter(self.role.kind, Some(&wait.task.comm)) == Waiter::AskedToBeLast;
            if is_last || self.rule_behind(wait) != Some(Rule::Fair) {
                return None;
            }
            met(ns, limit, Trigger::Stuck { ns, threshold_ns: limit.nanos() }, self.began(wait), Some(wait))
        };
        self.oldest_waits().filter_map(met).reduce(worse)
    }

    /// A real-time task's wait, at least half of it behind tasks of a lower class.
    pub(super) fn not_preempted(&self, limit: Length) -> Option<Met<'a>> {
        let met = |ns: u64, since: u64, wait: Option<&'a OldestWait>| {
            if self.part_by(ns, since, Rule::NotPreempted).saturating_mul(2) < ns {
                return None;
            }
            met(ns, limit, Trigger::NotPreempted { ns, threshold_ns: limit.nanos() }, since, wait)
        };
        let ended = self.longest_ended().and_then(|(ns, since)| met(ns, since, None));
        let lasting = self.oldest_waits().filter_map(|wait| met(wait.ns.0, self.began(wait), Some(wait)));
        lasting.chain(ended).reduce(worse)
    }

    /// A wait in progress on an idle CPU, in this reading and the one before: a switch event that the kernel omitted looks like this once.
    /// Not if a group of the role has a quota, which can be what keeps the task off the CPU.
    pub(super) fn idle(&self, limit: Length) -> Option<Met<'a>> {
        let idle = RoleKind::Idle.fixed_id();
        let begun_at = |wait: &OldestWait, now: u64| now.saturating_sub(wait.ns.0);
        let is_confirmed = |wait: &OldestWait| {
            let same = |then: &&OldestWait| {
                let [a, b] = [self.began(wait), begun_at(then, self.before.at.trace.0)];
                (then.task.tid, then.cpu) == (wait.task.tid, wait.cpu) && a.abs_diff(b) <= SAME.0
            };
            self.before.oldest.iter().find(same).is_some_and(|then| Some(then.occupant_role) == idle)
        };
        let has_limit = self.reading.limits.iter().any(|group| group.role == self.id);
        let met = |wait: &'a OldestWait| {
            let is_limited = || has_limit || self.rule_behind(wait) == Some(Rule::Throttled);
            let is_idle = Some(wait.occupant_role) == idle && is_confirmed(wait) && !is_limited();
            let trigger = Trigger::Idle { ns: wait.ns.0, threshold_ns: limit.nanos() };
            is_idle.then(|| met(wait.ns.0, limit, trigger, self.began(wait), Some(wait))).flatten()
        };
        self.oldest_waits().filter_map(met).reduce(worse)
    }

    /// The rule by which the occupant's role had the CPU for longest since the wait began.
    pub(super) fn rule_behind(&self, wait: &OldestWait) -> Option<Rule> {
        let of = |rule| {
            let rows = self.by_rule_since(self.began(wait), rule).filter(|(row, _)| row.occupant == wait.occupant_role);
            rows.map(|(_, ns)| ns.0).fold(0, u64::saturating_add)
        };
        let (ns, rule) = Rule::ALL.into_iter().map(|rule| (of(rule), rule)).max_by_key(|(ns, _)| *ns)?;
        (ns > 0).then_some(rule)
    }

    /// Start of a wait in progress.
    fn began(&self, wait: &OldestWait) -> u64 {
        self.reading.at.trace.0.saturating_sub(wait.ns.0)
    }
}

fn met<'a>(ns: u64, limit: Length, trigger: Trigger, since: u64, wait: Option<&'a OldestWait>) -> Option<Met<'a>> {
    let rank = ns as f64 / limit.nanos().max(1) as f64;
    (rank >= 0.5).then_some(Met { rank, trigger, since, wait, by: Counts::Precedence })
}

/// The worse one; of equals the first.
fn worse<'a>(worst: Met<'a>, met: Met<'a>) -> Met<'a> {
    if met.rank > worst.rank { met } else { worst }
}
