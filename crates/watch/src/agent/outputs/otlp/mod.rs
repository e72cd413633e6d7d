//! Pushes metrics to an OpenTelemetry collector: OTLP over HTTP, protobuf. Sums are sent as counted; waits are sent as exponential histograms with
//! the buckets in which they were counted.

mod proto;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use prost::Message as _;

use self::proto::{
    AnyValue, Buckets, Data, ExponentialHistogram, ExponentialPoint, Gauge, Histogram as PlainHistogram,
    HistogramPoint, KeyValue, Metric, Number, Request, Resource, ResourceMetrics, Scope, ScopeMetrics, Sum,
    Temporality,
};
use super::families::{Family, Kind, Unit, families};
use super::post::{agent, post};
use super::resource::attributes;
use super::{Delivery, Message, Output, OutputKind, Tried};
use crate::agent::board::Published;
use crate::agent::config::Otlp;
use crate::agent::series::{Named, blame_of, by_name};
use crate::engine::clocks;
use crate::engine::reading::{Histogram, Reading};

/// Entry in the list of outputs.
pub const KIND: OutputKind = OutputKind {
    name: "otlp",
    message: ["OTLP push", "OTLP pushes"],
    delivery: Delivery::Queued,
    takes: |message| matches!(message, Message::Metrics(_)),
    open: |config| {
        let settings = config.otlp.clone()?;
        Some(Arc::new(OtlpOutput { agent: agent(), settings }))
    },
};

struct OtlpOutput {
    agent: ureq::Agent,
    settings: Otlp,
}

impl Output for OtlpOutput {
    fn deliver(&self, message: &Message, within: Duration) -> Tried {
        let Message::Metrics(published) = message else { return Tried::Done };
        let Otlp { endpoint, headers, .. } = &self.settings;
        post(&self.agent, endpoint, "application/x-protobuf", headers, &request(published), within)
    }
}

/// Encodes a request.
pub fn request(published: &Published) -> Vec<u8> {
    let metrics = metrics(published);
    let scope = Scope { name: "unstarve".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() };
    let attributes = attributes(&published.machine).iter().map(|(key, value)| attribute(key, value)).collect();
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics }];
    let resource = Some(Resource { attributes });
    Request { resource_metrics: vec![ResourceMetrics { resource, scope_metrics }] }.encode_to_vec()
}

fn attribute(key: &str, value: &str) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(AnyValue { string_value: Some(value.to_owned()) }) }
}

fn metrics(published: &Published) -> Vec<Metric> {
    let reading = published.reading.as_deref();
    let mut metrics = reading.map(|reading| of_reading(reading, published)).unwrap_or_default();
    // The present time, so that failures since the last reading are included, even without any reading.
    let now = clocks::now().wall.0;
    // Must be constant: a start time that moves with each push would make each push a new counter, and the values would be added up.
    let since = published.started.or(reading.map(|reading| reading.since.wall)).map_or(now, |since| since.0.min(now));
    metrics.extend(families(published).into_iter().map(|family| of_family(family, since, now)));
    metrics
}

fn metric(name: &str, description: &str, unit: &str, data: Data) -> Metric {
    Metric { name: name.to_owned(), description: description.to_owned(), unit: unit.to_owned(), data: Some(data) }
}

fn sum(data_points: Vec<Number>) -> Data {
    Data::Sum(Sum { data_points, aggregation_temporality: Temporality::Cumulative.into(), is_monotonic: true })
}

fn gauge(data_points: Vec<Number>) -> Data {
    Data::Gauge(Gauge { data_points })
}

fn of_reading(reading: &Reading, published: &Published) -> Vec<Metric> {
    let names = by_name(reading);
    let by_victim = |of: &dyn Fn(&Named) -> f64| {
        gauge(names.iter().map(|(name, waits)| number(reading, of(waits), vec![attribute("victim", name)])).collect())
    };
    let (oldest, waiting) =
        (by_victim(&|waits| waits.oldest.as_secs_f64()), by_victim(&|waits| f64::from(waits.waiting)));
    let waits = match published.series.histograms {
        true => Data::ExponentialHistogram(waits(reading, &names)),
        false => Data::Histogram(counts(reading, &names)),
    };
    let blame = blame(reading, published);
    let blame = blame.map(|rows| metric("unstarve.blame", "Waits by what had the CPU and why", "s", sum(rows)));
    let mut metrics = vec![
        metric("unstarve.wait", "Waits for a CPU", "s", waits),
        metric("unstarve.oldest_wait", "The longest wait that lasts", "s", oldest),
        metric("unstarve.waiting_tasks", "Tasks that wait for a CPU now", "1", waiting),
    ];
    metrics.extend(blame);
    metrics
}

