//! The reconciler on a fake host: what it sets, what it gives way to, and that nothing of it is left. Needs no root.

use std::time::Duration;

use crate::machine::{Machine, Rig, attributes};
use proptest::prelude::*;
use unstarve_change::{Aspect, Value};
use unstarve_guard::Policy;
use unstarve_guard::task_events::Signal;
use unstarve_model::{SchedPolicy, Tid};

fn policy(text: &str) -> Policy {
    Policy::parse(std::path::Path::new("p.toml"), &format!("version = 1\n{text}")).unwrap_or_else(|e| panic!("{e}"))
}

// Without reset-on-fork, so that there is something to inherit; RESETTING has it.
const DATABASE: &str =
    "[[rule]]\nname = \"database\"\nmatch = { comm = \"db*\" }\nset = { nice = -5, reset-on-fork = false }\n";
const KEPT: &str = "[[rule]]\nname = \"web\"\nmatch = { comm = \"web*\" }\nset = { nice = -3, reset-on-fork = false }\non-drift = \"keep\"\n";
const REPORTED: &str = "[[rule]]\nname = \"job\"\nmatch = { comm = \"job\" }\nset = { nice = -4, reset-on-fork = false }\non-drift = \"report\"\n";
const RESETTING: &str =
    "[[rule]]\nname = \"server\"\nmatch = { comm = \"srv*\" }\nset = { nice = -6 }\non-drift = \"keep\"\n";
const REALTIME: &str =
    "[[rule]]\nname = \"control\"\nmatch = { comm = \"control\" }\nset = { policy = \"fifo\", rt-priority = 5 }\n";

#[test]
fn what_matches_is_set_written_down_and_taken_back() {
    let machine = Machine::default();
    let (db, other) = (machine.start("db-main"), machine.start("shell"));
    let mut rig = Rig::new(policy(DATABASE), &machine);
    rig.keeper.look_at_all().unwrap();
    assert_eq!((machine.nice(db), machine.nice(other)), (-5, 0));
    assert_eq!(rig.written_down().len(), 1, "{:?}", rig.written_down());
    rig.take_back();
    assert_eq!(machine.nice(db), 0);
    assert!(rig.written_down().is_empty());
}

#[test]
fn nothing_is_changed_that_was_not_written_down_before() {
    let machine = Machine::default();
    let db = machine.start("db-main");
    let mut rig = Rig::new(policy(DATABASE), &machine);
    let journal = rig.journal_path();
    machine.at_write(move |_| {
        let text = std::fs::read_to_string(&journal).unwrap();
        assert!(text.contains("\"nice\":-5") || text.contains("-5"), "{text}");
    });
    rig.keeper.look_at_all().unwrap();
    assert_eq!(machine.nice(db), -5);
}

#[test]
fn a_child_is_in_care_from_its_birth_and_goes_back_with_its_parent() {
    let machine = Machine::default();
    let db = machine.start("db-main");
    let mut rig = Rig::new(policy(DATABASE), &machine);
    rig.keeper.look_at_all().unwrap();
    let child = machine.fork(db);
    rig.hear(machine.birth(child));
    machine.rename(child, "helper");
    // Its parent is gone when everything is taken back, so the tree of processes does not show where it came from.
    rig.hear(machine.exit(db));
    assert_eq!(machine.nice(child), -5);
    rig.take_back();
    assert_eq!(machine.nice(child), 0);
}

#[test]
fn a_child_goes_back_to_what_was_before_all_rules() {
    let machine = Machine::default();
    let web = machine.start("web-1");
    let mut rig = Rig::new(policy(&format!("{DATABASE}{KEPT}")), &machine);
    rig.keeper.look_at_all().unwrap();
    let child = machine.fork(web);
    rig.hear(machine.birth(child));
    // What it was born with and what is set now are two changes; its own child has the sum of them.
    machine.rename(child, "db-main");
    rig.hear(Signal::Executed { tid: child, time: 0 });
    let grandchild = machine.fork(child);
    rig.hear(machine.birth(grandchild));
    assert_eq!(machine.nice(grandchild), -5);
    rig.hear(machine.exit(child));
    rig.hear(machine.exit(web));
    rig.take_back();
    assert_eq!(machine.nice(grandchild), 0);
}

