-- DuckDB 1.5 or later: tables and functions for the views. Replace /srv/unstarve by the place of the store; shims.py does.
-- The files of a table are a variable, so whoever knows better which of them count sets another list.
set timezone = 'UTC';
-- The rows of a table. Of no files DuckDB makes an error.
create or replace macro rows_of(name) as table from query(case when len(getvariable(name || '_files')) > 0
    then 'from read_parquet(getvariable(''' || name || '_files''), hive_partitioning = true, union_by_name = true)'
    else 'select 1 as none where false' end);


-- Tables, made from docs/tables.md.
set variable blame_rollup_files = (select coalesce(list(file), []) from glob('/srv/unstarve/merged/v1/table=blame_rollup/**/*.parquet'));
create or replace view blame_rollup as select "host", "machine_id", "boot_id", "ts", "span_ns", "victim_role", "victim_kind", "occupant", "rule", "ns", "kernel", "labels",
    "date", "hour"
from (select null::varchar as "host", null::varchar as "machine_id", null::varchar as "boot_id", null::timestamptz as "ts",
    null::bigint as "span_ns", null::varchar as "victim_role", null::varchar as "victim_kind", null::varchar as "occupant",
    null::varchar as "rule", null::bigint as "ns", null::varchar as "kernel", null::varchar as "labels", null::date as "date",
    null::varchar as "hour" where false
    union all by name select * from rows_of('blame_rollup'));
set variable blame_hourly_files = (with hourly as (from glob('/srv/unstarve/hourly/v1/table=blame_rollup/**/*.parquet'))
    select coalesce(list(file), []) from (from hourly union all
        select file from glob('/srv/unstarve/merged/v1/table=blame_rollup/**/*.parquet') where replace(file, '/merged/v1/', '/hourly/v1/') not in (from hourly)));
create or replace view blame_hourly as select "host", "machine_id", "boot_id", "ts", "span_ns", "victim_role", "victim_kind", "occupant", "rule", "ns", "kernel", "labels",
    "date", "hour"
from (select null::varchar as "host", null::varchar as "machine_id", null::varchar as "boot_id", null::timestamptz as "ts",
    null::bigint as "span_ns", null::varchar as "victim_role", null::varchar as "victim_kind", null::varchar as "occupant",
    null::varchar as "rule", null::bigint as "ns", null::varchar as "kernel", null::varchar as "labels", null::date as "date",
    null::varchar as "hour" where false
    union all by name select * from rows_of('blame_hourly'));

set variable wait_rollup_files = (select coalesce(list(file), []) from glob('/srv/unstarve/merged/v1/table=wait_rollup/**/*.parquet'));
create or replace view wait_rollup as select "host", "machine_id", "boot_id", "ts", "span_ns", "victim_role", "victim_kind", "cgroup", "n", "sum_ns", "max_ns", "buckets",
    "kernel", "labels", "date", "hour"
from (select null::varchar as "host", null::varchar as "machine_id", null::varchar as "boot_id", null::timestamptz as "ts",
    null::bigint as "span_ns", null::varchar as "victim_role", null::varchar as "victim_kind", null::varchar as "cgroup",
    null::bigint as "n", null::bigint as "sum_ns", null::bigint as "max_ns", null::bigint[] as "buckets", null::varchar as "kernel",
    null::varchar as "labels", null::date as "date", null::varchar as "hour" where false
    union all by name select * from rows_of('wait_rollup'));
set variable wait_hourly_files = (with hourly as (from glob('/srv/unstarve/hourly/v1/table=wait_rollup/**/*.parquet'))
    select coalesce(list(file), []) from (from hourly union all
        select file from glob('/srv/unstarve/merged/v1/table=wait_rollup/**/*.parquet') where replace(file, '/merged/v1/', '/hourly/v1/') not in (from hourly)));
create or replace view wait_hourly as select "host", "machine_id", "boot_id", "ts", "span_ns", "victim_role", "victim_kind", "cgroup", "n", "sum_ns", "max_ns", "buckets",
    "kernel", "labels", "date", "hour"
from (select null::varchar as "host", null::varchar as "machine_id", null::varchar as "boot_id", null::timestamptz as "ts",
    null::bigint as "span_ns", null::varchar as "victim_role", null::varchar as "victim_kind", null::varchar as "cgroup",
    null::bigint as "n", null::bigint as "sum_ns", null::bigint as "max_ns", null::bigint[] as "buckets", null::varchar as "kernel",
    null::varchar as "labels", null::date as "date", null::varchar as "hour" where false
    union all by name select * from rows_of('wait_hourly'));

