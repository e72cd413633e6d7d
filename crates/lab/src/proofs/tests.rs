//! Proofs on a model with remedies of known effect.

use unstarve_diagnose::proofs::write;

use unstarve_diagnose::report::Report;

use super::*;
use crate::model::{self, Model};

/// A finding's id and its victim's kind, and its remedies: the id of each, and the files that it changes (`/a+/b`).
type Offered<'a> = ((&'a str, &'a str), &'a [(&'a str, Option<&'a str>)]);

/// A report with these findings: id, and remedies with the files that each changes.
fn report(findings: &[Offered<'_>]) -> Report {
    let remedy = |(id, path): &(&str, Option<&str>)| {
        let changes = match path {
            Some(paths) => {
                let change =
                    |path| serde_json::json!({ "target": { "file": { "path": path } }, "to": { "text": "100" } });
                paths.split('+').map(change).collect()
            }
            None => serde_json::json!([{ "target": "advice" }]),
        };
        serde_json::json!({ "id": id, "text": "", "apply": "", "undo": "", "risk": "", "valid_on": "", "changes": changes })
    };
    let finding = |((id, kind), remedies): &Offered<'_>| {
        serde_json::json!({
            "id": id, "severity": "critical", "confidence": 1.0, "sentence": "",
            "victim": { "kind": kind, "comm": "v", "tids": [], "tasks": 1, "policy": null, "prio": null, "work": null },
            "culprits": [], "blame": [], "waits": { "count": 0, "total_ns": 0, "max_ns": 0, "p99_ns": 0, "owed_ns": 0 },
            "cpus": [], "period_ns": null, "price": [], "evidence": [], "worst": [], "losses": [],
            "remedies": remedies.iter().map(remedy).collect::<Vec<_>>()
        })
    };
    let findings: Vec<serde_json::Value> = findings.iter().map(finding).collect();
    let trace = serde_json::json!({
        "format": "", "events": 0, "lost": 0, "cpus": 1, "start_ns": 0, "end_ns": 0, "kernel": null, "snapshot": true,
        "waits_total_ns": 0, "waits_count": 0
    });
    let json = serde_json::json!({
        "schema": "unstarve.explain/1", "trace": trace, "findings": findings, "worst_waits": [], "losses": []
    });
    serde_json::from_value(json).expect("a report")
}

