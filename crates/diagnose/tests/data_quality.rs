//! When a trace cannot say that nobody is starved, and when its waits are no waits.

use unstarve_diagnose::report::{Report, Severity};
use unstarve_diagnose::{Options, explain};
use unstarve_model::{CpuId, EventType, Loss, LossKind};
use unstarve_readers::{Input, open_input};

fn explained(text: &str) -> Report {
    let input = Input::from_stream(Box::new(std::io::Cursor::new(text.to_owned().into_bytes())), "x".into()).unwrap();
    explain(open_input(input).unwrap(), &Options::default(), |_| {}).unwrap()
}

fn too_little(text: &str) -> String {
    explained(text).trace.too_little.unwrap_or_else(|| "-".to_owned())
}

/// Two tasks take turns of a millisecond on one CPU.
fn turns(count: u64) -> String {
    let turn = |at: u64| {
        let (prev, next) = if at.is_multiple_of(2) { ("a", "b") } else { ("b", "a") };
        let id = |name| if name == "a" { 7 } else { 8 };
        format!(
            "{prev} {} [000] 1.{:06}: sched:sched_switch: prev_comm={prev} prev_pid={} prev_prio=120 prev_state=R ==> \
             next_comm={next} next_pid={} next_prio=120\n",
            id(prev),
            at * 1000,
            id(prev),
            id(next)
        )
    };
    (0..count).map(turn).collect()
}

#[test]
fn a_trace_in_which_no_stall_fits_is_no_all_clear() {
    assert_eq!(too_little(&turns(40)), "it covers 39.0 ms, and what is called a stall lasts 48.0 ms or more");
    assert_eq!(too_little(&turns(60)), "-");
}

#[test]
fn without_switches_there_are_no_waits() {
    let wake = |at: u64| {
        let wakee = 100 + at % 3;
        format!("irq 9 [000] 1.{:06}: sched:sched_waking: comm=w pid={wakee} prio=120 target_cpu=000\n", at * 10_000)
    };
    let report = explained(&(0..90).map(wake).collect::<String>());
    assert_eq!(report.trace.too_little.as_deref(), Some("it has no sched_switch events, which show who ran"));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert!(report.worst_waits.is_empty());
}

/// A hog keeps a CPU of a woken task for 200 ms, as perf's own records show it.
fn hog() -> String {
    let quick = |at: u64| {
        let line = |us: u64, from: &str, to: &str| {
            let time = at * 1000 + us;
            format!("{from} [000] 1.{time:06}: PERF_RECORD_SWITCH_CPU_WIDE OUT          next pid/tid: {to}\n")
        };
        [line(0, "swapper 0", "5/5"), line(100, "quick 5", "0/0")].concat()
    };
    let mut text: String = (0..30).map(quick).collect();
    text.push_str("swapper 0 [000] 1.040000: PERF_RECORD_SWITCH_CPU_WIDE OUT          next pid/tid: 6/6\n");
    text.push_str("hog 6 [000] 1.050000: sched:sched_waking: comm=quick pid=5 prio=120 target_cpu=000\n");
    text.push_str("hog 6 [000] 1.250000: PERF_RECORD_SWITCH_CPU_WIDE OUT preempt  next pid/tid: 5/5\n");
    text + "quick 5 [000] 1.251000: PERF_RECORD_SWITCH_CPU_WIDE OUT          next pid/tid: 6/6\n"
}

#[test]
fn a_long_wait_behind_a_task_of_unknown_priority_is_no_all_clear_and_no_alarm() {
    let report = explained(&hog());
    assert!(report.findings.iter().all(|finding| finding.severity < Severity::Warning), "{:?}", report.findings);
    assert_eq!(
        report.trace.too_little.as_deref(),
        Some(
            "its switches have no priorities (PERF_RECORD_SWITCH), so a wait of 200 ms may be behind a real-time task"
        )
    );
    // Where something else says that it is real-time, it is.
    let named = "swapper 0 [000] 1.039990: sched:sched_waking: comm=hog pid=6 prio=89 target_cpu=000\n";
    let hog = "swapper 0 [000] 1.040000";
    let report = explained(&self::hog().replace(hog, &format!("{named}{hog}")));
    assert_eq!(report.findings.first().map(|finding| finding.severity), Some(Severity::Critical));
}

