//! Holds predictions against what came: each remedy of a faulty guest is predicted from that guest's recording alone, and then made
//! in a second guest.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use unstarve_diagnose::report::{Finding, Report, Severity};
use unstarve_diagnose::{Options, Proofs, explain_beside};
use unstarve_facts::Snapshot;
use unstarve_sched::KernelThread;
use unstarve_sim::predict::{
    Baseline, Engine, Metric, MetricAnswer, Prediction, SharesOfWaiting, Subject, waits_longer,
};
use unstarve_sim::{Actor, ActorFelt, ActorId, Extracted, Extractor, Program};

use crate::bench::{Bench, BenchError};
use crate::run::{Outcome, Request, Runner};
use crate::trial::Offer;

/// A metric of a victim under a remedy: as recorded, as predicted, and as it came.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictionRow {
    /// The scenario's name.
    pub scenario: String,
    /// The kernel's name in the store.
    pub kernel: String,
    /// The seed.
    pub seed: u64,
    /// The finding's id.
    pub finding: String,
    /// The victim's name.
    pub victim: String,
    /// The remedy's id.
    pub remedy: String,
    /// The metric's id.
    pub metric: &'static str,
    /// In the faulty guest.
    pub recorded: f64,
    /// In the unchanged replay.
    pub replayed: Option<f64>,
    /// Predicted, with its interval; `None` if refused.
    pub predicted: Option<(f64, f64, f64)>,
    /// The residual that would just have made the interval cover what came.
    pub residual: Option<f64>,
    /// If the culprits' part of the waits were gone, and nothing else were changed.
    pub dropped: Option<f64>,
    /// In the guest with the remedy; `None` if the victim has no such value there.
    pub actual: Option<f64>,
    /// Who was predicted to become starved, and who became so.
    pub newly_starved: [String; 2],
    /// Why it was refused.
    pub refused: String,
}

/// Saves rows as soon as they are known.
pub type SaveRows<'a> = dyn FnMut(&[PredictionRow]) -> io::Result<()> + 'a;

