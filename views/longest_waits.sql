-- the longest wait that ended of each host and role (the upper bound of its step), longest first
select host, victim_role, longest_ns as max_ns, longest_ns / 1e9 as seconds
from (
    select w.host, w.victim_role, max(w.max_ns) as longest_ns from wait_hourly w where w.max_ns is not null
    group by w.host, w.victim_role) longest
order by max_ns desc, host, victim_role
