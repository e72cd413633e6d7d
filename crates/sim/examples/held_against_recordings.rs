//! Holds the model against recordings: plays the program of each recording under the model of the kernel on which it was recorded,
//! and prints what its threads felt in both: `held_against_recordings [--all] FILE…`.
//!
//! A line for each recording, of the thread that waited longest, or with `--all` of every thread that waited.

use std::io::Write;
use std::path::Path;
use std::time::Instant;

use unstarve_diagnose::drive;
use unstarve_sim::engine::{Replica, SchedulerModel, play};
use unstarve_sim::{ActorFelt, Extracted, Extractor, Felt};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = std::io::stdout().lock();
    let (flags, files): (Vec<String>, Vec<String>) = std::env::args().skip(1).partition(|name| name.starts_with("--"));
    writeln!(
        out,
        "{:34} {:15} {:>19} {:>19} {:>15} {:>13}  waits of 8 replicas",
        "recording", "thread", "waited ms", "longest ms", "switches", "ran ms"
    )?;
    for file in files {
        let name = Path::new(&file).file_name().unwrap_or_default().to_string_lossy().replace(".dat.zst", "");
        match hold(&name, &file, flags.iter().any(|flag| flag == "--all")) {
            Ok(lines) => write!(out, "{lines}")?,
            Err(error) => writeln!(out, "{name:34} {error}")?,
        }
    }
    Ok(())
}

fn hold(name: &str, file: &str, all: bool) -> Result<String, Box<dyn std::error::Error>> {
    let mut extractor = Extractor::default();
    let driven = drive(unstarve_readers::open(file.as_ref())?, &mut extractor, |_| {})?;
    let extracted = extractor.finish(driven.timeline.world(), driven.snapshot.as_deref())?;
    let program = &extracted.program;
    let model = SchedulerModel::of_program(program)?;
    let began = Instant::now();
    let played = play(program, &model, Replica::AS_RECORDED)?;
    let took = began.elapsed();
    let felt = played.felt.with_dispatch(program.dispatch);
    let mut replicas = Vec::new();
    for seed in 1..=8 {
        replicas.push(play(program, &model, Replica::seeded(seed))?.felt.with_dispatch(program.dispatch));
    }
    let mut lines = String::new();
    for index in shown(&extracted, all) {
        lines += &line(name, &extracted, &felt, &replicas, index);
    }
    if all {
        lines += &format!(
            "{name}: {} operations, {} events, {:.1} ms, {} CPUs {}\n",
            program.operations(),
            played.events,
            took.as_secs_f64() * 1e3,
            program.cpus.len(),
            program.kernel.as_deref().unwrap_or_default()
        );
    }
    Ok(lines)
}

/// The actors that waited, longest first; only the first unless all are asked for.
fn shown(extracted: &Extracted, all: bool) -> Vec<usize> {
    let felt = &extracted.recorded.actors;
    let mut order: Vec<usize> = (0..felt.len()).filter(|index| felt[*index].waited.0 > 0).collect();
    order.sort_by_key(|index| std::cmp::Reverse(felt[*index].waited));
    order.truncate(if all { usize::MAX } else { 1 });
    order
}

fn line(name: &str, extracted: &Extracted, played: &Felt, replicas: &[Felt], index: usize) -> String {
    let (recorded, played) = (&extracted.recorded.actors[index], &played.actors[index]);
    let pair = |of: fn(&ActorFelt) -> u64| format!("{:.1} {:.1}", of(recorded) as f64 / 1e6, of(played) as f64 / 1e6);
    let waits = replicas.iter().map(|felt| felt.actors[index].waited.0);
    let (least, most) = (waits.clone().min().unwrap_or_default(), waits.max().unwrap_or_default());
    format!(
        "{name:34} {:15} {:>19} {:>19} {:>15} {:>13}  {:.1} to {:.1}\n",
        extracted.program.actors[index].comm,
        pair(|felt| felt.waited.0),
        pair(|felt| felt.longest.0),
        format!("{} {}", recorded.switches, played.switches),
        pair(|felt| felt.ran.0),
        least as f64 / 1e6,
        most as f64 / 1e6,
    )
}
