-- what the lab proved of remedies against what episodes are about: the finding, the kind of victim, the series of kernels (table `proofs`)
with kinds as (
    select host, finding, regexp_extract(kernel, '^[^.]*[.][^.]*', 0) as series,
        case when victim_role in ('direct-io', 'kworker', 'storage') then 'kworker'
            when victim_role in ('ksoftirqd', 'rcu', 'nfsd', 'kernel') then victim_role else 'task' end as kind
    from episodes where finding is not null and kernel is not null and victim_role is not null),
asked as (
    select finding, series, kind, count(*) as episodes, count(distinct host) as hosts from kinds group by finding, series, kind)
select asked.finding as finding, asked.kind as victim, asked.series as series, asked.episodes as episodes, asked.hosts as hosts,
    proofs.remedy as remedy, proofs.answer as answer, proofs.scenario as scenario, proofs.metric as metric, proofs.effect as effect,
    proofs.low as low, proofs.high as high
from asked join proofs on asked.finding = proofs.finding and asked.series = proofs.kernel and asked.kind = proofs.victim
order by episodes desc, finding, victim, series, answer, remedy, scenario
