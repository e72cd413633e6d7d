//! Writes the rows and files of the intervals.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use unstarve_diagnose::report::FindingId;
use unstarve_model::{CpuSet, Severity, WallTime, clean};
use unstarve_sched::Rule;
use unstarve_tables::{
    BLAME_ROLLUP, Cell, EPISODES, HOSTS, Limits, Partition, Rows, Schema, Shelf, TableError, WAIT_ROLLUP, parquet_file,
    part_name,
};

use super::Work;
use super::interval::{BlameRow, Interval, Sums, WaitRow};
use crate::agent::board::Board;
use crate::agent::config::Tables;
use crate::agent::machine::{self, Machine};
use crate::agent::store::TRACE;
use crate::engine::error_chain;
use crate::engine::reading::RoleKind;
use crate::episode::{EndReason, Episode, Party};

/// How often old or excess files are removed: all directories are read for that.
const TRIM_EVERY: Duration = Duration::from_secs(600);

/// Maximum episodes that wait to be written.
const MOST_PENDING: usize = 4096;

/// Description of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Host {
    name: String,
    machine_id: Option<String>,
    boot: Option<String>,
    kernel: String,
    version: String,
    machine: String,
    labels: Option<String>,
}

struct Writer {
    shelf: Shelf,
    limits: Limits,
    host: Host,
    /// The directory of episodes.
    store: PathBuf,
    /// The hour of the host's last row.
    hour: Option<Partition>,
    /// The sums up to which rows are written.
    last: Option<Sums>,
    /// Episodes that are not written yet.
    pending: Vec<Arc<Episode>>,
    trimmed: Option<Instant>,
}

/// Opens the directory and starts the thread that writes into it.
pub(super) fn start(
    config: &Tables,
    store: &Path,
    board: Arc<Board>,
) -> Result<(Sender<Work>, JoinHandle<()>), String> {
    let shelf = Shelf::open(&config.directory).map_err(|error| error_chain(&error))?;
    let limits = Limits { bytes: config.mib.saturating_mul(1 << 20), age: config.age.0 };
    let writer = Writer::new(shelf, limits, Host::here(&board.read().machine), store);
    let (work, jobs) = channel();
    let thread = std::thread::Builder::new().name("unstarve-tables".into());
    let thread =
        thread.spawn(move || writer.run(&jobs, &board)).map_err(|error| format!("cannot start a thread: {error}"))?;
    Ok((work, thread))
}

impl Host {
    fn here(machine: &Machine) -> Host {
        let uname = rustix::system::uname();
        Host {
            name: machine.host(),
            machine_id: machine.machine_id.clone(),
            boot: machine::boot_id(),
            kernel: machine::kernel(),
            version: machine::text(uname.version()),
            machine: machine::text(uname.machine()),
            labels: words(&machine.labels),
        }
    }

    /// The name of a file that starts at this time.
    fn part(&self, at: WallTime) -> String {
        let boot = self.boot.as_deref().unwrap_or("unknown");
        part_name(&[&self.name, boot.split('-').next().unwrap_or(boot), &at.0.to_string()])
    }
}

/// Labels in one cell.
fn words(labels: &BTreeMap<String, String>) -> Option<String> {
    let words: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    (!words.is_empty()).then(|| words.join(","))
}

impl Writer {
    fn new(shelf: Shelf, limits: Limits, host: Host, store: &Path) -> Writer {
        let (pending, store) = (Vec::new(), store.to_owned());
        Writer { shelf, limits, host, store, hour: None, last: None, pending, trimmed: None }
    }

    fn run(mut self, jobs: &Receiver<Work>, board: &Board) {
        for work in jobs {
            // Cloud images get their name after the start.
            self.is_called(Host::here(&board.read().machine));
            match self.write(&work) {
                Ok(()) => board.write(|published| drop(published.problems.remove("tables"))),
                Err(why) => board.write(|published| {
                    published.counts.store_errors += 1;
                    published.problems.insert("tables", format!("tables: {why}"));
                }),
            }
        }
    }

    /// The host under its present names gets a row of its own.
    fn is_called(&mut self, host: Host) {
        if host != self.host {
            (self.host, self.hour) = (host, None);
        }
    }

    /// Writes all that can be written; what fails is included in the next interval. Returns the first error.
    fn write(&mut self, work: &Work) -> Result<(), String> {
        // First, because the disk may be full.
        let trimmed = self.trim(work.now.wall());
        let last = self.last.as_ref().unwrap_or(&work.begun);
        let interval = last.until(&work.now);
        let sums = self.sums(&interval);
        if sums.is_ok() {
            self.last = Some(work.now.clone());
        }
        let episodes = self.episodes(work);
        if sums.is_err() || episodes.is_err() {
            self.trimmed = None;
        }
        trimmed.and(sums).and(episodes)
    }

