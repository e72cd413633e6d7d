//! `--page FILE`: the answers to some questions as one HTML file, which `unstarve_html` makes.
//!
//! What hosts write has no bound, so each question has one: what has no room is summed up, and the page says so.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::cast_utils::string_to_timestamp_nanos;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::execution::context::SQLOptions;
use datafusion::prelude::SessionContext;
use unstarve_html::fleet::{
    Fleet, FleetCulprit, FleetEpisode, FleetHost, FleetHour, FleetPeriod, FleetRest, FleetRole, fleet_html,
};
use unstarve_model::clean;
use url::Url;

use crate::answer::{said_of_rows, write_whole};

/// What a page is made of.
#[derive(Clone, Debug)]
pub struct Page {
    /// The file.
    pub file: PathBuf,
    /// Where the tables are, as they were asked for.
    pub places: Vec<String>,
    /// When something was changed on all hosts, ns since 1970.
    pub changed_at: Option<i64>,
    /// Where report pages of episodes are.
    pub link: Option<Link>,
}

/// Hosts with a row.
const MOST_HOSTS: usize = 10_000;
/// Hosts by kernel and labels that are asked for.
const MOST_PERIODS: usize = 200_000;
/// Hosts by role.
const MOST_CELLS: usize = 1_000_000;
/// Roles with a column: of kernel threads, and of others.
const MOST_ROLES: usize = 8;
const MOST_HOURS: usize = 1_500;
const MOST_CULPRITS: usize = 15;
const MOST_EPISODES: usize = 500;
/// Characters of a name.
const LONGEST: usize = 200;

const HOUR_MS: i64 = 3_600_000;

/// Asks, and writes the page.
///
/// # Errors
/// If a question has no answer, or the file cannot be written.
pub async fn write(session: &SessionContext, page: &Page) -> Result<()> {
    let fleet = fleet(session, page).await?;
    let html = fleet_html(&fleet, concat!("unstarve ", env!("CARGO_PKG_VERSION")))?;
    write_whole(&page.file, html.as_bytes())
}

async fn fleet(session: &SessionContext, page: &Page) -> Result<Fleet> {
    let periods = periods(session, page.changed_at).await?;
    let cells = cells(session).await?;
    let roles = roles(&cells);
    let (hosts, rest) = hosts(periods, cells, &roles, totals(session).await?);
    let hours = hours(session).await?;
    let places = page.places.iter().map(|place| shown(place)).collect();
    let moments = hosts.iter().flat_map(|host| host.periods.iter().map(|period| period.first_ms));
    Ok(Fleet {
        places,
        from_ms: moments.min(),
        to_ms: hosts.iter().map(|host| host.last_ms).max(),
        roles: roles.into_iter().map(|(name, is_kernel)| FleetRole { name: shown(&name), is_kernel }).collect(),
        hosts,
        rest,
        changed_ms: page.changed_at.map(|ns| ns.div_euclid(1_000_000)),
        hours,
        culprits: culprits(session).await?,
        episodes: episodes(session, page.link.as_ref()).await?,
        episodes_in_all: one(session, "select count(*) as n from episodes").await?,
    })
}

/// What a host waited under one kernel and one set of labels, and for how long it was watched.
struct Watched {
    host: String,
    period: FleetPeriod,
    last_ms: i64,
}

async fn periods(session: &SessionContext, changed_at: Option<i64>) -> Result<Vec<Watched>> {
    let late = match changed_at {
        Some(ns) => format!("ts >= arrow_cast({ns}, 'Timestamp(Nanosecond, Some(\"UTC\"))')"),
        None => "false".to_owned(),
    };
    let question = format!(
        "with watched as (
            select host, kernel, labels, late, min(ts) as first, max(ts) as last, sum(span_ns) as watched from (
                select *, {late} as late from watched)
            group by host, kernel, labels, late),
        blamed as (
            select host, kernel, labels, late, sum(ns) as ns from (
                select host, kernel, labels, {late} as late, ns from starved_kernel_threads)
            group by host, kernel, labels, late)
        select watched.host as host, watched.kernel as kernel, watched.labels as labels, watched.late as late,
            watched.first as first, watched.last as last, watched.watched as watched, coalesce(blamed.ns, 0) as ns
        from watched left join blamed on watched.host = blamed.host and (watched.kernel is not distinct from blamed.kernel)
            and (watched.labels is not distinct from blamed.labels) and watched.late = blamed.late
        order by ns desc, host limit {MOST_PERIODS}"
    );
    let mut all = Vec::new();
    for batch in ask(session, &question).await? {
        let (hosts, kernels, labels) = (texts(&batch, "host")?, texts(&batch, "kernel")?, texts(&batch, "labels")?);
        let (first, last) = (moments(&batch, "first")?, moments(&batch, "last")?);
        let (watched, ns) = (numbers(&batch, "watched")?, numbers(&batch, "ns")?);
        let late = column(&batch, "late")?.as_boolean_opt().context("`late` is no truth value")?.clone();
        for (row, host) in hosts.into_iter().enumerate() {
            let period = FleetPeriod {
                kernel: kernels[row].as_deref().map(shown),
                labels: labels[row].as_deref().map(shown),
                is_after: late.value(row),
                first_ms: first[row],
                watched_ns: watched[row],
                ns: ns[row],
            };
            all.push(Watched { host: host.unwrap_or_default(), period, last_ms: last[row] });
        }
    }
    Ok(all)
}

