use std::thread;
use std::time::{Duration, Instant};

use unstarve_model::{LossKind, Nanos, Tid};

use crate::process::Running;
use crate::stage::{Ended, Stage, Stop};
use crate::sums::Queued;

const THREADS: usize = 4;

/// Threads that run and sleep in different ways, and tell at their end what the kernel says they waited: a line each
/// with the thread's id and nanoseconds.
pub fn busy_threads() {
    let end = Instant::now() + Duration::from_millis(2500);
    let tell = |index: usize| {
        while Instant::now() < end {
            let run = Instant::now() + Duration::from_micros(300 + 2_000 * index as u64);
            while Instant::now() < run {
                std::hint::spin_loop();
            }
            if index % 2 == 1 {
                thread::sleep(Duration::from_micros(500));
            }
        }
        // The second number: time on a runqueue. Read by the thread itself, so the waits up to now are in it.
        let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
        let delay = stat.split(' ').nth(1).and_then(|number| number.parse::<u64>().ok());
        (rustix::thread::gettid().as_raw_nonzero().get(), delay)
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|index| scope.spawn(move || tell(index))).collect();
        for thread in threads {
            if let Ok((tid, Some(delay))) = thread.join() {
                println!("{tid} {delay}");
            }
        }
    });
}

pub fn waits_match_run_delay(stage: &Stage) -> Ended {
    let file = stage.path("trace.dat");
    let mut command = stage.unstarve();
    command.arg("record").arg("-o").arg(&file).arg("--").args(["taskset", "-c", &stage.cpu.to_string()]);
    command.arg(stage.myself_as("busy")?).arg("busy-threads");
    let done = Running::start(&mut command)?.succeed(Duration::from_secs(15))?;
    let (queued, losses) = Queued::of(&file)?;
    let mut compared = Vec::new();
    for line in done.out.lines() {
        let mut numbers = line.split(' ').filter_map(|number| number.parse::<u64>().ok());
        let (Some(tid), Some(kernel)) = (numbers.next(), numbers.next()) else { continue };
        let ours = queued.0.get(&Tid(tid as u32)).copied().unwrap_or_default();
        compared.push((tid, Nanos(kernel), ours));
    }
    if compared.len() < THREADS {
        return Err(Stop::Skip("this kernel keeps no schedstat".to_owned()));
    }
    let apart = |(_, kernel, ours): &(u64, Nanos, Nanos)| kernel.0.abs_diff(ours.0) as f64 > 0.02 * kernel.0 as f64;
    if !compared.iter().any(apart) {
        return Ok(());
    }
    let table = format!("(tid, kernel, ours): {compared:?}");
    match losses.iter().find(|loss| matches!(loss.kind, LossKind::MissingSwitch | LossKind::LostEvents)) {
        Some(loss) => Err(Stop::Skip(format!("this kernel did not tell everything: {loss}; {table}"))),
        None => Err(Stop::Fail(format!("waits differ from run_delay by more than 2 %; {table}"))),
    }
}