    fn trim(&mut self, now: WallTime) -> Result<(), String> {
        if self.trimmed.is_some_and(|trimmed| trimmed.elapsed() < TRIM_EVERY) {
            return Ok(());
        }
        self.shelf.trim(self.limits, now).map_err(|error| error_chain(&error))?;
        self.trimmed = Some(Instant::now());
        Ok(())
    }

    /// Writes the rows of an interval. If an interval is written again with a later end, the rows replace those written before.
    fn sums(&mut self, interval: &Interval) -> Result<(), String> {
        let Interval { at, waits, blame, .. } = interval;
        let part = self.host.part(*at);
        let hour = Partition::of(HOSTS.name, *at);
        if self.hour.as_ref() != Some(&hour) {
            self.put(&HOSTS, *at, &part, |out| out.row(&self.host_row(*at)))?;
            self.hour = Some(hour);
        }
        // At least one row: otherwise an hour without waits would look like an hour without a watch.
        let calm = [WaitRow::of(RoleKind::Unknown.word(), RoleKind::Unknown)];
        let rows = if waits.is_empty() { &calm[..] } else { waits };
        self.put(&WAIT_ROLLUP, *at, &part, |out| rows.iter().try_for_each(|row| self.wait(out, interval, row)))?;
        if !blame.is_empty() {
            let row = |out: &mut dyn Rows, row| out.row(&self.blame(interval, row));
            self.put(&BLAME_ROLLUP, *at, &part, |out| blame.iter().try_for_each(|blame| row(out, blame)))?;
        }
        Ok(())
    }

    /// Writes the episodes that are not written yet, each to a file of its own. Those that cannot be written are tried again in the next interval.
    fn episodes(&mut self, work: &Work) -> Result<(), String> {
        self.pending.extend(work.episodes.iter().cloned());
        let lost = self.pending.len().saturating_sub(MOST_PENDING);
        self.pending.drain(..lost);
        let mut all = match lost {
            0 => Ok(()),
            lost => Err(format!("{lost} episodes are lost, because none could be written for long")),
        };
        for episode in std::mem::take(&mut self.pending) {
            if let Err(why) = self.episode(&episode, work.now.wall()) {
                self.pending.push(episode);
                all = all.and(Err(why));
            }
        }
        all
    }

    fn put(
        &self,
        schema: &Schema,
        at: WallTime,
        part: &str,
        fill: impl FnOnce(&mut dyn Rows) -> Result<(), TableError>,
    ) -> Result<(), String> {
        let bytes = parquet_file(schema, fill).map_err(|error| error_chain(&error))?;
        self.shelf.put(&Partition::of(schema.name, at), part, &bytes).map_err(|error| error_chain(&error))
    }

    fn host_row(&self, at: WallTime) -> [Cell<'_>; 11] {
        let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
        let cpus = online.and_then(|list| list.trim().parse::<CpuSet>().ok()).map(|cpus| cpus.len() as u64);
        [
            Cell::Text(&self.host.name),
            Cell::text(self.host.machine_id.as_deref()),
            Cell::text(self.host.boot.as_deref()),
            at.0.into(),
            Cell::Text(&self.host.kernel),
            Cell::Text(&self.host.version),
            Cell::Text(&self.host.machine),
            Cell::number(cpus),
            Cell::text(self.host.labels.as_deref()),
            Cell::Empty,
            Cell::Text(env!("CARGO_PKG_VERSION")),
        ]
    }

    /// The columns at the start of each row of an interval.
    fn begin(&self, interval: &Interval) -> [Cell<'_>; 5] {
        let [machine_id, boot] = [&self.host.machine_id, &self.host.boot].map(|id| Cell::text(id.as_deref()));
        [Cell::Text(&self.host.name), machine_id, boot, interval.at.0.into(), interval.span.0.into()]
    }

    /// The columns at the end.
    fn end(&self) -> [Cell<'_>; 2] {
        [Cell::Text(&self.host.kernel), Cell::text(self.host.labels.as_deref())]
    }

    fn wait(&self, out: &mut dyn Rows, interval: &Interval, row: &WaitRow) -> Result<(), TableError> {
        let steps = row.histogram.steps();
        let filled = steps.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        let longest = row.histogram.buckets().last().map(|bucket| bucket.to).filter(|bound| bound.is_finite());
        let cells = [
            Cell::Text(&row.role),
            Cell::Text(row.kind.word()),
            Cell::text(row.role.starts_with('/').then_some(row.role.as_str())),
            row.count.into(),
            row.ns.into(),
            Cell::number(longest.map(|seconds| (seconds * 1e9).ceil() as u64)),
            Cell::Counts(&steps[..filled]),
        ];
        out.row(&[&self.begin(interval)[..], &cells, &self.end()].concat())
    }