/// By host, then by role and whether it is the kernel's: for how long it waited.
type Cells = HashMap<String, HashMap<(String, bool), u64>>;

async fn cells(session: &SessionContext) -> Result<Cells> {
    let question = format!(
        "select host, victim_role, is_kernel, sum(ns) as ns from (
            select host, victim_role, coalesce(is_kernel_thread, false) as is_kernel, ns from starved)
        group by host, victim_role, is_kernel order by ns desc limit {MOST_CELLS}"
    );
    let mut cells = Cells::new();
    for batch in ask(session, &question).await? {
        let (hosts, roles, ns) = (texts(&batch, "host")?, texts(&batch, "victim_role")?, numbers(&batch, "ns")?);
        let is_kernel = column(&batch, "is_kernel")?.as_boolean_opt().context("no truth value")?.clone();
        for (row, (host, role)) in hosts.into_iter().zip(roles).enumerate() {
            let role = (role.unwrap_or_default(), is_kernel.value(row));
            *cells.entry(host.unwrap_or_default()).or_default().entry(role).or_default() += ns[row];
        }
    }
    Ok(cells)
}

/// Which roles have a column: those of the kernel first, each kind worst first.
fn roles(cells: &Cells) -> Vec<(String, bool)> {
    let mut sums: HashMap<&(String, bool), u64> = HashMap::new();
    for (role, ns) in cells.values().flatten() {
        let sum = sums.entry(role).or_default();
        *sum = sum.saturating_add(*ns);
    }
    let mut sums: Vec<(&(String, bool), u64)> = sums.into_iter().collect();
    sums.sort_by(|(one, ns), (other, more)| more.cmp(ns).then(one.cmp(other)));
    let of = |kernel: bool| sums.iter().filter(move |(role, _)| role.1 == kernel).take(MOST_ROLES);
    of(true).chain(of(false)).map(|(role, _)| (*role).clone()).collect()
}

/// All hosts together: how many, for how long they were watched, and for how long their kernel threads waited.
async fn totals(session: &SessionContext) -> Result<FleetRest> {
    Ok(FleetRest {
        hosts: one(session, "select count(distinct host) as n from watched").await?,
        watched_ns: one(session, "select sum(span_ns) as n from watched").await?,
        ns: one(session, "select sum(ns) as n from starved_kernel_threads").await?,
    })
}

/// Those with a row, worst first, and what is left of all.
fn hosts(
    periods: Vec<Watched>,
    mut cells: Cells,
    roles: &[(String, bool)],
    all: FleetRest,
) -> (Vec<FleetHost>, FleetRest) {
    let mut by_host: BTreeMap<String, FleetHost> = BTreeMap::new();
    for Watched { host, period, last_ms } in periods {
        let entry = by_host.entry(host).or_default();
        entry.last_ms = entry.last_ms.max(last_ms);
        entry.watched_ns = entry.watched_ns.saturating_add(period.watched_ns);
        entry.periods.push(period);
    }
    let kernel = |host: &FleetHost| host.periods.iter().map(|period| period.ns).fold(0, u64::saturating_add);
    let mut hosts: Vec<FleetHost> = Vec::new();
    for (name, mut host) in by_host {
        host.periods.sort_by_key(|period| period.first_ms);
        let mut waited = cells.remove(&name).unwrap_or_default();
        host.ns = roles.iter().map(|role| waited.remove(role).unwrap_or(0)).collect();
        host.others_ns = waited.into_values().fold(0, u64::saturating_add);
        host.name = shown(&name);
        hosts.push(host);
    }
    let share = |host: &FleetHost| kernel(host) as f64 / host.watched_ns.max(1) as f64;
    hosts.sort_by(|one, other| share(other).total_cmp(&share(one)).then_with(|| one.name.cmp(&other.name)));
    hosts.truncate(MOST_HOSTS);
    let kept = |of: &dyn Fn(&FleetHost) -> u64| hosts.iter().map(of).fold(0, u64::saturating_add);
    let rest = FleetRest {
        hosts: all.hosts.saturating_sub(hosts.len() as u64),
        watched_ns: all.watched_ns.saturating_sub(kept(&|host| host.watched_ns)),
        ns: all.ns.saturating_sub(kept(&kernel)),
    };
    (hosts, rest)
}

