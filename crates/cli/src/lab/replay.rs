//! `unstarve lab replay`: plays a recording's program in a guest, and shows how near it comes.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use serde::Serialize;
use unstarve_diagnose::drive;
use unstarve_lab::player::read_program;
use unstarve_lab::replay::{Nearness, Pair, Replay, Replayed};
use unstarve_model::Nanos;
use unstarve_sim::{ActorFelt, Extractor, Felt, Program};

use super::experiment::Guests;
use crate::input::Recording;

/// Play a recording's program in a guest, under the real scheduler of any kernel, and show how near the replay comes
///
/// The program is what the recording's threads did by themselves: how long they computed, which threads they woke, how long they
/// slept. The guest's kernel decides which thread waits.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  unstarve lab replay unstarve.dat --kernel 6.12
  unstarve lab replay program.json --kernel 6.1 --json

Exit code: 0 if it was played, 2 if not.")]
pub(crate) struct ReplayArgs {
    /// A recording, or a program (its name ends in .json or .toml)
    #[arg(value_name = "RECORDING|PROGRAM")]
    input: PathBuf,
    /// The kernel, as `unstarve lab kernel list` calls it
    #[arg(long)]
    kernel: String,
    /// Set a knob beside the program's own: sched_feature.NAME, sysctl.PATH, debugfs.PATH or cmdline.NAME
    #[arg(long, value_name = "KNOB=VALUE", value_parser = super::run::knob)]
    set: Vec<(String, String)>,
    /// Move the absolute timers of the threads against each other by up to 2 ms; 0 moves none
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Play it again with runs corrected by what they lasted too long or too short
    #[arg(long)]
    correct: bool,
    /// How many threads to show, those with most waiting first
    #[arg(long, default_value_t = 10)]
    rows: usize,
    #[command(flatten)]
    guests: Guests,
}

pub(crate) fn run(args: ReplayArgs) -> anyhow::Result<ExitCode> {
    let (program, recorded) = program_of(&args.input)?;
    let mut replay = Replay { knobs: args.set.clone(), seed: args.seed, ..Replay::new(program, &args.kernel) };
    let mut runner = args.guests.runner()?;
    let mut replayed = replay.run(&mut runner)?;
    if args.correct {
        replay.program = replay.program.corrected(&recorded, &replayed.felt);
        replayed = replay.run(&mut runner)?;
    }
    let nearness = Nearness::of(&replay.program, &recorded, &replayed.felt, args.rows);
    args.guests.show(&Answer { nearness, replayed, program: &replay.program, recorded })
}

/// The program, and what its actors felt when it was recorded; of a program as JSON only the CPU time for which it asks is known.
fn program_of(input: &Path) -> anyhow::Result<(Program, Felt)> {
    if input.extension().is_some_and(|extension| extension == "json" || extension == "toml") {
        let program = read_program(input)?;
        let asked = |actor: &unstarve_sim::Actor| {
            let items = actor.ops.iter().filter(|op| op.begins_item()).count() as u64;
            ActorFelt { ran: actor.work(), wakeups: items, items, ..ActorFelt::default() }
        };
        let felt = Felt { length: program.length, actors: program.actors.iter().map(asked).collect() };
        return Ok((program, felt));
    }
    let recording = Recording::new(input.to_owned())?;
    let mut extractor = Extractor::default();
    let driven = drive(recording.open()?, &mut extractor, |_| {}).with_context(|| recording.name())?;
    let extracted =
        extractor.finish(driven.timeline.world(), driven.snapshot.as_deref()).with_context(|| recording.name())?;
    Ok((extracted.program, extracted.recorded))
}

/// What is printed.
#[derive(Serialize)]
struct Answer<'a> {
    nearness: Nearness,
    recorded: Felt,
    replayed: Replayed,
    #[serde(skip)]
    program: &'a Program,
}

impl fmt::Display for Answer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (program, outcome) = (self.program, &self.replayed.outcome);
        writeln!(
            f,
            "{} threads on {} CPUs, {} operations in {}, played on {} in {:.0} s",
            program.actors.len(),
            program.cpus.len(),
            program.operations(),
            program.length,
            outcome.kernel_release,
            outcome.wall_seconds
        )?;
        writeln!(f, "recorded → replayed (difference)\n")?;
        let [thread, tid, wait, longest, p99, ran, switches] =
            ["thread", "tid", "wait per item", "longest", "p99", "CPU", "switches"];
        writeln!(f, "{thread:<16} {tid:>7}  {wait:<29} {longest:<29} {p99:<29} {ran:<29} {switches}")?;
        let rows = self.nearness.actors.iter().map(|actor| (actor.comm.as_str(), actor.tid.to_string(), &actor.pairs));
        for (comm, tid, pairs) in rows.chain([("all", String::new(), &self.nearness.all)]) {
            let times = [pairs.wait_per_item, pairs.longest, pairs.p99, pairs.ran].map(|pair| shown(pair, time));
            let [wait, longest, p99, ran] = times;
            let switches = shown(pairs.switches, |count| format!("{count:.0}"));
            writeln!(f, "{comm:<16} {tid:>7}  {wait:<29} {longest:<29} {p99:<29} {ran:<29} {switches}")?;
        }
        Ok(())
    }
}

fn time(ns: f64) -> String {
    Nanos(ns.round() as u64).to_string()
}

fn shown(pair: Pair, number: impl Fn(f64) -> String) -> String {
    let side = |side: Option<f64>| side.map_or_else(|| "–".to_owned(), &number);
    let difference = pair.difference().map(|percent| format!(" ({percent:+.0} %)")).unwrap_or_default();
    format!("{} → {}{difference}", side(pair.recorded), side(pair.replayed))
}
