//! The tables of `data/`: public knowledge about features, settings and regressions, each row with its source.

use crate::{Holds, Version, span};

/// How reliable a row is: the best letter in its confidence column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Confidence {
    /// `K`: from memory. Such a row is a hint and is never reported: see [`Row::is_stated`].
    Memory,
    /// `P`: from a secondary page.
    Page,
    /// `M`: from a commit or a mail.
    Mail,
    /// `S`: from source code.
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

/// Scheduler feature bits: their defaults by kernel and stable level, and in the source trees that were read.
pub const FEATURES: Table = Table::new(include_str!("../data/features.tsv"), "feature", "confidence_of_dates");

/// Notes on settings: which programs change them, what to know before an upgrade. Paths and defaults by version are those of
/// [`KNOBS`](crate::KNOBS); what this table repeats of them is for its readers, and a test compares the defaults.
pub const TUNABLES: Table = Table::new(include_str!("../data/tunables.tsv"), "tunable", "confidence");

/// Public regressions: cause, workload, effect, fix, how a tool can detect them.
pub const REGRESSIONS: Table = Table::new(include_str!("../data/regressions.tsv"), "id", "confidence");

/// Kinds of kernel threads: policy, nice, whether they are per-CPU.
pub const KTHREADS: Table = Table::new(include_str!("../data/kthreads.tsv"), "class", "confidence");

