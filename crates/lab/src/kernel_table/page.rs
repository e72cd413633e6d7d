//! The table as text for terminals, as a page of Markdown with pictures, and as a line for each cell.

use std::fmt::{self, Write};

use unstarve_model::{Nanos, clean, counted};

use super::{CellState, CellVerdict, GuestAnswer, KernelCell, KernelColumn, KernelTable, ScenarioRow, SeedGuests};
use crate::compare::percent;

/// A line for each run of kernels of which a scenario says the same.
impl fmt::Display for KernelTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for row in &self.rows {
            writeln!(f, "{}: {}", clean(&row.scenario), clean(&row.title))?;
            for (first, last) in alike(row) {
                let names = match first == last {
                    true => self.kernels[first].name.clone(),
                    false => format!("{} to {}", self.kernels[first].name, self.kernels[last].name),
                };
                write!(f, "  {names:<20} {}", row.cells[first].words())?;
                let said = match &row.cells[first..=last] {
                    [CellState::Known(cell)] => cell.effect_in_words(),
                    [CellState::Failed(why)] => why.clone(),
                    cells => effects_in_words(&cells.iter().filter_map(CellState::known).collect::<Vec<_>>()),
                };
                let colon = if said.is_empty() { "" } else { ": " };
                writeln!(f, "{colon}{}", clean(&said))?;
            }
        }
        let (known, all) = self.counts();
        writeln!(f, "{known} of {} known", counted(all as u64, "cell"))
    }
}

/// What the fault does on several kernels: from the least to the most.
fn effects_in_words(cells: &[&KernelCell]) -> String {
    let claims = cells.iter().filter_map(|cell| cell.effect.as_ref()).filter(|effect| effect.verdict.is_claim());
    let relative: Vec<f64> = claims.clone().filter_map(|effect| effect.relative).collect();
    let ends = |values: &[f64]| {
        let least = values.iter().copied().min_by(f64::total_cmp)?;
        Some((least, values.iter().copied().max_by(f64::total_cmp)?))
    };
    let metric = claims.map(|effect| effect.metric.as_str()).next().unwrap_or_default();
    let effect = ends(&relative).map(|(low, high)| format!("{metric} {} to {}", percent(low), percent(high)));
    let longest: Vec<f64> = cells.iter().filter_map(|cell| cell.longest()).map(|longest| longest.0 as f64).collect();
    let longest =
        ends(&longest).map(|(low, high)| format!("longest wait {} to {}", Nanos(low as u64), Nanos(high as u64)));
    [effect, longest].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Runs of neighbours of which a row says the same. Failures have reasons of their own.
fn alike(row: &ScenarioRow) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for (place, cell) in row.cells.iter().enumerate() {
        match runs.last_mut() {
            Some((first, last))
                if row.cells[*first].words() == cell.words() && !matches!(cell, CellState::Failed(_)) =>
            {
                *last = place;
            }
            _ => runs.push((place, place)),
        }
    }
    runs
}

/// A cell as one row: for tables of other programs.
#[derive(Clone, Debug, PartialEq)]
pub struct CellRow<'t> {
    /// The scenario's row.
    pub row: &'t ScenarioRow,
    /// The kernel's column.
    pub kernel: &'t KernelColumn,
    /// The cell.
    pub cell: &'t KernelCell,
}

impl CellRow<'_> {
    /// What the scenario expects, separated by blanks.
    pub fn expected(&self) -> String {
        self.cell.expected.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    }

    /// The first finding with the fault; empty: none.
    pub fn finding(&self) -> String {
        self.cell.seeds.iter().find_map(|seed| seed.faulty.finding.clone()).unwrap_or_default()
    }

    /// SHA-256 of each seed's recording with the fault, separated by blanks.
    pub fn traces(&self) -> String {
        self.digests(|seed| &seed.faulty)
    }

    /// The same without the fault.
    pub fn twin_traces(&self) -> String {
        self.digests(|seed| &seed.healthy)
    }

    fn digests(&self, of: fn(&SeedGuests) -> &GuestAnswer) -> String {
        self.cell.seeds.iter().map(|seed| of(seed).trace_digest.clone()).collect::<Vec<_>>().join(" ")
    }
}

