-- by machine and day: for how long its kernel threads waited while others were preferred; did a roll-out help
select host, machine_id, day, ns, ns / 1e9 as seconds
from (
    select s.host, s.machine_id, date_trunc('day', s.ts) as day, sum(wide(s.ns)) as ns
    from starved_hourly s where s.is_kernel_thread group by s.host, s.machine_id, date_trunc('day', s.ts)) sums
order by host, machine_id nulls last, day
