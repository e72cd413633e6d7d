-- groups that wait because their CPU limit is used up, on how many hosts
with machines as (
    select s.victim_role, s.host, s.machine_id, count(s.machine_id) over (partition by s.victim_role, s.host) as ids, sum(wide(s.ns)) as ns
    from starved_hourly s where s.rule = 'throttled' group by s.victim_role, s.host, s.machine_id)
select victim_role as cgroup, hosts, ns, ns / 1e9 as seconds
from (
    select m.victim_role, count(case when m.machine_id is not null or m.ids = 0 then 1 end) as hosts, sum(m.ns) as ns
    from machines m group by m.victim_role) sums
order by ns desc, cgroup
