//! A policy on trial: measured without it, with it, and without it again, by a guard that has the same rails as any other.

use std::io;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use rustc_hash::FxHashSet;

use super::{Judged, Measured, Span, Verdict, judge, watch};
use crate::policy::Policy;
use crate::run::{Guard, Options, Over, RunError};
use unstarve_executor::act::Undone;
use unstarve_executor::audit::Audit;

/// What a trial leaves behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// Nothing.
    Nothing,
    /// What the rules have set that helped, and the policy's settings if one did; `guard undo` takes it back.
    WhatHelped,
}

/// How to try a policy.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// How long each of the three measurements takes.
    pub time: Duration,
    /// How often new tasks are looked for meanwhile.
    pub step: Duration,
    /// What stays.
    pub keep: Keep,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Without the policy.
    pub before: Measured,
    /// With it.
    pub with: Measured,
    /// Without it again.
    pub again: Measured,
    /// For each rule.
    pub judged: Vec<Judged>,
    /// What was taken back.
    pub undone: Undone,
}

/// There is no verdict. Whatever was set was taken back, but for what is said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The guard.
    #[error(transparent)]
    Run(#[from] RunError),
    /// The tasks of this machine, or the kernel's sums.
    #[error("the waits of tasks cannot be measured; everything was taken back")]
    Measure(#[source] io::Error),
    /// By a signal.
    #[error("ended before there was a verdict; everything was taken back")]
    Ended,
    /// The system refused.
    #[error("not everything could be taken back ({} values refused by the system); `unstarve guard undo` tries it again", undone.failed.len())]
    Left {
        /// What.
        undone: Undone,
    },
    /// A policy without rules.
    #[error("this policy has no [[rule]], and what is measured are the tasks of rules; nothing was changed")]
    NoRules,
}

/// Measures, sets what the policy says while it measures again, takes it back, and measures once more.
///
/// # Errors
/// See [`TrialError`].
pub fn run(policy: Policy, options: Options, audit: Audit, trial: Trial) -> Result<Outcome, TrialError> {
    if policy.rules.is_empty() {
        return Err(TrialError::NoRules);
    }
    let measured = Arc::new(policy.clone());
    let mut guard = Guard::begin(policy, options, audit, "guard verify")?;
    let result = try_out(&mut guard, &measured, trial);
    let is_kept = matches!(&result, Ok((_, Kept::Something)));
    if is_kept {
        guard.leave();
    } else {
        let undone = guard.finish();
        if !undone.is_complete() {
            return Err(TrialError::Left { undone });
        }
    }
    result.map(|(outcome, _)| outcome)
}

/// Whether something was left in place.
enum Kept {
    Nothing,
    Something,
}

fn try_out(guard: &mut Guard, policy: &Arc<Policy>, trial: Trial) -> Result<(Outcome, Kept), TrialError> {
    guard.keeper().rest();
    let before = measure(guard, policy, trial)?;
    guard.first_look()?;
    let with = measure(guard, policy, trial)?;
    let undone = guard.rest()?;
    if !undone.is_complete() {
        return Err(TrialError::Left { undone });
    }
    let again = measure(guard, policy, trial)?;
    let of_rule = |rule: usize| match guard.keeper().tripped().contains(&rule) {
        true => Judged::over_budget(),
        false => judge(&before.rules[rule], &with.rules[rule], &again.rules[rule]),
    };
    let judged: Vec<Judged> = (0..policy.rules.len()).map(of_rule).collect();
    let helped: FxHashSet<usize> = (0..judged.len()).filter(|&rule| judged[rule].verdict == Verdict::Helped).collect();
    let mut kept = Kept::Nothing;
    if trial.keep == Keep::WhatHelped && !helped.is_empty() {
        guard.keeper().only(helped);
        guard.first_look()?;
        kept = Kept::Something;
    }
    Ok((Outcome { before, with, again, judged, undone }, kept))
}

/// Measures in a thread of ordinary priority while the guard does its work.
fn measure(guard: &mut Guard, policy: &Arc<Policy>, trial: Trial) -> Result<Measured, TrialError> {
    let (done, ours) = UnixStream::pair().map_err(TrialError::Measure)?;
    let stop = Arc::new(AtomicBool::new(false));
    let thread = {
        let (policy, stop) = (policy.clone(), stop.clone());
        std::thread::Builder::new().name("unstarve-meter".to_owned()).spawn(move || {
            let _closed_at_the_end = ours;
            watch(&policy, Span { time: trial.time, step: trial.step, stop: &stop })
        })
    };
    let mut meter = Meter { thread: Some(thread.map_err(TrialError::Measure)?), stop };
    match guard.turn(Some(&done))? {
        Over::Told => Err(TrialError::Ended),
        Over::Awaited => meter.result().map_err(TrialError::Measure),
    }
}

/// The thread, which is not waited for where something has to be taken back first.
struct Meter {
    thread: Option<JoinHandle<io::Result<Measured>>>,
    stop: Arc<AtomicBool>,
}

impl Meter {
    fn result(&mut self) -> io::Result<Measured> {
        let thread = self.thread.take().map(JoinHandle::join);
        thread.and_then(Result::ok).unwrap_or_else(|| Err(io::Error::other("the measuring thread ended early")))
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}
