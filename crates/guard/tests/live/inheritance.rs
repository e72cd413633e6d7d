//! Children of changed tasks, which inherit what was set: they are taken back, too, whoever dies.

use std::time::Duration;

use rustix::process::{Signal, kill_process};
use unstarve_executor::audit::Audit;
use unstarve_executor::host::ThisHost;
use unstarve_executor::state::State;
use unstarve_executor::{act, sched};
use unstarve_facts::Stat;
use unstarve_guard::Policy;
use unstarve_guard::survey::Survey;
use unstarve_model::{SchedPolicy, Tid};

use crate::child::Guard;
use crate::family::Family;
use crate::stage::{Ended, Stage, Stop, eventually};

/// What is inherited, one after another.
const SETS: [&str; 4] =
    ["nice = -10", "policy = \"batch\"", "policy = \"fifo\", rt-priority = 1, nice = -3", "affinity = \"0\""];

fn rule(family: &Family, set: &str) -> String {
    // Else ordinary tasks pass nothing on.
    let set = if set.contains("reset-on-fork") { set.to_owned() } else { format!("{set}, reset-on-fork = false") };
    format!("[limits]\ndead-man = 2\n[[rule]]\nname = \"family\"\nmatch = {}\nset = {{ {set} }}\n", family.selector())
}

fn none_changed(family: &Family, when: &str, audit: &str) -> Ended {
    if eventually(Duration::from_secs(4), || family.changed().is_empty()) {
        return Ok(());
    }
    Err(Stop::Fail(format!("{when}: {:?}\n{audit}", family.changed())))
}

pub fn taken_back_at_the_end(stage: &Stage) -> Ended {
    for source in ["", "netlink"] {
        for set in SETS {
            let family = Family::start(Duration::from_millis(15), Duration::from_secs(20))?;
            family.wait_for(2)?;
            let before = family.attributes().len();
            let guard = Guard::start(stage, &stage.policy("p.toml", &rule(&family, set))?, source)?;
            family.wait_for(before + 30)?;
            let inherited = guard.audit().matches("\"inherited\"").count();
            assert!(inherited >= 25, "{inherited} have inherited {set}: {}", guard.audit());
            // The rule is about the parent alone: who runs another program has it no more, while the guard goes on.
            let sleepers = || family.changed().into_keys().filter(|tid| runs_sleep(*tid)).collect::<Vec<_>>();
            let known = sleepers();
            let goes = || sleepers().iter().all(|tid| !known.contains(tid));
            assert!(eventually(Duration::from_secs(3), goes), "{set} by {source}: {:?}: {}", sleepers(), guard.audit());
            let audit = guard.end()?;
            none_changed(&family, set, &audit)?;
            // It forked on all the while; what is born afterwards is not changed either.
            std::thread::sleep(Duration::from_millis(100));
            none_changed(&family, set, &audit)?;
        }
    }
    Ok(())
}

pub fn taken_back_after_kills(stage: &Stage) -> Ended {
    for (set, with_dead_man) in [(SETS[0], true), (SETS[2], true), (SETS[1], false), (SETS[3], false)] {
        // Without a dead-man nobody sees what is born after the kill, and orphans among that could not be told.
        let lasts = Duration::from_millis(if with_dead_man { 20_000 } else { 2_500 });
        let family = Family::start(Duration::from_millis(15), lasts)?;
        family.wait_for(2)?;
        let guard = Guard::start(stage, &stage.policy("p.toml", &rule(&family, set))?, "")?;
        family.wait_for(family.attributes().len() + 20)?;
        guard.dead_man()?;
        if !with_dead_man {
            std::thread::sleep(lasts);
            // Stopped first, so that it cannot start a new one; it may have before.
            guard.process.signal(Signal::STOP);
            kill_process(guard.dead_man()?, Signal::KILL).map_err(|error| error.to_string())?;
        }
        guard.process.signal(Signal::KILL);
        drop(guard);
        if !with_dead_man {
            assert!(!family.changed().is_empty());
            let mut state = State::lock(&stage.state(), "test").map_err(|error| error.to_string())?;
            state.undo(&mut ThisHost, &mut Audit::none()).map_err(|error| error.to_string())?;
        }
        let audit = std::fs::read_to_string(stage.state().with_extension("audit")).unwrap_or_default();
        none_changed(&family, set, &audit)?;
    }
    Ok(())
}

