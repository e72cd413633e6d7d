-- waits of kernel threads by the running kernel, as a part of the time that hosts were watched; `missing` is the table without which the part is not known
select kernel, hosts, ns, share(known_ns, known_watched_ns) as share, missing
from (
    select w.kernel, count(distinct w.host) as hosts, sum(w.ns) as ns, sum(w.known_ns) as known_ns, sum(w.known_watched_ns) as known_watched_ns,
        max(w.missing) as missing
    from kernel_thread_waits w group by w.kernel) sums
order by share desc nulls last, ns desc nulls last, kernel nulls last
