//! Finds groups that a CPU quota throttles most of the time: a pure function of readings.
//!
//! The kernel counts for how long each group's run queues were throttled, at any depth. The group's role can have other tasks that run
//! meanwhile, and their waits are in the same sums. So the group's own counters are judged here, and the group is the victim.

use std::collections::VecDeque;
use std::sync::Arc;

use unstarve_model::Nanos;
use unstarve_sched::Rule;

use super::begun::Begun;
use super::pair::{Ranked, WINDOW};
use super::settings::Thresholds;
use super::trigger::Trigger;
use crate::engine::reading::{LimitedGroup, Reading};

/// The kernel counts a throttling when it ends: over fewer periods the result would be random.
const PERIODS: u64 = 5;

/// Groups that were throttled for more than half of a threshold, with their rank.
pub(super) fn stopped<'a>(
    reading: &'a Reading,
    past: &'a VecDeque<Arc<Reading>>,
    thresholds: &'a Thresholds,
) -> impl Iterator<Item = Ranked> + use<'a> {
    reading.limits.iter().filter_map(|group| Group { group, reading, past }.above_half(thresholds))
}

/// A group with a quota.
struct Group<'a> {
    group: &'a LimitedGroup,
    reading: &'a Reading,
    past: &'a VecDeque<Arc<Reading>>,
}

impl Group<'_> {
    fn above_half(&self, thresholds: &Thresholds) -> Option<Ranked> {
        let limit = self.group.limit;
        let (quota, period) = (limit.quota_us, limit.period_us);
        // A quota of a whole CPU or more is a share of the machine; using it up is normal.
        if quota == 0 || quota >= period || !self.has_grown() {
            return None;
        }
        let role = self.reading.role(self.group.role)?;
        let own = thresholds.of(&role.name());
        let threshold = own.stopped.filter(|_| !own.ignore)?.0;
        let window = WINDOW.max(period.saturating_mul(1_000 * PERIODS));
        let then = self.earlier(window)?;
        let span = self.group.read.since(then.read).0;
        let is_anew = then.counted.count > self.group.counted.count;
        if is_anew || span < window / 4 * 3 || threshold <= 0.0 {
            return None;
        }
        let stopped = self.group.counted.ns.0.saturating_sub(then.counted.ns.0);
        let may_have = span as f64 * quota as f64 / period as f64;
        // Without the quota it would have run for both; this is the throttled fraction.
        let share = stopped as f64 / (stopped as f64 + may_have);
        let rank = share / threshold;
        let begun = || Begun {
            number: 0,
            continues: None,
            at: self.reading.at,
            trigger: Trigger::Stopped { share, threshold },
            since: then.read,
            victim: role.clone(),
            group: Some(Arc::clone(&self.group.path)),
            victim_task: None,
            culprit: None,
            culprit_task: None,
            rule: Some(Rule::Throttled),
            ns: Nanos(stopped),
            longest: Nanos::ZERO,
        };
        (rank >= 0.5).then(|| (rank, begun()))
    }

    /// Usually nothing is throttled; this check finds that cheaply.
    fn has_grown(&self) -> bool {
        let first = self.past.front().and_then(|reading| self.at(reading));
        first.is_none_or(|first| first.counted != self.group.counted)
    }

    /// The same group at a reading at least this long ago, or else at the earliest one kept.
    fn earlier(&self, window: u64) -> Option<&LimitedGroup> {
        let mut last = None;
        for reading in self.past.iter().rev() {
            let Some(then) = self.at(reading) else { break };
            last = Some(then);
            if self.group.read.since(then.read).0 >= window {
                break;
            }
        }
        last
    }

    /// Looks the group up; a reading's groups are sorted by path.
    fn at<'r>(&self, reading: &'r Reading) -> Option<&'r LimitedGroup> {
        let at = reading.limits.binary_search_by(|group| group.path.cmp(&self.group.path)).ok()?;
        reading.limits.get(at)
    }
}
