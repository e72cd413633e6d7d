-- by machine, kernel and labels: for how long kernel threads waited while others were preferred, and for how long the machine was watched; `known_ns` and `known_watched_ns` are of the hours in which both are known, and `missing` is the table without which those of other hours are not
with parts as (
    select host, machine_id, kernel, labels, ts, span_ns as watched_ns, null as waited_ns, null as blamed_ns, null as ns from watched
    union all
    select host, machine_id, kernel, labels, ts, null, sum_ns, null, null from wait_hourly
    union all
    select host, machine_id, kernel, labels, ts, null, null, ns, case when is_starved and is_kernel_thread then ns else 0 end from marked_hourly),
hours as (
    select parts.host, parts.machine_id, parts.kernel, parts.labels, date_trunc('hour', parts.ts) as hour, min(parts.ts) as first_ts,
        sum(wide(parts.watched_ns)) as watched_ns, sum(wide(parts.waited_ns)) as waited_ns, sum(wide(parts.blamed_ns)) as blamed_ns,
        sum(wide(parts.ns)) as ns
    from parts group by parts.host, parts.machine_id, parts.kernel, parts.labels, date_trunc('hour', parts.ts)),
-- All that is waited is blamed, to the nanosecond: where both differ, rows of one of them are late or lost.
judged as (
    select *, case when watched_ns is null or blamed_ns > waited_ns then 'wait_rollup'
        when waited_ns > coalesce(blamed_ns, wide(0)) then 'blame_rollup' end as missing
    from hours),
-- Nobody waited, nobody is blamed.
sums as (
    select j.host, j.machine_id, j.kernel, j.labels, min(j.first_ts) as first_ts,
        sum(coalesce(j.ns, case when j.waited_ns = 0 then wide(0) end)) as ns, sum(j.watched_ns) as watched_ns, max(j.missing) as missing,
        sum(case when j.missing is null then coalesce(j.ns, wide(0)) end) as known_ns,
        sum(case when j.missing is null then j.watched_ns end) as known_watched_ns
    from judged j group by j.host, j.machine_id, j.kernel, j.labels),
-- Rows that an early version wrote have no machine's id: they are of the only machine with their name, if there is only one.
named as (
    select *, min(machine_id) over (partition by host) as one_id, max(machine_id) over (partition by host) as other_id from sums)
select n.host as host, coalesce(n.machine_id, case when n.one_id = n.other_id then n.one_id end) as machine_id, n.kernel as kernel, n.labels as labels,
    n.first_ts as first, n.ns as ns, n.watched_ns as watched_ns, n.missing as missing, n.known_ns as known_ns, n.known_watched_ns as known_watched_ns
from named n
