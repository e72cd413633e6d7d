//! What a change would do to everybody: with an interval, or a refusal with its reason.
//!
//! A program is played unchanged and changed, several times with shifted timers. What is predicted is the recorded value times
//! the ratio of the two, so that errors that both share cancel. The unchanged replay has to give what was recorded
//! ([`metric`]), the replicas have to agree, and nothing that an engine cannot know may decide ([`refusal`]).

mod everybody;
mod metric;
mod refusal;

use std::collections::BTreeSet;

use serde::Serialize;
use unstarve_change::Change;

pub use everybody::{Affected, Starved};
pub use metric::{Metric, MetricAnswer};
pub use refusal::Refusal;
pub(crate) use refusal::growth;

use crate::extract::Extracted;
use crate::{ActorId, Changed, Felt, Program};
use metric::{Ratios, Values};

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
    /// Who would become starved, and is not now.
    pub newly_starved: Vec<Starved>,
}

impl Answer {
    /// The most telling metric.
    pub fn main(&self) -> Option<&MetricAnswer> {
        self.metrics.first()
    }

    /// Whether it helps the thread that is asked for and makes nobody else starved.
    pub fn is_good(&self) -> bool {
        self.newly_starved.is_empty() && self.main().is_some_and(|main| main.high < main.recorded)
    }
}

/// The unchanged replays of a program, and whether they are near the recording.
#[derive(Debug)]
pub struct Baseline<'a> {
    extracted: &'a Extracted,
    replays: Vec<Replayed>,
}

impl<'a> Baseline<'a> {
    /// Plays the program as it was recorded.
    ///
    /// # Errors
    /// If it cannot be played.
    pub fn play<E: Engine>(engine: &mut E, extracted: &'a Extracted) -> Result<Baseline<'a>, E::Error> {
        let replicas = 0..engine.replicas().max(1);
        let replays = replicas.map(|replica| engine.play(&extracted.program, replica)).collect::<Result<_, _>>()?;
        Ok(Baseline { extracted, replays })
    }

    /// What the unchanged replays gave.
    pub fn replays(&self) -> &[Replayed] {
        &self.replays
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
        let changed = match self.extracted.program.with(changes) {
            Ok(changed) => changed,
            Err(why) => return Ok(Prediction::Refused(vec![Refusal::CannotPlay { why: why.to_string() }])),
        };
        let before = refusal::before(self.extracted, subject, &changed);
        if !before.is_empty() {
            return Ok(Prediction::Refused(before));
        }
        let metrics = self.metrics(subject);
        if metrics.iter().all(|(_, gate)| gate.is_err()) {
            let failed = metrics.into_iter().filter_map(|(_, gate)| gate.err());
            return Ok(Prediction::Refused(failed.take(1).collect()));
        }
        let replays = self.replay(engine, &changed)?;
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
            match after.and_then(|after| Ratios::of(&values, &after)).map(|ratios| ratios.answer(metric, &values)) {
                Some(Ok(answer)) => answers.push(answer),
                Some(Err(refusal)) => refusals.push(refusal),
                None => {}
            }
        }
        if answers.is_empty() {
            return Ok(Prediction::Refused(refusals));
        }
        let others = everybody::affected(&self.extracted.program, subject, &self.replays, &replays);
        let newly_starved = everybody::newly_starved(&self.replays, &replays);
        Ok(Prediction::Answered(Box::new(Answer { metrics: answers, others, newly_starved })))
    }

    fn replay<E: Engine>(&self, engine: &mut E, changed: &Changed) -> Result<Vec<Replayed>, E::Error> {
        (0..self.replays.len() as u32).map(|replica| engine.play(&changed.program, replica)).collect()
    }

    /// The metrics that tell something of this subject, each with its values, or why it cannot be predicted.
    fn metrics(&self, subject: &Subject) -> Vec<(Metric, Result<Values, Refusal>)> {
        let recorded = &self.extracted.recorded;
        let telling = Metric::ALL.into_iter().filter(|metric| metric.tells(subject, recorded));
        telling
            .filter_map(|metric| {
                let recorded = metric.of(subject, recorded)?;
                let unchanged: Vec<f64> =
                    self.replays.iter().map(|one| metric.of(subject, &one.felt)).collect::<Option<_>>()?;
                let values = Values { recorded, unchanged };
                Some((metric, values.gate(metric).map(|()| values)))
            })
            .collect()
    }
}
