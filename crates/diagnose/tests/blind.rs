//! The recordings of bench/results/truth.md are judged as `bench/truth/truth.py` judges them; those that are told wrongly are known.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use unstarve_diagnose::report::{Finding, Report, Severity};
use unstarve_diagnose::{Options, explain};

#[derive(Clone, Debug, Default, Deserialize)]
struct Label {
    #[serde(default)]
    quiet: bool,
    #[serde(default)]
    or_quiet: bool,
    #[serde(default)]
    top: Vec<String>,
    #[serde(default)]
    victim: String,
    #[serde(default)]
    culprit: String,
    #[serde(default)]
    payer: String,
    #[serde(default)]
    not_victim: String,
}

fn at(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn labels() -> BTreeMap<String, Label> {
    let text = std::fs::read_to_string(at("bench/truth/truth.json")).expect("bench/truth/truth.json is readable");
    serde_json::from_str(&text).expect("truth.json has the expected shape")
}

/// `SCENARIO.KERNEL.TWIN` of every recording that is kept.
fn recordings() -> BTreeSet<String> {
    let files = std::fs::read_dir(at("testdata/truth")).expect("testdata/truth is there");
    let names = files.filter_map(|file| file.ok()?.file_name().into_string().ok());
    names.filter_map(|name| Some(name.strip_suffix(".dat.zst")?.to_owned())).collect()
}

fn label_of(name: &str, labels: &BTreeMap<String, Label>) -> Label {
    let (recording, twin) = name.rsplit_once('.').expect("a twin");
    let (scenario, _) = recording.split_once('.').expect("a kernel");
    let found = labels.get(name).or_else(|| labels.get(&format!("{scenario}.{twin}")));
    let healthy = (twin == "none").then(|| Label { quiet: true, ..Label::default() });
    found.cloned().or(healthy).unwrap_or_else(|| panic!("{name} has no label"))
}

/// The patterns of truth.json are alternatives between bars.
fn fits(pattern: &str, text: &str) -> bool {
    pattern.split('|').any(|part| text.contains(part))
}

fn mistake(label: &Label, report: &Report) -> Option<String> {
    let loud = || report.findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    let unwanted = loud().find(|finding| !label.not_victim.is_empty() && fits(&label.not_victim, &victim_of(finding)));
    if let Some(finding) = unwanted {
        return Some(format!("{} is a victim: {}", label.not_victim, finding.sentence));
    }
    match loud().next() {
        None => (!label.quiet && !label.or_quiet).then(|| "silent".to_owned()),
        Some(finding) if label.quiet => Some(format!("false alarm: {}", finding.sentence)),
        Some(finding) => mistake_in(label, finding),
    }
}

fn victim_of(finding: &Finding) -> String {
    format!("{} {}", finding.victim.kind, finding.victim.comm)
}

fn mistake_in(label: &Label, finding: &Finding) -> Option<String> {
    let victim = victim_of(finding);
    let culprit = label.culprit.is_empty() || finding.culprits.iter().any(|one| one.comm.contains(&label.culprit));
    let payer = label.payer.is_empty() || finding.price.iter().any(|one| fits(&label.payer, &one.comm));
    let right =
        label.top.iter().any(|id| id == finding.id.as_str()) && fits(&label.victim, &victim) && culprit && payer;
    (!right).then(|| format!("{} of {victim}: {}", finding.id, finding.sentence))
}

#[test]
fn what_was_told_rightly_once_is_told_rightly() {
    let (labels, recordings) = (labels(), recordings());
    let wrong = std::fs::read_to_string(at("testdata/truth/wrong.txt")).expect("testdata/truth/wrong.txt is readable");
    let wrong: BTreeSet<&str> = wrong.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let mut news: Vec<String> = wrong
        .iter()
        .filter(|name| !recordings.contains(**name))
        .map(|name| format!("{name} is in wrong.txt and nowhere else"))
        .collect();
    for name in &recordings {
        let source = unstarve_readers::open(&at(&format!("testdata/truth/{name}.dat.zst")))
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        let report = explain(source, &Options::default(), |_| {}).unwrap_or_else(|error| panic!("{name}: {error}"));
        match (mistake(&label_of(name, &labels), &report), wrong.contains(name.as_str())) {
            (Some(mistake), false) => news.push(format!("{name} was right, now: {mistake}")),
            (None, true) => news.push(format!("{name} is told rightly now: take it off testdata/truth/wrong.txt")),
            _ => {}
        }
    }
    assert!(news.is_empty(), "\n{}", news.join("\n"));
}