#[test]
fn what_somebody_else_sets_is_theirs() {
    let machine = Machine::default();
    let db = machine.start("db-main");
    let mut rig = Rig::new(policy(DATABASE), &machine);
    rig.keeper.look_at_all().unwrap();
    rig.hear(machine.renice(db, 7));
    rig.keeper.look_at_all().unwrap();
    assert_eq!(machine.nice(db), 7);
    rig.take_back();
    assert_eq!(machine.nice(db), 7);
}

#[test]
fn what_is_only_reported_is_theirs_and_their_childrens() {
    let machine = Machine::default();
    let job = machine.start("job");
    let mut rig = Rig::new(policy(REPORTED), &machine);
    rig.keeper.look_at_all().unwrap();
    rig.hear(machine.renice(job, 5));
    rig.keeper.look_at_all().unwrap();
    assert_eq!(rig.keeper.metrics.counts.drift, 1, "once, not at each look");
    let child = machine.fork(job);
    rig.hear(machine.birth(child));
    machine.rename(child, "helper");
    rig.take_back();
    assert_eq!((machine.nice(job), machine.nice(child)), (5, 5));
}

#[test]
fn a_kept_value_is_put_back_a_few_times_and_then_left() {
    let machine = Machine::default();
    let web = machine.start("web-1");
    let mut rig = Rig::new(policy(&format!("[limits]\ncorrections = 3\n{KEPT}")), &machine);
    rig.keeper.look_at_all().unwrap();
    for _ in 0..3 {
        rig.hear(machine.renice(web, 4));
        assert_eq!(machine.nice(web), -3);
    }
    rig.hear(machine.renice(web, 4));
    assert_eq!(machine.nice(web), 4, "the fourth in a minute stays");
    rig.take_back();
    assert_eq!(machine.nice(web), 4);
}

#[test]
fn another_program_in_the_same_process_is_another_rules() {
    let machine = Machine::default();
    let db = machine.start("db-main");
    let mut rig = Rig::new(policy(&format!("{DATABASE}{KEPT}")), &machine);
    rig.keeper.look_at_all().unwrap();
    machine.rename(db, "shell");
    rig.hear(Signal::Executed { tid: db, time: 0 });
    assert_eq!(machine.nice(db), 0);
    machine.rename(db, "web-7");
    rig.hear(Signal::Executed { tid: db, time: 0 });
    assert_eq!(machine.nice(db), -3);
    machine.rename(db, "db-main");
    rig.hear(Signal::Executed { tid: db, time: 0 });
    assert_eq!(machine.nice(db), -5);
    rig.take_back();
    assert_eq!(machine.nice(db), 0, "not what the rule before had set");
}

#[test]
fn a_thread_id_that_is_used_again_is_not_touched() {
    let machine = Machine::default();
    let db = machine.start("db-main");
    let mut rig = Rig::new(policy(DATABASE), &machine);
    rig.keeper.look_at_all().unwrap();
    machine.with(db, |thread| thread.key.start += 1_000);
    machine.rename(db, "innocent");
    rig.take_back();
    assert_eq!(machine.nice(db), -5, "its own");
}

