-- by the labels of hosts: waits of kernel threads as a part of the time watched, did what some hosts got help; `missing` is the table without which the part is not known
select labels, hosts, ns, share(known_ns, known_watched_ns) as share, missing
from (
    select w.labels, count(distinct w.host) as hosts, sum(w.ns) as ns, sum(w.known_ns) as known_ns, sum(w.known_watched_ns) as known_watched_ns,
        max(w.missing) as missing
    from kernel_thread_waits w group by w.labels) sums
order by share desc nulls last, ns desc nulls last, labels nulls last
