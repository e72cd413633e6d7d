//! What came of a remedy that was tried, beside what was predicted: for the page.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use unstarve_diagnose::report::{FindingId, RemedyId, Report};
use unstarve_files::{Limit, read_text};

/// The part of what `fix --apply --verify --json` prints that is shown.
#[derive(Deserialize)]
struct Tried {
    schema: String,
    finding: Named<FindingId>,
    remedy: Named<RemedyId>,
    #[serde(default)]
    compared: Vec<Measured>,
}

#[derive(Deserialize)]
struct Named<Id> {
    id: Id,
}

#[derive(Deserialize)]
struct Measured {
    metric: String,
    measured: f64,
}

/// A plan of thousands of threads is smaller.
const TRIED_FIX_LIMIT: Limit = Limit { bytes: 16 << 20, expected: TRIED_FIX };
const TRIED_FIX: &str = "what `unstarve fix --apply --verify --json` prints";

/// Puts what came into a report's predictions.
pub fn add_what_came(report: &mut Report, file: &Path) -> Result<()> {
    let name = || file.display().to_string();
    add(report, &read_text(file, TRIED_FIX_LIMIT)?).with_context(name)
}

fn add(report: &mut Report, text: &str) -> Result<()> {
    let tried: Tried = serde_json::from_str(text).with_context(|| format!("expected {TRIED_FIX}"))?;
    ensure!(tried.schema == "unstarve.fix/1", "expected the schema unstarve.fix/1, found {}", tried.schema);
    ensure!(!tried.compared.is_empty(), "nothing was measured in it of what was predicted");
    let (finding, remedy) = (&tried.finding.id, &tried.remedy.id);
    let found = report.findings.iter_mut().filter(|of| of.id == *finding).flat_map(|of| &mut of.remedies);
    let Some(predicted) = found.filter(|of| of.id == *remedy).find_map(|of| of.predicted.as_mut()) else {
        bail!("nothing is predicted here of {remedy} for {finding}")
    };
    for measured in tried.compared.iter().filter(|of| of.measured.is_finite() && of.measured >= 0.0) {
        let metric = predicted.metrics.iter_mut().find(|of| of.metric == measured.metric);
        if let Some(metric) = metric {
            metric.came = Some(measured.measured);
        }
    }
    Ok(())
}
