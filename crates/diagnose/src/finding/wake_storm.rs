//! Far more tasks are woken than the CPUs can run: each runs briefly and waits long, and other tasks wait behind the crowd.
//!
//! A crowd of equals that delays only itself is plain overload and never more than info. It becomes a warning if a bystander
//! pays.

use std::cmp::Reverse;

use unstarve_model::{EventType, Nanos};
use unstarve_sched::Rule;
use unstarve_timeline::ActorId;

use super::FindingKind;
use crate::case::{Blame, Case};
use crate::claim::{self, Actors, Claim, Share, SwitchingClaim, SwitchingHeadline};
use crate::draft::{Draft, payer_row};
use crate::ledger::{Account, TICK};
use crate::remedy;
use crate::report::{Finding, Severity};
use crate::verdict::{self, Cause, Plight, Waiter};

/// The average number of tasks waiting on the CPU when a member of the crowd leaves the run queue: four more are runnable per CPU
/// than can run. A gate that wakes one or two more tasks than there are CPUs stays far below.
const QUEUE: f64 = 4.0;
/// A crowd has more members than such a run queue needs.
const MEMBERS: u32 = 8;
/// The crowd is woken: each member sleeps, is woken, and is preempted at most once before it sleeps again (by a bystander, a
/// tick, or the waker of the next member). So at least every other wait follows a wakeup. CPU hogs that preempt each other wait
/// after preemptions.
const WOKEN: f64 = 0.5;
/// "Runs briefly": the crowd waits at least this many times as long as it runs.
const WAIT_TO_RUN: f64 = 2.0;
/// Most of the crowd's waits must be behind its own members.
const OWN_DOING: f64 = 0.5;
/// Fewer waits may be a start-up.
const WAITS: u64 = 200;
/// A bystander wants little CPU time: at most this part of what the crowd runs.
const BYSTANDER: f64 = 0.1;
/// A task that wakes the crowd, or is woken by it, for this part of its own waits works with it.
const PARTNER: f64 = 0.1;

/// What this module finds.
pub(super) const KIND: FindingKind = FindingKind {
    id: "wake-storm",
    title: "far more tasks are woken than CPUs can run, and bystanders wait behind the crowd",
    about: "Each of the crowd runs for little and waits for long. A crowd that delays only itself is overload; \
            it becomes a warning when a task that has no part in it pays.",
    needs: &[EventType::Waking],
    snapshot: None,
    find: |case, _| find(case),
};

pub(crate) fn find(case: &Case<'_>) -> Vec<Finding> {
    case.victims()
        .filter(|(id, account)| is_storm(case, *id, account))
        .filter_map(|(id, account)| of_crowd(case, id, account))
        .collect()
}

fn mean_queue(account: &Account) -> f64 {
    account.queued_together as f64 / account.waits.max(1) as f64
}

fn is_storm(case: &Case<'_>, crowd: ActorId, account: &Account) -> bool {
    account.waits >= WAITS
        && case.actor(crowd).members >= MEMBERS
        && mean_queue(account) >= QUEUE
        && account.wakeup_waits as f64 >= WOKEN * account.waits as f64
        && account.waited.0 as f64 >= WAIT_TO_RUN * account.runs.total.0 as f64
        && case.blamed(crowd, |blame| blame.occupant == crowd).share_of(account.waited) >= OWN_DOING
}

/// A task that waits behind the crowd and is not in it.
struct Bystander {
    actor: ActorId,
    lost: Nanos,
    longest: Nanos,
    /// It wakes the crowd or is woken by it: not a bystander, though it also pays.
    partner: bool,
}

impl Bystander {
    fn severity(&self, case: &Case<'_>) -> Option<Severity> {
        let plight = Plight::new(Waiter::Program, Cause::Crowd, self.longest, self.lost, case.span());
        if self.partner { None } else { verdict::severity(&plight) }
    }
}

fn of_crowd(case: &Case<'_>, crowd: ActorId, account: &Account) -> Option<Finding> {
    let bystanders = bystanders(case, crowd, account);
    let is_hurt = |bystander: &&Bystander| bystander.severity(case) > Some(Severity::Info);
    let hurt: Vec<&Bystander> = bystanders.iter().filter(is_hurt).collect();
    let severity = hurt.iter().filter_map(|bystander| bystander.severity(case)).max().unwrap_or(Severity::Info);
    let who = Actors::of(case, [crowd]);
    let worst = hurt.first().map(|worst| claim::Bystander {
        who: Actors::of(case, [worst.actor]),
        lost: worst.lost,
        longest: worst.longest,
    });
    let evidence = evidence(account, &who);
    let headline = SwitchingHeadline::Storm {
        members: case.actor(crowd).members,
        who,
        cpus: case.world.cpus,
        waiting: mean_queue(account),
        bystander: worst,
    };
    let draft = Draft {
        evidence,
        victims: vec![crowd],
        also_paid: bystanders.iter().map(|other| payer_row(case, other.actor, other.lost)).collect(),
        remedies: remedy::against_storm(case, crowd, hurt.first().map(|worst| worst.actor)),
        ..Draft::new(KIND, severity, 0.9, headline)
    };
    Some(draft.finish(case, |blame| blame.occupant == crowd && is_crowding(blame)))
}

fn is_crowding(blame: &Blame) -> bool {
    matches!(blame.rule, Rule::Count | Rule::Fair | Rule::WakeupPreemption)
}

/// Worst first. Only with a total wait of at least a tick.
fn bystanders(case: &Case<'_>, crowd: ActorId, account: &Account) -> Vec<Bystander> {
    let little = account.runs.total.0 as f64 * BYSTANDER;
    let mut found: Vec<Bystander> = case
        .victims()
        .filter(|(id, other)| *id != crowd && (other.runs.total.0 as f64) <= little)
        .map(|(id, other)| Bystander {
            actor: id,
            lost: case.blamed(id, |blame| blame.occupant == crowd && is_crowding(blame)),
            longest: other.longest,
            partner: (case.wakes(id, crowd) + case.wakes(crowd, id)) as f64 >= PARTNER * other.waits as f64
                || became(case, id, crowd),
        })
        .filter(|bystander| bystander.lost >= TICK)
        .collect();
    found.sort_by_key(|bystander| (Reverse(bystander.lost), bystander.actor));
    found
}

/// Whether most of these threads later took the crowd's name.
fn became(case: &Case<'_>, id: ActorId, crowd: ActorId) -> bool {
    let (before, after) = (&case.actor(id).tids, &case.actor(crowd).tids);
    before.iter().filter(|tid| after.contains(tid)).count() > before.len() / 2
}

fn evidence(account: &Account, who: &Actors) -> Vec<Claim> {
    let (waited, ran, longest) = (account.waited, account.runs.total, account.longest);
    let for_all = SwitchingClaim::WaitedToRun { who: who.clone(), waited, ran };
    let for_each = account.run_per_wakeup().map(|runs| SwitchingClaim::EachWakeup { runs, longest });
    let woken = SwitchingClaim::FollowWakeups(Share(account.wakeup_waits as f64 / account.waits.max(1) as f64));
    [Some(for_all), for_each, Some(woken)].into_iter().flatten().map(Claim::from).collect()
}
