-- episodes, those first in which most was waited in all, with the place of their traces; a victim or culprit whose task is not known has its role. One that went on as another is left out: that one has the sums of both
select ts, host, machine_id, finding, coalesce(nullif(victim, ''), victim_role) as victim,
    coalesce(nullif(culprit, ''), culprit_role) as culprit, rule,
    coalesce(e.total_ns, e.ns) as ns, coalesce(e.total_ns, e.ns) / 1e9 as seconds, duration_ns, ended_by,
    remedy, trace_uri, id
from episodes e
where ended_by is null or ended_by <> 'continued'
order by ns desc nulls last, ts, host nulls last, machine_id nulls last, id
