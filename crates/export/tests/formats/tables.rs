//! Tables add up to the report.

use std::collections::{BTreeMap, BTreeSet};

use unstarve_diagnose::report::{Finding, Report};
use unstarve_model::{
    Comm, Context, CpuId, Event, EventKind, Issuer, MemorySource, Names, PrevState, Prio, TaskRef, Tid, Time, TraceInfo,
};

use unstarve_export::{Table, Tables};
use unstarve_tables::CsvRows;
use unstarve_timeline::Selection;

use crate::formats::stage::{Row, Sheet, export, number, open, read_csv, sum, tables, traces};

#[test]
fn tables_add_up_to_the_report() {
    for trace in traces() {
        let ([waits, pieces, blame, findings], report) = tables(open(&trace));
        let total = report.trace.waits_total_ns;
        assert_eq!(waits.len() as u64, report.trace.waits_count, "{}", trace.display());
        assert_eq!(sum(&waits, "wait_ns"), total, "{}", trace.display());
        assert_eq!(sum(&pieces, "piece_ns"), total, "{}", trace.display());
        assert_eq!(sum(&blame, "total_ns"), total, "{}", trace.display());
        assert_eq!(sum(&blame, "waits"), pieces.len() as u64, "{}", trace.display());
        pieces_fill_waits(&waits, &pieces);
        findings_are_the_reports(&findings, &report);
        let ids: BTreeSet<&str> =
            [&waits, &pieces, &blame, &findings].into_iter().flatten().map(|row| row["trace_id"].as_str()).collect();
        assert_eq!(ids.len(), 1, "{}: {ids:?}", trace.display());
    }
}

fn findings_are_the_reports(rows: &[Row], report: &Report) {
    let shown = |row: &Row| ["finding", "severity", "victim", "wait_ns", "culprit"].map(|column| row[column].clone());
    let expected = report.findings.iter().map(|finding| {
        let culprit = finding.culprits.first().map_or(String::new(), |culprit| culprit.comm.clone());
        let wait_ns = finding.waits.total_ns.to_string();
        [finding.id.to_string(), finding.severity.word().to_owned(), finding.victim.comm.clone(), wait_ns, culprit]
    });
    assert_eq!(rows.iter().map(shown).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

fn pieces_fill_waits(waits: &[Row], pieces: &[Row]) {
    let mut filled: BTreeMap<u64, u64> = BTreeMap::new();
    for piece in pieces {
        *filled.entry(number(piece, "wait")).or_default() += number(piece, "piece_ns");
    }
    for wait in waits {
        assert_eq!(number(wait, "end_ns") - number(wait, "start_ns"), number(wait, "wait_ns"));
        assert_eq!(filled.get(&number(wait, "wait")).copied().unwrap_or(0), number(wait, "wait_ns"), "{wait:?}");
    }
}

/// The blame of each finding in the report equals the sum of the pieces of its victim's waits.
#[test]
fn findings_can_be_recomputed_from_the_pieces() {
    let mut findings = 0;
    for trace in traces() {
        let ([waits, pieces, ..], report) = tables(open(&trace));
        for finding in &report.findings {
            let Some(mine) = victims_waits(&waits, finding) else { continue };
            let mut sums: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
            for piece in pieces.iter().filter(|piece| mine.contains(piece["wait"].as_str())) {
                let key = (piece["occupant"].as_str(), piece["rule"].as_str(), piece["occupant_prio"].as_str());
                *sums.entry(key).or_default() += number(piece, "piece_ns");
            }
            for culprit in &finding.blame {
                let prio = culprit.prio.map_or(String::new(), |prio| prio.to_string());
                let key = (culprit.comm.as_str(), culprit.rule.word(), prio.as_str());
                assert_eq!(sums.get(&key), Some(&culprit.ns), "{} {} {key:?}", trace.display(), finding.id);
            }
            findings += 1;
        }
    }
    assert!(findings >= 5, "only {findings} could be recomputed");
}

/// The ids of the finding's waits, if its threads identify them: it lists the first 128 threads, which may have had
/// other names and priorities, too.
fn victims_waits<'a>(waits: &'a [Row], finding: &Finding) -> Option<BTreeSet<&'a str>> {
    let victim = &finding.victim;
    let tids: BTreeSet<String> = victim.tids.iter().map(u32::to_string).collect();
    let prio = victim.prio.map_or(String::new(), |prio| prio.to_string());
    let of_thread = |wait: &&Row| tids.contains(&wait["tid"]);
    let of_actor = |wait: &&Row| of_thread(wait) && wait["comm"] == victim.comm && wait["prio"] == prio;
    let number = |wait: &'a Row| wait["wait"].as_str();
    let all: BTreeSet<&str> = waits.iter().filter(of_thread).map(number).collect();
    let some: BTreeSet<&str> = waits.iter().filter(of_actor).map(number).collect();
    [all, some].into_iter().find(|waits| waits.len() as u64 == finding.waits.count)
}

