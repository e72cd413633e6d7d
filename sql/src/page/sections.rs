//! The sections of the page, each of a question.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use datafusion::prelude::SessionContext;

use super::markup::{Cell, escaped, percent, table, whole};
use super::{About, moment, rows};

/// Kernel threads that wait while others are preferred.
const STARVED: &str = "victim_kind in ('ksoftirqd', 'direct-io', 'kworker', 'rcu', 'storage', 'nfsd', 'kernel')
    and rule in ('class', 'weight', 'wakeup-preemption', 'throttled')";
/// Hosts and roles of the map.
const HOSTS: usize = 60;
const ROLES: usize = 12;

/// The page's text.
pub async fn page(session: &SessionContext, about: &About) -> Result<String> {
    let mut body = head(session).await?;
    body += &heat(session).await?;
    body += &split(session, about).await?;
    body += &kernels(session).await?;
    body += &episodes(session, about).await?;
    body += &settings(session).await?;
    body += &format!("<footer>unstarve-sql {}</footer>\n", env!("CARGO_PKG_VERSION"));
    Ok(whole("Fleet · unstarve", &body))
}

fn section(id: &str, title: &str, intro: &str, content: &str) -> String {
    format!(
        "<section id=\"{id}\">\n<h2>{}</h2>\n<p class=\"intro\">{}</p>\n{content}</section>\n",
        escaped(title),
        escaped(intro)
    )
}

fn text(cell: &Option<String>) -> String {
    cell.clone().unwrap_or_else(|| "–".to_owned())
}

fn number(cell: &Option<String>) -> Option<f64> {
    cell.as_ref()?.parse().ok()
}

fn seconds(cell: &Option<String>) -> Cell {
    Cell::Number(number(cell).map_or_else(|| "–".to_owned(), |ns| format!("{:.3} s", ns / 1e9)))
}

fn none(what: &str) -> String {
    format!("<p class=\"empty\">{}</p>\n", escaped(what))
}

async fn head(session: &SessionContext) -> Result<String> {
    let all =
        "select count(distinct host), count(distinct kernel), min(ts)::varchar, max(ts)::varchar from wait_rollup";
    let all = rows(session, all).await?;
    let worst =
        rows(session, "select host, share from worst_hosts order by share desc nulls last, host limit 1").await?;
    let figure = |name: &str, at: usize| {
        let value = all.first().and_then(|row| row[at].clone()).unwrap_or_else(|| "–".to_owned());
        format!("<div><dt>{name}</dt><dd>{}</dd></div>\n", escaped(&value))
    };
    let sentence = match worst.first().map(|row| (text(&row[0]), number(&row[1]))) {
        Some((host, Some(share))) if share > 0.0 => {
            format!("Kernel threads wait longest on {host}: {} of the time while others are preferred", percent(share))
        }
        _ => "No kernel thread waited while others were preferred".to_owned(),
    };
    Ok(format!(
        "<header class=\"masthead\"><p class=\"product\">unstarve</p><div class=\"source\">a fleet</div></header>\n\
         <section class=\"verdict info\"><h1>{}</h1>\n<dl class=\"figures\">\n{}{}{}{}</dl></section>\n",
        escaped(&sentence),
        figure("hosts", 0),
        figure("kernels", 1),
        figure("from", 2),
        figure("to", 3)
    ))
}