#[test]
fn a_real_time_task_over_its_budget_is_so_no_longer() {
    let machine = Machine::default();
    let control = machine.start("control");
    let mut rig = Rig::new(policy(&format!("[limits]\nrt-budget = 50\n{REALTIME}")), &machine);
    rig.keeper.look_at_all().unwrap();
    assert_eq!(machine.policy(control), SchedPolicy::Fifo);
    let second = Duration::from_secs(1);
    rig.keeper.watch_budget(second);
    machine.with(control, |thread| thread.ran += Duration::from_millis(400));
    rig.keeper.watch_budget(second);
    assert_eq!(machine.policy(control), SchedPolicy::Fifo, "40 % of 50");
    machine.with(control, |thread| thread.ran += Duration::from_millis(600));
    rig.keeper.watch_budget(second);
    assert_eq!(machine.policy(control), SchedPolicy::Other);
    // The rule gives it to nobody any more.
    let next = machine.start("control");
    rig.keeper.look_at_all().unwrap();
    assert_eq!(machine.policy(next), SchedPolicy::Other);
}

#[test]
fn short_lived_children_count_in_the_budget() {
    let machine = Machine::default();
    let control = machine.start("control");
    let mut rig = Rig::new(policy(&format!("[limits]\nrt-budget = 50\n{REALTIME}")), &machine);
    rig.keeper.look_at_all().unwrap();
    for _ in 0..10 {
        // Born, run and gone before anybody looked.
        rig.hear(Signal::Ended { tid: Tid(90_000), ran: 60_000_000, cpu: 1, realtime: true });
    }
    rig.keeper.watch_budget(Duration::from_secs(1));
    assert_eq!(machine.policy(control), SchedPolicy::Other);
}

#[test]
fn lost_news_is_made_up_for_by_a_look() {
    let machine = Machine::default();
    let mut rig = Rig::new(policy(DATABASE), &machine);
    rig.keeper.look_at_all().unwrap();
    let db = machine.start("db-main");
    rig.hear(Signal::Lost(12));
    assert!(rig.keeper.must_look());
    rig.keeper.look_at_all().unwrap();
    assert_eq!(machine.nice(db), -5);
    assert!(!rig.keeper.must_look());
    assert_eq!(rig.keeper.metrics.counts.events_lost, 12);
}

#[test]
fn a_kernel_thread_is_set_when_it_has_its_name() {
    let machine = Machine::default();
    let text = "[[rule]]\nname = \"softirqs\"\nmatch = { kind = \"ksoftirqd\" }\nset = { nice = -5 }\n";
    let mut rig = Rig::new(policy(text), &machine);
    rig.keeper.look_at_all().unwrap();
    let thread = machine.start_kernel_thread("kthreadd");
    rig.hear(machine.birth(thread));
    assert_eq!(machine.nice(thread), 0, "still the likeness of kthreadd");
    machine.rename(thread, "ksoftirqd/7");
    rig.hear(Signal::Renamed { tid: thread, tgid: thread });
    assert_eq!(machine.nice(thread), -5);
}

#[test]
fn a_refused_change_is_nobodys_and_does_not_stop_the_others() {
    let machine = Machine::default();
    let (first, second) = (machine.start("db-1"), machine.start("db-2"));
    machine.refuse(first);
    let mut rig = Rig::new(policy(DATABASE), &machine);
    rig.keeper.look_at_all().unwrap();
    assert_eq!((machine.nice(first), machine.nice(second)), (0, -5));
    assert_eq!(rig.keeper.metrics.counts.failed, 1);
    assert_eq!(rig.written_down().len(), 1, "nothing is left to do for the refused one");
}

#[test]
fn while_it_is_closed_births_are_noted_and_nothing_is_set() {
    let machine = Machine::default();
    let db = machine.start("db-main");
    let mut rig = Rig::new(policy(DATABASE), &machine);
    rig.keeper.look_at_all().unwrap();
    rig.keeper.close();
    let (late, child) = (machine.start("db-late"), machine.fork(db));
    rig.hear(machine.birth(late));
    rig.hear(machine.birth(child));
    assert_eq!((machine.nice(late), machine.nice(child)), (0, -5));
    rig.take_back();
    assert_eq!(machine.nice(child), 0);
}

