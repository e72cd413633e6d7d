//! Small bounded loads. Those here starve other tasks, for the demo and the live tests; those in [`measured`] run in
//! the lab's guests and print measurements.
//!
//! Each ends by itself, whatever happens to its parent: none lasts longer than [`MAX_DURATION`]. They do not set policy,
//! affinity or weight; `chrt`, `taskset` and a cgroup do that from outside. A [`Load::Hog`] leaves at least 15 % of
//! each period free, because since 6.12 no throttling stops a real-time task that never sleeps from monopolising its
//! CPU.

#![cfg_attr(not(test), warn(clippy::print_stdout, clippy::print_stderr))]

mod births;
pub mod measured;
pub mod metric;
mod pool;
pub mod seed;
mod spin;

use std::io::Write;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::births::{Mark, Storm};

/// No load lasts longer.
pub const MAX_DURATION: Duration = Duration::from_secs(30);

/// The largest part of a period, in per cent, that a hog may run.
pub const MAX_BUSY_PERCENT: u32 = 85;

/// A small load that starves others, for the demo and the live tests.
#[derive(Parser)]
#[command(name = "unstarve-load")]
pub struct Args {
    #[command(subcommand)]
    load: Load,
}

/// What to do; all times in milliseconds unless the name says otherwise.
#[derive(Subcommand)]
pub enum Load {
    /// Runs for a part of each period and sleeps for the rest
    Hog {
        /// How long in all
        #[arg(long, default_value_t = 3000)]
        lasts: u64,
        /// The period
        #[arg(long, default_value_t = 100)]
        period: u64,
        /// The part of it that is spent running, in per cent; at most 85
        #[arg(long, default_value_t = 80)]
        busy: u32,
    },
    /// Makes threads named `storm` that live for a moment and see, at their end, whether somebody has set their nice or
    /// policy; says how many were made, and how many were not as expected
    Births {
        /// How long; at most 90 s
        #[arg(long, default_value_t = 3000)]
        lasts: u64,
        /// How many in a second
        #[arg(long, default_value_t = 2000)]
        rate: u32,
        /// How long each lives
        #[arg(long, default_value_t = 100)]
        lives: u64,
        /// The nice that each should have at its end
        #[arg(long, default_value_t = 0, allow_negative_numbers = true)]
        nice: i32,
        /// Each should have SCHED_BATCH instead
        #[arg(long)]
        batch: bool,
        /// Each looks all its life, to say when it was as expected
        #[arg(long)]
        watch: bool,
    },
    /// Runs all the time, in as many threads
    Spin {
        /// How long
        #[arg(long, default_value_t = 3000)]
        lasts: u64,
        /// Threads
        #[arg(long, default_value_t = 1)]
        threads: usize,
    },
    /// A dispatcher that wakes one thread of a pool for each call, in bursts
    Pool {
        /// How long
        #[arg(long, default_value_t = 3000)]
        lasts: u64,
        /// Threads in the pool
        #[arg(long, default_value_t = 128)]
        threads: usize,
        /// Calls at a time
        #[arg(long, default_value_t = 64)]
        burst: usize,
        /// Time between bursts, in µs
        #[arg(long, default_value_t = 4000)]
        every_us: u64,
        /// Running time of a call, in µs
        #[arg(long, default_value_t = 150)]
        work_us: u64,
    },
}

/// Runs the load.
pub fn run(args: Args) {
    let lasting = |ms| Duration::from_millis(ms).min(MAX_DURATION);
    match args.load {
        Load::Hog { lasts, period, busy } => {
            let period = Duration::from_millis(period.max(1)).min(MAX_DURATION);
            spin::hog(lasting(lasts), period, period * busy.min(MAX_BUSY_PERCENT) / 100);
        }
        Load::Births { lasts, rate, lives, nice, batch, watch } => {
            let made = births::blow(Storm {
                // These threads sleep most of the time, so they may last longer than busy loads.
                lasts: Duration::from_millis(lasts).min(3 * MAX_DURATION),
                rate: rate.clamp(1, 10_000),
                lives: Duration::from_millis(lives).min(Duration::from_secs(1)),
                mark: if batch { Mark::Batch } else { Mark::Nice(nice) },
                watch,
            });
            let seen =
                [500, 990, 1000].map(|part| made.quantile_ns(part).map_or("null".to_owned(), |ns| ns.to_string()));
            let [p50, p99, max] = seen;
            // A closed output is not a reason to panic.
            let _ = writeln!(
                std::io::stdout(),
                "{{\"made\":{},\"wrong\":{},\"late\":{},\"p50_ns\":{p50},\"p99_ns\":{p99},\"max_ns\":{max}}}",
                made.made,
                made.wrong,
                made.late
            );
        }
        Load::Spin { lasts, threads } => spin::spin(lasting(lasts), threads.clamp(1, 1024)),
        Load::Pool { lasts, threads, burst, every_us, work_us } => {
            let calls = pool::Calls {
                threads: threads.clamp(1, 1024),
                burst: burst.clamp(1, 1024),
                every: Duration::from_micros(every_us.max(100)).min(MAX_DURATION),
                work: Duration::from_micros(work_us).min(MAX_DURATION),
            };
            pool::pool(lasting(lasts), &calls);
        }
    }
}