/// The columns of [`KernelTable::lines`].
const LINE_COLUMNS: &str = "scenario\ttitle\tkernel\trelease\tpackage\tverdict\texpected\tfinding\tlongest_ns\tmetric\tunit\thealthy\tfaulty\trelative\tlow\thigh\tmetric_verdict\tseeds\ttraces\ttwin_traces\tkernel_digest\tprogram_digest\timage_digest\tqemu\tcommand";

impl KernelTable {
    /// The cells that are known.
    pub fn known(&self) -> impl Iterator<Item = CellRow<'_>> {
        self.rows.iter().flat_map(|row| {
            let cells = self.kernels.iter().zip(&row.cells);
            cells.filter_map(move |(kernel, cell)| Some(CellRow { row, kernel, cell: cell.known()? }))
        })
    }

    /// A tab-separated line for each cell that is known, below their names.
    pub fn lines(&self) -> String {
        let mut out = format!("{LINE_COLUMNS}\n");
        for known in self.known() {
            let CellRow { row, kernel, cell } = &known;
            let effect = cell.effect.as_ref();
            let number = |value: Option<f64>| value.map(|value| format!("{value}")).unwrap_or_default();
            let words = [
                cell.scenario.clone(),
                row.title.clone(),
                cell.kernel.clone(),
                kernel.release.clone(),
                kernel.package.clone(),
                cell.verdict().words().to_owned(),
                known.expected(),
                known.finding(),
                cell.longest().map(|longest| longest.0.to_string()).unwrap_or_default(),
                effect.map(|effect| effect.metric.clone()).unwrap_or_default(),
                effect.map(|effect| effect.unit.clone()).unwrap_or_default(),
                number(effect.map(|effect| effect.healthy)),
                number(effect.map(|effect| effect.faulty)),
                number(effect.and_then(|effect| effect.relative)),
                number(effect.and_then(|effect| effect.interval).map(|(low, _)| low)),
                number(effect.and_then(|effect| effect.interval).map(|(_, high)| high)),
                effect.map(|effect| effect.verdict.words().to_owned()).unwrap_or_default(),
                cell.seeds.len().to_string(),
                known.traces(),
                known.twin_traces(),
                cell.kernel_digest.clone(),
                cell.program_digest.clone(),
                cell.image_digest.clone(),
                cell.qemu.clone(),
                cell.command(),
            ];
            out += &words.map(|word| clean(&word.replace(['\t', '\n', '\r'], " ")).into_owned()).join("\t");
            out.push('\n');
        }
        out
    }

    /// A page of Markdown: a table, and for each scenario a picture and its cells.
    pub fn markdown(&self) -> String {
        let mut out = String::from("# Does this kernel starve?\n\n");
        let (known, all) = self.counts();
        let _ = writeln!(
            out,
            "{known} of {} are known. Each is made of guests with the kernel of the package that its row names, unmodified and in virtual time, with \
             the scenario's fault and without it. A verdict is what `explain` finds in their recordings. The command below a scenario, with another \
             kernel's name for another row, makes its recordings again: byte by byte with the same init, QEMU and tools. What the verdicts mean, and \
             what the lab cannot show, is in the documentation of the lab.\n",
            counted(all as u64, "cell")
        );
        let names: Vec<&str> = self.kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        let _ = writeln!(out, "| | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
        for row in &self.rows {
            let cells: Vec<&str> = row.cells.iter().map(CellState::words).collect();
            let _ = writeln!(out, "| [{}](#{}) | {} |", row.scenario, row.scenario, cells.join(" | "));
        }
        for row in &self.rows {
            let _ = writeln!(out, "\n## {}\n\n{}.\n", row.scenario, escaped(row.title.trim_end_matches('.')));
            out += &self.picture(row);
            out += "\n| kernel | verdict | with the fault | without it | SHA-256 of the first recording |\n|---|---|---|---|---|\n";
            for (kernel, state) in self.kernels.iter().zip(&row.cells) {
                let _ = match state {
                    CellState::Known(cell) => writeln!(out, "| {} | {} |", escaped(&kernel.release), of_cell(cell)),
                    CellState::Failed(why) => {
                        writeln!(out, "| {} | failed: {} | | | |", escaped(&kernel.release), escaped(why))
                    }
                    CellState::NotHere | CellState::Missing => {
                        writeln!(out, "| {} | {} | | | |", escaped(&kernel.release), state.words())
                    }
                };
            }
            if let Some(cell) = row.cells.iter().find_map(CellState::known) {
                let program = cell.program_digest.get(..12).unwrap_or_default();
                let made = &cell.made;
                let _ = writeln!(
                    out,
                    "\n    {}\n\n{} of unstarve {} (SHA-256 {program}…), QEMU {}, {}.",
                    clean(&cell.command()),
                    escaped(cell.init.as_deref().unwrap_or("the program")),
                    escaped(&made.unstarve),
                    escaped(&cell.qemu),
                    escaped(&made.date)
                );
            }
        }
        out
    }

    /// How long somebody waited on each kernel, as bars on one logarithmic scale; a thin line where nobody is starved.
    fn picture(&self, row: &ScenarioRow) -> String {
        const BAR_WIDTH: usize = 16;
        const PICTURE_HEIGHT: f64 = 60.0;
        // From 100 us to 10 s.
        let height = |ns: u64| ((ns.max(1) as f64).log10() - 5.0).clamp(0.0, 5.0) / 5.0 * PICTURE_HEIGHT;
        let width = BAR_WIDTH * self.kernels.len();
        let mut out = format!(
            "<svg role=\"img\" width=\"{width}\" height=\"{PICTURE_HEIGHT}\" viewBox=\"0 0 {width} {PICTURE_HEIGHT}\"><title>{}: the longest wait on \
             each kernel, from 100 us to 10 s on a logarithmic scale</title>",
            escaped(&row.scenario)
        );
        for (place, (kernel, state)) in self.kernels.iter().zip(&row.cells).enumerate() {
            let (colour, height, words) = match state {
                CellState::Known(cell) => {
                    let words = format!("{}: {}: {}", kernel.name, state.words(), cell.effect_in_words());
                    (colour(cell.verdict()), cell.longest().map_or(2.0, |longest| height(longest.0).max(2.0)), words)
                }
                _ => ("#bbb", 1.0, format!("{}: {}", kernel.name, state.words())),
            };
            let _ = write!(
                out,
                "<rect x=\"{}\" y=\"{:.1}\" width=\"{}\" height=\"{height:.1}\" fill=\"{colour}\"><title>{}</title></rect>",
                place * BAR_WIDTH,
                PICTURE_HEIGHT - height,
                BAR_WIDTH - 2,
                escaped(words.trim())
            );
        }
        out + "</svg>\n"
    }
}

