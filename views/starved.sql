-- `blame_rollup` where others were preferred (a turn among equals, an idle CPU and interrupts are no starvation), and whether kernel threads waited
select *, victim_kind in ('ksoftirqd', 'direct-io', 'kworker', 'rcu', 'storage', 'nfsd', 'kernel') as is_kernel_thread
from blame_rollup
where rule in ('class', 'weight', 'wakeup-preemption', 'throttled')
