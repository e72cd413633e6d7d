//! Names of kernel threads. A program can take any of them (prctl(2), `PR_SET_NAME`), so a rule with such a name and without a
//! `kind` applies to kernel threads only.

use std::sync::LazyLock;
use unstarve_model::Glob;

/// How a name pattern relates to kernel threads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Names {
    /// It matches only names of kernel threads.
    Kernel,
    /// It matches names of kernel threads, such as this one, and others.
    Both(&'static str),
    /// It matches no known name of a kernel thread.
    Programs,
}

/// Patterns, and where the kernel sets such names. `*` only at the end: see [`judge`]. Before 6.8 a rescuer has the name of its
/// workqueue (`dio/nvme0n1`); the list has those that no program is likely to have.
const NAMES: [(&str, &str); 58] = [
    ("kworker*", "kernel/workqueue.c, create_worker()"),
    ("ksoftirqd*", "kernel/softirq.c"),
    ("ktimers/*", "kernel/softirq.c (PREEMPT_RT)"),
    ("ktimersoftd/*", "kernel/softirq.c (PREEMPT_RT before 5.0)"),
    ("migration/*", "kernel/stop_machine.c"),
    ("cpuhp/*", "kernel/cpu.c"),
    ("idle_inject/*", "drivers/powercap/idle_inject.c"),
    ("watchdog/*", "kernel/watchdog.c (before 4.19)"),
    ("watchdogd", "drivers/watchdog/watchdog_dev.c"),
    ("kthreadd", "kernel/kthread.c"),
    ("pool_workqueue_*", "kernel/workqueue.c, pool_workqueue_release"),
    ("irq/*", "kernel/irq/manage.c, setup_irq_thread()"),
    ("irq_work/*", "kernel/irq_work.c (PREEMPT_RT)"),
    ("napi/*", "net/core/dev.c, napi_kthread_create()"),
    ("backlog_napi/*", "net/core/dev.c (6.10)"),
    ("rcu_*", "kernel/rcu/tree.c, tasks.h (rcu_sched, rcu_preempt, rcu_tasks_kthre)"),
    ("rcuc/*", "kernel/rcu/tree.c"),
    ("rcub/*", "kernel/rcu/tree_plugin.h"),
    ("rcuog/*", "kernel/rcu/tree_nocb.h"),
    ("rcuop/*", "kernel/rcu/tree_nocb.h"),
    ("rcuos/*", "kernel/rcu/tree_nocb.h"),
    ("rcuob/*", "kernel/rcu/tree_plugin.h"),
    ("kswapd*", "mm/vmscan.c"),
    ("kcompactd*", "mm/compaction.c"),
    ("khugepaged", "mm/khugepaged.c"),
    ("ksmd", "mm/ksm.c"),
    ("kmemleak", "mm/kmemleak.c"),
    ("oom_reaper", "mm/oom_kill.c"),
    ("kdamond*", "mm/damon/core.c"),
    ("kdevtmpfs", "drivers/base/devtmpfs.c"),
    ("kauditd", "kernel/audit.c"),
    ("khungtaskd", "kernel/hung_task.c"),
    ("khubd", "drivers/usb/core/hub.c (before 3.19)"),
    ("kcryptd*", "drivers/md/dm-crypt.c"),
    ("dmcrypt_write*", "drivers/md/dm-crypt.c"),
    ("kpsmoused", "drivers/input/mouse/psmouse-base.c"),
    ("psimon", "kernel/sched/psi.c"),
    ("sugov:*", "kernel/sched/cpufreq_schedutil.c"),
    ("pr/*", "kernel/printk/nbcon.c (6.12)"),
    ("nfsd", "fs/nfsd/nfssvc.c"),
    ("lockd", "fs/lockd/svc.c"),
    ("nfsv4.*-svc", "fs/nfs/callback.c"),
    ("jbd2/*", "fs/jbd2/journal.c"),
    ("xfsaild/*", "fs/xfs/xfs_trans_ail.c"),
    ("xfs-*/*", "fs/xfs/xfs_super.c, rescuers"),
    ("dio/*", "fs/super.c, sb_init_dio_done_wq(), rescuer"),
    ("btrfs-*", "fs/btrfs/disk-io.c"),
    ("f2fs_ckpt-*", "fs/f2fs/checkpoint.c"),
    ("f2fs_gc-*", "fs/f2fs/gc.c"),
    ("erofs_worker/*", "fs/erofs/zdata.c"),
    ("ext4lazyinit", "fs/ext4/super.c"),
    ("txg_sync", "OpenZFS, module/zfs/txg.c"),
    ("zvol*", "OpenZFS, module/os/linux/zfs/zvol_os.c"),
    ("scsi_eh_*", "drivers/scsi/hosts.c"),
    ("md*_raid*", "drivers/md/raid*.c"),
    ("usb-storage", "drivers/usb/storage/usb.c"),
    ("vhost-*", "drivers/vhost/vhost.c (kernel threads up to 6.3)"),
    ("kvm-nx-lpage-re*", "arch/x86/kvm/mmu/mmu.c (a kernel thread up to 6.13)"),
];

