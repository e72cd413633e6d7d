-- groups that wait because their CPU limit is used up, on how many hosts
select victim_role as cgroup, hosts, ns, ns / 1e9 as seconds
from (
    select s.victim_role, count(distinct s.host) as hosts, sum(wide(s.ns)) as ns
    from starved_hourly s where s.rule = 'throttled' group by s.victim_role) sums
order by ns desc, cgroup
