use super::*;
use crate::model::{self, Model};

/// A finding's id, and its remedies: the id of each, and the file that it changes.
type Offered<'a> = (&'a str, &'a [(&'a str, Option<&'a str>)]);

/// A report with these findings: id, and its remedies with what each changes, if a program can.
fn report(findings: &[Offered<'_>]) -> Report {
    let remedy = |(id, path): &(&str, Option<&str>)| {
        let changes = match path {
            Some(path) => serde_json::json!([{ "target": { "file": { "path": path } }, "to": { "text": "100" } }]),
            None => serde_json::json!([{ "target": "advice" }]),
        };
        serde_json::json!({ "id": id, "text": "", "apply": "", "undo": "", "risk": "", "valid_on": "", "changes": changes })
    };
    let finding = |(id, remedies): &Offered<'_>| {
        serde_json::json!({
            "id": id, "severity": "critical", "confidence": 1.0, "sentence": "",
            "victim": { "kind": "task", "comm": "v", "tids": [], "tasks": 1, "policy": null, "prio": null, "work": null },
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

/// 30,000 of the metric without, and `with` under the remedy that writes there.
fn proved(with: &[(&str, f64)], findings: &[Offered<'_>]) -> (Proofs, usize) {
    let mut model = Model::new(|request: &Request| {
        let text = serde_json::to_string(&request.trial).expect("JSON");
        let base = with.iter().find(|(path, _)| text.contains(path)).map_or(30_000.0, |(_, base)| *base);
        Some(base + 300.0 * model::noise(request))
    });
    let mut tell = |_: crate::bench::Upcoming<'_>| {};
    let mut bench = Bench::new(&mut model, &mut tell);
    let mut explain = |_: &Outcome| Ok(report(findings));
    let plan = Plan::default();
    let proofs = prove_all(&mut bench, &model::scenario(), "6.1", plan, &mut explain).expect("proofs");
    (proofs, bench.runs())
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
            "weight-starvation",
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
    // Three seeds, without and with each of three.
    assert_eq!(runs, 12);
    let first = &proofs.proofs[0];
    assert_eq!((first.kernel.as_str(), first.metric.as_str(), first.seeds), ("6.1", "main.iops", 3));
    assert!(first.effect.is_some_and(|effect| (0.2..0.35).contains(&effect)), "{first:?}");
}

#[test]
fn the_same_changes_for_two_findings_are_tried_once() {
    let remedies: &[(&str, Option<&str>)] = &[("lower-group-weight", Some("/weight"))];
    let (proofs, runs) =
        proved(&[("/weight", 38_000.0)], &[("completion-ping-pong", remedies), ("weight-starvation", remedies)]);
    insta::assert_snapshot!(answers(&proofs), @r"
    completion-ping-pong lower-group-weight helped
    weight-starvation lower-group-weight helped
    ");
    assert_eq!(runs, 6);
}

#[test]
fn what_was_not_made_proves_nothing() {
    let (proofs, _) = proved(&[("/absent", 38_000.0)], &[("weight-starvation", &[("base-slice", Some("/absent"))])]);
    insta::assert_snapshot!(answers(&proofs), @"weight-starvation base-slice not-made");
    assert_eq!(proofs.proofs[0].note, "/absent is not here");
}
