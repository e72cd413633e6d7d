//! What is offered on which kernel, beside which weight.

use serde_json::json;
use unstarve_change::{Change, Selector, Target};
use unstarve_diagnose::report::Remedy;
use unstarve_diagnose::{Options, explain};
use unstarve_model::{
    Comm, Context, CpuId, Event, EventKind, Issuer, MemorySource, Names, PrevState, Prio, TaskRef, Tid, Time, TraceInfo,
};

use crate::findings::scene::{Scene, times};

fn worker_beside_group(weight: u32, release: &str) -> Vec<Remedy> {
    let rounds = 5000;
    let snapshot = json!({
        "kernel": {"release": release},
        "hierarchy": {"version": "v2", "mount": "/sys/fs/cgroup"},
        "cgroups": [{"path": "/kubepods", "weight": weight}],
        "tasks": [
            {"tid": 100, "comm": "fio", "policy": "other", "cgroup": "/kubepods", "start_ticks": 1},
            {"tid": 101, "comm": "kworker/0:2", "policy": "other", "cgroup": "/", "kernel_thread": true, "start_ticks": 1},
        ],
    });
    let scene = Scene::new(10)
        .task('f', "fio", 120)
        .task('k', "kworker/0:2", 120)
        .cpu(&times(rounds, "kfff"))
        .wakes('f', &times(rounds, " ^  "))
        .items('k', "iomap_dio_complete_work", &times(rounds, "i   "))
        .snapshot(snapshot);
    scene.explain().findings.remove(0).remedies
}

fn apply<'a>(remedies: &'a [Remedy], id: &str) -> Option<&'a str> {
    remedies.iter().find(|remedy| remedy.id.as_str() == id).map(|remedy| remedy.apply.as_str())
}

/// The changes of a remedy: of what, what it was where that is known, to what.
fn changes(remedies: &[Remedy], id: &str) -> Vec<String> {
    let found = remedies.iter().find(|remedy| remedy.id.as_str() == id);
    let lines = found.iter().flat_map(|remedy| &remedy.changes).map(|change| {
        let target = match &change.target {
            Target::Thread(thread) => thread.tid.to_string(),
            Target::Threads(Selector::Process(process)) => format!("all of {}", process.tid),
            Target::File { path } => path.clone(),
            other => format!("{other:?}"),
        };
        let was = change.was.as_ref().map(|was| format!("{was} -> ")).unwrap_or_default();
        let to = change.value().map(ToString::to_string).unwrap_or_default();
        format!("{target}: {was}{to}")
    });
    lines.collect()
}

#[test]
fn nice_is_offered_only_where_it_wins() {
    let nice = |weight| {
        let remedies = worker_beside_group(weight, "6.1.0-32-amd64");
        // Between the check that it is still the same thread and the redirection.
        let line = apply(&remedies, "raise-worker")?;
        let command = line.split_once("101:1) ")?.1.split_once(" > /dev/null")?.0;
        Some(command.to_owned())
    };
    assert_eq!(nice(1000).as_deref(), Some("renice -n -11 -p $t"));
    assert_eq!(nice(2500).as_deref(), Some("renice -n -15 -p $t"), "nice −10 weighs 9548, the group 25600");
    assert_eq!(nice(10_000), None, "not even nice −20");
}

#[test]
fn what_a_kernel_does_not_have_or_was_proved_useless_there_is_not_offered() {
    let ids = |release| {
        let remedies = worker_beside_group(1000, release);
        remedies.into_iter().map(|remedy| remedy.id.to_string()).collect::<Vec<_>>().join(" ")
    };
    insta::assert_snapshot!(ids("5.10.0-32-amd64"), @"lower-group-weight batch-wakee raise-worker worker-to-rt no-wakeup-preemption wakeup-granularity inline-completion");
    insta::assert_snapshot!(ids("6.12.9-amd64"), @"lower-group-weight batch-wakee raise-worker worker-to-rt no-wakeup-preemption inline-completion");
    insta::assert_snapshot!(ids("7.2.1-amd64"), @"lower-group-weight batch-wakee raise-worker no-wakeup-preemption");
}

