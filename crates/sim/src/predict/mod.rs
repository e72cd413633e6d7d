//! What a change would do to everybody: with an interval, or a refusal with its reason.
//!
//! A program is played unchanged and changed, several times with shifted timers. What is predicted is the recorded value times
//! the ratio of the two, so that errors that both share cancel. The unchanged replay has to give what was recorded
//! ([`metric`]), the replicas have to agree, and nothing that an engine cannot know may decide ([`refusal`]).

mod everybody;
mod metric;
mod model;
mod refusal;
mod remedies;
mod report;

use std::collections::BTreeSet;

use serde::Serialize;
use unstarve_change::Change;
use unstarve_diagnose::report::{Finding, Report};
use unstarve_model::{Nanos, Tid};

pub use everybody::{Affected, SharesOfWaiting, Starved, waits_longer};
pub use metric::{Metric, MetricAnswer};
pub use model::{Model, ModelError};
pub use refusal::Refusal;
pub(crate) use refusal::growth;
pub use remedies::{Limit, RemedyPredictor};
pub use report::{ChangeReport, InferredReport, LossReport, Predictions, ReproducedReport, SubjectReport};

use crate::engine::SchedulerModel;
use crate::extract::Extracted;
use crate::{ActorId, Changed, Class, Felt, Program};
use metric::{HeldOut, Ratios, Unknown, Values};

/// On which kernel a changed program is played.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Where {
    ThisKernel,
    OtherKernel,
}

/// Plays programs.
pub trait Engine {
    /// Why it could not.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Plays a program; each replica shifts its timers in another way.
    ///
    /// # Errors
    /// If it cannot be played.
    fn play(&mut self, program: &Program, replica: u32) -> Result<Replayed, Self::Error>;

    /// How many replicas are worth their time.
    fn replicas(&self) -> u32;

    /// Settings of the whole kernel that a program sets and this engine does not have: with another value nothing would differ.
    fn without_effect(&self, program: &Program) -> Vec<String>;
}

/// What a replay gave.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Replayed {
    /// What each actor felt.
    pub felt: Felt,
    /// Who is starved in it, by the rules that judge recordings.
    pub starved: Vec<Starved>,
}

/// Whose waits are asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    /// Its name.
    pub name: String,
    /// Its threads.
    pub actors: BTreeSet<ActorId>,
}

impl Subject {
    /// A finding's victim.
    pub fn of(finding: &Finding, program: &Program) -> Subject {
        let tids: BTreeSet<u32> = finding.victim.tids.iter().copied().collect();
        let actors = program.actors().filter(|(_, actor)| tids.contains(&actor.tid.0)).map(|(id, _)| id).collect();
        Subject { name: finding.victim.comm.clone(), actors }
    }

    /// The same threads in a part of the recording: actors have other ids there.
    fn in_part(&self, whole: &Extracted, part: &Extracted) -> Subject {
        let tids: BTreeSet<Tid> = self.actors.iter().map(|id| whole.program.actor(*id).tid).collect();
        let actors = part.program.actors().filter(|(_, actor)| tids.contains(&actor.tid)).map(|(id, _)| id).collect();
        Subject { name: self.name.clone(), actors }
    }
}

/// What a change would do.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Prediction {
    /// It is known.
    Answered(Box<Answer>),
    /// It is not known, for these reasons.
    Refused(Vec<Refusal>),
}

/// What a change would do to everybody.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// To the thread that is asked for, the most telling metric first.
    pub metrics: Vec<MetricAnswer>,
    /// To others whose waits change enough to be felt, who loses most first.
    pub others: Vec<Affected>,
    /// Who would become starved, or be starved for far longer than now.
    pub newly_starved: Vec<Starved>,
}

impl Answer {
    /// The most telling metric.
    pub fn main(&self) -> Option<&MetricAnswer> {
        self.metrics.first()
    }
}

/// The unchanged replays of a program, and whether they are near the recording.
#[derive(Debug)]
pub struct Baseline<'a> {
    extracted: &'a Extracted,
    replays: Vec<Replayed>,
    /// What the program of the recording's first half gives.
    of_first_half: Vec<Felt>,
    /// Who is starved in the recording.
    starved: BTreeSet<String>,
}

/// A half needs fewer replicas: only its median is asked for.
const REPLICAS_FOR_ONE_OF_A_HALF: u32 = 4;

