//! The whole analysis: from an event source to a report.

use unstarve_facts::Facts;
use unstarve_model::{EventSource, LossKind};
use unstarve_sched::Rule;
use unstarve_timeline::{Both, Selection, Sink};

use crate::case::{Blame, Case};
use crate::claim::Doubt;
use crate::data_quality;
use crate::draft::rows;
use crate::drive::{Driven, ExplainError, drive};
use crate::finding::{self, WEIGHT_STARVATION};
use crate::ledger::{Ledger, LongWait};
use crate::proofs::{self, Proofs};
use crate::report::{
    Finding, Missing, Open, Report, SCHEMA, Scope, Selected, Severity, TraceSummary, Verdict, WorstWait, verdict,
};
use crate::selected;

/// What to report of a trace. The whole trace is analysed in any case, because what delays a task in the selected time may have
/// begun earlier.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only waits of these tasks, on these CPUs, that overlap this time; only findings about one of these tasks
    /// ([`SelectedAs`](crate::report::SelectedAs)).
    pub selection: Selection,
    /// Only findings of at least this severity.
    pub min_severity: Option<Severity>,
    /// Whether lab results of remedies affect their order and selection.
    pub proofs: Proofs,
}

impl Options {
    /// The part of the recording that is reported.
    pub fn scope(&self) -> Scope {
        if self.selection == Selection::default() { Scope::Whole } else { Scope::Part }
    }

    /// Whether some of the time or some CPUs are selected.
    fn selects_spans(&self) -> bool {
        let Selection { tasks: _, cpus, from, to } = &self.selection;
        cpus.is_some() || from.is_some() || to.is_some()
    }
}

/// Explains which tasks were starved in a trace, by which culprits and rules, at what price, and what to do.
///
/// `progress` is called from time to time with the number of events analysed so far.
///
/// # Errors
/// [`ExplainError`] if there is nothing to analyse; damage in the middle is a loss in the report instead.
pub fn explain(
    source: Box<dyn EventSource>,
    options: &Options,
    progress: impl FnMut(u64),
) -> Result<Report, ExplainError> {
    Ok(explain_beside(source, options, &mut NoSink, progress)?.report)
}

struct NoSink;

impl Sink for NoSink {}

/// A trace that was explained, with another sink called in the same pass.
#[derive(Debug)]
pub struct Explained {
    /// The result of [`explain`].
    pub report: Report,
    /// The state at the end of the trace: its actors, names, snapshot and losses.
    pub driven: Driven,
}

/// Explains a trace and passes all callbacks to another sink in the same pass.
///
/// # Errors
/// As [`explain`].
pub fn explain_beside(
    source: Box<dyn EventSource>,
    options: &Options,
    beside: &mut impl Sink,
    progress: impl FnMut(u64),
) -> Result<Explained, ExplainError> {
    let mut ledger = Ledger::new(options.selection.clone());
    if !options.selects_spans() {
        let driven = drive(source, &mut Both(&mut ledger, beside), progress)?;
        ledger.settle(driven.timeline.world());
        return Ok(Explained { report: report(&ledger, None, &driven, options), driven });
    }
    let mut whole = Ledger::new(Selection::default());
    let driven = drive(source, &mut Both(&mut ledger, &mut Both(&mut whole, beside)), progress)?;
    ledger.settle(driven.timeline.world());
    whole.settle(driven.timeline.world());
    Ok(Explained { report: report(&ledger, Some(&whole), &driven, options), driven })
}

