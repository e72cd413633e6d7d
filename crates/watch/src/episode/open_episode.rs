//! An open episode: who it is about, until when its condition was above its threshold, and what its victim waited meanwhile.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use unstarve_model::{ClockPair, Nanos, Time, WallTime};
use unstarve_sched::Rule;

use super::begun::Begun;
use super::end::{EndReason, Ended, Totals};
use crate::engine::reading::{Reading, Role, RoleId, RoleKind, VictimClass};

/// Whose fault an episode is: of all victims of a class, those of one culprit and rule.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Cause {
    /// The class of the victim.
    pub class: VictimClass,
    /// The culprit's role; for throttling, the throttled group.
    name: Option<String>,
    /// The culprit's task. All real-time programs are one role, so that the role alone does not say who it was. Other roles do: the tasks of a build
    /// have ever new names.
    task: Option<CulpritTask>,
    rule: Option<Rule>,
}

/// A real-time culprit. A program that restarts keeps its name; a thread that renames itself keeps its process.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct CulpritTask {
    comm: String,
    /// Its process.
    tgid: u32,
}

impl Cause {
    pub(crate) fn of(begun: &Begun) -> Cause {
        let limited = || begun.group.as_deref().map(str::to_owned).or_else(|| begun.victim.cgroup.clone());
        let name = match begun.rule {
            Some(Rule::Throttled) => limited(),
            _ => begun.culprit.as_ref().map(Role::name),
        };
        let is_real_time = begun.culprit.as_ref().is_some_and(|culprit| culprit.kind == RoleKind::RealTime);
        let task = begun.culprit_task.filter(|_| is_real_time);
        let task = task.map(|task| CulpritTask { comm: task.comm.to_string(), tgid: task.tgid.0 });
        Cause { class: VictimClass::of(begun.victim.kind), name, task, rule: begun.rule }
    }

    /// Whether they can be the same: a wait that is over does not show whose task it was.
    fn may_be(&self, other: &Cause) -> bool {
        let is_other = |(one, other): (&CulpritTask, &CulpritTask)| one.comm != other.comm && one.tgid != other.tgid;
        let is_other_task = self.task.as_ref().zip(other.task.as_ref()).is_some_and(is_other);
        (self.class, &self.name, self.rule) == (other.class, &other.name, other.rule) && !is_other_task
    }

    /// Whether the culprits are one: the same role and rule, and the same program as far as one is known.
    pub(crate) fn is_same_culprit(&self, other: &Cause) -> bool {
        self.may_be(other) && self.task.is_some() == other.task.is_some()
    }
}

/// The sums of the victim in a reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sums {
    by: Nanos,
    /// By the kernel's own counters of throttling.
    stopped: Nanos,
    waited: Nanos,
}

#[derive(Debug)]
pub(super) struct OpenEpisode {
    pub number: u64,
    pub cause: Cause,
    /// How far above the threshold it was when it began.
    pub rank: f64,
    /// Whether a line was written about it.
    pub is_said: bool,
    /// After this time it begins again.
    pub again: Option<u64>,
    /// When its condition was last above its threshold.
    pub last: u64,
    victim: Role,
    group: Option<Arc<str>>,
    culprit: Option<Role>,
    since: Time,
    base: Sums,
    now: Sums,
    end: ClockPair,
    /// Up to when its waits are counted.
    counted: Time,
    /// The previous reading, also a calm one, and the sums then.
    read: (Time, Sums),
    /// The end of the last wait that a reading shows, also a calm one.
    last_wait: ClockPair,
    /// Whether the last reading was above the threshold.
    was_above: bool,
    /// The other roles above the threshold for this cause at the last reading, and at this one.
    others: BTreeSet<String>,
    others_now: BTreeSet<String>,
}

/// An episode that has ended: another one of the same cause and victim counts nothing that this one has counted.
#[derive(Debug)]
pub(super) struct Former {
    cause: Cause,
    victim: Role,
    group: Option<Arc<str>>,
    until: Time,
}

/// What is waited for less than this part of the time between two readings (1/16) is not the beginning of an episode.
const LITTLE: u64 = 16;