/// The hog has 900 ms of each second: less is left than the fair server would keep.
fn hog_beside_ksoftirqd(release: &str) -> Vec<Remedy> {
    let second = format!("{}{}", times(180, "h"), times(10, "k."));
    let scene = Scene::new(5000)
        .task('h', "monitor", 89)
        .task('k', "ksoftirqd/0", 120)
        .cpu(&times(4, &second))
        .cpu(&times(800, "."))
        .wakes('h', &times(4, &format!("!{}", times(199, " "))))
        .wakes('k', &times(4, &format!(" !{}{}", times(180, " "), times(9, "! "))))
        .kernel(release);
    scene.explain().findings.remove(0).remedies
}

#[test]
fn the_fair_server_is_offered_only_where_it_would_act() {
    // In each second of 200 columns of 5 ms; the server would keep a fifth, and begin after 800 ms.
    for (hog, turns, is_offered) in [(150, 1, false), (180, 1, true), (75, 2, false), (90, 2, true)] {
        let turn = format!("{}{}", times(hog, "h"), times(200 / turns - hog, "k"));
        let wakes = format!(" !{}", times(200 / turns - 2, " "));
        let scene = Scene::new(5000)
            .task('h', "monitor", 89)
            .task('k', "ksoftirqd/0", 120)
            .cpu(&times(4 * turns, &turn))
            .cpu(&times(800, "."))
            .wakes('h', &times(4 * turns, &format!("!{}", times(200 / turns - 1, " "))))
            .wakes('k', &times(4 * turns, &wakes))
            .kernel("6.14.9-amd64");
        let findings = scene.explain().findings;
        let offered = findings[0].remedies.iter().any(|remedy| remedy.id.as_str() == "fair-server");
        assert_eq!(offered, is_offered, "{hog} columns of {}: {}", 200 / turns, findings[0].sentence);
    }
}

#[test]
fn the_remedies_of_real_time_depend_on_the_kernel_too() {
    let old = hog_beside_ksoftirqd("5.10.0-32-amd64");
    assert_eq!(apply(&old, "fair-server"), None);
    assert_eq!(changes(&old, "move-intruder"), ["100: CPUs 1"]);
    assert_eq!(changes(&old, "victim-above-intruder"), ["101: fifo 11"], "RR 10 shows as priority 89");
    // On 6.12 it did harm to a ksoftirqd (bench/results/proofs.md).
    assert_eq!(apply(&hog_beside_ksoftirqd("6.12.9-amd64"), "fair-server"), None);
    let new = hog_beside_ksoftirqd("6.14.9-amd64");
    assert_eq!(
        changes(&new, "fair-server"),
        ["/sys/kernel/debug/sched/fair_server/cpu0/runtime: `200000000`"],
        "what was there is not known"
    );
    assert!(apply(&new, "fair-server").is_some_and(|line| line.contains("cat /sys/kernel/debug/sched/fair_server")));
    assert!(apply(&hog_beside_ksoftirqd("5.4.0"), "threaded-napi").is_none());
}

/// A helper of real-time priority 10 (task 100) beside ksoftirqd (101), with these tasks in the snapshot.
fn helper_with(tasks: serde_json::Value) -> Vec<Remedy> {
    let second = format!("{}{}", times(18, "h"), times(91, "k."));
    let scene = Scene::new(5000)
        .task('h', "helper", 89)
        .task('k', "ksoftirqd/0", 120)
        .cpu(&times(4, &second))
        .cpu(&times(800, "."))
        .wakes('h', &times(4, &format!("!{}", times(199, " "))))
        .wakes('k', &times(4, &format!(" !{}{}", times(18, " "), times(90, "! "))))
        .snapshot(json!({"kernel": {"release": "5.10.0"}, "tasks": tasks}));
    scene.explain().findings.remove(0).remedies
}

fn commands(remedies: &[Remedy], id: &str) -> Option<(String, String)> {
    let found = remedies.iter().find(|remedy| remedy.id.as_str() == id)?;
    Some((found.apply.clone(), found.undo.clone()))
}

