//! What is known of most tasks is in an array, while a place is free.

use std::time::Duration;

use unstarve_watch::{Ebpf, Options, TaskMemory};

use crate::stage::{self, Ended, Stop};

/// `SLOTS` of tasks.h.
const SLOTS: usize = 8192;
const BIRTHS: usize = 3 * SLOTS;
/// What is born and ends meanwhile beside the test.
const OTHERS: usize = 400;

fn engine() -> Result<Ebpf, Stop> {
    let engine = Ebpf::open(Options { tasks: TaskMemory::Kernel, ..Options::default() })?;
    match engine.slots_taken() {
        0 => Err(Stop::Skip("this kernel has no task storage, or draws no number for each task".to_owned())),
        _ => Ok(engine),
    }
}

/// Places of ended tasks are free again: else all were taken for ever after some thousands of births.
pub fn are_given_back() -> Ended {
    let mut engine = engine()?;
    let before = engine.slots_taken();
    let mut most = before;
    for round in 0..BIRTHS / 8 {
        let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(std::thread::yield_now)).collect();
        for thread in threads {
            thread.join().map_err(|_| "a thread panicked".to_owned())?;
        }
        if round % 64 == 0 {
            most = most.max(engine.slots_taken());
        }
    }
    // The kernel forgets ended tasks a little later.
    std::thread::sleep(Duration::from_secs(1));
    let after = engine.slots_taken();
    println!("{before} places taken before {BIRTHS} births, {most} at most, {after} after");
    assert!(most > before, "births took none");
    assert!(after < before + OTHERS, "{before} places before {BIRTHS} births, {after} after");
    assert_eq!(stage::read(&mut engine)?.lost.untracked_tasks, 0);
    Ok(())
}
