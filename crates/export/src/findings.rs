//! Rows of the findings table.

use unstarve_diagnose::report::{Finding, Report};
use unstarve_tables::{Cell, Rows};

use crate::ExportError;
use crate::origin::Origin;

/// How many threads of a victim are listed.
const MAX_TIDS: usize = 16;

/// Writes the row of one finding.
pub(crate) fn write_finding(
    rows: &mut dyn Rows,
    finding: &Finding,
    report: &Report,
    origin: &Origin,
) -> Result<(), ExportError> {
    let victim = &finding.victim;
    let tids = victim.tids.iter().take(MAX_TIDS).map(u32::to_string).collect::<Vec<_>>().join(" ");
    let cgroups = victim.cgroups.join(",");
    let culprit = finding.culprits.first();
    let price: u64 = finding.price.iter().map(|price| price.ns).sum();
    let policy = victim.policy.map(|policy| policy.to_string());
    let cells = [
        Cell::Text(finding.id.as_str()),
        Cell::Text(finding.severity.word()),
        Cell::Real(finding.confidence),
        Cell::Text(&finding.sentence),
        Cell::Text(&victim.comm),
        Cell::Text(victim.kind.word()),
        Cell::text(policy.as_deref()),
        Cell::number(victim.prio),
        victim.tasks.into(),
        Cell::Text(&tids),
        Cell::Text(&cgroups),
        Cell::text(victim.work.as_ref().map(|work| work.function.as_str())),
        Cell::text(culprit.map(|culprit| culprit.comm.as_str())),
        Cell::text(culprit.map(|culprit| culprit.rule.word())),
        Cell::number(culprit.map(|culprit| culprit.ns)),
        finding.waits.count.into(),
        finding.waits.total_ns.into(),
        finding.waits.max_ns.into(),
        price.into(),
        Cell::number(finding.period_ns),
        Cell::text(finding.remedies.first().map(|remedy| remedy.id.as_str())),
    ];
    let kernel = [Cell::text(report.trace.kernel.as_deref())];
    rows.row(&[&cells[..], &origin.cells(origin.begun), &kernel].concat())
}
