//! Predicts the remedies of a report, as far as a limit reaches.

use unstarve_change::Change;
use unstarve_diagnose::report::{Predicted, Report, Severity};
use unstarve_facts::Snapshot;

use super::{Baseline, Engine, Model, Subject};
use crate::extract::Extracted;

/// How much is played at most, in steps: operations and ticks of all CPUs, in all replicas.
///
/// Steps are counted, not seconds, so that a recording has the same answer on every machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limit {
    /// The most steps.
    pub steps: u64,
}

/// What is judged of a replay, whatever its length, takes as long as so many steps: the host's snapshot is read for it.
const STEPS_OF_JUDGING: u64 = 4_000;
/// The usual tick, for the limit alone.
const TICK_NS: u64 = 4_000_000;

/// Predicts what remedies would do, by the model of the recorded kernel.
#[derive(Debug)]
pub struct RemedyPredictor<'a> {
    extracted: &'a Extracted,
    engine: Model,
    /// The unchanged replays, once one is needed.
    baseline: Option<Baseline<'a>>,
    spent: u64,
}

impl<'a> RemedyPredictor<'a> {
    /// `None` where the recording does not name its kernel.
    pub fn new(extracted: &'a Extracted, snapshot: Option<&Snapshot>) -> Option<RemedyPredictor<'a>> {
        let engine = Model { release: extracted.program.kernel.clone()?, snapshot: snapshot.cloned() };
        Some(RemedyPredictor { extracted, engine, baseline: None, spent: 0 })
    }

    /// Predicts the remedies of warnings and critical findings that are not predicted yet, the worst finding first, until the next
    /// one would exceed `limit`, which counts what was played before.
    pub fn predict(&mut self, report: &mut Report, limit: Limit) {
        for index in 0..report.findings.len() {
            let finding = &report.findings[index];
            if finding.severity < Severity::Warning {
                continue;
            }
            let subject = Subject::of(finding, &self.extracted.program);
            for place in 0..finding.remedies.len() {
                let remedy = &report.findings[index].remedies[place];
                if remedy.predicted.is_some() {
                    continue;
                }
                let Some(predicted) = self.of_changes(report, &subject, &remedy.changes, limit) else { return };
                report.findings[index].remedies[place].predicted = Some(predicted);
            }
        }
    }

    /// What these changes would do; `None` if that would exceed the limit, or the model cannot play the recording.
    pub fn of_changes(
        &mut self,
        report: &Report,
        subject: &Subject,
        changes: &[Change],
        limit: Limit,
    ) -> Option<Predicted> {
        if let Some(refused) = Baseline::refused_unplayed(self.extracted, subject, changes) {
            return Some(refused.report());
        }
        let replays = if self.baseline.is_some() { 1 } else { 2 };
        let spent = self.spent.saturating_add(replays * self.steps_of_a_replay());
        if spent > limit.steps {
            return None;
        }
        self.spent = spent;
        if self.baseline.is_none() {
            self.baseline = Some(Baseline::play(&mut self.engine, self.extracted, report).ok()?);
        }
        let prediction = self.baseline.as_ref()?.predict(&mut self.engine, subject, changes).ok()?;
        Some(prediction.report())
    }

    /// Of all replicas.
    fn steps_of_a_replay(&self) -> u64 {
        let program = &self.extracted.program;
        let ticks = (program.length.0 / TICK_NS).saturating_mul(program.cpus.len() as u64);
        let steps = (program.operations() as u64).saturating_add(ticks).saturating_add(STEPS_OF_JUDGING);
        steps.saturating_mul(self.engine.replicas().into())
    }
}
