//! The tables of `data/`: what is publicly known about features, settings and regressions, row by row with its source.

/// How well a row is known: the best of the letters in its confidence column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Confidence {
    /// `K`: from memory. Such a row is a lead, never a statement: see [`Row::is_stated`].
    Memory,
    /// `P`: read on a secondary page.
    Page,
    /// `M`: read in a commit or a mail.
    Mail,
    /// `S`: read in source.
    Source,
}

/// A table with named columns.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    text: &'static str,
    name: &'static str,
    confidence: &'static str,
}

/// One row of a [`Table`].
#[derive(Clone, Copy, Debug)]
pub struct Row {
    table: Table,
    line: &'static str,
}

/// Scheduler feature bits: when added, default, changed and removed, their state in seven trees, stable-series traps.
pub const FEATURES: Table = Table::new(include_str!("../data/features.tsv"), "feature", "confidence_of_dates");

/// Settings: path, default, scaling with the number of CPUs, who changes them, by version.
pub const TUNABLES: Table = Table::new(include_str!("../data/tunables.tsv"), "tunable", "confidence");

/// Public regressions and surprises: cause, workload, effect, fix, how a tool can see it.
pub const REGRESSIONS: Table = Table::new(include_str!("../data/regressions.tsv"), "id", "confidence");

/// Kinds of kernel threads: policy, nice, whether they are bound.
pub const KTHREADS: Table = Table::new(include_str!("../data/kthreads.tsv"), "class", "confidence");

/// Workqueues in which I/O or packets are completed, and how their workers run.
pub const WORKQUEUES: Table = Table::new(include_str!("../data/workqueues.tsv"), "workqueue", "confidence");

impl Table {
    pub(crate) const fn new(text: &'static str, name: &'static str, confidence: &'static str) -> Table {
        Table { text, name, confidence }
    }

    /// The names of the columns.
    pub fn columns(self) -> impl Iterator<Item = &'static str> {
        self.text.lines().next().unwrap_or_default().split('\t')
    }

    /// The rows in the order of the file.
    pub fn rows(self) -> impl Iterator<Item = Row> {
        self.text.lines().skip(1).filter(|line| !line.is_empty()).map(move |line| Row { table: self, line })
    }

    /// The row with this name (of a setting with several rows, the first).
    pub fn row(self, name: &str) -> Option<Row> {
        self.rows().find(|row| row.name() == name)
    }
}

impl Row {
    /// Its first column.
    pub fn name(self) -> &'static str {
        self.get(self.table.name).unwrap_or_default()
    }

    /// The text of a column; `None` if there is no such column or it is empty.
    pub fn get(self, column: &str) -> Option<&'static str> {
        let index = self.table.columns().position(|name| name == column)?;
        self.line.split('\t').nth(index).map(str::trim).filter(|text| !text.is_empty())
    }

    /// How well it is known; `None` if the column holds none of the letters.
    pub fn confidence(self) -> Option<Confidence> {
        let text = self.get(self.table.confidence)?;
        // The letter stands alone or before a parenthesis: `S(5.10) M (mail read)`.
        text.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(letter).max()
    }

    /// Whether it is known better than from memory, so that it may be told to people as a fact.
    pub fn is_stated(self) -> bool {
        self.confidence() > Some(Confidence::Memory)
    }
}

fn letter(word: &str) -> Option<Confidence> {
    Some(match word {
        "K" => Confidence::Memory,
        "P" => Confidence::Page,
        "M" => Confidence::Mail,
        "S" => Confidence::Source,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Version;

    const TABLES: [Table; 7] = [FEATURES, TUNABLES, REGRESSIONS, KTHREADS, WORKQUEUES, crate::KNOBS, crate::BUGS];

    /// The first version in a text such as `~4.1`, `<=3.10`, `5.15?-6.5` or `between 6.13 and 7.2`.
    fn version_in(text: &str) -> Option<Version> {
        text.split(|c: char| !c.is_ascii_digit() && c != '.').find_map(|word| word.parse().ok())
    }

    #[test]
    fn every_row_has_all_columns_a_source_and_a_confidence() {
        for table in TABLES {
            let columns = table.columns().count();
            for row in table.rows() {
                assert_eq!(row.line.split('\t').count(), columns, "{}", row.line);
                assert!(!row.name().is_empty() && row.get("source").is_some(), "{}", row.line);
                assert!(row.confidence().is_some(), "{}", row.line);
            }
        }
        assert_eq!(TABLES.map(|table| table.rows().count()), [45, 34, 45, 23, 17, 56, 8]);
    }

    #[test]
    fn versions_parse_and_a_feature_is_not_removed_before_it_is_added() {
        for row in FEATURES.rows() {
            let added = row.get("added").and_then(version_in);
            let named = row.get("added").is_some_and(|text| text.starts_with("between"));
            assert!(added.is_some() || named, "{}", row.name());
            if let (Some(added), Some(removed)) = (added, row.get("removed")) {
                let removed = version_in(removed).unwrap_or_else(|| panic!("{}: {removed}", row.name()));
                assert!(removed.is_at_least(added.major, added.minor), "{}", row.name());
            }
        }
        for row in TUNABLES.rows() {
            let versions = row.get("kernel_versions").unwrap_or_default();
            assert!(versions == "-" || version_in(versions).is_some(), "{}: {versions}", row.name());
        }
    }

    #[test]
    fn names_are_unique_where_they_identify() {
        for table in [FEATURES, REGRESSIONS, KTHREADS, WORKQUEUES, crate::BUGS] {
            let names: BTreeSet<_> = table.rows().map(Row::name).collect();
            assert_eq!(names.len(), table.rows().count());
        }
    }

    #[test]
    fn what_is_known_from_memory_alone_is_not_stated() {
        let leads: Vec<_> =
            TABLES.into_iter().flat_map(Table::rows).filter(|row| !row.is_stated()).map(Row::name).collect();
        assert_eq!(leads, ["OWNER_SPIN", "NUMA_FAVOUR_HIGHER / NUMA_RESIST_LOWER"]);
        assert_eq!(FEATURES.row("PLACE_LAG").and_then(Row::confidence), Some(Confidence::Source));
        assert_eq!(TUNABLES.row("base_slice_ns").and_then(|row| row.get("unit")), Some("ns"));
        assert_eq!(
            REGRESSIONS.row("R45").and_then(|row| row.get("bad_version")),
            Some("6.13 .. 6.18.44, stable 6.12.y")
        );
    }
}
