-- who is preferred to others, by which rule, on how many hosts
with machines as (
    select s.occupant, s.rule, s.host, s.machine_id, count(s.machine_id) over (partition by s.occupant, s.rule, s.host) as ids, sum(wide(s.ns)) as ns
    from blame_hourly s where s.rule in ('class', 'weight', 'wakeup-preemption') group by s.occupant, s.rule, s.host, s.machine_id)
select occupant, rule, hosts, ns, ns / 1e9 as seconds
from (
    select m.occupant, m.rule, count(case when m.machine_id is not null or m.ids = 0 then 1 end) as hosts, sum(m.ns) as ns
    from machines m group by m.occupant, m.rule) sums
order by ns desc, occupant, rule
