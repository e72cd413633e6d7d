//! Chooses the tasks that an episode names before its trace is explained. The counters are sums per role: a task is named only if a wait in
//! progress identifies it. But all real-time programs are one role, so the counters also remember which of them had each CPU lately.

use unstarve_model::{CpuId, Nanos, Time};
use unstarve_sched::Rule;

use super::begun::Begun;
use super::cpu_monopoly::lost;
use super::pair::{Counts, LONG, Met, Pair, Reason, WINDOW};
use super::threshold::Unfair;
use super::trigger::Trigger;
use crate::engine::reading::{Blame, CpuWaits, OldestWait, Reading, RoleKind, TaskId};

/// A real-time program that had less than this part of a CPU is not what starved a role there.
const ALARMING_SHARE: f64 = 0.1;

impl<'a> Pair<'a> {
    pub(super) fn begun(&self, met: Met<'a>) -> Begun {
        let most = self.to_blame(&met);
        // A quota is the group's own: the occupants during throttling are not to blame.
        let most_by_others = most.filter(|(row, _)| row.rule != Rule::Throttled);
        let culprit = most_by_others.map(|(row, _)| row.occupant);
        let wait = met.wait.or_else(|| self.telling_wait());
        let rule = most.map(|(row, _)| row.rule);
        let longest = match (met.trigger, rule) {
            (Trigger::Wait { ns, .. } | Trigger::Oldest { ns, .. }, Some(rule)) => {
                Nanos(self.counts_for(rule, ns, met.since, met.wait.map(|wait| wait.cpu)))
            }
            _ => self.longest_since(met.since),
        };
        Begun {
            number: 0,
            continues: None,
            at: self.reading.at,
            trigger: met.trigger,
            since: Time(met.since),
            victim: self.role.clone(),
            group: None,
            victim_task: wait.map(|wait| wait.task),
            culprit: culprit.and_then(|culprit| self.reading.role(culprit)).cloned(),
            culprit_task: wait
                .filter(|wait| culprit.is_some_and(|culprit| wait.is_mostly_behind(culprit)))
                .and_then(|wait| wait.occupant)
                .or_else(|| self.real_time_task(most_by_others?.0, met.since)),
            rule,
            ns: most.map_or(Nanos(0), |(_, ns)| ns),
            longest,
        }
    }

    /// The role that had the CPU, with rule and duration.
    fn to_blame(&self, met: &Met<'a>) -> Option<(Blame, Nanos)> {
        let of_wait = |rule| {
            met.wait.map(|wait| (Blame { victim: self.id, occupant: wait.occupant_role, rule, ns: wait.ns }, wait.ns))
        };
        let most_by = |rule| self.by_rule_since(met.since, rule).max_by_key(|(_, ns)| *ns);
        match met.trigger {
            Trigger::Stuck { .. } => of_wait(Rule::Fair),
            Trigger::Idle { .. } => of_wait(Rule::Idle),
            Trigger::NotPreempted { .. } => most_by(Rule::NotPreempted),
            _ if met.by == Counts::Reason(Reason::Crowd) => most_by(Rule::Fair),
            _ if met.by == Counts::Length => most_by(Rule::Fair),
            _ => self.most_preferred(met),
        }
    }

    /// The real-time program that has had most of the CPU on which the role lost most lately, if a wait that is over was behind such programs.
    /// If it is unknown on which CPU, of the one that such programs had more than all others together. Nobody if less was lost there lately than half of
    /// what was lost there since `since`, in proportion to the time: then most of it was perhaps another one's doing. Nor if they had too little of it.
    fn real_time_task(&self, row: Blame, since: u64) -> Option<TaskId> {
        if Some(row.occupant) != RoleKind::RealTime.fixed_id() || self.id == row.occupant {
            return None;
        }
        let now = self.reading;
        let then = self.at_or_before(since.max(now.at.trace.0.saturating_sub(WINDOW)));
        let lost = |here: &CpuWaits| lost(here, then, now);
        let most = self.on_cpus(then, now).filter(|here| lost(here) > 0).max_by_key(lost);
        let most = most.map(|here| here.cpu);
        let only = || {
            let all = now.real_time_of_all_since(then);
            let cpus = (0..now.real_time.len() as u32).map(CpuId);
            cpus.max_by_key(|cpu| now.real_time_since(then, *cpu))
                .filter(|cpu| now.real_time_since(then, *cpu).0.saturating_mul(2) > all.0)
        };
        let cpu = most.or_else(only)?;
        let share = |ns: Nanos, then: &Reading| ns.share_of(now.at.trace.since(then.at.trace));
        let had = |then: &Reading| share(now.real_time_since(then, cpu), then);
        // The same sum of the same CPU, in each time.
        let lost = |then: &Reading| match most.and_then(|cpu| self.on_cpu(then, now, cpu)) {
            Some(here) => share(here.by_class, then),
            None => had(then),
        };
        let is_its_doing = had(then) >= ALARMING_SHARE && 2.0 * lost(then) >= lost(self.at_or_before(since));
        now.real_time_task(cpu).filter(|_| is_its_doing)
    }

