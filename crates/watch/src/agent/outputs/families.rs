//! The watch's own metrics: each declared once, for OpenMetrics text and for OTLP.

use std::collections::BTreeMap;

use unstarve_model::{Nanos, clean};
use unstarve_sched::Rule;

use crate::agent::board::{Counts, Published, last_by_rule};
use crate::agent::pod_names::WorkloadName;
use crate::agent::workload_series::{WorkloadRow, WorkloadRows};
use crate::engine::reading::{Place, Reading, RoleKind, is_precedence};
use crate::episode::of_party;

/// A metric and its values.
pub struct Family {
    /// Name without prefix, unit and `total`: `store_errors`.
    pub name: &'static str,
    /// Description for people.
    pub help: &'static str,
    /// The unit of the values.
    pub unit: Option<Unit>,
    /// Counter or gauge.
    pub kind: Kind,
    /// One value for each combination of labels.
    pub rows: Rows,
}

/// Units of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
}

/// Kinds of metrics.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A sum since the start.
    Counter,
    /// The present value.
    Gauge,
}

/// Names and values of labels.
pub type Labels = Vec<(&'static str, String)>;
/// Values by their labels.
pub type Rows = Vec<(Labels, f64)>;

/// The metrics of a reading, if there is one, and those of the watch itself.
pub fn families(published: &Published) -> Vec<Family> {
    let mut families = published.reading.as_deref().map(of_reading).unwrap_or_default();
    families.extend(of_workloads(&published.workloads));
    families.extend(of_episodes(&published.counts));
    families.push(last_episodes(published));
    families.extend(of_watch(published));
    families
}

fn counter(name: &'static str, help: &'static str, rows: Rows) -> Family {
    Family { name, help, unit: None, kind: Kind::Counter, rows }
}

fn gauge(name: &'static str, help: &'static str, value: f64) -> Family {
    Family { name, help, unit: None, kind: Kind::Gauge, rows: one(value) }
}

fn one(value: f64) -> Rows {
    vec![(Vec::new(), value)]
}

fn seconds(ns: Nanos) -> f64 {
    ns.0 as f64 / 1e9
}

fn of_reading(reading: &Reading) -> Vec<Family> {
    let unit = Some(Unit::Seconds);
    let own = one(seconds(reading.cost.process));
    let mut families = vec![Family { unit, ..counter("watch_cpu", "CPU time of unstarve watch itself", own) }];
    if let Some(programs) = reading.cost.programs {
        let help = "Time in the BPF programs of unstarve watch; only while kernel.bpf_stats_enabled is 1";
        families.push(Family { unit, ..counter("watch_bpf", help, one(seconds(programs))) });
    }
    let lost = &reading.lost;
    let rows = [
        ("untracked_tasks", lost.untracked_tasks),
        ("events", lost.events),
        ("missing_switches", lost.missing_switches),
        ("disbelieved", lost.disbelieved),
    ];
    let rows = rows.into_iter().map(|(what, count)| (vec![("what", what.to_owned())], count as f64));
    families.push(counter("lost", "What could not be counted", rows.collect()));
    let help = "Groups that have no role of their own now";
    families.push(gauge("groups_in_other", help, lost.groups_in_other as f64));
    let total: u64 = reading.waits.iter().map(|waits| waits.waited.0).sum();
    let other = RoleKind::Other.fixed_id().and_then(|id| reading.waits.get(id.index()));
    if let Some(other) = other.filter(|_| total > 0) {
        let help = "Part of all waits that are counted as other, since the start";
        families.push(gauge("other_wait_ratio", help, other.waited.0 as f64 / total as f64));
    }
    families
}

/// Each row has the time behind others, behind its own threads, and of an idle CPU, if it has any.
const BEHIND: [&str; 3] = ["others", "itself", "idle"];

fn of_workloads(rows: &WorkloadRows) -> Vec<Family> {
    let unit = Some(Unit::Seconds);
    let labels = |label: &'static str, row: &WorkloadRow| -> Labels {
        let more = row.name.labels().map(|(name, value)| (name, clean(value).into_owned()));
        [(label, clean(&row.name.word()).into_owned())].into_iter().chain(more).collect()
    };
    let victims = rows.victims.iter().flat_map(|row| {
        let own = labels("victim", row);
        BEHIND.into_iter().zip(row.parts).map(move |(behind, ns)| {
            let labels = own.iter().cloned().chain([("behind", behind.to_owned())]).collect();
            (labels, seconds(Nanos(ns)))
        })
    });
    let sums = |label: &'static str, rows: &[WorkloadRow]| -> Rows {
        rows.iter().map(|row| (labels(label, row), seconds(Nanos(row.parts[0])))).collect()
    };
    let waits = "Finished waits for a CPU of the worst pods and units: behind others, behind their own threads, or of an idle CPU";
    let keeps = "For how long threads of others waited while those of this pod or unit had the CPU; finished waits";
    let stops = "For how long CPU limits stopped pods and units, summed over CPUs, by the kernel's counters";
    vec![
        Family { unit, ..counter("workload_wait", waits, victims.collect()) },
        Family { unit, ..counter("workload_kept_waiting", keeps, sums("culprit", &rows.culprits)) },
        Family { unit, ..counter("workload_throttled", stops, sums("victim", &rows.throttled)) },
    ]
}

