//! `--page FILE`: the answers to some questions as one HTML file, which `unstarve_html` makes.
//!
//! What hosts write has no bound, so each question has one: what has no room is summed up, and the page says so.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;
use unstarve_files::target::{Readers, Target};
use unstarve_html::fleet::{
    Fleet, FleetCulprit, FleetEpisode, FleetHost, FleetHour, FleetHourly, FleetPeriod, FleetRest, FleetRole,
    FleetTable, fleet_html,
};
use unstarve_model::clean;

use super::duckdb::Row;
use super::prelude::quoted;
use crate::output::Out;

/// What a page is made of.
pub struct Page<'a> {
    /// The file.
    pub file: &'a Path,
    /// Where the tables are, as they were asked for.
    pub places: &'a [String],
    /// When something was changed on all hosts: a timestamp.
    pub changed_at: Option<&'a str>,
    /// Where report pages of episodes are.
    pub link: Option<&'a Link>,
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
/// Characters of a machine's id that tell it from another one of its name.
const SHORT_ID: usize = 8;

const HOUR_MS: i64 = 3_600_000;

/// Asks, and writes the page.
///
/// # Errors
/// If a question has no answer, or the file cannot be written.
pub fn write(page: &Page<'_>, ask: impl Fn(&str) -> Result<Vec<Row>>) -> Result<()> {
    let fleet = fleet(page, &ask)?;
    let html = fleet_html(&fleet, concat!("unstarve ", env!("CARGO_PKG_VERSION")))?;
    let target = Target::open(page.file, Readers::Owner)?;
    match &target {
        Target::Stdout => Out::new().text(&html)?,
        Target::Open { file, .. } => (&*file).write_all(html.as_bytes())?,
        Target::File(part) => part.file().write_all(html.as_bytes())?,
    }
    Ok(target.deliver()?)
}

type Ask<'a> = &'a dyn Fn(&str) -> Result<Vec<Row>>;

fn fleet(page: &Page<'_>, ask: Ask<'_>) -> Result<Fleet> {
    let rows = rows_of_tables(ask)?;
    let periods = periods(page.changed_at, ask)?;
    let cells = cells(page.changed_at, ask)?;
    let roles = roles(&cells);
    let (hosts, rest, names) = hosts(periods, cells, &roles, others(ask)?);
    Ok(Fleet {
        places: page.places.iter().map(|place| shown(place)).collect(),
        missing: TABLES.into_iter().filter(|(name, _)| !rows.contains_key(*name)).map(|(_, table)| table).collect(),
        from_ms: rows.values().map(|(first, _)| *first).min(),
        to_ms: rows.values().map(|(_, last)| *last).max(),
        roles: roles.into_iter().map(|(name, is_kernel)| FleetRole { name: shown(&name), is_kernel }).collect(),
        hosts,
        rest,
        changed_ms: changed_ms(page.changed_at, ask)?,
        hours: hours(ask)?,
        culprits: culprits(ask)?,
        episodes: episodes(page.link, &names, ask)?,
        episodes_in_all: one(ask, "select count(*) as n from episodes")?,
    })
}

/// What the page is made of.
const TABLES: [(&str, FleetTable); 4] = [
    ("wait_rollup", FleetTable::WaitRollup),
    ("blame_rollup", FleetTable::BlameRollup),
    ("episodes", FleetTable::Episodes),
    ("hosts", FleetTable::Hosts),
];

/// The first and the last moment of each table that has rows.
fn rows_of_tables(ask: Ask<'_>) -> Result<HashMap<String, (i64, i64)>> {
    let of = |(name, _): (&str, FleetTable)| {
        format!(
            "select '{name}' as name, epoch_ms(min(ts)) as first, epoch_ms(max(ts)) as last from {name} having count(*) > 0"
        )
    };
    let question = TABLES.map(of).join(" union all ");
    let row = |row: &Row| Some((text(row, "name")?, (moment(row, "first"), moment(row, "last"))));
    Ok(ask(&question)?.iter().filter_map(row).collect())
}

fn changed_ms(changed_at: Option<&str>, ask: Ask<'_>) -> Result<Option<i64>> {
    let Some(at) = changed_at else { return Ok(None) };
    let rows = ask(&format!("select epoch_ms({}::timestamptz) as ms", quoted(at)))?;
    Ok(rows.first().map(|row| moment(row, "ms")))
}

/// A machine: by its name, and by its id, for two machines can have one name.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
struct Machine {
    host: String,
    id: Option<String>,
}

impl Machine {
    fn of(row: &Row) -> Machine {
        Machine { host: text(row, "host").unwrap_or_default(), id: text(row, "machine_id") }
    }
}

