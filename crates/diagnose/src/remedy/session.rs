//! Remedies for autogroup sessions: reset a negative session nice.

use std::collections::BTreeMap;

use unstarve_change::{Change, Target, Value};
use unstarve_facts::TaskFacts;
use unstarve_timeline::ActorId;

use super::threads::{INIT, of_snapshot};
use super::{Draft, kind};
use crate::case::Case;
use crate::report::Remedy;

/// Resets the nice value by which the sessions of a hog outweigh others. The nice of the tasks only counts within a session.
pub(super) fn back_to_normal(case: &Case<'_>, victim: ActorId, occupant: ActorId) -> Option<Remedy> {
    let nice = case.session_nice(occupant).filter(|nice| *nice < 0)?;
    if case.competes_by_nice(occupant, victim) {
        return None;
    }
    let changes: Vec<Change> = members(case, occupant)?.into_values().map(|task| to_nice_0(case, task)).collect();
    (!changes.is_empty()).then_some(())?;
    let shown = nice.to_string().replace('-', "−");
    Some(
        Draft {
            id: kind::SESSION_TO_NICE_0,
            text: format!(
                "{} competes by its session, which has nice {shown} as a whole (/proc/PID/autogroup); at nice 0 it has no more weight than \
                 other sessions. The nice of a task counts only inside its session: renice changes nothing here.",
                case.name(occupant)
            ),
            changes,
            risk: "The nice value may have been set on purpose. All programs of the session lose it. It holds until the session ends.",
            valid_on: "all kernels with autogroup on; to raise it again (undo) takes CAP_SYS_NICE".into(),
        }
        .done(),
    )
}

/// For each raised session, the oldest process of the actor; `None` if one of these sessions contains the host's first process.
fn members<'a>(case: &Case<'a>, actor: ActorId) -> Option<BTreeMap<u64, &'a TaskFacts>> {
    let snapshot = case.snapshot?;
    let of_init = snapshot.task(INIT).and_then(|task| task.autogroup).map(|session| session.id);
    let mut oldest: BTreeMap<u64, &TaskFacts> = BTreeMap::new();
    for tid in &case.actor(actor).tids {
        let leader = snapshot.process_of(*tid).and_then(|process| snapshot.task(process));
        let Some(task) = leader.or_else(|| snapshot.task(*tid)) else { continue };
        let Some(session) = task.autogroup.filter(|session| session.nice < 0) else { continue };
        if of_init == Some(session.id) {
            return None;
        }
        let first = oldest.entry(session.id).or_insert(task);
        if (task.start_ticks, task.tid) < (first.start_ticks, first.tid) {
            *first = task;
        }
    }
    Some(oldest)
}

fn to_nice_0(case: &Case<'_>, task: &TaskFacts) -> Change {
    let was = task.autogroup.map(|session| Value::Nice(session.nice));
    Change::of(Target::Session(of_snapshot(case, task)), Value::Nice(0)).from(was)
}