/// Hosts by roles.
async fn heat(session: &SessionContext) -> Result<String> {
    let question = format!(
        "with hours as (
            select host, sum(span_ns) as watched_ns from (select distinct host, ts, span_ns from wait_rollup) group by host),
        blamed as (select host, victim_role, sum(ns) as ns from blame_rollup where {STARVED} group by host, victim_role)
        select blamed.host, blamed.victim_role, share(blamed.ns, hours.watched_ns) as share
        from blamed join hours on hours.host = blamed.host order by blamed.host, blamed.victim_role"
    );
    let mut shares = BTreeMap::<String, BTreeMap<String, f64>>::new();
    for row in rows(session, &question).await? {
        if let (Some(host), Some(role), Some(share)) = (&row[0], &row[1], number(&row[2])) {
            shares.entry(host.clone()).or_default().insert(role.clone(), share);
        }
    }
    let mut roles = BTreeMap::<&String, f64>::new();
    for (role, share) in shares.values().flatten() {
        *roles.entry(role).or_default() += share;
    }
    let mut roles: Vec<(&String, f64)> = roles.into_iter().collect();
    roles.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(other.0)));
    roles.truncate(ROLES);
    let mut hosts: Vec<(&String, &BTreeMap<String, f64>)> = shares.iter().collect();
    hosts.sort_by(|one, other| other.1.values().sum::<f64>().total_cmp(&one.1.values().sum()).then(one.0.cmp(other.0)));
    let count = hosts.len();
    hosts.truncate(HOSTS);
    let names: Vec<String> =
        ["host".to_owned()].into_iter().chain(roles.iter().map(|(role, _)| (*role).clone())).collect();
    let cells = |(host, of): &(&String, &BTreeMap<String, f64>)| {
        let heat = roles.iter().map(|(role, _)| Cell::Heat(of.get(*role).copied()));
        [Cell::Head((*host).clone())].into_iter().chain(heat).collect::<Vec<_>>()
    };
    let content = match hosts.is_empty() {
        true => none("No kernel thread waited while others were preferred."),
        false => table("heat", &names, &hosts.iter().map(cells).collect::<Vec<_>>()),
    };
    let intro = format!(
        "For how long the kernel's own threads waited while others were preferred, as a part of the time watched; over 100 % if several wait at once. The \
         {} hosts with most of it, of {count}.",
        hosts.len()
    );
    Ok(section("map", "Hosts and roles", &intro, &content))
}

/// Before and after a moment, by host.
async fn split(session: &SessionContext, about: &About) -> Result<String> {
    let at = match &about.split {
        Some(text) => moment(text)?,
        None => {
            let middle = "select to_timestamp_nanos((min(ts)::bigint + max(ts)::bigint) / 2)::varchar from wait_rollup";
            match rows(session, middle).await?.first().and_then(|row| row[0].clone()) {
                Some(middle) => format!("timestamp '{middle}'"),
                None => return Ok(section("split", "Before and after", "", &none("There are no rows."))),
            }
        }
    };
    let share = |side: &str| {
        format!(
            "select hours.host, share(coalesce(blamed.ns, 0), hours.watched_ns) as share from
             (select host, sum(span_ns) as watched_ns from (select distinct host, ts, span_ns from wait_rollup where ts {side} {at}) group by host) hours
             left join (select host, sum(ns) as ns from blame_rollup where {STARVED} and ts {side} {at} group by host) blamed on hours.host = blamed.host"
        )
    };
    let question = format!(
        "select before.host, before.share, after.share from ({}) before join ({}) after on before.host = after.host
         order by abs(after.share - before.share) desc, before.host limit {HOSTS}",
        share("<"),
        share(">=")
    );
    let all = rows(session, &question).await?;
    let cells = |row: &Vec<Option<String>>| {
        let (before, after) = (number(&row[1]), number(&row[2]));
        let change = match (before, after) {
            (Some(before), Some(after)) if before > 0.0 => format!("× {:.2}", after / before),
            _ => "–".to_owned(),
        };
        vec![Cell::Head(text(&row[0])), Cell::Heat(before), Cell::Heat(after), Cell::Number(change)]
    };
    let content = match all.is_empty() {
        true => none("No host was watched both before and after."),
        false => table(
            "before-after",
            &["host", "before", "after", "change"].map(str::to_owned),
            &all.iter().map(cells).collect::<Vec<_>>(),
        ),
    };
    let intro = format!(
        "The same before and after {}, by host; the greatest changes first.",
        at.trim_start_matches("timestamp ").trim_matches('\'')
    );
    Ok(section("split", "Before and after", &intro, &content))
}

