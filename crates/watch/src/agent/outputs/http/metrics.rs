//! Writes the metrics as OpenMetrics text.
//!
//! The text format has no native histograms; OTLP sends the same waits as exponential histograms ([`crate::agent::outputs::otlp`]).

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::agent::board::Published;
use crate::agent::outputs::families::{self, Family, Kind, Labels, Rows, families};
use crate::agent::outputs::resource::target_labels;
use crate::agent::series::{Named, blame_of, by_name};
use crate::engine::reading::{Histogram, Reading};

/// The MIME type.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The MIME type of the older text format.
pub const PLAIN_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Upper bounds of the classic buckets as powers of two of a second: 3.8 µs, 15 µs, 61 µs, 0.24 ms, … 4 s, 16 s.
const BOUNDS: [i32; 12] = [-18, -16, -14, -12, -10, -8, -6, -4, -2, 0, 2, 4];

/// All metrics of the board.
pub fn text(published: Arc<Published>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    // OpenMetrics wants it before all others.
    let help =
        "What this machine is called: its name, its machine-id (hashed), and the labels of the configuration; always 1";
    registry.register("target", help, Info::new(target_labels(&published.machine)));
    registry.sub_registry_with_prefix("unstarve").register_collector(Box::new(Snapshot(published)));
    let mut text = String::with_capacity(16 << 10);
    encode(&mut text, &registry)?;
    Ok(text)
}

/// OpenMetrics text in the older text format, for those that do not ask for OpenMetrics: there the family of a counter or an info has the
/// name of its series, an info is a gauge, and units and the end are not stated.
pub fn plain(openmetrics: &str) -> String {
    let suffixes: BTreeMap<&str, &str> = openmetrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .filter_map(|(family, kind)| match kind {
            "counter" => Some((family, "_total")),
            "info" => Some((family, "_info")),
            _ => None,
        })
        .collect();
    let mut text = String::with_capacity(openmetrics.len());
    for line in openmetrics.lines().filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        match words.as_slice() {
            ["#", word @ ("HELP" | "TYPE"), family, rest] if suffixes.contains_key(family) => {
                let rest = if (*word, *rest) == ("TYPE", "info") { "gauge" } else { rest };
                text.push_str(&format!("# {word} {family}{} {rest}", suffixes[family]));
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}

#[derive(Debug)]
struct Snapshot(Arc<Published>);

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let out = &mut Out(&mut encoder);
        let published = &*self.0;
        if let Some(reading) = &published.reading {
            waits(out, reading, published.series.histograms)?;
            blame(out, published)?;
        }
        families(published).iter().try_for_each(|family| out.family(family))
    }
}

struct Out<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Out<'_, '_> {
    fn counters(&mut self, name: &str, help: &str, unit: Option<&Unit>, rows: &Rows) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Counter)?;
        if let [(labels, value)] = rows.as_slice()
            && labels.is_empty()
        {
            return ConstCounter::new(*value).encode(family);
        }
        rows.iter().try_for_each(|(labels, value)| one(&mut family, labels, &ConstCounter::new(*value)))
    }

    fn gauges(&mut self, name: &str, help: &str, unit: Option<&Unit>, rows: &Rows) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help, unit, MetricType::Gauge)?;
        if let [(labels, value)] = rows.as_slice()
            && labels.is_empty()
        {
            return ConstGauge::new(*value).encode(family);
        }
        rows.iter().try_for_each(|(labels, value)| one(&mut family, labels, &ConstGauge::new(*value)))
    }

    fn family(&mut self, family: &Family) -> fmt::Result {
        let unit = family.unit.map(|unit| match unit {
            families::Unit::Seconds => Unit::Seconds,
            families::Unit::Bytes => Unit::Bytes,
        });
        match family.kind {
            Kind::Counter => self.counters(family.name, family.help, unit.as_ref(), &family.rows),
            Kind::Gauge => self.gauges(family.name, family.help, unit.as_ref(), &family.rows),
        }
    }
}