impl OpenEpisode {
    pub fn new(
        number: u64,
        rank: f64,
        begun: &Begun,
        past: &VecDeque<Arc<Reading>>,
        formers: &VecDeque<Former>,
    ) -> OpenEpisode {
        let mut open = OpenEpisode {
            number,
            cause: Cause::of(begun),
            rank,
            is_said: true,
            again: None,
            last: begun.at.trace.0,
            victim: begun.victim.clone(),
            group: begun.group.clone(),
            culprit: begun.culprit.clone(),
            since: begun.since,
            base: Sums::default(),
            now: Sums::default(),
            end: begun.at,
            counted: begun.since,
            read: (begun.since, Sums::default()),
            last_wait: begun.at,
            was_above: false,
            others: BTreeSet::new(),
            others_now: BTreeSet::new(),
        };
        let not_before = formers.iter().filter(|former| former.is_of(&open)).map(|former| former.until).max();
        if let Some((at, base)) = open.first(past, not_before.unwrap_or(Time(0))) {
            // What was waited before the first reading that is known is not known.
            (open.since, open.base, open.counted) = (open.since.max(at), base, at);
        }
        open.now = open.base;
        // The waits of the present reading end in the interval before it, however long ago the first of the episode was.
        let previous = past.iter().rev().nth(1).filter(|previous| previous.at.trace >= open.counted);
        open.read = match previous {
            Some(previous) => (previous.at.trace, open.sums(previous).unwrap_or(open.base)),
            None => (open.counted, open.base),
        };
        open
    }

    /// The reading in which its waits can have begun, and the sums then. A condition about a part of the last seconds can have begun in any of them.
    fn first(&self, past: &VecDeque<Arc<Reading>>, not_before: Time) -> Option<(Time, Sums)> {
        let from = past.iter().rposition(|reading| reading.at.trace <= self.since).unwrap_or(0);
        let earlier = past.iter().take(past.len().saturating_sub(1)).skip(from);
        let earlier = earlier.filter(|reading| reading.at.trace >= not_before);
        // A role that is new has sums from zero; a group with a limit has not.
        let is_role = self.group.is_none();
        let sums = |reading: &Arc<Reading>| self.sums(reading).or(is_role.then(Sums::default));
        let known: Vec<_> = earlier.filter_map(|reading| Some((reading.at.trace, sums(reading)?))).collect();
        let is_little = |pair: &[(Time, Sums)]| {
            let [first, next] = pair else { return false };
            self.grown(&first.1, &next.1).0.saturating_mul(LITTLE) < next.0.since(first.0).0
        };
        let quiet = known.windows(2).take_while(|pair| is_little(pair)).count();
        let latest = past.back().and_then(sums);
        let from_here = known.get(..=quiet)?.iter().rev();
        let first = from_here.clone().find(|(_, then)| !self.is_blamed_late(then, latest.as_ref()));
        first.or(known.first()).copied()
    }

    /// Whether more is blamed since then than was waited: a wait that lasts is waited at once and blamed when it ends, so it began earlier.
    fn is_blamed_late(&self, then: &Sums, latest: Option<&Sums>) -> bool {
        // What a limit stops is no wait until it may run again.
        let is_throttled = self.cause.rule == Some(Rule::Throttled);
        let latest = latest.filter(|_| self.group.is_none() && !is_throttled);
        latest.is_some_and(|latest| self.grown(then, latest) > latest.waited.saturating_sub(then.waited))
    }

    /// What is kept of it when it has ended.
    pub fn former(&self) -> Former {
        let (cause, victim, group) = (self.cause.clone(), self.victim.clone(), self.group.clone());
        Former { cause, victim, group, until: self.counted }
    }

    pub fn is_about(&self, begun: &Begun) -> bool {
        (self.victim.kind, &self.victim.cgroup, &self.group) == (begun.victim.kind, &begun.victim.cgroup, &begun.group)
    }

    /// How well a cause fits; `None` if it is another one.
    pub fn fit(&self, cause: &Cause, begun: &Begun) -> Option<(bool, bool)> {
        self.cause.may_be(cause).then(|| (self.is_about(begun), self.cause.task == cause.task))
    }