impl<'a> Baseline<'a> {
    /// Plays the program as it was recorded. `report`: who is starved in the recording.
    ///
    /// # Errors
    /// If it cannot be played.
    pub fn play<E: Engine>(
        engine: &mut E,
        extracted: &'a Extracted,
        report: &Report,
    ) -> Result<Baseline<'a>, E::Error> {
        let replicas = 0..engine.replicas().max(1);
        let replays = replicas.map(|replica| engine.play(&extracted.program, replica)).collect::<Result<_, _>>()?;
        let first_half = extracted.halves.as_deref().map(|[first, _]| &first.program);
        let replicas = 0..engine.replicas().div_ceil(REPLICAS_FOR_ONE_OF_A_HALF);
        let of_first_half = first_half
            .into_iter()
            .flat_map(|program| replicas.clone().map(move |replica| (program, replica)))
            .map(|(program, replica)| Ok(engine.play(program, replica)?.felt))
            .collect::<Result<_, _>>()?;
        let starved = report.findings.iter().map(|finding| finding.victim.comm.clone()).collect();
        Ok(Baseline { extracted, replays, of_first_half, starved })
    }

    /// The refusal of these changes where nothing needs to be played to know it.
    pub fn refused_unplayed(extracted: &Extracted, subject: &Subject, changes: &[Change]) -> Option<Prediction> {
        let refusals = match extracted.program.with(changes) {
            Ok(changed) => refusal::before(extracted, subject, &changed),
            Err(why) => vec![Refusal::CannotPlay { why: why.to_string() }],
        };
        (!refusals.is_empty()).then_some(Prediction::Refused(refusals))
    }

    /// What the unchanged replays gave.
    pub fn replays(&self) -> &[Replayed] {
        &self.replays
    }

    /// How near the unchanged replays come to the recording.
    pub fn reproduced(&self, subject: &Subject) -> Vec<ReproducedReport> {
        let telling = Metric::ALL.into_iter().filter(|metric| metric.tells(subject, self.extracted));
        telling
            .filter_map(|metric| {
                let values = self.values(metric, subject)?;
                let near = values.gate(metric).is_ok();
                let (recorded, replayed) = (values.recorded, values.replayed());
                let held_out = values.held_out;
                Some(ReproducedReport {
                    metric: metric.id().to_owned(),
                    recorded,
                    replayed,
                    near,
                    second_half: held_out.map(|of| of.recorded),
                    second_half_by_the_first: held_out.map(|of| of.played),
                })
            })
            .collect()
    }

    fn values(&self, metric: Metric, subject: &Subject) -> Option<Values> {
        let recorded = metric.of(subject, &self.extracted.recorded)?;
        let unchanged = self.replays.iter().map(|one| metric.of(subject, &one.felt)).collect::<Option<_>>()?;
        let program = &self.extracted.program;
        let unknown = Unknown {
            dispatch: program.dispatch,
            interrupt: program.longest_interrupt,
            interrupt_on_average: program.interrupt_wait,
            turn: Nanos::ZERO,
            limit: Nanos::ZERO,
        };
        Some(Values { recorded, unchanged, unknown, held_out: self.held_out(metric, subject) })
    }

    /// `None` where a half has too little of it, or a half does not tell it.
    fn held_out(&self, metric: Metric, subject: &Subject) -> Option<HeldOut> {
        let [first, second] = self.extracted.halves.as_deref()?;
        let [of_first, of_second] = [first, second].map(|half| subject.in_part(self.extracted, half));
        let halves = [(&of_first, first), (&of_second, second)];
        // Of two halves that are alike, one has the longest wait.
        if metric == Metric::Longest || !halves.iter().all(|(of, half)| metric.tells(of, half)) {
            return None;
        }
        let played: Vec<f64> =
            self.of_first_half.iter().map(|felt| metric.of(&of_first, felt)).collect::<Option<_>>()?;
        let recorded = metric.of(&of_second, &second.recorded)?;
        Some(HeldOut { played: metric::median(&played), recorded })
    }

    /// What these changes would do to `subject`, and to all others.
    ///
    /// # Errors
    /// If the changed program cannot be played.
    pub fn predict<E: Engine>(
        &self,
        engine: &mut E,
        subject: &Subject,
        changes: &[Change],
    ) -> Result<Prediction, E::Error> {
        match self.extracted.program.with(changes) {
            Ok(changed) => self.judge(engine, subject, &changed, Where::ThisKernel),
            Err(why) => Ok(Prediction::Refused(vec![Refusal::CannotPlay { why: why.to_string() }])),
        }
    }

    /// What another kernel would do, which `engine` plays, with these changes or with none. No more is known of that than the
    /// direction and bounds.
    ///
    /// # Errors
    /// If the program cannot be played.
    pub fn predict_on<E: Engine>(
        &self,
        engine: &mut E,
        subject: &Subject,
        changes: &[Change],
    ) -> Result<Prediction, E::Error> {
        let program = &self.extracted.program;
        let unchanged = || Changed { program: program.clone(), hit: program.actors().map(|(id, _)| id).collect() };
        match if changes.is_empty() { Ok(unchanged()) } else { program.with(changes) } {
            Ok(changed) => self.judge(engine, subject, &changed, Where::OtherKernel),
            Err(why) => Ok(Prediction::Refused(vec![Refusal::CannotPlay { why: why.to_string() }])),
        }
    }

    fn judge<E: Engine>(
        &self,
        engine: &mut E,
        subject: &Subject,
        changed: &Changed,
        place: Where,
    ) -> Result<Prediction, E::Error> {
        let before = refusal::before(self.extracted, subject, changed);
        if !before.is_empty() {
            return Ok(Prediction::Refused(before));
        }
        let metrics = self.metrics(subject);
        if metrics.iter().all(|(_, gate)| gate.is_err()) {
            let failed = metrics.into_iter().filter_map(|(_, gate)| gate.err());
            return Ok(Prediction::Refused(failed.take(1).collect()));
        }
        let known = engine.without_effect(&self.extracted.program);
        if let Some(knob) = engine.without_effect(&changed.program).into_iter().find(|knob| !known.contains(knob)) {
            return Ok(Prediction::Refused(vec![Refusal::NotModelled { knob }]));
        }
        let replays = match self.replay(engine, changed) {
            Ok(replays) => replays,
            Err(why) if place == Where::ThisKernel => {
                return Ok(Prediction::Refused(vec![Refusal::CannotPlay { why: why.to_string() }]));
            }
            Err(why) => return Err(why),
        };
        let (turn, limit) = (turn_of(subject, &changed.program), new_limit(&self.extracted.program, &changed.program));
        let mut answers = Vec::new();
        let mut refusals = Vec::new();
        for (metric, gate) in metrics {
            let values = match gate {
                Ok(values) => values,
                Err(refusal) => {
                    refusals.push(refusal);
                    continue;
                }
            };
            let after: Option<Vec<f64>> = replays.iter().map(|one| metric.of(subject, &one.felt)).collect();
            match after
                .and_then(|after| Ratios::of(&values, &after))
                .map(|ratios| ratios.answer(metric, &values, Unknown { turn, limit, ..values.unknown }, place))
            {
                Some(Ok(answer)) => answers.push(answer),
                Some(Err(refusal)) => refusals.push(refusal),
                None => {}
            }
        }
        // The price alone does not say whether it helps.
        let Some(wait) = answers.iter().find(|answer: &&MetricAnswer| answer.metric.is_wait()) else {
            return Ok(Prediction::Refused(refusals));
        };
        let is_gone = wait.is_nearly_none(self.extracted.program.dispatch);
        // Who does not wait has no reason to move.
        if let Some(moves) = refusal::victim_moves(self.extracted, subject, changed).filter(|_| !is_gone) {
            return Ok(Prediction::Refused(vec![moves]));
        }
        if let Some(backlog) = refusal::backlog(self.extracted, subject) {
            if !is_gone {
                return Ok(Prediction::Refused(vec![backlog]));
            }
            // What comes in other pieces costs otherwise.
            answers.retain(|answer| answer.metric.is_wait());
        }
        let answers = in_order(answers);
        let others = everybody::affected(self.extracted, subject, &self.replays, &replays);
        let newly_starved = everybody::newly_starved(self.extracted, subject, &self.starved, &self.replays, &replays);
        Ok(Prediction::Answered(Box::new(Answer { metrics: answers, others, newly_starved })))
    }

    fn replay<E: Engine>(&self, engine: &mut E, changed: &Changed) -> Result<Vec<Replayed>, E::Error> {
        (0..self.replays.len() as u32).map(|replica| engine.play(&changed.program, replica)).collect()
    }

    /// The metrics that tell something of this subject, each with its values, or why it cannot be predicted.
    fn metrics(&self, subject: &Subject) -> Vec<(Metric, Result<Values, Refusal>)> {
        let telling = Metric::ALL.into_iter().filter(|metric| metric.tells(subject, self.extracted));
        telling
            .filter_map(|metric| {
                let values = self.values(metric, subject)?;
                Some((metric, values.gate(metric).map(|()| values)))
            })
            .collect()
    }
}

