//! The first screen of `explain` on every stored recording: its length, its last lines, and nothing twice.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use insta::assert_snapshot;
use unicode_width::UnicodeWidthStr;
use unstarve_change::Change;
use unstarve_diagnose::report::{Remedy, Report, Scope, Severity};
use unstarve_diagnose::{Options, explain};
use unstarve_term::{Charset, Colours, Look, first_screen};

fn look(columns: usize) -> Look {
    Look::new(columns, Charset::Utf8, Colours::Plain)
}

/// All recordings of testdata/ that can be read, with their names.
pub fn recorded() -> &'static [(String, Report)] {
    static RECORDED: OnceLock<Vec<(String, Report)>> = OnceLock::new();
    RECORDED.get_or_init(read_all)
}

fn read_all() -> Vec<(String, Report)> {
    let testdata = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata");
    let directories = ["traces", "truth"].map(|name| testdata.join(name));
    let mut files: Vec<PathBuf> = directories
        .iter()
        .flat_map(|directory| fs::read_dir(directory).expect("a directory"))
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    let named = files.iter().filter_map(|path| {
        let source = unstarve_readers::open(path).ok()?;
        let report = explain(source, &Options::default(), |_| {}).ok()?;
        Some((path.file_name()?.to_string_lossy().into_owned(), report))
    });
    named.collect()
}

fn shown(name: &str, columns: usize) -> String {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/traces").join(name);
    let source = unstarve_readers::open(&path).expect("a recording");
    let report = explain(source, &Options::default(), |_| {}).expect("an explanation");
    first_screen(&report, Scope::Whole, Some(name), look(columns))
}

#[test]
fn every_recording_fits_one_screen_and_ends_with_what_to_type() {
    let recordings = recorded();
    assert!(recordings.len() > 100, "{} recordings", recordings.len());
    let mut too_long = Vec::new();
    for (name, report) in recordings {
        let alarms = report.findings.iter().filter(|finding| finding.severity > Severity::Info).count();
        for columns in [80, 200] {
            let text = first_screen(report, Scope::Whole, Some(name), look(columns));
            let lines: Vec<&str> = text.lines().collect();
            // A terminal of 24 rows without the command that was typed and the next prompt; each further culprit has a line.
            let allowed = 22 + alarms.min(13).saturating_sub(3);
            let rows: usize = lines.iter().map(|line| line.width().div_ceil(columns).max(1)).sum();
            if rows > allowed {
                too_long.push(format!("{name}: {rows} rows at {columns} columns\n{text}"));
            }
            let last = &lines[lines.len().saturating_sub(5)..];
            let can_be_made = |remedy: &Remedy| remedy.changes.iter().any(Change::is_for_a_program);
            let has_fix = alarms > 0 && report.findings[0].remedies.iter().any(can_be_made);
            let next = if has_fix { "unstarve fix " } else { "unstarve report FILE" };
            assert!(last.iter().any(|line| line.contains(next)), "{name}:\n{text}");
            let mut sentences = BTreeSet::new();
            let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
            for sentence in one_line.split(". ").filter(|sentence| sentence.split(' ').count() > 3) {
                assert!(sentences.insert(sentence), "{name} says twice {sentence:?}:\n{text}");
            }
            let wide = lines.iter().find(|line| line.width() > columns && !line.contains("unstarve fix"));
            assert_eq!(wide, None, "{name}:\n{text}");
        }
    }
    assert!(too_long.is_empty(), "{}", too_long.join("\n"));
}

#[test]
fn a_starved_ksoftirqd() {
    assert_snapshot!("starved_80", shown("linux-5.10-net-rt.dat", 80));
}

#[test]
fn a_healthy_recording() {
    assert_snapshot!("healthy_80", shown("linux-6.1-dio-good.dat", 80));
}