fn one(family: &mut MetricEncoder<'_>, labels: &Labels, metric: &impl EncodeMetric) -> fmt::Result {
    metric.encode(family.encode_family(labels)?)
}

fn waits(out: &mut Out<'_, '_>, reading: &Reading, with_buckets: bool) -> fmt::Result {
    let names = by_name(reading);
    let help = "Waits for a CPU by what waited; the sum counts waits that have not ended, too";
    let mut family = out.0.encode_descriptor("wait", help, Some(&Unit::Seconds), MetricType::Histogram)?;
    for (name, waits) in &names {
        let labels = vec![("victim", name.clone())];
        // The bucket of all waits is there in any case: a histogram has it.
        let all = [(f64::INFINITY, waits.histogram.count())];
        let buckets = if with_buckets { classic(&waits.histogram) } else { all.to_vec() };
        let mut metric = family.encode_family(&labels)?;
        let sum = waits.waited.as_secs_f64();
        metric.encode_histogram::<NoLabelSet>(sum, waits.histogram.count(), &buckets, None)?;
    }
    let rows = |of: &dyn Fn(&Named) -> f64| -> Rows {
        names.iter().map(|(name, waits)| (vec![("victim", name.clone())], of(waits))).collect()
    };
    let waiting = rows(&|waits| f64::from(waits.waiting));
    out.gauges("waiting_tasks", "Tasks that wait for a CPU now", None, &waiting)?;
    let help = "The longest wait that has not ended; 0 where none lasts long enough to be looked at";
    out.gauges("oldest_wait", help, Some(&Unit::Seconds), &rows(&|waits| waits.oldest.as_secs_f64()))
}

/// Counts by upper bound; the encoder makes them cumulative.
fn classic(histogram: &Histogram) -> Vec<(f64, u64)> {
    let mut buckets: Vec<(f64, u64)> = BOUNDS.iter().map(|power| (f64::from(*power).exp2(), 0)).collect();
    buckets.push((f64::INFINITY, 0));
    for step in histogram.buckets() {
        let fits = |bound: f64| step.to <= bound * (1.0 + 1e-9);
        if let Some((_, count)) = buckets.iter_mut().find(|(bound, _)| fits(*bound)) {
            *count += step.count;
        }
    }
    buckets
}

fn blame(out: &mut Out<'_, '_>, published: &Published) -> fmt::Result {
    let Some(rows) = blame_of(published) else { return Ok(()) };
    let rows = rows.into_iter().map(|((victim, occupant, rule), ns)| {
        (vec![("victim", victim), ("occupant", occupant), ("rule", rule.word().to_owned())], ns.as_secs_f64())
    });
    let help =
        "Waits for a CPU by what waited, what had the CPU meanwhile and why; for each victim the sum of its waits";
    out.counters("blame", help, Some(&Unit::Seconds), &rows.collect())
}

#[cfg(test)]
mod tests {
    use unstarve_model::Nanos;
    use unstarve_sched::Rule;

    use super::*;
    use crate::agent::board::Board;
    use crate::agent::config::{Blame, Metrics, Preset, SeriesLimits};
    use crate::agent::machine::Machine;
    use crate::agent::pod_names::PodNames;
    use crate::agent::series::WorstBlame;
    use crate::agent::workload_series::WorkloadSeries;
    use crate::engine::reading::RoleKind;
    use crate::testing::{Scene, at};

    fn published(reading: Reading) -> Arc<Published> {
        let board = Board::default();
        board.write(|published| {
            published.admitted = Arc::new(published.admitted.next(&reading).unwrap_or_default());
            published.reading = Some(Arc::new(reading));
        });
        board.read()
    }