/// The last hours, those without any wait included.
async fn hours(session: &SessionContext) -> Result<Vec<FleetHour>> {
    let question = format!(
        "select hour, hosts, ns from by_hour where hour < now() + interval '1 hour' order by hour desc limit {MOST_HOURS}"
    );
    let mut found = BTreeMap::new();
    for batch in ask(session, &question).await? {
        let (at, hosts, ns) = (moments(&batch, "hour")?, numbers(&batch, "hosts")?, numbers(&batch, "ns")?);
        found.extend(
            at.into_iter().zip(hosts).zip(ns).map(|((at_ms, hosts), ns)| (at_ms, FleetHour { at_ms, ns, hosts })),
        );
    }
    let (Some(first), Some(last)) = (found.keys().next().copied(), found.keys().last().copied()) else {
        return Ok(Vec::new());
    };
    let first = first.max(last.saturating_sub(HOUR_MS * MOST_HOURS as i64));
    let hours = (0..).map(|step| first + step * HOUR_MS).take_while(|at| *at <= last);
    Ok(hours.map(|at_ms| found.remove(&at_ms).unwrap_or(FleetHour { at_ms, ns: 0, hosts: 0 })).collect())
}

async fn culprits(session: &SessionContext) -> Result<Vec<FleetCulprit>> {
    let question = format!(
        "select occupant, rule, hosts, ns from top_culprits order by ns desc, occupant, rule limit {MOST_CULPRITS}"
    );
    let mut all = Vec::new();
    for batch in ask(session, &question).await? {
        let (occupants, rules) = (texts(&batch, "occupant")?, texts(&batch, "rule")?);
        let (hosts, ns) = (numbers(&batch, "hosts")?, numbers(&batch, "ns")?);
        for row in 0..batch.num_rows() {
            let (occupant, rule) = (known(&occupants[row]), known(&rules[row]));
            all.push(FleetCulprit { occupant, rule, hosts: hosts[row], ns: ns[row] });
        }
    }
    Ok(all)
}

async fn episodes(session: &SessionContext, link: Option<&Link>) -> Result<Vec<FleetEpisode>> {
    let question = format!(
        "select ts, host, id, finding, victim, culprit, rule, ns, remedy, trace_uri from worst_episodes
        order by ns desc, ts, host, id limit {MOST_EPISODES}"
    );
    let mut all = Vec::new();
    for batch in ask(session, &question).await? {
        let (at, ns) = (moments(&batch, "ts")?, numbers(&batch, "ns")?);
        let names = ["host", "id", "finding", "victim", "culprit", "rule", "remedy", "trace_uri"];
        let columns: Vec<Vec<Option<String>>> = names.iter().map(|name| texts(&batch, name)).collect::<Result<_>>()?;
        for row in 0..batch.num_rows() {
            let raw = |column: usize| columns[column][row].as_deref();
            let text = |column: usize| raw(column).map(shown);
            all.push(FleetEpisode {
                at_ms: at[row],
                host: known(&columns[0][row]),
                id: known(&columns[1][row]),
                finding: text(2),
                victim: text(3),
                culprit: text(4),
                rule: text(5),
                ns: ns[row],
                remedy: text(6),
                trace: text(7),
                link: link.and_then(|link| link.to(raw(0)?, raw(1)?)),
            });
        }
    }
    Ok(all)
}

/// Where report pages of episodes are: `https://{host}/episodes/{id}/report.html`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Link(String);

impl Link {
    /// Of a text with `{id}` in it.
    ///
    /// # Errors
    /// If it is no address of a web server.
    pub fn parse(text: &str) -> Result<Link, String> {
        let link = Link(text.to_owned());
        let is_one = text.contains("{id}") && link.to("host", "id").is_some();
        let expected = "expected an address with {id} and, where it differs by host, {host}: https://{host}:9846/episodes/{id}/report.html";
        if is_one { Ok(link) } else { Err(format!("`{text}`: {expected}")) }
    }

