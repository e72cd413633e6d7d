//! Questions with a name: views over the tables, asked like tables.

use anyhow::{Context, Result};
use datafusion::prelude::SessionContext;

/// A question with a name.
pub struct View {
    /// How it is asked for.
    pub name: &'static str,
    /// What it answers.
    pub meaning: &'static str,
    /// How it is answered.
    pub query: &'static str,
}

/// Rows where others were preferred, by the hour: for sums, which need no finer time. As `starved`, which has each interval.
macro_rules! starved_hourly {
    () => {
        "(select *, victim_kind in ('ksoftirqd', 'direct-io', 'kworker', 'rcu', 'storage', 'nfsd', 'kernel') as is_kernel_thread
                    from blame_hourly where rule in ('class', 'weight', 'wakeup-preemption', 'throttled')) as starved_hourly"
    };
}

/// The same of kernel threads.
macro_rules! starved_kernel_threads_hourly {
    () => {
        "(select * from blame_hourly where rule in ('class', 'weight', 'wakeup-preemption', 'throttled')
                    and victim_kind in ('ksoftirqd', 'direct-io', 'kworker', 'rcu', 'storage', 'nfsd', 'kernel')) as starved_hourly"
    };
}

/// All of them; what one is made of comes before it.
pub const VIEWS: [View; 25] = [
    View {
        name: "starved",
        meaning: "`blame_rollup` where others were preferred (a turn among equals, an idle CPU and interrupts are no starvation), and whether kernel threads waited",
        query: "select *, victim_kind in ('ksoftirqd', 'direct-io', 'kworker', 'rcu', 'storage', 'nfsd', 'kernel') as is_kernel_thread
                from blame_rollup where rule in ('class', 'weight', 'wakeup-preemption', 'throttled')",
    },
    View {
        name: "starved_kernel_threads",
        meaning: "the same of kernel threads",
        query: "select * from starved where is_kernel_thread",
    },
    View {
        name: "watched",
        meaning: "the intervals in which hosts were watched, each once",
        query: "select distinct host, kernel, labels, ts, span_ns from wait_rollup",
    },
    View {
        name: "starved_roles",
        meaning: "who waits while others are preferred, by host and role, worst first",
        query: concat!(
            "select host, victim_role, sum(ns) as ns, sum(ns) / 1e9 as seconds from ",
            starved_hourly!(),
            "
                group by host, victim_role order by ns desc, host, victim_role"
        ),
    },
    View {
        name: "starved_io_workers",
        meaning: "which hosts starve the workers that complete direct I/O, and by whom",
        query: concat!(
            "select host, kernel, occupant, rule, sum(ns) as ns, sum(ns) / 1e9 as seconds from ",
            starved_hourly!(),
            " where victim_kind = 'direct-io'
                group by host, kernel, occupant, rule order by ns desc, host, occupant, rule"
        ),
    },
    View {
        name: "kernels",
        meaning: "waits of kernel threads by the running kernel, as a part of the time that hosts were watched",
        query: concat!(
            "with hours as (
                    select kernel, sum(span_ns) as watched_ns, count(distinct host) as hosts from watched group by kernel),
                blamed as (
                    select kernel, sum(ns) as ns from ",
            starved_kernel_threads_hourly!(),
            " group by kernel)
                select hours.kernel, hours.hosts, coalesce(blamed.ns, 0) as ns, share(coalesce(blamed.ns, 0), hours.watched_ns) as share
                from hours left join blamed on hours.kernel is not distinct from blamed.kernel
                order by share desc, kernel"
        ),
    },
    View {
        name: "top_culprits",
        meaning: "who is preferred to others, by which rule, on how many hosts",
        query: "select occupant, rule, count(distinct host) as hosts, sum(ns) as ns, sum(ns) / 1e9 as seconds from blame_hourly
                where rule in ('class', 'weight', 'wakeup-preemption') group by occupant, rule order by ns desc, occupant, rule",
    },
    View {
        name: "wait_quantiles",
        meaning: "how long waits are, by host and role: half of them, 99 % and 99.9 % are shorter (ns)",
        query: "select host, victim_role, sum(n) as n, hist_quantile(hist_sum(buckets), 0.5) as p50_ns,
                    hist_quantile(hist_sum(buckets), 0.99) as p99_ns, hist_quantile(hist_sum(buckets), 0.999) as p999_ns
                from wait_hourly group by host, victim_role having sum(n) > 0 order by p99_ns desc, host, victim_role",
    },
    View {
        name: "by_day",
        meaning: "by host and day: for how long its kernel threads waited while others were preferred; did a roll-out help",
        query: concat!(
            "select host, date_trunc('day', ts) as day, sum(ns) as ns, sum(ns) / 1e9 as seconds from ",
            starved_kernel_threads_hourly!(),
            "
                group by host, date_trunc('day', ts) order by host, day"
        ),
    },
    View {
        name: "new_since_yesterday",
        meaning: "who has starved whom in the last 24 hours of the data, and never before in it",
        query: concat!(
            "with newest as (select min(ts) as first, max(ts) as ts from blame_rollup where ts < now() + interval '1 hour'),
                sums as (
                    select host, victim_role, occupant, rule, min(ts) as first, sum(ns) as ns
                    from ",
            starved_hourly!(),
            "
                    group by host, victim_role, occupant, rule)
                select sums.host, sums.victim_role, sums.occupant, sums.rule, sums.first, sums.ns, sums.ns / 1e9 as seconds
                from sums, newest where sums.first > newest.ts - interval '24 hours' and newest.first <= newest.ts - interval '24 hours'
                order by ns desc, host, victim_role, occupant, rule"
        ),
    },
    View {
        name: "setting_outliers",
        meaning: "settings in which a host differs from most hosts with its kernel",
        query: "with newest as (
                    select host, kernel, path, value from (
                        select *, row_number() over (partition by host, path order by ts desc) as place from settings) where place = 1),
                counted as (select kernel, path, value, count(*) as hosts from newest group by kernel, path, value),
                usual as (
                    select kernel, path, value, hosts from (
                        select *, sum(hosts) over (partition by kernel, path) as all_hosts from counted)
                    where hosts * 2 > all_hosts)
                select newest.host, newest.path, newest.value, usual.value as usual, usual.hosts as hosts_with_usual, newest.kernel
                from newest join usual on (newest.kernel is not distinct from usual.kernel) and newest.path = usual.path
                where newest.value <> usual.value and usual.hosts > 1 order by newest.path, newest.host",
    },
    View {
        name: "worst_episodes",
        meaning: "episodes, the longest first, with the place of their traces",
        query: "select ts, host, finding, victim, culprit, rule, ns, ns / 1e9 as seconds, remedy, trace_uri, id from episodes
                where ns is not null order by ns desc, ts, host, id",
    },
    View {
        name: "silent_hosts",
        meaning: "hosts whose last rows are more than an hour older than the newest of all; of rows from the future nothing is held",
        query: "with last as (select host, max(ts) as last from wait_rollup where ts < now() + interval '1 hour' group by host),
                newest as (select max(last) as ts from last)
                select last.host, last.last from last, newest where last.last < newest.ts - interval '1 hour' order by last.last, last.host",
    },
    View {
        name: "rules",
        meaning: "why tasks wait: each rule's part of all waiting, and on how many hosts; the turns among equals and idle CPUs included",
        query: "select rule, count(distinct host) as hosts, sum(ns) as ns, share(sum(ns), (select sum(ns) from blame_hourly)) as share
                from blame_hourly group by rule order by ns desc, rule",
    },
    View {
        name: "by_hour",
        meaning: "by hour: for how long kernel threads of the whole fleet waited while others were preferred, and on how many hosts",
        query: concat!(
            "select date_trunc('hour', ts) as hour, count(distinct host) as hosts, sum(ns) as ns, sum(ns) / 1e9 as seconds from ",
            starved_kernel_threads_hourly!(),
            "
                group by date_trunc('hour', ts) order by hour"
        ),
    },
    View {
        name: "throttled_groups",
        meaning: "groups that wait because their CPU limit is used up, on how many hosts",
        query: concat!(
            "select victim_role as cgroup, count(distinct host) as hosts, sum(ns) as ns, sum(ns) / 1e9 as seconds from ",
            starved_hourly!(),
            " where rule = 'throttled' group by victim_role order by ns desc, cgroup"
        ),
    },
    View {
        name: "longest_waits",
        meaning: "the longest wait that ended of each host and role (the upper bound of its step), longest first",
        query: "select host, victim_role, max(max_ns) as max_ns, max(max_ns) / 1e9 as seconds from wait_hourly where max_ns is not null
                group by host, victim_role order by max_ns desc, host, victim_role",
    },
    View {
        name: "kernel_changes",
        meaning: "hosts that ran several kernels: for how long kernel threads waited while others were preferred, as a part of the time under each",
        query: concat!(
            "with hours as (
                    select host, kernel, min(ts) as first, sum(span_ns) as watched_ns from watched group by host, kernel),
                several as (select host from hours group by host having count(*) > 1),
                blamed as (
                    select host, kernel, sum(ns) as ns from ",
            starved_kernel_threads_hourly!(),
            " group by host, kernel)
                select hours.host, hours.kernel, hours.first, coalesce(blamed.ns, 0) as ns,
                    share(coalesce(blamed.ns, 0), hours.watched_ns) as share
                from hours join several on hours.host = several.host
                    left join blamed on hours.host = blamed.host and hours.kernel is not distinct from blamed.kernel
                order by hours.host, hours.first"
        ),
    },
    View {
        name: "label_changes",
        meaning: "hosts whose labels changed: for how long kernel threads waited while others were preferred, as a part of the time with each",
        query: concat!(
            "with hours as (
                    select host, labels, min(ts) as first, sum(span_ns) as watched_ns from watched group by host, labels),
                several as (select host from hours group by host having count(*) > 1),
                blamed as (select host, labels, sum(ns) as ns from ",
            starved_kernel_threads_hourly!(),
            " group by host, labels)
                select hours.host, hours.labels, hours.first, coalesce(blamed.ns, 0) as ns,
                    share(coalesce(blamed.ns, 0), hours.watched_ns) as share
                from hours join several on hours.host = several.host
                    left join blamed on hours.host = blamed.host and hours.labels is not distinct from blamed.labels
                order by hours.host, hours.first"
        ),
    },
    View {
        name: "episode_causes",
        meaning: "what episodes are about: finding, culprit and rule, how many and on how many hosts",
        query: "select finding, culprit_role, rule, count(*) as episodes, count(distinct host) as hosts, sum(ns) as ns from episodes
                group by finding, culprit_role, rule order by episodes desc, finding, culprit_role, rule",
    },
    View {
        name: "worst_hosts",
        meaning: "by host: for how long its kernel threads waited while others were preferred, as a part of the time that it was watched; worst first",
        query: concat!(
            "with hours as (
                    select host, sum(span_ns) as watched_ns from watched group by host),
                blamed as (
                    select host, sum(ns) as ns from ",
            starved_kernel_threads_hourly!(),
            " group by host)
                select hours.host, coalesce(blamed.ns, 0) as ns, share(coalesce(blamed.ns, 0), hours.watched_ns) as share
                from hours left join blamed on hours.host = blamed.host order by share desc, host"
        ),
    },
    View {
        name: "top_victims",
        meaning: "who waits while others are preferred, by which rule, on how many hosts",
        query: concat!(
            "select victim_role, rule, count(distinct host) as hosts, sum(ns) as ns, sum(ns) / 1e9 as seconds from ",
            starved_hourly!(),
            " group by victim_role, rule order by ns desc, victim_role, rule"
        ),
    },
    View {
        name: "by_labels",
        meaning: "by the labels of hosts: waits of kernel threads as a part of the time watched; did what some hosts got help",
        query: concat!(
            "with hours as (
                    select labels, sum(span_ns) as watched_ns, count(distinct host) as hosts from watched group by labels),
                blamed as (
                    select labels, sum(ns) as ns from ",
            starved_kernel_threads_hourly!(),
            " group by labels)
                select hours.labels, hours.hosts, coalesce(blamed.ns, 0) as ns, share(coalesce(blamed.ns, 0), hours.watched_ns) as share
                from hours left join blamed on hours.labels is not distinct from blamed.labels order by share desc, labels"
        ),
    },
    View {
        name: "peer_outliers",
        meaning: "hosts whose kernel threads wait for a thousandth of the time, and three times as long as on half of the hosts with the same kernel",
        query: concat!(
            "with hours as (
                    select host, kernel, sum(span_ns) as watched_ns from watched group by host, kernel),
                blamed as (
                    select host, kernel, sum(ns) as ns from ",
            starved_kernel_threads_hourly!(),
            " group by host, kernel),
                shares as (
                    select hours.host, hours.kernel, share(coalesce(blamed.ns, 0), hours.watched_ns) as share
                    from hours left join blamed on hours.host = blamed.host and hours.kernel is not distinct from blamed.kernel),
                marked as (
                    select host, kernel, share, median(share) over (partition by kernel) as usual, count(*) over (partition by kernel) as hosts
                    from shares)
                select host, kernel, share, usual, hosts from marked where share > 3 * usual and share > 0.001 and hosts > 2
                order by share desc, host"
        ),
    },
    View {
        name: "proved_for_episodes",
        meaning: "what the lab proved of remedies against what episodes are about: the finding, the kind of victim, the series of kernels (table `proofs`)",
        query: "with asked as (
                    select finding, split_part(kernel, '.', 1) || '.' || split_part(kernel, '.', 2) as series,
                        case when victim_role in ('direct-io', 'kworker', 'storage') then 'kworker'
                            when victim_role in ('ksoftirqd', 'rcu', 'nfsd', 'kernel') then victim_role else 'task' end as kind,
                        count(*) as episodes, count(distinct host) as hosts
                    from episodes where finding is not null and kernel is not null and victim_role is not null group by finding, series, kind)
                select asked.finding, asked.kind as victim, asked.series, asked.episodes, asked.hosts, proofs.remedy, proofs.answer, proofs.scenario,
                    proofs.metric, proofs.effect, proofs.low, proofs.high
                from asked join proofs on asked.finding = proofs.finding and asked.series = proofs.kernel and asked.kind = proofs.victim
                order by asked.episodes desc, asked.finding, victim, asked.series, proofs.answer, proofs.remedy, proofs.scenario",
    },
];

/// Makes them known.
///
/// # Errors
/// If the engine does not take one.
pub async fn register(session: &SessionContext) -> Result<()> {
    for view in &VIEWS {
        let plan = session.state().create_logical_plan(view.query).await;
        let plan = plan.with_context(|| format!("the view {} cannot be had", view.name))?;
        let table = datafusion::datasource::ViewTable::new(plan, Some(view.query.to_owned()));
        session.register_table(view.name, std::sync::Arc::new(table))?;
    }
    Ok(())
}
