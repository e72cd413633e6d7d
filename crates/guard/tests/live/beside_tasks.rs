//! What a policy sets beside tasks, on this machine: the weight of a group of the test's own, how much a group's quota is
//! handed out at a time, and where an interrupt goes. Each is put back at the guard's end and after its kill.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rustix::process::Signal;

use crate::child::Guard;
use crate::stage::{Ended, Stage, Stop, eventually};
use crate::workers::Group;

const SLICE: &str = "/proc/sys/kernel/sched_cfs_bandwidth_slice_us";

pub fn set_and_put_back(stage: &Stage) -> Ended {
    let group = Group::heavy()?;
    let mut policy = format!("[limits]\ndead-man = 2\n[[cgroup]]\npath = \"/{}\"\nweight = 50\n", group.name());
    let mut wanted = vec![(group.weight_file(), group.written(50))];
    if let Some(slice) = read(SLICE) {
        let other = slice.parse::<u32>().map_err(|error| format!("{SLICE}: {error}"))? + 1000;
        policy += &format!("[[tunable]]\nname = \"kernel.sched_cfs_bandwidth_slice_us\"\nvalue = {other}\n");
        wanted.push((SLICE.into(), other.to_string()));
    }
    if let Some((handler, file)) = movable_interrupt() {
        policy += &format!("[[irq]]\naction = \"{handler}\"\naffinity = \"0\"\n");
        wanted.push((file, "0".to_owned()));
    }
    println!("{policy}");
    let policy = stage.policy("p.toml", &policy)?;
    let now = || wanted.iter().map(|(file, _)| read(file)).collect::<Vec<_>>();
    let meant: Vec<_> = wanted.iter().map(|(_, value)| Some(value.clone())).collect();
    let before = now();
    assert_ne!(before, meant);

    let guard = Guard::start(stage, &policy, "")?;
    assert_eq!(now(), meant, "{}", guard.audit());
    let audit = guard.end()?;
    assert_eq!(now(), before, "at its end: {audit}");

    let guard = Guard::start(stage, &policy, "")?;
    assert_eq!(now(), meant, "{}", guard.audit());
    guard.process.signal(Signal::KILL);
    if !eventually(Duration::from_secs(5), || now() == before) {
        return Err(Stop::Fail(format!("after its kill: {:?} and not {before:?}", now())));
    }
    Ok(())
}

/// A group that is renamed meanwhile is still the one that was changed, and one that is made at its old path is not.
pub fn renamed_groups(stage: &Stage) -> Ended {
    for signal in [Signal::TERM, Signal::KILL] {
        let mut group = Group::heavy()?;
        let before = read(group.weight_file());
        let (name, weight) = (group.name(), group.written(50));
        let policy = format!("[limits]\ndead-man = 2\n[[cgroup]]\npath = \"/{name}\"\nweight = 50\n");
        let guard = Guard::start(stage, &stage.policy("p.toml", &policy)?, "")?;
        assert_eq!(read(group.weight_file()).as_ref(), Some(&weight), "{}", guard.audit());
        let Some(another) = group.renamed() else {
            return Err(Stop::Skip("this hierarchy does not let groups be renamed".to_owned()));
        };
        // What somebody gives the other one, by chance the same, is theirs.
        fs::write(another.weight_file(), &weight).map_err(|error| error.to_string())?;
        guard.process.signal(signal);
        if !eventually(Duration::from_secs(8), || read(group.weight_file()) == before) {
            return Err(Stop::Fail(format!("{signal:?}: {:?} and not {before:?}", read(group.weight_file()))));
        }
        assert_eq!(read(another.weight_file()), Some(weight), "{signal:?}: it was never changed");
        let free = || unstarve_executor::state::holder().is_ok_and(|holder| holder.is_none());
        assert!(eventually(Duration::from_secs(5), free), "{signal:?}");
    }
    Ok(())
}

fn read(file: impl Into<PathBuf>) -> Option<String> {
    Some(fs::read_to_string(file.into()).ok()?.trim().to_owned())
}

/// The handler and the file of an interrupt that may go to several CPUs, and takes its own affinity back when it is written.
fn movable_interrupt() -> Option<(String, PathBuf)> {
    let mut interrupts: Vec<_> = fs::read_dir("/proc/irq").ok()?.flatten().map(|entry| entry.path()).collect();
    interrupts.sort();
    let handlers_of = |irq: &PathBuf| -> Vec<String> {
        let entries = fs::read_dir(irq).into_iter().flatten().flatten();
        let directories = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        directories.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
    };
    // A rule is for all interrupts of a handler.
    let all: Vec<String> = interrupts.iter().flat_map(handlers_of).collect();
    interrupts.into_iter().find_map(|irq| {
        let handler = handlers_of(&irq).pop().filter(|name| all.iter().filter(|other| *other == name).count() == 1)?;
        let file = irq.join("smp_affinity_list");
        let several = read(&file).filter(|cpus| cpus != "0")?;
        (!handler.contains(['"', '\\', '*', '?']) && fs::write(&file, several).is_ok()).then_some((handler, file))
    })
}