    /// The page of an episode, if names of a host and an episode make an address. They are the hosts' own, so they stay what they are in it: a part
    /// of a path, or a name of a server, and nothing else.
    fn to(&self, host: &str, id: &str) -> Option<String> {
        // A step up is one in a path whatever it is encoded as.
        if [host, id].iter().any(|name| name.chars().all(|c| c == '.')) {
            return None;
        }
        let text = self.0.replace("{host}", &encoded(host)).replace("{id}", &encoded(id));
        let url = Url::parse(&text).ok()?;
        (["http", "https"].contains(&url.scheme()) && url.has_host()).then(|| url.to_string())
    }
}

/// What is no letter or digit as `%2F`, of a name of which every part is one.
fn encoded(name: &str) -> String {
    name.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => char::from(byte).to_string(),
            byte => format!("%{byte:02X}"),
        })
        .collect()
}

/// A moment as people write it, in UTC: ns since 1970.
///
/// # Errors
/// If it is none.
pub fn parse_moment(text: &str) -> Result<i64, String> {
    let expected = || format!("`{text}`: expected a time in UTC such as 2026-11-22 or 2026-11-22T14:30:00");
    string_to_timestamp_nanos(text).map_err(|_| expected())
}

async fn ask(session: &SessionContext, question: &str) -> Result<Vec<RecordBatch>> {
    let options = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false);
    let frame = session.sql_with_options(question, options).await.map_err(said_of_rows)?;
    frame.collect().await.map_err(said_of_rows)
}

/// A number that is all of an answer; 0 of no rows.
async fn one(session: &SessionContext, question: &str) -> Result<u64> {
    let batches = ask(session, question).await?;
    let Some(batch) = batches.iter().find(|batch| batch.num_rows() > 0) else { bail!("no answer to {question}") };
    Ok(numbers(batch, "n")?[0])
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a dyn Array> {
    Ok(batch.column_by_name(name).with_context(|| format!("an answer without {name}"))?.as_ref())
}

fn texts(batch: &RecordBatch, name: &str) -> Result<Vec<Option<String>>> {
    let texts = cast(column(batch, name)?, &DataType::Utf8)?;
    Ok(texts.as_string::<i32>().iter().map(|text| text.map(str::to_owned)).collect())
}

/// 0 where there is none.
fn numbers(batch: &RecordBatch, name: &str) -> Result<Vec<u64>> {
    let column = column(batch, name)?;
    // Sums have more digits than the page needs: what is too much is the most.
    let whole = cast(column, &DataType::Decimal128(38, 0))?;
    let number = |number: Option<i128>| u64::try_from(number.unwrap_or_default().max(0)).unwrap_or(u64::MAX);
    Ok(whole.as_primitive::<Decimal128Type>().iter().map(number).collect())
}

/// ms since 1970.
fn moments(batch: &RecordBatch, name: &str) -> Result<Vec<i64>> {
    let moments = cast(column(batch, name)?, &DataType::Int64)?;
    Ok(moments.as_primitive::<Int64Type>().iter().map(|ns| ns.unwrap_or_default().div_euclid(1_000_000)).collect())
}

fn known(text: &Option<String>) -> String {
    shown(text.as_deref().unwrap_or("?"))
}

/// A name as the page has it: harmless, and no longer than a line.
fn shown(text: &str) -> String {
    let text = clean(text);
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_names_in_a_link() {
        let link = Link::parse("https://{host}:9846/episodes/{id}/report.html").expect("a link");
        assert_eq!(
            link.to("web1", "20261123-082022-122").as_deref(),
            Some("https://web1:9846/episodes/20261123-082022-122/report.html")
        );
        let central = Link::parse("https://store.example/{host}/{id}").expect("a link");
        assert_eq!(
            central.to("a/../../b?c#d", "x y").as_deref(),
            Some("https://store.example/a%2F..%2F..%2Fb%3Fc%23d/x%20y")
        );
        assert_eq!(central.to("..", "x"), None);
        assert_eq!(link.to("evil/x@y", "1"), None, "no name of a server");
        assert_eq!(link.to("", "1"), None);
        for wrong in ["javascript:alert('{id}')", "https://store.example/", "{id}", "file:///srv/{id}"] {
            assert!(Link::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn moments_are_in_utc() {
        assert_eq!(parse_moment("2026-11-22T00:00:00"), Ok(1_795_305_600_000_000_000));
        assert_eq!(parse_moment("2026-11-22"), Ok(1_795_305_600_000_000_000));
        assert!(parse_moment("yesterday").is_err());
    }

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!(shown("web1"), "web1");
        assert_eq!(shown(&"ä".repeat(300)).chars().count(), LONGEST + 1);
        assert_eq!(shown("\u{1b}[31m"), "\\u{1b}[31m");
    }
}
