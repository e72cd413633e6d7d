//! The table of metrics in docs/metrics.md is made from what is served.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use super::http::metrics;
use crate::agent::board::{Board, RecorderState};
use crate::agent::machine::Machine;
use crate::agent::pod_names::PodNames;
use crate::agent::store::Kept;
use crate::agent::workload_series::WorkloadSeries;
use crate::engine::reading::{RoleKind, place_of};
use crate::episode::{Episode, Party, Place, Seen, Trigger};
use crate::testing::{Scene, at};

const MADE: &str =
    "<!-- made by UNSTARVE_WRITE=1 cargo test -p unstarve-watch --lib table_of_metrics: do not edit below -->\n";
const END: &str = "<!-- end of the table -->\n";
pub(super) const VICTIM: &str = "/kubepods/burstable/pod1a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f";
pub(super) const CULPRIT: &str = "/system.slice/batch.service";

/// A board on which every metric has a value.
pub(super) fn full_board() -> Arc<Board> {
    let logs = tempfile::tempdir().expect("a directory");
    let uid = "1a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f";
    std::fs::create_dir_all(logs.path().join(format!("pods/shop_payments-0_{uid}"))).expect("made");
    let mut series = WorkloadSeries::new(20, PodNames::below(logs.path()));
    let mut scene = Scene::new().group("/kubepods").blame("/kubepods", RoleKind::RealTime, 7).wait("/kubepods", 7);
    for second in [0, 11, 22] {
        scene = scene.workloads(VICTIM, CULPRIT, 2_000_000_000).stopped(VICTIM, 0.2, 1_000_000_000);
        series.see(&scene.reading(at(second * 1_000)));
    }
    let reading = Arc::new(scene.reading(at(22_000)));
    let party = |path: &str, comm: &str| Party {
        comm: comm.to_owned(),
        tid: Some(12),
        place: place_of(path),
        ..Party::default()
    };
    let victim = Party {
        place: Place { container: Some("4f4f4f4f4f4f".into()), ..place_of(VICTIM) },
        ..party(VICTIM, "payments")
    };
    let unit = party(CULPRIT, "cruncher");
    let rule = Some(unstarve_sched::Rule::Class);
    let seen = Seen {
        trigger: Trigger::Wait { ns: 50_000_000, threshold_ns: 20_000_000 },
        since_mono_ns: None,
        victim: None,
        culprit: None,
        rule,
        blamed_ns: None,
    };
    let episode = Episode {
        victim: Some(victim.clone()),
        culprit: Some(unit.clone()),
        rule,
        trigger: Some(seen),
        ..Episode::begun("20261123-012345-678".into(), at(20_000).wall)
    };
    let weight = Some(unstarve_sched::Rule::Weight);
    let other = Episode {
        victim: Some(unit),
        culprit: Some(victim),
        rule: weight,
        trigger: episode.trigger.clone().map(|seen| Seen { rule: weight, ..seen }),
        ..Episode::begun("20261123-012345-679".into(), at(20_001).wall)
    };
    let board = Arc::new(Board::default());
    let machine_id = Some("0123456789abcdef0123456789abcdef".to_owned());
    let machine = Machine { named: Some("web1".to_owned()), machine_id, ..Machine::default() };
    board.write(|published| {
        published.machine = Arc::new(machine);
        published.engine = "eBPF";
        published.recorder = RecorderState::Recording;
        published.admitted = Arc::new(published.admitted.next(&reading).unwrap_or_default());
        published.workloads = Arc::new(series.rows());
        published.reading = Some(Arc::clone(&reading));
        published.list(Arc::new(episode));
        published.list(Arc::new(other));
        published.counts.episodes.insert("rt-starvation".to_owned(), 2);
        published.counts.suppress("/kubepods");
        published.counts.undelivered.insert("webhook", 1);
        published.counts.to_disk_ns = Some(1);
        published.counts.kept = Some(Kept::default());
    });
    board
}

