use unstarve_kernel::Facts;
use unstarve_model::{CpuId, EventSource, LossKind, Nanos, Tid};

use crate::case::{Blame, Case};
use crate::draft::rows;
use crate::drive::{Driven, ExplainError, drive};
use crate::finding;
use crate::ledger::{Ledger, LongWait, Window};
use crate::report::{Finding, Report, SCHEMA, Severity, TraceSummary, WorstWait};

/// What to report of a trace. The whole trace is analysed in any case: who waits in the window may be held up by what
/// began before it.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Only findings in which this task waits or pays, and only its waits.
    pub task: Option<TaskFilter>,
    /// Only waits on this CPU.
    pub cpu: Option<CpuId>,
    /// Only waits that reach beyond this moment after the first event.
    pub from: Option<Nanos>,
    /// Only waits that begin before this moment after the first event.
    pub to: Option<Nanos>,
    /// Only findings at least this bad.
    pub min_severity: Option<Severity>,
}

/// Which task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TaskFilter {
    /// The thread of this id.
    Tid(Tid),
    /// All threads of this name.
    Comm(String),
}

impl TaskFilter {
    /// A number is a thread's id, everything else a name.
    pub fn parse(text: &str) -> TaskFilter {
        text.parse().map_or_else(|_| TaskFilter::Comm(text.to_owned()), |tid| TaskFilter::Tid(Tid(tid)))
    }

    fn matches(&self, comm: &str, tids: &[u32]) -> bool {
        match self {
            TaskFilter::Tid(tid) => tids.contains(&tid.0),
            TaskFilter::Comm(name) => name == comm,
        }
    }
}

/// Says who was starved in a trace, by whom, by which rule, at what price, and what to do.
///
/// `progress` is told the number of events analysed so far, now and then.
///
/// # Errors
/// [`ExplainError`] if there is nothing to analyse; damage in the middle is a loss in the report instead.
pub fn explain(
    source: Box<dyn EventSource>,
    options: &Options,
    progress: impl FnMut(u64),
) -> Result<Report, ExplainError> {
    let mut ledger =
        Ledger::new(Window { cpu: options.cpu, from: options.from, to: options.to, task: options.task.clone() });
    let driven = drive(source, &mut ledger, progress)?;
    let world = driven.timeline.world();
    let snapshot = driven.snapshot.as_deref();
    let release = snapshot.and_then(|snapshot| snapshot.kernel_release()).or(driven.info.kernel_release.as_deref());
    let facts = snapshot.map_or_else(|| Facts::of_release(release), Facts::of_host);
    let case = Case::new(&ledger, world, snapshot, facts, &driven.losses, driven.events);
    let mut findings = finding::find(&case);
    findings.retain(|finding| is_wanted(finding, options));
    Ok(Report {
        schema: SCHEMA.into(),
        trace: summary(&case, &driven, release),
        findings,
        worst_waits: ledger.longest.sorted().into_iter().map(|(_, wait)| worst_wait(&case, wait)).collect(),
        losses: driven.losses.iter().map(ToString::to_string).collect(),
    })
}

fn is_wanted(finding: &Finding, options: &Options) -> bool {
    let bad_enough = options.min_severity.is_none_or(|least| finding.severity >= least);
    let concerned = options.task.as_ref().is_none_or(|filter| {
        filter.matches(&finding.victim.comm, &finding.victim.tids)
            || finding.price.iter().any(|payer| filter.matches(&payer.comm, &payer.tids))
    });
    bad_enough && concerned
}

fn summary(case: &Case<'_>, driven: &Driven, release: Option<&str>) -> TraceSummary {
    let is_lost = |kind| matches!(kind, LossKind::LostEvents);
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
    }
}