    #[test]
    fn names_are_escaped_and_each_series_is_there_once() {
        let scene =
            Scene::new().group("/a\"b\\c\n{x=\"y\"} 1").blame("/a\"b\\c\n{x=\"y\"} 1", RoleKind::RealTime, 7_000);
        let text = text(published(scene.reading(at(1)))).expect("a text");
        assert!(text.contains(r#"unstarve_blame_seconds_total{victim="/a\"b\\c\\n{x=\"y\"} 1",occupant="real-time",rule="class"} 7e-6"#) ||
            text.contains(r#"unstarve_blame_seconds_total{victim="/a\"b\\c\\n{x=\"y\"} 1",occupant="real-time",rule="class"} 0.000007"#), "{text}");
        let mut lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        let count = lines.len();
        lines.sort_unstable_by_key(|line| line.rsplit_once(' ').map(|(series, _)| series.to_owned()));
        lines.dedup_by_key(|line| line.rsplit_once(' ').map(|(series, _)| series.to_owned()));
        assert_eq!(lines.len(), count, "{text}");
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn groups_whose_cleaned_names_are_equal_are_one_series() {
        let (raw, literal) = ("/a\u{1b}", "/a\\u{1b}");
        let mut scene = Scene::new().group(raw).group(literal);
        for group in [raw, literal] {
            scene = scene.blame(group, RoleKind::RealTime, 2_000_000_000).wait(group, 2_000_000_000);
        }
        let text = text(published(scene.reading(at(1)))).expect("a text");
        let series = |name: &str| -> Vec<f64> {
            let lines = text.lines().filter(|line| line.starts_with(name) && line.contains("victim=\"/a"));
            lines.filter_map(|line| line.rsplit_once(' ')?.1.parse().ok()).collect()
        };
        assert_eq!(series("unstarve_wait_seconds_count{"), [2.0], "{text}");
        assert_eq!(series("unstarve_wait_seconds_sum{"), [4.0], "{text}");
        assert_eq!(series("unstarve_blame_seconds_total{"), [4.0], "{text}");
        assert_eq!((series("unstarve_oldest_wait_seconds{").len(), series("unstarve_waiting_tasks{").len()), (1, 1));
    }

    /// A counter that appears with its first episode has not grown, so that an alert misses it.
    #[test]
    fn every_rule_that_may_begin_an_episode_is_counted_from_the_start() {
        let board = Board::default();
        let begun = || -> Vec<String> {
            let text = text(board.read()).expect("a text");
            let lines = text.lines().filter_map(|line| line.strip_prefix("unstarve_episodes_begun_total{rule="));
            lines.map(str::to_owned).collect()
        };
        let before = begun();
        let is_there = |rule: &str| before.contains(&format!("\"{rule}\"}} 0.0"));
        assert!(["class", "weight", "throttled", "unknown"].into_iter().all(is_there), "{before:?}");
        assert!(!is_there("fair") && !is_there("idle"), "no episode begins by these: {before:?}");
        board.write(|published| published.counts.begun.extend([("class", 2)]));
        let after = begun();
        assert!(after.contains(&"\"class\"} 2.0".to_owned()) && after.len() == before.len(), "{after:?}");
    }

    #[test]
    fn victims_without_an_episode_are_counted_by_role_and_bounded() {
        let board = Board::default();
        board.write(|published| {
            (0..100).for_each(|number| published.counts.suppress(&format!("/g{number}")));
            published.counts.suppress("/g0");
        });
        let text = text(board.read()).expect("a text");
        let lines = text.lines().filter(|line| line.starts_with("unstarve_episodes_suppressed_total{"));
        assert_eq!(lines.count(), 65);
        assert!(text.contains("unstarve_episodes_suppressed_total{victim=\"/g0\"} 2"), "{text}");
        assert!(text.contains("unstarve_episodes_suppressed_total{victim=\"rest\"} 36"), "{text}");
    }

    #[test]
    fn series_are_bounded_and_sums_stay() {
        let mut scene = Scene::new();
        let groups: Vec<String> = (0..20).map(|number| format!("/g{number}")).collect();
        for group in &groups {
            scene = scene.group(group);
        }
        let mut total = 0;
        for victim in &groups {
            for occupant in &groups {
                for rule in Rule::ALL {
                    scene = scene.blame_group(victim, occupant, rule, 1_000_000_000);
                    total += 1;
                }
            }
        }
        let text = text(published(scene.reading(at(1)))).expect("a text");
        let lines = text.lines().filter(|line| !line.starts_with('#')).count();
        assert!(lines <= 2000, "{lines}");
        let blame = text.lines().filter(|line| line.starts_with("unstarve_blame_seconds_total{"));
        let sum: f64 = blame.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum();
        assert!((sum - f64::from(total)).abs() < 1e-6, "{sum} of {total}: what has no series is in `rest`");
    }

    /// What is published after half a minute in which the sums grow by steps.
    fn grown(series: SeriesLimits, mut scene: Scene, step: impl Fn(Scene) -> Scene) -> Board {
        let mut workloads = WorkloadSeries::new(series.workloads as usize, PodNames::default());
        let mut worst = WorstBlame::default();
        let board = Board::default();
        for second in [0, 5, 11, 22] {
            scene = step(scene);
            let reading = Arc::new(scene.reading(at(second * 1_000)));
            workloads.see(&reading);
            let rows = worst.see(&reading, if let Blame::Worst(limit) = series.blame { limit } else { 1 });
            board.write(|published| {
                published.series = series;
                published.workloads = Arc::new(workloads.rows());
                published.worst_blame = Arc::new(rows.unwrap_or_default());
                if let Some(admitted) = published.admitted.next(&reading) {
                    published.admitted = Arc::new(admitted);
                }
                published.reading = Some(reading);
            });
        }
        board
    }

    fn pods(mut scene: Scene, count: u32) -> Scene {
        let pod = |number: u32| format!("/kubepods/pod{number:08x}-0a1b-0a1b-0a1b-0a1b2c3d4e5f");
        for number in 0..count {
            scene = scene.workloads(&pod(number), &pod(number + 1), 20_000_000).stopped(&pod(number), 0.2, 20_000_000);
        }
        scene
    }

    /// The most that there can be: as many groups as have roles, which keep each other waiting by every rule, many pods, every kind of count.
    fn crowded(series: SeriesLimits) -> Arc<Published> {
        let groups: Vec<String> = (0..19).map(|number| format!("/g{number}")).collect();
        let scene = groups.iter().fold(Scene::new().group("/kubepods"), |scene, group| scene.group(group));
        let board = grown(series, scene, |mut scene| {
            for (victim, occupant) in groups.iter().flat_map(|one| groups.iter().map(move |other| (one, other))) {
                for rule in Rule::ALL {
                    scene = scene.blame_group(victim, occupant, rule, 1_000_000_000);
                }
            }
            pods(scene, 120)
        });
        board.write(|published| {
            (0..100).for_each(|number| published.counts.suppress(&format!("/g{number}")));
            published.counts.kept = Some(crate::agent::store::Kept::default());
            published.counts.to_disk_ns = Some(1);
        });
        board.read()
    }

    fn series_in(text: &str) -> usize {
        text.lines().filter(|line| !line.starts_with('#')).count()
    }

    /// The figures of docs/metrics.md.
    #[test]
    fn each_key_bounds_the_series() {
        let full = SeriesLimits::default();
        let thin = Metrics { preset: Preset::Thin, ..Metrics::default() }.limits();
        let none = SeriesLimits { blame: Blame::Off, histograms: false, workloads: 0 };
        let count = |series: SeriesLimits, name: &str| {
            let text = text(crowded(series)).expect("a text");
            text.lines().filter(|line| line.starts_with(name)).count()
        };
        let blame = "unstarve_blame_seconds_total{";
        assert_eq!(count(none, blame), 0);
        assert_eq!(count(thin, blame), 10 + Rule::ALL.len());
        assert!(count(full, blame) >= 1_200, "{}", count(full, blame));
        let (waits, bucket) = ("unstarve_wait_seconds_count{", "unstarve_wait_seconds_bucket{");
        assert_eq!(count(thin, bucket), count(thin, waits), "the bucket of all alone");
        assert_eq!(count(full, bucket), count(full, waits) * 13);
        for (series, named) in [(none, 0), (thin, 5), (full, 20)] {
            assert_eq!(count(series, "unstarve_workload_throttled_seconds_total{"), named + 1);
        }
        let all = |series| series_in(&text(crowded(series)).expect("a text"));
        let (full, thin, none) = (all(full), all(thin), all(none));
        assert!(full <= 2_120 && thin <= MOST_THIN && none < thin, "full {full}, thin {thin}, all off {none}");
    }

    /// As documented: the most, and what a host has whose programs are in three groups.
    const MOST_THIN: usize = 340;
    const USUAL_THIN: usize = 150;

    #[test]
    fn a_usual_host_has_few_series_if_thin() {
        let groups = ["/system.slice", "/user.slice", "/kubepods"];
        let victims = ["ksoftirqd", "direct-io", "kworker", "rcu", "storage", "real-time"];
        let scene = groups.iter().fold(Scene::new(), |scene, group| scene.group(group));
        let thin = Metrics { preset: Preset::Thin, ..Metrics::default() }.limits();
        let board = grown(thin, scene, |mut scene| {
            for victim in victims.iter().chain(&groups) {
                scene = scene.wait(victim, 1_000_000).blame(victim, RoleKind::RealTime, 1_000_000_000);
                for (occupant, rule) in groups
                    .iter()
                    .flat_map(|group| [Rule::Fair, Rule::Weight, Rule::WakeupPreemption].map(|rule| (group, rule)))
                {
                    scene = scene.blame_group(victim, occupant, rule, 100_000_000);
                }
            }
            pods(scene, 30)
        });
        let text = text(board.read()).expect("a text");
        let count = series_in(&text);
        assert!((USUAL_THIN - 30..=USUAL_THIN).contains(&count), "{count}: {text}");
    }

    #[test]
    fn what_the_machine_is_called_comes_first_in_both_formats() {
        let board = Board::default();
        let machine = Machine {
            named: Some("web\"1".into()),
            labels: [("topology.zone".to_owned(), "a".to_owned())].into(),
            ..Machine::default()
        };
        board.write(|published| published.machine = Arc::new(machine));
        let text = text(board.read()).expect("a text");
        let row = format!(
            "target_info{{service_version=\"{}\",host_name=\"web\\\"1\",topology_zone=\"a\"}} 1\n",
            env!("CARGO_PKG_VERSION")
        );
        assert!(text.starts_with("# HELP target ") && text.contains("# TYPE target info\n"), "{text}");
        assert!(text.contains(&row), "{text}");
        let plain = plain(&text);
        assert!(plain.starts_with("# HELP target_info ") && plain.contains("# TYPE target_info gauge\n"), "{plain}");
        assert!(plain.contains(&row), "{plain}");
    }

    #[test]
    fn classic_buckets_end_at_powers_of_two_and_hold_all_waits() {
        let mut histogram = Histogram::new();
        for ns in [100, 3_000, 50_000_000, 62_400_000, 62_600_000, 90_000_000_000] {
            histogram.add(Nanos(ns), 1);
        }
        let buckets = classic(&histogram);
        assert_eq!(buckets.iter().map(|(_, count)| count).sum::<u64>(), 6);
        let up_to = |power: i32| {
            buckets
                .iter()
                .take_while(|(bound, _)| *bound <= f64::from(power).exp2())
                .map(|(_, count)| count)
                .sum::<u64>()
        };
        assert_eq!((up_to(-18), up_to(-4), up_to(-2), up_to(4)), (2, 4, 5, 5));
    }
}