/// What each machine is called on the page: its name, with its id where several have that name.
fn names<'a>(machines: impl Iterator<Item = &'a Machine> + Clone) -> HashMap<Machine, String> {
    let mut ids_of: HashMap<&str, Vec<Option<&str>>> = HashMap::new();
    for Machine { host, id } in machines.clone() {
        ids_of.entry(host).or_default().push(id.as_deref());
    }
    let short = |id: &str| id.chars().take(SHORT_ID).collect::<String>();
    let name = |Machine { host, id }: &Machine| {
        let ids = &ids_of[host.as_str()];
        match id.as_deref() {
            _ if ids.len() == 1 => shown(host),
            None => shown(&format!("{host} (no id)")),
            Some(id) if ids.iter().flatten().filter(|other| short(other) == short(id)).count() == 1 => {
                shown(&format!("{host} ({})", short(id)))
            }
            Some(id) => shown(&format!("{host} ({id})")),
        }
    };
    machines.map(|machine| (machine.clone(), name(machine))).collect()
}

/// Rows that an early version wrote have no machine's id: they are of the only machine with their name, if there is only one.
const ONLY_MACHINES: &str = "only_machines as (
        select host, min(machine_id) as id from (
            select distinct host, machine_id from wait_rollup union select distinct host, machine_id from blame_rollup
            union select distinct host, machine_id from hosts union select distinct host, machine_id from episodes)
        group by host having min(machine_id) = max(machine_id))";

/// Each machine's hours, as `kernel_thread_waits` judges them: all that is waited is blamed, to the nanosecond. Hours in which both tables
/// agree count (`counts`); if a machine has none, those of blame alone, without a time that was watched.
fn hours_that_count(changed_at: Option<&str>) -> String {
    let late = late(changed_at);
    // A change may be within an hour.
    let sums = match changed_at {
        None => {
            "select host, machine_id, kernel, labels, ts, null, sum_ns, null, null from wait_hourly
            union all select host, machine_id, kernel, labels, ts, null, null, ns,
                case when is_starved and is_kernel_thread then ns else 0 end from marked_hourly"
        }
        Some(_) => {
            "select host, machine_id, kernel, labels, ts, null, sum_ns, null, null from wait_rollup
            union all select host, machine_id, kernel, labels, ts, null, null, ns, 0 from blame_rollup
            union all select host, machine_id, kernel, labels, ts, null, null, null, ns from starved_kernel_threads"
        }
    };
    format!(
        "{ONLY_MACHINES},
        parts as (
            select host, machine_id, kernel, labels, ts, wide(span_ns) as watched, wide(null) as waited, wide(null) as blamed,
                wide(null) as ns from watched
            union all {sums}),
        by_rows as (
            select host, machine_id, kernel, labels, {late} as late, date_trunc('hour', ts) as hour, min(ts) as first, max(ts) as last,
                sum(watched) as watched, sum(waited) as waited, sum(blamed) as blamed, sum(ns) as ns
            from parts where ts is not null group by all),
        hours as (
            select r.host, coalesce(r.machine_id, named.id) as machine_id, kernel, labels, late, hour, min(first) as first, max(last) as last,
                sum(watched) as watched, sum(waited) as waited, sum(blamed) as blamed,
                coalesce(sum(ns), case when sum(waited) = 0 then 0 end) as ns
            from by_rows r left join only_machines named on r.host is not distinct from named.host group by all),
        judged as (
            select *, case when watched is null or blamed > waited then 'wait_rollup'
                when waited > coalesce(blamed, 0) then 'blame_rollup' end as missing
            from hours),
        counted as (
            select *, missing is null or missing = 'wait_rollup'
                and not bool_or(missing is null) over (partition by host, machine_id) as counts
            from judged)"
    )
}

fn late(changed_at: Option<&str>) -> String {
    match changed_at {
        Some(at) => format!("ts >= {}::timestamptz", quoted(at)),
        None => "false".to_owned(),
    }
}

/// What a machine waited under one kernel and one set of labels, and for how long it was watched.
struct Watched {
    machine: Machine,
    period: FleetPeriod,
    last_ms: i64,
}

