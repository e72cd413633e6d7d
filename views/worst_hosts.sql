-- by host: for how long its kernel threads waited while others were preferred, as a part of the time that it was watched, worst first; `missing` is the table without which the part is not known
select host, ns, share(known_ns, known_watched_ns) as share, missing
from (
    select w.host, sum(w.ns) as ns, sum(w.known_ns) as known_ns, sum(w.known_watched_ns) as known_watched_ns,
        max(w.missing) as missing
    from kernel_thread_waits w group by w.host) sums
order by share desc nulls last, ns desc nulls last, host
