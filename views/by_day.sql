-- by host and day: for how long its kernel threads waited while others were preferred; did a roll-out help
select host, day, ns, ns / 1e9 as seconds
from (
    select s.host, date_trunc('day', s.ts) as day, sum(wide(s.ns)) as ns
    from starved_hourly s where s.is_kernel_thread group by s.host, date_trunc('day', s.ts)) sums
order by host, day
