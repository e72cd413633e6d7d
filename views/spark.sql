-- Spark 4: tables and functions for the views. Replace /srv/unstarve by the place of the store (s3a://…, hdfs://…); shims.py does.
-- Rows by the hour are not read: Spark cannot leave out a file by another one's name. It adds up the rows themselves.
set spark.sql.session.timeZone = UTC;

-- Tables, made from docs/tables.md.
drop table if exists blame_rollup;
create table blame_rollup (`host` string, `machine_id` string, `boot_id` string, `ts` timestamp, `span_ns` bigint, `victim_role` string, `victim_kind` string,
    `occupant` string, `rule` string, `ns` bigint, `kernel` string, `labels` string, `date` date, `hour` int)
    using parquet location '/srv/unstarve/merged/v1/table=blame_rollup';
create or replace temporary view blame_hourly as select * from blame_rollup;

drop table if exists wait_rollup;
create table wait_rollup (`host` string, `machine_id` string, `boot_id` string, `ts` timestamp, `span_ns` bigint, `victim_role` string, `victim_kind` string,
    `cgroup` string, `n` bigint, `sum_ns` bigint, `max_ns` bigint, `buckets` array<bigint>, `kernel` string, `labels` string,
    `date` date, `hour` int)
    using parquet location '/srv/unstarve/merged/v1/table=wait_rollup';
create or replace temporary view wait_hourly as select * from wait_rollup;

drop table if exists hosts;
create table hosts (`host` string, `machine_id` string, `boot_id` string, `ts` timestamp, `kernel` string, `kernel_version` string, `machine` string,
    `cpus` bigint, `labels` string, `settings_digest` string, `unstarve` string, `date` date, `hour` int)
    using parquet location '/srv/unstarve/merged/v1/table=hosts';

drop table if exists settings;
create table settings (`host` string, `machine_id` string, `boot_id` string, `ts` timestamp, `path` string, `name` string, `value` string,
    `default` string, `kernel` string, `date` date, `hour` int)
    using parquet location '/srv/unstarve/merged/v1/table=settings';

drop table if exists episodes;
create table episodes (`id` string, `host` string, `machine_id` string, `ts` timestamp, `finding` string, `severity` string, `victim` string,
    `victim_role` string, `victim_cgroup` string, `culprit` string, `culprit_role` string, `culprit_cgroup` string, `rule` string,
    `ns` bigint, `victims` bigint, `remedy` string, `verdict` string, `trace_uri` string, `trace_bytes` bigint, `problem` string,
    `kernel` string, `labels` string, `ended_at` timestamp, `ended_by` string, `duration_ns` bigint, `total_ns` bigint,
    `waited_ns` bigint, `continued_as` string, `date` date, `hour` int)
    using parquet location '/srv/unstarve/merged/v1/table=episodes';

drop table if exists proofs;
create table proofs (`remedy` string, `finding` string, `victim` string, `scenario` string, `kernel` string, `answer` string, `metric` string,
    `effect` double, `low` double, `high` double, `seeds` bigint, `costs` string, `release` string, `package` string,
    `unstarve` string, `date` string, `note` string)
    using parquet location '/srv/unstarve/merged/v1/table=proofs';
-- End of the tables.

-- Waits that ended, by machine, role and step of the histogram.
create or replace temporary view wait_steps as
select host, machine_id, victim_role, step, waits as n from wait_hourly lateral view posexplode(buckets) steps as step, waits;

-- A number whose sums have room.
create or replace temporary function wide(n bigint) returns decimal(38, 0) return cast(n as decimal(38, 0));
-- ns as a part of dt; empty where dt is 0.
create or replace temporary function share(part double, whole double) returns double return case when whole > 0 then part / whole end;
-- Histograms added up. A function in SQL cannot be an aggregate here: hist_sum(collect_list(buckets)).
create or replace temporary function hist_sum(histograms array<array<bigint>>) returns array<bigint>
    return aggregate(histograms, cast(array() as array<bigint>),
        (a, b) -> transform(arrays_zip(a, b), both -> coalesce(both.a, 0L) + coalesce(both.b, 0L)));
-- ns below which the part q of the waits is; empty without waits. The step is sought in which the wait of this rank is; inside of it
-- lengths are taken to be spread as its bounds are: by powers.
create or replace temporary function hist_quantile(buckets array<bigint>, q double) returns double
    return case when q between 0 and 1 then aggregate(buckets, named_struct('step', -1, 'upto', 0L, 'found', -1, 'inside', 0e0),
        (at, n) -> case when at.found < 0 and n > 0 and at.upto + n >= q * aggregate(buckets, 0L, (sum, n) -> sum + n)
            then named_struct('step', at.step + 1, 'upto', at.upto + n, 'found', at.step + 1,
                'inside', (q * aggregate(buckets, 0L, (sum, n) -> sum + n) - at.upto) / n)
            else named_struct('step', at.step + 1, 'upto', at.upto + n, 'found', at.found, 'inside', at.inside) end,
        at -> case when at.found = 0 then 1e9 * power(2, -20) * at.inside when at.found >= 105 then 64e9
            when at.found > 0 then 1e9 * power(2, -20 + (at.found - 1 + at.inside) / 4) end) end;
-- What a task of this name is.
create or replace temporary function role(comm string) returns string return
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
