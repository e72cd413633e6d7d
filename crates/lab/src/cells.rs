//! Stores the guests' results for each row of the table of proofs as JSON: an interrupted proof continues with the next
//! row, and the table can be rebuilt from the files without guests.

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use unstarve_diagnose::proofs::{Answer, Proof, series};
use unstarve_diagnose::report::{FindingId, RemedyId, VictimKind};
use unstarve_files::Limit;

use crate::compare::{Comparison, of_outcomes};
use crate::json_directory::JsonDirectory;
use crate::prove::{self, answer};
use crate::run::Outcome;
use crate::stats::Verdict;

/// The size limit of a cell: a few outcomes.
const CELL_LIMIT: Limit =
    Limit { bytes: 16 << 20, expected: "a cell of proofs, as `unstarve lab prove --all --cells` writes it" };

/// One remedy in one scenario on one kernel: what the guests measured without it and with it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The remedy's id.
    pub remedy: RemedyId,
    /// The findings and victims that the same changes were offered for.
    pub about: Vec<CellSubject>,
    /// Outcomes without any remedy, one for each seed.
    pub without: Vec<Outcome>,
    /// Outcomes with it; `None` if the report of that seed does not offer it.
    pub with: Vec<Option<Outcome>>,
    /// The versions that it was made with.
    pub made: CellOrigin,
}

/// The finding and victim that a remedy was offered for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellSubject {
    /// The finding's id.
    pub finding: FindingId,
    /// The kind of its victim, as `victim.kind` of the report.
    pub victim: VictimKind,
}

/// The versions that a cell was made with.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellOrigin {
    /// The kernel's package and its version.
    pub package: String,
    /// The version and commit of unstarve.
    pub unstarve: String,
    /// The day.
    pub date: String,
}

impl Cell {
    /// Its rows in the table: one for each kind of finding and victim.
    pub fn proofs(&self, matters: f64) -> Vec<Proof> {
        let Some(first) = self.without.first() else { return Vec::new() };
        let scenario = &first.request.scenario;
        let pairs: Vec<(Outcome, Outcome)> =
            self.without.iter().zip(&self.with).filter_map(|(a, b)| Some((a.clone(), b.clone()?))).collect();
        let effect = of_outcomes(scenario, ("without".to_owned(), "with".to_owned()), &pairs, matters);
        let answer = answer_of(&pairs, &effect, &self.drift(matters));
        let main = effect.main();
        let contrast = main.map(|row| &row.contrast);
        let costs = effect.rows.iter().filter(|row| row.contrast.verdict == Verdict::Worse);
        let costs: Vec<String> = costs.map(|row| row.metric.clone()).collect();
        let release = &first.kernel_release;
        let proof = |about: &CellSubject| Proof {
            remedy: self.remedy.clone(),
            finding: about.finding.clone(),
            victim: about.victim,
            scenario: scenario.name.clone(),
            kernel: series(release).unwrap_or_else(|| release.clone()),
            answer,
            metric: main.map(|row| row.metric.clone()).unwrap_or_default(),
            effect: contrast.and_then(|contrast| contrast.relative),
            low: contrast.and_then(|contrast| contrast.interval).map(|(low, _)| low),
            high: contrast.and_then(|contrast| contrast.interval).map(|(_, high)| high),
            seeds: effect.pairs,
            costs: costs.clone(),
            release: release.clone(),
            package: self.made.package.clone(),
            unstarve: self.made.unstarve.clone(),
            date: self.made.date.clone(),
            note: self.note(&pairs),
        };
        self.about.iter().map(proof).collect()
    }

    /// Compares runs without a remedy among each other: what differs although nothing changed.
    fn drift(&self, matters: f64) -> Comparison {
        let neighbours = self.without.iter().zip(self.without.iter().cycle().skip(1));
        let pairs: Vec<(Outcome, Outcome)> = neighbours.map(|(one, next)| (one.clone(), next.clone())).collect();
        let names = ("without".to_owned(), "without, next seed".to_owned());
        of_outcomes(&self.without[0].request.scenario, names, &pairs, matters)
    }

    /// Notes on how the changes were made.
    fn note(&self, pairs: &[(Outcome, Outcome)]) -> String {
        let tried = || pairs.iter().filter_map(|(_, with)| with.tried.as_ref());
        let by_name: usize = tried().map(|tried| tried.by_name()).sum();
        let shortfall = tried().find_map(|tried| tried.shortfall());
        let left = tried().flat_map(|tried| &tried.not_taken_back).next();
        let seeds = self.without.len();
        let parts = [
            (pairs.len() < seeds).then(|| format!("offered with {} of {seeds} seeds", pairs.len())),
            (by_name > 0).then(|| format!("{by_name} threads found by name, not by number")),
            shortfall,
            left.map(|left| format!("not taken back: {left}")),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}

fn answer_of(pairs: &[(Outcome, Outcome)], effect: &Comparison, drift: &Comparison) -> Answer {
    let changed = |(_, with): &(Outcome, Outcome)| with.tried.as_ref().is_some_and(|tried| tried.changed_anything());
    if !pairs.iter().any(changed) {
        return Answer::NotMade;
    }
    // A remedy that was applied in part and did nothing might help as a whole.
    let is_whole = pairs.iter().all(|(_, with)| with.tried.as_ref().is_some_and(|tried| tried.shortfall().is_none()));
    match answer(effect, drift) {
        prove::Answer::Helped => Answer::Helped,
        prove::Answer::Harmed => Answer::Harmed,
        prove::Answer::DidNothing if is_whole => Answer::NoDifference,
        prove::Answer::DidNothing | prove::Answer::NotShown => Answer::NotShown,
    }
}

/// The directory of cells.
#[derive(Clone, Debug)]
pub struct Cells(JsonDirectory);

impl Cells {
    /// The cells in this directory, which is created with the first cell.
    pub fn in_directory(directory: &Path) -> Cells {
        Cells(JsonDirectory::at(directory, CELL_LIMIT))
    }

    fn name(scenario: &str, kernel: &str, remedy: &RemedyId, about: &CellSubject) -> String {
        format!("{scenario}.{kernel}.{remedy}.{}.{}", about.finding, about.victim)
    }

    /// The cell of an earlier call; `None` if it is missing or unreadable.
    pub fn find(&self, scenario: &str, kernel: &str, remedy: &RemedyId, about: &CellSubject) -> Option<Cell> {
        self.0.find(&Cells::name(scenario, kernel, remedy, about))
    }

    /// Writes a cell atomically.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn keep(&self, cell: &Cell) -> io::Result<()> {
        let (Some(first), Some(about)) = (cell.without.first(), cell.about.first()) else { return Ok(()) };
        let request = &first.request;
        self.0.keep(&Cells::name(&request.scenario.name, &request.kernel, &cell.remedy, about), cell)
    }

    /// All cells, by name.
    ///
    /// # Errors
    /// If the directory or a cell in it cannot be read.
    pub fn all(&self) -> io::Result<Vec<Cell>> {
        self.0.all()
    }
}