set variable hosts_files = (select coalesce(list(file), []) from glob('/srv/unstarve/merged/v1/table=hosts/**/*.parquet'));
create or replace view hosts as select "host", "machine_id", "boot_id", "ts", "kernel", "kernel_version", "machine", "cpus", "labels", "settings_digest", "unstarve",
    "date", "hour"
from (select null::varchar as "host", null::varchar as "machine_id", null::varchar as "boot_id", null::timestamptz as "ts",
    null::varchar as "kernel", null::varchar as "kernel_version", null::varchar as "machine", null::bigint as "cpus",
    null::varchar as "labels", null::varchar as "settings_digest", null::varchar as "unstarve", null::date as "date",
    null::varchar as "hour" where false
    union all by name select * from rows_of('hosts'));

set variable settings_files = (select coalesce(list(file), []) from glob('/srv/unstarve/merged/v1/table=settings/**/*.parquet'));
create or replace view settings as select "host", "machine_id", "boot_id", "ts", "path", "name", "value", "default", "kernel", "date", "hour"
from (select null::varchar as "host", null::varchar as "machine_id", null::varchar as "boot_id", null::timestamptz as "ts",
    null::varchar as "path", null::varchar as "name", null::varchar as "value", null::varchar as "default", null::varchar as "kernel",
    null::date as "date", null::varchar as "hour" where false
    union all by name select * from rows_of('settings'));

set variable episodes_files = (select coalesce(list(file), []) from glob('/srv/unstarve/merged/v1/table=episodes/**/*.parquet'));
create or replace view episodes as select "id", "host", "machine_id", "ts", "finding", "severity", "victim", "victim_role", "victim_cgroup", "culprit", "culprit_role",
    "culprit_cgroup", "rule", "ns", "victims", "remedy", "verdict", "trace_uri", "trace_bytes", "problem", "kernel", "labels",
    "ended_at", "ended_by", "duration_ns", "total_ns", "waited_ns", "continued_as", "date", "hour"
from (select null::varchar as "id", null::varchar as "host", null::varchar as "machine_id", null::timestamptz as "ts",
    null::varchar as "finding", null::varchar as "severity", null::varchar as "victim", null::varchar as "victim_role",
    null::varchar as "victim_cgroup", null::varchar as "culprit", null::varchar as "culprit_role", null::varchar as "culprit_cgroup",
    null::varchar as "rule", null::bigint as "ns", null::bigint as "victims", null::varchar as "remedy", null::varchar as "verdict",
    null::varchar as "trace_uri", null::bigint as "trace_bytes", null::varchar as "problem", null::varchar as "kernel",
    null::varchar as "labels", null::timestamptz as "ended_at", null::varchar as "ended_by", null::bigint as "duration_ns",
    null::bigint as "total_ns", null::bigint as "waited_ns", null::varchar as "continued_as", null::date as "date",
    null::varchar as "hour" where false
    union all by name select * from rows_of('episodes'));

set variable proofs_files = (select coalesce(list(file), []) from glob('/srv/unstarve/merged/v1/table=proofs/**/*.parquet'));
create or replace view proofs as select "remedy", "finding", "victim", "scenario", "kernel", "answer", "metric", "effect", "low", "high", "seeds", "costs", "release",
    "package", "unstarve", "date", "note"
from (select null::varchar as "remedy", null::varchar as "finding", null::varchar as "victim", null::varchar as "scenario",
    null::varchar as "kernel", null::varchar as "answer", null::varchar as "metric", null::double as "effect", null::double as "low",
    null::double as "high", null::bigint as "seeds", null::varchar as "costs", null::varchar as "release", null::varchar as "package",
    null::varchar as "unstarve", null::varchar as "date", null::varchar as "note" where false
    union all by name select * from rows_of('proofs'));
-- End of the tables.

