-- who waits while others are preferred, by which rule, on how many hosts
select victim_role, rule, hosts, ns, ns / 1e9 as seconds
from (
    select s.victim_role, s.rule, count(distinct s.host) as hosts, sum(wide(s.ns)) as ns
    from starved_hourly s group by s.victim_role, s.rule) sums
order by ns desc, victim_role, rule
