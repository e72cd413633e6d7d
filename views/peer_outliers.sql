-- machines whose kernel threads wait for a thousandth of the time, and three times as long as on half of the hosts with the same kernel; where the time watched is not known (`missing`), the waits themselves are compared
with sums as (
    select w.host, w.machine_id, w.kernel, sum(w.ns) as ns, share(sum(w.known_ns), sum(w.known_watched_ns)) as share, max(w.missing) as missing
    from kernel_thread_waits w group by w.host, w.machine_id, w.kernel),
measured as (
    select host, machine_id, kernel, ns, share, missing, share is not null as has_share, coalesce(share, ns * 1e0) as measure
    from sums where ns is not null),
placed as (
    select *, row_number() over (partition by kernel, has_share order by measure) as place,
        count(*) over (partition by kernel, has_share) as hosts
    from measured),
-- The median: the value in the middle, or the mean of the two there.
compared as (
    select *, avg(case when 2 * place between hosts and hosts + 2 then measure end) over (partition by kernel, has_share) as usual_measure
    from placed)
select host, machine_id, kernel, ns, share, case when has_share then usual_measure end as usual, hosts, missing
from compared
where measure > 3 * usual_measure and hosts > 2 and (share > 0.001 or share is null)
order by share desc nulls last, ns desc, host, machine_id nulls last
