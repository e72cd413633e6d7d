-- who is preferred to others, by which rule, on how many hosts
select occupant, rule, hosts, ns, ns / 1e9 as seconds
from (
    select b.occupant, b.rule, count(distinct b.host) as hosts, sum(wide(b.ns)) as ns
    from blame_hourly b where b.rule in ('class', 'weight', 'wakeup-preemption') group by b.occupant, b.rule) sums
order by ns desc, occupant, rule
