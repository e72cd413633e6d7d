-- by host, kernel and labels: for how long kernel threads waited while others were preferred, and for how long the host was watched; `missing` is the table without which one of both is not known, and `known_ns` and `known_watched_ns` have a value only where both are
with parts as (
    select host, kernel, labels, ts, span_ns as watched_ns, null as waited_ns, null as ns from watched
    union all
    select host, kernel, labels, ts, null, sum_ns, null from wait_hourly
    union all
    select host, kernel, labels, ts, null, null, case when is_starved and is_kernel_thread then ns else 0 end from marked_hourly),
sums as (
    select parts.host, parts.kernel, parts.labels, min(parts.ts) as first_ts, sum(wide(parts.watched_ns)) as watched_ns,
        -- Who waits is blamed: no rows of blame mean no waits only where there were none.
        coalesce(sum(wide(parts.ns)), case when sum(wide(parts.waited_ns)) = 0 then wide(0) end) as ns
    from parts group by parts.host, parts.kernel, parts.labels),
judged as (
    select *, case when watched_ns is null then 'wait_rollup' when ns is null then 'blame_rollup' end as missing from sums)
select host, kernel, labels, first_ts as first, ns, watched_ns, missing,
    case when missing is null then ns end as known_ns, case when missing is null then watched_ns end as known_watched_ns
from judged