#[test]
fn programs_get_the_kind_the_event_by_its_kernel_name_and_the_count() {
    for (loss, json) in [
        (
            Loss::new(LossKind::NotRecorded(EventType::Waking), 1),
            r#"{"kind":"not-recorded","event":"sched_waking","count":1}"#,
        ),
        (Loss::lost_events(CpuId(3), 1204), r#"{"kind":"lost-events","count":1204,"detail":"CPU 3"}"#),
    ] {
        assert_eq!(serde_json::to_string(&loss).expect("JSON"), json);
        assert_eq!(serde_json::from_str::<Loss>(json).expect("a loss"), loss);
    }
}

/// What CPU 1 of two CPUs recorded: a real-time task keeps it for 300 ms, in which a task that runs on CPU 0 and one that
/// cannot leave CPU 1 seem to wait.
fn one_cpu_of_two() -> String {
    let waking = |us: u64, who: &str, cpu: u32| {
        format!("w 5 [001] 1.{us:06}: sched:sched_waking: comm={who} prio=120 target_cpu=00{cpu}\n")
    };
    let switch = |us: u64, prev: &str, state: &str, next: &str| {
        let part = |side: &str, task: &str| {
            let (comm, rest) = task.split_once(' ').unwrap();
            let (pid, prio) = rest.split_once(' ').unwrap();
            format!("{side}_comm={comm} {side}_pid={pid} {side}_prio={prio}")
        };
        let (comm, rest) = prev.split_once(' ').unwrap();
        let pid = rest.split_once(' ').unwrap().0;
        let (prev, next) = (part("prev", prev), part("next", next));
        format!("{comm} {pid} [001] 1.{us:06}: sched:sched_switch: {prev} prev_state={state} ==> {next}\n")
    };
    let mut text = String::new();
    for at in 0..20 {
        // Woken again and again without having run where anybody could see it.
        text += &waking(at * 1000, "away pid=6", 0);
        text += &switch(at * 1000 + 500, "w 5 120", "R", "x 7 120");
        text += &switch(at * 1000 + 600, "x 7 120", "R", "w 5 120");
    }
    text += &waking(30_000, "away pid=6", 1);
    text += &waking(30_001, "kworker/1:1 pid=8", 1);
    text += &switch(31_000, "w 5 120", "R", "hog 9 89");
    text += &switch(331_000, "hog 9 89", "S", "kworker/1:1 8 120");
    text += &switch(332_000, "kworker/1:1 8 120", "S", "away 6 120");
    text + &switch(333_000, "away 6 120", "S", "x 7 120")
}

#[test]
fn waits_of_tasks_that_may_have_run_on_an_unrecorded_cpu_are_not_believed() {
    let report = explained(&one_cpu_of_two());
    let waits: Vec<&str> = report.worst_waits.iter().map(|wait| wait.comm.as_str()).collect();
    assert!(!waits.contains(&"away"), "{waits:?}");
    assert!(waits.contains(&"kworker/1:1"), "{waits:?}");
    let reason = report.trace.too_little.unwrap();
    assert!(reason.starts_with("one CPU was not recorded (0; "), "{reason}");
    assert!(report.losses.iter().any(|loss| loss.starts_with("one CPU was not recorded")), "{:?}", report.losses);
}

#[test]
fn a_silent_cpu_on_which_nobody_ran_is_only_idle() {
    let text = one_cpu_of_two().replace("target_cpu=000", "target_cpu=001");
    let report = explained(&text);
    assert!(!report.losses.iter().any(|loss| loss.contains("not recorded (0")), "{:?}", report.losses);
}

/// Text of perf script: `a` has the CPU for so long while its equal waits, and before that both take turns.
fn unequal(ms: u64) -> String {
    let mut text = turns(30);
    let end = |us: u64| format!("1.{:06}", 30_000 + ms * 1000 + us);
    text += "b 8 [000] 1.030000: sched:sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120\n";
    text += &format!(
        "a 7 [000] {}: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=R ==> next_comm=b next_pid=8 next_prio=120\n",
        end(0)
    );
    text + &format!(
        "b 8 [000] {}: sched:sched_switch: prev_comm=b prev_pid=8 prev_prio=120 prev_state=S ==> next_comm=a next_pid=7 next_prio=120\n",
        end(1000)
    )
}

#[test]
fn a_wait_that_no_sharing_among_equals_explains_is_no_all_clear() {
    let report = explained(&unequal(150));
    assert_eq!(report.verdict.severity, None);
    let why = report.trace.too_little.unwrap();
    assert!(why.starts_with("b[8] waited 150 ms, 150 ms of it behind a, its equal by priority."), "{why}");
    assert!(report.trace.rates_hold && !explained(&turns(40)).trace.rates_hold);
}

#[test]
fn an_equal_that_does_not_leave_is_a_finding() {
    let report = explained(&unequal(200));
    let found = report.findings.iter().map(|finding| format!("{:?} {}", finding.severity, finding.sentence));
    assert_eq!(
        found.collect::<Vec<_>>(),
        ["Warning b is delayed by a, an equal that did not leave the CPU for 200 ms: waited 200 ms."]
    );
    assert_eq!(report.trace.too_little, None, "the finding says it");
    assert!(report.findings[0].evidence.iter().any(|line| line.contains("weight or limit")), "{:?}", report.findings);
}

#[test]
fn nothing_is_critical_where_more_is_missing_than_was_read() {
    // A real-time hog, and every other switch is one that earlier events exclude.
    let line = |at: u64, cpu: u32, prev: &str, next: &str| {
        let part = |side: &str, (comm, pid, prio): (&str, &str, &str)| {
            format!("{side}_comm={comm} {side}_pid={pid} {side}_prio={prio}")
        };
        let of = |word: &str| -> (String, String, String) {
            let mut words = word.split(' ').map(str::to_owned);
            (words.next().unwrap(), words.next().unwrap(), words.next().unwrap())
        };
        let (p, n) = (of(prev), of(next));
        format!(
            "{} {} [00{cpu}] {}.{:06}: sched:sched_switch: {} prev_state=R ==> {}\n",
            p.0,
            p.1,
            at / 1_000_000,
            at % 1_000_000,
            part("prev", (&p.0, &p.1, &p.2)),
            part("next", (&n.0, &n.1, &n.2))
        )
    };
    let mut text = String::new();
    for round in 0..12 {
        let at = 1_000_000 + round * 300_000;
        text += &line(at, 0, "v 6 120", "h 5 49");
        text += &line(at + 250_000, 0, "h 5 49", "v 6 120");
    }
    assert_eq!(explained(&text).findings.first().map(|finding| finding.severity), Some(Severity::Critical));
    // Each of these is issued by a task that did not run by what was read before.
    for step in 0..200 {
        let (at, current) = (step * 1000, 20 + step % 2);
        text += &format!("w {current} [000] 5.{at:06}: sched:sched_waking: comm=x pid=30 prio=120 target_cpu=000\n");
    }
    let report = explained(&text);
    assert!(report.findings.iter().all(|finding| finding.severity == Severity::Info), "{:?}", report.verdict);
    assert!(report.trace.too_little.is_some_and(|why| why.contains("missing")));
}

#[test]
fn a_task_whose_priority_no_event_has_is_not_taken_for_a_heavier_one() {
    // The text begins in the middle of a stay that lasts to its end: who had the CPU shows in the first column alone. The one that
    // waits is nice 5.
    let wake = "hog 6 [000] 1.061000: sched:sched_waking: comm=quick pid=5 prio=125 target_cpu=000\n";
    let late = "hog 6 [000] 1.361000: sched:sched_waking: comm=other pid=9 prio=120 target_cpu=001\n";
    let hog = "a 7 [000] 1.060500: sched:sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=hog \
               next_pid=6 next_prio=89\n";
    let report = explained(&format!("{}{wake}{late}", turns(361).replace("[000]", "[001]")));
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    assert_eq!(
        report.trace.too_little.as_deref(),
        Some("quick waited 300 ms behind hog, and no event has the priorities of both: it may be a real-time task")
    );
    let known = explained(&format!("{}{hog}{wake}{late}", turns(60)));
    assert_eq!(known.findings.first().map(|finding| finding.id.as_str()), Some("rt-starvation"));
}

#[test]
fn an_all_clear_of_a_file_that_was_cut_says_so() {
    let whole = turns(60);
    let verdict = |text: &str| explained(text).verdict.text;
    assert!(!verdict(&whole).contains("cut"), "{}", verdict(&whole));
    let cut = &whole[..whole.len() - 60];
    assert!(verdict(cut).starts_with("The file is cut"), "{}", verdict(cut));
    // Wherever in its last line: in the name, the id, the CPU, the time, or in what it says.
    let last = "work 9 [000] 1.060000: sched:sched_waking: comm=a pid=7 prio=120 target_cpu=000";
    for at in [1, 4, 6, 8, 11, 12, 15, 20, 22, 26, 35, 42, 50, 60] {
        let verdict = verdict(&format!("{whole}{}", &last[..at]));
        assert!(verdict.starts_with("The file is cut"), "{:?}: {verdict}", &last[..at]);
    }
    let unended = verdict(&format!("{whole}{last}"));
    assert!(!unended.contains("cut"), "{unended}");
}

/// A real-time task has the CPU of another for 250 of each 300 ms. `id` is what stands in front of each line.
fn real_time_hog(id: impl Fn(u32) -> u32) -> String {
    let line = |at: u64, prev: (&str, u32, i32), next: (&str, u32, i32)| {
        let part = |side: &str, (comm, pid, prio): (&str, u32, i32)| {
            format!("{side}_comm={comm} {side}_pid={pid} {side}_prio={prio}")
        };
        let (from, to) = (part("prev", prev), part("next", next));
        let time = format!("{}.{:06}", at / 1_000_000, at % 1_000_000);
        format!("{} {} [000] {time}: sched:sched_switch: {from} prev_state=R ==> {to}\n", prev.0, id(prev.1))
    };
    let (v, h) = (("v", 6, 120), ("h", 5, 49));
    (0..12).map(|round| 1_000_000 + round * 300_000).map(|at| line(at, v, h) + &line(at + 250_000, h, v)).collect()
}

#[test]
fn a_text_of_a_pid_namespace_says_the_same_as_one_from_outside() {
    let sentence = |report: &Report| report.findings.first().map(|finding| finding.sentence.clone());
    let outside = explained(&real_time_hog(|id| id));
    for inside in [explained(&real_time_hog(|_| 0)), explained(&real_time_hog(|id| id % 2))] {
        assert_eq!(sentence(&inside), sentence(&outside));
        assert!(inside.losses.iter().any(|loss| loss.starts_with("the ids in front of")), "{:?}", inside.losses);
        assert!(!inside.losses.iter().any(|loss| loss.contains("context switch")), "{:?}", inside.losses);
    }
}

#[test]
fn what_is_hardly_sure_is_no_alarm_and_the_verdict_says_so_first() {
    // Each CPU that lost most of its events halves the confidence.
    let lossy = |cpus: u32| {
        let lost = |cpu: u32| format!("v 6 [00{cpu}] 1.0001: PERF_RECORD_LOST lost 1000000\n");
        explained(&(real_time_hog(|id| id) + &(0..cpus).map(lost).collect::<String>()))
    };
    let cases = [(0, Severity::Critical), (1, Severity::Warning), (2, Severity::Warning), (4, Severity::Info)];
    for (cpus, severity) in cases {
        let report = lossy(cpus);
        let finding = &report.findings[0];
        assert_eq!(finding.severity, severity, "{cpus}: confidence {}", finding.confidence);
        let text = &report.verdict.text;
        assert_eq!(text.contains("Low confidence: ") || text.contains("Too little was recorded"), cpus > 0, "{text}");
        assert!(!text.contains("Nobody is starved"), "{text}");
        assert_eq!(text.contains("h (real-time)"), cpus < 4, "{text}");
    }
}

#[test]
fn a_task_that_may_leave_can_have_been_pulled_by_an_unrecorded_cpu() {
    // Moves and arrivals are recorded, but a CPU that pulls a task says so itself. w is preempted at 31 ms and back at 334 ms; y is
    // queued at 30 ms and has the CPU at 335 ms.
    let queued = |us: u64| format!("w 5 [001] 1.{us:06}: sched:sched_wakeup: comm=y pid=31 prio=120 target_cpu=001\n");
    let waking = "w 5 [001] 1.030002: sched:sched_waking: comm=y pid=31 prio=120 target_cpu=001\n";
    let before = "w 5 [001] 1.031000: sched:sched_switch";
    let text = one_cpu_of_two().replace(before, &format!("{waking}{}{before}", queued(30_003)))
        + "x 7 [001] 1.334000: sched:sched_switch: prev_comm=x prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=w \
           next_pid=5 next_prio=120\n"
        + "w 5 [001] 1.335000: sched:sched_switch: prev_comm=w prev_pid=5 prev_prio=120 prev_state=S ==> next_comm=y \
           next_pid=31 next_prio=120\n"
        + "y 31 [001] 1.336000: sched:sched_switch: prev_comm=y prev_pid=31 prev_prio=120 prev_state=S ==> next_comm=x \
           next_pid=7 next_prio=120\n";
    let migrates = "w 5 [001] 1.000000: sched:sched_migrate_task: comm=z pid=30 prio=120 orig_cpu=1 dest_cpu=0\n";
    let report = explained(&(migrates.to_owned() + &text));
    let long = report.worst_waits.iter().filter(|wait| wait.end_ns - wait.start_ns > 100_000_000);
    let long: Vec<&str> = long.map(|wait| wait.comm.as_str()).collect();
    assert_eq!(long, ["kworker/1:1"]);
}