/// The name `store_errors` becomes `unstarve.store_errors`, `watch_cpu` becomes `unstarve.watch.cpu`.
fn of_family(family: Family, since: u64, now: u64) -> Metric {
    let name = match family.name.strip_prefix("watch_") {
        Some(rest) => format!("unstarve.watch.{rest}"),
        None => format!("unstarve.{}", family.name),
    };
    let points = family.rows.into_iter().map(|(labels, value)| Number {
        start_time_unix_nano: since,
        time_unix_nano: now,
        as_double: Some(value),
        attributes: labels.iter().map(|(key, value)| attribute(key, value)).collect(),
    });
    let points = points.collect();
    let unit = match family.unit {
        Some(Unit::Seconds) => "s",
        Some(Unit::Bytes) => "By",
        None => "1",
    };
    let data = match family.kind {
        Kind::Counter => sum(points),
        Kind::Gauge => gauge(points),
    };
    metric(&name, family.help, unit, data)
}

fn number(reading: &Reading, value: f64, attributes: Vec<KeyValue>) -> Number {
    Number {
        start_time_unix_nano: reading.since.wall.0,
        time_unix_nano: reading.at.wall.0,
        as_double: Some(value),
        attributes,
    }
}

fn waits(reading: &Reading, names: &BTreeMap<String, Named>) -> ExponentialHistogram {
    let points = names.iter().map(|(name, waits)| ExponentialPoint {
        attributes: vec![attribute("victim", name)],
        start_time_unix_nano: reading.since.wall.0,
        time_unix_nano: reading.at.wall.0,
        sum: Some(waits.waited.as_secs_f64()),
        ..exponential(&waits.histogram)
    });
    ExponentialHistogram { data_points: points.collect(), aggregation_temporality: Temporality::Cumulative.into() }
}

/// Waits without buckets: their number and their sum.
fn counts(reading: &Reading, names: &BTreeMap<String, Named>) -> PlainHistogram {
    let points = names.iter().map(|(name, waits)| HistogramPoint {
        attributes: vec![attribute("victim", name)],
        start_time_unix_nano: reading.since.wall.0,
        time_unix_nano: reading.at.wall.0,
        count: waits.histogram.count(),
        sum: Some(waits.waited.as_secs_f64()),
    });
    PlainHistogram { data_points: points.collect(), aggregation_temporality: Temporality::Cumulative.into() }
}

/// Bucket `i` of OTLP at scale 2 holds (2^(i/4), 2^((i+1)/4)]: its index is one less than that of the native histogram's bucket.
fn exponential(histogram: &Histogram) -> ExponentialPoint {
    let mut point =
        ExponentialPoint { scale: Histogram::SCHEMA, count: histogram.count(), ..ExponentialPoint::default() };
    let mut counts: Vec<(i32, u64)> = Vec::new();
    let mut above = 0;
    for bucket in histogram.buckets() {
        match bucket.index {
            Some(index) => counts.push((index - 1, bucket.count)),
            None if bucket.from == 0.0 => {
                point.zero_count = bucket.count;
                point.zero_threshold = bucket.to;
            }
            None => above = bucket.count,
        }
    }
    // Waits longer than all steps are in the next bucket.
    if above > 0 {
        counts.push((LAST + 1, above));
    }
    if let (Some((first, _)), Some((last, _))) = (counts.first().copied(), counts.last().copied()) {
        let mut bucket_counts = vec![0; usize::try_from(last - first + 1).unwrap_or_default()];
        for (index, count) in counts {
            bucket_counts[usize::try_from(index - first).unwrap_or_default()] += count;
        }
        point.positive = Some(Buckets { offset: first, bucket_counts });
    }
    point
}

/// The bucket that ends at 2^6 s.
const LAST: i32 = 23;

