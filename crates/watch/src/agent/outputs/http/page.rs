//! The answer for each path. Pages are complete without scripts, and reload themselves.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::File;
use std::sync::{Arc, Mutex, PoisonError};

use unstarve_diagnose::report::FindingId;
use unstarve_files::trust::{Directory, How};
use unstarve_html::live::{self, Link, Panel, Row};
use unstarve_model::{Nanos, WallTime};
use unstarve_sched::Rule;

use super::head::Head;
use super::hour::hour;
use super::{Site, metrics};
use crate::agent::board::Published;
use crate::agent::store::PAGE;
use crate::engine::reading::Place;
use crate::engine::reading::{Reading, Role, RoleKind, TaskId, Workload, WorkloadSums, is_precedence};
use crate::episode::{Episode, Party, Stage, is_id, of_party};

/// The answer to a request.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The MIME type.
    pub kind: &'static str,
    /// The Content-Security-Policy.
    pub policy: Option<String>,
    /// The content.
    pub content: Content,
}

/// The content of an answer.
#[derive(Debug)]
pub enum Content {
    /// In memory.
    Made(Vec<u8>),
    /// A file that is read while it is sent: as many bytes as it had when it was opened.
    File(File, u64),
}

impl Content {
    /// Size in bytes.
    pub fn length(&self) -> u64 {
        match self {
            Content::Made(bytes) => bytes.len() as u64,
            Content::File(_, length) => *length,
        }
    }
}

/// Maximum size; the page of a long trace has several MiB.
const LARGEST_PAGE: u64 = 64 << 20;

impl Answer {
    /// A short text.
    pub fn plain(status: u16, text: &str) -> Answer {
        Answer {
            status,
            kind: "text/plain; charset=utf-8",
            policy: None,
            content: Content::Made(text.as_bytes().to_vec()),
        }
    }

    fn of(kind: &'static str, content: impl Into<Vec<u8>>) -> Answer {
        Answer { status: 200, kind, policy: None, content: Content::Made(content.into()) }
    }

    /// The reason phrase of the status.
    pub fn reason(&self) -> &'static str {
        match self.status {
            200 => "OK",
            404 => "Not Found",
            405 => "Method Not Allowed",
            421 => "Misdirected Request",
            431 => "Request Header Fields Too Large",
            500 => "Internal Server Error",
            503 => "Service Unavailable",
            _ => "Bad Request",
        }
    }
}

/// The latest answers made from the board, with its version: requests in a loop get the same answer until the board changes.
#[derive(Debug, Default)]
pub struct Answered(Mutex<BTreeMap<&'static str, (u64, Arc<Answer>)>>);

impl Answered {
    /// The answer for this version; made once, while other requests for it wait.
    fn of(&self, path: &'static str, version: u64, make: impl FnOnce() -> Answer) -> Arc<Answer> {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match answers.get(path) {
            Some((of, answer)) if *of == version => Arc::clone(answer),
            _ => {
                let answer = Arc::new(make());
                answers.insert(path, (version, Arc::clone(&answer)));
                answer
            }
        }
    }
}

/// Paths with answers made from the board only.
const OF_THE_BOARD: [&str; 3] = ["/", "/metrics", "/episodes.json"];
/// The metrics in the older text format: not a path, but what is remembered of `/metrics` for those that do not ask for OpenMetrics.
const PLAIN_METRICS: &str = "/metrics as text";

/// The answer to a GET.
pub fn answer(head: &Head, site: &Site) -> Arc<Answer> {
    let published = site.board.read();
    let path = head.path.as_str();
    match OF_THE_BOARD.into_iter().find(|known| *known == path) {
        Some("/metrics") if !head.accepts_openmetrics => {
            site.answered.of(PLAIN_METRICS, published.version, || of_the_board(PLAIN_METRICS, published))
        }
        Some(known) => site.answered.of(known, published.version, || of_the_board(known, published)),
        None if path == "/healthz" => Arc::new(health(&published)),
        None => Arc::new(episode_page(path, site).unwrap_or_else(|| Answer::plain(404, "nothing is here\n"))),
    }
}