#[test]
fn reset_on_fork_is_for_a_parent_that_is_real_time_itself() {
    let parent = |tid: u32, policy: &str, priority: u32, more: serde_json::Value| {
        let mut parent =
            json!({"tid": tid, "comm": "parent", "policy": policy, "rt_priority": priority, "start_ticks": 1});
        parent.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let helper = json!({
            "tid": 100, "comm": "helper", "policy": "rr", "rt_priority": 10, "parent": tid, "start_ticks": 2,
        });
        changes(&helper_with(json!([parent, helper])), "reset-on-fork")
    };
    const NOTHING: [&str; 0] = [];
    // The flag alone: policy and priority are read when it is set.
    assert_eq!(parent(50, "rr", 10, json!({})), ["50: reset-on-fork on"]);
    let known = parent(50, "fifo", 10, json!({"reset_on_fork": false}));
    assert_eq!(known, ["50: reset-on-fork off -> reset-on-fork on"]);
    assert_eq!(parent(50, "other", 0, json!({})), NOTHING, "an ordinary parent would become real-time");
    assert_eq!(parent(50, "rr", 20, json!({})), NOTHING, "it inherits priority and all");
    assert_eq!(parent(50, "rr", 10, json!({"reset_on_fork": true})), NOTHING, "it has it already");
    assert_eq!(parent(1, "rr", 10, json!({})), NOTHING, "the first process");
    assert_eq!(parent(2, "rr", 10, json!({"kernel_thread": true})), NOTHING, "kthreadd");
    assert_eq!(changes(&hog_beside_ksoftirqd("5.10.0"), "reset-on-fork"), NOTHING, "no snapshot, no parent");
    // The thread that forks need not be the first.
    let threads = json!([
        {"tid": 50, "comm": "main", "policy": "other", "start_ticks": 1},
        {"tid": 51, "tgid": 50, "comm": "rt", "policy": "fifo", "rt_priority": 10, "start_ticks": 1},
        {"tid": 100, "comm": "helper", "policy": "fifo", "rt_priority": 10, "parent": 50, "start_ticks": 2},
    ]);
    assert_eq!(changes(&helper_with(threads), "reset-on-fork"), ["51: reset-on-fork on"]);
}

#[test]
fn undo_gives_back_policy_priority_flag_and_nice() {
    let remedies = |helper: serde_json::Value| helper_with(json!([helper]));
    let helper = |policy: &str, priority: u32| json!({"tid": 100, "comm": "helper", "policy": policy, "rt_priority": priority, "start_ticks": 2});
    let mut whole = helper("rr", 10);
    whole["nice"] = json!(-5);
    whole["reset_on_fork"] = json!(true);
    let (_, undo) = commands(&remedies(whole), "intruder-to-fair").expect("a remedy");
    let (nice, class) = undo.split_once("done; ").expect("two loops");
    assert!(nice.contains("100:2) renice -n -5 -p $t > /dev/null"), "{undo}");
    assert!(class.contains("100:2) chrt --reset-on-fork --rr --pid 10 $t"), "{undo}");
    // Without the flag chrt(1) cannot put it back, so it is read first; nothing is guessed.
    let fifo = remedies(helper("fifo", 10));
    assert_eq!(changes(&fifo, "intruder-to-fair"), ["100: fifo 10 -> other", "100: nice 0 -> nice -10"]);
    assert!(commands(&fifo, "intruder-to-fair").is_some_and(|(apply, _)| apply.contains("LC_ALL=C chrt -p $t")));
    // The snapshot saw it before it became what the trace shows.
    let became = remedies(helper("other", 0));
    assert_eq!(changes(&became, "intruder-to-fair"), ["100: other", "100: nice 0 -> nice -10"]);
}

