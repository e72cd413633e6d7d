//! A policy that `fix --as guard` prints takes exactly the thread of the name that was recorded, or there is none: names are bytes
//! that programs choose.

use std::path::Path;

use proptest::prelude::*;
use unstarve_change::{Change, Form, Target, TaskKey, Thread, Value, Whose, durable};
use unstarve_executor::Attributes;
use unstarve_guard::decide::{Surroundings, decide};
use unstarve_guard::{Kind, Policy, Task};
use unstarve_model::{SchedPolicy, Tid};

/// A program's thread, as the guard reads it in /proc.
fn program(name: &[u8]) -> Task {
    let name = String::from_utf8_lossy(name).into_owned();
    Task {
        key: TaskKey { tid: Tid(7), start: 1 },
        tgid: Tid(7),
        parent: Some((Tid(1), "init".to_owned())),
        cmdline: Some(name.clone()),
        comm: name,
        cgroup: Some("/".to_owned()),
        unit: None,
        kind: Kind::User,
        affinity_fixed: false,
        owner: None,
        works: Vec::new(),
        attributes: Attributes {
            policy: SchedPolicy::Other,
            deadline: None,
            rt_priority: 0,
            nice: 0,
            reset_on_fork: false,
            slice: None,
            uclamp: None,
            affinity: "0-3".parse().expect("CPUs"),
            files: Vec::new(),
        },
    }
}

fn printed(changes: &[Change], whose: &Whose) -> Result<String, String> {
    let files = durable(changes, Form::Guard, &|_| whose.clone()).map_err(|not| not.why)?;
    Ok(files.into_iter().map(|file| file.text).collect())
}

fn nice(name: &[u8], nice: i32) -> Change {
    Change::of(Target::Thread(Thread::known_by(Tid(7), name)), Value::Nice(nice))
}

fn parsed(text: &str) -> Policy {
    Policy::parse(Path::new("p.toml"), text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn takes(policy: &Policy, name: &[u8]) -> bool {
    let task = program(name);
    let chosen = policy.candidates(&task.comm).any(|rule| policy.rules[rule].selector.matches(&task));
    let changed = decide(policy, &Surroundings::default(), &task).is_some_and(|plan| !plan.changes.is_empty());
    assert_eq!(chosen, changed, "{task:?}");
    chosen
}

/// Bytes that mean something to a glob, to TOML, to a terminal or to UTF-8, more often than others.
fn byte() -> impl Strategy<Value = u8> {
    prop_oneof![
        Just(b'\\'),
        Just(b'"'),
        Just(b'\''),
        Just(b'*'),
        Just(b'?'),
        Just(b'\n'),
        Just(b'\t'),
        Just(0x1b),
        Just(0x7f),
        Just(b' '),
        Just(b'#'),
        Just(b'-'),
        Just(b'/'),
        Just(0xc3),
        Just(0xa9),
        Just(0xff),
        b'a'..=b'z',
        1..=255_u8,
    ]
}

fn name() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec(byte(), 1..=15);
    let text = "[a\\\\\"*?\u{1b}\u{202e}é\n]{1,5}".prop_map(String::into_bytes);
    let worker = "kworker/[0-9]:[0-9]-[a-z*]".prop_map(String::into_bytes);
    prop_oneof![3 => bytes, 3 => text, 1 => worker].prop_filter("at most 15 bytes", |name| name.len() <= 15)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn a_rule_takes_its_name_and_no_other(name in name(), other in name(), at in any::<prop::sample::Index>(), byte in byte()) {
        let whose = Whose { unit: None, kernel_thread: Some(false), workqueue: None };
        let text = match printed(&[nice(&name, -5)], &whose) {
            Ok(text) => text,
            Err(why) => {
                prop_assert!(String::from_utf8_lossy(&name).contains('\u{fffd}') || name == b"<...>", "{why}: {name:?}");
                prop_assert!(why.contains("not known as text"), "{}", why);
                return Ok(());
            }
        };
        prop_assert!(!text.lines().any(|line| line.chars().any(unstarve_model::is_harmful)), "{:?}", text);
        let policy = parsed(&text);
        prop_assert_eq!(policy.rules.len(), 1);
        prop_assert!(takes(&policy, &name), "{:?}\n{}", name, text);
        let mut near = name.clone();
        *at.get_mut(&mut near) = byte;
        for other in [other, near, [&name[..], b"x"].concat(), name[1..].to_vec()] {
            prop_assert!(other == name || !takes(&policy, &other), "{:?} beside {:?}\n{}", other, name, text);
        }
    }
}

#[test]
fn what_a_terminal_shows_for_a_name_is_no_name() {
    let whose = Whose::default();
    for name in [&b"a\tb"[..], b"\x1b[31mred", "x\u{202e}y".as_bytes()] {
        let policy = parsed(&printed(&[nice(name, 1)], &whose).expect("a policy"));
        let shown = Thread::known_by(Tid(7), name).comm;
        assert_ne!(shown.as_bytes(), name);
        assert!(takes(&policy, name) && !takes(&policy, shown.as_bytes()), "{shown}");
    }
    for name in [&b"a\xffb"[..], "a\u{fffd}b".as_bytes(), b"<...>", b""] {
        let why = printed(&[nice(name, 1)], &whose).expect_err("no name");
        assert!(why.starts_with("the name of thread 7 ("), "{why}");
    }
}

#[test]
fn of_a_thread_without_a_snapshot_the_kind_is_open() {
    let text = printed(&[nice(b"ksoftirqd/1", -5)], &Whose::default()).expect("a policy");
    let policy = parsed(&text);
    let kernel = Task { kind: Kind::Ksoftirqd, ..program(b"ksoftirqd/1") };
    assert!(policy.rules[0].selector.matches(&kernel) && !takes(&policy, b"ksoftirqd/1"), "{text}");
    let policy = parsed(&printed(&[nice(b"postgres", -5)], &Whose::default()).expect("a policy"));
    assert!(takes(&policy, b"postgres"));
}

#[test]
fn a_printed_policy_is_one_that_the_guard_takes() {
    let class = |rt_priority| {
        let thread = Target::Thread(Thread::known_by(Tid(7), "db"));
        Change::of(thread, Value::Class { policy: SchedPolicy::Fifo, rt_priority, slice: None })
    };
    let whose = Whose { unit: None, kernel_thread: Some(false), workqueue: None };
    for priority in [1, 49, 50, 90] {
        let policy = parsed(&printed(&[class(priority)], &whose).expect("a policy"));
        assert_eq!(policy.highest_rt_priority(), Some(priority));
    }
    assert!(printed(&[class(91)], &whose).is_err_and(|why| why.contains("91")));
    // Two threads of one name are one to a rule.
    let both = printed(&[nice(b"db", -5), nice(b"db", 3)], &whose).expect_err("two values");
    assert!(both.contains("nice = -5") && both.contains("nice = 3"), "{both}");
    assert_eq!(parsed(&printed(&[nice(b"db", 3), nice(b"db", 3)], &whose).expect("one value")).rules.len(), 1);
}
