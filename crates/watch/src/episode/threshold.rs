//! Determines which thresholds a role exceeds: a pure function of readings.
//!
//! A single wait is above `wait` or `oldest` if others were preferred for half of the threshold, and if the table of verdicts warns of what they
//! had of it. So an episode begins by what `explain` would find:
//!
//! | others went before by | their part of the wait | what the table judges | in `explain` |
//! |---|---|---|---|
//! | class, priority | a quarter | their part | the longest stretch without a gap |
//! | a limit | – | the wait | what the limit stopped |
//! | interrupts | a third | the wait | what they took of a wait of which they took a third |
//! | weight, number, wakeup preemption | half | their part | their part of a wait of which they had half |
//! | turns of equals | the rest | the wait, from a second on | a wait of a second |
//!
//! With a smaller part the wait counts only towards keeping the recorder armed: what else ran made it long.

use unstarve_diagnose::verdict::{NEVER_HEALTHY, least_part};
use unstarve_model::{CpuId, Nanos, Severity};
use unstarve_sched::Rule;

use super::cpu_monopoly::lost;
use super::pair::{Counts, LONG, Met, Pair, READINGS, WINDOW, part_of};
use super::settings::{Fraction, Length, RoleThresholds};
use super::trigger::Trigger;
use super::verdict::is_never_healthy;
use crate::engine::reading::{Blame, CpuWaits, OldestWait, Reading};

/// At least a quarter of a single wait must be by class to count: less did not make the wait long, whatever its length.
const MUCH: u64 = 4;

/// Rules that are one reason.
const INTERRUPTS: &[Rule] = &[Rule::Irq, Rule::Softirq];
pub(super) const BY_WEIGHT: &[Rule] = &[Rule::Weight, Rule::Count];

/// Just below the threshold.
const BELOW: f64 = 0.99;

/// Upper bounds of the parts of a wait in which other tasks were preferred.
pub(super) struct Unfair {
    /// By class, in proportion to all that the role waited…
    summed: u64,
    /// …and at most what one task can have lost.
    by_class: u64,
    by_others: u64,
    /// By class, on the CPU that was waited for.
    on_cpu: u64,
}

impl Unfair {
    pub fn all(&self) -> u64 {
        self.by_class.saturating_add(self.by_others).max(self.on_cpu)
    }

    /// The part of a sum lost to higher classes by many tasks that counts for one wait, for comparison with other culprits.
    pub fn of_class(&self, ns: Nanos) -> Nanos {
        let part = self.by_class.max(self.on_cpu).min(self.summed);
        let share = u128::from(ns.0) * u128::from(part) / u128::from(self.summed.max(1));
        Nanos(u64::try_from(share).unwrap_or(u64::MAX))
    }
}

