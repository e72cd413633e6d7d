//! What a load's process gives itself before its program begins.

use std::io;

use unstarve_change::Value;
use unstarve_executor::sched;
use unstarve_host::SchedAttr;
use unstarve_model::{SchedPolicy, Tid};

use crate::scenario::Placement;

/// The calling thread, as the system calls name it.
const CALLING_THREAD: Tid = Tid(0);

/// Gives the calling thread what it has; nothing is allocated.
pub(super) fn take(placement: &Placement) -> io::Result<()> {
    placement.0.iter().try_for_each(|value| match value {
        Value::Affinity(cpus) => sched::set_affinity(CALLING_THREAD, cpus),
        &Value::Nice(nice) => sched::set_nice(CALLING_THREAD, nice),
        value => attributes(value).map_or(Ok(()), |attributes| sched::set(CALLING_THREAD, attributes)),
    })
}

/// As everybody else.
pub(super) fn be_ordinary() -> io::Result<()> {
    sched::set(CALLING_THREAD, SchedAttr::default())
}

fn attributes(value: &Value) -> Option<SchedAttr> {
    match *value {
        Value::Class { policy, rt_priority, .. } => {
            Some(SchedAttr { policy: policy.number()?, priority: rt_priority, ..SchedAttr::default() })
        }
        Value::Deadline { runtime, deadline, period } => Some(SchedAttr {
            policy: SchedPolicy::Deadline.number()?,
            // Else the kernel lets it start nothing.
            flags: SchedAttr::RESET_ON_FORK,
            runtime,
            deadline,
            period,
            ..SchedAttr::default()
        }),
        _ => None,
    }
}
