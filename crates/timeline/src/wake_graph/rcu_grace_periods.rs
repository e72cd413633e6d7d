//! Who sleeps until a grace period of RCU is over.
//!
//! `synchronize_rcu()` puts the caller to sleep, uninterruptibly, until a callback of RCU wakes it
//! (`wait_rcu_gp` in `kernel/rcu/update.c`). The callback comes out of the RCU softirq, or out of a thread of RCU
//! (`rcuc/N`, `rcuop/N`), and so the wakeup names nobody who waited. But each step of a grace period is done by one
//! thread, `rcu_preempt` or `rcu_sched` (`rcu_gp_kthread` in `kernel/rcu/tree.c`): while that one waits for a CPU, no
//! grace period begins or ends.

use unstarve_model::{Comm, Time};
use unstarve_sched::KernelThread;

use crate::cpus::Current;
use crate::timeline::Timeline;
use crate::wake_graph::wake_chain::{Basis, latest_first};
use crate::{TaskKey, Waker};

/// The softirq that invokes the callbacks of RCU: `RCU_SOFTIRQ` in `include/linux/interrupt.h`, from 4.x to 7.2.
const RCU_SOFTIRQ: u32 = 9;

/// Whether the thread of this name takes grace periods from step to step.
#[inline(always)]
pub(crate) fn drives_grace_periods(thread: Option<KernelThread>, comm: &Comm) -> bool {
    matches!(thread, Some(KernelThread::Rcu)) && matches!(comm.as_bytes(), b"rcu_preempt" | b"rcu_sched" | b"rcu_bh")
}

impl Timeline {
    /// Adds to the debts that led to a wakeup those of the thread that drives grace periods, if the wakee slept for one.
    #[inline]
    pub(crate) fn add_grace_period(&mut self, index: usize, waker: Waker, wakee: TaskKey, since: (Time, Basis)) {
        if !self.grace_periods.is_settled(since.0) && self.is_callback(index, waker) {
            self.add_open_grace_period(wakee, since);
        }
    }

    #[inline(never)]
    fn add_open_grace_period(&mut self, wakee: TaskKey, (sleep_start, basis): (Time, Basis)) {
        let task = self.world.tasks.get(wakee);
        // The thread that drives them is itself woken by that softirq, and so are idle workers; neither sleeps like this.
        if task.sleeps_uninterruptibly && task.kernel_thread != Some(KernelThread::Rcu) {
            self.grace_periods.open_since(sleep_start, basis, &mut self.open_debts);
            latest_first(&mut self.open_debts);
        }
    }

    /// Whether a wakeup on this CPU comes out of a callback of RCU.
    fn is_callback(&self, index: usize, waker: Waker) -> bool {
        let cpu = &self.cpus[index];
        let in_softirq = cpu.hardirqs.is_empty() && cpu.softirq.is_some_and(|softirq| softirq.number == RCU_SOFTIRQ);
        match (waker, cpu.current) {
            (Waker::Interrupt(_), _) => in_softirq,
            (Waker::Task(_), Current::Task(key)) => {
                let task = self.world.tasks.get(key);
                in_softirq && cpu.serves_softirqs
                    || task.kernel_thread == Some(KernelThread::Rcu)
                        && !drives_grace_periods(task.kernel_thread, &task.comm)
            }
            _ => false,
        }
    }
}
