//! Does this kernel starve? A table of scenarios and kernels. Each cell keeps the guests that it is made of, so that anybody can
//! boot the same ones and get the same bytes.

mod page;

pub use page::CellRow;

use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use unstarve_change::quoted;
use unstarve_diagnose::report::{Finding, FindingId, Report, Severity, WorstWait};
use unstarve_files::Limit;
use unstarve_model::Nanos;

use crate::bench::Bench;
use crate::cells::CellOrigin;
use crate::compare::{Plan, interval, of_outcomes, percent};
use crate::json_directory::JsonDirectory;
use crate::metric::Better;
use crate::run::{Outcome, Request, Runner};
use crate::scenario::{Scenario, Victim, fits};
use crate::stats::Verdict;
use crate::store::{KernelInfo, digest};
use crate::truth::{Explain, expected, is_expected, one_line};

/// One scenario on one kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct KernelCell {
    /// The scenario's name.
    pub scenario: String,
    /// The scenario as it was asked for: its name, or a file.
    pub asked: String,
    /// SHA-256 of the scenario: of another one the cell says nothing.
    pub scenario_digest: String,
    /// The kernel's name in the store.
    pub kernel: String,
    /// SHA-256 of the kernel's image.
    pub kernel_digest: String,
    /// SHA-256 of the program that was the guests' init and recorder, as they got it: without debugging information.
    pub program_digest: String,
    /// SHA-256 of all that the guests were given: init, tools, libraries, modules.
    #[serde(default)]
    pub image_digest: String,
    /// The guests' init, where it was not this program: its file's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub init: Option<String>,
    /// QEMU's version.
    #[serde(default)]
    pub qemu: String,
    /// The versions that it was made with.
    pub made: CellOrigin,
    /// The smallest difference of a metric that matters.
    pub matters: f64,
    /// The findings that the scenario expects with its fault; none: it must not starve anybody.
    pub expected: Vec<FindingId>,
    /// Each seed's two guests.
    pub seeds: Vec<SeedGuests>,
    /// What the fault does to the scenario's main metric, if it has one.
    pub effect: Option<FaultEffect>,
}

/// The guests of one seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SeedGuests {
    /// The seed.
    pub seed: u64,
    /// With the fault.
    pub faulty: GuestAnswer,
    /// Its twin without.
    pub healthy: GuestAnswer,
}

/// What `explain` finds in a guest's recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestAnswer {
    /// SHA-256 of the recording.
    pub trace_digest: String,
    /// Who is starved.
    pub starved: Found,
    /// Events that the recording lost.
    pub lost: u64,
    /// The worst finding, victim and culprit in words.
    pub finding: Option<String>,
    /// That victim's longest wait; where nobody is starved, the longest one that the expected victim is known to have had.
    pub longest: Option<Nanos>,
}

/// Who is starved in a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Found {
    /// The expected victim, by the expected culprit. Others may be starved, too.
    Expected,
    /// Others alone, or by others.
    Other,
    /// Nobody.
    Nobody,
}

/// What the fault does to a metric.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FaultEffect {
    /// Its name.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// Which direction is better.
    pub better: Better,
    /// The mean of the healthy twins.
    pub healthy: f64,
    /// The mean with the fault.
    pub faulty: f64,
    /// The difference, relative to the twins.
    pub relative: Option<f64>,
    /// Its 95 % interval over the seeds.
    pub interval: Option<(f64, f64)>,
    /// Whether that is a difference.
    pub verdict: Verdict,
}

/// What a cell says of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellVerdict {
    /// With every seed the expected victim is starved.
    Starves,
    /// With every seed, and without the fault somebody is, too.
    StarvesWithoutFault,
    /// With some seeds.
    DependsOnSeed,
    /// With every seed somebody else is starved.
    StarvesOthers,
    /// The same, and without the fault somebody is, too.
    StarvesOthersWithoutFault,
    /// Nobody is, and without the fault somebody is.
    TwinStarves,
    /// Nobody is starved, and the fault makes the main metric worse.
    Slows,
    /// Nobody is starved.
    DoesNot,
    /// Nobody is seen to be, in recordings that lost events.
    NotKnown,
}

