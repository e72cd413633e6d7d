//! Reads from /proc what the executor needs of a task.

use std::fs;
use std::io::Read;

use unstarve_change::TaskKey;
use unstarve_facts::Stat;
use unstarve_model::Tid;

use crate::inherited_changes::Kin;

fn numeric(entry: &fs::DirEntry) -> Option<Tid> {
    entry.file_name().to_str()?.parse().ok().map(Tid)
}

/// A task's start time, if the tid exists.
pub fn start_of(tid: Tid) -> Option<u64> {
    let mut bytes = [0; 1024];
    let count = fs::File::open(format!("/proc/{tid}/stat")).ok()?.read(&mut bytes).ok()?;
    Stat::parse(&String::from_utf8_lossy(&bytes[..count])).map(|stat| stat.start)
}

/// All tasks except kernel threads, with their parents.
///
/// # Errors
/// If `/proc` cannot be read.
pub fn kin() -> std::io::Result<Vec<Kin>> {
    let mut all = Vec::new();
    let mut buffer = Vec::new();
    for process in fs::read_dir("/proc")?.flatten() {
        let Some(tgid) = numeric(&process) else { continue };
        let Ok(threads) = fs::read_dir(process.path().join("task")) else { continue };
        for tid in threads.flatten().filter_map(|thread| numeric(&thread)) {
            buffer.clear();
            let read = fs::File::open(format!("/proc/{tid}/stat")).and_then(|mut file| file.read_to_end(&mut buffer));
            let stat = read.ok().and_then(|_| Stat::parse(&String::from_utf8_lossy(&buffer)));
            let Some(stat) = stat.filter(|stat| !stat.is_kernel_thread()) else { continue };
            all.push(Kin {
                key: TaskKey { tid, start: stat.start },
                tgid,
                parent: stat.parent,
                has_ended: stat.has_ended(),
            });
        }
    }
    Ok(all)
}

/// A task's CPU time in ns, and its last CPU.
pub fn ran_on(tid: Tid) -> Option<(u64, u32)> {
    let times = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    let stat = fs::read(format!("/proc/{tid}/stat")).ok()?;
    let cpu = Stat::parse(&String::from_utf8_lossy(&stat))?.cpu?;
    Some((times.split_ascii_whitespace().next()?.parse().ok()?, cpu))
}

/// Whether a task belongs to a program and neither sleeps nor has exited, so that it may be in a fork.
pub fn is_busy_program(key: TaskKey) -> bool {
    let stat = fs::read(format!("/proc/{}/stat", key.tid)).ok();
    let stat = stat.and_then(|stat| Stat::parse(&String::from_utf8_lossy(&stat)));
    stat.is_some_and(|stat| stat.start == key.start && !stat.is_kernel_thread() && matches!(stat.state, 'R' | 'D'))
}

/// A task's run time and wait time, in ns.
pub fn waited(tid: Tid) -> Option<(u64, u64)> {
    times(tid).map(|(ran, waited, _)| (ran, waited))
}

/// As [`waited`], and how often it got a CPU; a wait precedes each time (`sched_info_arrive`, kernel/sched/stats.h).
pub fn times(tid: Tid) -> Option<(u64, u64, u64)> {
    let times = fs::read_to_string(format!("/proc/{tid}/schedstat")).ok()?;
    let mut times = times.split_ascii_whitespace().map(|number| number.parse().ok());
    Some((times.next()??, times.next()??, times.next()??))
}

/// A task's `stat`, if the tid exists.
pub fn stat_of(tid: Tid) -> Option<Stat> {
    let bytes = fs::read(format!("/proc/{tid}/stat")).ok()?;
    Stat::parse(&String::from_utf8_lossy(&bytes))
}

/// A thread's process, from its status.
pub fn process_of(tid: Tid) -> Option<Tid> {
    of_status(tid, "Tgid:").map(Tid)
}

/// The real user of a thread.
pub fn user_of(tid: Tid) -> Option<u32> {
    of_status(tid, "Uid:")
}

/// The first number in a line of a thread's status.
fn of_status(tid: Tid, name: &str) -> Option<u32> {
    let status = fs::read(format!("/proc/{tid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    // The task's name comes first; its newlines are escaped.
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// The entries of a directory whose names are numbers, sorted.
pub fn numbers_in(directory: &str) -> Vec<Tid> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut tids: Vec<Tid> = entries.filter_map(|entry| numeric(&entry)).collect();
    tids.sort_unstable();
    tids
}
