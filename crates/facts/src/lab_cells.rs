//! What guests of the lab showed: which threads each kernel starves in which scenario.

use serde::{Deserialize, Serialize};

use crate::{KernelInfo, Row, Table, Version};

/// A row for each scenario on each kernel, as `unstarve lab table --lines` writes it.
pub const LAB_CELLS: Table = Table::new(include_str!("../data/lab_cells.tsv"), "scenario", "verdict");

/// Two kernels in the lab's scenarios.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Of all scenarios. `None` unless guests ran with two kernels that speak for these.
    pub fn of(host: &KernelInfo, to: Version) -> Option<LabComparison> {
        LabComparison::in_table(LAB_CELLS, host, to, |_| true)
    }

    /// Of the scenarios that expect one of these findings where they starve.
    pub fn about(host: &KernelInfo, to: Version, asked: &[&str]) -> Option<LabComparison> {
        LabComparison::in_table(LAB_CELLS, host, to, |row| findings(row).any(|finding| asked.contains(&finding)))
    }

    fn in_table(table: Table, host: &KernelInfo, to: Version, is_asked: impl Fn(Row) -> bool) -> Option<LabComparison> {
        // PREEMPT_RT is another kernel, and a level that is not known may be any.
        let is_real_time = host.release.as_deref().is_some_and(|release| release.contains("-rt"));
        let from = Version::of(host).filter(|version| version.patch.is_some() && !is_real_time)?;
        let (from, to) = (nearest_in_lab(table, from)?, nearest_in_lab(table, to)?);
        let of = |kernel: &'static str| table.rows().filter(move |row| row.get("kernel") == Some(kernel));
        let says = |row: &Row| row.get("verdict").filter(|verdict| !verdict.starts_with(SAYS_NOTHING));
        let other = |row: Row| of(to).find(|other| other.name() == row.name() && says(other).is_some());
        let asked = of(from).filter(|row| is_asked(*row) && says(row).is_some());
        let pairs: Vec<(Row, Row)> = asked.filter_map(|row| Some((row, other(row)?))).collect();
        let differ = pairs.iter().filter(|(before, after)| says(before) != says(after));
        let changed = differ.map(|(before, after)| LabChange {
            scenario: before.name().to_owned(),
            title: before.get("title").unwrap_or_default().to_owned(),
            findings: findings(*before).map(str::to_owned).collect(),
            from: says(before).unwrap_or_default().to_owned(),
            to: says(after).unwrap_or_default().to_owned(),
            command: format!("unstarve lab table --scenario {} --kernel {to}", after.name()),
        });
        let comparison = LabComparison {
            from: from.to_owned(),
            to: to.to_owned(),
            scenarios: pairs.len(),
            changed: changed.collect(),
        };
        (from != to && comparison.scenarios > 0).then_some(comparison)
    }
}

/// How the verdict of a cell begins that cannot be compared.
const SAYS_NOTHING: &str = "not known";

fn findings(row: Row) -> impl Iterator<Item = &'static str> {
    row.get("expected").unwrap_or_default().split_ascii_whitespace()
}