/// Why predictions could not be held against what came.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PredictionsError<E: std::error::Error> {
    /// A guest failed.
    #[error(transparent)]
    Bench(#[from] BenchError<E>),
    /// A guest's recording cannot be read, or gives no program.
    #[error("{what}: {source}")]
    Recording {
        /// Which.
        what: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The rows cannot be saved.
    #[error("cannot save the rows: {0}")]
    Save(#[from] io::Error),
}

/// Predicts every remedy that `explain` offers for a faulty guest, and then makes it.
///
/// # Errors
/// If a guest fails, or its recording gives no program, or rows cannot be saved.
pub fn hold_against<R: Runner, E: Engine>(
    bench: &mut Bench<'_, R>,
    request: &Request,
    engine_of: &mut dyn FnMut(&Outcome, Option<&Snapshot>) -> E,
    save: &mut SaveRows<'_>,
) -> Result<(), PredictionsError<R::Error>> {
    let faulty = Request { trial: Some(Vec::new()), ..request.clone() };
    let without = bench.run(&faulty)?;
    let Recorded { report, extracted, snapshot } = recorded(&without)?;
    let mut engine = engine_of(&without, snapshot.as_deref());
    let baseline = Baseline::play(&mut engine, &extracted, &report).map_err(failed(&without))?;
    for finding in report.findings.iter().filter(|finding| finding.severity >= Severity::Warning) {
        let subject = Subject::of(finding, &extracted.program);
        for remedy in &finding.remedies {
            let offer = Offer {
                finding: finding.id.clone(),
                victim: finding.victim.kind,
                remedy: remedy.id.clone(),
                changes: remedy.changes.clone(),
            };
            if offer.obstacle().is_some() {
                continue;
            }
            // Predicted before the remedied guest is run.
            let prediction = baseline.predict(&mut engine, &subject, &offer.changes).map_err(failed(&without))?;
            let with = bench.run(&Request {
                remedy: Some(remedy.id.to_string()),
                trial: Some(offer.changes.clone()),
                ..faulty.clone()
            })?;
            // A change that was not made shows nothing.
            if with.tried.as_ref().is_none_or(|tried| tried.shortfall().is_some()) {
                continue;
            }
            let came = Came::of(&with, &subject, &extracted.program)?;
            let row = |metric: Metric, recorded: f64| PredictionRow {
                scenario: request.scenario.name.clone(),
                kernel: request.kernel.clone(),
                seed: request.seed,
                finding: finding.id.to_string(),
                victim: subject.name.clone(),
                remedy: remedy.id.to_string(),
                metric: metric.id(),
                recorded,
                replayed: baseline
                    .reproduced(&subject)
                    .iter()
                    .find(|row| row.metric == metric.id())
                    .map(|row| row.replayed),
                predicted: answered(&prediction, metric).map(|of| (of.predicted, of.low, of.high)),
                residual: answered(&prediction, metric).zip(came.value(metric)).map(|(of, came)| of.residual_of(came)),
                dropped: metric.is_wait().then(|| recorded * (1.0 - share_of_culprits(finding))),
                actual: came.value(metric),
                newly_starved: [predicted_starved(&prediction), came.newly_starved(&report, &extracted)],
                refused: refused(&prediction, metric),
            };
            let recorded = |metric: Metric| Some((metric, metric.of(&subject, &extracted.recorded)?));
            let telling = Metric::ALL.into_iter().filter(|metric| metric.tells(&subject, &extracted));
            let rows: Vec<PredictionRow> =
                telling.filter_map(recorded).map(|(metric, recorded)| row(metric, recorded)).collect();
            save(&rows)?;
        }
    }
    Ok(())
}

fn failed<E: std::error::Error, S: std::error::Error + Send + Sync + 'static>(
    outcome: &Outcome,
) -> impl Fn(S) -> PredictionsError<E> + use<E, S> {
    let what = outcome.directory.display().to_string();
    move |source| PredictionsError::Recording { what: what.clone(), source: Box::new(source) }
}

/// What a guest's recording says.
struct Recorded {
    report: Report,
    extracted: Extracted,
    snapshot: Option<Arc<Snapshot>>,
}

fn recorded<E: std::error::Error>(outcome: &Outcome) -> Result<Recorded, PredictionsError<E>> {
    let mut extractor = Extractor::default();
    let options = Options { proofs: Proofs::PutAside, ..Options::default() };
    let source = unstarve_readers::open(&outcome.directory.join("trace.dat")).map_err(failed(outcome))?;
    let explained = explain_beside(source, &options, &mut extractor, |_| {}).map_err(failed(outcome))?;
    let (world, snapshot) = (explained.driven.timeline.world(), explained.driven.snapshot.as_deref());
    let extracted = extractor.finish(world, snapshot).map_err(failed(outcome))?;
    let snapshot = explained.driven.snapshot.clone();
    Ok(Recorded { report: explained.report, extracted, snapshot })
}

fn answered(prediction: &Prediction, metric: Metric) -> Option<&MetricAnswer> {
    let Prediction::Answered(answer) = prediction else { return None };
    answer.metrics.iter().find(|of| of.metric == metric)
}

fn predicted_starved(prediction: &Prediction) -> String {
    let Prediction::Answered(answer) = prediction else { return String::new() };
    answer.newly_starved.iter().map(|one| one.victim.clone()).collect::<Vec<_>>().join(", ")
}

fn refused(prediction: &Prediction, metric: Metric) -> String {
    match prediction {
        Prediction::Refused(refusals) => refusals.first().map(ToString::to_string).unwrap_or_default(),
        Prediction::Answered(_) if answered(prediction, metric).is_some() => String::new(),
        Prediction::Answered(_) => "this metric was not reproduced, or depends on chance".to_owned(),
    }
}

/// The part of the victim's waits in which a culprit had the CPU.
fn share_of_culprits(finding: &Finding) -> f64 {
    let of_culprits: u64 = finding.culprits.iter().map(|culprit| culprit.ns).sum();
    (of_culprits as f64 / finding.waits.total_ns.max(1) as f64).min(1.0)
}

/// What the victim felt in the guest with the remedy.
struct Came {
    subject: Subject,
    extracted: Extracted,
    report: Report,
}

impl Came {
    fn of<E: std::error::Error>(
        outcome: &Outcome,
        before: &Subject,
        program: &Program,
    ) -> Result<Came, PredictionsError<E>> {
        let Recorded { report, extracted, .. } = recorded(outcome)?;
        // Ids may differ from guest to guest.
        let names: BTreeSet<Likeness> = before.actors.iter().map(|id| Likeness::of(program.actor(*id))).collect();
        let alike = |(id, actor): (ActorId, &Actor)| names.contains(&Likeness::of(actor)).then_some(id);
        let actors = extracted.program.actors().filter_map(alike).collect();
        Ok(Came { subject: Subject { name: before.name.clone(), actors }, extracted, report })
    }

    /// Victims that the faulty guest had not, and who wait longer than there, and those that wait far longer.
    fn newly_starved(&self, report: &Report, before: &Extracted) -> String {
        let victims = |report: &Report| -> BTreeSet<String> {
            let starved = report.findings.iter().filter(|finding| finding.severity >= Severity::Warning);
            starved.map(|finding| finding.victim.comm.clone()).collect()
        };
        let (were, are) = (victims(report), victims(&self.report));
        let is_worse = |name: &&String| {
            let was_starved = were.contains(*name);
            let is_subject = **name == self.subject.name;
            !(was_starved && is_subject)
                && waits_longer(was_starved, waited_by(before, name), waited_by(&self.extracted, name))
        };
        are.iter().filter(is_worse).cloned().collect::<Vec<_>>().join(", ")
    }

    fn value(&self, metric: Metric) -> Option<f64> {
        metric.of(&self.subject, &self.extracted.recorded)
    }
}

/// How the threads of this name, or the workers of its pool, waited.
fn waited_by(of: &Extracted, name: &str) -> SharesOfWaiting {
    let threads = of.program.actors().filter(|(_, actor)| actor.comm == name);
    let meant: BTreeSet<Likeness> = threads.map(|(_, actor)| Likeness::of(actor)).collect();
    let alike = of.program.actors().filter(|(_, actor)| meant.contains(&Likeness::of(actor)));
    let felt: Vec<ActorFelt> = alike.map(|(id, _)| of.recorded.actors[id.index()]).collect();
    SharesOfWaiting::of(&felt, of.program.length)
}

/// What is the same of a thread in two guests.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    Name(String),
    /// Any worker of a CPU's pool may get its items.
    Pool {
        cpu: u32,
        is_high: bool,
    },
}

