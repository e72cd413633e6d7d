//! The tables of `unstarve lab`.

use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use unstarve_facts::LabComparison;

use crate::Look;
use crate::ink::{COMMAND, FAINT, Ink, PLAIN, STRONG};
use crate::text::{columns, counted};

/// Two lab results: their metrics over all seeds, then the page that compares the recordings of one.
pub fn labs_page(metrics: &impl Display, seed: u64, recordings: &str) -> String {
    format!("{metrics}\nRecordings of seed {seed}\n{recordings}")
}

/// A shipped scenario.
#[derive(Clone, Copy, Debug)]
pub struct ScenarioLine<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it shows.
    pub title: &'a str,
    /// The kernels it applies to; empty: all.
    pub kernels: &'a [String],
}

/// Formats all scenarios, one a line.
pub fn scenarios_page(scenarios: &[ScenarioLine<'_>]) -> String {
    let width = scenarios.iter().map(|line| line.name.len()).max().unwrap_or_default();
    let line = |line: &ScenarioLine<'_>| {
        let ScenarioLine { name, title, kernels } = line;
        let kernels = if kernels.is_empty() { String::new() } else { format!(" (kernels {})", kernels.join(" ")) };
        format!("{name:<width$}  {title}{kernels}\n")
    };
    scenarios.iter().map(line).collect()
}

/// A stored result.
#[derive(Clone, Copy, Debug)]
pub struct RunLine<'a> {
    /// The scenario's name.
    pub scenario: &'a str,
    /// The kernel's name.
    pub kernel: &'a str,
    /// Its files.
    pub directory: &'a Path,
    /// Their size.
    pub bytes: u64,
    /// The time since its last use.
    pub age: Duration,
}

/// Formats the stored results, and how much of `limit` bytes they take.
pub fn runs_page(runs: &[RunLine<'_>], limit: u64) -> String {
    let mut text = String::new();
    for RunLine { scenario, kernel, directory, bytes, age } in runs {
        let (bytes, age) = (mebibytes(*bytes), since(age.as_secs()));
        text += &format!("{scenario:<20} {kernel:<8} {bytes:>9} {age:>7}  {}\n", directory.display());
    }
    let bytes = runs.iter().map(|run| run.bytes).sum();
    text + &format!("{} results, {} of {}\n", runs.len(), mebibytes(bytes), mebibytes(limit))
}

/// `1.5 MiB`.
pub fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20))
}

/// `5 min`, for "ago".
fn since(seconds: u64) -> String {
    match seconds {
        0..3_600 => format!("{} min", seconds / 60),
        3_600..172_800 => format!("{} h", seconds / 3_600),
        _ => format!("{} d", seconds / 86_400),
    }
}

/// How many scenarios of the lab are shown.
const LAB_SCENARIOS: usize = 5;

/// What guests with both kernels showed.
pub(crate) fn lab_comparison(ink: &mut Ink, lab: &LabComparison, look: Look) {
    let LabComparison { from, to, scenarios, changed } = lab;
    let scenarios = counted(*scenarios as u64, "scenario");
    ink.blank();
    let heading = match changed.len() {
        0 => format!("In the lab, Debian's {from} and {to} say the same of {scenarios}"),
        some => format!("In the lab, Debian's {from} → {to}: {some} of {scenarios} change"),
    };
    ink.paragraph("", STRONG, &heading);
    for change in changed.iter().take(LAB_SCENARIOS) {
        ink.paragraph("  ", PLAIN, &format!("{}: {} → {}", change.scenario, change.from, change.to));
    }
    if changed.len() > LAB_SCENARIOS {
        ink.paragraph("  ", FAINT, &format!("and {} more: --json", changed.len() - LAB_SCENARIOS));
    }
    if let Some(first) = changed.first() {
        match columns(&first.command) + 2 <= look.width() {
            true => ink.line(&[(PLAIN, "  "), (COMMAND, &first.command)]),
            false => ink.paragraph("  ", COMMAND, &first.command),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_in_columns() {
        let kernels = ["6.1".to_owned(), "6.12".to_owned()];
        let scenarios = [
            ScenarioLine { name: "oplog", title: "A log behind a pool", kernels: &[] },
            ScenarioLine { name: "kubepods", title: "Pods", kernels: &kernels },
        ];
        insta::assert_snapshot!(scenarios_page(&scenarios), @r"
        oplog     A log behind a pool
        kubepods  Pods (kernels 6.1 6.12)
        ");
        let run = |bytes, seconds| RunLine {
            scenario: "oplog",
            kernel: "6.12",
            directory: Path::new("/cache/runs/oplog"),
            bytes,
            age: Duration::from_secs(seconds),
        };
        let runs = [run(1 << 20, 59), run(3 << 19, 7200), run(200 << 20, 200_000)];
        insta::assert_snapshot!(runs_page(&runs, 256 << 20), @r"
        oplog                6.12       1.0 MiB   0 min  /cache/runs/oplog
        oplog                6.12       1.5 MiB     2 h  /cache/runs/oplog
        oplog                6.12     200.0 MiB     2 d  /cache/runs/oplog
        3 results, 202.5 MiB of 256.0 MiB
        ");
    }
}
