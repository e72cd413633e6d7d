//! A report whose remedies say what they would do in its recording, as far as that is cheap.

use unstarve_diagnose::report::{Finding, Predicted, Remedy, Report, Scope, verdict};
use unstarve_diagnose::{ExplainError, Explained, Options, explain_beside};
use unstarve_facts::Snapshot;
use unstarve_model::EventSource;
use unstarve_sim::predict::{Limit, RemedyPredictor, Subject};
use unstarve_sim::{Extracted, Extractor, NoProgram};
use unstarve_timeline::{Both, Sink};

/// What every command plays that explains: it decides the order of the remedies, which has to be the same in all.
const FOR_ORDER: Limit = Limit { steps: 500_000 };
/// What a page plays.
const FOR_PAGE: Limit = Limit { steps: 2_000_000 };
/// What the plan of one remedy plays.
const FOR_PLAN: Limit = Limit { steps: 3_200_000 };

/// With more operations nothing is played in time: eight replicas, without the change and with it.
pub const IN_EXPLAIN: usize = operations_within(FOR_ORDER);
/// The same for a page.
pub const IN_PAGE: usize = operations_within(FOR_PAGE);
/// The same for a plan.
pub const IN_PLAN: usize = operations_within(FOR_PLAN);

const fn operations_within(limit: Limit) -> usize {
    limit.steps as usize / 16
}

/// For a pass that only explains.
pub struct NoSink;

impl Sink for NoSink {}

/// Explains a recording, predicts what its remedies would do where that is cheap, and orders them by it. With the program of the
/// recording, if it has no more operations than `most`.
///
/// Of a part of a recording nothing is predicted: what its findings lack was starved before.
pub fn explain_and_predict(
    source: Box<dyn EventSource>,
    options: &Options,
    beside: &mut impl Sink,
    most: usize,
    tell: impl FnMut(u64),
) -> Result<(Explained, Result<Extracted, NoProgram>), ExplainError> {
    if options.scope() == Scope::Part {
        return Ok((explain_beside(source, options, beside, tell)?, Err(NoProgram::Nothing)));
    }
    let mut extractor = Extractor::up_to(most);
    let mut explained = explain_beside(source, options, &mut Both(beside, &mut extractor), tell)?;
    let (world, snapshot) = (explained.driven.timeline.world(), explained.driven.snapshot.as_deref());
    let extracted = extractor.finish(world, snapshot);
    if let Ok(extracted) = &extracted {
        predict(&mut explained.report, extracted, snapshot, FOR_ORDER);
        explained.report.findings.iter_mut().for_each(Finding::order_by_outlook);
        explained.report.verdict = verdict(&explained.report, options.scope());
    }
    Ok((explained, extracted))
}

/// Predicts more remedies of a report: as many as a page may take time for.
pub fn predict_for_page(report: &mut Report, extracted: &Extracted, snapshot: Option<&Snapshot>) {
    predict(report, extracted, snapshot, FOR_PAGE);
}

fn predict(report: &mut Report, extracted: &Extracted, snapshot: Option<&Snapshot>, limit: Limit) {
    if let Some(mut predictor) = RemedyPredictor::new(extracted, snapshot) {
        predictor.predict(report, limit);
    }
}

/// What a remedy would do, also where that takes longer than an explanation may; `None` where it takes longer than a plan may.
pub fn of_remedy(
    report: &Report,
    extracted: &Extracted,
    snapshot: Option<&Snapshot>,
    finding: &Finding,
    remedy: &Remedy,
) -> Option<Predicted> {
    if remedy.predicted.is_some() {
        return remedy.predicted.clone();
    }
    let subject = Subject::of(finding, &extracted.program);
    RemedyPredictor::new(extracted, snapshot)?.of_changes(report, &subject, &remedy.changes, FOR_PLAN)
}
