-- hosts whose labels changed: for how long kernel threads waited while others were preferred, as a part of the time with each; `missing` is the table without which the part is not known
with sums as (
    select w.host, w.labels, min(w.first) as first_ts, sum(w.ns) as ns, sum(w.known_ns) as known_ns,
        sum(w.known_watched_ns) as known_watched_ns, max(w.missing) as missing
    from kernel_thread_waits w group by w.host, w.labels),
counted as (
    select *, count(*) over (partition by host) as times from sums)
select host, labels, first_ts as first, ns, share(known_ns, known_watched_ns) as share, missing
from counted where times > 1
order by host, first, labels nulls last
