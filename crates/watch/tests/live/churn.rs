//! Tasks and groups that come and go.

use std::time::{Duration, Instant};

use unstarve_watch::RoleKind;

use crate::stage::{self, Ended, Group, Stop};

/// Enough to show what grows with each: a page for every forty would be 1 MiB.
const BIRTHS: usize = 10_000;
const GROUPS: usize = 60;

pub fn nothing_grows() -> Ended {
    let mut engine = stage::engine()?;
    stage::read(&mut engine)?;
    let before = resident()?;
    for round in 0..BIRTHS / 10 {
        let threads: Vec<_> = (0..10).map(|_| std::thread::spawn(std::thread::yield_now)).collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked".to_owned())?;
        }
        if round % 100 == 0 {
            stage::read(&mut engine)?;
        }
    }
    // More groups at a time than there are roles, and twice that there are others.
    for _ in 0..2 {
        let groups: Vec<Group> =
            (0..GROUPS / 2).map(|index| Group::make(&format!("g{index}"), 1024)).collect::<Result<_, _>>()?;
        let began = Instant::now();
        let mut seen = false;
        while !seen && began.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(100));
            seen = stage::read(&mut engine)?.lost.groups_in_other > 0;
        }
        assert!(seen, "{} groups have roles", groups.len());
        drop(groups);
    }
    std::thread::sleep(Duration::from_millis(1100));
    stage::read(&mut engine)?;
    std::thread::sleep(Duration::from_millis(1100));
    let last = stage::read(&mut engine)?;
    let ours = |path: &str| path.contains(&format!("unstarve-watch-{}-", std::process::id()));
    let left = last.roles.iter().flatten().filter(|role| role.cgroup.as_deref().is_some_and(ours));
    assert_eq!(left.count(), 0, "groups that have gone are no roles");
    assert_eq!(last.lost.untracked_tasks, 0);
    assert!(last.find(RoleKind::Gone, None).is_some());
    let grown = resident()?.saturating_sub(before);
    assert!(grown < 4 << 10, "{grown} KiB more than before");
    Ok(())
}

/// This process's memory, in KiB.
fn resident() -> Result<u64, Stop> {
    let status = std::fs::read_to_string("/proc/self/status").map_err(|error| error.to_string())?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let number = line.and_then(|line| line.trim().split(' ').next()?.parse().ok());
    number.ok_or_else(|| Stop::Fail("no VmRSS".to_owned()))
}
