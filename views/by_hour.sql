-- by hour: for how long kernel threads of the whole fleet waited while others were preferred, and on how many hosts
select begin as hour, hosts, ns, ns / 1e9 as seconds
from (
    select date_trunc('hour', s.ts) as begin, count(distinct s.host) as hosts, sum(wide(s.ns)) as ns
    from starved_hourly s where s.is_kernel_thread group by date_trunc('hour', s.ts)) sums
order by hour
