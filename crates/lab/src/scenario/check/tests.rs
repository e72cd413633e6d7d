//! Errors in scenarios, with the line that each is reported at.

use super::*;

const GOOD: &str = r#"name = "good"
title = "A good one"
source = "nowhere"
cpus = 2
seconds = 1.0
setup = [
    { null-blk = { devices = 1, size_mib = 64, completion_ns = 0 } },
    { cgroup = { path = "pods", weight = 1000 }, when = "fault" },
]
[[load]]
name = "ping"
argv = ["load", "ping"]
cgroup = "pods"
cpus = "0-1"
policy = "rr:10"
main = true
metrics = "load"
[[knob]]
when = "remedy:cure"
name = "sched_feature.NEXT_BUDDY"
value = "on"
[[remedy]]
id = "cure"
own = true
title = "Cures"
steps = [{ threads = { comm = "ksoftirqd/1", policy = "fifo:20" } }]
[expect]
finding = ["rt-starvation"]
metrics = ["ping.max"]
"#;

fn message(change: (&str, &str)) -> String {
    assert!(GOOD.contains(change.0), "{} is not in the scenario", change.0);
    Scenario::parse("good.toml", &GOOD.replace(change.0, change.1)).expect_err("a broken scenario").to_string()
}

#[test]
fn a_scenario_survives_json_as_requests_carry_it() {
    let scenario = Scenario::parse("good.toml", GOOD).expect("a scenario");
    let json = serde_json::to_string(&scenario).expect("JSON");
    assert_eq!(serde_json::from_str::<Scenario>(&json).expect("a scenario"), scenario);
}

