-- which machines starve the workers that complete direct I/O, and by whom
select host, machine_id, kernel, occupant, rule, ns, ns / 1e9 as seconds
from (
    select s.host, s.machine_id, s.kernel, s.occupant, s.rule, sum(wide(s.ns)) as ns
    from starved_hourly s where s.victim_kind = 'direct-io' group by s.host, s.machine_id, s.kernel, s.occupant, s.rule) sums
order by ns desc, host, machine_id nulls last, occupant, rule
