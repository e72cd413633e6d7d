-- what the lab proved of remedies against what episodes are about: the finding, the kind of victim, the series of kernels (table `proofs`)
with kinds as (
    select host, machine_id, finding, regexp_extract(kernel, '^[^.]*[.][^.]*', 0) as series,
        case when victim_role in ('direct-io', 'kworker', 'storage') then 'kworker'
            when victim_role in ('ksoftirqd', 'rcu', 'nfsd', 'kernel') then victim_role else 'task' end as kind
    from episodes where finding is not null and kernel is not null and victim_role is not null),
machines as (
    select finding, series, kind, host, machine_id, count(*) as episodes, count(machine_id) over (partition by finding, series, kind, host) as ids
    from kinds group by finding, series, kind, host, machine_id),
asked as (
    select m.finding, m.series, m.kind, cast(sum(m.episodes) as bigint) as episodes,
        count(case when m.host is not null and (m.machine_id is not null or m.ids = 0) then 1 end) as hosts
    from machines m group by m.finding, m.series, m.kind)
select asked.finding as finding, asked.kind as victim, asked.series as series, asked.episodes as episodes, asked.hosts as hosts,
    proofs.remedy as remedy, proofs.answer as answer, proofs.scenario as scenario, proofs.metric as metric, proofs.effect as effect,
    proofs.low as low, proofs.high as high
from asked join proofs on asked.finding = proofs.finding and asked.series = proofs.kernel and asked.kind = proofs.victim
order by episodes desc, finding, victim, series, answer, remedy, scenario