struct Metric {
    kind: String,
    help: String,
    labels: BTreeSet<String>,
}

/// Each metric as it is queried: a counter's name ends in `_total`.
fn served(text: &str) -> BTreeMap<String, Metric> {
    let mut all: BTreeMap<String, Metric> = BTreeMap::new();
    for line in text.lines() {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["#", word @ ("HELP" | "TYPE"), family, rest] => {
                let metric = all.entry((*family).to_owned()).or_insert_with(|| Metric {
                    kind: String::new(),
                    help: String::new(),
                    labels: BTreeSet::new(),
                });
                let of = if *word == "HELP" { &mut metric.help } else { &mut metric.kind };
                *of = rest.trim_end_matches('.').to_owned();
            }
            _ => {
                let Some((name, labels)) = line.split_once('{') else { continue };
                let family =
                    ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
                let Some(metric) = all.get_mut(family) else { continue };
                let labels = labels.split("=\"").filter_map(|part| part.rsplit(['{', ',']).next());
                let is_name = |label: &&str| {
                    !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_')
                };
                metric.labels.extend(labels.filter(is_name).filter(|label| *label != "le").map(str::to_owned));
            }
        }
    }
    all
}

#[test]
fn the_table_of_metrics_is_that_of_the_page() {
    let text = metrics::plain(&metrics::text(full_board().read()).expect("a text"));
    let mut table = String::from("\n| metric | kind | labels | what |\n|---|---|---|---|\n");
    for (name, metric) in served(&text) {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        table +=
            &format!("| `{name}` | {} | {} | {} |\n", metric.kind, labels.join(", "), metric.help.replace('|', "\\|"));
    }
    table.push('\n');
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let stored = std::fs::read_to_string(&page).expect("the page");
    let (head, rest) = stored.split_once(MADE).expect("the mark before the table");
    let (old, tail) = rest.split_once(END).expect("the mark behind the table");
    if std::env::var_os("UNSTARVE_WRITE").is_some() {
        std::fs::write(&page, format!("{head}{MADE}{table}{END}{tail}")).expect("written");
        return;
    }
    assert_eq!(
        old, table,
        "the metrics changed: UNSTARVE_WRITE=1 cargo test -p unstarve-watch --lib table_of_metrics writes the table"
    );
}

#[test]
fn a_pod_is_named_by_who_waited_who_had_the_cpu_and_what_its_limit_took() {
    let text = metrics::text(full_board().read()).expect("a text");
    let value = |parts: &[&str]| -> f64 {
        let found = text.lines().find(|line| parts.iter().all(|part| line.contains(part)));
        found.and_then(|line| line.rsplit_once(' ')?.1.parse().ok()).unwrap_or_else(|| panic!("{parts:?}: {text}"))
    };
    let pod = "pod_uid=\"1a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f\"";
    // What was before it had a name is in `other`.
    assert_eq!(value(&["unstarve_workload_wait_seconds_total{", pod, "behind=\"others\""]), 2.0);
    assert_eq!(value(&["unstarve_workload_wait_seconds_total{victim=\"other\",behind=\"others\""]), 4.0);
    assert_eq!(
        value(&["unstarve_workload_kept_waiting_seconds_total{culprit=\"batch.service\",unit=\"batch.service\""]),
        2.0
    );
    assert_eq!(value(&["unstarve_workload_throttled_seconds_total{", pod]), 1.0);
    let last = [
        "unstarve_last_episode_info{rule=\"class\"",
        "id=\"20261123-012345-678\"",
        "culprit=\"cruncher[12] · batch.service\"",
        "culprit_unit=\"batch.service\"",
        "victim_pod_uid=",
        "victim_pod_namespace=\"shop\"",
        "victim_pod_name=\"payments-0\"",
        "victim_pod_container=\"4f4f4f4f4f4f\"",
    ];
    assert_eq!(value(&last), 1.0);
}
