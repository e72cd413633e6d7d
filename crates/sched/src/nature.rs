//! Classifies threads by name.

use unstarve_model::Comm;

/// A kernel thread's kind, by its name. Names are the kernel's (`kernel/workqueue.c`, `kernel/softirq.c`, …). A user task can
/// take the same name, so this is a claim and no proof, unless a snapshot confirms it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum KernelThread {
    /// `kworker/C:N` or `kworker/C:NH`: a worker of CPU C's pools; `H` is the high-priority pool (nice −20).
    BoundWorker {
        /// The CPU whose pool it serves.
        cpu: u32,
        /// Whether the pool is the high-priority one.
        high: bool,
    },
    /// `kworker/uP:N`: a worker of unbound pool P.
    UnboundWorker,
    /// `kworker/R-…` (6.9 and later).
    Rescuer,
    /// `ksoftirqd/C`.
    Ksoftirqd {
        /// The CPU whose softirqs it serves.
        cpu: u32,
    },
    /// `migration/C`, the stop class.
    Migration,
    /// `rcu_sched`, `rcu_preempt`, `rcuog/…`, `rcuop/…`, `rcub/…`, `rcuc/…`, `rcu_exp…`.
    Rcu,
    /// `nfsd`.
    Nfsd,
    /// `irq/N-name`, a threaded interrupt handler.
    IrqThread,
    /// `ktimers/C`.
    Ktimers,
    /// `jbd2/…`, `xfsaild/…`, `kswapd…` and other kernel threads that I/O waits for.
    Storage,
}

impl KernelThread {
    /// The kind for a name; `None` if it is not such a kernel thread's.
    pub fn of(comm: &Comm) -> Option<KernelThread> {
        let name = std::str::from_utf8(comm.as_bytes()).ok()?;
        let (head, tail) = name.split_once('/').unwrap_or((name, ""));
        Some(match head {
            "kworker" => worker(tail)?,
            "ksoftirqd" => KernelThread::Ksoftirqd { cpu: tail.parse().ok()? },
            "migration" | "stopper" => KernelThread::Migration,
            "rcu_sched" | "rcu_preempt" | "rcu_bh" | "rcuog" | "rcuos" | "rcuop" | "rcuob" | "rcub" | "rcuc"
            | "rcu_exp_gp_kthr" | "rcu_exp_par_gp_" => KernelThread::Rcu,
            "nfsd" if tail.is_empty() => KernelThread::Nfsd,
            "irq" => KernelThread::IrqThread,
            "ktimers" => KernelThread::Ktimers,
            "jbd2" | "xfsaild" => KernelThread::Storage,
            _ if head.starts_with("kswapd") && head[6..].bytes().all(|b| b.is_ascii_digit()) => KernelThread::Storage,
            _ => return None,
        })
    }

    /// Whether kernel threads have this name, including those without a variant: they maintain memory, devices and the kernel
    /// itself.
    pub fn is_name_of_one(comm: &Comm) -> bool {
        KernelThread::of(comm).is_some() || HOUSEKEEPING.iter().any(|name| comm.as_bytes().starts_with(name.as_bytes()))
    }

    /// Whether it is a worker of a workqueue pool.
    pub fn is_worker(self) -> bool {
        matches!(self, KernelThread::BoundWorker { .. } | KernelThread::UnboundWorker | KernelThread::Rescuer)
    }

    /// Whether softirqs in its context are its own work. That is so for ksoftirqd, and with PREEMPT_RT and `threadirqs` for the
    /// threads that serve timers and interrupts (`__local_bh_enable_ip` in kernel/softirq.c, `irq_forced_thread_fn` in
    /// kernel/irq/manage.c).
    pub fn serves_softirqs(self) -> bool {
        matches!(self, KernelThread::Ksoftirqd { .. } | KernelThread::Ktimers | KernelThread::IrqThread)
    }

    /// Whether only interrupts wake it, at their end, when the event's flags show the interrupted task and no interrupt
    /// (`irq_wake_thread` in kernel/irq/handle.c; `wake_timersd` from `irq_exit` in kernel/softirq.c).
    pub fn is_woken_by_interrupts(self) -> bool {
        matches!(self, KernelThread::Ktimers | KernelThread::IrqThread)
    }

    /// The only CPU that it can run on, if it is bound to one.
    pub fn bound_cpu(self) -> Option<u32> {
        match self {
            KernelThread::BoundWorker { cpu, .. } | KernelThread::Ksoftirqd { cpu } => Some(cpu),
            _ => None,
        }
    }
}

/// Name prefixes of kernel threads without a variant.
const HOUSEKEEPING: [&str; 22] = [
    "kcompactd",
    "khugepaged",
    "ksmd",
    "kdamond",
    "kauditd",
    "khungtaskd",
    "kdevtmpfs",
    "kthreadd",
    "kthrotld",
    "kswapd",
    "ksgxd",
    "oom_reaper",
    "watchdogd",
    "psimon",
    "cpuhp/",
    "idle_inject/",
    "scsi_eh_",
    "rcu_tasks_",
    "rcu_exp_",
    "ext4lazyinit",
    "dmcrypt_write/",
    "pr/",
];

fn worker(tail: &str) -> Option<KernelThread> {
    if tail.starts_with("R-") {
        return Some(KernelThread::Rescuer);
    }
    let (pool, id) = tail.split_once(':')?;
    if pool.strip_prefix('u').is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit())) {
        return Some(KernelThread::UnboundWorker);
    }
    // /proc and `perf script` append the worker's item: `kworker/0:2H-kblockd`, cut to 15 bytes.
    let id = id.split(['-', '+']).next()?;
    Some(KernelThread::BoundWorker { cpu: pool.parse().ok()?, high: id.ends_with('H') })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_threads_are_told_by_their_names() {
        let kind = |name: &str| KernelThread::of(&Comm::from(name));
        assert_eq!(kind("kworker/11:68-d"), Some(KernelThread::BoundWorker { cpu: 11, high: false }));
        assert_eq!(kind("kworker/0:1H"), Some(KernelThread::BoundWorker { cpu: 0, high: true }));
        assert_eq!(kind("kworker/u8:3"), Some(KernelThread::UnboundWorker));
        assert_eq!(kind("kworker/R-dio"), Some(KernelThread::Rescuer));
        assert_eq!(kind("ksoftirqd/1"), Some(KernelThread::Ksoftirqd { cpu: 1 }));
        assert_eq!(kind("rcu_preempt"), Some(KernelThread::Rcu));
        assert_eq!(kind("kswapd0"), Some(KernelThread::Storage));
        assert_eq!(kind("fio"), None);
        assert_eq!(kind("kworker/x"), None);
    }
}
