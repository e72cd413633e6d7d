-- how long waits are, by machine and role: half of them, 99 % and 99.9 % are shorter (ns)
with steps as (
    select s.host, s.machine_id, s.victim_role, s.step, sum(wide(s.n)) as n from wait_steps s where s.n > 0 group by s.host, s.machine_id, s.victim_role, s.step),
ranks as (
    select host, machine_id, victim_role, step, n, sum(n) over (partition by host, machine_id, victim_role) as total,
        sum(n) over (partition by host, machine_id, victim_role order by step rows between unbounded preceding and current row) as upto
    from steps),
parts as (
    select 500 as part union all select 990 union all select 999),
-- The step in which the wait of this rank is, and how far inside of it.
places as (
    select host, machine_id, victim_role, total, part, step, (part * total - (upto - n) * 1000) / 1e3 / n as inside
    from ranks cross join parts where upto * 1000 >= part * total and (upto - n) * 1000 < part * total),
-- Lengths are taken to be spread as the bounds of a step are: by powers. Of waits longer than 64 s it says 64 s.
lengths as (
    select host, machine_id, victim_role, total, part,
        case when step = 0 then 1e9 * power(2, -20) * inside
            when step >= 105 then 64e9
            else 1e9 * power(2, -20 + (step - 1 + inside) / 4) end as ns
    from places)
select host, machine_id, victim_role, total as n, max(case when part = 500 then ns end) as p50_ns, max(case when part = 990 then ns end) as p99_ns,
    max(case when part = 999 then ns end) as p999_ns
from lengths group by host, machine_id, victim_role, total
order by p99_ns desc, host, machine_id nulls last, victim_role
