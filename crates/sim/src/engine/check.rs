//! Whether a program can be played.

use unstarve_model::{Nanos, SchedPolicy};

use super::EngineError;
use crate::{ActorId, Class, Op, Program};

/// The longest program, and the longest time in it.
const A_DAY: Nanos = Nanos(24 * 3600 * 1_000_000_000);

pub(super) fn check(program: &Program) -> Result<(), EngineError> {
    if program.cpus.is_empty() {
        return Err(EngineError::NoCpu);
    }
    if program.length > A_DAY {
        return Err(EngineError::TooLong { length: program.length });
    }
    for (index, cgroup) in program.cgroups.iter().enumerate() {
        if let Some(parent) = cgroup.parent.filter(|parent| *parent >= index) {
            let place = format!("cgroup {index} ({})", cgroup.path);
            return Err(EngineError::Dangling { place, what: format!("a cgroup {parent} above it") });
        }
    }
    program.actors().try_for_each(|(id, actor)| {
        if let Some(cgroup) = actor.placement.cgroup.filter(|cgroup| *cgroup >= program.cgroups.len()) {
            return Err(EngineError::Dangling { place: place(id), what: format!("a cgroup {cgroup}") });
        }
        check_policy(id, actor.placement.class)?;
        actor.ops.iter().try_for_each(|op| check_op(program, id, *op))
    })
}

fn place(id: ActorId) -> String {
    format!("actor {}", id.0)
}

fn check_policy(actor: ActorId, class: Class) -> Result<(), EngineError> {
    let (policy, is_known) = match class {
        Class::Fair { policy, .. } => {
            // A recording that names no policy is of a fair thread like most.
            let known = [SchedPolicy::Other, SchedPolicy::Batch, SchedPolicy::Idle, SchedPolicy::Unknown];
            (policy, known.contains(&policy))
        }
        Class::Realtime { policy, priority } => {
            (policy, matches!(policy, SchedPolicy::Fifo | SchedPolicy::Rr) && (1..100).contains(&priority))
        }
        Class::Deadline(parameters) => (
            SchedPolicy::Deadline,
            Nanos::ZERO < parameters.runtime
                && parameters.runtime <= parameters.deadline
                && parameters.deadline <= parameters.period
                && parameters.period <= A_DAY,
        ),
    };
    if is_known { Ok(()) } else { Err(EngineError::ImpossibleClass { actor, policy: policy.name() }) }
}

fn check_op(program: &Program, id: ActorId, op: Op) -> Result<(), EngineError> {
    match op {
        Op::Wake(target) | Op::WakeAfter(target, _) if target.index() >= program.actors.len() => {
            Err(EngineError::Dangling { place: place(id), what: format!("an actor {}", target.0) })
        }
        _ => Ok(()),
    }
}
