use unstarve_diagnose::report::Severity;
use unstarve_diagnose::{ExplainError, Options, explain};
use unstarve_model::{
    Batch, EventSource, EventType, Glob, Loss, LossKind, MemorySource, Names, Nanos, SourceError, Tid, TraceInfo,
};
use unstarve_timeline::{Moment, Selection, TaskPattern};

use crate::findings::scene::{Scene, times};

#[test]
fn an_empty_trace_cannot_be_explained() {
    let source = MemorySource::new(TraceInfo::default(), Vec::new(), Names::default());
    let outcome = explain(Box::new(source), &Options::default(), |_| {});
    assert!(matches!(outcome, Err(ExplainError::NoEvents { .. })), "{outcome:?}");
}

/// No event, and these losses.
struct Nothing(TraceInfo, Vec<LossKind>);

impl EventSource for Nothing {
    fn info(&self) -> &TraceInfo {
        &self.0
    }
    fn read(&mut self, _: &mut Batch) -> Result<bool, SourceError> {
        Ok(false)
    }
    fn losses(&self) -> Vec<Loss> {
        self.1.iter().map(|kind| Loss::new(*kind, 1)).collect()
    }
}

#[test]
fn where_there_is_no_event_it_is_said_what_could_not_be_read() {
    let said = |losses: &[LossKind]| {
        let info = TraceInfo { format: "Perfetto".into(), ..TraceInfo::default() };
        let nothing = Nothing(info, losses.to_vec());
        explain(Box::new(nothing), &Options::default(), |_| {}).expect_err("there is nothing to explain").to_string()
    };
    let advice = "record sched_switch and sched_waking (`unstarve record` does)";
    assert_eq!(said(&[LossKind::NoSnapshot]), format!("no scheduler events in this Perfetto: {advice}"));
    for (kind, shown) in [
        (LossKind::Truncated, "the file ends early"),
        (LossKind::Undecodable, "1 parts of the file could not be decoded"),
    ] {
        let what = format!("no scheduler events in what can be read of this Perfetto: {shown}");
        assert_eq!(said(&[kind, LossKind::NoSnapshot]), format!("{what}. If the whole has none either, {advice}"));
    }
    let malformed = said(&[LossKind::Truncated, LossKind::Malformed(EventType::Switch)]);
    assert_eq!(malformed, "no scheduler event in this Perfetto can be read: 1 sched_switch events are malformed");
}

/// A hog h of real-time priority holds an application a up for 60 ms, once, in the middle of two seconds in which it
/// otherwise runs alone. One column is 10 ms.
fn one_stall() -> Scene {
    Scene::new(10_000)
        .task('h', "hog", 89)
        .task('a', "app", 120)
        .cpu(&format!("{}hhhhhh{}", times(97, "a."), times(98, "a.")))
        .wakes('a', &format!("{}{}{}", times(98, "! "), times(6, " "), times(97, "! ")))
        .wakes('h', &format!("{}!", times(194, " ")))
}

fn ids(options: Options) -> Vec<String> {
    one_stall().explain_with(&options).findings.into_iter().map(|finding| finding.id.to_string()).collect()
}

#[test]
fn a_selection_narrows_what_is_reported() {
    let selection = |selection| Options { selection, ..Options::default() };
    let at = |ms| Some(Moment::After(Nanos::from_millis(ms)));
    assert_eq!(ids(Options::default()), ["rt-starvation"]);
    assert_eq!(ids(selection(Selection { from: at(1900), to: at(2100), ..Selection::default() })), ["rt-starvation"]);
    assert_eq!(ids(selection(Selection { to: at(1000), ..Selection::default() })), Vec::<String>::new());
    let task = |pattern| selection(Selection { tasks: vec![pattern], ..Selection::default() });
    assert_eq!(ids(task(TaskPattern::Tid(Tid(101)))), ["rt-starvation"]);
    assert_eq!(ids(task(TaskPattern::Name(Glob::with_stars("other")))), Vec::<String>::new());
    let severe = Options { min_severity: Some(Severity::Critical), ..Options::default() };
    assert_eq!(ids(severe), ["rt-starvation"]);
}

/// What the recorder noted beside the events comes out beside the times and the names.
#[test]
fn the_time_of_day_the_host_and_where_tasks_are_come_from_the_snapshot() {
    let facts = |tid: u32, tgid: u32, comm: &str, cgroup: &str| serde_json::json!({"tid": tid, "tgid": tgid, "comm": comm, "policy": "other", "cgroup": cgroup, "start_ticks": 1});
    let second = 1_000_000_000_u64;
    let snapshot = serde_json::json!({
        "kernel": {}, "host": "web1",
        "tasks": [facts(100, 90, "hog", "/system.slice/hog.service"), facts(101, 101, "app", "/user.slice")],
        // The wall's clock is ahead by 1.6e9 seconds, and by another millisecond at the end.
        "clock_pairs": [
            {"trace_ns": 0, "realtime_ns": 1_600_000_000 * second},
            {"trace_ns": 4 * second, "realtime_ns": 1_600_000_004 * second + 1_000_000},
        ],
    });
    let report = one_stall().snapshot(snapshot).explain();
    assert_eq!(report.trace.host.as_deref(), Some("web1"));
    assert_eq!(report.trace.clock_pairs.len(), 2);
    assert!(report.trace.start_utc.as_deref().is_some_and(|utc| utc.starts_with("2020-09-13T12:26:4")), "{report:?}");
    let finding = &report.findings[0];
    let culprit = &finding.culprits[0];
    assert_eq!((&culprit.tids, &culprit.tgids), (&vec![100], &vec![90]));
    assert_eq!(culprit.cgroups, ["/system.slice/hog.service"]);
    assert_eq!(finding.victim.cgroups, ["/user.slice"]);
    let worst = &finding.worst[0];
    let drift = worst.start_ns / 4000;
    let expected = unstarve_model::WallTime(1_600_000_000 * second + worst.start_ns + drift).to_string();
    assert_eq!(worst.start_utc.as_deref(), Some(expected.as_str()));
    assert_eq!(report.worst_waits[0].cgroup.as_deref(), Some("/user.slice"));

    let plain = one_stall().explain();
    assert_eq!((plain.trace.host, plain.trace.start_utc, plain.trace.clock_pairs), (None, None, vec![]));
    assert_eq!(plain.findings[0].worst[0].start_utc, None, "what nobody noted is absent");
}
