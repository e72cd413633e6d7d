-- ClickHouse: tables and functions for the views. Replace /srv/unstarve by the place of the store; shims.py does. A server reads only
-- below its user_files_path; `s3('https://…', …)` takes the place of `file('…', …)` for a bucket.
-- Histograms added up: an aggregate.
create or replace function hist_sum as (buckets) -> sumForEach(buckets);

-- Tables, made from docs/tables.md.
create or replace view blame_rollup as select *,
    toDate32OrNull(extract(_path, 'date=([^/]+)')) as date, toUInt8OrNull(extract(_path, 'hour=([^/]+)')) as hour
from file('/srv/unstarve/merged/v1/table=blame_rollup/**/*.parquet', Parquet,
    '`host` Nullable(String), `machine_id` Nullable(String), `boot_id` Nullable(String), `ts` Nullable(DateTime64(6, \'UTC\')),
    `span_ns` Nullable(Int64), `victim_role` Nullable(String), `victim_kind` Nullable(String), `occupant` Nullable(String),
    `rule` Nullable(String), `ns` Nullable(Int64), `kernel` Nullable(String), `labels` Nullable(String)');
create or replace view blame_hourly as select *,
    toDate32OrNull(extract(_path, 'date=([^/]+)')) as date, toUInt8OrNull(extract(_path, 'hour=([^/]+)')) as hour
from file('/srv/unstarve/hourly/v1/table=blame_rollup/**/*.parquet', Parquet,
    '`host` Nullable(String), `machine_id` Nullable(String), `boot_id` Nullable(String), `ts` Nullable(DateTime64(6, \'UTC\')),
    `span_ns` Nullable(Int64), `victim_role` Nullable(String), `victim_kind` Nullable(String), `occupant` Nullable(String),
    `rule` Nullable(String), `ns` Nullable(Int64), `kernel` Nullable(String), `labels` Nullable(String)')
union all select *,
    toDate32OrNull(extract(_path, 'date=([^/]+)')) as date, toUInt8OrNull(extract(_path, 'hour=([^/]+)')) as hour
from file('/srv/unstarve/merged/v1/table=blame_rollup/**/*.parquet', Parquet,
    '`host` Nullable(String), `machine_id` Nullable(String), `boot_id` Nullable(String), `ts` Nullable(DateTime64(6, \'UTC\')),
    `span_ns` Nullable(Int64), `victim_role` Nullable(String), `victim_kind` Nullable(String), `occupant` Nullable(String),
    `rule` Nullable(String), `ns` Nullable(Int64), `kernel` Nullable(String), `labels` Nullable(String)')
where replaceOne(_path, '/merged/v1/', '/hourly/v1/') not in (
    select distinct _path from file('/srv/unstarve/hourly/v1/table=blame_rollup/**/*.parquet', Parquet, 'host String'));

create or replace view wait_rollup as select *,
    toDate32OrNull(extract(_path, 'date=([^/]+)')) as date, toUInt8OrNull(extract(_path, 'hour=([^/]+)')) as hour
from file('/srv/unstarve/merged/v1/table=wait_rollup/**/*.parquet', Parquet,
    '`host` Nullable(String), `machine_id` Nullable(String), `boot_id` Nullable(String), `ts` Nullable(DateTime64(6, \'UTC\')),
    `span_ns` Nullable(Int64), `victim_role` Nullable(String), `victim_kind` Nullable(String), `cgroup` Nullable(String),
    `n` Nullable(Int64), `sum_ns` Nullable(Int64), `max_ns` Nullable(Int64), `buckets` Array(Int64), `kernel` Nullable(String),
    `labels` Nullable(String)');
create or replace view wait_hourly as select *,
    toDate32OrNull(extract(_path, 'date=([^/]+)')) as date, toUInt8OrNull(extract(_path, 'hour=([^/]+)')) as hour
from file('/srv/unstarve/hourly/v1/table=wait_rollup/**/*.parquet', Parquet,
    '`host` Nullable(String), `machine_id` Nullable(String), `boot_id` Nullable(String), `ts` Nullable(DateTime64(6, \'UTC\')),
    `span_ns` Nullable(Int64), `victim_role` Nullable(String), `victim_kind` Nullable(String), `cgroup` Nullable(String),
    `n` Nullable(Int64), `sum_ns` Nullable(Int64), `max_ns` Nullable(Int64), `buckets` Array(Int64), `kernel` Nullable(String),
    `labels` Nullable(String)')
union all select *,
    toDate32OrNull(extract(_path, 'date=([^/]+)')) as date, toUInt8OrNull(extract(_path, 'hour=([^/]+)')) as hour
from file('/srv/unstarve/merged/v1/table=wait_rollup/**/*.parquet', Parquet,
    '`host` Nullable(String), `machine_id` Nullable(String), `boot_id` Nullable(String), `ts` Nullable(DateTime64(6, \'UTC\')),
    `span_ns` Nullable(Int64), `victim_role` Nullable(String), `victim_kind` Nullable(String), `cgroup` Nullable(String),
    `n` Nullable(Int64), `sum_ns` Nullable(Int64), `max_ns` Nullable(Int64), `buckets` Array(Int64), `kernel` Nullable(String),
    `labels` Nullable(String)')
where replaceOne(_path, '/merged/v1/', '/hourly/v1/') not in (
    select distinct _path from file('/srv/unstarve/hourly/v1/table=wait_rollup/**/*.parquet', Parquet, 'host String'));

create or replace view hosts as select *,
    toDate32OrNull(extract(_path, 'date=([^/]+)')) as date, toUInt8OrNull(extract(_path, 'hour=([^/]+)')) as hour
from file('/srv/unstarve/merged/v1/table=hosts/**/*.parquet', Parquet,
    '`host` Nullable(String), `machine_id` Nullable(String), `boot_id` Nullable(String), `ts` Nullable(DateTime64(6, \'UTC\')),
    `kernel` Nullable(String), `kernel_version` Nullable(String), `machine` Nullable(String), `cpus` Nullable(Int64),
    `labels` Nullable(String), `settings_digest` Nullable(String), `unstarve` Nullable(String)');

create or replace view settings as select *,
    toDate32OrNull(extract(_path, 'date=([^/]+)')) as date, toUInt8OrNull(extract(_path, 'hour=([^/]+)')) as hour
from file('/srv/unstarve/merged/v1/table=settings/**/*.parquet', Parquet,
    '`host` Nullable(String), `machine_id` Nullable(String), `boot_id` Nullable(String), `ts` Nullable(DateTime64(6, \'UTC\')),
    `path` Nullable(String), `name` Nullable(String), `value` Nullable(String), `default` Nullable(String), `kernel` Nullable(String)');

create or replace view episodes as select *,
    toDate32OrNull(extract(_path, 'date=([^/]+)')) as date, toUInt8OrNull(extract(_path, 'hour=([^/]+)')) as hour
from file('/srv/unstarve/merged/v1/table=episodes/**/*.parquet', Parquet,
    '`id` Nullable(String), `host` Nullable(String), `machine_id` Nullable(String), `ts` Nullable(DateTime64(6, \'UTC\')),
    `finding` Nullable(String), `severity` Nullable(String), `victim` Nullable(String), `victim_role` Nullable(String),
    `victim_cgroup` Nullable(String), `culprit` Nullable(String), `culprit_role` Nullable(String), `culprit_cgroup` Nullable(String),
    `rule` Nullable(String), `ns` Nullable(Int64), `victims` Nullable(Int64), `remedy` Nullable(String), `verdict` Nullable(String),
    `trace_uri` Nullable(String), `trace_bytes` Nullable(Int64), `problem` Nullable(String), `kernel` Nullable(String),
    `labels` Nullable(String), `ended_at` Nullable(DateTime64(6, \'UTC\')), `ended_by` Nullable(String), `duration_ns` Nullable(Int64),
    `total_ns` Nullable(Int64), `waited_ns` Nullable(Int64), `continued_as` Nullable(String)');

create or replace view proofs as select *
from file('/srv/unstarve/merged/v1/table=proofs/**/*.parquet', Parquet,
    '`remedy` Nullable(String), `finding` Nullable(String), `victim` Nullable(String), `scenario` Nullable(String),
    `kernel` Nullable(String), `answer` Nullable(String), `metric` Nullable(String), `effect` Nullable(Float64),
    `low` Nullable(Float64), `high` Nullable(Float64), `seeds` Nullable(Int64), `costs` Nullable(String), `release` Nullable(String),
    `package` Nullable(String), `unstarve` Nullable(String), `date` Nullable(String), `note` Nullable(String)');
-- End of the tables.

-- Waits that ended, by machine, role and step of the histogram.
create or replace view wait_steps as
select host, machine_id, victim_role, place - 1 as step, n
from (select host, machine_id, victim_role, hist_sum(buckets) as steps from wait_hourly group by host, machine_id, victim_role)
array join steps as n, arrayEnumerate(steps) as place;

-- A number whose sums have room.
create or replace function wide as (n) -> toDecimal128(n, 0);
-- ns as a part of dt; empty where dt is 0.
create or replace function share as (part, whole) -> case when whole > 0 then part * 1e0 / whole end;
-- The step (from 1) in which the wait of a rank is.
create or replace function hist_step as (buckets, rank) -> arrayFirstIndex((n, upto) -> n > 0 and upto >= rank, buckets, arrayCumSum(buckets));
-- The length inside of that step, which is spread as its bounds are: by powers.
create or replace function hist_length as (step, inside) -> case when step = 1 then 1e9 * power(2, -20) * inside
    when step >= 106 then 64e9 else 1e9 * power(2, -20 + (step - 2 + inside) / 4) end;
-- ns below which the part q of the waits is; empty without waits.
create or replace function hist_quantile as (buckets, q) -> case when arraySum(buckets) > 0 and q between 0 and 1 then
    hist_length(hist_step(buckets, q * arraySum(buckets)),
        (q * arraySum(buckets) - arraySum(arraySlice(buckets, 1, hist_step(buckets, q * arraySum(buckets)) - 1)))
        / buckets[hist_step(buckets, q * arraySum(buckets))]) end;
-- What a task of this name is.
create or replace function role as (comm) ->
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
