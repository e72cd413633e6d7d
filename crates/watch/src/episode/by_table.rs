//! Alarms by the table of verdicts that no threshold covers: programs behind real-time tasks, and many short waits.
//!
//! The sums are per role and do not show single waits. Only what they prove counts: if tasks waited for one reason for longer than all shorter
//! waits together, the excess must have been in longer waits. If a role has too many other waits for such a proof, only the thresholds apply.

use unstarve_diagnose::verdict::{Cause, Cost, Plight, Waiter, severity};
use unstarve_model::{Nanos, Severity};
use unstarve_sched::Rule;

use super::cpu_monopoly::lost;
use super::pair::{Counts, Met, Pair, Reason};
use super::threshold::BY_WEIGHT;
use super::trigger::Trigger;
use super::verdict::{never_asks_to_be_last, waiter};
use crate::engine::reading::{Histogram, Reading, RoleId, RoleKind};

/// Window for shares of time: as long as the recorder keeps events by default, so that `explain` judges the same time.
const WINDOW: u64 = 10_000_000_000;
/// Minimum window for a share of time.
const LEAST_WINDOW: u64 = 500_000_000;
/// Below this sum, no row of the table applies.
const LEAST: u64 = 1_000_000;
/// A task that gets less than a quarter of its fair half of a CPU makes almost no progress.
const HARDLY: f64 = 0.875;
/// With so many tasks of a role waiting at once, on average, they are a crowd to other tasks (as in `wake-storm`).
const CROWD: u64 = 4;
/// Ranks of a warning and of a critical wait, in multiples of the threshold: becoming critical later counts as another episode (`WORSE`).
const RANKS: [f64; 2] = [1.0, 5.0];

impl Reason {
    /// The reasons that counters can judge. For programs they cannot: whether a low weight is intended is unknown.
    fn of(kind: RoleKind) -> &'static [Reason] {
        match kind {
            kind if never_asks_to_be_last(kind) => &[Reason::Class, Reason::Weight, Reason::Crowd],
            _ => &[Reason::Class],
        }
    }

    /// Whether waits by this rule have this reason.
    pub(super) fn is_by(self, rule: Rule) -> bool {
        match self {
            Reason::Class => rule.is_precedence(),
            Reason::Weight => matches!(rule, Rule::Weight | Rule::Count),
            Reason::Crowd => rule == Rule::Fair,
        }
    }

    fn cause(self, waiter: Waiter) -> Cause {
        match self {
            Reason::Class if waiter == Waiter::RealTime => Cause::Priority,
            Reason::Class => Cause::Class,
            Reason::Weight => Cause::Weight,
            Reason::Crowd => Cause::Crowd,
        }
    }
}

/// Which property of the waits is judged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Looked {
    /// The longest wait.
    AtOneWait,
    /// All waits, also as a share of the time.
    AtAll,
}

/// Waits for one reason since a reading.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Sum {
    /// Lower bound of the longest part in one wait.
    longest: u64,
    /// Total that counts for the share of time.
    lost: u64,
    /// The time observed; 0 if shorter than [`LEAST_WINDOW`].
    span: u64,
    since: u64,
}

