-- episodes, the longest first, with the place of their traces; a victim or culprit whose task is not known has its role
select ts, host, finding, coalesce(nullif(victim, ''), victim_role) as victim,
    coalesce(nullif(culprit, ''), culprit_role) as culprit, rule, ns, ns / 1e9 as seconds,
    remedy, trace_uri, id
from episodes e
order by ns desc nulls last, ts, host nulls last, id
