//! Why nothing is predicted: what an engine cannot know, and would decide.
//!
//! | what decides | known from | refused |
//! |---|---|---|
//! | the change itself | [`crate::CannotPlay`] | a person does it, it hits nobody, or it is not played |
//! | whether the engine gets the recording right | the unchanged replay | it is off by more than 12 % |
//! | chance | replicas with shifted timers | they differ by more than a factor of 2 |
//! | work that grows with waiting | the victim's runs after long and after short waits | runs after long waits are longer, and any wait would be left: without one each piece comes by itself |
//! | what interrupts leave to a thread | its name: ksoftirqd, a threaded handler | any wait would be left |
//! | who is changed | how long the changed threads live | a fifth of their CPU time is of threads that live for less than a fifth of the recording |
//! | the clock | runs that last until a time | the change hits such a thread |
//! | where threads move | the CPUs on which threads ran | the victim or a changed thread ran on several, or the victim on one of several |
//! | what was not recorded | losses | above 2 % of the wakeups |
//! | time in interrupts | the recording | above 40 % of the CPU time |

use std::fmt;

use serde::Serialize;
use unstarve_model::Nanos;
use unstarve_sched::KernelThread;

use super::{Metric, Subject};
use crate::extract::Extracted;
use crate::{ActorId, Changed, Op};

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
    /// A setting of the kernel that the engine does not have.
    NotModelled {
        /// Its name.
        knob: String,
    },
    /// The change names threads that live shortly: others take their place, without it.
    ShortLived {
        /// The name of one of them.
        comm: String,
    },
    /// The victim serves interrupts: what comes while it waits is added to its work, and dropped beyond a limit.
    ServesInterrupts,
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

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::CannotPlay { why } => write!(f, "{why}"),
            Refusal::NotReproduced { metric, recorded, replayed } => write!(
                f,
                "the replay without a change does not give what was recorded: {} {} instead of {}",
                metric.word(),
                metric.shown(*replayed),
                metric.shown(*recorded)
            ),
            Refusal::Unstable { metric, low, high } => write!(
                f,
                "it depends on chance: with timers shifted by up to 2 ms the {} is {} to {}",
                metric.word(),
                metric.shown(*low),
                metric.shown(*high)
            ),
            Refusal::GrowsWithWaiting { times } => write!(
                f,
                "its work grows while it waits: runs after its longest waits take {times:.1} times as long as after its shortest"
            ),
            Refusal::NotModelled { knob } => write!(f, "the model has no {knob}: with any value nothing would differ"),
            Refusal::ShortLived { comm } => {
                write!(f, "it names threads such as {comm} that live shortly: others take their place, without the change")
            }
            Refusal::ServesInterrupts => f.write_str(
                "its work is what interrupts leave to it: what comes while it waits is added, and dropped beyond a limit",
            ),
            Refusal::ByClock { comm } => {
                write!(f, "{comm} computes until a time, so with more CPU time it would do other work")
            }
            Refusal::Moves { comm } => {
                write!(f, "{comm} may use several CPUs, and on which it would run is not known")
            }
            Refusal::Losses { what, share } => {
                write!(f, "the recording lacks too much: {what} ({:.0} %)", share * 100.0)
            }
            Refusal::NeverRan => f.write_str("it never ran in the recording, so what it would do is not known"),
        }
    }
}

/// The shares above which a recording lacks too much.
const MOST_LOST: f64 = 0.02;
const MOST_IN_INTERRUPTS: f64 = 0.4;

/// Runs after long waits that are so many times as long as others are a backlog.
const BACKLOG: f64 = 2.0;
/// Where less than this part of the waits is left, how little it is is of no matter.
pub(super) const HARDLY_ANY: f64 = 0.1;
/// The part of the CPU time of changed threads that may be of short-lived ones.
const MOSTLY_SHORT: f64 = 0.2;
/// Fewer runs show no backlog.
const LEAST_RUNS: usize = 32;

/// What forbids an answer before anything is played.
pub(super) fn before(extracted: &Extracted, subject: &Subject, changed: &Changed) -> Vec<Refusal> {
    let losses = extracted
        .extraction
        .losses
        .iter()
        .filter(|loss| loss.share > if loss.is_of_interrupts { MOST_IN_INTERRUPTS } else { MOST_LOST });
    let mut refusals: Vec<Refusal> =
        losses.map(|loss| Refusal::Losses { what: loss.what.clone(), share: loss.share }).collect();
    let recorded = |actor: ActorId| extracted.recorded.actors.get(actor.index()).copied().unwrap_or_default();
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
    refusals.extend(short_lived(extracted, changed));
    refusals.extend(moves(extracted, subject, changed));
    refusals
}