impl Likeness {
    fn of(actor: &Actor) -> Likeness {
        match KernelThread::of(&actor.comm.as_str().into()).filter(|_| actor.is_kernel_thread) {
            Some(KernelThread::BoundWorker { cpu, high }) => Likeness::Pool { cpu, is_high: high },
            _ => Likeness::Name(actor.comm.clone()),
        }
    }
}

impl PredictionRow {
    /// The names of the table's columns.
    pub const COLUMNS: &str = "scenario\tkernel\tseed\tfinding\tvictim\tremedy\tmetric\trecorded\treplayed\tpredicted\tlow\thigh\tresidual\tdropped\tactual\tstarves\tstarved\trefused";

    /// Its line in the table.
    pub fn line(&self) -> String {
        let number = |value: Option<f64>| value.map(|value| format!("{value:.3}")).unwrap_or_default();
        let parts = self.predicted;
        let clean = |text: &str| text.replace(['\t', '\n'], " ");
        [
            self.scenario.clone(),
            self.kernel.clone(),
            self.seed.to_string(),
            self.finding.clone(),
            clean(&self.victim),
            self.remedy.clone(),
            self.metric.to_owned(),
            number(Some(self.recorded)),
            number(self.replayed),
            number(parts.map(|parts| parts.0)),
            number(parts.map(|parts| parts.1)),
            number(parts.map(|parts| parts.2)),
            number(self.residual),
            number(self.dropped),
            number(self.actual),
            clean(&self.newly_starved[0]),
            clean(&self.newly_starved[1]),
            clean(&self.refused),
        ]
        .join("\t")
    }
}