/// Names that are kernel threads on some kernels only: since 6.4 those of vhost are threads of the program (`PF_USER_WORKER`).
const SOMETIMES: [&str; 2] = ["vhost-*", "kvm-nx-lpage-re*"];

/// Whether a name pattern can only mean kernel threads.
pub(super) fn judge(comm: &Glob) -> Names {
    static PATTERNS: LazyLock<Vec<Glob>> = LazyLock::new(|| NAMES.iter().map(|(text, _)| Glob::new(text)).collect());
    let (prefix, literal) = (comm.beginning(), comm.literal());
    let mut both = None;
    for ((text, _), pattern) in NAMES.into_iter().zip(PATTERNS.iter()) {
        let within = match &literal {
            Some(name) => pattern.matches(name),
            // The pattern starts like the kernel's names, whatever follows.
            None => text.strip_suffix('*').is_some_and(|head| !head.contains('*') && prefix.starts_with(head)),
        };
        if within {
            return if SOMETIMES.contains(&text) { Names::Both(text) } else { Names::Kernel };
        }
        if both.is_none() && literal.is_none() && comm.matches(&example(text)) {
            both = Some(text);
        }
    }
    both.map_or(Names::Programs, Names::Both)
}

/// A name that matches a pattern: `ksoftirqd/0`, `rcu_0`.
fn example(pattern: &str) -> String {
    let tail = match pattern.split('*').next().and_then(|head| head.chars().last()) {
        Some('/' | '_' | '-' | ':' | '.') => "0",
        _ => "/0",
    };
    pattern.replace('*', tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_kernel_threads_if_it_can_match_no_other_name() {
        for (comm, expected) in [
            ("ksoftirqd/*", Names::Kernel),
            ("ksoftirqd/3", Names::Kernel),
            ("ksoftirqd/?", Names::Kernel),
            ("kworker/u*", Names::Kernel),
            ("nfsd", Names::Kernel),
            ("rcu_preempt", Names::Kernel),
            ("irq/24-nvme*", Names::Kernel),
            ("md0_raid1", Names::Kernel),
            ("nfs?", Names::Both("nfsd")),
            ("ks*", Names::Both("ksoftirqd*")),
            ("*/0", Names::Both("kworker*")),
            ("migration*", Names::Both("migration/*")),
            ("*", Names::Both("kworker*")),
            ("vhost-77", Names::Both("vhost-*")),
            ("*bash*", Names::Programs),
            ("nfsd-helper", Names::Programs),
            ("ganesha.nfsd", Names::Programs),
            ("postgres", Names::Programs),
            ("post*", Names::Programs),
            ("mdadm", Names::Programs),
        ] {
            assert_eq!(judge(&Glob::new(comm)), expected, "{comm}");
        }
    }
}
