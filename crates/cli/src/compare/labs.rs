//! Compares two lab results: the metrics of all seeds, then the recordings of the first pair.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use unstarve_diagnose::compare::{Comparison, compare};
use unstarve_files::{Limit, read_text};
use unstarve_lab::compare::{Plan, of_outcomes};
use unstarve_lab::run::Outcome;
use unstarve_term::comparison_page;
use unstarve_term::lab::labs_page;
use unstarve_timeline::Selection;

use super::latency::LatencyLogs;
use super::{Form, read};
use crate::input::Recording;
use crate::output::Out;

/// Levels from a directory above `runs/SCENARIO/KERNEL/DIGEST` down to a run.
const RUN_DEPTH: usize = 3;
/// Maximum runs read for one side.
const MAX_RUNS_PER_SIDE: usize = 1000;

#[derive(Serialize)]
struct Labs {
    schema: &'static str,
    metrics: unstarve_lab::compare::Comparison,
    /// The findings of the first pair's recordings.
    recordings: Comparison,
}

pub fn run(a: &Path, b: &Path, form: &Form) -> Result<ExitCode> {
    let pairs = pairs(outcomes(a)?, outcomes(b)?, (a, b))?;
    let Some((first, second)) = pairs.first() else {
        bail!("{} and {} have no run in common", a.display(), b.display())
    };
    let scenario = &first.request.scenario;
    let names = (path_with_kernel(a, first), path_with_kernel(b, second));
    let metrics = of_outcomes(scenario, names, &pairs, Plan::default().matters);
    let trace = |outcome: &Outcome| Recording::new(outcome.directory.join("trace.dat"));
    let mut nothing = LatencyLogs::default();
    let recordings = compare(
        &read(&trace(first)?, &Selection::default(), &mut nothing)?,
        &read(&trace(second)?, &Selection::default(), &mut nothing)?,
    );
    let same = recordings.is_same() && !metrics.claims_a_difference();
    let text = match form {
        Form::Json => {
            serde_json::to_string_pretty(&Labs { schema: "unstarve.compare-labs/1", metrics, recordings })? + "\n"
        }
        Form::Page { look, extent } => {
            let seed = first.request.seed;
            labs_page(&metrics, seed, &comparison_page(&recordings, *extent, *look))
        }
    };
    Out::new().text(&text)?;
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::from(1) })
}

fn path_with_kernel(path: &Path, outcome: &Outcome) -> String {
    format!("{} ({})", path.display(), outcome.kernel_release)
}

/// All runs in a directory, by seed.
fn outcomes(directory: &Path) -> Result<Vec<Outcome>> {
    let mut files = Vec::new();
    find(directory, RUN_DEPTH, &mut files);
    if files.is_empty() {
        bail!("{}: there is no outcome.json in it; expected what `unstarve lab run` keeps", directory.display());
    }
    let mut all = files.iter().map(|file| outcome(file)).collect::<Result<Vec<Outcome>>>()?;
    all.sort_by_key(|outcome| outcome.request.seed);
    if let Some(twice) = all.windows(2).find(|pair| pair[0].request.seed == pair[1].request.seed) {
        bail!(
            "{}: there are several runs of seed {} in it, which differ in kernel, fault, remedy or settings: name the \
             directory of one, or keep each sort apart",
            directory.display(),
            twice[0].request.seed
        );
    }
    Ok(all)
}

fn find(directory: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    let file = directory.join("outcome.json");
    if file.is_file() {
        files.push(file);
    } else if depth > 0 && files.len() < MAX_RUNS_PER_SIDE {
        let mut below: Vec<PathBuf> =
            fs::read_dir(directory).into_iter().flatten().flatten().map(|e| e.path()).collect();
        below.sort();
        below.iter().filter(|path| path.is_dir()).for_each(|path| find(path, depth - 1, files));
    }
}

fn outcome(file: &Path) -> Result<Outcome> {
    let expected = "what `unstarve lab run` keeps";
    let text = read_text(file, Limit { bytes: 16 << 20, expected })?;
    let mut outcome: Outcome = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
    // The directory may have moved since the run.
    outcome.directory = file.parent().unwrap_or(Path::new(".")).to_owned();
    Ok(outcome)
}

/// Pairs runs of the same seed; two single runs are always a pair.
fn pairs(a: Vec<Outcome>, b: Vec<Outcome>, (of_a, of_b): (&Path, &Path)) -> Result<Vec<(Outcome, Outcome)>> {
    let scenario = |side: &[Outcome]| side.first().map(|outcome| outcome.request.scenario.name.clone());
    if scenario(&a) != scenario(&b) {
        bail!("{} and {} are of different scenarios, which have no metrics in common", of_a.display(), of_b.display());
    }
    if a.len() == 1 && b.len() == 1 {
        return Ok(a.into_iter().zip(b).collect());
    }
    let partner = |one: &Outcome| b.iter().find(|other| other.request.seed == one.request.seed).cloned();
    Ok(a.into_iter().filter_map(|one| partner(&one).map(|other| (one, other))).collect())
}
