//! Decides when an episode begins and ends: a pure function of successive readings.
//!
//! Usually only waits during which other tasks are preferred count. Waits among equals begin an episode only if they cannot be fair turns: behind
//! a task that does not leave the CPU, or of a second. A wait for an idle CPU counts while it is in progress and was confirmed twice. Unattributed
//! time never counts.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::begun::Begun;
use super::end::{EndReason, Ended};
use super::open_episode::{Cause, Former, OpenEpisode};
use super::pair::{Pair, Ranked};
use super::settings::Thresholds;
use super::throttled_group::stopped;
use crate::engine::reading::{Quiet, Reading, RoleId, VictimClass};

/// How long readings are kept: a wait that ends now may have begun long before.
const PAST: u64 = 30_000_000_000;
/// Maximum readings kept. At four per second, those of the last seconds, and beyond them one per second.
const MAX_READINGS: usize = 48;
/// After a gap of this length the machine is assumed to have been suspended, unless it is known to have run: nothing in the gap counts.
const STOPPED: u64 = 60_000_000_000;

/// The result of a reading.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Step {
    /// Episodes that begin, the worst first.
    pub begun: Vec<Begun>,
    /// Victims that rose above a threshold without an episode of their own; listed each time they rise.
    pub joined: Vec<Joined>,
    /// Open episodes that have ended.
    pub ended: Vec<Ended>,
    /// A condition is above half of its threshold, or an episode is open.
    pub armed: bool,
}

/// A victim of an open episode's cause.
#[derive(Clone, PartialEq, Debug)]
pub struct Joined {
    /// The number of that episode; `None` if too many are open for another one.
    pub number: Option<u64>,
    /// What the counters show of this victim.
    pub begun: Begun,
}

/// What was said of an episode that is postponed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Said {
    /// Nothing: too many began at once.
    Nothing,
    /// Its line.
    Line,
}

/// Detects episodes in successive readings.
#[derive(Debug)]
pub struct Detector {
    thresholds: Thresholds,
    /// The default thresholds.
    usual: Thresholds,
    past: VecDeque<Arc<Reading>>,
    open: Vec<OpenEpisode>,
    /// Those that have ended lately, the latest last.
    formers: VecDeque<Former>,
    /// Number of the next episode.
    next: u64,
    /// The machine ran until the next reading, however long the gap is.
    spans_gap: bool,
}

/// The same cause counts as another episode if it is this many times as far above its threshold.
const WORSE: f64 = 4.0;
/// Maximum open episodes of a class. A user's groups and tasks can have any number of names. If there are more, the one whose condition was not
/// above its threshold for longest ends early.
const MOST_OPEN: usize = 64;
/// Maximum ended episodes remembered.
const MOST_FORMERS: usize = 256;

impl Detector {
    /// A detector without past readings.
    pub fn new(thresholds: Thresholds) -> Detector {
        Detector {
            thresholds,
            usual: Thresholds::default(),
            past: VecDeque::new(),
            open: Vec::new(),
            formers: VecDeque::new(),
            next: 1,
            spans_gap: false,
        }
    }

    /// Sets new thresholds.
    pub fn judge_by(&mut self, thresholds: Thresholds) {
        self.thresholds = thresholds;
    }

    /// The machine was suspended: what happened until the next reading does not count, and open episodes have ended before.
    pub fn forget(&mut self) -> Vec<Ended> {
        self.past.clear();
        self.end_all(EndReason::MachineStood)
    }

    /// Ends all open episodes as of their last readings.
    pub fn end_all(&mut self, reason: EndReason) -> Vec<Ended> {
        self.open.drain(..).map(|open| open.ended(reason)).collect()
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
        let mut step = Step::default();
        if !is_next {
            step.ended = self.forget();
        }
        let found = self.above_half(&reading);
        let before = self.past.back().map_or(now, |before| before.at.trace.0);
        self.remember(Arc::clone(&reading));
        step.armed = !found.is_empty();
        let mut above: Vec<Ranked> = found.into_iter().filter(|(rank, _)| *rank >= 1.0).collect();
        above.sort_by(|a, b| b.0.total_cmp(&a.0));
        for ranked in above {
            self.judge(ranked, before, &mut step);
        }
        self.settle(&reading, &mut step);
        step.armed |= !self.open.is_empty();
        step
    }

