//! Tests of the table of lab results and of how it affects the remedies in a report.

use super::*;

fn proof(remedy: &str, kernel: &str, answer: Answer, effect: f64) -> Proof {
    Proof {
        remedy: remedy.into(),
        finding: "rt-starvation".into(),
        victim: VictimKind::Kworker,
        scenario: "spike".into(),
        kernel: kernel.into(),
        answer,
        metric: "ping.max".into(),
        effect: Some(effect),
        low: Some(effect - 0.05),
        high: Some(effect + 0.05),
        seeds: 3,
        costs: vec!["flood.sent".into()],
        release: format!("{kernel}.0-cloud"),
        package: "linux 1".into(),
        unstarve: "0.1.0 abc".into(),
        date: "2026-11-22".into(),
        note: String::new(),
    }
}

fn finding(remedies: &[&str]) -> Finding {
    let remedies: Vec<serde_json::Value> = remedies
        .iter()
        .map(|id| serde_json::json!({ "id": id, "text": "", "apply": "", "undo": "", "risk": "", "valid_on": "" }))
        .collect();
    let json = serde_json::json!({
        "id": "rt-starvation", "severity": "critical", "confidence": 1.0, "sentence": "",
        "victim": { "kind": "kworker", "comm": "v", "tids": [], "tasks": 1, "policy": null, "prio": null, "work": null },
        "culprits": [], "blame": [], "waits": { "count": 0, "total_ns": 0, "max_ns": 0, "p99_ns": 0, "owed_ns": 0 },
        "cpus": [], "period_ns": null, "price": [{ "comm": "fio", "tids": [7], "ns": 1 }], "evidence": [], "worst": [], "losses": [], "remedies": remedies
    });
    serde_json::from_value(json).expect("a finding")
}

fn offered(release: Option<&str>, proofs: &[Proof]) -> String {
    let mut findings = [finding(&["move-intruder", "intruder-to-fair", "victim-above-intruder"])];
    weigh(&mut findings, release, proofs);
    let shown = |remedy: &Remedy| {
        let proved: Vec<String> = remedy.proved.iter().map(ToString::to_string).collect();
        format!("{}: {}", remedy.id, if proved.is_empty() { "unknown".to_owned() } else { proved.join("; ") })
    };
    findings[0].remedies.iter().map(shown).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_is_shipped_can_be_read_and_is_written_alike() {
    let table = read(SHIPPED).expect("a table");
    assert_eq!(write(&table), SHIPPED);
    for proof in &table {
        assert!(crate::RemedyKind::of_id(proof.remedy.as_str()).is_some(), "{} is no remedy", proof.remedy);
    }
}

#[test]
fn a_line_is_written_and_read_alike() {
    let table = vec![proof("batch-wakee", "6.1", Answer::Helped, -0.5), proof("pin", "6.12", Answer::NotMade, 0.25)];
    assert_eq!(read(&write(&table)), Ok(table));
    let broken = write(&[proof("pin", "6.1", Answer::Helped, 0.1)]).replace("helped", "cured");
    assert_eq!(read(&broken).map_err(|error| error.to_string()), Err("line 3: `cured` is no answer".to_owned()));
}

#[test]
fn what_helped_here_comes_first_and_what_was_useless_here_is_not_offered() {
    let proofs = [
        proof("victim-above-intruder", "6.1", Answer::Helped, -0.861),
        proof("move-intruder", "6.1", Answer::NoDifference, 0.001),
        proof("move-intruder", "6.12", Answer::Helped, -0.4),
    ];
    insta::assert_snapshot!(offered(Some("6.1.0-50-cloud-amd64"), &proofs), @r"
    victim-above-intruder: on 6.1 for a kworker: ping.max −86 % (−91 % to −81 %), in spike
    intruder-to-fair: unknown
    ");
    insta::assert_snapshot!(offered(Some("6.12.107"), &proofs), @r"
    move-intruder: on 6.12 for a kworker: ping.max −40 % (−45 % to −35 %), in spike
    intruder-to-fair: unknown
    victim-above-intruder: on 6.1 for a kworker: ping.max −86 % (−91 % to −81 %), in spike
    ");
}

#[test]
fn what_is_unclear_or_helped_in_another_case_stays() {
    let useless = proof("move-intruder", "6.1", Answer::Harmed, 0.3);
    let unclear = Proof { scenario: "oplog".into(), ..proof("move-intruder", "6.1", Answer::NotShown, -0.1) };
    let helped = Proof { scenario: "oplog".into(), ..proof("move-intruder", "6.1", Answer::Helped, -0.1) };
    let is_offered = |proofs: &[Proof]| offered(Some("6.1.9"), proofs).contains("move-intruder");
    assert!(!is_offered(std::slice::from_ref(&useless)));
    assert!(is_offered(&[useless.clone(), unclear]));
    assert!(is_offered(&[useless.clone(), helped]));
    assert!(offered(None, &[useless]).contains("move-intruder: on 6.1 for a kworker: it got worse, ping.max +30 %"));
}

#[test]
fn what_was_useless_for_another_kind_of_victim_is_offered() {
    let useless = proof("move-intruder", "6.1", Answer::NoDifference, 0.0);
    let for_another = Proof { victim: VictimKind::Ksoftirqd, ..useless.clone() };
    let is_offered = |proofs: &[Proof]| offered(Some("6.1.9"), proofs).contains("move-intruder");
    assert!(!is_offered(&[useless]));
    assert!(is_offered(std::slice::from_ref(&for_another)));
    assert!(offered(Some("6.1.9"), &[for_another]).contains("move-intruder: unknown"));
}

/// The lab's workers complete what programs wait for.
#[test]
fn a_worker_that_nothing_waits_for_has_no_lab_results() {
    let helped = [proof("move-intruder", "6.1", Answer::Helped, -0.5)];
    let mut alone = [finding(&["move-intruder"])];
    alone[0].price.clear();
    weigh(&mut alone, Some("6.1.9"), &helped);
    assert_eq!(alone[0].remedies[0].proved, []);
    assert!(offered(Some("6.1.9"), &helped).contains("move-intruder: on 6.1"));
}

#[test]
fn what_could_not_be_taken_back_is_shown_beside_what_was_proved() {
    let of = |note: &str| Proof { note: note.into(), ..proof("fair-server", "6.12", Answer::Helped, -0.5) };
    let shown = |note: &str| Proved::of(&of(note), None).to_string();
    let note =
        "not taken back: /sys/kernel/debug/sched/fair_server/cpu0/runtime: Device or resource busy (os error 16)";
    let what = note.trim_start_matches("not taken back: ");
    assert!(shown(note).ends_with(&format!(", in spike; it could not be undone there: {what}")), "{}", shown(note));
    let part = shown("2 of 3 threads did not appear in the second guest");
    assert!(part.ends_with(", in spike; only a part of it could be applied there"), "{part}");
    assert_eq!(Proved::of(&of("x"), None).note, "x", "JSON has every note");
}
