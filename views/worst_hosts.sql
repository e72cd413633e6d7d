-- by machine: for how long its kernel threads waited while others were preferred, as a part of the time that it was watched, worst first, of the hours in which both are known; `missing` is the table without which the part of others is not
select host, machine_id, ns, share(known_ns, known_watched_ns) as share, missing
from (
    select w.host, w.machine_id, sum(w.ns) as ns, sum(w.known_ns) as known_ns, sum(w.known_watched_ns) as known_watched_ns,
        max(w.missing) as missing
    from kernel_thread_waits w group by w.host, w.machine_id) sums
order by share desc nulls last, ns desc nulls last, host, machine_id nulls last