impl<'a> Pair<'a> {
    /// The worst case that the table calls at least a remark.
    pub(super) fn by_table(&self) -> Option<Met<'a>> {
        let now = self.reading.at.trace.0;
        let window = self.at_or_before(now.saturating_sub(WINDOW));
        if self.waited_since(window)?.0 < LEAST {
            return None;
        }
        let ended = self.longest_ended().map(|(_, since)| self.at_or_before(since));
        let reasons = Reason::of(self.role.kind).iter();
        let cases = reasons.flat_map(|reason| {
            // A single wait is judged without a share of time, of which it fills 100 %; the share is computed over the whole window only.
            let alone = [Some(self.before), ended].into_iter().flatten();
            let alone = alone.filter_map(move |then| self.judged(*reason, then, Looked::AtOneWait));
            alone.chain(self.judged(*reason, window, Looked::AtAll))
        });
        cases.max_by(|a, b| a.rank.total_cmp(&b.rank))
    }

    fn judged(&self, reason: Reason, then: &'a Reading, looked: Looked) -> Option<Met<'a>> {
        let sum = self.sum(reason, then).filter(|sum| sum.lost >= LEAST)?;
        let sum = if looked == Looked::AtOneWait { Sum { span: 0, ..sum } } else { sum };
        if !self.goes_on(reason, &sum) {
            return None;
        }
        let waiter = waiter(self.role.kind, None);
        let severity = severity_of(self.role.kind, waiter, reason.cause(waiter), &sum)?;
        let Sum { longest, lost, span, since } = sum;
        let [warning, critical] = RANKS;
        let rank = match severity {
            Severity::Info => 0.5,
            Severity::Warning => warning,
            Severity::Critical => critical,
        };
        let trigger = Trigger::Verdict { ns: longest, lost_ns: lost, span_ns: span, severity };
        Some(Met { rank, trigger, since, wait: None, by: Counts::Reason(reason) })
    }

    /// Whether the share of time since the last reading is at least half of the share in the whole window: a condition that is over neither
    /// begins an episode nor keeps one open.
    fn goes_on(&self, reason: Reason, sum: &Sum) -> bool {
        let now = self.reading.at.trace;
        if sum.since >= self.before.at.trace.0 || sum.span == 0 {
            return true;
        }
        let since_last = now.since(self.before.at.trace);
        let lately = self.sum(reason, self.before).map_or(0, |lately| lately.lost);
        2.0 * Nanos(lately).share_of(since_last) >= Nanos(sum.lost).share_of(Nanos(sum.span))
    }

    fn sum(&self, reason: Reason, then: &'a Reading) -> Option<Sum> {
        let (now, since) = (self.reading.at.trace.0, then.at.trace.0);
        let by_whom = self.by_whom(reason, since);
        let all = by_whom.iter().map(|(_, ns)| *ns).fold(0, u64::saturating_add);
        if reason == Reason::Weight && !self.is_reason(BY_WEIGHT, since) {
            return None;
        }
        let in_long = self.in_long(then, all);
        let lasting = if reason == Reason::Class { self.behind_real_time() } else { 0 };
        let span = now.saturating_sub(since);
        let lost = match reason {
            Reason::Class => self.lost_on_one_cpu(then, all),
            // Short pieces by these rules are ordinary turns of fair scheduling.
            Reason::Weight => in_long.together.min(self.preferred_at_once_since(then).0),
            Reason::Crowd => all,
        };
        // However many tasks wait for one CPU at once, each moment counts once; no single wait is longer than that.
        let lost = lost.min(span).max(lasting);
        let longest = in_long.longest.min(lost).max(lasting);
        let is_crowd = |(role, _): &(RoleId, u64)| self.is_crowd(*role, then);
        if reason == Reason::Crowd && !by_whom.iter().max_by_key(|(_, ns)| *ns).is_some_and(is_crowd) {
            return None;
        }
        Some(Sum {
            longest,
            lost,
            span: if span < LEAST_WINDOW { 0 } else { span },
            since: since.min(now.saturating_sub(lasting)),
        })
    }

    /// The roles that had the CPU for this reason, and for how long, since then.
    fn by_whom(&self, reason: Reason, since: u64) -> Vec<(RoleId, u64)> {
        match reason {
            Reason::Crowd => self.by_rule_since(since, Rule::Fair).map(|(row, ns)| (row.occupant, ns.0)).collect(),
            _ => {
                let rows = self.preferred_since(since).into_iter();
                let rows = rows.filter(|(row, _)| reason.is_by(row.rule));
                rows.map(|(row, ns)| (row.occupant, ns.0)).collect()
            }
        }
    }

    /// The longest wait in progress behind the real-time task that has the CPU.
    fn behind_real_time(&self) -> u64 {
        let real_time = RoleKind::RealTime.fixed_id();
        let behind = self
            .oldest_waits()
            .filter(|wait| Some(wait.occupant_role) == real_time && self.role.kind != RoleKind::RealTime);
        // Tasks that chose a low priority (nice, SCHED_IDLE) can wait there too; those waits are not by precedence.
        let is_by_class =
            |wait: &&crate::engine::reading::OldestWait| self.rule_behind(wait).is_some_and(Rule::is_precedence);
        behind.filter(is_by_class).map(|wait| wait.ns.0.min(wait.occupied.0)).max().unwrap_or(0)
    }

    /// Lower bounds for long waits, if tasks waited `all` for one reason since then.
    fn in_long(&self, then: &Reading, all: u64) -> InLong {
        let Some(ended) = self.ended(then, self.reading) else { return InLong::default() };
        let waiting = self.reading.waits.get(self.id.index()).map_or(0, |waits| waits.waiting);
        InLong::of(&ended, u64::from(waiting), all)
    }

    /// What the role lost to higher classes on the CPU where it lost most; each moment counts once.
    fn lost_on_one_cpu(&self, then: &Reading, all: u64) -> u64 {
        let on_cpus = self.on_cpus(then, self.reading).map(|here| lost(&here, then, self.reading));
        let known = on_cpus.max().unwrap_or(0);
        // For a role with a new id, it is unknown on which CPUs it waited.
        let elsewhere = if known == 0 { self.lost_by_one_since(then, all) } else { known };
        elsewhere.min(all)
    }

    /// Whether enough tasks of another role wait all the time to be a crowd.
    fn is_crowd(&self, role: RoleId, then: &Reading) -> bool {
        let Some(crowd) = self.reading.role(role).filter(|_| role != self.id) else { return false };
        let pair = Pair { id: role, role: crowd, before: self.before, reading: self.reading, past: self.past };
        let span = self.reading.at.trace.since(then.at.trace).0;
        pair.waited_since(then).is_some_and(|waited| waited.0 >= span.saturating_mul(CROWD))
    }
}