/// A pool of 18 real-time threads (100 to 117) of process 100, which has this many threads in all, beside ksoftirqd.
fn pool_of(process: u32) -> Vec<Remedy> {
    let letters = "abcdefghijlmnopqrs";
    let mut scene = Scene::new(5000);
    for (column, letter) in letters.chars().enumerate() {
        let before = " ".repeat(column);
        let woken = format!("{before}!{}", " ".repeat(199 - column));
        scene = scene.task(letter, "pool", 89).wakes(letter, &times(4, &woken));
    }
    let task = |tid: u32| json!({"tid": tid, "tgid": 100, "comm": "pool", "policy": "fifo", "rt_priority": 10, "start_ticks": tid});
    let tasks: Vec<_> = (100..100 + process).map(task).collect();
    let scene = scene
        .task('k', "ksoftirqd/0", 120)
        .cpu(&times(4, &format!("{letters}{}", times(91, "k."))))
        .cpu(&times(800, "."))
        .wakes('k', &times(4, &format!(" !{}{}", times(18, " "), times(90, "! "))))
        .snapshot(json!({"kernel": {"release": "5.10.0"}, "tasks": tasks}));
    scene.explain().findings.remove(0).remedies
}

#[test]
fn many_threads_are_named_by_their_process_if_it_has_no_others_and_else_all() {
    assert_eq!(changes(&pool_of(18), "intruder-to-fair"), ["all of 100: other", "all of 100: nice -10"]);
    let others = pool_of(19);
    let each = changes(&others, "intruder-to-fair");
    assert_eq!(each.len(), 36, "{each:?}");
    assert_eq!(each[0], "100: fifo 10 -> other");
    assert!(each.iter().all(|line| !line.starts_with("118:")), "{each:?}");
    let (apply, _) = commands(&others, "intruder-to-fair").expect("commands");
    assert!(apply.contains(" 117; do") && !apply.contains('#'), "{apply}");
}

/// A hog (100) of real-time priority 10 beside this task (101), which may use CPU 0 alone.
fn beside(comm: &str, prio: i32) -> Vec<Remedy> {
    let task = |tid: u32, comm: &str| json!({"tid": tid, "comm": comm, "policy": "other", "start_ticks": 1, "allowed": "0", "kernel_thread": comm.starts_with("rcu")});
    Scene::new(5000)
        .task('h', "monitor", 89)
        .task('v', comm, prio)
        .cpu(&times(10, &format!("{}{}", times(18, "h"), times(22, "v"))))
        .cpu(&times(400, "."))
        .wakes('h', &times(10, &format!("!{}", times(39, " "))))
        .snapshot(json!({"kernel": {"release": "6.1.0"}, "tasks": [task(100, "monitor"), task(101, comm)]}))
        .explain()
        .findings
        .remove(0)
        .remedies
}

#[test]
fn a_pinned_program_is_helped_by_moving_the_intruder_and_rcu_by_raising_it() {
    assert_eq!(changes(&beside("service", 120), "move-intruder"), ["100: CPUs 0 -> CPUs 1"]);
    assert_eq!(changes(&beside("rcu_preempt", 120), "victim-above-intruder"), ["101: other -> fifo 11"]);
    // Created then, a child of kthreadd without memory: a program of this name is not raised.
    let line = "for t in 101; do case $(tail -n 1 /proc/$t/stat 2> /dev/null | LC_ALL=C sed 's/.*) //' | cut -d ' ' -f 2,21 | tr ' ' :)\
                /$t:$(tail -n 1 /proc/$t/stat 2> /dev/null | LC_ALL=C sed 's/.*) //' | cut -d ' ' -f 20) in 2:0/101:1) \
                chrt --fifo --pid 11 $t ;; *) echo \"thread $t has ended\" >&2 ;; esac; done";
    assert_eq!(apply(&beside("rcu_preempt", 120), "victim-above-intruder"), Some(line));
    assert_eq!(apply(&beside("service", 120), "victim-above-intruder"), None);
}