/// `whole`: of the whole recording, where `ledger` is of a part of its time or of some CPUs.
fn report(ledger: &Ledger, whole: Option<&Ledger>, driven: &Driven, options: &Options) -> Report {
    let world = driven.timeline.world();
    let snapshot = driven.snapshot.as_deref();
    let release = snapshot.and_then(|snapshot| snapshot.kernel_release()).or(driven.info.kernel_release.as_deref());
    let facts = || snapshot.map_or_else(|| Facts::of_release(release), Facts::of_host);
    let case_of = |ledger| {
        let case = Case::new(ledger, world, snapshot, facts(), &driven.losses, driven.events, &driven.info.format);
        case.on(driven.wall())
    };
    let case = case_of(ledger);
    // Without switches, no event shows the end of a wait: all waits would be invented.
    let has_waits = driven.switches > 0;
    let mut findings = valid_findings(&case, driven);
    let of_whole = whole.map(|whole| valid_findings(&case_of(whole), driven));
    if let Some(of_whole) = &of_whole {
        selected::add_from_whole(&case, &options.selection, of_whole, &mut findings);
    }
    let all =
        of_whole.unwrap_or_else(|| if options.selection.tasks.is_empty() { Vec::new() } else { findings.clone() });
    selected::about_tasks(&options.selection, &mut findings);
    findings.retain(|finding| options.min_severity.is_none_or(|least| finding.severity >= least));
    let more_findings = findings.len().saturating_sub(MAX_FINDINGS) as u64;
    findings.truncate(MAX_FINDINGS);
    if options.proofs == Proofs::Shipped {
        proofs::weigh(&mut findings, release, proofs::shipped());
    }
    let longest = if has_waits { ledger.longest.sorted() } else { Vec::new() };
    let is_part = options.scope() == Scope::Part;
    let mut report = Report {
        schema: SCHEMA.into(),
        trace: summary(&case, driven, release, &findings),
        verdict: Verdict::default(),
        selected: is_part.then(|| Selected::of(&case, &options.selection, &all, &findings)),
        findings,
        more_findings,
        worst_waits: longest.into_iter().map(|(_, wait)| worst_wait(&case, wait)).collect(),
        losses: driven.losses.iter().map(ToString::to_string).collect(),
        missing: driven.losses.iter().cloned().map(Missing::from).collect(),
        evidence: None,
    };
    report.verdict = verdict(&report, options.scope());
    report
}

/// The findings that the recording's losses permit.
fn valid_findings(case: &Case<'_>, driven: &Driven) -> Vec<Finding> {
    let mut findings = if driven.switches > 0 { finding::find(case) } else { Vec::new() };
    let unranked = driven.losses.iter().any(|loss| loss.kind == LossKind::NoPriorities);
    findings.retain(|finding| !(unranked && infers_weights(finding)));
    if data_quality::is_mostly_missing(driven) {
        findings.iter_mut().for_each(|finding| finding.severity = Severity::Info);
    }
    findings
}

/// Maximum findings of one report, worst first. A user can narrow the selection to see others.
const MAX_FINDINGS: usize = 64;

/// Whether the finding takes an occupant for a heavier task only because it got more than its share. If priorities were not
/// recorded, it may as well be a real-time task.
fn infers_weights(finding: &Finding) -> bool {
    finding.id == WEIGHT_STARVATION && finding.culprits.iter().any(|culprit| culprit.rule == Rule::Fair)
}

fn summary(case: &Case<'_>, driven: &Driven, release: Option<&str>, findings: &[Finding]) -> TraceSummary {
    let is_lost = |kind| matches!(kind, LossKind::LostEvents);
    let doubt = data_quality::too_little(case, driven, findings);
    TraceSummary {
        format: driven.info.format.clone(),
        events: driven.events,
        lost: driven.losses.iter().filter(|loss| is_lost(loss.kind)).map(|loss| loss.count).sum(),
        cpus: case.world.cpus,
        start_ns: case.world.start.0,
        end_ns: case.world.now.0,
        kernel: release.map(str::to_owned),
        snapshot: driven.snapshot.is_some(),
        waits_total_ns: case.ledger.waited.0,
        waits_count: case.ledger.waits,
        waits_unknown_ns: data_quality::unknown(case).0,
        rates_hold: matches!(doubt, Some(Doubt::Unexplained { .. })),
        too_little: doubt.map(|doubt| doubt.to_string()),
        invisible: data_quality::invisible(driven),
        uncounted_limit: data_quality::uncounted_limit(case),
        host: driven.host(),
        clock: driven.info.clock.clone(),
        clock_pairs: driven.wall().map(|wall| wall.pairs()).unwrap_or_default(),
        start_utc: case.utc(case.world.start),
        end_utc: case.utc(case.world.now),
        recorder_ns: case.observing().map(|took| took.0),
    }
}

fn worst_wait(case: &Case<'_>, wait: &LongWait) -> WorstWait {
    let blame =
        wait.pieces.iter().map(|piece| Blame { occupant: piece.occupant, rule: piece.rule, length: piece.length });
    WorstWait {
        comm: wait.comm.to_string(),
        tid: wait.tid.0,
        cpu: wait.spot.cpu.0,
        start_ns: wait.spot.start.0,
        end_ns: wait.spot.end.0,
        blame: rows(case, blame.collect()),
        start_utc: case.utc(wait.spot.start),
        tgid: case.process_of(wait.tid).map(|tgid| tgid.0),
        cgroup: case.cgroup_of(wait.tid),
        kernel_thread: wait.is_kernel,
        open: wait.open.map(|open| Open {
            proved_ns: open.proved.0,
            possible_ns: open.possible.0,
            end: open.end.word().to_owned(),
            holder: case.name(open.holder),
            rule: open.rule,
        }),
    }
}