impl CellVerdict {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            CellVerdict::Starves => "starves",
            CellVerdict::StarvesWithoutFault => "starves, without the fault, too",
            CellVerdict::DependsOnSeed => "depends on the seed",
            CellVerdict::StarvesOthers => "starves others",
            CellVerdict::StarvesOthersWithoutFault => "starves others, without the fault, too",
            CellVerdict::TwinStarves => "starves only without the fault",
            CellVerdict::Slows => "does not, but slows down",
            CellVerdict::DoesNot => "does not",
            CellVerdict::NotKnown => "not known: events were lost",
        }
    }

    /// The verdict of these guests: with the fault all, some or none have the expected victim, or others alone; without it some have
    /// any; some lost events; and what the fault does to the main metric.
    fn of(seeds: &[SeedGuests], effect: Option<Verdict>) -> CellVerdict {
        let faulty = |found| seeds.iter().filter(|seed| seed.faulty.starved == found).count();
        let (expected, other) = (faulty(Found::Expected), faulty(Found::Other));
        let twin_starves = seeds.iter().any(|seed| seed.healthy.starved != Found::Nobody);
        let has_lost = seeds.iter().any(|seed| seed.faulty.lost > 0);
        let all = seeds.len();
        match (expected, other) {
            (0, 0) if twin_starves => CellVerdict::TwinStarves,
            (0, 0) if has_lost => CellVerdict::NotKnown,
            (0, 0) if effect == Some(Verdict::Worse) => CellVerdict::Slows,
            (0, 0) => CellVerdict::DoesNot,
            (0, others) if others == all && twin_starves => CellVerdict::StarvesOthersWithoutFault,
            (0, others) if others == all => CellVerdict::StarvesOthers,
            (victims, _) if victims == all && twin_starves => CellVerdict::StarvesWithoutFault,
            (victims, _) if victims == all => CellVerdict::Starves,
            _ => CellVerdict::DependsOnSeed,
        }
    }
}

impl KernelCell {
    /// What it says.
    pub fn verdict(&self) -> CellVerdict {
        CellVerdict::of(&self.seeds, self.effect.as_ref().map(|effect| effect.verdict))
    }

    /// The median over the seeds of the longest wait: of who is starved, else of the expected victim.
    pub fn longest(&self) -> Option<Nanos> {
        let mut longest: Vec<Nanos> = self.seeds.iter().filter_map(|seed| seed.faulty.longest).collect();
        longest.sort_unstable();
        longest.get(longest.len() / 2).copied()
    }

    /// The command that makes it again.
    pub fn command(&self) -> String {
        let (seeds, matters) = (self.seeds.len(), self.matters * 100.0);
        let matters = if matters == 3.0 { String::new() } else { format!(" --matters {matters}") };
        let asked = quoted(&self.asked).unwrap_or_else(|| self.scenario.clone());
        let init =
            self.init.as_ref().map(|init| format!(" --init {}", quoted(init).unwrap_or_else(|| "PROGRAM".to_owned())));
        let init = init.unwrap_or_default();
        format!("unstarve lab table --scenario {asked} --kernel {} --seeds {seeds}{matters}{init} --fresh", self.kernel)
    }

    /// What the fault does, in a few words: `fio.iops -42.1 % (-43.0 % to -41.2 %)`, and how long somebody waited.
    pub fn effect_in_words(&self) -> String {
        let longest = self.longest().map(|longest| format!("longest wait {longest}"));
        let effect = self.effect.as_ref().map(FaultEffect::in_words);
        [effect, longest].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

impl FaultEffect {
    fn in_words(&self) -> String {
        let claim = self.relative.zip(self.interval).filter(|_| self.verdict.is_claim());
        match claim {
            Some((relative, range)) => format!("{} {} ({})", self.metric, percent(relative), interval(range)),
            None => format!("{}: {}", self.metric, self.verdict.words()),
        }
    }
}

/// A scenario, and how it was asked for: by its name, or as a file.
pub struct AskedScenario {
    /// The name or the file.
    pub asked: String,
    /// The scenario.
    pub scenario: Scenario,
}

impl AskedScenario {
    /// Whether it states which victim its fault starves, or that it starves nobody.
    pub fn is_judged(&self) -> bool {
        let expect = &self.scenario.expect;
        expect.top().is_some() || !expect.all.is_empty()
    }
}

/// A column of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelColumn {
    /// The kernel's name in the store.
    pub name: String,
    /// Its own release.
    pub release: String,
    /// Where it comes from.
    pub package: String,
    /// SHA-256 of its image.
    pub digest: String,
}

impl From<KernelInfo> for KernelColumn {
    fn from(info: KernelInfo) -> KernelColumn {
        let package = info.package();
        KernelColumn { name: info.name, release: info.release, package, digest: info.digest }
    }
}

/// A row of the table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScenarioRow {
    /// The scenario's name.
    pub scenario: String,
    /// What it shows.
    pub title: String,
    /// A cell for each kernel.
    pub cells: Vec<CellState>,
}

/// What is known of a scenario on a kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CellState {
    /// Its guests ran.
    Known(Box<KernelCell>),
    /// The scenario does not apply to this kernel.
    NotHere,
    /// Nobody has run it.
    Missing,
    /// A guest failed, and why.
    Failed(String),
}