impl<'a> Pair<'a> {
    /// The condition that exceeds its threshold most. Exceeding only a default threshold, with no more than a remark by the table, begins no
    /// episode.
    pub fn worst(&self, thresholds: &RoleThresholds, usual: &RoleThresholds) -> Option<Met<'a>> {
        let conditions = [
            thresholds.wait.and_then(|limit| self.wait(limit)),
            thresholds.oldest.and_then(|limit| self.oldest(limit)),
            thresholds.share.and_then(|limit| self.share(limit.0)),
            thresholds.stalled.and_then(|limit| self.stalled(limit.0)),
            thresholds.stuck.and_then(|limit| self.stuck(limit)),
            thresholds.not_preempted.and_then(|limit| self.not_preempted(limit)),
            thresholds.idle.and_then(|limit| self.idle(limit)),
        ];
        let begins_nothing = |met: &Met<'a>| met.rank >= 1.0 && is_of(&met.trigger, usual) && !self.is_alarm(met);
        let judged = conditions.into_iter().flatten().map(|met| match begins_nothing(&met) {
            true => Met { rank: BELOW, ..met },
            false => met,
        });
        let by_key = judged.max_by(|a, b| a.rank.total_cmp(&b.rank));
        // A configured threshold for waits also replaces the table for them.
        let is_usual = (thresholds.wait, thresholds.oldest) == (usual.wait, usual.oldest);
        if !thresholds.verdict.unwrap_or(is_usual) {
            return by_key;
        }
        let by_table = self.by_table();
        match (by_key, by_table) {
            (Some(by_key), Some(by_table))
                if by_key.rank >= 1.0 && self.severity(&by_key) >= self.severity(&by_table) =>
            {
                Some(by_key)
            }
            (by_key, by_table) => by_table.filter(|met| met.rank >= 1.0).or(by_key).or(by_table),
        }
    }

    fn severity(&self, met: &Met<'a>) -> Severity {
        self.begun(*met).severity()
    }

    fn is_alarm(&self, met: &Met<'a>) -> bool {
        self.severity(met) > Severity::Info
    }

    /// The longest wait that ended since the previous reading, by its step of the histogram.
    fn wait(&self, limit: Length) -> Option<Met<'a>> {
        let (ns, since) = self.longest_ended()?;
        let (rank, by) = self.rank(ns, limit, since, None)?;
        let trigger = Trigger::Wait { ns, threshold_ns: limit.nanos() };
        Some(Met { rank, trigger, since, wait: None, by })
    }

    fn oldest(&self, limit: Length) -> Option<Met<'a>> {
        let met = |wait: &'a OldestWait| {
            let (ns, since) = (wait.ns.0, self.reading.at.trace.0.saturating_sub(wait.ns.0));
            let (rank, by) = self.rank(ns, limit, since, Some(wait.cpu))?;
            let trigger = Trigger::Oldest { ns, threshold_ns: limit.nanos() };
            Some(Met { rank, trigger, since, wait: Some(wait), by })
        };
        // Sorted longest first; of equals take the first.
        let worse = |worst: Met<'a>, met: Met<'a>| if met.rank > worst.rank { met } else { worst };
        self.oldest_waits().filter_map(met).reduce(worse)
    }

    /// How far a wait is above its limit. At least half of the limit must be precedence of other tasks; for a wait that is too long for any
    /// turn, turns of equals count too.
    fn rank(&self, ns: u64, limit: Length, since: u64, cpu: Option<CpuId>) -> Option<(f64, Counts)> {
        // Too short in any case: skip the computation.
        if ns < limit.nanos() / 2 {
            return None;
        }
        let preferred = self.unfair(ns, since, cpu).all();
        let unfair = preferred.saturating_mul(2).min(ns);
        let rank = |ns: u64| ns as f64 / limit.nanos().max(1) as f64;
        if rank(unfair) >= 1.0 {
            return Some((rank(unfair), Counts::Precedence));
        }
        let known = |rule| self.part_by(ns, since, rule).saturating_add(preferred);
        if is_never_healthy(self.role.kind, ns) && known(Rule::Fair).saturating_mul(2) >= ns {
            // Its length exceeds `NEVER_HEALTHY`, so this is the limit.
            let limit = limit.nanos().max(NEVER_HEALTHY.0);
            return Some((ns as f64 / limit as f64, Counts::Length)).filter(|(rank, _)| *rank >= 1.0);
        }
        (rank(unfair) >= 0.5).then(|| (rank(unfair), Counts::Precedence))
    }

    /// Upper bound of the part of a wait in which other tasks were preferred. The sums are of all tasks of the role, so the wait gets its
    /// proportion: what a thousand tasks waited briefly is not one task's wait. A CPU that real-time tasks monopolise is judged by itself, because
    /// most of a crowd can wait elsewhere. The part by class is at most what real-time tasks had of one CPU meanwhile.
    pub(super) fn unfair(&self, ns: u64, since: u64, cpu: Option<CpuId>) -> Unfair {
        let (then, now) = (self.at_or_before(since), self.reading);
        let waited = self.waited_since(then).map_or(0, |waited| waited.0);
        let (mut by_class, mut by_others) = (0_u64, 0_u64);
        for (row, ns) in self.preferred_since(since) {
            let sum = if row.rule.is_precedence() { &mut by_class } else { &mut by_others };
            *sum = sum.saturating_add(ns.0);
        }
        let of_row = |here: CpuWaits| part_of(ns, here.by_class.0, here.waited.0).min(lost(&here, then, now));
        let on_cpu = match cpu {
            Some(cpu) => self.on_cpu(then, now, cpu).map(of_row),
            None => self.on_cpus(then, now).map(of_row).max(),
        };
        // A daemon with 5 % of a CPU has one second of a wait of twenty, and did not make it long.
        let if_much = |lost: u64| if lost.saturating_mul(MUCH) >= ns { lost } else { 0 };
        let summed = part_of(ns, by_class, waited);
        let by_class = if_much(summed.min(self.lost_by_one_since(then, by_class)));
        let on_cpu = if_much(on_cpu.unwrap_or(0));
        Unfair { summed, by_class, by_others: part_of(ns, by_others, waited), on_cpu }
    }

    /// What the table judges of a single wait whose main rule is this one; 0 if the rule had too small a part of it to be the reason.
    pub(super) fn counts_for(&self, rule: Rule, ns: u64, since: u64, cpu: Option<CpuId>) -> u64 {
        let part =
            |rules: &[Rule]| rules.iter().map(|rule| self.part_by(ns, since, *rule)).fold(0, u64::saturating_add);
        match rule {
            Rule::Class | Rule::Priority => {
                let unfair = self.unfair(ns, since, cpu);
                unfair.by_class.max(unfair.on_cpu)
            }
            Rule::Irq | Rule::Softirq if self.is_reason(INTERRUPTS, since) => ns,
            Rule::Weight | Rule::Count if self.is_reason(BY_WEIGHT, since) => part(BY_WEIGHT),
            Rule::WakeupPreemption if self.is_reason(&[rule], since) => part(&[rule]),
            Rule::Irq | Rule::Softirq | Rule::Weight | Rule::Count | Rule::WakeupPreemption => 0,
            _ => ns,
        }
    }

    /// Whether these rules had enough of what the role waited since then to be the reason, as for `explain`. What it waited behind higher classes
    /// is left out: it is judged by itself, and may be what other tasks of the role waited elsewhere.
    pub(super) fn is_reason(&self, rules: &[Rule], since: u64) -> bool {
        let waited = self.waited_since(self.at_or_before(since)).map_or(0, |waited| waited.0);
        let among_others = waited.saturating_sub(self.by_class_since(since));
        let by = |rule: &Rule| self.by_rule_since(since, *rule).map(|(_, ns)| ns.0).fold(0, u64::saturating_add);
        let had = rules.iter().map(by).fold(0, u64::saturating_add);
        let least = rules.first().map_or(1.0, |rule| least_part(*rule));
        had as f64 >= least * among_others as f64
    }

    fn share(&self, limit: f64) -> Option<Met<'a>> {
        let now = self.reading.at.trace.0;
        let begin = self.at_or_before(now.saturating_sub(WINDOW));
        let span = now.saturating_sub(begin.at.trace.0);
        // With less than most of a second, a share is not meaningful yet.
        if span < WINDOW * 7 / 8 || limit <= 0.0 {
            return None;
        }
        // Cheap upper bound: all waits together.
        let waited = self.waited_since(begin)?;
        if waited.0 as f64 / span as f64 / limit < 0.5 {
            return None;
        }
        let since = begin.at.trace.0;
        // Threads of a pool that preempt each other on wakeup are of the same role: one thread's wait is another one's run.
        let is_siblings = |row: &Blame| row.rule == Rule::WakeupPreemption && row.occupant == self.id;
        let by_others = self.preferred_since(since).into_iter().filter(|(row, _)| !is_siblings(row));
        let of_all: Nanos = by_others.map(|(_, ns)| ns).sum();
        // A preferred task has the CPU once, however many tasks wait for it. Likewise the kernel counts a throttled run queue once.
        let at_once = self.preferred_at_once_since(begin).0.saturating_add(self.stopped_since(begin).0);
        let share = of_all.0.min(at_once) as f64 / span as f64;
        // Of two roles above the limit, the one with more waiting tasks is worse.
        let rank = if share >= limit { of_all.0 as f64 / span as f64 } else { share } / limit;
        let trigger = Trigger::Share { share, threshold: limit };
        (rank >= 0.5).then_some(Met { rank, trigger, since, wait: None, by: Counts::Precedence })
    }

    /// Long waits behind real-time tasks as a share of the last second. At least half of all waits must be behind them, overall or on
    /// one CPU: the sums do not show for which waits they are to blame.
    fn stalled(&self, limit: f64) -> Option<Met<'a>> {
        let begin = self.at_or_before(self.reading.at.trace.0.saturating_sub(WINDOW));
        let span = self.reading.at.trace.0.saturating_sub(begin.at.trace.0);
        if span < WINDOW * 3 / 4 || limit <= 0.0 {
            return None;
        }
        let waited = self.waited_since(begin)?.0;
        let least = (limit / 2.0 * span as f64) as u64;
        if waited < least {
            return None;
        }
        let since = begin.at.trace.0;
        let by_class = self.by_class_since(since);
        let is_most = by_class.saturating_mul(2) >= waited && self.readings_with_long(since) >= READINGS;
        let everywhere = if is_most { self.lost_since(begin, by_class) } else { 0 };
        let by_class = everywhere.max(self.held_since(begin, limit));
        if by_class < least {
            return None;
        }
        // A wait in progress counts with at most the window; a finished one may include time before the window.
        let lasting = self.long_lasting().map(|ns| ns.min(span)).fold(0, u64::saturating_add);
        let long = self.long_ended(begin, self.reading).saturating_add(lasting).min(by_class);
        let share = (long as f64 / span as f64).min(1.0);
        let rank = share / limit;
        let trigger = Trigger::Stalled { share, threshold: limit };
        (rank >= 0.5).then_some(Met { rank, trigger, since, wait: None, by: Counts::Precedence })
    }

    /// The time that higher classes are to blame for since then.
    fn by_class_since(&self, since: u64) -> u64 {
        let by_class = self.preferred_since(since).into_iter().filter(|(row, _)| row.rule.is_precedence());
        by_class.map(|(_, ns)| ns.0).fold(0, u64::saturating_add)
    }

    /// Total of the long waits that ended between two readings, by the lower bounds of their steps.
    fn long_ended(&self, then: &Reading, now: &Reading) -> u64 {
        let Some(ended) = self.ended(then, now) else { return 0 };
        let long =
            ended.buckets().map(|bucket| ((bucket.from * 1e9) as u64, bucket.count)).filter(|(ns, _)| *ns >= LONG);
        long.map(|(ns, count)| ns.saturating_mul(count)).fold(0, u64::saturating_add)
    }

    fn long_lasting(&self) -> impl Iterator<Item = u64> {
        let of_role = self.reading.oldest.iter().filter(|wait| wait.role == self.id);
        of_role.map(|wait| wait.ns.0).filter(|ns| *ns >= LONG)
    }

    /// Number of readings since then with a long wait that is in progress or ended since the reading before.
    fn readings_with_long(&self, since: u64) -> usize {
        let readings = self.readings_since(since);
        let pairs = readings.iter().zip(readings.iter().skip(1));
        let has_long = |(then, now): &(&&Reading, &&Reading)| {
            let id = self.same_role(now);
            let lasts = now.oldest.iter().any(|wait| Some(wait.role) == id && wait.ns.0 >= LONG);
            lasts || self.long_ended(then, now) > 0
        };
        pairs.filter(has_long).count()
    }
}

/// Whether the trigger's threshold is the one in `thresholds`.
fn is_of(trigger: &Trigger, thresholds: &RoleThresholds) -> bool {
    let length = |limit: Option<Length>, ns: u64| limit.is_some_and(|limit| limit.nanos() == ns);
    let part = |limit: Option<Fraction>, part: f64| limit.is_some_and(|limit| limit.0 == part);
    match *trigger {
        Trigger::Wait { threshold_ns, .. } => length(thresholds.wait, threshold_ns),
        Trigger::Oldest { threshold_ns, .. } => length(thresholds.oldest, threshold_ns),
        Trigger::Stuck { threshold_ns, .. } => length(thresholds.stuck, threshold_ns),
        Trigger::NotPreempted { threshold_ns, .. } => length(thresholds.not_preempted, threshold_ns),
        Trigger::Idle { threshold_ns, .. } => length(thresholds.idle, threshold_ns),
        Trigger::Share { threshold, .. } => part(thresholds.share, threshold),
        Trigger::Stalled { threshold, .. } => part(thresholds.stalled, threshold),
        Trigger::Stopped { threshold, .. } => part(thresholds.stopped, threshold),
        Trigger::Verdict { .. } => true,
    }
}
