//! Hostile names, and how fast it is.

use std::time::Duration;

use crate::rules::host::healthy;

const HOSTILE: &str = "a\u{1b}[2J\n\u{202e}b$(reboot)";

#[test]
fn hostile_names_are_harmless_in_every_text() {
    let mut host = healthy();
    host.real_time(900, HOSTILE, 10, "0-1", 0.5).child_faults = Some(999);
    host.group(&format!("/{HOSTILE}"), 5000).task(700, HOSTILE, "0-7", &format!("/{HOSTILE}"));
    host.limit(&format!("/system.slice/{HOSTILE}"), 1000, 900);
    host.written(unstarve_facts::ConfiguredBy::Sysctl, "kernel.sched_\u{1b}x", "\u{9b}31m");
    host.boots_with("preempt=\u{202e}x");
    let audit = host.audit();
    assert!(audit.hits.len() >= 6, "{:#?}", audit.hits);
    let json = serde_json::to_value(&audit).expect("JSON");
    for form in [json, unstarve_check::sarif(&audit, "0")] {
        let mut texts = Vec::new();
        collect(&form, &mut texts);
        for text in &texts {
            // A message of SARIF has lines of our own.
            assert!(!text.chars().any(|c| c != '\n' && unstarve_model::is_harmful(c)), "{text:?}");
        }
        assert!(!texts.iter().any(|text| text.contains("a\u{1b}[2J\n")));
    }
    // Nor does a name get into a command, but for a path, and then quoted or not at all.
    let commands = audit.hits.iter().flat_map(|hit| &hit.fixes).flat_map(|fix| [&fix.apply, &fix.undo]);
    for command in commands {
        assert!(!command.contains("reboot"), "{command}");
    }
}

fn collect(value: &serde_json::Value, texts: &mut Vec<String>) {
    match value {
        serde_json::Value::String(text) => texts.push(text.clone()),
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect(item, texts)),
        serde_json::Value::Object(fields) => fields.values().for_each(|item| collect(item, texts)),
        _ => {}
    }
}

#[test]
fn ten_thousand_threads_are_audited_in_under_a_second() {
    let mut host = healthy();
    for tid in 0..10_000 {
        let name = format!("worker-{}", tid % 100);
        if tid % 10 == 0 {
            host.real_time(10_000 + tid, &name, 1 + tid % 90, "0-7", 0.001);
        } else {
            host.task(10_000 + tid, &name, "0-7", &format!("/system.slice/s{}.service", tid % 500));
        }
    }
    for number in 0..2_000 {
        host.group(&format!("/system.slice/s{number}.service"), 100);
    }
    let json = host.0.to_json();
    // CPU time: the machine may be busy with other tests.
    let begin = cpu_time();
    let snapshot = unstarve_facts::Snapshot::from_json(&json).expect("a snapshot");
    let audit = unstarve_check::audit_upgrade(&snapshot, "7.2".parse().expect("a version"));
    let taken = cpu_time() - begin;
    assert!(!audit.hits.is_empty());
    assert!(taken < Duration::from_secs(1), "{taken:?}");
}

fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

#[test]
fn sarif_has_what_its_readers_need() {
    let mut host = healthy();
    host.written(unstarve_facts::ConfiguredBy::Sysctl, "kernel.sched_latency_ns", "1");
    host.real_time(900, "monitor", 10, "0-1", 0.5);
    host.0.missing = vec![unstarve_facts::Missing { what: "debugfs".into(), why: "not mounted".into() }];
    let audit = host.audit();
    let log = unstarve_check::sarif(&audit, "1.2.3");
    assert_eq!((&log["version"], &log["runs"][0]["tool"]["driver"]["version"]), (&"2.1.0".into(), &"1.2.3".into()));
    let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array().expect("rules");
    let results = log["runs"][0]["results"].as_array().expect("results");
    assert_eq!(results.len(), audit.hits.len());
    for result in results {
        let index = result["ruleIndex"].as_u64().expect("an index") as usize;
        assert_eq!(rules[index]["id"], result["ruleId"]);
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().expect("a level")));
        assert!(!result["message"]["text"].as_str().expect("a text").is_empty());
        assert!(!result["locations"].as_array().expect("locations").is_empty());
    }
    let drift = results.iter().find(|result| result["ruleId"] == "knob-drift").expect("the line does nothing");
    let place = &drift["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "file:///etc/sysctl.d/90-tuning.conf");
    assert_eq!(place["region"]["startLine"], 7);
    assert_eq!(log["runs"][0]["invocations"][0]["toolExecutionNotifications"][0]["level"], "note");
}