/// Rows of blame without any starvation show that nobody was starved; without rows nothing is known.
fn periods(changed_at: Option<&str>, ask: Ask<'_>) -> Result<Vec<Watched>> {
    let question = format!(
        "with {hours},
        periods as (
            select host, machine_id, kernel, labels, late, min(first) as first, max(last) as last,
                case when bool_or(counts) then sum(watched) filter (where missing is null) else sum(watched) end as watched,
                sum(ns) filter (where counts) as ns, count(*) filter (where missing is null) as hours,
                stddev_samp(share(ns, watched)) filter (where missing is null) as deviation
            from counted group by all)
        select host, machine_id, kernel, labels, late, epoch_ms(first) as first, epoch_ms(last) as last, {watched} as watched,
            {ns} as ns, hours, deviation
        from periods order by periods.ns desc nulls last, host, machine_id limit {MOST_PERIODS}",
        hours = hours_that_count(changed_at),
        watched = whole("watched"),
        ns = whole("ns")
    );
    let watched = |row: &Row| Watched {
        machine: Machine::of(row),
        period: FleetPeriod {
            kernel: text(row, "kernel").as_deref().map(shown),
            labels: text(row, "labels").as_deref().map(shown),
            is_after: row.get("late").and_then(Value::as_bool).unwrap_or(false),
            first_ms: moment(row, "first"),
            watched_ns: known_number(row, "watched"),
            ns: known_number(row, "ns"),
            hourly: row
                .get("deviation")
                .and_then(Value::as_f64)
                .map(|deviation| FleetHourly { hours: number(row, "hours"), deviation }),
        },
        last_ms: moment(row, "last"),
    };
    Ok(ask(&question)?.iter().map(watched).collect())
}

/// Machines of which other tables have rows, and when the last was.
fn others(ask: Ask<'_>) -> Result<HashMap<Machine, i64>> {
    let question = format!(
        "with {ONLY_MACHINES}
        select o.host, coalesce(o.machine_id, named.id) as machine_id, epoch_ms(max(ts)) as last from (
            select host, machine_id, ts from hosts union all select host, machine_id, ts from episodes) o
        left join only_machines named on o.host is not distinct from named.host
        where o.host is not null group by all"
    );
    Ok(ask(&question)?.iter().map(|row| (Machine::of(row), moment(row, "last"))).collect())
}

/// By machine, then by role and whether it is the kernel's: for how long it waited.
type Cells = HashMap<Machine, HashMap<(String, bool), u64>>;