/// A victim or changed thread that moves between CPUs, or a victim that could and did not: where it would run is not known.
fn moves(extracted: &Extracted, subject: &Subject, changed: &Changed) -> Option<Refusal> {
    let is = |flags: &[bool], actor: &ActorId| flags.get(actor.index()).copied().unwrap_or_default();
    let placed = |actor: &ActorId| {
        extracted.program.actor(*actor).placement.cpus != changed.program.actor(*actor).placement.cpus
    };
    let own = |actor: &&ActorId| extracted.program.actor(**actor).placement != changed.program.actor(**actor).placement;
    let of_subject = subject.actors.iter().filter(|actor| is(&extracted.moves, actor) || is(&extracted.kept, actor));
    let of_changed = changed.hit.iter().filter(own).filter(|actor| is(&extracted.moves, actor));
    let mover = of_subject.chain(of_changed).find(|actor| !placed(actor))?;
    Some(Refusal::Moves { comm: extracted.program.actor(*mover).comm.clone() })
}

/// Threads of their own settings that are changed, if a good part of their CPU time is that of threads that live shortly.
fn short_lived(extracted: &Extracted, changed: &Changed) -> Option<Refusal> {
    let before = &extracted.program.actors;
    let own = before.iter().zip(&changed.program.actors).map(|(was, is)| was.placement != is.placement);
    let hit: Vec<usize> = own.enumerate().filter(|(_, is_changed)| *is_changed).map(|(index, _)| index).collect();
    let ran = |index: &usize| extracted.recorded.actors.get(*index).map_or(Nanos::ZERO, |felt| felt.ran);
    let is_short = |index: &&usize| extracted.short_lived.get(**index).copied().unwrap_or_default();
    let all: Nanos = hit.iter().map(ran).sum();
    let short: Nanos = hit.iter().filter(is_short).map(ran).sum();
    let first = hit.iter().find(is_short)?;
    (short.share_of(all) >= MOSTLY_SHORT).then(|| Refusal::ShortLived { comm: before[*first].comm.clone() })
}

/// How many times as long the victim's runs are after long waits, if that is a backlog. A worker's items show it as it is.
pub(super) fn backlog(extracted: &Extracted, subject: &Subject) -> Option<Refusal> {
    let has_items = |actor: &ActorId| extracted.program.actor(*actor).ops.iter().any(|op| matches!(op, Op::Take));
    let serves_interrupts = |actor: &&ActorId| {
        let actor = extracted.program.actor(**actor);
        let kind = KernelThread::of(&actor.comm.as_str().into()).filter(|_| actor.is_kernel_thread);
        matches!(kind, Some(KernelThread::Ksoftirqd { .. } | KernelThread::Ktimers | KernelThread::IrqThread))
    };
    if subject.actors.iter().any(|actor| serves_interrupts(&actor)) {
        return Some(Refusal::ServesInterrupts);
    }
    let of = |actor: &ActorId| extracted.growths.get(actor.index()).copied().flatten();
    let growths = subject.actors.iter().filter(|actor| !has_items(actor)).filter_map(of);
    let times = growths.max_by(f64::total_cmp).filter(|times| *times >= BACKLOG)?;
    Some(Refusal::GrowsWithWaiting { times })
}

/// How many times as long a thread's runs are where it waited long: their mean, each weighted by the wait before it, by their
/// median. `None` for few runs. `runs`: the wait before each run, and its CPU time.
pub(crate) fn growth(runs: &[(Nanos, Nanos)]) -> Option<f64> {
    if runs.len() < LEAST_RUNS {
        return None;
    }
    let waited: f64 = runs.iter().map(|(wait, _)| wait.0 as f64).sum();
    let weighted: f64 = runs.iter().map(|(wait, ran)| wait.0 as f64 * ran.0 as f64).sum();
    let mut ran: Vec<u64> = runs.iter().map(|(_, ran)| ran.0).collect();
    let middle = ran.len() / 2;
    let usual = *ran.select_nth_unstable(middle).1 as f64;
    (waited > 0.0 && usual > 0.0).then(|| weighted / waited / usual)
}
