-- waits of kernel threads by the running kernel, as a part of the time that hosts were watched, of the hours in which both are known; `missing` is the table without which the part of others is not
with machines as (
    select w.kernel, w.host, w.machine_id, count(w.machine_id) over (partition by w.kernel, w.host) as ids, sum(w.ns) as ns, sum(w.known_ns) as known_ns,
        sum(w.known_watched_ns) as known_watched_ns, max(w.missing) as missing
    from kernel_thread_waits w group by w.kernel, w.host, w.machine_id)
select kernel, hosts, ns, share(known_ns, known_watched_ns) as share, missing
from (
    select m.kernel, count(case when m.machine_id is not null or m.ids = 0 then 1 end) as hosts, sum(m.ns) as ns, sum(m.known_ns) as known_ns,
        sum(m.known_watched_ns) as known_watched_ns, max(m.missing) as missing
    from machines m group by m.kernel) sums
order by share desc nulls last, ns desc nulls last, kernel nulls last