/// The kernel of the lab that speaks for this one: of its series the newest that is not newer. A version without a stable level is the
/// newest.
fn nearest_in_lab(table: Table, version: Version) -> Option<&'static str> {
    let levels = table.rows().filter_map(|row| row.get("kernel")).filter_map(|name| {
        let of: Version = name.parse().ok().filter(|_| !name.ends_with("-rt"))?;
        ((of.major, of.minor) == (version.major, version.minor)).then_some((of.patch.unwrap_or(0), name))
    });
    let not_newer = levels.filter(|(level, _)| version.patch.is_none_or(|asked| *level <= asked));
    not_newer.max().map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::{BUGS, Bug, Facts, Holds};

    /// Scenarios that show a bug of [`BUGS`], and nothing else.
    const SHOW_A_BUG: [(&str, &str); 2] = [("reweight-lag", "reweight-lag"), ("fair-server-cost", "dl-server-cost")];

    #[test]
    fn guests_show_each_bug_on_the_kernels_that_have_it_and_on_no_other() {
        for (scenario, bug) in SHOW_A_BUG {
            let bug = BUGS.row(bug).and_then(Bug::of).expect("a bug");
            let mut compared = BTreeSet::new();
            for row in LAB_CELLS.rows().filter(|row| row.name() == scenario) {
                let kernel = row.get("kernel").unwrap_or_default();
                let has_it = match bug.affects(&Facts::of_release(Some(kernel))) {
                    Holds::Yes => true,
                    Holds::No => false,
                    Holds::Depends(_) => continue,
                };
                let shows_it = match row.get("verdict") {
                    Some("starves" | "starves others" | "depends on the seed" | "does not, but slows down") => true,
                    Some("does not") => false,
                    other => panic!("{scenario} on {kernel}: {other:?}"),
                };
                assert_eq!(shows_it, has_it, "{scenario} on {kernel}: {:?}", row.get("verdict"));
                compared.insert(has_it);
            }
            assert_eq!(compared.len(), 2, "{scenario}: a kernel that has the bug, and one that has not");
        }
    }

    const FEW_CELLS: Table = Table::new(
        "scenario\ttitle\tkernel\tverdict\texpected\n\
         a\tA\t6.12.43\tstarves\trt-starvation\n\
         b\tB\t6.12.43\tdoes not\t\n\
         c\tC\t6.12.43\tstarves\twake-storm\n\
         a\tA\t6.12.74\tdoes not\trt-starvation\n\
         b\tB\t6.12.74\tdoes not\t\n\
         c\tC\t6.12.74\tnot known: events were lost\twake-storm\n\
         a\tA\t6.12.74-rt\tstarves\trt-starvation\n",
        "scenario",
        "verdict",
    );

    /// From, to, how many scenarios, which changed.
    fn compared(host: &str, to: &str) -> String {
        let host = KernelInfo { release: Some(host.to_owned()), ..KernelInfo::default() };
        let to = to.parse().expect("a version");
        let Some(lab) = LabComparison::in_table(FEW_CELLS, &host, to, |_| true) else { return "nothing".to_owned() };
        let changed: Vec<String> =
            lab.changed.iter().map(|change| format!("{}: {} -> {}", change.scenario, change.from, change.to)).collect();
        format!("{} {} {} [{}]", lab.from, lab.to, lab.scenarios, changed.join(", "))
    }

    /// Who speaks for a kernel: the nearest older level of its series, else nobody; not PREEMPT_RT, and for nobody whose level is not
    /// known.
    #[test]
    fn two_kernels_are_compared_by_the_levels_that_speak_for_them() {
        let change = "6.12.43 6.12.74 2 [a: starves -> does not]";
        let table = [
            ("6.12.43", "6.12.74", change),
            ("6.12.50-generic", "6.12", change),
            ("6.12.73", "6.12.500", change),
            ("6.12.44", "6.12.73", "nothing"),
            ("6.12.42", "6.12.74", "nothing"),
            ("6.12.0-1-amd64", "6.12.74", "nothing"),
            ("6.12.43-rt", "6.12.74", "nothing"),
            ("6.12.43", "7.2", "nothing"),
            ("6.12.74", "6.12.43", "6.12.74 6.12.43 2 [a: does not -> starves]"),
        ];
        for (host, to, expected) in table {
            assert_eq!(compared(host, to), expected, "{host} to {to}");
        }
    }

    #[test]
    fn every_cell_has_a_verdict_a_command_and_digests() {
        let (mut seen, mut programs) = (BTreeSet::new(), BTreeSet::new());
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
            let others = ["verdict", "kernel_digest", "program_digest", "image_digest", "qemu"];
            assert!(others.iter().all(|column| row.get(column).is_some()), "{} on {kernel}", row.name());
            programs.insert(row.get("program_digest"));
        }
        assert!(programs.len() <= 1, "guests with different init: {programs:?}");
    }
}