fn of_the_board(path: &str, published: Arc<Published>) -> Answer {
    match path {
        "/metrics" | PLAIN_METRICS => match metrics::text(published) {
            Ok(text) if path == PLAIN_METRICS => Answer::of(metrics::PLAIN_CONTENT_TYPE, metrics::plain(&text)),
            Ok(text) => Answer::of(metrics::CONTENT_TYPE, text),
            Err(_) => Answer::plain(500, "the metrics cannot be written\n"),
        },
        "/episodes.json" => {
            match serde_json::to_vec_pretty(&published.episodes.iter().map(AsRef::as_ref).collect::<Vec<&Episode>>()) {
                Ok(json) => Answer::of("application/json", json),
                Err(_) => Answer::plain(500, "the episodes cannot be written\n"),
            }
        }
        _ => live_page(&published),
    }
}

/// Healthy while readings succeed.
fn health(published: &Published) -> Answer {
    match (&published.reading, published.problems.get("engine")) {
        (Some(_), None) => Answer::plain(200, "ok\n"),
        (_, problem) => {
            let why = problem.map_or("no reading yet", String::as_str);
            Answer::plain(503, &format!("{}\n", unstarve_model::clean(why)))
        }
    }
}

/// `/episodes/ID/report.html`, and no other file of the store.
fn episode_page(path: &str, site: &Site) -> Option<Answer> {
    let (id, file) = path.strip_prefix("/episodes/")?.split_once('/')?;
    if !is_id(id) || file != PAGE {
        return None;
    }
    let directory = Directory::open(&site.store.join(id)).ok()?;
    let page = directory.file(OsStr::new(PAGE), How::Read).ok()?;
    let length = page.metadata().ok()?.len();
    // The page contains a policy of its own.
    let answer = |content| Answer { status: 200, kind: "text/html; charset=utf-8", policy: None, content };
    (length <= LARGEST_PAGE).then(|| answer(Content::File(page, length)))
}

fn live_page(published: &Published) -> Answer {
    let mut panels = vec![now(published)];
    panels.extend(workloads(published));
    panels.extend(hour(&published.history));
    panels.push(episodes(published));
    panels.extend(published.reading.as_deref().map(roles));
    let page = live::page(&headline(published), &notes(published), &panels);
    let policy = Some(live::policy());
    Answer { status: 200, kind: "text/html; charset=utf-8", policy, content: Content::Made(page.into_bytes()) }
}

/// Episodes of this last time are the page's heading while nothing worse is going on.
const RECENT: Nanos = Nanos::from_millis(60_000);

/// The worst starvation: one that goes on, else the latest episode. Not the task that waits longest: that may be the browser that looks.
fn headline(published: &Published) -> String {
    let Some(reading) = &published.reading else { return "No reading yet".to_owned() };
    let going_on = reading.oldest.iter().find_map(|wait| {
        let kind = |id| reading.role(id).map(|role| role.kind);
        let is_starved =
            kind(wait.occupant_role) == Some(RoleKind::RealTime) && kind(wait.role) != Some(RoleKind::RealTime);
        wait.occupant.filter(|_| is_starved).map(|by| (wait, by))
    });
    if let Some((wait, by)) = going_on {
        let task = |task: &TaskId| format!("{}[{}]", task.comm, task.tid.0);
        return format!("{} is starved by {} on CPU {}: {} so far", task(&wait.task), task(&by), wait.cpu.0, wait.ns);
    }
    let is_recent = |episode: &&Arc<Episode>| reading.at.wall.0.saturating_sub(episode.at_ns) < RECENT.0;
    match published.episodes.front().filter(is_recent) {
        Some(episode) => {
            let by = party(episode.culprit.as_ref(), None);
            let by = if by.is_empty() { String::new() } else { format!(" by {by}") };
            let time = episode.ns.map(|ns| format!(": {}", Nanos(ns))).unwrap_or_default();
            format!("{} was starved{by}{time}", party(episode.victim.as_ref(), episode.many_tasks()))
        }
        None => "Nobody is starved now".to_owned(),
    }
}