#[test]
fn a_program_that_a_wrapper_became_is_called_by_its_own_name() {
    // `chrt` and `taskset` execute the program in their place; the shell that forked them had its name before.
    let task = |comm: &str| TaskRef::new(Tid(100), Comm::from(comm), Some(Prio(89)));
    let victim = TaskRef::new(Tid(101), Comm::from("job"), Some(Prio(120)));
    let names = ["spin", "chrt", "spin"];
    let mut events = Vec::new();
    let mut push = |ms: u64, kind| {
        let time = Time(ms * 1_000_000);
        events.push(Event { time, cpu: CpuId(0), issuer: Issuer::new(None, Context::Task), kind });
    };
    for (round, name) in names.iter().enumerate() {
        let at = 1000 + 300 * round as u64;
        let waking = EventKind::Waking { task: task(name), target_cpu: CpuId(0) };
        push(at, waking);
        push(at, EventKind::Switch { prev: victim, prev_state: PrevState::Preempted, next: task(name) });
        push(at + 200, EventKind::Switch { prev: task(name), prev_state: PrevState::Sleeping, next: victim });
    }
    let source = MemorySource::new(TraceInfo::default(), events, Names::default());
    let report = explain(Box::new(source), &Options::default(), |_| {}).expect("it can be explained");
    let finding = report.findings.iter().find(|finding| finding.id.as_str() == "rt-starvation").expect("600 ms");
    let fair =
        finding.remedies.iter().find(|remedy| remedy.id.as_str() == "intruder-to-fair").expect("it is real-time");
    let called = |change: &Change| match &change.target {
        Target::Thread(thread) => thread.comm.clone(),
        other => panic!("{other:?}"),
    };
    assert!(fair.changes.iter().map(called).all(|comm| comm == "spin"), "{:?}", fair.changes);
}

#[test]
fn another_program_of_the_same_name_is_left_alone() {
    // More threads than the trace lists; the snapshot has the rest, and namesakes of another cgroup and of the kernel.
    let letters: Vec<char> = ('\u{100}'..).take(130).collect();
    let row: String = letters.iter().map(|letter| format!("{}v", times(6, &letter.to_string()))).collect();
    let job = |tid: u32, group: &str, kernel: bool| {
        json!({"tid": tid, "comm": "job", "policy": "fifo", "rt_priority": 10, "cgroup": group, "kernel_thread": kernel,
               "start_ticks": 1})
    };
    let mut tasks: Vec<_> = (101..231).map(|tid| job(tid, "/jobs", false)).collect();
    tasks.extend([job(900, "/other", false), job(901, "/jobs", true)]);
    let scene = Scene::new(1000).task('v', "victim", 120).cpu(&row);
    let scene = letters.iter().fold(scene, |scene, letter| scene.task(*letter, "job", 89));
    let report = scene.snapshot(json!({"kernel": {"release": "6.1.0"}, "tasks": tasks})).explain();
    let fair = report.findings[0]
        .remedies
        .iter()
        .find(|remedy| remedy.id.as_str() == "intruder-to-fair")
        .expect("it is offered");
    let named = |change: &Change| match &change.target {
        Target::Thread(thread) => Some(thread.tid.0),
        _ => None,
    };
    let mut tids: Vec<u32> = fair.changes.iter().filter_map(named).collect();
    tids.sort_unstable();
    tids.dedup();
    assert_eq!(tids, (101..231).collect::<Vec<u32>>());
}

/// A hog of real-time priority 50 (thread 100) keeps a worker off for 150 ms twice, and ends; then `shell` forks a thread with this id
/// that becomes `name`.
fn hog_ended_and_its_id_was_given_to(tid: u32, name: &str) -> Vec<Remedy> {
    let task = |tid: u32, comm: &str, prio: i32| TaskRef::new(Tid(tid), Comm::from(comm), Some(Prio(prio)));
    let (hog, worker, shell) = (task(100, "hog", 49), task(50, "kworker/0:1", 120), task(90, "shell", 120));
    let idle = task(0, "swapper/0", 120);
    let mut events = Vec::new();
    let mut push = |ms: u64, current: TaskRef, kind| {
        let time = Time(1_000_000_000 + ms * 1_000_000);
        events.push(Event { time, cpu: CpuId(0), issuer: Issuer::new(Some(current.tid()), Context::Task), kind });
    };
    let waking = |task| EventKind::Waking { task, target_cpu: CpuId(0) };
    let switch = |prev, prev_state, next| EventKind::Switch { prev, prev_state, next };
    for (start, end) in [(0, PrevState::Sleeping), (200, PrevState::Dead)] {
        push(start, idle, waking(hog));
        push(start, idle, switch(idle, PrevState::Preempted, hog));
        push(start + 1, hog, waking(worker));
        push(start + 150, hog, switch(hog, end, worker));
        push(start + 152, worker, switch(worker, PrevState::Sleeping, idle));
    }
    push(400, idle, waking(shell));
    push(400, idle, switch(idle, PrevState::Preempted, shell));
    let (child, child_comm) = (Tid(tid), Comm::from("shell"));
    push(401, shell, EventKind::Fork { parent: shell.tid(), child, child_comm });
    let new = task(tid, name, 120);
    push(402, shell, waking(new));
    push(403, shell, switch(shell, PrevState::Sleeping, new));
    push(600, new, switch(new, PrevState::Sleeping, idle));
    let source = MemorySource::new(TraceInfo::default(), events, Names::default());
    let report = explain(Box::new(source), &Options::default(), |_| {}).expect("it can be explained");
    let finding = report.findings.into_iter().find(|finding| finding.id.as_str() == "rt-starvation").expect("300 ms");
    assert_eq!(finding.culprits[0].comm, "hog");
    finding.remedies
}