fn blame(reading: &Reading, published: &Published) -> Option<Vec<Number>> {
    let rows = blame_of(published)?.into_iter().map(|((victim, occupant, rule), ns)| {
        let attributes =
            vec![attribute("victim", &victim), attribute("occupant", &occupant), attribute("rule", rule.word())];
        number(reading, ns.as_secs_f64(), attributes)
    });
    Some(rows.collect())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use unstarve_model::Nanos;

    use super::*;
    use crate::agent::board::Board;
    use crate::agent::config::{Blame, SeriesLimits};
    use crate::engine::reading::RoleKind;
    use crate::testing::{Scene, at};

    #[test]
    fn every_wait_is_in_a_bucket_around_it() {
        let mut histogram = Histogram::new();
        let lengths = [500, 1_000, 1_500, 85_000_000, 1_000_000_001, 200_000_000_000];
        for ns in lengths {
            histogram.add(Nanos(ns), 1);
        }
        let point = exponential(&histogram);
        let buckets = point.positive.expect("buckets");
        assert_eq!(point.zero_count + buckets.bucket_counts.iter().sum::<u64>(), point.count);
        assert_eq!(point.count, lengths.len() as u64);
        for ns in &lengths[1..5] {
            let seconds = *ns as f64 / 1e9;
            let index = (seconds.log2() * 4.0).floor() as i32;
            let at = usize::try_from(index - buckets.offset).expect("within");
            assert!(buckets.bucket_counts[at] > 0, "{ns}: {index} of {buckets:?}");
        }
    }

    #[test]
    fn no_two_points_of_a_metric_have_the_same_attributes() {
        // Two groups with the same name after escaping, and more combinations than can have series of their own.
        let (raw, literal) = ("/a\u{1b}", "/a\\u{1b}");
        let mut scene = Scene::new().group(raw).group(literal);
        for group in [raw, literal] {
            scene = scene.blame(group, RoleKind::RealTime, 2_000_000_000).wait(group, 2_000_000_000);
            scene = scene.blame_group("other", group, unstarve_sched::Rule::Class, 1_000_000_000);
        }
        let reading = scene.reading(at(1));
        let board = Board::default();
        board.write(|published| {
            published.admitted = Arc::new(published.admitted.next(&reading).unwrap_or_default());
            published.reading = Some(Arc::new(reading));
        });
        let request = Request::decode(request(&board.read()).as_slice()).expect("it decodes");
        let metrics = &request.resource_metrics[0].scope_metrics[0].metrics;
        let names: BTreeSet<&str> = metrics.iter().map(|metric| metric.name.as_str()).collect();
        assert_eq!(names.len(), metrics.len(), "one metric for each name");
        for metric in metrics {
            let attributes: Vec<String> = match metric.data.as_ref().expect("data") {
                Data::Sum(sum) => sum.data_points.iter().map(|point| format!("{:?}", point.attributes)).collect(),
                Data::Gauge(gauge) => gauge.data_points.iter().map(|point| format!("{:?}", point.attributes)).collect(),
                Data::Histogram(waits) => {
                    waits.data_points.iter().map(|point| format!("{:?}", point.attributes)).collect()
                }
                Data::ExponentialHistogram(waits) => {
                    waits.data_points.iter().map(|point| format!("{:?}", point.attributes)).collect()
                }
            };
            let distinct: BTreeSet<&String> = attributes.iter().collect();
            assert_eq!(distinct.len(), attributes.len(), "{}: {attributes:?}", metric.name);
        }
        let blame = metrics.iter().find(|metric| metric.name == "unstarve.blame").expect("blame");
        let Some(Data::Sum(sum)) = &blame.data else { panic!("a sum") };
        let total: f64 = sum.data_points.iter().filter_map(|point| point.as_double).sum();
        assert!((total - 6.0).abs() < 1e-9, "{sum:?}");
    }

    #[test]
    fn what_the_configuration_leaves_out_is_not_pushed() {
        let reading = Arc::new(Scene::new().blame("kworker", RoleKind::RealTime, 7).wait("kworker", 7).reading(at(1)));
        let pushed = |blame: Blame, histograms: bool| -> Vec<(String, &'static str)> {
            let board = Board::default();
            board.write(|published| {
                published.series = SeriesLimits { blame, histograms, workloads: 0 };
                published.reading = Some(Arc::clone(&reading));
            });
            let kind = |data: Option<Data>| match data.expect("data") {
                Data::Histogram(waits) => {
                    assert!(waits.data_points.iter().any(|point| point.count == 1 && point.sum == Some(7e-9)));
                    "histogram"
                }
                Data::ExponentialHistogram(_) => "exponential",
                Data::Sum(_) | Data::Gauge(_) => "",
            };
            let named = ["unstarve.wait", "unstarve.blame"];
            let metrics = metrics(&board.read()).into_iter().filter(|metric| named.contains(&metric.name.as_str()));
            metrics.map(|metric| (metric.name, kind(metric.data))).collect()
        };
        let (wait, blame) = ("unstarve.wait".to_owned(), ("unstarve.blame".to_owned(), ""));
        assert_eq!(pushed(Blame::All, true), [(wait.clone(), "exponential"), blame.clone()]);
        assert_eq!(pushed(Blame::Worst(3), false), [(wait.clone(), "histogram"), blame]);
        assert_eq!(pushed(Blame::Off, false), [(wait, "histogram")]);
    }

    #[test]
    fn a_counter_has_one_beginning_before_and_after_the_first_reading() {
        let board = Board::default();
        board.write(|published| {
            published.started = Some(at(0).wall);
            published.counts.engine_errors = 3;
        });
        let starts = || starts_of_errors(&board.read());
        let before = starts();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert_eq!(starts(), before, "it does not move on");
        board.write(|published| published.reading = Some(Arc::new(Scene::new().reading(at(1)))));
        assert_eq!(starts(), before);
        assert_eq!(before, BTreeSet::from([at(0).wall.0]));
    }

    /// Start times of the counters that are independent of readings.
    fn starts_of_errors(published: &Published) -> BTreeSet<u64> {
        let request = Request::decode(request(published).as_slice()).expect("it decodes");
        let metrics = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
        let metrics = metrics.flat_map(|scope| scope.metrics).filter(|metric| metric.name.ends_with("_errors"));
        let points = metrics.flat_map(|metric| match metric.data.expect("data") {
            Data::Sum(sum) => sum.data_points,
            Data::Gauge(_) | Data::Histogram(_) | Data::ExponentialHistogram(_) => Vec::new(),
        });
        points.map(|point| point.start_time_unix_nano).collect()
    }

    #[test]
    fn a_collector_hears_that_the_watch_is_blind() {
        let board = Board::default();
        board.write(|published| {
            let counts = &mut published.counts;
            (counts.engine_errors, counts.store_errors, counts.short_traces, counts.not_kept) = (3, 4, 5, 6);
            counts.reload_refused = Some(true);
            counts.suppress("/a");
            counts.undelivered.insert("webhook", 7);
        });
        let pushed = || -> std::collections::BTreeMap<String, Vec<f64>> {
            let request = Request::decode(request(&board.read()).as_slice()).expect("it decodes");
            let metrics = request.resource_metrics.into_iter().flat_map(|resource| resource.scope_metrics);
            let metrics = metrics.flat_map(|scope| scope.metrics);
            let points = |metric: Metric| {
                let points = match metric.data.expect("data") {
                    Data::Sum(sum) => sum.data_points,
                    Data::Gauge(gauge) => gauge.data_points,
                    Data::Histogram(_) | Data::ExponentialHistogram(_) => Vec::new(),
                };
                assert!(points.iter().all(|point| point.time_unix_nano >= point.start_time_unix_nano));
                (metric.name, points.iter().filter_map(|point| point.as_double).collect())
            };
            metrics.map(points).collect()
        };
        // Before the first reading.
        let metrics = pushed();
        for (name, value) in [
            ("unstarve.engine_errors", 3.0),
            ("unstarve.store_errors", 4.0),
            ("unstarve.short_traces", 5.0),
            ("unstarve.episodes_not_kept", 6.0),
            ("unstarve.episodes_suppressed", 1.0),
            ("unstarve.undelivered", 7.0),
            ("unstarve.config_last_reload_successful", 0.0),
            ("unstarve.watch.info", 1.0),
        ] {
            assert_eq!(metrics.get(name), Some(&vec![value]), "{name}");
        }
        let mut reading = Scene::new().reading(at(1));
        reading.lost.events = 9;
        board.write(|published| published.reading = Some(Arc::new(reading)));
        let metrics = pushed();
        assert!(metrics["unstarve.lost"].contains(&9.0), "{metrics:?}");
        for name in ["unstarve.groups_in_other", "unstarve.watch.cpu", "unstarve.waiting_tasks", "unstarve.oldest_wait"]
        {
            assert!(metrics.contains_key(name), "{name}");
        }
    }
}