fn notes(published: &Published) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(reading) = &published.reading {
        notes.push(format!("{} · {} since {}", short(reading.at.wall), published.engine, short(reading.since.wall)));
    }
    notes.push(format!("flight recorder: {}", published.recorder.word()));
    notes.extend(published.problems.values().cloned());
    notes
}

/// `2026-11-23 01:23:45 UTC`.
pub(super) fn short(at: WallTime) -> String {
    let clock = at.clock();
    format!("{} {} UTC", at.date(), clock.split('.').next().unwrap_or(&clock))
}

/// Waits of the last seconds by victim and culprit.
fn now(published: &Published) -> Panel {
    let title = "Who keeps whom waiting now".to_owned();
    let (Some(reading), Some(before)) = (&published.reading, published.earlier.front()) else {
        return Panel { title, note: "no two readings yet".to_owned(), ..Panel::default() };
    };
    let span = reading.at.trace.since(before.at.trace);
    let rows = lately(reading, before).into_iter().take(12);
    let rows = rows.map(|(victim, occupant, rule, ns)| Row {
        cells: vec![
            victim,
            occupant,
            rule.word().to_owned(),
            ns.to_string(),
            // A sum over threads can exceed the time: how many threads wait on average cannot be misread.
            format!("{:.1}", ns.share_of(span)),
        ],
        hint: Some(rule.meaning().to_owned()),
        link: None,
    });
    Panel {
        title,
        note: format!(
            "Last {span}, summed over the threads of a role. Unfair waits come first, then fair turns and idle CPUs."
        ),
        columns: ["who waits", "who has the CPU", "rule", "wait time", "threads waiting"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
        ..Panel::default()
    }
}

/// Waits between two readings: first those with other tasks preferred, then the rest, each sorted longest first.
fn lately(reading: &Reading, before: &Reading) -> Vec<(String, String, Rule, Nanos)> {
    let name = |reading: &Reading, id| reading.role(id).map(Role::name);
    let old: std::collections::BTreeMap<(Option<String>, Option<String>, Rule), Nanos> = before
        .blame
        .iter()
        .map(|row| ((name(before, row.victim), name(before, row.occupant), row.rule), row.ns))
        .collect();
    let mut rows: Vec<(String, String, Rule, Nanos)> = reading
        .blame
        .iter()
        .filter_map(|row| {
            let key = (name(reading, row.victim), name(reading, row.occupant), row.rule);
            let ns = row.ns.saturating_sub(old.get(&key).copied().unwrap_or(Nanos(0)));
            Some((key.0?, key.1?, row.rule, ns)).filter(|_| ns.0 > 0)
        })
        .collect();
    rows.sort_by_key(|(.., rule, ns)| std::cmp::Reverse((is_precedence(*rule), *ns)));
    rows
}

/// Waits of the last seconds by pod and unit, those first that kept others waiting for longest.
fn workloads(published: &Published) -> Option<Panel> {
    let (reading, before) = (published.reading.as_ref()?, published.earlier.front()?);
    let span = reading.at.trace.since(before.at.trace);
    let old: BTreeMap<(&Place, u64), &WorkloadSums> =
        before.workloads.each.iter().map(|workload| ((&*workload.place, workload.number), &workload.sums)).collect();
    let rows = &published.workloads;
    let named: BTreeMap<&Place, String> = rows
        .victims
        .iter()
        .chain(&rows.culprits)
        .chain(&rows.throttled)
        .map(|row| (&row.name.place, row.name.word()))
        .collect();
    let new = |workload: &Workload| {
        let before = old.get(&(&*workload.place, workload.number)).copied().copied().unwrap_or_default();
        let name = named.get(&*workload.place).cloned().or_else(|| workload.place.word());
        (name.unwrap_or_default(), workload.sums.since(&before))
    };
    let is_much = |(_, sums): &(String, WorkloadSums)| sums.kept.max(sums.behind).max(sums.idle) > Nanos::ZERO;
    let mut rows: Vec<(String, WorkloadSums)> = reading.workloads.each.iter().map(new).filter(is_much).collect();
    rows.sort_by_key(|(_, sums)| std::cmp::Reverse((sums.kept.max(sums.behind.max(sums.idle)), sums.kept)));
    let count = rows.len();
    let row = |(name, sums): (String, WorkloadSums)| Row {
        cells: vec![name, sums.kept.to_string(), sums.behind.to_string(), sums.idle.to_string()],
        ..Row::default()
    };
    let more = if count > 12 { format!(" The first 12 of {count}.") } else { String::new() };
    (count > 0).then(|| Panel {
        title: "Pods and units".to_owned(),
        note: format!("Last {span}, waits that ended, summed over threads. A CPU limit stops a pod while the CPU is idle or others have it.{more}"),
        columns: ["pod or unit", "kept others waiting", "waited behind others", "waited while the CPU was idle"].map(str::to_owned).to_vec(),
        rows: rows.into_iter().take(12).map(row).collect(),
        ..Panel::default()
    })
}

/// What the names of roles mean. Names of cgroups need no explanation.
fn roles(reading: &Reading) -> Panel {
    let mut kinds: Vec<RoleKind> = RoleKind::FIXED.into_iter().chain([RoleKind::Group]).collect();
    kinds.sort_by_key(|kind| !kind.can_wait());
    let name = |kind: RoleKind| match kind {
        RoleKind::Group => {
            let first = reading.roles.iter().flatten().find(|role| role.kind == kind).map(Role::name);
            first.map_or_else(|| "/NAME".to_owned(), |name| format!("{name}, …"))
        }
        kind => kind.word().to_owned(),
    };
    let rows =
        kinds.into_iter().map(|kind| Row { cells: vec![name(kind), kind.meaning().to_owned()], ..Row::default() });
    Panel {
        title: "Roles".to_owned(),
        note: "Waits are summed by these.".to_owned(),
        columns: ["role", "tasks"].map(str::to_owned).to_vec(),
        rows: rows.collect(),
        ..Panel::default()
    }
}

fn episodes(published: &Published) -> Panel {
    let rows = published.episodes.iter().take(50).map(|episode| Row {
        cells: vec![
            short(WallTime(episode.at_ns)),
            party(episode.victim.as_ref(), episode.many_tasks()),
            party(episode.culprit.as_ref(), None),
            episode.rule.map(|rule| rule.to_string()).unwrap_or_default(),
            episode.ns.map(|ns| Nanos(ns).to_string()).unwrap_or_default(),
            match episode.stage {
                Stage::Begun if episode.expects_trace() => "being recorded".to_owned(),
                Stage::Begun | Stage::Complete | Stage::Ended => {
                    episode.counts_as().map_or("not explained", FindingId::as_str).to_owned()
                }
            },
        ],
        hint: episode.verdict.clone(),
        link: (episode.trace_of.as_ref().or(episode.trace_bytes.map(|_| &episode.id)))
            .filter(|id| is_id(id))
            .map(|id| Link { to: format!("/episodes/{id}/{PAGE}"), text: "report".to_owned() }),
    });
    let rows: Vec<Row> = rows.collect();
    let mut note = match rows.len() {
        0 => "none since the oldest that is kept".to_owned(),
        _ => "newest first".to_owned(),
    };
    if published.counts.not_kept > 0 {
        let _ = write!(note, "; {} without a line, too many at once", published.counts.not_kept);
    }
    Panel {
        title: "Episodes".to_owned(),
        note,
        columns: ["when", "who waited", "who had the CPU", "rule", "time", "finding", ""].map(str::to_owned).to_vec(),
        rows,
        ..Panel::default()
    }
}

fn party(party: Option<&Party>, tasks: Option<u32>) -> String {
    party.map_or_else(String::new, |party| of_party(party, tasks))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::reading::RoleKind;
    use crate::testing::{Scene, at};

    #[test]
    fn a_fair_turn_of_a_group_with_itself_does_not_come_first() {
        let scene = Scene::new().group("/a");
        let before = scene.reading(at(0));
        let scene = scene.blame_group("/a", "/a", Rule::Fair, 9_000).blame_group("/a", "idle", Rule::Idle, 8_000);
        let scene = scene.blame("kworker", RoleKind::RealTime, 5).blame_group("/a", "real-time", Rule::Class, 7);
        let rows = lately(&scene.reading(at(250)), &before);
        let order: Vec<(&str, &str)> = rows.iter().map(|row| (row.0.as_str(), row.2.word())).collect();
        assert_eq!(order, [("/a", "class"), ("kworker", "class"), ("/a", "fair"), ("/a", "idle")]);
    }

    #[test]
    fn the_heading_is_the_worst_starvation_and_not_who_waits_longest() {
        let mut published = Published::default();
        let scene = Scene::new().group("/a").lasts("/a", 77, "/a", 900_000_000);
        published.reading = Some(Arc::new(scene.reading(at(250))));
        assert_eq!(headline(&published), "Nobody is starved now");
        let now = published.reading.as_ref().map_or(0, |reading| reading.at.wall.0);
        let named = |comm: &str| Some(Party { comm: comm.to_owned(), ..Party::default() });
        let episode = Episode {
            at_ns: now - 5_000_000_000,
            victim: named("nfsd"),
            culprit: named("hog"),
            ns: Some(2_000_000_000),
            ..Episode::default()
        };
        published.list(Arc::new(episode));
        assert_eq!(headline(&published), "nfsd was starved by hog: 2.00 s");
        let scene = scene.lasts("ksoftirqd", 18, "real-time", 3_000_000);
        published.reading = Some(Arc::new(scene.reading(at(250))));
        assert_eq!(headline(&published), "ksoftirqd[18] is starved by hog[4711] on CPU 0: 3.00 ms so far");
    }

    #[test]
    fn an_answer_is_made_once_for_each_reading() {
        let (board, answered) = (crate::agent::board::Board::default(), Answered::default());
        let mut made = 0;
        let mut ask = |path| {
            answered.of(path, board.read().version, || {
                made += 1;
                Answer::plain(200, &made.to_string())
            })
        };
        let first = ask("/metrics");
        assert!(Arc::ptr_eq(&first, &ask("/metrics")) && !Arc::ptr_eq(&first, &ask("/")));
        board.write(|published| published.reading = Some(Arc::new(Scene::new().reading(at(0)))));
        assert!(matches!(&ask("/metrics").content, Content::Made(text) if text == b"3"));
        assert_eq!(made, 3);
    }

    #[test]
    fn every_role_has_a_legend_and_an_episode_without_a_finding_says_so() {
        let scene = Scene::new().group("/system.slice");
        let rows = roles(&scene.reading(at(0))).rows;
        assert_eq!(rows.len(), RoleKind::FIXED.len() + 1);
        assert!(rows.iter().any(|row| row.cells[0] == "/system.slice, …"), "{rows:?}");
        let mut published = Published::default();
        published.list(Arc::new(Episode::default()));
        assert_eq!(episodes(&published).rows[0].cells[5], "not explained");
    }

    #[test]
    fn episodes_are_newest_first_however_long_they_took_to_be_explained() {
        let mut published = Published::default();
        for second in [15, 51, 50, 52] {
            let at = WallTime(second * 1_000_000_000);
            published.list(Arc::new(Episode::begun(crate::episode::id_of(at), at)));
        }
        let times: Vec<String> = episodes(&published).rows.iter().map(|row| row.cells[0].clone()).collect();
        assert_eq!(times, [52, 51, 50, 15].map(|second| format!("1970-01-01 00:00:{second} UTC")));
    }
}
