//! Which sleeps and runs are by the clock.
//!
//! Where the recording has the timers ([`super::timers`]), they say what a sleeping thread had asked for. Elsewhere an interrupt's
//! wakeup says when a sleep ended, not whether the thread had asked for that time or for that length. A block device
//! answers, and a ticker ticks, a constant time after it was asked: where nearly all sleeps of a thread last equally long, they
//! are lengths. Many loads compute until a time: where a run that was preempted lasts as long by the clock as one that was not,
//! it is such a run.

use std::collections::BTreeMap;

use unstarve_model::Nanos;

use super::report::Inference;
use super::thread::{RawOp, RawRun, Sleep, Thread, WokenBy};
use super::timers::{Asked, Timers};

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

fn share_near(lengths: &[Nanos], share: f64, least: Nanos) -> Option<(Nanos, f64)> {
    let usual = median(lengths.to_vec())?;
    let near = lengths.iter().filter(|length| is_near(**length, usual, share, least)).count();
    Some((usual, near as f64 / lengths.len() as f64))
}

/// A kernel makes a time of the length that poll, select or a futex was given, and arms its timer for it at once.
const SAME_ASKED_SHARE: f64 = 0.001;
const SAME_ASKED: Nanos = Nanos(5_000);
/// Who asks for times a period apart adds the period to the last time, and is off by a rounding at most.
const SAME_PERIOD: Nanos = Nanos(100);

/// Takes from the timers what sleeps were asked for.
pub(super) fn timed_sleeps(threads: &mut [Thread], timers: &Timers) -> Vec<Inference> {
    let (mut lengths, mut times, mut others, mut made, mut makers) = (0, 0, 0, 0, 0);
    for thread in threads {
        let asked: Vec<(Nanos, i64)> = thread.ops.iter().filter_map(|(_, op)| time_asked(op)).collect();
        let makes_times = are_lengths(&asked);
        makers += usize::from(makes_times);
        for (_, op) in &mut thread.ops {
            let RawOp::Sleep(sleep) = op else { continue };
            let Some(WokenBy::Timer(asked)) = sleep.by else { continue };
            let count = match asked {
                Asked::Length => &mut lengths,
                Asked::Time { .. } if makes_times => &mut made,
                Asked::Time { .. } => &mut times,
                Asked::Nothing => &mut others,
            };
            *count += 1;
            sleep.is_length = asked == Asked::Length || makes_times && matches!(asked, Asked::Time { .. });
        }
    }
    let by_timer = Inference::seen(
        format!(
            "their timers say what {lengths} sleeps were asked for as a length, {times} as a time, and that {others} ended by a \
             timer that somebody else had armed"
        ),
        lengths + times + others,
    );
    let by_poll = Inference::guessed(
        format!("{makers} threads sleep until times that are always equally far away: they asked for a length"),
        made,
    );
    let rows = [(by_timer, timers.are_recorded || timers.has_timeouts), (by_poll, makers > 0)];
    rows.into_iter().filter(|(_, is_known)| *is_known).map(|(row, _)| row).collect()
}

/// The length that a sleep until a time was to have, and that time on the timer's own clock.
fn time_asked(op: &RawOp) -> Option<(Nanos, i64)> {
    match op {
        RawOp::Sleep(Sleep { by: Some(WokenBy::Timer(Asked::Time { armed, due, due_on_its_clock })), .. }) => {
            Some((due.since(*armed), *due_on_its_clock))
        }
        _ => None,
    }
}

/// Whether a thread that asked for times had lengths in mind: they are always equally far away, and no period apart.
fn are_lengths(asked: &[(Nanos, i64)]) -> bool {
    if asked.len() < LEAST_SLEEPS {
        return false;
    }
    let ahead: Vec<Nanos> = asked.iter().map(|(ahead, _)| *ahead).collect();
    // On the timer's own clock, where no interrupt's delay moves them.
    let steps: Vec<Nanos> = asked.windows(2).map(|pair| Nanos(pair[1].1.abs_diff(pair[0].1))).collect();
    let share = |of: &[Nanos], share, least| share_near(of, share, least).map_or(0.0, |(_, near)| near);
    share(&steps, 0.0, SAME_PERIOD) < NEARLY_ALL && share(&ahead, SAME_ASKED_SHARE, SAME_ASKED) >= NEARLY_ALL
}

/// Sleeps that an interrupt ended, of which no timer tells.
fn by_interrupt(thread: &Thread) -> impl Iterator<Item = Sleep> + '_ {
    thread.ops.iter().filter_map(|(_, op)| match op {
        RawOp::Sleep(sleep) if sleep.by == Some(WokenBy::Interrupt) => Some(*sleep),
        _ => None,
    })
}

/// Finds threads whose sleeps are lengths, where no timer tells.
pub(super) fn constant_sleeps(threads: &mut [Thread]) -> Inference {
    let (mut count, mut observations) = (0, 0);
    for thread in threads {
        let sleeps: Vec<Sleep> = by_interrupt(thread).collect();
        if sleeps.len() < LEAST_SLEEPS {
            continue;
        }
        let lengths: Vec<Nanos> = sleeps.iter().map(Sleep::length).collect();
        let gaps: Vec<Nanos> = sleeps.windows(2).map(|pair| pair[1].ended.since(pair[0].ended)).collect();
        let near = |lengths: &[Nanos]| share_near(lengths, SAME_SHARE, SAME);
        let (Some((usual, near)), Some((_, periodic))) = (near(&lengths), near(&gaps)) else { continue };
        // A period is not a length: what wakes at every millisecond sleeps less after longer work.
        if near < NEARLY_ALL || near < periodic {
            continue;
        }
        count += 1;
        observations += sleeps.len() as u64;
        for (_, op) in &mut thread.ops {
            if let RawOp::Sleep(sleep) = op
                && sleep.by == Some(WokenBy::Interrupt)
            {
                sleep.is_length = is_near(sleep.length(), usual, SAME_SHARE, SAME);
            }
        }
    }
    Inference::guessed(
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
    Inference::guessed(format!("computes until a time, and not for an amount of work: {who}"), observations)
}

/// What a run has to miss of the time that passed, to have lost the CPU.
fn shortfall(passed: Nanos) -> Nanos {
    Nanos((passed.0 * 3 / 100).max(5_000))
}