/// The metric is 30,000 without a remedy, and `with` under the remedy that writes there.
fn proved(with: &[(&str, f64)], findings: &[Offered<'_>]) -> (Proofs, usize) {
    proved_into(None, with, findings).0
}

/// The proofs with the number of guests, and the rows of each call that saved them.
fn proved_into(
    cells: Option<&Cells>,
    with: &[(&str, f64)],
    findings: &[Offered<'_>],
) -> ((Proofs, usize), Vec<Vec<Proof>>) {
    let mut model = Model::new(|request: &Request| {
        let text = serde_json::to_string(&request.trial).expect("JSON");
        let base = with.iter().find(|(path, _)| text.contains(path)).map_or(30_000.0, |(_, base)| *base);
        Some(base + 300.0 * model::noise(request))
    });
    let mut tell = |_: crate::bench::NextRun<'_>| {};
    let mut bench = Bench::new(&mut model, &mut tell);
    let mut explain = |_: &Outcome| Ok(report(findings));
    let mut entered = Vec::new();
    let mut enter = |rows: &[Proof]| {
        entered.push(rows.to_vec());
        Ok(())
    };
    let mut proving =
        Proving { plan: Plan::default(), explain: &mut explain, cells, made: CellOrigin::default(), enter: &mut enter };
    let proofs = prove_all(&mut bench, &model::scenario(), "6.1", &mut proving).expect("proofs");
    ((proofs, bench.runs()), entered)
}

fn answers(proofs: &Proofs) -> String {
    let line = |proof: &Proof| format!("{} {} {}", proof.finding, proof.remedy, proof.answer.word());
    let not = |not: &NotTried| format!("{} {} not tried: {}", not.finding, not.remedy, not.why);
    proofs.proofs.iter().map(line).chain(proofs.not_tried.iter().map(not)).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_remedy_of_the_report_is_tried_by_itself() {
    let (proofs, runs) = proved(
        &[("/weight", 38_000.0), ("/slice", 20_000.0)],
        &[(
            ("weight-starvation", "kworker"),
            &[
                ("lower-group-weight", Some("/weight")),
                ("base-slice", Some("/slice")),
                ("no-wakeup-preemption", Some("/features")),
                ("update-kernel", None),
            ],
        )],
    );
    insta::assert_snapshot!(answers(&proofs), @r"
    weight-starvation lower-group-weight helped
    weight-starvation base-slice harmed
    weight-starvation no-wakeup-preemption no-difference
    weight-starvation update-kernel not tried: advice: only a person can do it
    ");
    // Three seeds without a remedy, and with each of three.
    assert_eq!(runs, 12);
    let first = &proofs.proofs[0];
    assert_eq!((first.kernel.as_str(), first.metric.as_str(), first.seeds), ("6.1", "main.iops", 3));
    assert!(first.effect.is_some_and(|effect| (0.2..0.35).contains(&effect)), "{first:?}");
}

#[test]
fn the_same_changes_for_two_findings_are_tried_once() {
    let remedies: &[(&str, Option<&str>)] = &[("lower-group-weight", Some("/weight"))];
    let (proofs, runs) = proved(
        &[("/weight", 38_000.0)],
        &[(("completion-ping-pong", "kworker"), remedies), (("weight-starvation", "kworker"), remedies)],
    );
    insta::assert_snapshot!(answers(&proofs), @r"
    completion-ping-pong lower-group-weight helped
    weight-starvation lower-group-weight helped
    ");
    assert_eq!(runs, 6);
}

#[test]
fn what_was_not_made_proves_nothing() {
    let (proofs, _) =
        proved(&[("/absent", 38_000.0)], &[(("weight-starvation", "kworker"), &[("base-slice", Some("/absent"))])]);
    insta::assert_snapshot!(answers(&proofs), @"weight-starvation base-slice not-made");
    assert_eq!(proofs.proofs[0].note, "/absent is not here");
}

#[test]
fn what_was_made_in_part_proves_no_more_than_that_it_helped() {
    let remedies: &[(&str, Option<&str>)] =
        &[("base-slice", Some("/slice+/absent")), ("lower-group-weight", Some("/weight+/absent"))];
    let (proofs, _) = proved(&[("/weight", 38_000.0)], &[(("weight-starvation", "kworker"), remedies)]);
    insta::assert_snapshot!(answers(&proofs), @r"
    weight-starvation base-slice not-shown
    weight-starvation lower-group-weight helped
    ");
}

#[test]
fn each_kind_of_victim_has_a_row_of_its_own() {
    let (proofs, runs) = proved(
        &[("/packets", 38_000.0)],
        &[
            (("rt-starvation", "kworker"), &[("victim-above-intruder", Some("/worker"))]),
            (("rt-starvation", "ksoftirqd"), &[("victim-above-intruder", Some("/packets"))]),
        ],
    );
    let rows: Vec<String> =
        proofs.proofs.iter().map(|proof| format!("{} {}", proof.victim, proof.answer.word())).collect();
    assert_eq!(rows, ["kworker no-difference", "ksoftirqd helped"]);
    assert_eq!(runs, 9);
}

#[test]
fn a_proof_goes_on_with_the_rows_that_are_not_kept() {
    let directory = tempfile::tempdir().expect("a directory");
    let cells = Cells::in_directory(directory.path());
    let remedies: &[(&str, Option<&str>)] = &[("lower-group-weight", Some("/weight")), ("base-slice", Some("/slice"))];
    let with = [("/weight", 38_000.0)];
    let offered = |remedies| [(("weight-starvation", "kworker"), remedies)];
    let ((_, first), _) = proved_into(Some(&cells), &with, &offered(&remedies[..1]));
    let ((proofs, second), entered) = proved_into(Some(&cells), &with, &offered(remedies));
    assert_eq!((first, second), (6, 6));
    // Saved row by row.
    assert_eq!(entered.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    assert_eq!(entered.concat(), proofs.proofs);
    // Rebuilt from the files alone.
    let again: Vec<Proof> = cells.all().expect("cells").iter().flat_map(|cell| cell.proofs(0.03)).collect();
    assert_eq!(write(&again), write(&proofs.proofs));
}

#[test]
fn a_cell_of_other_guests_or_changes_is_not_taken() {
    let directory = tempfile::tempdir().expect("a directory");
    let cells = Cells::in_directory(directory.path());
    let offered = |path| [("lower-group-weight", Some(path))];
    let runs = |with: &[(&str, f64)], path| {
        proved_into(Some(&cells), with, &[(("weight-starvation", "kworker"), &offered(path))]).0.1
    };
    assert_eq!(runs(&[], "/weight"), 6);
    assert_eq!(runs(&[], "/weight"), 3);
    assert_eq!(runs(&[], "/slice"), 6);
    // The guests without a remedy give another result.
    assert_eq!(runs(&[("[]", 20_000.0)], "/slice"), 6);
}