/// The text of each bar says the same.
fn colour(verdict: CellVerdict) -> &'static str {
    match verdict {
        CellVerdict::Starves | CellVerdict::StarvesWithoutFault => "#c0392b",
        CellVerdict::StarvesOthers
        | CellVerdict::StarvesOthersWithoutFault
        | CellVerdict::DependsOnSeed
        | CellVerdict::TwinStarves => "#d68910",
        CellVerdict::Slows => "#d4ac0d",
        CellVerdict::DoesNot => "#1e8449",
        CellVerdict::NotKnown => "#bbb",
    }
}

fn of_cell(cell: &KernelCell) -> String {
    let with = cell.seeds.iter().find_map(|seed| seed.faulty.finding.clone()).unwrap_or_else(|| "nobody".to_owned());
    let without = cell.seeds.iter().find_map(|seed| seed.healthy.finding.clone());
    let effect = match cell.effect_in_words() {
        effect if effect.is_empty() => with,
        effect => format!("{with}: {effect}"),
    };
    let digest = cell.seeds.first().map(|seed| seed.faulty.trace_digest.clone()).unwrap_or_default();
    let without = without.unwrap_or_else(|| "nobody".to_owned());
    format!("{} | {} | {} | `{}`", cell.verdict().words(), escaped(&effect), escaped(&without), digest)
}

/// Names in a guest are chosen by the scenario; a page must not take them for its own marks.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for letter in clean(text).chars() {
        match letter {
            '\n' | '\r' => out.push(' '),
            '&' | '<' | '>' | '|' | '[' | ']' | '!' | '*' | '_' | '`' | '\\' | '#' | '~' | '"' => {
                let _ = write!(out, "&#{};", u32::from(letter));
            }
            _ => out.push(letter),
        }
    }
    out
}
