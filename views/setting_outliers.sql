-- settings in which a machine differs from most machines with its kernel
with ranked as (
    select host, machine_id, kernel, path, value, row_number() over (partition by host, machine_id, path order by ts desc) as place from settings),
counted as (
    select host, machine_id, kernel, path, value, count(*) over (partition by kernel, path, value) as same, count(*) over (partition by kernel, path) as hosts
    from ranked where place = 1),
compared as (
    select host, machine_id, kernel, path, value, max(case when same * 2 > hosts then value end) over (partition by kernel, path) as usual,
        max(case when same * 2 > hosts then same end) over (partition by kernel, path) as hosts_with_usual
    from counted)
select host, machine_id, path, value, usual, hosts_with_usual, kernel from compared where value <> usual and hosts_with_usual > 1 order by path, host, machine_id nulls last
