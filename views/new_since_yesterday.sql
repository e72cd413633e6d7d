-- who has starved whom in the last 24 hours of the data, and never before in it
with data as (select min(b.ts) as first, max(b.ts) as last from blame_rollup b where b.ts < now() + interval '1' hour),
sums as (
    select s.host, s.victim_role, s.occupant, s.rule, min(s.ts) as first, sum(wide(s.ns)) as ns
    from starved_hourly s group by s.host, s.victim_role, s.occupant, s.rule)
select sums.host as host, sums.victim_role as victim_role, sums.occupant as occupant, sums.rule as rule, sums.first as first, sums.ns as ns,
    sums.ns / 1e9 as seconds
from sums cross join data
where sums.first > data.last - interval '24' hour and data.first <= data.last - interval '24' hour
order by ns desc, host, victim_role, occupant, rule
