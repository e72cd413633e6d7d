//! Applies a load's policy, nice and affinity to its process before the program starts.

use std::io;

use unstarve_change::Value;
use unstarve_executor::sched;
use unstarve_host::SchedAttr;
use unstarve_model::{SchedPolicy, Tid};

use crate::scenario::Placement;

/// The calling thread, as the system calls name it.
const CALLING_THREAD: Tid = Tid(0);

/// Applies a placement to the calling thread without allocating.
pub(super) fn take(placement: &Placement) -> io::Result<()> {
    placement.0.iter().try_for_each(|value| match value {
        Value::Affinity(cpus) => sched::set_affinity(CALLING_THREAD, cpus),
        &Value::Nice(nice) => sched::set_nice(CALLING_THREAD, nice),
        value => attributes(value).map_or(Ok(()), |attributes| sched::set(CALLING_THREAD, attributes)),
    })
}

/// Returns to SCHED_OTHER.
pub(super) fn become_ordinary() -> io::Result<()> {
    sched::set(CALLING_THREAD, SchedAttr::default())
}

fn attributes(value: &Value) -> Option<SchedAttr> {
    match *value {
        Value::Class { policy, rt_priority, .. } => {
            Some(SchedAttr { policy: policy.number()?, priority: rt_priority, ..SchedAttr::default() })
        }
        Value::Deadline { runtime, deadline, period } => Some(SchedAttr {
            policy: SchedPolicy::Deadline.number()?,
            // A deadline task can fork only with this flag.
            flags: SchedAttr::RESET_ON_FORK,
            runtime,
            deadline,
            period,
            ..SchedAttr::default()
        }),
        _ => None,
    }
}
