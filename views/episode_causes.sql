-- what episodes are about: finding, culprit and rule, how many and on how many hosts
with machines as (
    select e.finding, e.culprit_role, e.rule, e.host, e.machine_id, count(*) as episodes, sum(wide(e.ns)) as ns,
        count(e.machine_id) over (partition by e.finding, e.culprit_role, e.rule, e.host) as ids
    from episodes e group by e.finding, e.culprit_role, e.rule, e.host, e.machine_id)
select m.finding as finding, m.culprit_role as culprit_role, m.rule as rule, cast(sum(m.episodes) as bigint) as episodes,
    count(case when m.host is not null and (m.machine_id is not null or m.ids = 0) then 1 end) as hosts, sum(m.ns) as ns
from machines m group by m.finding, m.culprit_role, m.rule
order by episodes desc, finding nulls last, culprit_role nulls last, rule nulls last
