//! How much CPU time quotas leave to tasks, for findings with other causes.
//!
//! On a busy CPU, a task throttled by its group's quota looks like one that waits for its slice, because others run meanwhile. To
//! avoid charging time to both, this module tells how much was due to the quota, and how much CPU time the quota allows at most.

use rustc_hash::FxHashMap;
use unstarve_facts::{Bandwidth, CgroupFacts};
use unstarve_model::Nanos;
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::throttled;
use crate::case::Case;
use crate::claim::{LimitClaim, QuotaCap};
use crate::ledger::Account;

/// How much CPU time the quotas above a task leave to it.
#[derive(Clone, Debug)]
pub(super) struct Allowance {
    /// Its fair share, limited to its part of the quota.
    pub due: Nanos,
    /// Time throttled while others ran; the events show it as ordinary waiting.
    pub hidden: Nanos,
    /// The longest single stop. A wait contains at most one, which ends with the period in which it began. Zero if nothing was
    /// throttled.
    pub longest_stop: Nanos,
    /// The quota, as evidence.
    pub evidence: Option<LimitClaim>,
}

/// The allowances of all tasks under a quota.
pub(super) struct Allowances(FxHashMap<ActorId, Allowance>);

/// A group with a quota and the tasks in it or below it.
struct Group<'a> {
    facts: &'a CgroupFacts,
    limit: Bandwidth,
    members: Vec<ActorId>,
}

impl Allowances {
    pub fn of(case: &Case<'_>) -> Allowances {
        let mut known: FxHashMap<ActorId, Allowance> = FxHashMap::default();
        for group in limited(case) {
            for id in &group.members {
                let Some(account) = case.ledger.account(*id) else { continue };
                let new = group.allowance(case, *id, account);
                let Some(old) = known.get_mut(id) else {
                    known.insert(*id, new);
                    continue;
                };
                // Of nested quotas the tightest counts: while one throttles a task, the other cannot.
                if new.hidden > old.hidden {
                    (old.hidden, old.longest_stop) = (new.hidden, new.longest_stop);
                }
                if new.due < old.due {
                    (old.due, old.evidence) = (new.due, new.evidence);
                }
            }
        }
        Allowances(known)
    }

    pub fn get(&self, id: ActorId, account: &Account) -> Allowance {
        let unlimited =
            || Allowance { due: account.ideal, hidden: Nanos::ZERO, longest_stop: Nanos::ZERO, evidence: None };
        self.0.get(&id).cloned().unwrap_or_else(unlimited)
    }
}

impl Allowance {
    /// The CPU time that was due and not received.
    pub fn owed(&self, account: &Account) -> Nanos {
        self.due.saturating_sub(account.got)
    }

    /// The part of the due CPU time that was not received, 0 to 1.
    pub fn shortfall(&self, account: &Account) -> f64 {
        self.owed(account).share_of(self.due)
    }
}

/// All groups with a quota that have tasks in the trace.
fn limited<'a>(case: &'a Case<'_>) -> Vec<Group<'a>> {
    let Some(snapshot) = case.snapshot else { return Vec::new() };
    let limits: Vec<(&CgroupFacts, Bandwidth)> =
        snapshot.cgroups.iter().filter_map(|group| Some((group, group.limit?))).collect();
    if limits.is_empty() {
        return Vec::new();
    }
    let by_path: FxHashMap<&str, usize> =
        limits.iter().enumerate().map(|(index, (group, _))| (group.path.as_str(), index)).collect();
    let mut groups: Vec<Group<'a>> =
        limits.into_iter().map(|(facts, limit)| Group { facts, limit, members: Vec::new() }).collect();
    for (id, _) in case.world.actors.iter().filter(|(_, actor)| actor.comm().is_some()) {
        let mut path = case.first_tid(id).and_then(|tid| snapshot.cgroup_of(tid));
        while let Some(here) = path.filter(|path| !path.is_empty()) {
            if let Some(index) = by_path.get(here) {
                groups[*index].members.push(id);
            }
            path = here.rsplit_once('/').map(|(above, _)| above);
        }
    }
    groups.retain(|group| !group.members.is_empty());
    groups
}

impl Group<'_> {
    fn allowance(&self, case: &Case<'_>, id: ActorId, account: &Account) -> Allowance {
        let all: u128 = self
            .members
            .iter()
            .filter_map(|id| case.ledger.account(*id))
            .map(|account| u128::from(account.ideal.0))
            .sum();
        let most =
            u128::from(case.span().0) * u128::from(self.limit.quota_us) / u128::from(self.limit.period_us.max(1));
        let due = if all > most && all > 0 {
            Nanos((u128::from(account.ideal.0) * most / all) as u64)
        } else {
            account.ideal
        };
        let period = Nanos::from_micros(self.limit.period_us);
        let hidden = self.hidden(case, id, account, period);
        let cap = (due < account.ideal).then(|| QuotaCap {
            path: self.facts.path.clone(),
            quota_us: self.limit.quota_us,
            period_us: self.limit.period_us,
            due,
        });
        let was_stopped = hidden > Nanos::ZERO;
        Allowance {
            due,
            hidden,
            longest_stop: if was_stopped { period } else { Nanos::ZERO },
            evidence: (cap.is_some() || was_stopped)
                .then(|| LimitClaim::Quota { cap, hidden: was_stopped.then_some(hidden) }),
        }
    }

    /// How long the task was throttled on a busy CPU: what the kernel counted, minus what the events show. Without the counters,
    /// any long wait may have been a stop, so all of them count; waits with mainly another reason are then not charged to
    /// weights.
    fn hidden(&self, case: &Case<'_>, id: ActorId, account: &Account, period: Nanos) -> Nanos {
        let Some(counted) = case.snapshot.and_then(|snapshot| snapshot.throttled_meanwhile.as_ref()) else {
            let stalls = account.stalls_mainly[Rule::Weight as usize];
            return Nanos(period.0.saturating_mul(stalls)).min(account.stalled_mainly[Rule::Weight as usize]);
        };
        let Some(counted) = counted.get(&self.facts.path) else { return Nanos::ZERO };
        let breadth = throttled::breadth(case, &self.members);
        Nanos(counted.ns.0 / u64::from(breadth)).saturating_sub(throttled::stopped(case, id))
    }
}
