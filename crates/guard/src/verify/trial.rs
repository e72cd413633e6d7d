//! Tries a policy: measures waits without it, with it, and without it again, in a guard with all the usual safety limits.

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

/// What a trial leaves in place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Keep {
    /// Nothing.
    Nothing,
    /// The changes of rules that helped, and the policy's settings if any rule did; `guard undo` reverts them.
    WhatHelped,
}

/// Options of a trial.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// How long each of the three measurements takes.
    pub time: Duration,
    /// How often to look for new tasks.
    pub step: Duration,
    /// What to leave in place.
    pub keep: Keep,
}

/// The result of a trial.
#[derive(Debug)]
pub struct Outcome {
    /// The measurement without the policy.
    pub before: Measured,
    /// With the policy.
    pub with: Measured,
    /// Without it again.
    pub again: Measured,
    /// The verdict on each rule.
    pub judged: Vec<Judged>,
    /// What was reverted.
    pub undone: Undone,
}

/// There is no verdict. All changes were reverted, except as the error says.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TrialError {
    /// The guard failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// Tasks or schedstat cannot be read.
    #[error("the waits of tasks cannot be measured; everything was taken back")]
    Measure(#[source] io::Error),
    /// Ended by a signal.
    #[error("ended before there was a verdict; everything was taken back")]
    Ended,
    /// Some values could not be reverted.
    #[error("not everything could be taken back ({} values refused by the system); `unstarve guard undo` tries it again", undone.failed.len())]
    Left {
        /// What was and was not reverted.
        undone: Undone,
    },
    /// The policy has no rules.
    #[error("this policy has no [[rule]], and what is measured are the tasks of rules; nothing was changed")]
    NoRules,
}

/// Measures, carries out the policy while it measures again, reverts it, and measures a third time.
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

/// Measures in a thread of ordinary priority while the guard works.
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

/// The measuring thread. It is not joined when changes must be reverted first.
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
