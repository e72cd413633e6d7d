//! Why nothing is predicted: what an engine cannot know, and would decide.
//!
//! | what decides | known from | refused |
//! |---|---|---|
//! | the change itself | [`crate::CannotPlay`] | a person does it, it hits nobody, or it is not played |
//! | whether the engine gets the recording right | the unchanged replay | it is off by more than 12 % |
//! | chance | replicas with shifted timers | they differ by more than a factor of 2 |
//! | whether the host goes on as it was | the program of the recording's first half, played, and its second half | they differ by more than a factor of 2 |
//! | work that grows with waiting | the victim's runs after long and after short waits | runs after long waits are longer, and any wait would be left: without one each piece comes by itself |
//! | what interrupts leave to a thread | its name: ksoftirqd, a threaded handler | any wait would be left |
//! | who is changed | how long the changed threads live | a fifth of their CPU time is of threads that live for less than a fifth of the recording |
//! | the clock | runs that last until a time | the change hits such a thread |
//! | what undoes the change | priorities in the recording | a changed thread's own changed three times or more |
//! | where threads move | the CPUs on which threads ran, and may run | another changed thread ran on several; or the victim may use several, and any wait would be left |
//! | what was not recorded, or is played otherwise | losses | above 2 % of the wakeups, or of the CPU time |
//! | time in interrupts | the recording | above 40 % of the CPU time |

use std::fmt;

use serde::Serialize;
use unstarve_model::Nanos;
use unstarve_sched::KernelThread;

use super::{Metric, Subject};
use crate::extract::Extracted;
use crate::{ActorId, Changed, Op, Program};

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
    /// The program of the recording's first half does not give what the second half has.
    HalvesDiffer {
        /// Of this metric.
        metric: Metric,
        /// As replayed from the first half.
        played: f64,
        /// As recorded in the second half.
        recorded: f64,
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
    /// A changed thread's priority changed again and again while it was recorded.
    SetsItself {
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
            Refusal::HalvesDiffer { metric, played, recorded } => write!(
                f,
                "the recording's first half does not tell its second: the {} is {} by a replay of the first half, and {} in the second",
                metric.word(),
                metric.shown(*played),
                metric.shown(*recorded)
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
            Refusal::SetsItself { comm } => {
                write!(f, "the priority of {comm} changed again and again in the recording: what sets it would undo the change")
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
    refusals.extend(sets_itself(extracted, changed));
    refusals.extend(moves(extracted, subject, changed));
    refusals
}

/// Another changed thread that moves between CPUs: nobody knows on which CPU it would run, and whom it would keep waiting there.
fn moves(extracted: &Extracted, subject: &Subject, changed: &Changed) -> Option<Refusal> {
    let others = own_of(extracted, changed).filter(|actor| !subject.actors.contains(actor));
    let mut movers = others.filter(|actor| is(&extracted.moves, *actor));
    movers.find(|actor| !is_placed(extracted, changed, *actor)).map(|actor| moved(extracted, actor))
}

/// A victim that moved, or could have moved: where it would wait is not known.
pub(super) fn victim_moves(extracted: &Extracted, subject: &Subject, changed: &Changed) -> Option<Refusal> {
    let may_move = |actor: &ActorId| is(&extracted.moves, *actor) || is(&extracted.kept, *actor);
    let mut movers = subject.actors.iter().copied().filter(may_move);
    movers.find(|actor| !is_placed(extracted, changed, *actor)).map(|actor| moved(extracted, actor))
}

fn moved(extracted: &Extracted, actor: ActorId) -> Refusal {
    Refusal::Moves { comm: extracted.program.actor(actor).comm.clone() }
}

fn is(flags: &[bool], actor: ActorId) -> bool {
    flags.get(actor.index()).copied().unwrap_or_default()
}

/// Whether the change says on which CPUs it runs.
fn is_placed(extracted: &Extracted, changed: &Changed, actor: ActorId) -> bool {
    extracted.program.actor(actor).placement.cpus != changed.program.actor(actor).placement.cpus
}

/// The threads whose own settings are changed, and not those of their group.
fn own_of<'a>(extracted: &'a Extracted, changed: &'a Changed) -> impl Iterator<Item = ActorId> + 'a {
    let placement = |program: &'a Program, actor: ActorId| &program.actor(actor).placement;
    changed
        .hit
        .iter()
        .copied()
        .filter(move |actor| placement(&extracted.program, *actor) != placement(&changed.program, *actor))
}

/// A changed thread that sets its priority itself, again and again: that undoes the change.
fn sets_itself(extracted: &Extracted, changed: &Changed) -> Option<Refusal> {
    let class = |program: &Program, actor: ActorId| program.actor(actor).placement.class;
    own_of(extracted, changed)
        .filter(|actor| class(&extracted.program, *actor) != class(&changed.program, *actor))
        .find(|actor| is(&extracted.sets_itself, *actor))
        .map(|actor| Refusal::SetsItself { comm: extracted.program.actor(actor).comm.clone() })
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