#[test]
fn a_raised_program_passes_nothing_on_and_what_its_rule_is_about_is_raised_at_birth() {
    let machine = Machine::default();
    let server = machine.start("srv");
    let mut rig = Rig::new(policy(RESETTING), &machine);
    rig.keeper.look_at_all().unwrap();
    assert_eq!((machine.nice(server), machine.resets_on_fork(server)), (-6, true));
    // As a thread of its own is born, or a worker process of the same name.
    let thread = machine.fork(server);
    assert_eq!(machine.nice(thread), 0, "the kernel's own doing, before anybody hears of it");
    rig.hear(machine.birth(thread));
    assert_eq!((machine.nice(thread), machine.resets_on_fork(thread)), (-6, true));
    let helper = machine.fork(server);
    machine.rename(helper, "helper");
    rig.hear(machine.birth(helper));
    assert_eq!((machine.nice(helper), machine.resets_on_fork(helper)), (0, false));
    rig.take_back();
    for task in [server, thread, helper] {
        assert_eq!((machine.nice(task), machine.resets_on_fork(task)), (0, false));
    }
}

#[test]
fn reset_on_fork_goes_when_it_would_take_something_from_children() {
    // Put back over a value of somebody else's, and left to them.
    for (rule, at_last) in [(RESETTING.to_owned(), -6), (RESETTING.replace("keep", "yield"), 7)] {
        let machine = Machine::default();
        let server = machine.start("srv");
        let mut rig = Rig::new(policy(&rule), &machine);
        rig.keeper.look_at_all().unwrap();
        rig.hear(machine.renice(server, 7));
        assert_eq!((machine.nice(server), machine.resets_on_fork(server)), (at_last, false));
        let child = machine.fork(server);
        machine.rename(child, "helper");
        rig.hear(machine.birth(child));
        assert_eq!(machine.nice(child), 7, "as without a guard");
        rig.take_back();
        assert_eq!((machine.nice(server), machine.nice(child)), (7, 7));
    }
}

/// What an heir keeps and what it gives back, by what the rule is about, what happens, and by whom that is heard of.
///
/// | the rule is about | born | other name | other program | other user | other group |
/// |---|---|---|---|---|---|
/// | a name | kept | back | back | kept | kept |
/// | a user | kept | kept | kept | back | kept |
/// | a group | kept | kept | kept | kept | back |
/// | children of a program | back where its parent is another one | kept | kept | kept | kept |
#[test]
fn heirs_are_asked_the_rules_question_at_each_event() {
    let by_name = "comm = \"db\"";
    let by_user = "comm = \"db\", uid = 0";
    let by_group = "comm = \"d*\", unit = \"db.service\"";
    let by_parent = "comm = \"d*\", parent = \"starter\"";
    type Event = fn(&Machine, Tid) -> Signal;
    let renamed: Event = |machine, tid| {
        machine.rename(tid, "dx");
        Signal::Renamed { tid, tgid: tid }
    };
    let executed: Event = |machine, tid| {
        machine.rename(tid, "dx");
        Signal::Executed { tid, time: 0 }
    };
    let reowned: Event = |machine, tid| {
        machine.with(tid, |thread| thread.user = 1001);
        Signal::Reowned { tid, tgid: tid }
    };
    let moved: Event = |machine, tid| {
        machine.with(tid, |thread| thread.unit = Some("session-3.scope".to_owned()));
        Signal::Moved { tid, tgid: tid }
    };
    let born: Event = |machine, tid| machine.birth(tid);
    let (kept, back) = (-5, 0);
    let cases = [
        (by_name, "born", born, kept),
        (by_name, "other name", renamed, back),
        (by_name, "other program", executed, back),
        (by_name, "other user", reowned, kept),
        (by_name, "other group", moved, kept),
        (by_user, "born", born, kept),
        (by_user, "other user", reowned, back),
        (by_group, "born", born, kept),
        (by_group, "other name", renamed, kept),
        (by_group, "other program", executed, kept),
        (by_group, "other user", reowned, kept),
        (by_group, "other group", moved, back),
        (by_parent, "born", born, back),
    ];
    for (selector, what, event, expected) in cases {
        // Heard of at once, or found by the next look: by eBPF or netlink, and by scanning.
        for heard in [true, false] {
            let machine = Machine::default();
            let parent = machine.start("db");
            machine.with(parent, |thread| thread.unit = Some("db.service".to_owned()));
            machine.started_by(parent, "starter");
            let rule = format!(
                "[[rule]]\nname = \"r\"\nmatch = {{ {selector} }}\nset = {{ nice = -5, reset-on-fork = false }}\n"
            );
            let mut rig = Rig::new(policy(&rule), &machine);
            rig.keeper.look_at_all().unwrap();
            assert_eq!(machine.nice(parent), -5, "{selector}");
            let heir = machine.fork(parent);
            rig.hear(machine.birth(heir));
            let news = event(&machine, heir);
            match heard {
                true => rig.hear(news),
                false => rig.keeper.look_at_all().unwrap(),
            }
            assert_eq!(machine.nice(heir), expected, "{selector}: {what}, heard: {heard}");
            assert_eq!(machine.nice(parent), -5, "{selector}: {what}: the parent keeps it");
            rig.take_back();
            assert_eq!((machine.nice(heir), machine.nice(parent)), (0, 0), "{selector}: {what}");
        }
    }
}

