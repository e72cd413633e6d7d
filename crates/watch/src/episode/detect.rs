//! Decides when an episode begins and ends: a pure function of successive readings.
//!
//! Usually only waits during which other tasks are preferred count. Waits among equals begin an episode only if they cannot be fair turns: behind
//! a task that does not leave the CPU, or of a second. A wait for an idle CPU counts while it is in progress and was confirmed twice. Unattributed
//! time never counts.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use unstarve_sched::Rule;

use super::begun::Begun;
use super::pair::{Pair, Ranked};
use super::settings::Thresholds;
use super::throttled_group::stopped;
use crate::engine::reading::{Quiet, Reading, Role, RoleId, VictimClass};

/// How long readings are kept: a wait that ends now may have begun long before.
const PAST: u64 = 30_000_000_000;
/// Maximum readings kept. At four per second, those of the last seconds, and beyond them one per second.
const MAX_READINGS: usize = 48;
/// After a gap of this length the machine is assumed to have been suspended, unless it is known to have run: nothing in the gap counts.
const STOPPED: u64 = 60_000_000_000;

/// The result of a reading.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Step {
    /// Episodes that begin, at most one per class.
    pub begun: Vec<Begun>,
    /// Roles that rose above a threshold without an episode of their own, because one of their class is open; listed each time they rise.
    pub hidden: Vec<String>,
    /// Classes whose open episode has ended.
    pub ended: Vec<VictimClass>,
    /// A condition is above half of its threshold, or an episode is open.
    pub armed: bool,
}

/// Detects episodes in successive readings.
#[derive(Debug)]
pub struct Detector {
    thresholds: Thresholds,
    /// The default thresholds.
    usual: Thresholds,
    past: VecDeque<Arc<Reading>>,
    open: BTreeMap<VictimClass, Open>,
    /// The machine ran until the next reading, however long the gap is.
    spans_gap: bool,
}

/// An open episode, and those of its class that have begun since.
#[derive(Debug, Default)]
struct Open {
    /// When a condition of its class was last above its threshold.
    last: u64,
    /// The roles above their threshold at the last reading.
    above: BTreeSet<String>,
    /// Causes for which episodes have begun.
    causes: BTreeMap<Cause, Known>,
}

/// The name and the rule of the culprit; for throttling, the throttled group.
type Cause = (Option<String>, Option<Rule>);

/// A cause for which an episode has begun.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// How far above the threshold it was.
    rank: f64,
    /// When it was last the strongest.
    last: u64,
    /// Set if the episode was not kept: after this time the cause can begin another one.
    again: Option<u64>,
}

/// The same cause counts as another episode if it is this many times as far above its threshold.
const WORSE: f64 = 4.0;
/// Maximum causes remembered per open episode. A user's groups can have any number of names. If there are more, the cause not seen for longest
/// is dropped: if it recurs, it counts as another episode, so that nothing is hidden.
const MOST_CAUSES: usize = 64;

impl Open {
    /// Whether the strongest condition is another episode than those that have begun.
    fn is_other(&self, (rank, begun): &Ranked, now: u64) -> bool {
        self.causes
            .get(&cause(begun))
            .is_none_or(|known| *rank > WORSE * known.rank || known.again.is_some_and(|again| now >= again))
    }
}

impl Open {
    /// Records the strongest cause; returns whether it begins an episode.
    fn note(&mut self, strongest: &Ranked, now: u64) -> bool {
        let (rank, begun) = strongest;
        let is_other = self.is_other(strongest, now);
        let cause = cause(begun);
        if is_other {
            if self.causes.len() >= MOST_CAUSES && !self.causes.contains_key(&cause) {
                let oldest = self.causes.iter().min_by_key(|(_, known)| known.last).map(|(cause, _)| cause.clone());
                oldest.and_then(|oldest| self.causes.remove(&oldest));
            }
            self.causes.insert(cause, Known { rank: *rank, last: now, again: None });
        } else if let Some(known) = self.causes.get_mut(&cause) {
            known.last = now;
        }
        is_other
    }
}

fn cause(begun: &Begun) -> Cause {
    let limited = || begun.group.as_deref().map(str::to_owned).or_else(|| begun.victim.cgroup.clone());
    let name = match begun.rule {
        Some(Rule::Throttled) => limited(),
        _ => begun.culprit.as_ref().map(Role::name),
    };
    (name, begun.rule)
}

impl Detector {
    /// A detector without past readings.
    pub fn new(thresholds: Thresholds) -> Detector {
        Detector {
            thresholds,
            usual: Thresholds::default(),
            past: VecDeque::new(),
            open: BTreeMap::new(),
            spans_gap: false,
        }
    }

    /// Sets new thresholds.
    pub fn judge_by(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
    }

    /// The machine was suspended: what happened until the next reading does not count.
    pub fn forget(&mut self) {
        self.past.clear();
    }

