-- by hour: for how long kernel threads of the whole fleet waited while others were preferred, and on how many hosts
with machines as (
    select date_trunc('hour', s.ts) as begin, s.host, s.machine_id, sum(wide(s.ns)) as ns
    from starved_hourly s where s.is_kernel_thread group by date_trunc('hour', s.ts), s.host, s.machine_id),
marked as (select *, count(machine_id) over (partition by begin, host) as ids from machines)
select begin as hour, hosts, ns, ns / 1e9 as seconds
from (
    select m.begin, count(case when m.machine_id is not null or m.ids = 0 then 1 end) as hosts, sum(m.ns) as ns
    from marked m group by m.begin) sums
order by hour
