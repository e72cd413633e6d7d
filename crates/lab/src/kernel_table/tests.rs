use super::*;
use crate::bench::NextRun;
use crate::model::{self, Model};

fn column(name: &str) -> KernelColumn {
    KernelColumn {
        name: name.to_owned(),
        release: format!("{name}.0-cloud-amd64"),
        package: format!("linux {name}-1"),
        digest: format!("image of {name}"),
    }
}

/// A report whose first finding is the scenario's expected one, another, or none.
fn report(found: Found) -> Report {
    let (id, culprit) = match found {
        Found::Expected => ("rt-starvation", "hog"),
        _ => ("wake-storm", "other"),
    };
    let severity = if found == Found::Nobody { "info" } else { "critical" };
    let json = serde_json::json!({
        "schema": "unstarve.explain/1",
        "trace": {"format": "x", "events": 1, "lost": 0, "cpus": 1, "start_ns": 0, "end_ns": 1, "kernel": null,
            "snapshot": false, "waits_total_ns": 0, "waits_count": 0},
        "findings": [{
            "id": id, "severity": severity, "confidence": 1.0, "sentence": "a sentence",
            "victim": {"kind": "kworker", "comm": "kworker/0:2", "tids": [1], "tasks": 1, "policy": null, "prio": null,
                "work": {"function": "dio_complete", "workqueue": null}},
            "culprits": [{"comm": culprit, "tids": [2], "policy": null, "prio": null, "rule": "class", "ns": 1}],
            "blame": [], "waits": {"count": 1, "total_ns": 1, "max_ns": 94_800_000, "p99_ns": 1, "owed_ns": 1}, "cpus": [0],
            "period_ns": null, "price": [], "evidence": [], "worst": [], "losses": [], "remedies": []}],
        "worst_waits": [], "losses": []
    });
    serde_json::from_value(json).expect("a report")
}

fn guest(starved: Found) -> GuestAnswer {
    GuestAnswer { trace_digest: String::new(), starved, lost: 0, finding: None, longest: None }
}

/// The table of what the guests of three seeds say: with the fault all, some or none, without it anybody.
#[test]
fn a_verdict_for_each_combination() {
    use CellVerdict::*;
    use Found::*;
    let table = [
        ([Expected, Expected, Expected], Nobody, Starves),
        ([Expected, Expected, Expected], Expected, StarvesWithoutFault),
        ([Expected, Expected, Expected], Other, StarvesWithoutFault),
        ([Expected, Nobody, Expected], Nobody, DependsOnSeed),
        ([Expected, Other, Other], Nobody, DependsOnSeed),
        ([Expected, Nobody, Nobody], Other, DependsOnSeed),
        ([Other, Nobody, Nobody], Nobody, DependsOnSeed),
        ([Other, Other, Other], Nobody, StarvesOthers),
        ([Other, Other, Other], Other, StarvesOthersWithoutFault),
        ([Other, Nobody, Nobody], Other, DependsOnSeed),
        ([Nobody, Nobody, Nobody], Nobody, DoesNot),
        ([Nobody, Nobody, Nobody], Other, TwinStarves),
        ([Nobody, Nobody, Nobody], Expected, TwinStarves),
    ];
    for (faulty, healthy, verdict) in table {
        let seed = |(seed, found)| SeedGuests { seed, faulty: guest(found), healthy: guest(healthy) };
        let seeds: Vec<SeedGuests> = (1..).zip(faulty).map(seed).collect();
        let of = |seeds: &[SeedGuests]| CellVerdict::of(seeds, Some(Verdict::Unclear));
        assert_eq!(of(&seeds), verdict, "{faulty:?} {healthy:?}");
        // Where nobody is starved, the metric says the rest.
        let slower = CellVerdict::of(&seeds, Some(Verdict::Worse));
        assert_eq!(slower, if verdict == DoesNot { Slows } else { verdict }, "{faulty:?} {healthy:?}, worse");
        // Events that were lost are no proof that nobody is starved, and change nothing else.
        let mut lost = seeds.clone();
        lost[1].faulty.lost = 7;
        let of_lost = if verdict == DoesNot { NotKnown } else { verdict };
        assert_eq!(of(&lost), of_lost, "{faulty:?} {healthy:?}, lost");
    }
}