fn runs_sleep(tid: Tid) -> bool {
    std::fs::read_to_string(format!("/proc/{tid}/comm")).is_ok_and(|comm| comm == "sleep\n")
}

/// Without a guard nobody sees births; those whose parents live are found by them.
pub fn taken_back_after_apply(stage: &Stage) -> Ended {
    let family = Family::start(Duration::from_millis(15), Duration::from_secs(20))?;
    family.wait_for(2)?;
    let path = stage.policy("p.toml", &rule(&family, SETS[0]))?;
    let fail = |error: &dyn std::fmt::Display| Stop::Fail(error.to_string());
    let policy = Policy::load(&path).map_err(|error| fail(&error))?;
    let mut state = State::lock(&stage.state(), "test").map_err(|error| fail(&error))?;
    let survey = Survey::take(&policy, Vec::new()).map_err(|error| fail(&error))?;
    let mut changes = survey.changes(&policy);
    let mut journal = state.journal().map_err(|error| fail(&error))?;
    act::apply(&mut ThisHost, &mut journal, &mut Audit::none(), &mut changes).map_err(|error| fail(&error))?;
    drop(journal);
    family.wait_for(family.attributes().len() + 20)?;
    let (undone, _) = state.undo(&mut ThisHost, &mut Audit::none()).map_err(|error| fail(&error))?;
    assert!(undone.inherited >= 10 && !undone.racing, "{undone:?}");
    // Orphans have nobody by whom they could be told; a running guard sees them born.
    let orphans = |tid: &Tid| {
        let stat = std::fs::read_to_string(format!("/proc/{tid}/stat")).ok();
        stat.and_then(|stat| Stat::parse(&stat)).is_none_or(|stat| stat.parent != Tid(1))
    };
    let left: Vec<_> = family.changed().into_keys().filter(orphans).collect();
    let reaper = |tid: &Tid| std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let of_family = family.parent.0.id();
    let left: Vec<_> = left.into_iter().filter(|tid| reaper(tid).contains(&format!("PPid:\t{of_family}\n"))).collect();
    assert!(left.is_empty(), "{left:?}");
    Ok(())
}

/// No child is ever real-time: the flag comes first and goes last.
pub fn reset_on_fork(stage: &Stage) -> Ended {
    let family = Family::start(Duration::from_millis(2), Duration::from_secs(40))?;
    family.wait_for(2)?;
    let parent = Tid(family.parent.0.id());
    let set = "policy = \"fifo\", rt-priority = 1, reset-on-fork = true";
    for round in 0..12 {
        let guard = Guard::start(stage, &stage.policy("p.toml", &rule(&family, set))?, "")?;
        let is_fifo = || sched::read(parent).is_ok_and(|attributes| attributes.policy == SchedPolicy::Fifo);
        assert!(eventually(Duration::from_secs(3), is_fifo), "{}", guard.audit());
        // The parent's threads are meant by the rule as well; its child processes are not.
        let processes = |(tid, attributes): (Tid, unstarve_executor::Attributes)| {
            let is_child = std::fs::read_to_string(format!("/proc/{tid}/comm")).is_ok_and(|comm| comm == "sleep\n");
            (is_child && attributes.policy == SchedPolicy::Fifo).then_some(tid)
        };
        let fifo: Vec<_> = family.attributes().into_iter().filter_map(processes).collect();
        assert!(fifo.is_empty(), "round {round}: {fifo:?}");
        let audit = guard.end()?;
        none_changed(&family, "reset-on-fork", &audit)?;
    }
    Ok(())
}