#[test]
fn a_child_that_waits_for_its_program_is_asked_then() {
    let machine = Machine::default();
    let db = machine.start("db-main");
    let mut rig =
        Rig::new(policy(&DATABASE.replace("comm = \"db*\"", "comm = \"db*\", parent = \"starter\"")), &machine);
    machine.started_by(db, "starter");
    rig.keeper.look_at_all().unwrap();
    let child = machine.fork(db);
    let Signal::Born(born) = machine.birth(child) else { unreachable!("a birth") };
    rig.hear(Signal::Born(unstarve_guard::task_events::Born { will_execute: true, ..born }));
    assert_eq!(machine.nice(child), -5, "its parent waits for it, and would for longer");
    machine.rename(child, "helper");
    rig.hear(Signal::Executed { tid: child, time: 0 });
    assert_eq!(machine.nice(child), 0);
    rig.take_back();
}

#[test]
fn who_was_born_before_its_parent_was_restored_is_restored_too() {
    let machine = Machine::default();
    let db = machine.start("db-main");
    let mut rig = Rig::new(policy(DATABASE), &machine);
    rig.keeper.look_at_all().unwrap();
    // All three are there before the first is heard of; so it goes with a login.
    let child = machine.fork(db);
    machine.rename(child, "session");
    let grandchild = machine.fork(child);
    let last = machine.fork(grandchild);
    let births = [child, grandchild, last].map(|tid| machine.birth(tid));
    births.into_iter().for_each(|birth| rig.hear(birth));
    assert_eq!([child, grandchild, last].map(|tid| machine.nice(tid)), [0, 0, 0]);
    rig.take_back();
    assert_eq!(machine.nice(db), 0);
}