    fn blame<'a>(&'a self, interval: &Interval, row: &'a BlameRow) -> Vec<Cell<'a>> {
        let cells = [
            Cell::Text(&row.victim),
            Cell::Text(row.kind.word()),
            Cell::Text(&row.occupant),
            Cell::Text(row.rule),
            row.ns.into(),
        ];
        [&self.begin(interval)[..], &cells, &self.end()].concat()
    }

    /// Each episode has a file of its own, so that it is there once, however often a watch restarts.
    fn episode(&self, episode: &Episode, now: WallTime) -> Result<(), String> {
        let at = WallTime(episode.at_ns);
        let part = part_name(&[self.host_of(episode), &episode.id]);
        let age = u64::try_from(self.limits.age.as_nanos()).unwrap_or(u64::MAX);
        if at.0.saturating_add(age) < now.0 || self.shelf.has(&Partition::of(EPISODES.name, at), &part) {
            return Ok(());
        }
        self.put(&EPISODES, at, &part, |out| self.episode_row(out, episode))
    }

    fn episode_row(&self, out: &mut dyn Rows, episode: &Episode) -> Result<(), TableError> {
        let trace = self.trace_of(episode);
        let party = |party: &'_ Option<Party>| party.clone().unwrap_or_default();
        let (victim, culprit) = (party(&episode.victim), party(&episode.culprit));
        let named = |party: &Option<Party>| {
            party.as_ref().filter(|party| !party.comm.is_empty()).map(|party| clean(&party.comm).into_owned())
        };
        let (victim_name, culprit_name) = (named(&episode.victim), named(&episode.culprit));
        let labels = self.labels_of(episode);
        let cells = [
            Cell::Text(&episode.id),
            Cell::Text(self.host_of(episode)),
            Cell::text(episode.machine_id.as_ref().or(self.host.machine_id.as_ref()).map(String::as_str)),
            episode.at_ns.into(),
            Cell::text(episode.finding.as_ref().map(FindingId::as_str)),
            Cell::text(episode.severity.map(Severity::word)),
            Cell::text(victim_name.as_deref()),
            Cell::text(victim.role.as_deref()),
            Cell::text(victim.cgroup.as_deref()),
            Cell::text(culprit_name.as_deref()),
            Cell::text(culprit.role.as_deref()),
            Cell::text(culprit.cgroup.as_deref()),
            Cell::text(episode.rule.map(Rule::word)),
            Cell::number(episode.ns),
            (episode.victims.len() as u64 + episode.more_victims).into(),
            Cell::text(episode.remedy.as_ref().map(|remedy| remedy.id.as_str())),
            Cell::text(episode.verdict.as_deref()),
            Cell::text(trace.as_deref()),
            Cell::number(episode.trace_bytes),
            Cell::text(episode.problem.as_deref()),
            // From the episode, which may be of another boot than the present one.
            Cell::text(episode.kernel.as_deref()),
            Cell::text(labels.as_deref()),
            Cell::number(episode.ended_at_ns),
            Cell::text(episode.ended_by.map(EndReason::word)),
            Cell::number(episode.duration_ns),
            Cell::number(episode.total_ns),
            Cell::number(episode.waited_ns),
            Cell::text(episode.continued_as.as_deref()),
        ];
        out.row(&cells)
    }

    /// What the host was called when the episode began: a restart under another name writes none of the log again.
    fn host_of<'a>(&'a self, episode: &'a Episode) -> &'a str {
        episode.host.as_deref().unwrap_or(&self.host.name)
    }

    /// The labels of its time. Of an episode without the machine's id it is not known whether there were any.
    fn labels_of(&self, episode: &Episode) -> Option<String> {
        let own = words(&episode.labels);
        if episode.machine_id.is_some() { own } else { own.or_else(|| self.host.labels.clone()) }
    }

    /// The location of an episode's trace.
    fn trace_of(&self, episode: &Episode) -> Option<String> {
        let id = match (&episode.trace_of, episode.trace_bytes) {
            (Some(other), _) => other,
            (None, Some(_)) => &episode.id,
            (None, None) => return None,
        };
        Some(format!("file://{}{}", self.host_of(episode), self.store.join(id).join(TRACE).display()))
    }
}

#[cfg(test)]
#[path = "write_tests.rs"]
mod tests;