/// Rows can be compared with other hosts' logs: they have the time of day, the host, and the cgroups.
#[test]
fn rows_carry_the_time_of_day_the_host_and_cgroups() {
    let task = |tid, comm: &str| TaskRef::new(Tid(tid), Comm::from(comm), Some(Prio(120)));
    let event = |time, kind| Event { time: Time(time), cpu: CpuId(0), issuer: Issuer::new(None, Context::Task), kind };
    let switch = |prev, prev_state, next| EventKind::Switch { prev, prev_state, next };
    let events = vec![
        event(1_000, switch(task(0, "swapper/0"), PrevState::Runnable, task(7, "hog"))),
        event(2_000, EventKind::Waking { task: task(8, "app"), target_cpu: CpuId(0) }),
        event(9_000, switch(task(7, "hog"), PrevState::Sleeping, task(8, "app"))),
    ];
    let snapshot = r#"{"schema":"unstarve.snapshot/1","kernel":{},"host":"web1","boot":"b-1",
        "clock_pairs":[{"trace_ns":0,"realtime_ns":1600000000000000000}],"tasks":[
        {"tid":7,"tgid":5,"comm":"hog","policy":"other","cgroup":"/system.slice/hog.service","start_ticks":1},
        {"tid":8,"comm":"app","policy":"other","cgroup":"/user.slice","start_ticks":1}]}"#;
    let info = TraceInfo { format: "test".into(), snapshot: Some(snapshot.to_owned()), ..TraceInfo::default() };
    let ([waits, pieces, blame, _], _) = tables(Box::new(MemorySource::new(info, events, Names::default())));
    let of = |row: &Row, columns: &[&str]| columns.iter().map(|column| row[*column].clone()).collect::<Vec<_>>();
    let utc = "2020-09-13T12:26:40.000002000Z";
    assert_eq!(of(&waits[0], &["start_utc", "tgid", "cgroup", "host"]), [utc, "8", "/user.slice", "web1"]);
    let hog = ["7", "5", "/system.slice/hog.service"];
    assert_eq!(of(&waits[0], &["culprit_tids", "culprit_tgids", "culprit_cgroups"]), hog);
    assert_eq!(of(&pieces[0], &["occupant_tids", "occupant_tgids", "occupant_cgroups"]), hog);
    assert_eq!(of(&pieces[0], &["start_utc", "host"]), [utc, "web1"]);
    assert_eq!(of(&blame[0], &["occupant_tids", "occupant_tgids", "occupant_cgroups"]), hog);
    assert_eq!(of(&blame[0], &["victim_tids", "victim_cgroups", "host"]), ["8", "/user.slice", "web1"]);
    let began = "1600000000000002000";
    assert_eq!(of(&waits[0], &["ts", "boot_id"]), [began, "b-1"]);
    assert_eq!(of(&pieces[0], &["ts", "boot_id"]), [began, "b-1"]);
    assert_eq!(of(&blame[0], &["ts", "boot_id"]), ["1600000000000001000", "b-1"]);
    let id = &waits[0]["trace_id"];
    assert!(id.len() == 16 && blame[0]["trace_id"] == *id && pieces[0]["trace_id"] == *id, "{id}");
}

/// An export of some waits has the same recording id.
#[test]
fn the_id_of_a_recording_does_not_depend_on_what_is_chosen() {
    let trace = traces().into_iter().find(|trace| trace.ends_with("linux-6.1-dio-weight.dat")).expect("testdata");
    let exported = |selection: Selection, id: Option<&str>| {
        let sheet = Sheet::default();
        let mut tables = Tables::new(selection).called(id.map(str::to_owned));
        tables.add(Table::Waits, Box::new(CsvRows::new(sheet.clone(), Table::Waits.schema()).expect("memory")));
        export(open(&trace), tables);
        let rows = read_csv(&sheet.text());
        (rows.len(), rows[0]["trace_id"].clone())
    };
    let (all, id) = exported(Selection::default(), None);
    let workers = Selection { tasks: vec!["kworker/*".parse().expect("a pattern")], ..Selection::default() };
    let (some, same) = exported(workers, None);
    assert!(some < all && same == id, "{some} of {all}: {same}, {id}");
    assert_eq!(exported(Selection::default(), Some("20261123-012345-678")).1, "20261123-012345-678");
}