async fn kernels(session: &SessionContext) -> Result<String> {
    let all = rows(session, "select kernel, hosts, share from kernels order by share desc, kernel").await?;
    let changed =
        rows(session, "select host, kernel, first::varchar, share from kernel_changes order by host, first").await?;
    let cells = |row: &Vec<Option<String>>| {
        vec![Cell::Head(text(&row[0])), Cell::Number(text(&row[1])), Cell::Heat(number(&row[2]))]
    };
    let mut content = table(
        "kernels",
        &["kernel", "hosts", "waiting"].map(str::to_owned),
        &all.iter().map(cells).collect::<Vec<_>>(),
    );
    if !changed.is_empty() {
        let cells = |row: &Vec<Option<String>>| {
            vec![
                Cell::Head(text(&row[0])),
                Cell::Text(row[1].clone()),
                Cell::Text(row[2].clone()),
                Cell::Heat(number(&row[3])),
            ]
        };
        content += "<h3 class=\"gap\">Hosts that changed their kernel</h3>\n";
        content += &table(
            "kernel-changes",
            &["host", "kernel", "since", "waiting"].map(str::to_owned),
            &changed.iter().map(cells).collect::<Vec<_>>(),
        );
    }
    Ok(section("by-kernel", "Kernels", "The same by the running kernel.", &content))
}

async fn episodes(session: &SessionContext, about: &About) -> Result<String> {
    let question = "select ts::varchar, host, finding, victim, culprit, rule, ns, remedy, id, trace_uri from worst_episodes limit 50";
    let all = rows(session, question).await?;
    let cells = |row: &Vec<Option<String>>| {
        let (host, id) = (text(&row[1]), text(&row[8]));
        let report = match (&about.reports, &row[9]) {
            (Some(prefix), _) => Cell::Link(
                id.clone(),
                format!("{}/{}/{}/report.html", prefix.trim_end_matches('/'), part(&host), part(&id)),
            ),
            (None, Some(trace)) => Cell::Text(Some(format!("{host}:{trace}"))),
            (None, None) => Cell::Text(Some(id)),
        };
        let words = [2, 3, 4, 5].map(|at| Cell::Text(row[at].clone()));
        let begin = [Cell::Text(row[0].clone()), Cell::Head(host)];
        begin.into_iter().chain(words).chain([seconds(&row[6]), Cell::Text(row[7].clone()), report]).collect::<Vec<_>>()
    };
    let names = ["when", "host", "finding", "victim", "culprit", "rule", "for", "remedy", "report"].map(str::to_owned);
    let content = match all.is_empty() {
        true => none("There are no episodes."),
        false => table("episodes", &names, &all.iter().map(cells).collect::<Vec<_>>()),
    };
    Ok(section("worst", "Worst episodes", "The longest first.", &content))
}

/// A part of a path in a link: what has another meaning there is written in numbers, and no name leads upwards.
fn part(text: &str) -> String {
    if text.chars().all(|c| c == '.') {
        return format!("_{text}");
    }
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let plain = |byte: u8| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(plain).collect()
}

async fn settings(session: &SessionContext) -> Result<String> {
    let all = rows(
        session,
        "select path, host, value, usual, hosts_with_usual, kernel from setting_outliers order by path, host limit 500",
    )
    .await?;
    let paths: BTreeSet<String> = all.iter().map(|row| text(&row[0])).collect();
    let cells = |row: &Vec<Option<String>>| {
        vec![
            Cell::Head(text(&row[0])),
            Cell::Text(row[1].clone()),
            Cell::Text(row[2].clone()),
            Cell::Text(row[3].clone()),
            Cell::Number(text(&row[4])),
            Cell::Text(row[5].clone()),
        ]
    };
    let names = ["setting", "host", "value", "others' value", "others", "kernel"].map(str::to_owned);
    let content = match all.is_empty() {
        true => none("All hosts of a kernel have the same settings."),
        false => table("outliers", &names, &all.iter().map(cells).collect::<Vec<_>>()),
    };
    let intro = format!("{} settings in which a host differs from most hosts with its kernel.", paths.len());
    Ok(section("settings", "Settings that differ", &intro, &content))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_leads_nowhere_else() {
        assert_eq!(part(".."), "_..");
        assert_eq!(part("../x?y#z'\"<"), "..%2Fx%3Fy%23z%27%22%3C");
    }
}
