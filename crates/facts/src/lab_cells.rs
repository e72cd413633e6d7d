//! What guests of the lab showed: which threads each kernel starves in which scenario.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::{Row, Table, Version};

/// A row for each scenario on each kernel, as `unstarve lab table --lines` writes it.
pub const LAB_CELLS: Table = Table::new(include_str!("../data/lab_cells.tsv"), "scenario", "verdict");

/// Two kernels in the lab's scenarios.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabComparison {
    /// The kernel that was run for the first one: of its series the nearest stable level.
    pub from: String,
    /// The same for the other.
    pub to: String,
    /// How many scenarios were run on both.
    pub scenarios: usize,
    /// Those of which the verdict differs.
    pub changed: Vec<LabChange>,
}

/// A scenario of which two kernels say different things.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct LabChange {
    /// The scenario (docs/lab-scenarios.md).
    pub scenario: String,
    /// What it shows.
    pub title: String,
    /// What it is expected to show where it starves: ids of findings.
    pub findings: Vec<String>,
    /// The first kernel's verdict: `starves`, `does not` or another of docs/lab.md.
    pub from: String,
    /// The other's.
    pub to: String,
    /// The command that runs it again on the other.
    pub command: String,
}

impl LabComparison {
    /// Of all scenarios. `None` unless guests ran with a kernel of both series.
    pub fn of(from: Version, to: Version) -> Option<LabComparison> {
        LabComparison::of_scenarios(from, to, |_| true)
    }

    /// Of the scenarios that expect one of these findings where they starve.
    pub fn about(from: Version, to: Version, asked: &[&str]) -> Option<LabComparison> {
        let is_asked = |row| findings(row).any(|finding| asked.contains(&finding));
        LabComparison::of_scenarios(from, to, is_asked).filter(|lab| lab.scenarios > 0)
    }

    fn of_scenarios(from: Version, to: Version, is_asked: impl Fn(Row) -> bool) -> Option<LabComparison> {
        let (from, to) = (nearest_in_lab(from)?, nearest_in_lab(to)?);
        let of = |kernel: &'static str| LAB_CELLS.rows().filter(move |row| row.get("kernel") == Some(kernel));
        let other = |row: Row| of(to).find(|other| other.name() == row.name());
        let pairs: Vec<(Row, Row)> =
            of(from).filter(|row| is_asked(*row)).filter_map(|row| Some((row, other(row)?))).collect();
        let verdict = |row: Row| row.get("verdict").unwrap_or_default();
        let differ = pairs.iter().filter(|(before, after)| verdict(*before) != verdict(*after));
        let changed = differ.map(|(before, after)| LabChange {
            scenario: before.name().to_owned(),
            title: before.get("title").unwrap_or_default().to_owned(),
            findings: findings(*before).map(str::to_owned).collect(),
            from: verdict(*before).to_owned(),
            to: verdict(*after).to_owned(),
            command: after.get("command").unwrap_or_default().to_owned(),
        });
        Some(LabComparison {
            from: from.to_owned(),
            to: to.to_owned(),
            scenarios: pairs.len(),
            changed: changed.collect(),
        })
    }
}

fn findings(row: Row) -> impl Iterator<Item = &'static str> {
    row.get("expected").unwrap_or_default().split_ascii_whitespace()
}

/// The kernel of the lab that speaks for this one: of its series the newest that is not newer, else the oldest. A version without a
/// stable level is the newest. PREEMPT_RT is another kernel and speaks for none.
fn nearest_in_lab(version: Version) -> Option<&'static str> {
    let kernels: BTreeSet<&'static str> = LAB_CELLS.rows().filter_map(|row| row.get("kernel")).collect();
    let in_series = |name: &'static str| {
        let of: Version = name.parse().ok().filter(|_| !name.ends_with("-rt"))?;
        ((of.major, of.minor) == (version.major, version.minor)).then_some((of.patch.unwrap_or(0), name))
    };
    nearest(kernels.iter().copied().filter_map(in_series), version.patch)
}

fn nearest<'n>(levels: impl Iterator<Item = (u32, &'n str)> + Clone, asked: Option<u32>) -> Option<&'n str> {
    let is_not_newer = |(level, _): &(u32, &str)| asked.is_none_or(|asked| *level <= asked);
    let older = levels.clone().filter(is_not_newer).max();
    older.or_else(|| levels.min()).map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_level_that_is_not_newer_speaks_for_a_kernel() {
        let levels = [(43, "6.12.43"), (74, "6.12.74"), (118, "6.12.118")];
        let asked = |patch| nearest(levels.into_iter(), patch);
        assert_eq!(
            [Some(1), Some(43), Some(73), Some(74), Some(500), None].map(asked),
            ["6.12.43", "6.12.43", "6.12.43", "6.12.74", "6.12.118", "6.12.118"].map(Some)
        );
        assert_eq!(nearest([].into_iter(), None), None);
    }

    #[test]
    fn every_cell_has_all_columns_a_command_and_digests() {
        let columns = LAB_CELLS.columns().count();
        let mut seen = BTreeSet::new();
        for row in LAB_CELLS.rows() {
            let [kernel, command, traces, twins] =
                ["kernel", "command", "traces", "twin_traces"].map(|column| row.get(column).unwrap_or_default());
            assert!(seen.insert((row.name(), kernel)), "twice: {} on {kernel}", row.name());
            assert!(
                kernel.parse::<Version>().is_ok_and(|version| version.patch.is_some()),
                "{kernel}: a point release"
            );
            assert!(command.contains(row.name()) && command.contains(kernel), "{command}");
            let seeds: usize = row.get("seeds").unwrap_or_default().parse().expect("a number");
            for digests in [traces, twins] {
                let are_digests =
                    digests.split(' ').all(|one| one.len() == 64 && one.bytes().all(|b| b.is_ascii_hexdigit()));
                assert!(are_digests && digests.split(' ').count() == seeds, "{}: {digests}", row.name());
            }
            assert_eq!(row.get("verdict").is_some() as usize + columns, 1 + columns, "{}", row.name());
        }
    }
}
