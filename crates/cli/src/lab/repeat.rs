//! `unstarve lab repeat`: runs the same guest several times and compares the traces.

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use unstarve_lab::run::Request;
use unstarve_lab::{catalogue, repeat};

use super::experiment::{Guests, print_progress, seconds};

/// Run an identical guest repeatedly and compare the traces byte by byte
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unstarve lab repeat kubepods --kernel 6.1 --times 20
  unstarve lab repeat spike --kernel 6.1 --cpus 4 --seconds 0.3 --host-load 2

Exit code: 0 if all traces are the same, 1 if not, 2 if a run failed.")]
pub(crate) struct RepeatArgs {
    /// A scenario that comes with unstarve, or a TOML file
    scenario: String,
    /// The kernel, as `unstarve lab kernel list` calls it
    #[arg(long)]
    kernel: String,
    /// How many times
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..=1000))]
    times: u64,
    /// Virtual CPUs, instead of the scenario's
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=64))]
    cpus: Option<u32>,
    /// Virtual seconds, instead of the scenario's
    #[arg(long, value_parser = seconds)]
    seconds: Option<f64>,
    /// Busy threads on the host during the runs, as a disturbance
    #[arg(long, value_name = "THREADS", default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=256))]
    host_load: u16,
    /// The seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    guests: Guests,
}

pub(crate) fn run(args: RepeatArgs) -> anyhow::Result<ExitCode> {
    let mut scenario = catalogue::find(&args.scenario)?;
    scenario.cpus = args.cpus.unwrap_or(scenario.cpus);
    scenario.seconds = args.seconds.unwrap_or(scenario.seconds);
    scenario.check_again()?;
    let request = Request::faulty(scenario, &args.kernel, args.seed);
    let mut runner = args.guests.fresh_runner()?;
    let over = AtomicBool::new(false);
    let repeats = std::thread::scope(|scope| {
        for _ in 0..args.host_load {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let repeats = repeat::repeat(&mut runner, &mut print_progress, &request, args.times as usize);
        over.store(true, Ordering::Relaxed);
        repeats
    })?;
    args.guests.show(&repeats)?;
    Ok(if repeats.identical() { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