/// How long the turn of a fair thread may be beside the subject: it may be fair after a change.
fn turn_of(subject: &Subject, program: &Program) -> Nanos {
    let is_fair = |actor: &ActorId| matches!(program.actor(*actor).placement.class, Class::Fair { .. });
    if subject.actors.iter().any(is_fair) { FAIR_TURN } else { Nanos::ZERO }
}

/// What a changed limit lets real-time threads run; zero where it limits them as before.
fn new_limit(before: &Program, after: &Program) -> Nanos {
    let models = [before, after].map(SchedulerModel::of_program);
    let of_length = after.length;
    match models {
        [Ok(before), Ok(after)] if !before.limits_real_time_as(&after) => {
            after.longest_real_time_turn().unwrap_or(of_length)
        }
        _ => Nanos::ZERO,
    }
}

/// `sched_latency_ns` of CFS with two CPUs; a slice of EEVDF and the tick that ends it are shorter.
const FAIR_TURN: Nanos = Nanos(12_000_000);

/// A percentile is not above the longest wait, and a mean not above both.
fn in_order(mut answers: Vec<MetricAnswer>) -> Vec<MetricAnswer> {
    let of = |answers: &[MetricAnswer], metric| answers.iter().find(|of| of.metric == metric).map(|of| of.predicted);
    for (smaller, larger) in
        [(Metric::WaitPerItem, Metric::P99), (Metric::P99, Metric::Longest), (Metric::WaitPerItem, Metric::Longest)]
    {
        let Some(least) = of(&answers, smaller) else { continue };
        for answer in answers.iter_mut().filter(|answer| answer.metric == larger) {
            answer.predicted = answer.predicted.max(least);
            answer.high = answer.high.max(least);
        }
    }
    answers
}
