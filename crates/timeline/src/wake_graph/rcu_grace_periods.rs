//! Tasks that sleep until an RCU grace period ends, and the thread that they wait for.
//!
//! `synchronize_rcu()` puts the caller into an uninterruptible sleep until an RCU callback wakes it (`wait_rcu_gp` in
//! `kernel/rcu/update.c`). The callback runs in the RCU softirq or in an RCU thread (`rcuc/N`, `rcuop/N`), so the wakeup does
//! not show whose waits delayed it. But one thread, `rcu_preempt` or `rcu_sched` (`rcu_gp_kthread` in `kernel/rcu/tree.c`),
//! drives every step of a grace period: while it waits for a CPU, no grace period begins or ends.

use unstarve_model::Comm;
use unstarve_sched::KernelThread;

use crate::machine::Machine;
use crate::{Task, Waker};

/// The softirq that invokes RCU callbacks: `RCU_SOFTIRQ` in `include/linux/interrupt.h`, from 4.x to 7.2.
const RCU_SOFTIRQ: u8 = 9;

/// Whether a thread with this name drives grace periods.
#[inline(always)]
pub(super) fn drives_grace_periods(thread: Option<KernelThread>, comm: &Comm) -> bool {
    matches!(thread, Some(KernelThread::Rcu)) && matches!(comm.as_bytes(), b"rcu_preempt" | b"rcu_sched" | b"rcu_bh")
}

/// Whether the task sleeps as `synchronize_rcu()` does. The thread that drives grace periods is itself woken by the RCU
/// softirq, and so are idle workers; neither sleeps in this state.
pub(super) fn may_sleep_for_grace_period(task: &Task) -> bool {
    task.sleeps_uninterruptibly && task.kernel_thread != Some(KernelThread::Rcu)
}

/// Whether a wakeup on this CPU comes from an RCU callback.
pub(super) fn is_callback(machine: &Machine, index: usize, waker: Waker) -> bool {
    let (cpu, handlers) = machine.at(index);
    let in_softirq = handlers.serves_softirq(RCU_SOFTIRQ);
    match (waker, cpu.task()) {
        (Waker::Interrupt(_), _) => in_softirq,
        (Waker::Task(_), Some(key)) => {
            let task = machine.world.tasks.get(key);
            in_softirq && cpu.serves_softirqs()
                || task.kernel_thread == Some(KernelThread::Rcu)
                    && !drives_grace_periods(task.kernel_thread, &task.comm)
        }
        _ => false,
    }
}