#[test]
fn who_got_the_id_of_a_thread_that_ended_is_left_alone() {
    let named = |remedies: &[Remedy]| {
        let targets = remedies.iter().flat_map(|remedy| &remedy.changes).map(|change| &change.target);
        let mut named: Vec<String> = targets
            .filter_map(|target| match target {
                Target::Thread(thread) => Some(format!("{} {}", thread.tid, thread.comm)),
                _ => None,
            })
            .collect();
        named.sort_unstable();
        named.dedup();
        named
    };
    assert_eq!(named(&hog_ended_and_its_id_was_given_to(300, "sshd")), ["100 hog", "50 kworker/0:1"]);
    assert_eq!(named(&hog_ended_and_its_id_was_given_to(100, "sshd")), ["50 kworker/0:1"]);
}

#[test]
fn a_real_time_priority_changes_without_the_policy() {
    let of = |policy: &str| {
        let snapshot = json!({
            "kernel": {"release": "6.1.0-32-amd64"},
            "tasks": [
                {"tid": 100, "comm": "pump", "policy": policy, "rt_priority": 90, "start_ticks": 1},
                {"tid": 101, "comm": "motor", "policy": policy, "rt_priority": 40, "start_ticks": 1},
            ],
        });
        let scene = Scene::new(1000).task('p', "pump", 9).task('m', "motor", 59);
        let row = format!(".{}mm..", times(200, "p"));
        let remedies = scene.cpu(&row).wakes('m', " !").snapshot(snapshot).explain().findings.remove(0).remedies;
        [changes(&remedies, "lower-intruder"), changes(&remedies, "raise-real-time-victim")].concat()
    };
    insta::assert_snapshot!(of("fifo").join("; "), @"100: fifo 90 -> fifo 39; 101: fifo 40 -> fifo 91");
    insta::assert_snapshot!(of("rr").join("; "), @"100: rr 90 -> rr 39; 101: rr 40 -> rr 91");
}

#[test]
fn who_is_in_a_group_that_is_last_asked_to_be_last() {
    let severity = |idle: bool| {
        let snapshot = json!({
            "kernel": {"release": "6.1.0-32-amd64"},
            "hierarchy": {"version": "v2", "mount": "/sys/fs/cgroup"},
            "cgroups": [{"path": "/batch", "weight": 100, "idle": idle}],
            "tasks": [
                {"tid": 100, "comm": "pump", "policy": "fifo", "rt_priority": 90, "cgroup": "/", "start_ticks": 1},
                {"tid": 101, "comm": "render", "policy": "other", "cgroup": "/batch/jobs", "start_ticks": 1},
            ],
        });
        let scene = Scene::new(1000).task('p', "pump", 9).task('r', "render", 120);
        let row = format!(".{}rr..", times(200, "p"));
        let report = scene.cpu(&row).wakes('r', " !").snapshot(snapshot).explain();
        let finding = report.findings.iter().find(|finding| finding.victim.comm == "render").expect("it waits");
        format!("{:?}", finding.severity)
    };
    assert_eq!([severity(false), severity(true)], ["Critical", "Info"]);
}
