//! What is predicted, as JSON (schema `unstarve.predict/1`) and for pages.

use schemars::JsonSchema;
use serde::Serialize;
use unstarve_change::Change;
use unstarve_diagnose::report::{Outlook, Predicted, PredictedMetric, PredictedOther};
use unstarve_facts::LabComparison;

use super::{Affected, Answer, MetricAnswer, Prediction, Refusal, Starved};
use crate::extract::{Evidence, Extraction};

/// Everything that is predicted from a recording.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Predictions {
    /// `unstarve.predict/1`.
    pub schema: String,
    /// `uname -r` of the recorded kernel, if known.
    pub recorded_kernel: Option<String>,
    /// What played the program: `model`, or `lab` for guests with a real kernel.
    pub engine: String,
    /// The kernel that was played.
    pub played_kernel: String,
    /// How many replicas, each with its timers shifted in another way.
    pub replicas: u32,
    /// Whose waits are predicted, with each change.
    pub subjects: Vec<SubjectReport>,
    /// What guests with the recorded and the other kernel showed in the lab's scenarios of these findings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lab: Option<LabComparison>,
    /// What was inferred of the recording.
    pub inferred: Vec<InferredReport>,
    /// What the recording does not show.
    pub losses: Vec<LossReport>,
}

/// Whose waits are predicted.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SubjectReport {
    /// The finding that it is the victim of; absent for threads that were named, or waited longest where nobody is starved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finding: Option<String>,
    /// That finding's headline, or who it is.
    pub headline: String,
    /// Its name.
    pub victim: String,
    /// How near a replay without a change comes to the recording.
    pub reproduced: Vec<ReproducedReport>,
    /// What each change would do, the best first.
    pub changes: Vec<ChangeReport>,
}

/// A metric of the victim in a replay without a change.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ReproducedReport {
    /// Which, as in `metrics`.
    pub metric: String,
    /// As recorded.
    pub recorded: f64,
    /// As replayed: the median of the replicas.
    pub replayed: f64,
    /// Whether that is near enough to predict from, the replicas agree, and the first half of the recording tells the second.
    pub near: bool,
    /// As recorded in the second half alone; absent where a half has too little of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_half: Option<f64>,
    /// What a replay of the first half gives: it has no operation of the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub second_half_by_the_first: Option<f64>,
}

/// What a change would do.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ChangeReport {
    /// The remedy's id, or the change as it was typed.
    pub name: String,
    /// Its number among the finding's remedies, from 1; absent for a change that was typed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<u32>,
    /// What is changed.
    pub changes: Vec<Change>,
    /// What it would do.
    #[serde(flatten)]
    pub predicted: Predicted,
}

/// Something that was inferred of the recording.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct InferredReport {
    /// A sentence.
    pub what: String,
    /// From how many observations.
    pub observations: u64,
    /// Whether events show it, or it is what explains the recording best.
    pub by: Evidence,
}

/// Something that the recording does not show.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LossReport {
    /// A sentence.
    pub what: String,
    /// How many, or nanoseconds.
    pub count: u64,
    /// Its share.
    pub share: f64,
}

impl Predictions {
    /// The schema's id.
    pub const SCHEMA: &str = "unstarve.predict/1";

    /// What an extraction says, for a report.
    pub fn about(extraction: &Extraction) -> (Vec<InferredReport>, Vec<LossReport>) {
        let inferred = extraction.inferences.iter();
        let inferred =
            inferred.map(|one| InferredReport { what: one.what.clone(), observations: one.observations, by: one.by });
        let losses = extraction.losses.iter();
        let losses = losses.map(|loss| LossReport { what: loss.what.clone(), count: loss.count, share: loss.share });
        (inferred.collect(), losses.collect())
    }
}

impl ChangeReport {
    /// Of a prediction.
    pub fn of(name: String, remedy: Option<u32>, changes: Vec<Change>, prediction: &Prediction) -> ChangeReport {
        ChangeReport { name, remedy, changes, predicted: prediction.report() }
    }

    /// The better first: by verdict, then those under which nobody waits longer, then by how many times less is left of the main
    /// metric at most, then as `explain` has them.
    pub fn rank(&self) -> (Outlook, bool, i32, Option<u32>) {
        let main = self.predicted.metrics.first();
        let left = main.map_or(f64::MAX, |main| main.high / main.recorded.max(f64::MIN_POSITIVE));
        let has_losers = self.predicted.others.iter().any(|other| other.waited_after_ns > other.waited_before_ns);
        (self.predicted.verdict, has_losers, left.max(1e-9).log2().round() as i32, self.remedy)
    }
}

impl Prediction {
    /// For reports.
    pub fn report(&self) -> Predicted {
        let verdict = self.outlook();
        match self {
            Prediction::Answered(answer) => Predicted {
                verdict,
                metrics: answer.metrics.iter().map(metric_report).collect(),
                others: answer.others.iter().map(other_report).collect(),
                newly_starved: answer.newly_starved.iter().map(Starved::to_string).collect(),
                refused: Vec::new(),
            },
            Prediction::Refused(refusals) => Predicted {
                verdict,
                metrics: Vec::new(),
                others: Vec::new(),
                newly_starved: Vec::new(),
                refused: refusals.iter().map(Refusal::to_string).collect(),
            },
        }
    }

    fn outlook(&self) -> Outlook {
        let Prediction::Answered(answer) = self else { return Outlook::Refused };
        let Answer { newly_starved, .. } = answer.as_ref();
        match answer.main() {
            None => Outlook::Refused,
            Some(main) if main.low > main.recorded => Outlook::Harms,
            Some(main) if main.high >= main.recorded && newly_starved.is_empty() => Outlook::NoDifference,
            Some(main) if main.high >= main.recorded => Outlook::StarvesOthers,
            Some(_) if newly_starved.is_empty() => Outlook::Helps,
            Some(_) => Outlook::HelpsAndStarves,
        }
    }
}

fn metric_report(answer: &MetricAnswer) -> PredictedMetric {
    PredictedMetric {
        metric: answer.metric.id().to_owned(),
        name: answer.metric.word().to_owned(),
        unit: answer.metric.unit().to_owned(),
        recorded: answer.recorded,
        predicted: answer.predicted,
        low: answer.low,
        high: answer.high,
        came: None,
    }
}

fn other_report(of: &Affected) -> PredictedOther {
    PredictedOther {
        comm: of.comm.clone(),
        threads: of.threads as u32,
        waited_before_ns: of.waited_before.0,
        waited_after_ns: of.waited_after.0,
        longest_before_ns: of.longest_before.0,
        longest_after_ns: of.longest_after.0,
        ran_before_ns: of.ran_before.0,
        ran_after_ns: of.ran_after.0,
    }
}
