-- the longest wait that ended of each machine and role (the upper bound of its step), longest first; of one that took longer than the last step only that is known: `beyond` says 64 s or more, and `max_ns` is empty
select host, machine_id, victim_role, case when open_waits = 0 then longest_ns end as max_ns,
    case when open_waits = 0 then longest_ns / 1e9 end as seconds,
    case when open_waits > 0 then '64 s or more' end as beyond
from (
    -- Waits that ended, and no upper bound: the last step has none. Rows by the hour have the bounds of other intervals.
    select w.host, w.machine_id, w.victim_role, max(w.max_ns) as longest_ns, count(case when w.n > 0 and w.max_ns is null then 1 end) as open_waits
    from wait_rollup w where w.n > 0 or w.max_ns is not null group by w.host, w.machine_id, w.victim_role) longest
order by beyond nulls last, max_ns desc nulls last, host, machine_id nulls last, victim_role