/// The severity by the table. A kernel thread that hardly runs delays other tasks, but counters do not show how much: a warning at most.
fn severity_of(kind: RoleKind, waiter: Waiter, cause: Cause, sum: &Sum) -> Option<Severity> {
    let span = Nanos(sum.span);
    let plight = Plight::new(waiter, cause, Nanos(sum.longest), Nanos(sum.lost), span);
    if cause == Cause::Crowd {
        // Judged as a bystander of a crowd; anything less than critical can be fair turns among equals (decision 0220).
        return severity(&Plight { waiter: Waiter::Program, ..plight }).filter(|found| *found == Severity::Critical);
    }
    let own = severity(&plight);
    // The role of all other kernel threads includes real-time tasks, and their purpose is unknown.
    let is_known = waiter != Waiter::RealTime && kind != RoleKind::Kernel;
    let hardly_runs = is_known && cause == Cause::Class && plight.share >= HARDLY;
    let felt = hardly_runs.then(|| severity(&plight.at_cost(Cost::Heavy))).flatten();
    own.max(felt.map(|felt| felt.min(Severity::Warning)))
}

/// Long waits, as far as the sums prove them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct InLong {
    /// Lower bound of the longest.
    longest: u64,
    /// Total of the waits that are as long.
    together: u64,
}

impl InLong {
    /// `all` is the time waited for one reason, in finished waits and in `waiting` waits in progress. Whatever exceeds the total of all shorter
    /// waits was in longer ones, and at least one of these is as long as their average.
    fn of(ended: &Histogram, waiting: u64, all: u64) -> InLong {
        let buckets: Vec<_> = ended.buckets().collect();
        let mut longer = waiting.saturating_add(buckets.iter().map(|bucket| bucket.count).sum());
        let mut best = InLong::default();
        let mut rest = all;
        for bucket in &buckets {
            best = best.or(longer, rest);
            longer -= bucket.count;
            let at_most = (bucket.to * 1e9) as u64;
            rest = rest.saturating_sub(at_most.saturating_mul(bucket.count));
        }
        best.or(longer, rest)
    }

    fn or(self, waits: u64, together: u64) -> InLong {
        match together.checked_div(waits) {
            Some(longest) if longest > self.longest => InLong { longest, together },
            _ => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn in_long(waits: &[(u64, u64)], waiting: u64, all: u64) -> (u64, u64) {
        let mut ended = Histogram::new();
        waits.iter().for_each(|(count, us)| ended.add(Nanos(us * 1_000), *count));
        let InLong { longest, together } = InLong::of(&ended, waiting, all);
        (longest / 1_000, together / 1_000)
    }

    #[test]
    fn what_shorter_waits_cannot_have_is_in_longer_ones() {
        assert_eq!(in_long(&[(250, 3_500)], 0, 875 * MS), (3_500, 875_000), "all of them for this reason");
        assert_eq!(in_long(&[(250, 3_500)], 0, 100 * MS), (400, 100_000), "some of them, and nobody knows which");
        // One of 20 ms for other reasons, and 50 of 300 µs behind a real-time task.
        assert_eq!(in_long(&[(50, 300), (1, 20_000)], 0, 15 * MS).0, 294);
        // One of 20 ms behind a real-time task, and 50 of 300 µs among equals, of at most 353 µs each.
        let (longest, _) = in_long(&[(50, 300), (1, 20_000)], 0, 35 * MS);
        assert!((17_000..=20_000).contains(&longest), "{longest}");
        assert_eq!(in_long(&[], 2, 30 * MS), (15_000, 30_000), "two that last");
        assert_eq!(in_long(&[], 0, 30 * MS), (0, 0), "nobody waited");
    }
}
