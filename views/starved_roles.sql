-- who waits while others are preferred, by host and role, worst first
select host, victim_role, ns, ns / 1e9 as seconds
from (select s.host, s.victim_role, sum(wide(s.ns)) as ns from starved_hourly s group by s.host, s.victim_role) sums
order by ns desc, host, victim_role