-- Functions.
-- Histograms added up, each step by itself: an aggregate.
create or replace macro hist_sum(buckets) as
    list_filter([sum(buckets[1]), sum(buckets[2]), sum(buckets[3]), sum(buckets[4]), sum(buckets[5]), sum(buckets[6]), sum(buckets[7]),
    sum(buckets[8]), sum(buckets[9]), sum(buckets[10]), sum(buckets[11]), sum(buckets[12]), sum(buckets[13]), sum(buckets[14]),
    sum(buckets[15]), sum(buckets[16]), sum(buckets[17]), sum(buckets[18]), sum(buckets[19]), sum(buckets[20]), sum(buckets[21]),
    sum(buckets[22]), sum(buckets[23]), sum(buckets[24]), sum(buckets[25]), sum(buckets[26]), sum(buckets[27]), sum(buckets[28]),
    sum(buckets[29]), sum(buckets[30]), sum(buckets[31]), sum(buckets[32]), sum(buckets[33]), sum(buckets[34]), sum(buckets[35]),
    sum(buckets[36]), sum(buckets[37]), sum(buckets[38]), sum(buckets[39]), sum(buckets[40]), sum(buckets[41]), sum(buckets[42]),
    sum(buckets[43]), sum(buckets[44]), sum(buckets[45]), sum(buckets[46]), sum(buckets[47]), sum(buckets[48]), sum(buckets[49]),
    sum(buckets[50]), sum(buckets[51]), sum(buckets[52]), sum(buckets[53]), sum(buckets[54]), sum(buckets[55]), sum(buckets[56]),
    sum(buckets[57]), sum(buckets[58]), sum(buckets[59]), sum(buckets[60]), sum(buckets[61]), sum(buckets[62]), sum(buckets[63]),
    sum(buckets[64]), sum(buckets[65]), sum(buckets[66]), sum(buckets[67]), sum(buckets[68]), sum(buckets[69]), sum(buckets[70]),
    sum(buckets[71]), sum(buckets[72]), sum(buckets[73]), sum(buckets[74]), sum(buckets[75]), sum(buckets[76]), sum(buckets[77]),
    sum(buckets[78]), sum(buckets[79]), sum(buckets[80]), sum(buckets[81]), sum(buckets[82]), sum(buckets[83]), sum(buckets[84]),
    sum(buckets[85]), sum(buckets[86]), sum(buckets[87]), sum(buckets[88]), sum(buckets[89]), sum(buckets[90]), sum(buckets[91]),
    sum(buckets[92]), sum(buckets[93]), sum(buckets[94]), sum(buckets[95]), sum(buckets[96]), sum(buckets[97]), sum(buckets[98]),
    sum(buckets[99]), sum(buckets[100]), sum(buckets[101]), sum(buckets[102]), sum(buckets[103]), sum(buckets[104]), sum(buckets[105]),
    sum(buckets[106])], lambda n: n is not null);
-- A number whose sums have room.
create or replace macro wide(n) as cast(n as decimal(38, 0));
-- ns as a part of dt; empty where dt is 0.
create or replace macro share(part, whole) as case when whole > 0 then part * 1e0 / whole end;
-- The step (from 1) in which the wait of a rank is.
create or replace macro hist_step(buckets, rank) as
    list_filter(range(1, len(buckets) + 1), lambda step: buckets[step] > 0 and list_sum(buckets[1:step]) >= rank)[1];
-- The length inside of that step, which is spread as its bounds are: by powers.
create or replace macro hist_length(step, inside) as case when step = 1 then 1e9 * power(2, -20) * inside
    when step >= 106 then 64e9 else 1e9 * power(2, -20 + (step - 2 + inside) / 4) end;
-- ns below which the part q of the waits is; empty without waits.
create or replace macro hist_quantile(buckets, q) as case when list_sum(buckets) > 0 and q between 0 and 1 then
    hist_length(hist_step(buckets, q * list_sum(buckets)),
        (q * list_sum(buckets) - coalesce(list_sum(buckets[1:hist_step(buckets, q * list_sum(buckets)) - 1]), 0))
        / buckets[hist_step(buckets, q * list_sum(buckets))]) end;
-- What a task of this name is.
create or replace macro role(comm) as
case when comm is null then null
    when regexp_extract(comm, '^kworker/(R-|u[0-9]*:|[0-9]+:)', 0) <> '' then 'kworker'
    when regexp_extract(comm, '^ksoftirqd/[0-9]+$', 0) <> '' then 'ksoftirqd'
    when regexp_extract(comm, '^(migration|stopper)(/|$)', 0) <> '' then 'migration'
    when regexp_extract(comm, '^(rcu_sched|rcu_preempt|rcu_bh|rcuog|rcuos|rcuop|rcuob|rcub|rcuc|rcu_exp_gp_kthr|rcu_exp_par_gp_)(/|$)', 0) <> '' then 'rcu'
    when comm in ('nfsd', 'nfsd/') then 'nfsd'
    when regexp_extract(comm, '^irq(/|$)', 0) <> '' then 'irq-thread'
    when regexp_extract(comm, '^ktimers(/|$)', 0) <> '' then 'ktimers'
    when regexp_extract(comm, '^(jbd2|xfsaild|kswapd[0-9]*)(/|$)', 0) <> '' then 'storage'
    else 'task' end;
-- End of the functions.

-- Waits that ended, by machine, role and step of the histogram.
create or replace view wait_steps as
select host, machine_id, victim_role, generate_subscripts(steps, 1) - 1 as step, unnest(steps) as n
from (select host, machine_id, victim_role, hist_sum(buckets) as steps from wait_hourly group by host, machine_id, victim_role);
