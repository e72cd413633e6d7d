//! Remedies for the limits on real-time and deadline tasks.

use unstarve_change::{Change, Relative, Target};
use unstarve_model::Policy;
use unstarve_timeline::ActorId;

use super::threads::{Members, members};
use super::{Draft, RT_RUNTIME, advice, kind, rewrite};
use crate::case::Case;
use crate::report::Remedy;

/// What limits real-time tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ClassLimit {
    /// `sched_rt_runtime_us`.
    Throttling,
    /// The fair server, from 6.12 on.
    FairServer,
}

/// Fixes the cause, for those who can change the program.
pub(super) fn leave_room(case: &Case<'_>, victim: ActorId) -> Remedy {
    Draft {
        id: kind::LEAVE_ROOM,
        text: format!(
            "Let {} sleep now and then, or do the part of its work that has no deadline in an ordinary thread: the kernel \
             stops only those that leave nothing to others.",
            case.name(victim)
        ),
        changes: advice(),
        risk: "A change of the program.",
        valid_on: "programs whose source you have".into(),
    }
    .done()
}

/// Removes the limit.
pub(super) fn lift(case: &Case<'_>, victim: ActorId, kind: ClassLimit) -> Option<Remedy> {
    const RISK: &str = "A real-time task that never sleeps then stops everything else on its CPU for good, the kernel's own \
                        threads included: the machine may hang.";
    const RISK_OF_SERVER: &str = "A real-time task that never sleeps then stops everything else on its CPU for good, the \
                                  kernel's own threads included: the machine may hang. The kernel may refuse to set or \
                                  restore it while the server is at work (EBUSY): it is tried for some seconds, and the \
                                  undo can be repeated.";
    let setting = |name: &str| case.snapshot.and_then(|snapshot| snapshot.setting(name)).map(|(_, value)| value.trim());
    match kind {
        ClassLimit::Throttling => Some(
            Draft {
                id: kind::NO_RT_THROTTLING,
                text: "Lift the limit, if this task has a CPU of its own and nothing else is to run there.".into(),
                changes: rewrite(RT_RUNTIME, "-1", setting("sched_rt_runtime_us")),
                risk: RISK,
                valid_on: "kernels up to 6.11, and later ones with CONFIG_RT_GROUP_SCHED".into(),
            }
            .done(),
        ),
        ClassLimit::FairServer => {
            let cpu = case.worst_cpu(&[victim])?;
            let name = format!("fair_server/cpu{cpu}/runtime");
            Some(
                Draft {
                    id: kind::NO_FAIR_SERVER,
                    text: format!("Turn the fair server of CPU {cpu} off, if nothing else is to run there."),
                    changes: rewrite(format!("/sys/kernel/debug/sched/{name}"), "0", setting(&name)),
                    risk: RISK_OF_SERVER,
                    valid_on: "kernels from 6.12 on, debugfs writable".into(),
                }
                .done(),
            )
        }
    }
}

/// Sets the runtime of each deadline task to this percentage of the current one. No trace shows the runtime, so it is read when
/// it is changed.
fn runtime(case: &Case<'_>, tasks: &[ActorId], percent: u32) -> Option<Vec<Change>> {
    let threads = match members(case, tasks) {
        Members::All(threads) => threads,
        Members::Some => return Some(advice()),
    };
    let part = Relative::RuntimePercent(percent);
    let each = threads.into_iter().map(|(_, thread)| Change::relative(Target::Thread(thread), part));
    Some(each.collect::<Vec<_>>()).filter(|changes| !changes.is_empty())
}

/// The deadline class has no limit except each task's own runtime: neither throttling nor the fair server affects it.
pub(super) fn less_runtime(case: &Case<'_>, intruder: &[ActorId]) -> Option<Remedy> {
    let tasks: Vec<ActorId> =
        intruder.iter().copied().filter(|id| case.actor(*id).policy() == Some(Policy::Deadline)).collect();
    let first = *tasks.first()?;
    Some(
        Draft {
            id: kind::LESS_DEADLINE_RUNTIME,
            text: format!(
                "Give {} half of its runtime in each period: the rest of the period is for others. Neither real-time \
                 throttling nor the fair server holds a deadline task back.",
                case.name(first)
            ),
            changes: runtime(case, &tasks, 50)?,
            risk: "If it needs more than that, it misses its deadlines: it is stopped until the next period.",
            valid_on: "all kernels; util-linux 2.35 or later".into(),
        }
        .done(),
    )
}

/// More runtime for a deadline task that may need it.
pub(super) fn more_runtime(case: &Case<'_>, victim: ActorId) -> Option<Remedy> {
    let text = format!("If {} does not give the rest of its runtime back by itself, it needs more.", case.name(victim));
    half_as_much_again(case, victim, text)
}

/// More runtime for a deadline task that needs it.
pub(super) fn enough_runtime(case: &Case<'_>, victim: ActorId) -> Option<Remedy> {
    let text = format!(
        "Let {} ask for what a piece of its work takes: half as much again, and more if it still overruns. The lasting form is in \
         the program, where it calls sched_setattr().",
        case.name(victim)
    );
    half_as_much_again(case, victim, text)
}

fn half_as_much_again(case: &Case<'_>, victim: ActorId, text: String) -> Option<Remedy> {
    Some(
        Draft {
            id: kind::MORE_DEADLINE_RUNTIME,
            text,
            changes: runtime(case, &[victim], 150)?,
            risk: "All other classes wait for as long in each period. The kernel refuses what would overload the CPUs.",
            valid_on: "all kernels; util-linux 2.35 or later".into(),
        }
        .done(),
    )
}
