//! Kernel logs of guests that hang in a known way: `testdata/logs`, with what the guest's own recording says.

use std::fs;
use std::path::{Path, PathBuf};

use unstarve_diagnose::report::Report;
use unstarve_evidence::{Limits, explain, gather};

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/logs")
}

fn explained(name: &str) -> Report {
    let gathered =
        gather(&[directory().join(name)], Limits::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let [host] = gathered.hosts.as_slice() else { panic!("{name}: {} hosts", gathered.hosts.len()) };
    explain(&host.facts, &host.sources)
}

/// A row of `labels.tsv`.
struct Label {
    file: String,
    state: String,
    victim: String,
    cpu: Option<u32>,
    lasted: Option<f64>,
    culprit: Option<u32>,
    may_be: Option<u32>,
}

fn labels() -> Vec<Label> {
    let text = fs::read_to_string(directory().join("labels.tsv")).expect("labels");
    let row = |line: &str| {
        let cells: Vec<&str> = line.split('\t').collect();
        let some = |cell: &str| (cell != "-").then(|| cell.to_owned());
        Label {
            file: cells[0].to_owned(),
            state: cells[1].to_owned(),
            victim: cells[2].to_owned(),
            cpu: some(cells[3]).and_then(|cpu| cpu.parse().ok()),
            lasted: some(cells[4]).and_then(|lasted| lasted.parse().ok()),
            // In parentheses: the log shows it on its CPU, and need not be read as to blame it.
            may_be: cells[5].trim_matches(['(', ')']).split('/').next().and_then(|tid| tid.parse().ok()),
            culprit: some(cells[5]).and_then(|culprit| culprit.split('/').next()?.parse().ok()),
        }
    };
    text.lines().skip(1).filter(|line| !line.is_empty()).map(row).collect()
}

#[test]
fn each_log_names_its_victim_and_never_a_wrong_culprit() {
    let mut faults = Vec::new();
    for Label { file, state, victim, cpu, lasted, culprit, may_be } in labels() {
        let report = explained(&file);
        let of_victim = report.findings.iter().find(|finding| {
            // Of a pool its CPU is compared, below.
            victim == "-"
                || victim.starts_with("pool ") && finding.victim.comm.starts_with("kworker/")
                || finding.evidence.iter().any(|line| line.contains(victim.as_str()))
                || finding.victim.comm.starts_with(victim.as_str())
                || finding.sentence.contains(victim.as_str())
        });
        let Some(finding) = of_victim else {
            faults.push(format!("{file}: nothing about {victim}"));
            continue;
        };
        if let Some(cpu) = cpu.filter(|cpu| !finding.cpus.contains(cpu)) {
            faults.push(format!("{file}: CPU {cpu} is not among {:?}", finding.cpus));
        }
        if (state == "blocked") != (finding.id.as_str() == "blocked-task") {
            faults.push(format!("{file}: {state}, but {}", finding.id));
        }
        if let Some(lasted) = lasted.filter(|lasted| finding.waits.max_ns as f64 / 1e9 > lasted * 1.1) {
            faults.push(format!("{file}: at least {lasted} s, but {} ns", finding.waits.max_ns));
        }
        let named: Vec<u32> = report
            .findings
            .iter()
            .filter(|finding| cpu.is_none_or(|cpu| finding.cpus == [cpu]))
            .flat_map(|finding| &finding.culprits)
            .flat_map(|culprit| culprit.tids.iter().copied())
            .collect();
        match culprit {
            Some(culprit) if !named.contains(&culprit) => {
                faults.push(format!("{file}: {culprit} is not named: {named:?}"))
            }
            None if named.iter().any(|tid| Some(*tid) != may_be) && state != "blocked" => {
                faults.push(format!("{file}: names {named:?}"))
            }
            _ => {}
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