    /// Only this process was stopped, the machine ran: what happened until the next reading counts.
    pub fn span_gap(&mut self) {
        self.spans_gap = true;
    }

    /// Almost nothing has waited until then: all sums are as at the last reading. So later waits are not averaged over a time in which nothing
    /// happened.
    pub fn note_rest(&mut self, quiet: &Quiet) {
        if let Some(last) = self.past.back().filter(|last| last.at.trace < quiet.at.trace) {
            let Quiet { at, real_time } = quiet.clone();
            self.remember(Arc::new(Reading { at, real_time, ..Reading::clone(last) }));
        }
    }

    /// Whether an episode is open.
    pub fn is_open(&self) -> bool {
        !self.open.is_empty()
    }

    /// The readings kept, oldest first.
    pub fn remembered(&self) -> impl Iterator<Item = &Reading> {
        self.past.iter().map(|reading| &**reading)
    }

    /// Processes the next reading.
    pub fn see(&mut self, reading: Arc<Reading>) -> Step {
        let now = reading.at.trace.0;
        let longest = if std::mem::take(&mut self.spans_gap) { u64::MAX } else { STOPPED };
        let is_next = self.past.back().is_none_or(|last| {
            let gap = now.checked_sub(last.at.trace.0);
            last.since == reading.since && gap.is_some_and(|gap| gap <= longest)
        });
        if !is_next {
            self.past.clear();
        }
        let found = self.above_half(&reading);
        self.remember(reading);
        let mut step = Step::default();
        for class in VictimClass::ALL {
            let above =
                found.iter().filter(|(rank, begun)| *rank >= 1.0 && VictimClass::of(begun.victim.kind) == class);
            self.judge(class, &above.collect::<Vec<_>>(), now, &mut step);
        }
        step.armed = !self.open.is_empty() || !found.is_empty();
        step
    }

    /// Processes the conditions of a class that are above their threshold: they begin an episode or belong to the open one.
    fn judge(&mut self, class: VictimClass, above: &[&Ranked], now: u64, step: &mut Step) {
        let Some(strongest) = above.iter().copied().max_by(|a, b| a.0.total_cmp(&b.0)) else {
            let calm = self.thresholds.calm.nanos();
            let Some(open) = self.open.get_mut(&class) else { return };
            open.above.clear();
            if now.saturating_sub(open.last) >= calm {
                self.open.remove(&class);
                step.ended.push(class);
            }
            return;
        };
        let open = self.open.entry(class).or_default();
        open.last = now;
        let mut names: BTreeSet<String> = above.iter().map(|(_, begun)| begun.victim.name()).collect();
        let before = std::mem::take(&mut open.above);
        open.above.clone_from(&names);
        if open.note(strongest, now) {
            let (_, begun) = strongest;
            names.remove(&begun.victim.name());
            step.begun.push(begun.clone());
        }
        step.hidden.extend(names.difference(&before).cloned());
    }

    /// Records that an episode was not kept. If its cause persists for this long, another episode begins.
    pub fn postpone(&mut self, begun: &Begun, wait: Duration) {
        let open = self.open.get_mut(&VictimClass::of(begun.victim.kind));
        if let Some(known) = open.and_then(|open| open.causes.get_mut(&cause(begun))) {
            let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
            known.again = Some(begun.at.trace.0.saturating_add(wait));
        }
    }

    /// Conditions above half of their threshold, with their rank: 1 is the threshold itself.
    fn above_half(&self, reading: &Reading) -> Vec<Ranked> {
        let Some(before) = self.past.back() else { return Vec::new() };
        let ids = (0..reading.roles.len()).filter_map(|index| u8::try_from(index).ok().map(RoleId));
        let found = ids.filter_map(|id| {
            let role = reading.role(id).filter(|role| role.kind.can_wait())?;
            let (thresholds, usual) = (self.thresholds.of(&role.name()), self.usual.of(&role.name()));
            if thresholds.ignore {
                return None;
            }
            let pair = Pair { id, role, before, reading, past: &self.past };
            let met = pair.worst(&thresholds, &usual)?;
            Some((met.rank, pair.begun(met)))
        });
        found.chain(stopped(reading, &self.past, &self.thresholds)).collect()
    }

    fn remember(&mut self, reading: Arc<Reading>) {
        let now = reading.at.trace.0;
        self.past.push_back(reading);
        self.past.retain(|old| now.saturating_sub(old.at.trace.0) <= PAST);
        if self.past.len() > MAX_READINGS {
            // Drops every other reading of the older half: the recent ones stay close together.
            let half = self.past.len() / 2;
            let mut index = 0;
            self.past.retain(|_| {
                index += 1;
                index > half || index % 2 == 1
            });
        }
    }
}

#[cfg(test)]
#[path = "detect_tests.rs"]
mod tests;
