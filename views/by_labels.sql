-- by the labels of hosts: waits of kernel threads as a part of the time watched, did what some hosts got help; `missing` is the table without which the part of some hours is not known
with machines as (
    select w.labels, w.host, w.machine_id, count(w.machine_id) over (partition by w.labels, w.host) as ids, sum(w.ns) as ns, sum(w.known_ns) as known_ns,
        sum(w.known_watched_ns) as known_watched_ns, max(w.missing) as missing
    from kernel_thread_waits w group by w.labels, w.host, w.machine_id)
select labels, hosts, ns, share(known_ns, known_watched_ns) as share, missing
from (
    select m.labels, count(case when m.machine_id is not null or m.ids = 0 then 1 end) as hosts, sum(m.ns) as ns, sum(m.known_ns) as known_ns,
        sum(m.known_watched_ns) as known_watched_ns, max(m.missing) as missing
    from machines m group by m.labels) sums
order by share desc nulls last, ns desc nulls last, labels nulls last
