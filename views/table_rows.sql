-- how many rows each table has, of how many hosts, and from when to when: a view over a table without rows is empty, which does not mean that nothing waits
select 'blame_rollup' as table_name, count(*) as row_count, count(distinct host) as hosts, min(ts) as first, max(ts) as last from blame_rollup
union all
select 'wait_rollup', count(*), count(distinct host), min(ts), max(ts) from wait_rollup
union all
select 'hosts', count(*), count(distinct host), min(ts), max(ts) from hosts
union all
select 'settings', count(*), count(distinct host), min(ts), max(ts) from settings
union all
select 'episodes', count(*), count(distinct host), min(ts), max(ts) from episodes
union all
select 'proofs', count(*), null, null, null from proofs
