//! Kernels before 5.12 have no memory for each task: what is known of tasks is in a table with an end.

use std::time::Duration;

use unstarve_watch::{Ebpf, EngineError, Options, TaskMemory};

use crate::stage::{self, Ended, Stop};

/// Room for these births beside the tasks that are there; the kernel forgets ended tasks a little later.
const ROOM: usize = 4096;
const BIRTHS: usize = 3 * ROOM;
/// Far fewer than any machine has tasks.
const SMALL: u32 = 32;
const THREADS: usize = 2000;

fn engine(entries: u32) -> Result<Ebpf, EngineError> {
    Ebpf::open(Options { tasks: TaskMemory::Table { entries }, ..Options::default() })
}

/// Places of ended tasks are used again.
pub fn has_room_for_births() -> Ended {
    let there = std::fs::read_to_string("/proc/loadavg").map_err(|error| error.to_string())?;
    let there: usize = there
        .split(['/', ' '])
        .nth(4)
        .and_then(|number| number.parse().ok())
        .ok_or_else(|| Stop::Fail(there.clone()))?;
    let mut engine = engine((there + ROOM) as u32)?;
    let before = stage::read(&mut engine)?.lost.untracked_tasks;
    for _ in 0..BIRTHS / 8 {
        let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(std::thread::yield_now)).collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked".to_owned())?;
        }
    }
    let untracked = stage::read(&mut engine)?.lost.untracked_tasks - before;
    // Where the machine is busy the kernel forgets them late. Without places used again two of three births had none.
    assert!(untracked < (BIRTHS / 10) as u64, "{untracked} of {BIRTHS} births had no place");
    Ok(())
}

/// Tasks without a place are left out and counted; the sums of the others stay whole.
pub fn that_is_full_counts_who_finds_no_room() -> Ended {
    let mut engine = engine(SMALL)?;
    let first = stage::read(&mut engine)?;
    assert!(first.lost.untracked_tasks > 0, "{:?}", first.lost);
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = std::sync::Arc::new(std::sync::Mutex::new(ended));
    let mut threads = Vec::new();
    for _ in 0..THREADS {
        let ended = std::sync::Arc::clone(&ended);
        let wait = move || drop(ended.lock().map(|ended| ended.recv()));
        match std::thread::Builder::new().stack_size(16 << 10).spawn(wait) {
            Ok(thread) => threads.push(thread),
            Err(error) => return Err(Stop::Skip(format!("thread {}: {error}", threads.len()))),
        }
    }
    std::thread::sleep(Duration::from_millis(100));
    let last = stage::read(&mut engine)?;
    drop(end);
    for thread in threads {
        thread.join().map_err(|_| "a thread panicked".to_owned())?;
    }
    let untracked = last.lost.untracked_tasks - first.lost.untracked_tasks;
    assert!(untracked >= (THREADS - SMALL as usize) as u64, "{untracked} of {THREADS}");
    stage::read(&mut engine)?;
    Ok(())
}
