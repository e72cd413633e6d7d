//! Each kind of log is read, and spikes are compared with the waits of a real recording.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use unstarve_diagnose::report::Report;
use unstarve_diagnose::{Options, explain, explain_beside};
use unstarve_latency::{Align, Latency, Log, Watch};
use unstarve_model::Nanos;

/// A recording in which `ksoftirqd/1` waits 90 ms for a real-time task once a second.
fn trace() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces/linux-5.10-net-rt.dat")
}

fn report() -> Report {
    let source = unstarve_readers::open(&trace()).expect("testdata");
    explain(source, &Options::default(), |_| {}).expect("there are events")
}

fn watched(log: &str, align: Align, threshold: Option<Nanos>) -> Result<Latency, String> {
    let log = Log::read(log).map_err(|error| error.to_string())?;
    let mut watch = Watch::new("x.log".to_owned(), log, align, threshold);
    let source = unstarve_readers::open(&trace()).expect("testdata");
    explain_beside(source, &Options::default(), &mut watch, |_| {}).expect("there are events");
    watch.finish().map_err(|error| error.to_string())
}

/// Pings that take 50 µs every 10 ms, except for one that ends with the longest wait, and one during which nothing
/// waits.
fn pings(zero: u64) -> (String, u64, u64) {
    let report = report();
    let (start, worst) = (report.trace.start_ns, &report.worst_waits[0]);
    let mut lines: Vec<(u64, u64)> = (1..200).map(|i| (start + i * 10_000_000, 50_000)).collect();
    let felt = (worst.end_ns + 100_000, worst.end_ns + 100_000 - worst.start_ns);
    let own_fault = (start + 300_000_000, 60_000_000);
    lines.extend([felt, own_fault]);
    lines.sort_unstable();
    let text = lines.iter().map(|(end, latency)| format!("{},{latency}\n", end - start + zero)).collect::<String>();
    (format!("time_ns,latency_ns\n{text}"), felt.1, own_fault.1)
}

fn tells_felt_from_own(latency: &Latency, felt: u64, own: u64) {
    assert_eq!((latency.stats.count, latency.stats.max_ns), (201, felt));
    let at = |length| latency.spikes.iter().find(|spike| spike.latency_ns == length).expect("a spike");
    let wait = at(felt).wait.as_ref().expect("explained");
    assert_eq!((wait.victim.as_str(), wait.culprit.as_str(), wait.rule.as_str()), ("ksoftirqd/1", "wl", "class"));
    assert!(wait.ns > 85_000_000 && wait.usual_share < 0.2, "{wait:?}");
    assert_eq!(at(own).wait, None, "nothing waited for so long then");
}

#[test]
fn a_spike_that_is_a_wait_is_distinguished_from_one_that_is_not() {
    let threshold = Some(Nanos::from_millis(1));
    let (log, felt, own) = pings(report().trace.start_ns);
    tells_felt_from_own(&watched(&log, Align::Absolute, threshold).expect("on the same clock"), felt, own);
    // The same log on another clock, which begins 10 ms before its first line.
    let (log, felt, own) = pings(1_000_000_000_000);
    let refused = watched(&log, Align::Absolute, threshold).expect_err("other times");
    assert!(
        refused.contains("its times (1000.010 to 1001.990 s) do not overlap those of the trace (6.495 to 8.51"),
        "{refused}"
    );
    let shift = Align::First(9_950_000);
    tells_felt_from_own(&watched(&log, shift, threshold).expect("aligned"), felt, own);
}

/// fio's log counts from the start of the job, or is on a clock; its first latency shows which.
#[test]
fn a_fio_log_of_another_time_is_refused() {
    let ms = report().trace.start_ns / 1_000_000;
    let log = |zero: u64| (1..100).map(|i| format!("{}, 50000, 1, 4096, 0\n", zero + i)).collect::<String>();
    assert!(watched(&log(ms), Align::Absolute, None).is_ok(), "on the trace's clock");
    for zero in [0, ms + 3_000, ms + 900_000] {
        let refused = watched(&log(zero), Align::Absolute, None).expect_err("none of its times fits");
        assert!(refused.contains("do not overlap those of the trace (6.495 to 8.51"), "{refused}");
    }
}

#[test]
fn spikes_outside_the_recording_are_only_counted() {
    let start = report().trace.start_ns;
    // A hundred spikes of 20 ms after the recording's 2 s, two of 10 ms within it, and one of which a quarter is within
    // it.
    let after = (0..100).map(|i| (start + 3_000_000_000 + i * 100_000_000, 20_000_000));
    let within =
        [(start + 300_000_000, 10_000_000), (start + 700_000_000, 10_000_000), (start + 5_000_000, 20_000_000)];
    let lines: String = within.into_iter().chain(after).map(|(end, ns)| format!("{end},{ns}\n")).collect();
    let log = format!("time_ns,latency_ns\n{lines}");
    let latency = watched(&log, Align::Absolute, Some(Nanos::from_millis(1))).expect("some are within");
    assert_eq!((latency.spikes_found, latency.spikes_outside), (2, 101));
    assert!(latency.spikes.iter().all(|spike| spike.latency_ns == 10_000_000), "{:?}", latency.spikes);
}

