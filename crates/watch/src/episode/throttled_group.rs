//! Groups that a CPU limit stops most of the time: a pure function of readings.
//!
//! The kernel counts for how long each group's queues were stopped, however deep the group is. Its role may have others that run
//! meanwhile, and their waits are added up with its own: so the group's own counters are judged here, and the group is the victim.

use std::collections::VecDeque;
use std::sync::Arc;

use unstarve_model::Nanos;
use unstarve_sched::Rule;

use super::begun::Begun;
use super::pair::{Ranked, WINDOW};
use super::settings::Thresholds;
use super::trigger::Trigger;
use crate::engine::reading::{LimitedGroup, Reading};

/// A stop is counted when it ends: over fewer periods than this chance decides.
const PERIODS: u64 = 5;

/// What limits have stopped for more than half of a threshold, and how far.
pub(super) fn stopped<'a>(
    reading: &'a Reading,
    past: &'a VecDeque<Arc<Reading>>,
    thresholds: &'a Thresholds,
) -> impl Iterator<Item = Ranked> + use<'a> {
    reading.limits.iter().filter_map(|group| Group { group, reading, past }.above_half(thresholds))
}

/// A group that has a limit.
struct Group<'a> {
    group: &'a LimitedGroup,
    reading: &'a Reading,
    past: &'a VecDeque<Arc<Reading>>,
}

impl Group<'_> {
    fn above_half(&self, thresholds: &Thresholds) -> Option<Ranked> {
        let limit = self.group.limit;
        let (quota, period) = (limit.quota_us, limit.period_us);
        // Who may have a whole CPU and more was given a part of the machine; that it is used up is what limits are for.
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
        // Of the time that it would have used at once, the part that it had to wait for.
        let share = stopped as f64 / (stopped as f64 + may_have);
        let rank = share / threshold;
        let begun = || Begun {
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

    /// Mostly no limit stops anybody, and that is known at once.
    fn has_grown(&self) -> bool {
        let first = self.past.front().and_then(|reading| self.at(reading));
        first.is_none_or(|first| first.counted != self.group.counted)
    }

    /// The same group when its counters were read so long ago, or else as long ago as is remembered.
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

    /// A reading's groups are in the order of their paths.
    fn at<'r>(&self, reading: &'r Reading) -> Option<&'r LimitedGroup> {
        let at = reading.limits.binary_search_by(|group| group.path.cmp(&self.group.path)).ok()?;
        reading.limits.get(at)
    }
}
