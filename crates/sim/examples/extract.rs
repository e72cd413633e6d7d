//! Prints the program of a recording: `extract FILE [JSON]`.

use std::io::Write;

use unstarve_diagnose::drive;
use unstarve_sim::{Extractor, Op};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().ok_or("extract FILE [JSON]")?;
    let mut extractor = Extractor::default();
    let driven = drive(unstarve_readers::open(file.as_ref())?, &mut extractor, |_| {})?;
    let extracted = extractor.finish(driven.timeline.world(), driven.snapshot.as_deref())?;
    let program = &extracted.program;
    let mut out = std::io::stdout().lock();
    writeln!(out, "{} CPUs, {} ms, {} operations", program.cpus, program.length.0 / 1_000_000, program.operations())?;
    for group in &program.cgroups {
        writeln!(out, "group {} {} {:?}", group.path, group.load_weight, group.quota)?;
    }
    for ((_, actor), felt) in program.actors().zip(&extracted.recorded.actors) {
        let count = |of: fn(&Op) -> bool| actor.ops.iter().filter(|op| of(op)).count();
        let (block, until) =
            (count(|op| matches!(op, Op::Block | Op::Take)), count(|op| matches!(op, Op::SleepUntil(_))));
        let (fixed, wakes) =
            (count(|op| matches!(op, Op::SleepFor(_))), count(|op| matches!(op, Op::Wake(_) | Op::WakeAfter(..))));
        let clock = count(|op| matches!(op, Op::RunByClock(_)));
        writeln!(
            out,
            "{:16} {:7} {:?} cpus {} group {:?} costs {}/{}: work {} us, block {block} until {until} for {fixed} wakes {wakes} clock {clock}; felt {} us ran, {} us waited, longest {}, p99 {}, {} wakeups, {} switches",
            actor.comm,
            actor.tid,
            actor.placement.class,
            actor.placement.cpus,
            actor.placement.cgroup,
            actor.costs.sleep.0,
            actor.costs.wake.0,
            actor.work().0 / 1000,
            felt.ran.0 / 1000,
            felt.waited.0 / 1000,
            felt.longest.0 / 1000,
            felt.p99.0 / 1000,
            felt.wakeups,
            felt.switches,
        )?;
    }
    for inference in &extracted.extraction.inferences {
        writeln!(out, "inferred ({}, {:?}): {}", inference.observations, inference.by, inference.what)?;
    }
    for loss in &extracted.extraction.losses {
        writeln!(out, "loss {} ({:.2} %): {}", loss.count, loss.share * 100.0, loss.what)?;
    }
    if let Some(path) = arguments.next() {
        std::fs::write(path, serde_json::to_string(&extracted)?)?;
    }
    Ok(())
}