/// Fills a table of these kernels: 6.1 starves, 6.12 does not, with 6.13 it depends, 7 panics. Gives how many guests ran, too.
fn filled(cells: &KernelCells, seeds: u64, fresh: bool) -> (KernelTable, usize) {
    let mut model = Model::new(|request: &Request| {
        let iops = if request.fault && request.kernel == "6.1" { 600.0 } else { 1_000.0 };
        (request.kernel != "7").then_some(iops + request.seed as f64)
    });
    let mut explain = |outcome: &Outcome| {
        let request = &outcome.request;
        Ok(report(match (request.kernel.as_str(), request.fault) {
            ("6.1", true) => Found::Expected,
            ("6.13", true) if request.seed == 2 => Found::Expected,
            _ => Found::Nobody,
        }))
    };
    let mut filling = Filling {
        plan: Plan { seeds, ..Plan::default() },
        program_digest: "0123".to_owned(),
        init: Some("unstarve-guest".to_owned()),
        made: CellOrigin { unstarve: "0.1.0".to_owned(), date: "2026-11-30".to_owned(), ..CellOrigin::default() },
        explain: &mut explain,
        cells,
        fresh,
        runs_guests: true,
    };
    let mut tell = |_: NextRun<'_>| {};
    let mut bench = Bench::new(&mut model, &mut tell);
    let kernels = ["5.4", "6.1", "6.12", "6.13", "7"].map(column).to_vec();
    let asked = AskedScenario { asked: "model.toml".to_owned(), scenario: model::scenario() };
    let table = fill(&mut bench, &[asked], kernels, &mut filling);
    drop(bench);
    (table, model.runs)
}

#[test]
fn a_table_is_filled_once_and_resumed() {
    let place = tempfile::tempdir().expect("a directory");
    let cells = KernelCells::in_directory(&place.path().join("cells"));
    let (table, runs) = filled(&cells, 3, false);
    // Three kernels with three seeds and their twins, and the first guest of 7.
    assert_eq!(runs, 3 * 6 + 1);
    insta::assert_snapshot!(table);
    insta::assert_snapshot!(table.markdown());
    insta::assert_snapshot!(table.lines());
    // What is known is not run again, what failed is; more seeds make it all new.
    assert_eq!(filled(&cells, 3, false), (table, 1));
    assert_eq!(filled(&cells, 2, false).1, 1);
    assert_eq!(filled(&cells, 4, false).1, 3 * 8 + 1);
    assert_eq!(filled(&cells, 3, true).1, 3 * 6 + 1);
}

#[test]
fn marks_in_names_are_not_the_page_s() {
    let cell = KernelCell {
        scenario: "x".to_owned(),
        asked: "x".to_owned(),
        scenario_digest: String::new(),
        kernel: "6.1".to_owned(),
        kernel_digest: String::new(),
        program_digest: String::new(),
        image_digest: String::new(),
        init: None,
        qemu: String::new(),
        made: CellOrigin::default(),
        matters: 0.03,
        expected: Vec::new(),
        seeds: vec![SeedGuests {
            seed: 1,
            faulty: GuestAnswer { finding: Some("a|b <script>\nc ![x](y)".to_owned()), ..guest(Found::Other) },
            healthy: guest(Found::Nobody),
        }],
        effect: None,
    };
    let row =
        ScenarioRow { scenario: "x".to_owned(), title: "t".to_owned(), cells: vec![CellState::Known(Box::new(cell))] };
    let table = KernelTable { kernels: vec![column("6.1")], rows: vec![row] };
    let page = table.markdown();
    assert!(page.contains("a&#124;b &#60;script&#62;&#92;nc &#33;&#91;x&#93;(y) |"), "{page}");
    assert!(!page.contains("<script"), "{page}");
}
