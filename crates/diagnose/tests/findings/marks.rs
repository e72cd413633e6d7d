//! What a report says of tasks beyond their names.

use serde_json::{Value, json};
use unstarve_diagnose::report::Finding;

use crate::findings::scene::{Scene, times};

/// A worker waits for two monitors of its CPU, eight seconds apart; the first one keeps it longer. One column is 5 ms.
fn two_monitors() -> Scene {
    let burst = |letter: &str, length: usize| {
        format!("{}{}", times(length, letter), "k".to_owned() + &times(399 - length, "."))
    };
    Scene::new(5000)
        .task('h', "clk", 49)
        .task('i', "clk", 39)
        .task('k', "kworker/0:1", 120)
        .cpu(&format!("{}{}", burst("h", 40), burst("i", 20)))
        .wakes('h', &format!("!{}", times(799, " ")))
        .wakes('i', &format!("{}!{}", times(400, " "), times(399, " ")))
        .wakes('k', &format!(" !{} !{}", times(398, " "), times(398, " ")))
}

/// Findings about the worker, by whom they blame.
fn worker(scene: &Scene) -> Vec<Finding> {
    let mut findings = scene.explain().findings;
    findings.retain(|finding| finding.victim.tids == [102]);
    findings.sort_by_key(|finding| finding.culprits[0].tids.clone());
    findings
}

fn task(tid: u32, comm: &str, kernel: bool) -> Value {
    json!({"tid": tid, "comm": comm, "policy": "other", "cgroup": "/", "kernel_thread": kernel, "start_ticks": 1})
}

#[test]
fn a_listed_wait_has_who_waited_and_who_had_most_of_it() {
    let findings = worker(&two_monitors());
    assert!(!findings.is_empty());
    for finding in &findings {
        let waits = finding.worst.iter().map(|wait| (wait.tid, wait.culprit)).collect::<Vec<_>>();
        assert_eq!(waits, [(Some(102), Some(0))], "{finding:?}");
        assert!(finding.lists_all, "the other monitor's waits are none of its own");
    }
    // As the victims' waits are of many rules and culprits, more than one row can have them.
    let mut many = worker(&many_waits());
    let finding = many.pop().expect("a finding");
    assert!(!finding.lists_all, "{} of {} are listed", finding.worst.len(), finding.waits.count);
}

/// A monitor keeps the worker waiting twenty times.
fn many_waits() -> Scene {
    let round = format!("{}k{}", times(16, "h"), times(23, "."));
    let row = |round: &str| times(20, round);
    Scene::new(5000)
        .task('h', "clk", 49)
        .task('i', "clk", 39)
        .task('k', "kworker/0:1", 120)
        .cpu(&row(&round))
        .wakes('h', &row(&format!("!{}", times(39, " "))))
        .wakes('k', &row(&format!(" !{}", times(38, " "))))
}

#[test]
fn a_name_alone_marks_nobody_as_a_kernel_thread() {
    for finding in worker(&two_monitors()) {
        assert_eq!((finding.victim.kind.word(), finding.victim.kernel_thread), ("kworker", None));
        assert_eq!((finding.victim.all_known, finding.culprits[0].all_known), (false, false));
    }
    let with = |kernel: bool| {
        let tasks = json!([task(101, "clk", false), task(102, "kworker/0:1", kernel)]);
        two_monitors().snapshot(json!({ "kernel": { "release": "6.1.0" }, "tasks": tasks }))
    };
    for finding in worker(&with(true)) {
        assert_eq!(finding.victim.kernel_thread, Some(true));
        let culprit = &finding.culprits[0];
        let expected = if culprit.tids == [101] { (Some(false), true) } else { (None, false) };
        assert_eq!((culprit.kernel_thread, culprit.all_known), expected, "of the other one the snapshot says nothing");
    }
    assert_eq!(with(true).explain().worst_waits[0].kernel_thread, Some(true));
    let report = with(false).explain();
    assert!(report.findings.iter().all(|finding| finding.victim.kernel_thread != Some(true)));
    assert_eq!(report.worst_waits[0].kernel_thread, Some(false));
}

/// Two workers wait for a monitor, the one of which the snapshot may say nothing for longer. One column is 5 ms.
fn two_workers(known: &[u32]) -> Scene {
    let tasks: Vec<Value> = known
        .iter()
        .map(|tid| task(*tid, ["clk", "kworker/0:9", "kworker/0:1"][*tid as usize - 100], *tid > 100))
        .collect();
    Scene::new(5000)
        .task('h', "clk", 49)
        .task('u', "kworker/0:9", 120)
        .task('k', "kworker/0:1", 120)
        .cpu(&format!("{}uk{}", times(40, "h"), times(358, ".")))
        .wakes('h', &format!("!{}", times(399, " ")))
        .wakes('u', &format!(" !{}", times(398, " ")))
        .wakes('k', &format!("    !{}", times(395, " ")))
        .snapshot(json!({ "kernel": { "release": "6.1.0" }, "tasks": tasks }))
}

fn of_both(known: &[u32]) -> Finding {
    let mut findings = two_workers(known).explain().findings;
    findings.retain(|finding| finding.id.as_str() == "rt-starvation");
    assert_eq!(findings.len(), 1);
    findings.remove(0)
}

#[test]
fn what_may_be_a_program_is_not_named_as_a_kernel_thread() {
    let finding = of_both(&[100, 102]);
    let victim = &finding.victim;
    assert_eq!((victim.kernel_thread, victim.kind.word()), (Some(true), "kworker"));
    assert_eq!((victim.comm.as_str(), &victim.tids[..], victim.tasks), ("kworker/0:1", &[102][..], 1));
    assert!(
        finding.sentence.contains("kworker/0:1") && !finding.sentence.contains("kworker/0:9"),
        "{}",
        finding.sentence
    );
    // Where both are shown, or neither is, both are named.
    for (known, kernel_thread) in [(&[100, 101, 102][..], Some(true)), (&[100], None)] {
        let victim = of_both(known).victim;
        assert_eq!((victim.comm.as_str(), &victim.tids[..]), ("kworker/0:9", &[101, 102][..]));
        assert_eq!((victim.kernel_thread, victim.tasks), (kernel_thread, 2));
    }
}
