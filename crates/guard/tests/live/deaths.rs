use std::time::Duration;

use rustix::process::Signal;
use unstarve_executor::audit::Audit;
use unstarve_executor::host::ThisHost;
use unstarve_executor::state::State;

use crate::child::{Guard, Running, role};
use crate::sleepers::Sleepers;
use crate::stage::{Ended, Stage, Stop, eventually};

pub fn everything(sleepers: &Sleepers) -> String {
    format!(
        "[limits]\ndead-man = 2\n[[rule]]\nname = \"all\"\nmatch = {}\n\
         set = {{ policy = \"rr\", rt-priority = 2, nice = 3, affinity = \"0\", reset-on-fork = true }}\n",
        sleepers.selector()
    )
}

/// The time until the kill comes from a fixed sequence; where it hits depends on the machine. On a slow one, whose disk has to hold each
/// change first, it is given longer.
pub fn killed_anywhere(stage: &Stage) -> Ended {
    const KILLS: u32 = 60;
    const HITS: u32 = 5;
    let sleepers = Sleepers::start(16)?;
    let before = sleepers.attributes();
    let policy = stage.policy("p.toml", &everything(&sleepers))?;
    let (mut random, mut changed) = (1_u64, 0);
    for kill in 0..4 * KILLS {
        if kill >= KILLS && changed >= HITS {
            break;
        }
        let child = Running::start(role("flicker").arg(&policy).arg(stage.state()))?;
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        std::thread::sleep(Duration::from_micros(3_000 + (random >> 33) % (150_000 << (kill / KILLS))));
        // Dropped is killed.
        drop(child);
        changed += u32::from(sleepers.attributes() != before);
    }
    let mut state = State::lock(&stage.state(), "test").map_err(|error| error.to_string())?;
    state.undo(&mut ThisHost, &mut Audit::none()).map_err(|error| error.to_string())?;
    println!("{changed} kills left something changed");
    if sleepers.attributes() != before {
        return Err(Stop::Fail(format!("{before:?}\n{:?}", sleepers.attributes())));
    }
    match changed {
        HITS.. => Ok(()),
        _ => Err(Stop::Skip(format!("only {changed} of {} kills hit anything on this machine", 4 * KILLS))),
    }
}

pub fn killed_guard(stage: &Stage) -> Ended {
    dead_man(stage, Signal::KILL, Duration::from_secs(3))
}

pub fn stopped_guard(stage: &Stage) -> Ended {
    dead_man(stage, Signal::STOP, Duration::from_secs(8))
}

fn dead_man(stage: &Stage, signal: Signal, limit: Duration) -> Ended {
    let sleepers = Sleepers::start(4)?;
    let before = sleepers.attributes();
    let policy = stage.policy("p.toml", &everything(&sleepers))?;
    let mut guard = Guard::start(stage, &policy, "")?;
    if !eventually(Duration::from_secs(3), || sleepers.attributes().iter().all(|(tid, now)| *now != before[tid])) {
        return Err(Stop::Fail("the guard changes nothing".to_owned()));
    }
    guard.process.signal(signal);
    if !eventually(limit, || sleepers.attributes() == before) {
        return Err(Stop::Fail(format!("not restored: {:?}", sleepers.attributes())));
    }
    // A stopped one was killed: it must not wake up later and change things again.
    if !guard.process.has_ended(Duration::from_secs(2)) {
        return Err(Stop::Fail("the silent guard still lives".to_owned()));
    }
    Ok(())
}

pub fn one_guard(stage: &Stage) -> Ended {
    let sleepers = Sleepers::start(1)?;
    let before = sleepers.attributes();
    let policy = stage.policy("p.toml", &everything(&sleepers))?;
    let guard = Guard::start(stage, &policy, "")?;
    let second = State::lock(&stage.path("elsewhere"), "test");
    let text = second.map(drop).expect_err("a second lock").to_string();
    assert!(text.contains("another guard") && text.contains(&guard.process.0.id().to_string()), "{text}");
    let audit = guard.end()?;
    assert_eq!(sleepers.attributes(), before, "{audit}");
    assert!(!stage.state().join("guard.journal").exists());
    Ok(())
}
