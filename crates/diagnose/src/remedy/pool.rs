//! Remedies for wake storms: fewer threads, a gate, or more weight for a bystander.

use unstarve_change::Value;
use unstarve_model::counted;
use unstarve_sched::KernelThread;
use unstarve_timeline::ActorId;

use super::threads::{for_all, nice_before};
use super::{Draft, advice, kind, rewrite};
use crate::case::Case;
use crate::report::Remedy;

/// Raises a bystander so that it gets the CPU sooner.
pub(super) fn raise_bystander(case: &Case<'_>, bystander: ActorId) -> Option<Remedy> {
    let nice = case.actor(bystander).prio()?.nice()?;
    let raised = -10;
    if nice <= raised || case.actor(bystander).group_weight().is_some() {
        return None;
    }
    Some(
        Draft {
            id: kind::RAISE_BYSTANDER,
            text: format!(
                "Let {} go before the crowd: nice {raised} weighs as much as nine of its threads.",
                case.name(bystander)
            ),
            changes: for_all(case, &[bystander], &Value::Nice(raised), |id, tid| nice_before(case, id, tid))?,
            risk: "Low while the task runs little. The wakeups stay as many.",
            valid_on: "all kernels, if both are in the same cgroup".into(),
        }
        .done(),
    )
}

/// Reduces the pool to a size that the CPUs can serve.
pub(super) fn fewer_threads(case: &Case<'_>, crowd: ActorId) -> Option<Remedy> {
    let members = case.actor(crowd).members;
    // As many as can run, as many that wait for disks, and the sum of both as reserve.
    let enough = (case.world.cpus * 4).max(8);
    if members <= enough {
        return None;
    }
    let is_nfsd = case.actor(crowd).kernel_thread == Some(KernelThread::Nfsd)
        && case.snapshot.and_then(|snapshot| snapshot.is_kernel_thread(case.first_tid(crowd)?)) != Some(false);
    let name = case.name(crowd);
    let text = format!(
        "Run {enough} threads instead of {members} on {}: more can only wait. More are right where they mostly wait \
         for disks.",
        counted(case.world.cpus.into(), "CPU")
    );
    // The trace may not have seen all threads, so the old number is read when it is changed.
    let (changes, valid_on) = if is_nfsd {
        let changes = rewrite("/proc/fs/nfsd/threads", enough, None);
        (changes, "the kernel's NFS server; rpc.nfsd keeps its own number in nfs.conf".to_owned())
    } else {
        (advice(), format!("whatever configures {name}"))
    };
    Some(
        Draft {
            id: kind::FEWER_THREADS,
            text,
            changes,
            risk: "Calls that wait for slow disks may find no free thread.",
            valid_on,
        }
        .done(),
    )
}

/// Fixes the cause, for those who can change the program.
pub(super) fn gate(case: &Case<'_>, crowd: ActorId) -> Option<Remedy> {
    case.actor(crowd).comm()?;
    Some(
        Draft {
            id: kind::GATE_WAKEUPS,
            text: "In the dispatcher, count threads that are woken and not yet running, and wake no more while there are a \
                   few: a thread that is done takes the next call itself."
                .into(),
            changes: advice(),
            risk: "A change of the program; the limit should be above the number of CPUs.",
            valid_on: "programs whose source you have".into(),
        }
        .done(),
    )
}

/// Fewer runnable tasks, if the crowd is not a single pool.
pub(super) fn fewer_tasks(case: &Case<'_>) -> Remedy {
    Draft {
        id: kind::FEWER_THREADS,
        text: format!(
            "Start fewer jobs at once: {} can run at a time here, and each further one makes all others wait for a turn more.",
            case.world.cpus
        ),
        changes: advice(),
        risk: "Jobs that are not started yet wait longer.",
        valid_on: "whatever starts them".into(),
    }
    .done()
}
