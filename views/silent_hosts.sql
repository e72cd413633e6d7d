-- machines whose last rows of rollups are more than an hour older than the newest row of all, or that are in `hosts` and have none (`last` is empty); of rows from the future nothing is held
with moments as (
    select host, machine_id, ts, ts as rollup_ts from wait_rollup
    union all
    select host, machine_id, ts, ts from blame_rollup
    union all
    select host, machine_id, ts, null from hosts where host is not null),
lasts as (
    select m.host, m.machine_id, max(m.rollup_ts) as last_ts, max(m.ts) as newest_ts from moments m where m.ts < now() + interval '1' hour
    group by m.host, m.machine_id),
-- Rows that an early version wrote have no machine's id: they are of the only machine with their name, if there is only one.
named as (
    select *, min(machine_id) over (partition by host) as one_id, max(machine_id) over (partition by host) as other_id from lasts),
machines as (
    select n.host as host, coalesce(n.machine_id, case when n.one_id = n.other_id then n.one_id end) as id, max(n.last_ts) as last_ts,
        max(n.newest_ts) as newest_ts
    from named n group by n.host, coalesce(n.machine_id, case when n.one_id = n.other_id then n.one_id end)),
compared as (
    select host, id, last_ts, max(newest_ts) over () as newest_ts from machines)
select host, id as machine_id, last_ts as last from compared where last_ts is null or last_ts < newest_ts - interval '1' hour
order by last nulls first, host, machine_id nulls last
