-- why tasks wait: each rule's part of all waiting, and on how many hosts; the turns among equals and idle CPUs included
with machines as (
    select s.rule, s.host, s.machine_id, count(s.machine_id) over (partition by s.rule, s.host) as ids, sum(wide(s.ns)) as ns
    from blame_hourly s group by s.rule, s.host, s.machine_id)
select rule, hosts, ns, share(ns, sum(ns) over ()) as share
from (
    select m.rule, count(case when m.machine_id is not null or m.ids = 0 then 1 end) as hosts, sum(m.ns) as ns
    from machines m group by m.rule) sums
order by ns desc, rule
