use std::time::Duration;

use unstarve_executor::sched;

use crate::child::Guard;
use crate::sleepers::Sleepers;
use crate::stage::{Ended, Stage, eventually};

/// One sleeper for each way of dealing with drift.
pub fn every_way(stage: &Stage) -> Ended {
    let sleepers = Sleepers::start(3)?;
    let tids: Vec<_> = sleepers.tids().collect();
    // A sleeper's nice before tells the rule apart: by affinity, which the rules select by.
    let selector = sleepers.selector();
    let selector = selector.trim_end_matches('}');
    for (tid, cpu) in tids.iter().zip(["0", "1", "0-1"]) {
        sched::set_affinity(*tid, &cpu.parse().expect("CPUs")).map_err(|error| format!("two CPUs: {error}"))?;
    }
    let policy = stage.policy(
        "p.toml",
        &format!(
            "[limits]\ncorrections = 2\n\
             [[rule]]\nname = \"keep\"\nmatch = {selector}, cpu = \"0\" }}\nset = {{ nice = 5 }}\non-drift = \"keep\"\n\
             [[rule]]\nname = \"yield\"\nmatch = {selector}, cpu = \"1\" }}\nset = {{ nice = 5 }}\n\
             [[rule]]\nname = \"report\"\nmatch = {selector}, cpu = \"0-1\" }}\nset = {{ nice = 5 }}\non-drift = \"report\"\n"
        ),
    )?;
    let guard = Guard::start(stage, &policy, "")?;
    let nice = |index: usize| sched::read(tids[index]).map(|attributes| attributes.nice).ok();
    let all = |values: [i32; 3]| {
        eventually(Duration::from_secs(4), || (0..3).all(|index| nice(index) == Some(values[index])))
    };
    assert!(all([5, 5, 5]), "{}", guard.audit());
    for tid in &tids {
        sched::set_nice(*tid, 9).map_err(|error| error.to_string())?;
    }
    assert!(all([5, 9, 9]), "{}", guard.audit());
    // Twice it is put back, then the guard does not fight on.
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(2500));
        sched::set_nice(tids[0], 9).map_err(|error| error.to_string())?;
    }
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(nice(0), Some(9), "{}", guard.audit());
    let audit = guard.end()?;
    assert_eq!([nice(0), nice(1), nice(2)], [Some(9); 3], "what others have set is theirs: {audit}");
    let count = |event: &str, rule: &str| {
        audit
            .lines()
            .filter(|line| line.contains(&format!("\"{event}\"")) && line.contains(&format!("\"rule\":\"{rule}\"")))
            .count()
    };
    assert_eq!((count("gave-up", "keep"), count("drift", "yield"), count("drift", "report")), (1, 1, 1), "{audit}");
    Ok(())
}
