-- how many rows each table has, of how many machines, and from when to when: a view over a table without rows is empty, which does not mean that nothing waits
with parts as (
    select 'blame_rollup' as table_name, host, machine_id, ts, 1 as n from blame_rollup
    union all
    select 'wait_rollup', host, machine_id, ts, 1 from wait_rollup
    union all
    select 'hosts', host, machine_id, ts, 1 from hosts
    union all
    select 'settings', host, machine_id, ts, 1 from settings
    union all
    select 'episodes', host, machine_id, ts, 1 from episodes
    union all
    select 'proofs', null, null, null, 1 from proofs
    union all
    select 'blame_rollup', null, null, null, 0
    union all
    select 'wait_rollup', null, null, null, 0
    union all
    select 'hosts', null, null, null, 0
    union all
    select 'settings', null, null, null, 0
    union all
    select 'episodes', null, null, null, 0
    union all
    select 'proofs', null, null, null, 0),
machines as (
    select p.table_name, p.host, p.machine_id, sum(p.n) as row_count, min(p.ts) as first_ts, max(p.ts) as last_ts,
        count(p.machine_id) over (partition by p.table_name, p.host) as ids
    from parts p group by p.table_name, p.host, p.machine_id)
select m.table_name as table_name, cast(sum(m.row_count) as bigint) as row_count,
    case when m.table_name <> 'proofs' then count(case when m.host is not null and (m.machine_id is not null or m.ids = 0) then 1 end) end as hosts,
    min(m.first_ts) as first, max(m.last_ts) as last
from machines m group by m.table_name
order by table_name
