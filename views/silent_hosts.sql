-- hosts whose last rows of rollups are more than an hour older than the newest row of all, or that are in `hosts` and have none (`last` is empty); of rows from the future nothing is held
with moments as (
    select host, ts, ts as rollup_ts from wait_rollup
    union all
    select host, ts, ts from blame_rollup
    union all
    select host, ts, null from hosts where host is not null),
hosts_last as (
    select m.host, max(m.rollup_ts) as last_ts, max(m.ts) as newest_ts from moments m where m.ts < now() + interval '1' hour group by m.host),
compared as (
    select host, last_ts, max(newest_ts) over () as newest_ts from hosts_last)
select host, last_ts as last from compared where last_ts is null or last_ts < newest_ts - interval '1' hour order by last nulls first, host
