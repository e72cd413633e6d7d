-- who has starved whom in the last 24 hours of the data, and never before in it
with data as (select min(b.ts) as first, max(b.ts) as last from blame_rollup b where b.ts < now() + interval '1' hour),
sums as (
    select s.host, s.machine_id, s.victim_role, s.occupant, s.rule, min(s.ts) as first, sum(wide(s.ns)) as ns
    from starved_hourly s group by s.host, s.machine_id, s.victim_role, s.occupant, s.rule),
-- Rows that an early version wrote have no machine's id: what they have is not new to any machine with their name.
compared as (
    select *, min(case when machine_id is null then first end) over (partition by host, victim_role, occupant, rule) as first_of_name from sums)
select c.host as host, c.machine_id as machine_id, c.victim_role as victim_role, c.occupant as occupant, c.rule as rule, c.first as first, c.ns as ns,
    c.ns / 1e9 as seconds
from compared c cross join data
where c.first > data.last - interval '24' hour and data.first <= data.last - interval '24' hour
    and (c.first_of_name is null or c.first_of_name > data.last - interval '24' hour)
order by ns desc, host, machine_id nulls last, victim_role, occupant, rule
