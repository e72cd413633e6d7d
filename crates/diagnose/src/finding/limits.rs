//! What bandwidth limits leave to tasks, for findings about other causes.
//!
//! Beside a busy CPU a task that its group's limit stops looks like one that waits its turn: others run meanwhile. So that no
//! time is charged twice, to the limit and to those others, this tells what was the limit's, and what the limit allows at most.

use rustc_hash::FxHashMap;
use unstarve_facts::{Bandwidth, CgroupFacts};
use unstarve_model::Nanos;
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::throttled;
use crate::case::Case;
use crate::ledger::Account;

/// What the limits above a task leave to it.
#[derive(Clone, Debug)]
pub(super) struct Allowance {
    /// What it was due: an equal share, but not more than its part of what the limit allows.
    pub due: Nanos,
    /// How long it was stopped while others ran, which the events show as their turns.
    pub hidden: Nanos,
    /// One wait holds at most one stop, and that ends with the period in which it began; zero if nothing was stopped.
    pub longest_stop: Nanos,
    /// The limit, for people.
    pub evidence: Option<String>,
}

/// The allowances of all tasks that have a limit.
pub(super) struct Allowances(FxHashMap<ActorId, Allowance>);

/// A limited group and the tasks in it or below.
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
                // Of nested limits the narrowest counts, and while one stops a task the other cannot.
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
    /// What it was due and did not get.
    pub fn owed(&self, account: &Account) -> Nanos {
        self.due.saturating_sub(account.got)
    }

    /// The part of what it was due that it did not get, 0 to 1.
    pub fn shortfall(&self, account: &Account) -> f64 {
        self.owed(account).share_of(self.due)
    }
}

/// All groups with a limit that have tasks in the trace.
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
        let cap = (due < account.ideal).then(|| {
            format!(
                "the limit of {} ({} µs of each {} µs) allows it no more than {due}",
                self.facts.path.escape_debug(),
                self.limit.quota_us,
                self.limit.period_us
            )
        });
        let charged = (hidden > Nanos::ZERO)
            .then(|| format!("{hidden} of its waits were that limit's, see `throttled`, and are not counted here"));
        let evidence: Vec<String> = cap.into_iter().chain(charged).collect();
        Allowance {
            due,
            hidden,
            longest_stop: if hidden > Nanos::ZERO { period } else { Nanos::ZERO },
            evidence: (!evidence.is_empty()).then(|| evidence.join("; ")),
        }
    }

    /// How long the task was stopped on a busy CPU: what the kernel counted, less what the events show. A recording without
    /// those counters leaves open which of the long waits were stops, so each may have been one; of waits that had mainly another
    /// reason nothing is charged to weights.
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
