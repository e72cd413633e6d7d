-- who waits while others are preferred, by machine and role, worst first
select host, machine_id, victim_role, ns, ns / 1e9 as seconds
from (select s.host, s.machine_id, s.victim_role, sum(wide(s.ns)) as ns from starved_hourly s group by s.host, s.machine_id, s.victim_role) sums
order by ns desc, host, machine_id nulls last, victim_role