/// The names of a pod that the metrics name at this time: who is starved, or starves others, is mostly among the worst.
fn pod_names<'a>(rows: &'a WorkloadRows, place: &Place) -> Option<&'a WorkloadName> {
    let uid = place.pod.as_ref()?;
    let rows = rows.culprits.iter().chain(&rows.victims).chain(&rows.throttled);
    let of_pod = rows.map(|row| row.name.as_ref()).filter(|name| name.place.pod.as_ref() == Some(uid));
    of_pod.max_by_key(|name| (name.place.container == place.container, name.pod.is_some()))
}

/// The labels of a victim or a culprit; `names` are those of uid, namespace, pod, container and unit.
fn place_labels(rows: &WorkloadRows, place: &Place, names: [&'static str; 5]) -> Labels {
    let pod = pod_names(rows, place);
    let container = pod.filter(|pod| pod.place.container == place.container).and_then(|pod| pod.container.as_ref());
    let values = [
        place.pod.as_ref(),
        pod.and_then(|pod| pod.namespace.as_ref()),
        pod.and_then(|pod| pod.pod.as_ref()),
        container.or(place.container.as_ref()),
        place.unit.as_ref(),
    ];
    names.into_iter().zip(values).filter_map(|(name, value)| Some((name, value?.clone()))).collect()
}

const VICTIM_LABELS: [&str; 5] =
    ["victim_pod_uid", "victim_pod_namespace", "victim_pod_name", "victim_pod_container", "victim_unit"];
const CULPRIT_LABELS: [&str; 5] =
    ["culprit_pod_uid", "culprit_pod_namespace", "culprit_pod_name", "culprit_pod_container", "culprit_unit"];

/// The latest episode of each rule, by names: what an alert says.
fn last_episodes(published: &Published) -> Family {
    let rows = last_by_rule(published).into_iter().map(|episode| {
        let rule = episode.began_by().map_or("unknown", Rule::word).to_owned();
        let mut labels = vec![("rule", rule), ("id", episode.id.clone())];
        let culprit = match (&episode.culprit, episode.rule) {
            (Some(culprit), _) => of_party(culprit, None),
            (None, Some(Rule::Throttled)) => "its CPU limit".to_owned(),
            (None, _) => "unknown tasks".to_owned(),
        };
        let victim = episode
            .victim
            .as_ref()
            .map_or_else(|| "unknown tasks".to_owned(), |victim| of_party(victim, episode.many_tasks()));
        labels.extend([("victim", victim), ("culprit", culprit)]);
        for (party, names) in [(&episode.victim, VICTIM_LABELS), (&episode.culprit, CULPRIT_LABELS)] {
            labels.extend(party.iter().flat_map(|party| place_labels(&published.workloads, &party.place, names)));
        }
        (labels.into_iter().map(|(name, value)| (name, clean(&value).into_owned())).collect(), 1.0)
    });
    let help = "The latest episode of each rule by which one began in the last 15 minutes; always 1";
    Family { rows: rows.collect(), ..gauge("last_episode_info", help, 1.0) }
}

fn of_episodes(counts: &Counts) -> Vec<Family> {
    let rows = counts.episodes.iter().map(|(finding, count)| (vec![("finding", finding.clone())], *count as f64));
    let mut families = vec![counter("episodes", "Episodes with a trace, by what explain found", rows.collect())];
    let help = "Episodes that have begun, by the rule that the counters saw; before anything explains them";
    families.push(counter("episodes_begun", help, begun(counts)));
    let help = "Episodes that were seen and have no line: too many began at once";
    families.push(counter("episodes_not_kept", help, one(counts.not_kept as f64)));
    let help = "Episodes that have a line and no trace: their culprit had one just before, or there were too many";
    families.push(counter("episodes_without_trace", help, one(counts.without_trace as f64)));
    families.push(counter("episodes_ended", "Episodes that are over", one(counts.ended as f64)));
    let rows = counts.suppressed.iter().map(|(role, count)| (vec![("victim", role.clone())], *count as f64));
    let help = "Victims without an episode of their own: one by the same culprit was open, or too many began";
    families.push(counter("episodes_suppressed", help, rows.collect()));
    let help = "Traces that begin after the wait they were kept for: events came too fast, or recording had just begun";
    families.push(counter("short_traces", help, one(counts.short_traces as f64)));
    if let Some(ns) = counts.to_disk_ns {
        let help = "From the first sight of the latest episode to its trace being on the disk";
        let unit = Some(Unit::Seconds);
        families.push(Family { unit, ..gauge("episode_to_disk", help, seconds(Nanos(ns))) });
    }
    families
}

/// All rules that can trigger an episode are listed from the start: an alert sees a counter grow, but not one that appears with value 1.
fn begun(counts: &Counts) -> Rows {
    let known = Rule::ALL.into_iter().filter(|rule| is_precedence(*rule) || *rule == Rule::Unknown);
    let mut all: BTreeMap<&str, u64> = known.map(|rule| (rule.word(), 0)).collect();
    all.extend(counts.begun.iter().map(|(rule, count)| (*rule, *count)));
    all.into_iter().map(|(rule, count)| (vec![("rule", rule.to_owned())], count as f64)).collect()
}

fn of_watch(published: &Published) -> Vec<Family> {
    let counts = &published.counts;
    let labels = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("engine", published.engine.to_owned()),
        ("recorder", published.recorder.word().to_owned()),
    ];
    let info = Family { rows: vec![(labels, 1.0)], ..gauge("watch_info", "This program; always 1", 1.0) };
    let help = "0 if the configuration that the latest SIGHUP was to bring has an error, and the one before holds";
    let is_in_force = counts.reload_refused != Some(true);
    let reloaded = gauge("config_last_reload_successful", help, f64::from(u8::from(is_in_force)));
    let rows = counts.undelivered.iter().map(|(to, count)| (vec![("output", (*to).to_owned())], *count as f64));
    let mut families = vec![
        info,
        reloaded,
        counter("store_errors", "Times that the store could not be written", one(counts.store_errors as f64)),
        counter("engine_errors", "Times that the engine could not be read", one(counts.engine_errors as f64)),
        counter("undelivered", "Episodes and pushes that an output did not get", rows.collect()),
    ];
    if let Some(kept) = counts.kept {
        families.push(gauge("store_episodes", "Episodes in the store", kept.episodes as f64));
        let unit = Some(Unit::Bytes);
        families.push(Family { unit, ..gauge("store", "Size of the store", kept.bytes as f64) });
    }
    families
}
