//! A load like a kernel build: compilers that always want the CPU, and short wakeups between them.

use std::io::Write;
use std::thread;
use std::time::{Duration, Instant};

use super::arguments::Arguments;
use super::pacing::sleep_until;
use super::{Doing, LoadError, switches};
use crate::metric::{self, Better};
use crate::spin::until as compute_until;

/// The work done by one compiler.
struct Compiled {
    units: u64,
    involuntary: Option<u64>,
}

/// `jobs` computing threads `cc1` beside `tickers` threads that sleep `sleep_us` and compute `work_us`.
pub(super) fn compile(arguments: &mut Arguments, out: &mut dyn Write) -> Result<(), LoadError> {
    let jobs = arguments.number("jobs", 4, 1..=1024)?;
    let tickers = arguments.number("tickers", 4, 0..=1024)?;
    let (sleep, work) = (arguments.micros("sleep_us", 300)?, arguments.micros("work_us", 60)?);
    let (length, seed) = arguments.done()?;
    let end = Instant::now() + length;
    let compiled = thread::scope(|scope| {
        let start = |name: &str| thread::Builder::new().name(name.to_owned());
        for number in 0..tickers {
            let phase = Duration::from_nanos(crate::seed::mix(seed ^ number) % (sleep.as_nanos() as u64 + 1));
            start("ticker").spawn_scoped(scope, move || tick(end, phase, sleep, work)).doing("start a thread")?;
        }
        let compilers: Vec<_> = (0..jobs)
            .map(|_| start("cc1").spawn_scoped(scope, || compile_until(end)).doing("start a thread"))
            .collect::<Result<_, _>>()?;
        Ok::<Vec<Compiled>, LoadError>(compilers.into_iter().filter_map(|thread| thread.join().ok()).collect())
    })?;
    let seconds = length.as_secs_f64();
    let units = compiled.iter().map(|one| one.units).sum::<u64>() as f64 / seconds;
    writeln!(out, "{}", metric::line("units", format_args!("{units:.1}"), "1/s", Better::Higher)).doing("write")?;
    if let Some(lost) = compiled.iter().map(|one| one.involuntary).sum::<Option<u64>>() {
        let rate = lost as f64 / seconds;
        let line = metric::line("involuntary", format_args!("{rate:.1}"), "1/s", Better::Lower);
        writeln!(out, "{line}").doing("write")?;
    }
    Ok(())
}

fn tick(end: Instant, phase: Duration, sleep: Duration, work: Duration) {
    sleep_until(Instant::now() + phase);
    while Instant::now() < end {
        sleep_until(Instant::now() + sleep);
        compute_until(Instant::now() + work);
    }
}

/// Counts units of a fixed amount of work, so that time lost to context switches is visible.
fn compile_until(end: Instant) -> Compiled {
    let mut units = 0;
    let mut x = 1u64;
    while Instant::now() < end {
        for _ in 0..10_000 {
            x = std::hint::black_box(x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        units += 1;
    }
    Compiled { units, involuntary: switches::involuntary() }
}