/// What happens on a machine.
#[derive(Clone, Debug)]
enum Happens {
    Start(&'static str),
    Fork(usize),
    Exit(usize),
    Exec(usize, &'static str),
    Renice(usize),
    /// Without news of it.
    Unseen(Box<Happens>),
    Lost,
    Look,
}

fn happens() -> impl Strategy<Value = Happens> {
    let name = || prop::sample::select(vec!["db-main", "web-1", "job", "srv", "shell"]);
    let event = prop_oneof![
        3 => name().prop_map(Happens::Start),
        4 => any::<usize>().prop_map(Happens::Fork),
        2 => any::<usize>().prop_map(Happens::Exit),
        2 => (any::<usize>(), name()).prop_map(|(at, name)| Happens::Exec(at, name)),
        2 => any::<usize>().prop_map(Happens::Renice),
        1 => Just(Happens::Lost),
        1 => Just(Happens::Look),
    ];
    (event, prop::bool::weighted(0.15)).prop_map(|(event, unseen)| match event {
        // Births that nobody heard of are not for this model: see `FakeHost::fork`.
        Happens::Fork(_) => event,
        Happens::Lost | Happens::Look => event,
        event if unseen => Happens::Unseen(Box::new(event)),
        event => event,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// The oracle is the same machine without a guard: each task has a second set of values that only the others change.
    #[test]
    fn whatever_happens_nothing_of_it_is_left(events in prop::collection::vec(happens(), 1..60)) {
        let machine = Machine::default();
        machine.start("db-main");
        machine.start("web-0");
        machine.start("srv-0");
        let mut rig = Rig::new(policy(&format!("{DATABASE}{KEPT}{REPORTED}{RESETTING}")), &machine);
        rig.keeper.look_at_all().unwrap();
        for event in events {
            let (event, seen) = match event {
                Happens::Unseen(event) => (*event, false),
                event => (event, true),
            };
            let news = match event {
                Happens::Start(name) => {
                    let tid = machine.start(name);
                    Some(machine.birth(tid))
                }
                Happens::Fork(at) => machine.nth(at).map(|parent| machine.birth(machine.fork(parent))),
                Happens::Exit(at) => machine.nth(at).map(|tid| machine.exit(tid)),
                Happens::Exec(at, name) => machine.nth(at).map(|tid| {
                    machine.rename(tid, name);
                    Signal::Executed { tid, time: 0 }
                }),
                // Always the same: a value between a rule's and one before it would be a step down, which a task can take itself.
                Happens::Renice(at) => machine.nth(at).map(|tid| machine.renice(tid, 7)),
                Happens::Lost => Some(Signal::Lost(1)),
                Happens::Look => {
                    rig.keeper.look_at_all().unwrap();
                    None
                }
                Happens::Unseen(_) => None,
            };
            match news {
                Some(news) if seen => rig.hear(news),
                // What nobody heard of is found by the next look, which comes before anything else does.
                Some(_) => rig.keeper.look_at_all().unwrap(),
                None => {}
            }
        }
        rig.take_back();
        for thread in machine.threads() {
            let (is, would_be) = (thread.attributes(), thread.baseline_attributes());
            prop_assert_eq!(attributes(&is), attributes(&would_be), "{} {}", thread.key.tid, thread.comm);
        }
    }
}

/// A value that is a file in /proc/PID and no attribute of sched_getattr(2).
#[test]
fn a_setting_that_is_a_file_is_set_for_fair_tasks_and_taken_back() {
    let machine = Machine::default();
    let (fair, realtime) = (machine.start("db-main"), machine.start("db-rt"));
    let slack = |tid| machine.value(tid, Aspect::TimerSlack);
    machine.set(fair, Value::TimerSlack(50_000));
    machine.set(realtime, Value::TimerSlack(0));
    machine.set(realtime, Value::Class { policy: SchedPolicy::Fifo, rt_priority: 3, slice: None });
    let text = "[[rule]]\nname = \"exact\"\nmatch = { comm = \"db-*\" }\nset = { timer-slack = \"1us\" }\n";
    assert!(policy(text).wanted().settings && !policy(DATABASE).wanted().settings);
    let mut rig = Rig::new(policy(text), &machine);
    rig.keeper.look_at_all().unwrap();
    assert_eq!((slack(fair), slack(realtime)), (Some(Value::TimerSlack(1000)), Some(Value::TimerSlack(0))));
    let child = machine.fork(fair);
    rig.hear(machine.birth(child));
    rig.take_back();
    assert_eq!(slack(fair), Some(Value::TimerSlack(50_000)));
    assert_eq!(slack(child), Some(Value::TimerSlack(50_000)), "it was inherited");
}