impl CellState {
    /// The cell, if its guests ran.
    pub fn known(&self) -> Option<&KernelCell> {
        match self {
            CellState::Known(cell) => Some(cell),
            _ => None,
        }
    }

    /// In a few words.
    pub fn words(&self) -> &str {
        match self {
            CellState::Known(cell) => cell.verdict().words(),
            CellState::NotHere => "does not apply",
            CellState::Missing => "not run",
            CellState::Failed(_) => "failed",
        }
    }
}

/// The whole table.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KernelTable {
    /// Oldest kernel first.
    pub kernels: Vec<KernelColumn>,
    /// In the order of the scenarios.
    pub rows: Vec<ScenarioRow>,
}

impl KernelTable {
    /// How many cells are known, and how many apply.
    pub fn counts(&self) -> (usize, usize) {
        let cells = || self.rows.iter().flat_map(|row| &row.cells);
        let known = cells().filter(|cell| cell.known().is_some()).count();
        (known, cells().filter(|cell| **cell != CellState::NotHere).count())
    }
}

/// How cells are filled.
pub struct Filling<'a> {
    /// The seeds, and the smallest difference of a metric that matters.
    pub plan: Plan,
    /// SHA-256 of the guests' init.
    pub program_digest: String,
    /// Its file's name, where it is not this program.
    pub init: Option<String>,
    /// The version of unstarve, and the day.
    pub made: CellOrigin,
    /// Explains a recording.
    pub explain: &'a mut Explain<'a>,
    /// Where cells are kept and found.
    pub cells: &'a KernelCells,
    /// Whether cells that are kept are run again.
    pub fresh: bool,
    /// Whether missing cells are run.
    pub runs_guests: bool,
}

/// Finds each cell, or runs its guests and keeps it. What is not started when the user asks to stop is missing.
pub fn fill<R: Runner>(
    bench: &mut Bench<'_, R>,
    scenarios: &[AskedScenario],
    kernels: Vec<KernelColumn>,
    filling: &mut Filling<'_>,
) -> KernelTable {
    let row = |of: &AskedScenario| ScenarioRow {
        scenario: of.scenario.name.clone(),
        title: of.scenario.title.clone(),
        cells: kernels.iter().map(|kernel| kept(&of.scenario, kernel, filling)).collect(),
    };
    let mut rows: Vec<ScenarioRow> = scenarios.iter().map(row).collect();
    let missing = rows.iter().flat_map(|row| &row.cells).filter(|cell| **cell == CellState::Missing).count();
    bench.expect(2 * filling.plan.seeds as usize * missing);
    // A kernel's cells one after the other: a column that is whole says more than rows that are begun.
    let asked = if filling.runs_guests { kernels.as_slice() } else { &[] };
    for (place, kernel) in asked.iter().enumerate() {
        for (row, scenario) in rows.iter_mut().zip(scenarios) {
            if row.cells[place] != CellState::Missing || bench.is_interrupted() {
                continue;
            }
            row.cells[place] = match run_cell(bench, scenario, kernel, filling) {
                Ok(Some(cell)) => CellState::Known(Box::new(cell)),
                Ok(None) => CellState::Missing,
                Err(why) => CellState::Failed(why),
            };
        }
    }
    KernelTable { kernels, rows }
}

fn kept(scenario: &Scenario, kernel: &KernelColumn, filling: &Filling<'_>) -> CellState {
    if !scenario.suits(&kernel.release).unwrap_or(true) {
        return CellState::NotHere;
    }
    let is_asked = |cell: &KernelCell| {
        let suffices = cell.matters == filling.plan.matters && cell.seeds.len() >= filling.plan.seeds as usize;
        suffices && !filling.fresh
    };
    let found = filling.cells.find(&scenario.name, &kernel.name).filter(|cell| {
        cell.scenario_digest == digest_of(scenario)
            && cell.kernel_digest == kernel.digest
            && (is_asked(cell) || !filling.runs_guests)
    });
    found.map_or(CellState::Missing, |cell| CellState::Known(Box::new(cell)))
}

