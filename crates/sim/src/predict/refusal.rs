//! Why nothing is predicted: what an engine cannot know, and would decide.
//!
//! | what decides | known from | refused |
//! |---|---|---|
//! | the change itself | [`crate::CannotPlay`] | a person does it, it hits nobody, or it is not played |
//! | whether the engine gets the recording right | the unchanged replay | it is off by more than 12 % |
//! | chance | replicas with shifted timers | they differ by more than a factor of 2 |
//! | work that grows with waiting | the victim's runs after long and after short waits | runs after long waits are longer |
//! | the clock | runs that last until a time | the change hits such a thread |
//! | where threads move | threads that ran on several CPUs | they took part in the victim's waits |
//! | what was not recorded | losses | above 2 % of the wakeups |
//! | time in interrupts | the recording | above 20 % of the CPU time |

use serde::Serialize;
use unstarve_model::Nanos;

use super::{Metric, Subject};
use crate::extract::Extracted;
use crate::{Changed, Op};

/// Why nothing is predicted.
#[derive(Clone, PartialEq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Refusal {
    /// The change cannot be played.
    CannotPlay {
        /// Why.
        why: String,
    },
    /// The unchanged replay does not give what was recorded.
    NotReproduced {
        /// Of this metric.
        metric: Metric,
        /// As recorded.
        recorded: f64,
        /// As replayed.
        replayed: f64,
    },
    /// Replicas with shifted timers give different values.
    Unstable {
        /// Of this metric.
        metric: Metric,
        /// The least,
        low: f64,
        /// and the most.
        high: f64,
    },
    /// The victim's work grows while it waits: a backlog.
    GrowsWithWaiting {
        /// How many times as long its runs are after its longest waits.
        times: f64,
    },
    /// The change hits a thread that computes until a time.
    ByClock {
        /// Its name.
        comm: String,
    },
    /// Threads that compete with the victim move between CPUs.
    Moves {
        /// The one that ran most.
        comm: String,
    },
    /// The recording lacks too much.
    Losses {
        /// What it lacks.
        what: String,
        /// Its share.
        share: f64,
    },
    /// The victim did not run, so what it would do is unknown.
    NeverRan,
}

/// The shares above which a recording lacks too much.
const MOST_LOST: f64 = 0.02;
const MOST_IN_INTERRUPTS: f64 = 0.2;

/// Runs after long waits that are so many times as long as others are a backlog.
const BACKLOG: f64 = 1.5;
/// Fewer runs show no backlog.
const LEAST_RUNS: usize = 16;

/// What forbids an answer before anything is played.
pub(super) fn before(extracted: &Extracted, subject: &Subject, changed: &Changed) -> Vec<Refusal> {
    let losses = extracted
        .extraction
        .losses
        .iter()
        .filter(|loss| loss.share > if loss.is_of_interrupts { MOST_IN_INTERRUPTS } else { MOST_LOST });
    let mut refusals: Vec<Refusal> =
        losses.map(|loss| Refusal::Losses { what: loss.what.clone(), share: loss.share }).collect();
    let recorded = |actor: crate::ActorId| extracted.recorded.actors.get(actor.index()).copied().unwrap_or_default();
    if subject.actors.iter().all(|actor| recorded(*actor).ran == Nanos::ZERO) {
        refusals.push(Refusal::NeverRan);
    }
    let by_clock = changed.hit.iter().find(|actor| {
        let of = extracted.program.actor(**actor);
        of.ops.iter().any(|op| matches!(op, Op::RunByClock(_)))
    });
    if let Some(actor) = by_clock {
        refusals.push(Refusal::ByClock { comm: extracted.program.actor(*actor).comm.clone() });
    }
    let growths = subject.actors.iter().filter_map(|actor| extracted.growths.get(actor.index()).copied().flatten());
    if let Some(times) = growths.max_by(f64::total_cmp).filter(|times| *times >= BACKLOG) {
        refusals.push(Refusal::GrowsWithWaiting { times });
    }
    refusals
}

/// How many times as long a thread's runs are after its longest quarter of waits than after the shortest quarter; `None` for few
/// runs. `runs`: the wait before each run, and its CPU time.
pub(crate) fn growth(mut runs: Vec<(Nanos, Nanos)>) -> Option<f64> {
    if runs.len() < LEAST_RUNS {
        return None;
    }
    runs.sort_unstable();
    let quarter = runs.len() / 4;
    let mean = |of: &[(Nanos, Nanos)]| of.iter().map(|(_, ran)| ran.0 as f64).sum::<f64>() / of.len() as f64;
    let (short, long) = (mean(&runs[..quarter]), mean(&runs[runs.len() - quarter..]));
    // Waits that hardly differ say nothing of what a longer one would do.
    let differ = runs[runs.len() - 1].0.0 > 2 * runs[0].0.0.max(1);
    (differ && short > 0.0).then_some(long / short)
}
