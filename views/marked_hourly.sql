-- `blame_hourly`, and whether others were preferred (`is_starved`: a turn among equals, an idle CPU and interrupts are no starvation), and whether kernel threads waited
select *,
    rule in ('class', 'weight', 'wakeup-preemption', 'throttled') as is_starved,
    victim_kind in ('ksoftirqd', 'direct-io', 'kworker', 'rcu', 'storage', 'nfsd', 'kernel') as is_kernel_thread
from blame_hourly
