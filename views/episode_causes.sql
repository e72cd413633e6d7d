-- what episodes are about: finding, culprit and rule, how many and on how many hosts
select e.finding, e.culprit_role, e.rule, count(*) as episodes, count(distinct e.host) as hosts, sum(wide(e.ns)) as ns
from episodes e group by e.finding, e.culprit_role, e.rule
order by episodes desc, finding nulls last, culprit_role nulls last, rule nulls last
