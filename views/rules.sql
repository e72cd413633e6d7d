-- why tasks wait: each rule's part of all waiting, and on how many hosts; the turns among equals and idle CPUs included
select rule, hosts, ns, share(ns, sum(ns) over ()) as share
from (select b.rule, count(distinct b.host) as hosts, sum(wide(b.ns)) as ns from blame_hourly b group by b.rule) sums
order by ns desc, rule
