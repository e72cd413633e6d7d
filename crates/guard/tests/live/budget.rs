use std::process::Command;
use std::time::Duration;

use unstarve_executor::sched;
use unstarve_model::{SchedPolicy, Tid};

use crate::child::{Guard, Running};
use crate::stage::{Ended, Stage, eventually};

/// A load of 60 % of a CPU against a budget of 30 %.
pub fn over_budget(stage: &Stage) -> Ended {
    let mut load = Command::new(std::env::current_exe().expect("this program"));
    load.args(["load", "hog", "--lasts", "8000", "--busy", "60"]);
    let hog = Running::start(&mut load)?;
    let tid = Tid(hog.0.id());
    sched::set_affinity(tid, &"1".parse().expect("a CPU")).map_err(|error| format!("two CPUs: {error}"))?;
    let policy = stage.policy(
        "p.toml",
        "[limits]\nrt-budget = 30\n[[rule]]\nname = \"hog\"\nmatch = { cmdline = \"* load hog --lasts 8000 *\" }\n\
         set = { policy = \"fifo\", rt-priority = 1 }\n",
    )?;
    let policy_of = || sched::read(tid).map(|attributes| attributes.policy).ok();
    let guard = Guard::start(stage, &policy, "")?;
    assert!(eventually(Duration::from_secs(2), || policy_of() == Some(SchedPolicy::Fifo)), "{}", guard.audit());
    assert!(eventually(Duration::from_secs(5), || policy_of() == Some(SchedPolicy::Other)), "{}", guard.audit());
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(policy_of(), Some(SchedPolicy::Other), "it must stay so: {}", guard.audit());
    let audit = guard.end()?;
    assert!(audit.contains("over-budget") && audit.contains("on CPU 1"), "{audit}");
    Ok(())
}

/// Children that inherit a real-time policy and live for a moment each: together they are over the budget. They run no program of
/// their own, so the rule is about them as it is about their parent.
pub fn over_budget_by_children(stage: &Stage) -> Ended {
    let mark = format!("7{:03}", std::process::id() % 1000);
    let script = format!(
        "sleep 1.{mark}; i=0; while [ $i -lt 60 ]; do (j=0; while [ $j -lt 100000 ]; do j=$((j + 1)); done); sleep 0.02; i=$((i + 1)); done"
    );
    let parent = Running::start(Command::new("taskset").args(["-c", "1", "sh", "-c", &script]))?;
    let tid = Tid(parent.0.id());
    let policy = stage.policy(
        "p.toml",
        &format!(
            "[limits]\nrt-budget = 30\n[[rule]]\nname = \"shell\"\nmatch = {{ cmdline = \"sh -c sleep 1.{mark}*\" }}\n\
             set = {{ policy = \"fifo\", rt-priority = 1, reset-on-fork = false }}\n"
        ),
    )?;
    let policy_of = || sched::read(tid).map(|attributes| attributes.policy).ok();
    let guard = Guard::start(stage, &policy, "")?;
    assert!(eventually(Duration::from_secs(2), || policy_of() == Some(SchedPolicy::Fifo)), "{}", guard.audit());
    let is_ordinary = || policy_of() == Some(SchedPolicy::Other);
    assert!(eventually(Duration::from_secs(6), is_ordinary), "{}", guard.audit());
    let audit = guard.end()?;
    assert!(audit.contains("over-budget") && audit.contains("on CPU 1"), "{audit}");
    Ok(())
}
