//! A guard's policy: refused with a place, or compiled and applied to tasks with names as hostile as its own.
#![no_main]

use std::path::Path;

use libfuzzer_sys::{Corpus, fuzz_target};
use unstarve_guard::decide::{Surroundings, decide};
use unstarve_change::{TaskKey, Value};
use unstarve_executor::Attributes;
use unstarve_guard::{Kind, Owner, Policy, Task};
use unstarve_model::{SchedPolicy, Tid};

fuzz_target!(|bytes: &[u8]| -> Corpus {
    let Ok(text) = std::str::from_utf8(bytes) else { return Corpus::Reject };
    // It would read other files.
    if text.contains("include") {
        return Corpus::Reject;
    }
    match Policy::parse(Path::new("p.toml"), text) {
        Err(error) => assert!(error.to_string().starts_with("p.toml"), "{error}"),
        Ok(policy) => {
            let names = text.split(['"', '\'']).take(40).chain(["kworker/0:1", "migration/0", "\u{1b}[31m"]);
            names.for_each(|name| check(&policy, name));
        }
    }
    Corpus::Keep
});

fn check(policy: &Policy, name: &str) {
    for kind in [Kind::User, Kind::of(name, 0x0020_0000), Kind::Untouchable] {
        let task = task(name, kind);
        // The index may give too many rules, never too few.
        let candidates: Vec<usize> = policy.candidates(name).collect();
        assert!(candidates.is_sorted());
        for (number, rule) in policy.rules.iter().enumerate() {
            assert!(!rule.selector.matches(&task) || candidates.contains(&number), "{name:?} is missed by rule {number}");
        }
        let Some(plan) = decide(policy, &Surroundings::default(), &task) else { continue };
        assert!(kind != Kind::Untouchable || plan.changes.is_empty());
        let denied = policy.limits.deny.iter().any(|glob| glob.matches(name));
        assert!(!denied || plan.changes.is_empty());
        for change in &plan.changes {
            if let Value::Class { rt_priority, .. } = change.new {
                assert!(rt_priority <= policy.limits.rt_priority && rt_priority <= 90);
            }
        }
    }
}

fn task(name: &str, kind: Kind) -> Task {
    Task {
        key: TaskKey { tid: Tid(77), start: 1 },
        tgid: Tid(77),
        parent: Some((Tid(2), name.to_owned())),
        comm: name.to_owned(),
        cmdline: (kind == Kind::User).then(|| name.to_owned()),
        cgroup: Some(format!("/{name}")),
        unit: Some(format!("{name}.service")),
        owner: Owner::read("Uid:\t1000\t1000\t1000\t1000"),
        kind,
        affinity_fixed: kind == Kind::Kworker,
        works: Vec::new(),
        attributes: Attributes {
            policy: SchedPolicy::Other,
            deadline: None,
            rt_priority: 0,
            nice: 0,
            reset_on_fork: false,
            slice: Some(3_000_000),
            uclamp: Some((0, 1024)),
            affinity: "0-3".parse().expect("a list of CPUs"),
            files: Vec::new(),
        },
    }
}
