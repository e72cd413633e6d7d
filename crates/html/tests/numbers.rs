//! What the page is given is what `explain` says, to the nanosecond; and every finding's worst wait can be looked at.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};

use base64::Engine;
use serde_json::Value;
use unstarve_diagnose::{Options, explain, explain_beside};
use unstarve_html::{Collector, Trace, html};

fn traces() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces");
    let mut list: Vec<PathBuf> = std::fs::read_dir(directory)
        .expect("testdata")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            path.extension().is_some_and(|name| ["dat", "txt", "pftrace"].iter().any(|known| name == *known))
        })
        .collect();
    list.sort();
    assert!(list.len() >= 10);
    list
}

fn page(path: &Path) -> String {
    let mut collector = Collector::default();
    let source = unstarve_readers::open(path).expect("a recording");
    let explained = explain_beside(source, &Options::default(), &mut collector, |_| ()).expect("an explanation");
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    html(vec![Trace::new(name, explained, collector)], "test").expect("a page")
}

/// The blob as the page's own program reads it.
struct Blob {
    json: Value,
    bytes: Vec<u8>,
    base: usize,
}

impl Blob {
    fn of(page: &str) -> Blob {
        let (_, rest) = page.split_once("id=\"data\">").expect("data");
        let (text, _) = rest.split_once("</script>").expect("its end");
        let zipped = base64::engine::general_purpose::STANDARD.decode(text).expect("base64");
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(zipped.as_slice()).read_to_end(&mut bytes).expect("gzip");
        let length = u32::from_le_bytes(bytes[..4].try_into().expect("four bytes")) as usize;
        let json = serde_json::from_slice(&bytes[4..4 + length]).expect("JSON");
        Blob { json, bytes, base: (4 + length).next_multiple_of(8) }
    }

    fn trace(&self) -> &Value {
        &self.json["traces"][0]
    }

    fn column(&self, column: &Value) -> Vec<f64> {
        let number = |name: &str| column[name].as_u64().expect("a number") as usize;
        let at = |size: usize| self.bytes[self.base + number("at")..].chunks_exact(size).take(number("n"));
        match column["$"].as_str().expect("a column") {
            "f64" => at(8).map(|b| f64::from_le_bytes(b.try_into().expect("eight"))).collect(),
            "u32" => at(4).map(|b| f64::from(u32::from_le_bytes(b.try_into().expect("four")))).collect(),
            "u16" => at(2).map(|b| f64::from(u16::from_le_bytes(b.try_into().expect("two")))).collect(),
            "u8" => at(1).map(|b| f64::from(b[0])).collect(),
            other => panic!("{other}"),
        }
    }
}

/// The report of the blob with its times on the trace's clock again.
fn on_the_clock(report: &Value, zero: u64) -> Value {
    fn shift(value: &mut Value, zero: u64) {
        match value {
            Value::Object(map) => {
                for (name, inner) in map {
                    match inner.as_u64().filter(|_| name == "start_ns" || name == "end_ns") {
                        Some(time) => *inner = (time + zero).into(),
                        None => shift(inner, zero),
                    }
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|inner| shift(inner, zero)),
            _ => {}
        }
    }
    let mut report = report.clone();
    shift(&mut report, zero);
    report
}

#[test]
fn the_page_says_what_explain_says() {
    for path in traces() {
        let source = unstarve_readers::open(&path).expect("a recording");
        let report = explain(source, &Options::default(), |_| ()).expect("an explanation");
        let blob = Blob::of(&page(&path));
        let trace = blob.trace();
        let zero: u64 = trace["zero"].as_str().and_then(|text| text.parse().ok()).expect("the trace's start");
        let expected = serde_json::to_value(&report).expect("JSON");
        assert_eq!(on_the_clock(&trace["report"], zero), expected, "{}", path.display());

        let blamed: f64 = blob.column(&trace["blame"]["ns"]).iter().sum();
        assert_eq!(blamed as u64, report.trace.waits_total_ns, "{}: blame adds up to all waits", path.display());
        let waited: f64 = blob.column(&trace["places"]["waited"]).iter().sum();
        assert_eq!(waited as u64, report.trace.waits_total_ns, "{}: so do the places", path.display());
        let everyone = &trace["courses"][0];
        assert_eq!(everyone["waits"], report.trace.waits_count, "{}", path.display());
        let counted: f64 = blob.column(&everyone["count"]).iter().sum();
        assert_eq!(counted as u64, report.trace.waits_count, "{}: each wait is in one interval", path.display());
    }
}

#[test]
fn each_finding_has_its_course_its_blame_and_its_worst_moment() {
    for path in traces() {
        let blob = Blob::of(&page(&path));
        let trace = blob.trace();
        let spots = &trace["moments"]["spots"];
        let starts = blob.column(&spots["start"]);
        let ends = blob.column(&spots["end"]);
        let blame = ["victim", "rule", "ns"].map(|name| blob.column(&trace["blame"][name]));
        for (index, finding) in trace["report"]["findings"].as_array().expect("findings").iter().enumerate() {
            let what = format!("{}: {}", path.display(), finding["id"]);
            let course = &trace["courses"][trace["findings"][index].as_u64().expect("a course") as usize];
            assert_eq!(course["waits"], finding["waits"]["count"], "{what}");
            assert_eq!(course["total_ns"], finding["waits"]["total_ns"], "{what}");
            assert_eq!(course["max_ns"], finding["waits"]["max_ns"], "{what}");
            let longest = blob.column(&course["max"]).into_iter().fold(0.0, f64::max);
            assert_eq!(longest as u64, course["max_ns"].as_u64().expect("ns"), "{what}");

            let victims: Vec<f64> =
                course["actors"].as_array().expect("actors").iter().filter_map(Value::as_f64).collect();
            let mut by_rule: BTreeMap<&str, u64> = BTreeMap::new();
            for ((victim, rule), ns) in blame[0].iter().zip(&blame[1]).zip(&blame[2]) {
                if victims.contains(victim) {
                    let word = trace["blame"]["rules"][*rule as usize].as_str().expect("a rule");
                    *by_rule.entry(word).or_default() += *ns as u64;
                }
            }
            let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
            for row in finding["blame"].as_array().expect("blame") {
                *expected.entry(row["rule"].as_str().expect("a rule")).or_default() += row["ns"].as_u64().expect("ns");
            }
            expected.retain(|_, ns| *ns > 0);
            assert_eq!(by_rule, expected, "{what}");

            let worst = &finding["worst"][0];
            let (start, end) = (worst["start_ns"].as_f64(), worst["end_ns"].as_f64());
            let shown = starts.iter().zip(&ends).any(|(a, b)| (Some(*a), Some(*b)) == (start, end));
            assert!(shown, "{what}: its worst wait is not among the moments");
        }
    }
}

#[test]
fn the_same_recording_makes_the_same_page() {
    let path = traces().into_iter().find(|path| path.ends_with("linux-5.10-net-rt.dat")).expect("the trace");
    assert!(page(&path) == page(&path));
}