    /// Processes a condition above its threshold: it begins an episode, or belongs to an open one.
    fn judge(&mut self, (rank, mut begun): Ranked, before: u64, step: &mut Step) {
        let (cause, now) = (Cause::of(&begun), begun.at.trace.0);
        let fits = self.open.iter().enumerate().filter_map(|(at, open)| Some((open.fit(&cause, &begun)?, at)));
        let best = fits.reduce(|best, next| if next.0 > best.0 { next } else { best });
        let Some(open) = best.and_then(|(_, at)| self.open.get_mut(at)) else {
            return self.open_one(rank, begun, before, step);
        };
        let is_worse = rank > WORSE * open.rank;
        if !open.is_about(&begun) {
            return match is_worse {
                true => self.open_one(rank, begun, before, step),
                false if open.join(begun.victim.name()) => {
                    step.joined.push(Joined { number: Some(open.number), begun });
                }
                false => {}
            };
        }
        open.is_above(&cause, now);
        if is_worse || open.again.is_some_and(|again| now >= again) {
            (open.rank, open.again) = (rank, None);
            if std::mem::replace(&mut open.is_said, true) {
                begun.continues = Some(std::mem::replace(&mut open.number, self.next));
                self.next += 1;
            }
            begun.number = open.number;
            step.begun.push(begun);
        }
    }

    /// Opens an episode, in the place of one that is calm if there are too many.
    fn open_one(&mut self, rank: f64, mut begun: Begun, before: u64, step: &mut Step) {
        let class = VictimClass::of(begun.victim.kind);
        let of_class = self.open.iter().enumerate().filter(|(_, open)| open.cause.class == class);
        if of_class.clone().count() >= MOST_OPEN {
            let Some((calm, _)) = of_class.filter(|(_, open)| open.last < before).min_by_key(|(_, open)| open.last)
            else {
                return step.joined.push(Joined { number: None, begun });
            };
            let calm = self.open.swap_remove(calm);
            step.ended.push(self.close(&calm, EndReason::Crowded));
        }
        begun.number = self.next;
        self.next += 1;
        self.open.push(OpenEpisode::new(begun.number, rank, &begun, &self.past, &self.formers));
        step.begun.push(begun);
    }

    /// Counts the waits of open episodes, and ends those that were calm for long enough.
    fn settle(&mut self, reading: &Reading, step: &mut Step) {
        let (now, calm) = (reading.at.trace.0, self.thresholds.calm.nanos());
        self.open.iter_mut().for_each(|open| open.count(reading));
        let is_over = |open: &mut OpenEpisode| open.last < now && now - open.last >= calm;
        let over: Vec<OpenEpisode> = self.open.extract_if(.., is_over).collect();
        step.ended.extend(over.iter().map(|open| self.close(open, EndReason::Calm)));
        self.formers.retain(|former| now.saturating_sub(former.until().0) <= PAST);
    }

    fn close(&mut self, open: &OpenEpisode, reason: EndReason) -> Ended {
        if self.formers.len() >= MOST_FORMERS {
            self.formers.pop_front();
        }
        self.formers.push_back(open.former());
        open.ended(reason)
    }

    /// An episode has no line, or no trace: if its cause persists for this long, it begins again.
    pub fn postpone(&mut self, begun: &Begun, wait: Duration, said: Said) {
        let wait = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        for open in self.open.iter_mut().filter(|open| open.number == begun.number) {
            open.again = Some(begun.at.trace.0.saturating_add(wait));
            open.is_said = said == Said::Line;
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