/// Workqueues that complete I/O or packets, and how their workers run.
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

    /// The row with this name; the first if there are several.
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

    /// How reliable it is; `None` if the column has none of the letters.
    pub fn confidence(self) -> Option<Confidence> {
        let text = self.get(self.table.confidence)?;
        // The letter stands alone or before a parenthesis: `S(5.10) M (mail read)`.
        text.split(|c: char| !c.is_ascii_alphanumeric()).filter_map(letter).max()
    }

    /// Whether the row applies to a kernel; `None` if it does not say to which kernels it applies.
    pub fn holds_on(self, version: Version) -> Option<Holds> {
        span::has_one(self).then(|| span::holds_on(self, version))
    }

    /// The stable levels of a kernel's series from which on it applies and no longer applies; `None` where the row names
    /// no level of that series.
    pub fn levels_in(self, version: Version) -> (Option<Version>, Option<Version>) {
        span::levels(self, version)
    }

    /// The kernels to which it applies, in words: `Linux 6.12 to 6.16 have it; it is fixed in 6.12.92`. `None` if the
    /// row does not say.
    pub fn kernels(self) -> Option<String> {
        span::words(self)
    }

    /// Whether the source is better than memory, so that it may be reported as a fact.
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

    const TABLES: [Table; 8] =
        [FEATURES, TUNABLES, REGRESSIONS, KTHREADS, WORKQUEUES, crate::KNOBS, crate::BUGS, crate::POLLERS];

    /// The first version in a text such as `>=5.9`, `3.10..7.2` or `<=6.6`.
    fn version_in(text: &str) -> Option<Version> {
        text.split(|c: char| !c.is_ascii_digit() && c != '.').find_map(|word| word.parse().ok())
    }

    /// Whether others can look it up: a commit, a mail, an address, a file of the kernel, a changelog.
    fn can_be_looked_up(source: &str) -> bool {
        let is_commit = |word: &str| word.len() == 12 && word.bytes().all(|b| b.is_ascii_hexdigit());
        source.split(|c: char| !c.is_ascii_alphanumeric()).any(is_commit)
            || source.contains('@') && source.contains('<')
            || source.split([' ', ';', ',']).any(|word| {
                let (host, path) = word.split_once('/').unwrap_or((word, ""));
                word.ends_with(".com")
                    || host.contains('.') && !path.is_empty()
                    || word.ends_with(".c")
                    || word.ends_with(".h")
            })
            || ["Debian", "changelog", "Documentation/", "arch/", "configurations"]
                .iter()
                .any(|word| source.contains(word))
    }

    #[test]
    fn every_row_has_all_columns_a_source_and_a_confidence() {
        for table in TABLES {
            let columns = table.columns().count();
            for row in table.rows() {
                assert_eq!(row.line.split('\t').count(), columns, "{}", row.line);
                assert!(!row.name().is_empty() && row.get("source").is_some(), "{}", row.line);
                assert!(row.is_stated(), "known from memory alone: {}", row.line);
                let source = row.get("source").unwrap_or_default();
                assert!(can_be_looked_up(source), "{}: {source}", row.name());
            }
        }
        assert_eq!(TABLES.map(|table| table.rows().count()), [43, 34, 47, 26, 21, 57, 10, 8]);
    }

    #[test]
    fn every_version_and_every_stable_level_parses() {
        for row in TUNABLES.rows() {
            let versions = row.get("kernel_versions").unwrap_or_default();
            assert!(versions == "-" || version_in(versions).is_some(), "{}: {versions}", row.name());
        }
        for row in REGRESSIONS.rows().chain(crate::BUGS.rows()) {
            let list = |column: &str| -> Vec<Version> {
                let texts = row.get(column).unwrap_or_default().split(' ').filter(|text| !text.is_empty());
                texts.map(|text| text.parse().unwrap_or_else(|_| panic!("{}: {column}: {text}", row.name()))).collect()
            };
            assert!(list("since").len() <= 1 && list("until").len() <= 1, "{}", row.name());
            for version in list("also_from").into_iter().chain(list("fixed_in")) {
                assert!(version.patch.is_some(), "{}: a stable level, not {version}", row.name());
            }
            if let ([since], [until]) = (list("since").as_slice(), list("until").as_slice()) {
                assert!(until.is_at_least(since.major, since.minor), "{}", row.name());
            }
        }
    }

    /// Numbers outside of parentheses: `750000 (6.6..6.14); 700000 (>=6.15)`.
    fn defaults_in(text: &str) -> BTreeSet<&str> {
        let outside = text.split('(').map(|part| part.rsplit(')').next().unwrap_or(part));
        let words = outside.flat_map(|part| part.split([' ', ';', '/']));
        words.filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit())).collect()
    }

    /// Two tables say it: one for programs, one for readers.
    #[test]
    fn defaults_in_the_notes_are_those_of_the_settings() {
        let mut compared = 0;
        for row in TUNABLES.rows() {
            let is_it = |form: &Row| form.name() == row.name() && form.get("default").is_some();
            let mut forms = crate::KNOBS.rows().filter(is_it).peekable();
            let noted = defaults_in(row.get("base_default").unwrap_or_default());
            if forms.peek().is_none() || noted.is_empty() {
                continue;
            }
            let known: Vec<Row> = forms.collect();
            for default in noted {
                let is_known = known.iter().any(|form| form.get("default") == Some(default));
                assert!(is_known, "{}: {default}", row.name());
            }
            for level in known.iter().flat_map(|form| form.get("stable_from").unwrap_or_default().split(' ')) {
                let said = row.get("base_default").unwrap_or_default();
                assert!(said.contains(level), "{}: from {level} on, {said}", row.name());
            }
            compared += 1;
        }
        assert!(compared >= 12, "{compared}");
    }

    #[test]
    fn a_bug_and_the_report_of_it_name_the_same_kernels() {
        for bug in crate::BUGS.rows() {
            let report = bug.get("regression").and_then(|id| REGRESSIONS.row(id)).expect("a report");
            // The report about a balance that moves user tasks names no good kernel.
            if report.holds_on(Version::series(6, 12)).is_none() {
                continue;
            }
            for column in ["since", "until", "also_from", "fixed_in", "unclear_in"] {
                assert_eq!(bug.get(column), report.get(column), "{}: {column}", bug.name());
            }
        }
    }

    #[test]
    fn names_are_unique_where_they_identify() {
        for table in [FEATURES, REGRESSIONS, KTHREADS, WORKQUEUES, crate::BUGS, crate::POLLERS] {
            let names: BTreeSet<_> = table.rows().map(Row::name).collect();
            assert_eq!(names.len(), table.rows().count());
        }
    }

    #[test]
    fn the_best_letter_counts() {
        assert_eq!(FEATURES.row("PLACE_LAG").and_then(Row::confidence), Some(Confidence::Source));
        assert_eq!(TUNABLES.row("base_slice_ns").and_then(|row| row.get("unit")), Some("ns"));
    }
}