#[test]
fn mistakes_are_named_with_file_line_and_key() {
    let said: Vec<String> = [
        ("size_mib = 64", "size_mb = 64"),
        ("size_mib = 64", "size_mib = \"x\""),
        ("null-blk", "null-block"),
        (", when = \"fault\"", ", when = \"fault\", run = { argv = [\"x\"] }"),
        ("\"fault\"", "\"faulty\""),
        ("remedy:cure", "remedy:care"),
        ("[[knob]]", "[[load]]\nargv = [\"x\"]\nmain = true\n[[knob]]"),
        ("main = true", "count = 0"),
        ("main = true", "start_ms = -5"),
        ("[\"rt-starvation\"]", "[\"rt-starving\"]"),
        ("{ cgroup", "{ cgroup = { path = \"pods/below\" } },\n    { cgroup"),
        ("{ cgroup", "{ cgroup = { path = \"x\", set = { \"../a.b\" = \"1\" } } },\n    { cgroup"),
        ("[[knob]]", "[[file]]\npath = \"/init\"\ntext = \"\"\n[[knob]]"),
        ("[[knob]]", "[[file]]\npath = \"/opt/x\"\n[[knob]]"),
        ("[expect]", "[expect]\nquiet = true"),
        ("[expect]", "[expect]\nvictim = { name = \"x\" }"),
        ("rr:10", "rr:100"),
        ("0-1", "0-2"),
        ("\"pods\"\ncpus", "\"pots\"\ncpus"),
        ("sched_feature.N", "feature.N"),
        ("\"cure\"\nown = true", "\"cure\""),
        ("\"cure\"", "\"raise-worker\""),
        ("\"cure\"\nown = true", "\"raise-worker\""),
        ("metrics = \"load\"", "metrics = \"loud\""),
        ("seconds = 1.0", "seconds = 0.0"),
        ("seconds = 1.0", "seconds = 1.0\ninstruction_ns = 12"),
        ("expect", "expected"),
    ]
    .into_iter()
    .map(message)
    .collect();
    insta::assert_snapshot!(said.join("\n"), @r#"
    good.toml:7: unknown field `size_mb`, expected one of `devices`, `size_mib`, `completion_ns` (at `{ null-blk = { devices = 1, size_mb = 64, completion_ns = 0 } },`)
    good.toml:7: invalid type: string "x", expected u32 (at `{ null-blk = { devices = 1, size_mib = "x", completion_ns = 0 } },`)
    good.toml:7: unknown variant `null-block`, expected one of `null-blk`, `filesystem`, `mount`, `cgroup`, `write`, `run`, `threads`, `guard` (at `{ null-block = { devices = 1, size_mib = 64, completion_ns = 0 } },`)
    good.toml:8: `run` is a second action: every step has one (at `{ cgroup = { path = "pods", weight = 1000 }, when = "fault", run = { argv = ["x"] } },`)
    good.toml:8: setup: when = "faulty": expected `fault`, `healthy`, `remedy:ID` or `unless-remedy:ID`
    good.toml:19: knob: when = "remedy:care": there is no remedy `care` with `own = true`
    good.toml:16: under every condition exactly one load must be `main = true` (a single load is by itself)
    good.toml:11: load `ping`: count = 0: expected 1 to 1000
    good.toml:11: load `ping`: the main load cannot start before the recording, which lasts as long as it does
    good.toml:28: expect: finding = "rt-starving": expected one of rt-starvation, completion-ping-pong, weight-starvation, wake-storm, preemption-thrash, irq-interference, idle-while-runnable, migration-churn, throttled, deadline-overrun, not-preemptible, stuck-equal, crowded-cpu, cpu-stopped, long-wait
    good.toml:12: load `ping`: cgroup = "pods": `pods/below` is below it, and a group with groups below it that share the CPU can have no tasks of its own; give the load a group beside `pods/below`
    good.toml:8: cgroup `x`: `../a.b` is no file of a cgroup such as `memory.max`
    good.toml:19: file `/init`: the lab itself needs this path
    good.toml:19: file `/opt/x`: expected either `text` or `from`
    good.toml:27: expect: `quiet` says that nothing is to be found, `finding` or `all` that something is
    good.toml:28: expect: victim: unknown key `name`, expected one of kind, comm, work
    good.toml:11: load `ping`: policy = "rr:100": expected `fifo:1`…`fifo:99`, `rr:…`, `deadline:RUNTIME/PERIOD` or `deadline:RUNTIME/DEADLINE/PERIOD` in microseconds, `batch`, `idle` or `other`
    good.toml:11: load `ping`: cpus: there is no CPU 2, the guest has 2
    good.toml:11: load `ping`: cgroup = "pots": no `cgroup` step makes it
    good.toml:20: `feature.NEXT_BUDDY` is no knob: expected sched_feature.NAME, sysctl.PATH, debugfs.PATH or cmdline.NAME
    good.toml:23: remedy `cure`: explain has no such remedy; it has lower-group-weight, raise-group-weight, reserve-for-system, batch-wakee, raise-worker, raise-victim, worker-to-rt, occupant-to-nice-0, session-to-nice-0, wakeup-granularity, base-slice, no-wakeup-preemption, inline-completion, move-poller, isolate-poller, bpf-scheduler, update-kernel, move-intruder, reset-on-fork, creator-to-fair, intruder-to-fair, victim-above-intruder, lower-intruder, raise-real-time-victim, move-occupant, preempt-full, preempt-rt, threaded-napi, deliver-elsewhere, fair-server, less-deadline-runtime, leave-room, no-rt-throttling, no-fair-server, more-deadline-runtime, rt-throttling, raise-bystander, fewer-threads, gate-wakeups, nfsd-lifo, move-interrupt, move-victim, lower-migration-cost, no-sis-util, pin, raise-migration-cost, find-stopper, ask-hypervisor, raise-limit. A remedy of the scenario's own has `own = true`
    good.toml:23: remedy `raise-worker`: explain has a remedy of this id: give the scenario's own another
    good.toml:23: remedy `raise-worker`: what it does is what explain says of the faulty guest: only a remedy with `own = true` has steps
    good.toml:11: load `ping`: metrics = "loud": expected one of fio, load
    good.toml:5: seconds = 0: expected more than 0, at most 60
    good.toml:6: instruction_ns = 12: expected a power of 2, at most 1024
    good.toml:27: unknown field `expected`, expected one of `name`, `title`, `source`, `cpus`, `memory_mib`, `seconds`, `instruction_ns`, `modules`, `tools`, `file`, `kernels`, `setup`, `load`, `knob`, `remedy`, `expect` (at `[expected]`)
    "#);
}
#[test]
fn only_the_main_load_and_its_argv_are_needed() {
    let scenario = Scenario::parse("/tmp/My case.toml", "[[load]]\nargv = [\"load\", \"burn\"]\n").expect("a scenario");
    let load = &scenario.load[0];
    assert_eq!((scenario.name.as_str(), scenario.title.as_str()), ("my-case", "my-case"));
    assert_eq!((scenario.cpus, scenario.seconds, load.name.as_str(), load.main), (1, 1.0, "burn", true));
    assert_eq!(scenario.expect.top(), None);
    let two = "[[load]]\nargv = [\"/opt/x\"]\nmain = true\n[[load]]\nargv = [\"x\", \"y\"]\n";
    let scenario = Scenario::parse("two.toml", two).expect("a scenario");
    assert_eq!([scenario.load[0].name.as_str(), scenario.load[1].name.as_str()], ["x", "x-2"]);
}

#[test]
fn names_alone_and_lists_of_them_are_read_and_written_alike() {
    let text = format!("{GOOD}\nculprit = [\"a\", \"b*\"]\npayer = \"c\"\nvictim = \"d|e\"\n");
    let scenario = Scenario::parse("good.toml", &text).expect("a scenario");
    let json = serde_json::to_value(&scenario.expect).expect("JSON");
    assert_eq!(json["culprit"], serde_json::json!(["a", "b*"]));
    assert_eq!((&json["payer"], &json["victim"]["comm"]), (&"c".into(), &"d|e".into()));
    let old = serde_json::json!({ "finding": [], "victim": {}, "culprit": null, "metrics": [] });
    assert_eq!(serde_json::from_value::<Expect>(old).expect("as it was").culprit.0, Vec::<String>::new());
}
