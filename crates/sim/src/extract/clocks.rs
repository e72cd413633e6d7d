//! Which sleeps and runs are by the clock.
//!
//! A timer's wakeup says when a sleep ended, not whether the thread had asked for that time or for that length. A block device
//! answers, and a ticker ticks, a constant time after it was asked: where nearly all sleeps of a thread last equally long, they
//! are lengths. Many loads compute until a time: where a run that was preempted lasts as long by the clock as one that was not,
//! it is such a run.

use std::collections::BTreeMap;

use unstarve_model::Nanos;

use super::report::Inference;
use super::thread::{RawOp, RawRun, Sleep, Thread, WokenBy};

/// Fewer observations say nothing.
const LEAST_SLEEPS: usize = 5;
/// What two equal lengths may differ by: this share of the length, or this.
const SAME_SHARE: f64 = 0.05;
const SAME: Nanos = Nanos(60_000);
/// The share of sleeps that have to be equally long.
const NEARLY_ALL: f64 = 0.8;

fn is_near(length: Nanos, usual: Nanos, share: f64, least: Nanos) -> bool {
    let may_differ = (usual.0 as f64 * share).max(least.0 as f64);
    length.0.abs_diff(usual.0) as f64 <= may_differ
}

fn median(mut of: Vec<Nanos>) -> Option<Nanos> {
    of.sort_unstable();
    of.get(of.len() / 2).copied()
}

fn share_near(lengths: &[Nanos]) -> Option<(Nanos, f64)> {
    let usual = median(lengths.to_vec())?;
    let near = lengths.iter().filter(|length| is_near(**length, usual, SAME_SHARE, SAME)).count();
    Some((usual, near as f64 / lengths.len() as f64))
}

/// Sleeps that an interrupt or timer ended.
fn by_interrupt(thread: &Thread) -> impl Iterator<Item = Sleep> + '_ {
    thread.ops.iter().filter_map(|(_, op)| match op {
        RawOp::Sleep(sleep) if sleep.by == Some(WokenBy::Interrupt) => Some(*sleep),
        _ => None,
    })
}

/// Finds threads whose sleeps are lengths.
pub(super) fn constant_sleeps(threads: &mut [Thread]) -> Inference {
    let (mut count, mut observations) = (0, 0);
    for thread in threads {
        let sleeps: Vec<Sleep> = by_interrupt(thread).collect();
        if sleeps.len() < LEAST_SLEEPS {
            continue;
        }
        let lengths: Vec<Nanos> = sleeps.iter().map(Sleep::length).collect();
        let gaps: Vec<Nanos> = sleeps.windows(2).map(|pair| pair[1].ended.since(pair[0].ended)).collect();
        let (Some((usual, near)), Some((_, periodic))) = (share_near(&lengths), share_near(&gaps)) else { continue };
        // A period is not a length: what wakes at every millisecond sleeps less after longer work.
        if near < NEARLY_ALL || near < periodic {
            continue;
        }
        count += 1;
        observations += sleeps.len() as u64;
        for (_, op) in &mut thread.ops {
            if let RawOp::Sleep(sleep) = op {
                sleep.is_constant =
                    sleep.by == Some(WokenBy::Interrupt) && is_near(sleep.length(), usual, SAME_SHARE, SAME);
            }
        }
    }
    Inference::new(
        format!("{count} threads sleep for a constant time; the sleeps of others end at a time"),
        observations,
    )
}

/// Shorter runs are not told apart by the clock.
const LEAST_RUN: Nanos = Nanos(20_000);
const SAME_RUN_SHARE: f64 = 0.04;
const SAME_RUN: Nanos = Nanos(5_000);
/// Preempted runs of the usual length that prove it, and their share of all that were preempted.
const LEAST_PREEMPTED: usize = 4;
const MOST_PREEMPTED: f64 = 0.6;

/// Finds names whose runs last until a time.
pub(super) fn runs_by_the_clock(threads: &mut [Thread]) -> Inference {
    let mut by_name: BTreeMap<String, Vec<RawRun>> = BTreeMap::new();
    for thread in threads.iter() {
        let whole = thread.ops.iter().filter_map(|(_, op)| match op {
            RawOp::Run(run) if run.is_whole => Some(*run),
            _ => None,
        });
        by_name.entry(thread.comm()).or_default().extend(whole);
    }
    let mut observations = 0;
    let mut usual_of = BTreeMap::new();
    for (name, runs) in by_name {
        let Some(usual) = median(runs.iter().map(|run| run.passed).collect()).filter(|usual| *usual >= LEAST_RUN)
        else {
            continue;
        };
        let lost_time = |run: &&RawRun| run.was_preempted && run.cpu < run.passed.saturating_sub(shortfall(run.passed));
        let preempted: Vec<&RawRun> = runs.iter().filter(lost_time).collect();
        let same = preempted.iter().filter(|run| is_near(run.passed, usual, SAME_RUN_SHARE, SAME_RUN)).count();
        if same >= LEAST_PREEMPTED && same as f64 > MOST_PREEMPTED * preempted.len() as f64 {
            observations += same as u64;
            usual_of.insert(name, usual);
        }
    }
    for thread in threads.iter_mut() {
        let Some(usual) = usual_of.get(&thread.comm()) else { continue };
        for (_, op) in &mut thread.ops {
            if let RawOp::Run(run) = op {
                run.is_by_clock = run.is_whole && is_near(run.passed, *usual, SAME_RUN_SHARE, SAME_RUN);
            }
        }
    }
    let names: Vec<&str> = usual_of.keys().map(String::as_str).collect();
    let who = if names.is_empty() { "no thread".to_owned() } else { names.join(", ") };
    Inference::new(format!("computes until a time, and not for an amount of work: {who}"), observations)
}

/// What a run has to miss of the time that passed, to have lost the CPU.
fn shortfall(passed: Nanos) -> Nanos {
    Nanos((passed.0 * 3 / 100).max(5_000))
}
