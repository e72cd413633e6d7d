//! When an episode begins, and when it is over: a pure function of successive readings.
//!
//! Mostly only waits that others' precedence is to blame for count. A turn among equals begins an episode where it cannot be one: behind
//! a task that does not leave, or of a second. An idle CPU does while the wait lasts, if it was confirmed twice. Time of which nothing is
//! known never does.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use unstarve_sched::Rule;

use super::begun::Begun;
use super::pair::{Pair, Ranked};
use super::settings::Thresholds;
use super::throttled_group::stopped;
use crate::engine::reading::{Quiet, Reading, Role, RoleId, VictimClass};

/// How much of the past is compared with: a wait that ends now may have begun long before.
const PAST: u64 = 30_000_000_000;
/// Readings of the past that are kept; with the usual four a second those of the last seconds, and then one a second.
const MAX_READINGS: usize = 48;
/// After a gap this long the machine was stopped, unless it is known that it was not: what happened meanwhile is nobody's doing.
const STOPPED: u64 = 60_000_000_000;

/// What a reading brings.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Step {
    /// Episodes that have begun, one of each class at most.
    pub begun: Vec<Begun>,
    /// Roles that have come above a threshold and have no episode of their own, because one of their class is open: each time that they come.
    pub hidden: Vec<String>,
    /// Classes whose open episode is over.
    pub ended: Vec<VictimClass>,
    /// Something is above half of its threshold, or an episode is open.
    pub armed: bool,
}

/// Watches readings.
#[derive(Debug)]
pub struct Detector {
    thresholds: Thresholds,
    /// Those that hold if nothing is written.
    usual: Thresholds,
    past: VecDeque<Arc<Reading>>,
    open: BTreeMap<VictimClass, Open>,
    /// The machine ran until the next reading, however long that takes.
    spans_gap: bool,
}

/// An episode that is not over, and those of its class that have begun since.
#[derive(Debug, Default)]
struct Open {
    /// When something of its class was last above its threshold.
    last: u64,
    /// The roles that were at the last reading.
    above: BTreeSet<String>,
    /// What episodes have begun for.
    causes: BTreeMap<Cause, Known>,
}

/// Who is to blame, by name, and by which rule; of a limit, the group that has it.
type Cause = (Option<String>, Option<Rule>);

/// A cause that an episode has begun for.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// How far above its threshold it was.
    rank: f64,
    /// When it was last the strongest.
    last: u64,
    /// The episode was not kept; from then on another one may be.
    again: Option<u64>,
}

/// So many times as far above its threshold the same cause is another episode.
const WORSE: f64 = 4.0;
/// Causes of an open episode that are remembered. A user's groups can have any number of names: of more, the one that was not seen for longest
/// is forgotten, so that it is another episode if it comes again. Nothing is hidden by that.
const MOST_CAUSES: usize = 64;

impl Open {
    /// Whether what is strongest now is another episode than those that have begun.
    fn is_other(&self, (rank, begun): &Ranked, now: u64) -> bool {
        self.causes
            .get(&cause(begun))
            .is_none_or(|known| *rank > WORSE * known.rank || known.again.is_some_and(|again| now >= again))
    }
}

impl Open {
    /// Notes the strongest cause; says whether it begins an episode.
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
    /// Has seen nothing yet.
    pub fn new(thresholds: Thresholds) -> Detector {
        Detector {
            thresholds,
            usual: Thresholds::default(),
            past: VecDeque::new(),
            open: BTreeMap::new(),
            spans_gap: false,
        }
    }

    /// Judges by others from now on.
    pub fn judge_by(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
    }

    /// The machine stood still: what came until the next reading is nobody's doing.
    pub fn forget(&mut self) {
        self.past.clear();
    }

    /// The machine ran on, only this process did not: what came until the next reading counts.
    pub fn span_gap(&mut self) {
        self.spans_gap = true;
    }

    /// Nobody has waited for anything to speak of until then: things stood as at the last reading. So what comes next is not spread over a time in
    /// which nothing happened.
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

    /// The readings that are remembered, oldest first.
    pub fn remembered(&self) -> impl Iterator<Item = &Reading> {
        self.past.iter().map(|reading| &**reading)
    }

    /// The next reading.
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

    /// What is above its threshold in a class: it begins an episode, or is of the one that is open.
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

    /// An episode that began was not kept. If its cause lasts for so long, it begins again.
    pub fn postpone(&mut self, begun: &Begun, wait: Duration) {
        let open = self.open.get_mut(&VictimClass::of(begun.victim.kind));
        if let Some(known) = open.and_then(|open| open.causes.get_mut(&cause(begun))) {
            let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
            known.again = Some(begun.at.trace.0.saturating_add(wait));
        }
    }

    /// What is above half of its threshold, and how far: 1 is the threshold itself.
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
            // Every second of the older half: the recent ones stay close together.
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