#[test]
fn a_task_that_always_waits_explains_nothing() {
    // `wl` on CPU 0 waits from time to time for a millisecond or two; a spike of 2 s contains all of that.
    let start = report().trace.start_ns;
    let log = format!("time_ns,latency_ns\n{},2000000000\n{},10\n", start + 2_010_000_000, start + 2_010_000_000);
    let latency = watched(&log, Align::Absolute, None).expect("on the same clock");
    assert_eq!(latency.spikes.len(), 1);
    assert_eq!(latency.spikes[0].wait, None);
}

#[test]
fn fio_logs_are_read() {
    let log = Log::read("3, 3767235, 0, 4096, 0\n4, 189432, 0, 4096, 0\n4, 51847, 0, 4096, 0\n").expect("fio's");
    assert_eq!((log.format, log.stats.count, log.stats.max_ns), ("fio latency log", 3, 3_767_235));
    assert_eq!((log.span, log.zero), (Some((0, 5_000_000)), Some(0)), "times count from the job's beginning");
    let late = Log::read("4000, 1000000, 0, 4096, 0\n4005, 51847, 0, 4096, 0\n").expect("fio's");
    assert_eq!((late.span, late.zero), (Some((3_999_000_000, 4_006_000_000)), Some(0)), "the first latency came later");
    assert_eq!((log.worst[0].start, log.worst[0].end), (0, 4_000_000));
    let bad = Log::read("3, 3767235, 0, 4096, 0\nx, 1, 0, 4096, 0\n").expect_err("no number");
    assert!(bad.to_string().starts_with("line 2: \"x, 1, 0, 4096, 0\"; expected fio's"), "{bad}");
}

#[test]
fn fio_json_has_distributions_and_no_times() {
    let json = r#"{"fio version":"fio-3.33","jobs":[{"jobname":"t","read":{"clat_ns":{"min":1,"max":11683585,"mean":2.0,
        "N":20000,"percentile":{"50.000000":52000,"99.000000":230000}}},"write":{"clat_ns":{"N":0}},"trim":{}}]}"#;
    let log = Log::read(json).expect("fio's");
    assert_eq!((log.stats.count, log.stats.p50_ns, log.stats.max_ns), (20_000, Some(52_000), 11_683_585));
    let latency = watched(json, Align::Absolute, None).expect("nothing to align");
    assert_eq!((latency.aligned, latency.spikes.len()), (None, 0));
    assert_eq!(latency.threshold_ns, Some(230_000), "no less than the 99th percentile");
    // fio can be configured to omit percentiles: then there is no threshold for spikes.
    let bare = json.replace(r#","percentile":{"50.000000":52000,"99.000000":230000}"#, "");
    assert_eq!(watched(&bare, Align::Absolute, None).expect("nothing to align").threshold_ns, None);
    assert!(Log::read("{\"jobs\": 1}").is_err() && Log::read("{").is_err());
}

#[test]
fn hdr_histogram_logs_are_read() {
    let mut bytes = Vec::new();
    let mut serializer = V2DeflateSerializer::new();
    let mut writer = IntervalLogWriterBuilder::new()
        .with_start_time(SystemTime::UNIX_EPOCH)
        .begin_log_with(&mut bytes, &mut serializer)
        .expect("memory can be written");
    for (second, values) in [(0, [40_000, 50_000]), (1, [45_000, 90_000_000])] {
        let mut histogram = Histogram::<u64>::new(3).expect("three figures");
        values.into_iter().for_each(|value| histogram.record(value).expect("in range"));
        let start = Duration::from_secs(second);
        writer.write_histogram(&histogram, start, Duration::from_secs(1), None).expect("memory can be written");
    }
    let text = String::from_utf8(bytes).expect("text");
    let log = Log::read(&text).expect("a log");
    assert_eq!((log.format, log.stats.count, log.span), ("HdrHistogram log", 4, Some((0, 2_000_000_000))));
    let worst = log.worst[0];
    assert!((90_000_000..90_100_000).contains(&worst.latency.0), "{worst:?}");
    assert_eq!((worst.start, worst.end), (1_000_000_000, 2_000_000_000));
}

#[test]
fn csv_says_its_units() {
    let log = Log::read("time_s,op,latency_us\n1.5,read,250\n2,write,1000.5\n").expect("CSV");
    assert_eq!((log.stats.count, log.stats.max_ns, log.span), (2, 1_000_500, Some((1_499_750_000, 2_000_000_000))));
    let unitless = Log::read("time,value\n1,2\n").expect_err("which units?");
    assert!(unitless.to_string().contains("like `time_s,latency_us`"), "{unitless}");
    let bad = Log::read("time_s,latency_us\n1,2\n2,fast\n").expect_err("no number");
    assert_eq!(bad.to_string(), "line 3: \"fast\"; expected a number");
    for empty in ["", "time_s,latency_us\n", "hello", "\u{0}\u{1}"] {
        assert!(Log::read(empty).is_err(), "{empty:?}");
    }
}

/// No content causes a panic.
#[test]
fn damage_is_an_error() {
    let (log, ..) = pings(0);
    for cut in (0..log.len()).step_by(97) {
        let _ = Log::read(&log[..cut]);
    }
    for text in ["#[\n", "Tag=,\n", "#\n1,2,3,4\n", "0,0,0,0,", "18446744073709551615, 1, 0, 0, 0\n", "{\"jobs\":[{}]}"]
    {
        assert!(Log::read(text).is_err(), "{text:?}");
    }
}
