//! A crowd that waits for moments behind a real-time daemon on one CPU, and for seconds among its equals on another.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use unstarve_model::{CpuId, Nanos};
use unstarve_sched::Rule;
use unstarve_watch::config::Config;
use unstarve_watch::episode::{Begun, Detector};
use unstarve_watch::{CpuWaits, Reading};

use crate::stage::{self, Ended, Stop};

const LASTS: Duration = Duration::from_secs(6);
const STEP: Duration = Duration::from_millis(250);
const LOOPS: usize = 50;
const THREADS: usize = 100;
/// The daemon has 3 % of its CPU, less at a time and in all than the table calls a loss (4 ms, and a twentieth).
const PERIOD: Duration = Duration::from_millis(100);
const BUSY: Duration = Duration::from_millis(3);
const ITS_CPU: u32 = 1;

/// Threads that end when this goes.
#[derive(Default)]
struct Crowd {
    is_over: Arc<AtomicBool>,
    /// Which turn of the daemon's it is.
    turn: Arc<(Mutex<u64>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
}

impl Crowd {
    fn start(&mut self, cpu: u32, thread: impl FnOnce(&AtomicBool, &(Mutex<u64>, Condvar)) + Send + 'static) -> Ended {
        let (is_over, turn) = (Arc::clone(&self.is_over), Arc::clone(&self.turn));
        let run = move || {
            let mut only = rustix::thread::CpuSet::new();
            only.set(cpu as usize);
            if rustix::thread::sched_setaffinity(None, &only).is_ok() {
                thread(&is_over, &turn);
            }
        };
        let thread = std::thread::Builder::new().stack_size(64 << 10).spawn(run);
        self.threads.push(thread.map_err(|error| Stop::Skip(format!("thread {}: {error}", self.threads.len())))?);
        Ok(())
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        pass_on(&self.turn);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn lock(turn: &Mutex<u64>) -> MutexGuard<'_, u64> {
    turn.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn pass_on((turn, passed): &(Mutex<u64>, Condvar)) {
    *lock(turn) += 1;
    passed.notify_all();
}

fn spin(is_over: &AtomicBool, lasts: Duration) {
    let began = Instant::now();
    while began.elapsed() < lasts && !is_over.load(Ordering::Relaxed) {
        std::hint::spin_loop();
    }
}

/// Wakes the crowd at the beginning of each turn, so that all of it waits for the rest.
fn daemon(is_over: &AtomicBool, turn: &(Mutex<u64>, Condvar)) {
    let priority = libc::sched_param { sched_priority: 10 };
    // SAFETY: of the calling thread, and the structure is there.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const priority) };
    while !is_over.load(Ordering::Relaxed) {
        pass_on(turn);
        spin(is_over, BUSY);
        std::thread::sleep(PERIOD - BUSY);
    }
}

/// Waits for the daemon's turns, and does nothing.
fn follow(is_over: &AtomicBool, (turn, passed): &(Mutex<u64>, Condvar)) {
    let mut seen = 0;
    while !is_over.load(Ordering::Relaxed) {
        let now = passed.wait_while(lock(turn), |turn| *turn == seen);
        seen = *now.unwrap_or_else(std::sync::PoisonError::into_inner);
    }
}

pub fn is_not_named_for_turns_elsewhere() -> Ended {
    if !std::path::Path::new("/sys/devices/system/cpu/cpu1").exists() {
        return Err(Stop::Skip("needs a second CPU".to_owned()));
    }
    let mut engine = stage::engine()?;
    let mut crowd = Crowd::default();
    for _ in 0..THREADS {
        crowd.start(ITS_CPU, follow)?;
    }
    crowd.start(ITS_CPU, daemon)?;
    for _ in 0..LOOPS {
        crowd.start(0, |is_over, _| spin(is_over, LASTS * 2))?;
    }
    // As the watch does, and after they have started, as they would have it, too: else this thread waits for its turn as long as they do.
    let _ = rustix::process::setpriority_process(None, -20);
    let mut detector = Detector::new(Config::default().thresholds);
    let first = stage::read(&mut engine)?;
    let began = Instant::now();
    let (mut begun, mut last) = (Vec::new(), first.clone());
    while began.elapsed() < LASTS {
        std::thread::sleep(STEP);
        last = stage::read(&mut engine)?;
        begun.extend(detector.see(Arc::new(last.clone())).begun);
    }
    drop(crowd);
    judge(&first, &last, &begun)
}

fn judge(first: &Reading, last: &Reading, begun: &[Begun]) -> Ended {
    let span = last.at.trace.since(first.at.trace);
    let of = |reading: &Reading| reading.real_time.get(ITS_CPU as usize).copied().unwrap_or(Nanos::ZERO);
    let had = of(last).saturating_sub(of(first));
    println!("real-time tasks had CPU {ITS_CPU} for {had} of {span}");
    if had > Nanos(span.0 / 5) {
        return Err(Stop::Skip(format!("other real-time tasks had {had} of {span}")));
    }
    assert!(had > Nanos(span.0 / 50), "{had} of {span}, though a daemon has 3 % of it");
    let Some((here, waited)) = crowd_of(first, last) else {
        return Err(Stop::Skip("nobody waited for the daemon".to_owned()));
    };
    println!("{waited} of what was waited for it was behind them, in all threads");
    if waited < span {
        return Err(Stop::Skip(format!("a crowd waited for {waited} in {span}: it had little of the CPU")));
    }
    let its = begun.iter().filter(|begun| Some(&begun.victim) == last.role(here.role));
    let named: Vec<&Begun> = its.filter(|begun| begun.rule == Some(Rule::Class)).collect();
    assert!(named.is_empty(), "{named:#?}");
    Ok(())
}

/// Who waited most behind higher classes on the daemon's CPU, and how long.
fn crowd_of(first: &Reading, last: &Reading) -> Option<(CpuWaits, Nanos)> {
    let here = |reading: &Reading| -> Vec<CpuWaits> {
        reading.cpus.iter().filter(|row| row.cpu == CpuId(ITS_CPU)).copied().collect()
    };
    let before = here(first);
    let grown = |row: CpuWaits| {
        let old = before.iter().find(|old| old.role == row.role).map_or(Nanos::ZERO, |old| old.by_class);
        (row, row.by_class.saturating_sub(old))
    };
    here(last).into_iter().map(grown).max_by_key(|(_, ns)| *ns)
}