fn cells(changed_at: Option<&str>, ask: Ask<'_>) -> Result<Cells> {
    let question = format!(
        "with {hours},
        by_role as (
            select host, machine_id, kernel, labels, {late} as late, date_trunc('hour', ts) as hour, victim_role,
                coalesce(is_kernel_thread, false) as is_kernel, sum(ns) as ns
            from {starved} where ts is not null group by all)
        select c.host, c.machine_id, victim_role, is_kernel, {ns} as ns
        from by_role s left join only_machines named on s.host is not distinct from named.host
        join counted c on s.host is not distinct from c.host and coalesce(s.machine_id, named.id) is not distinct from c.machine_id
            and s.kernel is not distinct from c.kernel and s.labels is not distinct from c.labels
            and s.hour = c.hour and s.late = c.late and c.counts
        group by c.host, c.machine_id, victim_role, is_kernel order by ns desc limit {MOST_CELLS}",
        hours = hours_that_count(changed_at),
        late = late(changed_at),
        starved = if changed_at.is_none() { "starved_hourly" } else { "starved" },
        ns = whole("sum(s.ns)")
    );
    let mut cells = Cells::new();
    for row in ask(&question)? {
        let is_kernel = row.get("is_kernel").and_then(Value::as_bool).unwrap_or(false);
        let role = (text(&row, "victim_role").unwrap_or_default(), is_kernel);
        *cells.entry(Machine::of(&row)).or_default().entry(role).or_default() += number(&row, "ns");
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

/// Those with a row, worst first, and what is left of all; and what each machine is called.
fn hosts(
    periods: Vec<Watched>,
    mut cells: Cells,
    roles: &[(String, bool)],
    others: HashMap<Machine, i64>,
) -> (Vec<FleetHost>, FleetRest, HashMap<Machine, String>) {
    let mut by_machine: BTreeMap<Machine, FleetHost> = BTreeMap::new();
    for Watched { machine, period, last_ms } in periods {
        let entry = by_machine.entry(machine).or_default();
        entry.last_ms = entry.last_ms.max(last_ms);
        entry.periods.push(period);
    }
    // Rows without an id are of one of the machines with that name, and none of its own.
    let several: HashSet<String> =
        others.keys().filter(|machine| machine.id.is_some()).map(|machine| machine.host.clone()).collect();
    for (machine, last_ms) in others {
        if machine.id.is_some() || !several.contains(&machine.host) {
            let entry = by_machine.entry(machine).or_default();
            entry.last_ms = entry.last_ms.max(last_ms);
        }
    }
    let names = names(by_machine.keys());
    let mut hosts: Vec<FleetHost> = Vec::new();
    for (machine, mut host) in by_machine {
        host.periods.sort_by_key(|period| period.first_ms);
        host.watched_ns = watched_ns(&host.periods);
        let mut waited = cells.remove(&machine).unwrap_or_default();
        if kernel_ns(&host).is_some() {
            host.ns = Some(roles.iter().map(|role| waited.remove(role).unwrap_or(0)).collect());
            host.others_ns = waited.into_values().fold(0, u64::saturating_add);
        }
        host.name = names[&machine].clone();
        hosts.push(host);
    }
    let worst = |host: &FleetHost| (share(host).unwrap_or(-1.0), kernel_ns(host).unwrap_or(0));
    hosts.sort_by(|one, other| {
        let ((one_share, one_ns), (other_share, other_ns)) = (worst(one), worst(other));
        other_share.total_cmp(&one_share).then(other_ns.cmp(&one_ns)).then_with(|| one.name.cmp(&other.name))
    });
    let beyond = hosts.get(MOST_HOSTS..).unwrap_or_default();
    let unknown = beyond.iter().filter(|host| share(host).is_none()).count();
    let rest = FleetRest { hosts: beyond.len() as u64, unknown: unknown as u64 };
    hosts.truncate(MOST_HOSTS);
    (hosts, rest, names)
}

/// For how long a machine was watched, in those periods of which it is known what was waited; in all, if there is none.
fn watched_ns(periods: &[FleetPeriod]) -> Option<u64> {
    let is_known = |period: &FleetPeriod| period.ns.is_some();
    let is_any_known = periods.iter().any(is_known);
    let that_count = periods.iter().filter(|period| is_known(period) || !is_any_known);
    that_count.fold(None, |all, period| sum(all, period.watched_ns))
}

/// What is known of either.
fn sum(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.map_or(other, |one| Some(one.saturating_add(other.unwrap_or(0))))
}

/// For how long kernel threads waited.
fn kernel_ns(host: &FleetHost) -> Option<u64> {
    host.periods.iter().fold(None, |all, period| sum(all, period.ns))
}

/// For which part of the time.
fn share(host: &FleetHost) -> Option<f64> {
    Some(kernel_ns(host)? as f64 / host.watched_ns.filter(|ns| *ns > 0)? as f64)
}

/// The last hours, those without any wait included.
fn hours(ask: Ask<'_>) -> Result<Vec<FleetHour>> {
    let question = format!(
        "select epoch_ms(hour) as at, hosts, {} as ns from by_hour where hour < now() + interval 1 hour
        order by hour desc limit {MOST_HOURS}",
        whole("ns")
    );
    let hour = |row: &Row| FleetHour { at_ms: moment(row, "at"), ns: number(row, "ns"), hosts: number(row, "hosts") };
    let mut found: BTreeMap<i64, FleetHour> = ask(&question)?.iter().map(hour).map(|hour| (hour.at_ms, hour)).collect();
    let (Some(first), Some(last)) = (found.keys().next().copied(), found.keys().last().copied()) else {
        return Ok(Vec::new());
    };
    let first = first.max(last.saturating_sub(HOUR_MS * MOST_HOURS as i64));
    let hours = (0..).map(|step| first + step * HOUR_MS).take_while(|at| *at <= last);
    Ok(hours.map(|at_ms| found.remove(&at_ms).unwrap_or(FleetHour { at_ms, ns: 0, hosts: 0 })).collect())
}

fn culprits(ask: Ask<'_>) -> Result<Vec<FleetCulprit>> {
    let question = format!(
        "select occupant, rule, hosts, {} as ns from top_culprits order by ns desc, occupant, rule limit {MOST_CULPRITS}",
        whole("ns")
    );
    let culprit = |row: &Row| FleetCulprit {
        occupant: known(row, "occupant"),
        rule: known(row, "rule"),
        hosts: number(row, "hosts"),
        ns: number(row, "ns"),
    };
    Ok(ask(&question)?.iter().map(culprit).collect())
}

fn episodes(link: Option<&Link>, names: &HashMap<Machine, String>, ask: Ask<'_>) -> Result<Vec<FleetEpisode>> {
    let question = format!(
        "with {ONLY_MACHINES}
        select epoch_ms(ts) as at, e.host as host, coalesce(e.machine_id, named.id) as machine_id, e.id as id, finding, victim, culprit,
            rule, {} as ns, remedy, trace_uri
        from worst_episodes e left join only_machines named on e.host is not distinct from named.host
        order by e.ns desc, ts, e.host, e.id limit {MOST_EPISODES}",
        whole("e.ns")
    );
    let episode = |row: &Row| {
        let shown = |name: &str| text(row, name).as_deref().map(shown);
        FleetEpisode {
            at_ms: moment(row, "at"),
            host: names.get(&Machine::of(row)).cloned().unwrap_or_else(|| known(row, "host")),
            id: known(row, "id"),
            finding: shown("finding"),
            victim: shown("victim"),
            culprit: shown("culprit"),
            rule: shown("rule"),
            ns: number(row, "ns"),
            remedy: shown("remedy"),
            trace: shown("trace_uri"),
            // Without a trace there is no page of its own.
            link: link
                .filter(|_| text(row, "trace_uri").is_some())
                .and_then(|link| link.to(&text(row, "host")?, &text(row, "id")?)),
        }
    };
    Ok(ask(&question)?.iter().map(episode).collect())
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
        let (scheme, rest) = text.split_once("://")?;
        let server = rest.split('/').next()?.rsplit('@').next()?;
        // A name of a server has none of the characters that were encoded.
        let is_server = !server.is_empty() && !server.starts_with(':') && !server.contains('%');
        (["http", "https"].contains(&scheme) && is_server && !text.contains(char::is_control)).then_some(text)
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

/// A moment as people write it, in UTC. DuckDB reads it.
///
/// # Errors
/// If it is none.
pub fn parse_moment(text: &str) -> Result<String, String> {
    let (date, time) = text.split_once('T').unwrap_or((text, "00:00:00"));
    let digits = |text: &str, form: &str| {
        text.len() == form.len()
            && text.chars().zip(form.chars()).all(|(c, form)| if form == '0' { c.is_ascii_digit() } else { c == form })
    };
    if digits(date, "0000-00-00") && (digits(time, "00:00:00") || digits(time, "00:00")) {
        return Ok(format!("{date} {time}+00"));
    }
    Err(format!("`{text}`: expected a time in UTC such as 2026-11-22 or 2026-11-22T14:30:00"))
}

/// A number that is all of an answer; 0 of no rows.
fn one(ask: Ask<'_>, question: &str) -> Result<u64> {
    let rows = ask(question)?;
    Ok(number(rows.first().with_context(|| format!("no answer to {question}"))?, "n"))
}

/// Sums have more digits than the page needs: what is too much is the most.
fn whole(sum: &str) -> String {
    let most = i64::MAX;
    format!("cast(case when {sum} > {most} then {most} when {sum} < 0 then 0 else {sum} end as bigint)")
}

fn text(row: &Row, name: &str) -> Option<String> {
    row.get(name)?.as_str().map(str::to_owned)
}

/// 0 where there is none.
fn number(row: &Row, name: &str) -> u64 {
    row.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn known_number(row: &Row, name: &str) -> Option<u64> {
    row.get(name).and_then(Value::as_u64)
}

/// ms since 1970.
fn moment(row: &Row, name: &str) -> i64 {
    row.get(name).and_then(Value::as_i64).unwrap_or(0)
}

fn known(row: &Row, name: &str) -> String {
    shown(&text(row, name).unwrap_or_else(|| "?".to_owned()))
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
    fn machines_of_one_name_are_told_apart() {
        let machine = |host: &str, id: Option<&str>| Machine { host: host.into(), id: id.map(str::to_owned) };
        let machines = [
            (machine("alone", Some("1234567890")), "alone"),
            (machine("old", None), "old"),
            (machine("two", Some("1234567890")), "two (12345678)"),
            (machine("two", Some("abcdefabcd")), "two (abcdefab)"),
            (machine("like", Some("1234567890")), "like (1234567890)"),
            (machine("like", Some("1234567899")), "like (1234567899)"),
            (machine("like", None), "like (no id)"),
        ];
        let named = names(machines.iter().map(|(machine, _)| machine));
        for (machine, name) in &machines {
            assert_eq!(named[machine], *name);
        }
    }

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
        assert_eq!(parse_moment("2026-11-22T14:30:00").as_deref(), Ok("2026-11-22 14:30:00+00"));
        assert_eq!(parse_moment("2026-11-22").as_deref(), Ok("2026-11-22 00:00:00+00"));
        for bad in ["yesterday", "2026-11-22'", "2026-11-22T1", "22-11-2026"] {
            assert!(parse_moment(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_are_cut_between_characters() {
        assert_eq!(shown("web1"), "web1");
        assert_eq!(shown(&"ä".repeat(300)).chars().count(), LONGEST + 1);
        assert_eq!(shown("\u{1b}[31m"), "\\u{1b}[31m");
    }
}