/// `None` if the user asked to stop.
fn run_cell<R: Runner>(
    bench: &mut Bench<'_, R>,
    AskedScenario { asked, scenario }: &AskedScenario,
    kernel: &KernelColumn,
    filling: &mut Filling<'_>,
) -> Result<Option<KernelCell>, String> {
    let mut pairs = Vec::new();
    let mut seeds = Vec::new();
    for seed in 1..=filling.plan.seeds {
        let mut guest = |fault| {
            let request = Request { fault, ..Request::faulty(scenario.clone(), &kernel.name, seed) };
            let outcome = bench.run(&request).map_err(|error| error.to_string())?;
            let report = (filling.explain)(&outcome).map_err(|error| format!("seed {seed}: {error}"))?;
            let answer = answer(scenario, &outcome, &report);
            Ok::<_, String>((outcome, answer))
        };
        let both = guest(false).and_then(|healthy| Ok((healthy, guest(true)?)));
        let is_stopped = bench.is_interrupted() && (both.is_err() || seed < filling.plan.seeds);
        if is_stopped {
            return Ok(None);
        }
        let ((healthy, of_healthy), (faulty, of_faulty)) = both?;
        pairs.push((healthy, faulty));
        seeds.push(SeedGuests { seed, faulty: of_faulty, healthy: of_healthy });
    }
    let compared = of_outcomes(scenario, ("healthy".to_owned(), "faulty".to_owned()), &pairs, filling.plan.matters);
    let effect = compared.main().map(|row| FaultEffect {
        metric: row.metric.clone(),
        unit: row.unit.clone(),
        better: row.better,
        healthy: row.contrast.mean_a,
        faulty: row.contrast.mean_b,
        relative: row.contrast.relative,
        interval: row.contrast.interval,
        verdict: row.contrast.verdict,
    });
    let cell = KernelCell {
        scenario: scenario.name.clone(),
        asked: asked.clone(),
        scenario_digest: digest_of(scenario),
        kernel: kernel.name.clone(),
        kernel_digest: kernel.digest.clone(),
        program_digest: filling.program_digest.clone(),
        image_digest: pairs.first().map(|(outcome, _)| outcome.image_digest.clone()).unwrap_or_default(),
        init: filling.init.clone(),
        qemu: pairs.first().map(|(outcome, _)| outcome.qemu.clone()).unwrap_or_default(),
        made: CellOrigin { package: kernel.package.clone(), ..filling.made.clone() },
        matters: filling.plan.matters,
        expected: expected(&scenario.expect),
        seeds,
        effect,
    };
    filling.cells.keep(&cell).map_err(|error| format!("it ran, and cannot be kept: {error}"))?;
    Ok(Some(cell))
}

fn answer(scenario: &Scenario, outcome: &Outcome, report: &Report) -> GuestAnswer {
    let loud: Vec<&Finding> = report.findings.iter().filter(|finding| finding.severity >= Severity::Warning).collect();
    let starved = match loud.is_empty() {
        true => Found::Nobody,
        false if is_expected(&scenario.expect, &loud) => Found::Expected,
        false => Found::Other,
    };
    let quiet = report.worst_waits.iter().find(|wait| is_of(&scenario.expect.victim, wait));
    let longest = loud.first().map(|finding| finding.waits.max_ns);
    GuestAnswer {
        trace_digest: outcome.trace_digest.clone(),
        starved,
        lost: report.trace.lost,
        finding: loud.first().map(|finding| one_line(finding)),
        longest: longest.map(Nanos).or(quiet.map(WorstWait::length)),
    }
}

/// Whether the expected victim waited: its name fits, or the name that threads of its kind have.
fn is_of(victim: &Victim, wait: &WorstWait) -> bool {
    let name = victim.0.get("comm").cloned().or_else(|| victim.0.get("kind").map(|kind| format!("{kind}/*")));
    name.is_some_and(|pattern| fits(&pattern, &wait.comm))
}

fn digest_of(scenario: &Scenario) -> String {
    digest(serde_json::to_string(scenario).unwrap_or_default().as_bytes())
}

/// A cell is a few kilobytes.
const CELL_LIMIT: Limit = Limit { bytes: 1 << 20, expected: "a cell of the table" };

/// The directory of cells.
#[derive(Clone, Debug)]
pub struct KernelCells(JsonDirectory);

impl KernelCells {
    /// The cells in this directory, which is made with the first one.
    pub fn in_directory(directory: &Path) -> KernelCells {
        KernelCells(JsonDirectory::at(directory, CELL_LIMIT))
    }

    /// Makes the directory, so that guests do not run for hours before cells cannot be kept.
    ///
    /// # Errors
    /// If it cannot be made, or nothing can be written there.
    pub fn prepare(&self) -> io::Result<()> {
        self.0.prepare()
    }

    fn find(&self, scenario: &str, kernel: &str) -> Option<KernelCell> {
        self.0.find(&format!("{scenario}.{kernel}"))
    }

    fn keep(&self, cell: &KernelCell) -> io::Result<()> {
        self.0.keep(&format!("{}.{}", cell.scenario, cell.kernel), cell)
    }
}

#[cfg(test)]
mod tests;