    /// The longest wait since then, including waits in progress.
    fn longest_since(&self, since: u64) -> Nanos {
        let ended = self.ended(self.at_or_before(since), self.reading);
        let ended = ended.and_then(|ended| ended.buckets().last().map(|bucket| (bucket.from * 1e9) as u64));
        let lasting = self.oldest_waits().map(|wait| wait.ns.0).max();
        Nanos(ended.max(lasting).unwrap_or(0))
    }

    /// The role that was preferred most, summed over rules, with the rule that has the largest part; for a trigger by real-time tasks, only
    /// among these.
    fn most_preferred(&self, met: &Met<'a>) -> Option<(Blame, Nanos)> {
        let is_stalled = matches!(met.trigger, Trigger::Stalled { .. });
        let is_meant = |rule: Rule| match met.by {
            Counts::Reason(reason) => reason.is_by(rule),
            _ => !is_stalled || rule.is_precedence(),
        };
        let of_wait = self.unfair_of(met);
        let counts = |row: &Blame, ns: Nanos| match &of_wait {
            Some(of_wait) if row.rule.is_precedence() => of_wait.of_class(ns),
            _ => ns,
        };
        let rows = self.preferred_since(met.since).into_iter();
        let rows: Vec<_> = rows.filter(|(row, _)| is_meant(row.rule)).collect();
        // A task that is woken by its victim and has a higher weight has a part by either rule. Throttling is the victim's own.
        let of_whom = |row: &Blame| (row.occupant, row.rule == Rule::Throttled);
        let all_of = |one: &Blame| -> Nanos {
            let same = rows.iter().filter(|(row, _)| of_whom(row) == of_whom(one));
            same.map(|(row, ns)| counts(row, *ns)).sum()
        };
        rows.iter().copied().max_by_key(|(row, ns)| (all_of(row), counts(row, *ns)))
    }

    /// The unfair part of the wait that is above a threshold, if the trigger is a single wait.
    fn unfair_of(&self, met: &Met<'a>) -> Option<Unfair> {
        let (Trigger::Wait { ns, .. } | Trigger::Oldest { ns, .. }) = met.trigger else { return None };
        Some(self.unfair(ns, met.since, met.wait.map(|wait| wait.cpu)))
    }

    /// The longest wait in progress that is not a fair turn among equals. The wait above a threshold has ended, or there are many: another
    /// task of the role can be waiting now for other reasons.
    fn telling_wait(&self) -> Option<&'a OldestWait> {
        let is_unfair = |wait: &&OldestWait| {
            let since = self.reading.at.trace.0.saturating_sub(wait.ns.0);
            self.unfair(wait.ns.0, since, Some(wait.cpu)).all().saturating_mul(2) >= wait.ns.0
        };
        self.oldest_waits().filter(|wait| wait.ns.0 >= LONG).filter(is_unfair).max_by_key(|wait| wait.ns)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use unstarve_model::{Comm, Tid};

    use super::*;
    use crate::testing::{Scene, at};

    const MS: u64 = 1_000_000;

    /// Who is named for what was waited in ten seconds: so much in each of the first eight, and so much in each of the last two.
    ///
    /// | first | lately | named |
    /// |---|---|---|
    /// | nothing | much | the program that ran lately |
    /// | as much | as much | it |
    /// | much | less | nobody: most of it was before |
    /// | nothing | less | it |
    /// | nothing | little | nobody: that is no alarm |
    #[test]
    fn no_real_time_program_is_named_for_what_was_waited_before_it_ran() {
        let cases = [(0, 800, Some(7)), (800, 800, Some(7)), (800, 150, None), (0, 150, Some(7)), (0, 50, None)];
        for (first, lately, expected) in cases {
            let late = TaskId { tid: Tid(7), tgid: Tid(7), comm: Comm::from("late") };
            let mut scene = Scene::new().on_cpu("kworker", 1, 1, 0).mostly(1, late);
            let mut past = VecDeque::from([Arc::new(scene.reading(at(0)))]);
            for second in 1..=10 {
                let ns = if second <= 8 { first } else { lately } * MS;
                scene = scene.blame("kworker", RoleKind::RealTime, ns).on_cpu("kworker", 1, ns, 0);
                past.push_back(Arc::new(scene.reading(at(second * 1000))));
            }
            let reading = past.pop_back().expect("eleven");
            let before = past.back().expect("ten").clone();
            let id = reading.find(RoleKind::Kworker, None).expect("a role");
            let role = reading.role(id).expect("a role");
            let pair = Pair { id, role, before: &before, reading: &reading, past: &past };
            let since = at(0).trace.0;
            let most = pair.preferred_since(since).into_iter().next().expect("blame");
            let named = pair.real_time_task(most.0, since).map(|task| task.tid.0);
            assert_eq!(named, expected, "{first} ms and then {lately} ms of each second");
        }
    }
}
