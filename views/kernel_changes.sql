-- machines that ran several kernels: for how long kernel threads waited while others were preferred, as a part of the time under each, of the hours in which both are known; `missing` is the table without which the part of others is not
with sums as (
    select w.host, w.machine_id, w.kernel, min(w.first) as first_ts, sum(w.ns) as ns, sum(w.known_ns) as known_ns,
        sum(w.known_watched_ns) as known_watched_ns, max(w.missing) as missing
    from kernel_thread_waits w group by w.host, w.machine_id, w.kernel),
counted as (
    select *, count(*) over (partition by host, machine_id) as times from sums)
select host, machine_id, kernel, first_ts as first, ns, share(known_ns, known_watched_ns) as share, missing
from counted where times > 1
order by host, machine_id nulls last, first, kernel nulls last