    /// Its condition is above its threshold in this reading, for this cause.
    pub fn is_above(&mut self, cause: &Cause, now: u64) {
        self.last = now;
        self.cause.task = self.cause.task.take().or_else(|| cause.task.clone());
    }

    /// Another victim of the same cause is above its threshold; returns whether it was not at the last reading.
    pub fn join(&mut self, role: String) -> bool {
        let is_new = !self.others.contains(&role);
        self.others_now.insert(role);
        is_new
    }

    /// Counts the waits up to a reading. Those since the last one above the threshold belong to the episode, too: it ended between the two. And
    /// conditions about a part of a second stay above their threshold for a while: it lasts until the last of its waits. A reading shows in which
    /// interval that was, so calm ones are looked at, too.
    pub fn count(&mut self, reading: &Reading) {
        let (at, is_above) = (reading.at, self.last == reading.at.trace.0);
        self.others = std::mem::take(&mut self.others_now);
        // Of a group that was removed the sums are known until then.
        let sums = self.sums(reading).unwrap_or(self.read.1);
        let late = self.grown(&self.read.1, &sums);
        if late > Nanos::ZERO {
            let rest = at.trace.since(self.read.0).saturating_sub(late);
            self.last_wait = ClockPair { trace: at.trace - rest, wall: WallTime(at.wall.0.saturating_sub(rest.0)) };
        }
        self.read = (at.trace, sums);
        if is_above || self.was_above {
            self.counted = at.trace;
            if self.grown(&self.now, &sums) > Nanos::ZERO {
                (self.now, self.end) = (sums, self.last_wait);
            }
        }
        self.was_above = is_above;
    }

    pub fn ended(&self, reason: EndReason) -> Ended {
        let is_known = self.cause.rule.is_some();
        let totals = Totals {
            by_cause: is_known.then(|| self.grown(&self.base, &self.now)),
            waited: self.group.is_none().then(|| self.now.waited.saturating_sub(self.base.waited)),
        };
        Ended { number: self.number, at: self.end, duration: self.end.trace.since(self.since), totals, reason }
    }

    /// The part that the cause is to blame for between two sums; all of it if the rule is unknown. The kernel counts throttling when it ends, and
    /// readings attribute it later.
    fn grown(&self, then: &Sums, now: &Sums) -> Nanos {
        match self.cause.rule {
            Some(_) => now.by.saturating_sub(then.by).max(now.stopped.saturating_sub(then.stopped)),
            None => now.waited.saturating_sub(then.waited),
        }
    }

    fn sums(&self, reading: &Reading) -> Option<Sums> {
        if let Some(path) = &self.group {
            let at = reading.limits.binary_search_by(|group| group.path.cmp(path)).ok()?;
            return reading.limits.get(at).map(|group| Sums { stopped: group.counted.ns, ..Sums::default() });
        }
        let victim = find(reading, &self.victim)?;
        let waits = reading.waits.get(victim.index())?;
        let is_throttled = self.cause.rule == Some(Rule::Throttled);
        let culprit = self.culprit.as_ref().and_then(|culprit| find(reading, culprit));
        let rows = reading.blame.iter().filter(|row| row.victim == victim && Some(row.rule) == self.cause.rule);
        // A limit is the group's own: who ran meanwhile is not to blame.
        let rows = rows.filter(|row| is_throttled || Some(row.occupant) == culprit);
        let stopped = if is_throttled { waits.stopped } else { Nanos::ZERO };
        Some(Sums { by: rows.map(|row| row.ns).sum(), stopped, waited: waits.waited })
    }
}

impl Former {
    pub fn until(&self) -> Time {
        self.until
    }

    fn is_of(&self, open: &OpenEpisode) -> bool {
        let is_same_victim = (self.victim.kind, &self.victim.cgroup, &self.group)
            == (open.victim.kind, &open.victim.cgroup, &open.group);
        is_same_victim && self.cause.may_be(&open.cause)
    }
}

/// The id of a role, unless another group has its name now.
fn find(reading: &Reading, role: &Role) -> Option<RoleId> {
    let id = reading.find(role.kind, role.cgroup.as_deref())?;
    reading.role(id).filter(|now| now.generation == role.generation).map(|_| id)
}
