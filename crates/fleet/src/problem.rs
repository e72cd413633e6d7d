//! Problems to report, with a limit on their number: hosts can create any number of bad files.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// Something wrong, which was left alone.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Debug)]
pub struct Problem {
    /// The path below the store.
    pub path: PathBuf,
    /// What is wrong.
    pub why: String,
    /// How many more of its kind in the same directory are not listed.
    #[serde(skip_serializing_if = "is_none")]
    pub more: u64,
    #[serde(skip)]
    kind: Kind,
}

/// Maximum problems of a kind listed for a directory.
const MAX_LISTED_OF_A_KIND: usize = 10;
/// Maximum problems listed in total.
const MAX_LISTED: usize = 1000;

/// What is expected in a place.
const EXPECTED_PLACE: &str = "left alone: its rows are in no hour; expected table=…/date=YYYY-MM-DD/hour=HH/*.parquet";

/// Kinds of problems, which are limited separately.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Kind {
    /// A file.
    File,
    /// A file that no commit lists.
    Commit,
    /// A data file's name that is no host's file.
    Link,
    /// A name that no file of a table can have.
    Name,
    /// A directory, or a file outside of an hour.
    Place,
    /// A compactor's file in the store's own directory.
    Store,
    /// Problems that are not listed.
    Rest,
}

fn is_none(more: &u64) -> bool {
    *more == 0
}

impl Problem {
    /// A problem with a file.
    pub(crate) fn new(path: impl AsRef<Path>, why: &str) -> Problem {
        Problem::of(Kind::File, path, why)
    }

    pub(crate) fn of(kind: Kind, path: impl AsRef<Path>, why: &str) -> Problem {
        Problem { path: path.as_ref().to_owned(), why: why.to_owned(), more: 0, kind }
    }

    /// Names in a table's directory that are not dates or hours; one problem for all of them.
    pub(crate) fn stray(below: &Path, mut names: Vec<String>) -> Option<Problem> {
        // Other programs' files by convention, or files that are still being copied.
        names.retain(|name| !name.starts_with(['.', '_']));
        Problem::one_of_many(Kind::Place, below, &names, EXPECTED_PLACE)
    }

    /// Names in a directory that no file of a table can have, escaped.
    pub(crate) fn strange_name(below: &Path, names: Vec<String>) -> Option<Problem> {
        Problem::one_of_many(Kind::Name, below, &names, "left alone: its name has control characters or is no UTF-8")
    }

    fn one_of_many(kind: Kind, below: &Path, names: &[String], why: &str) -> Option<Problem> {
        let first = names.iter().min()?;
        let others = match names.len() - 1 {
            0 => String::new(),
            others => format!(", as {others} more beside it"),
        };
        Some(Problem::of(kind, below.join(first), &format!("{why}{others}")))
    }

    /// Lists it, or counts it if there are enough of its kind.
    pub(crate) fn add(self, problems: &mut Vec<Problem>) {
        let is_alike = |other: &Problem| other.kind == self.kind && other.path.parent() == self.path.parent();
        let alike: Vec<usize> = (0..problems.len()).filter(|at| is_alike(&problems[*at])).collect();
        let is_said = |at: &usize| (&problems[*at].path, &problems[*at].why) == (&self.path, &self.why);
        if alike.iter().any(is_said) {
            return;
        }
        let more = 1 + self.more;
        match alike.last().filter(|_| alike.len() >= MAX_LISTED_OF_A_KIND) {
            Some(last) => problems[*last].more += more,
            None if problems.len() < MAX_LISTED => problems.push(self),
            None => Problem::rest(problems).more += more,
        }
    }

    /// The last entry, which counts the problems that are not listed.
    fn rest(problems: &mut Vec<Problem>) -> &mut Problem {
        if problems.len() == MAX_LISTED {
            problems.push(Problem::of(Kind::Rest, "", "more is wrong elsewhere than is listed"));
        }
        &mut problems[MAX_LISTED]
    }
}

/// Adds the problems of one hour to those of others.
pub(crate) fn add_all(problems: &mut Vec<Problem>, more: Vec<Problem>) {
    more.into_iter().for_each(|problem| problem.add(problems));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_of_a_kind_are_listed_and_the_rest_is_counted() {
        let mut problems = Vec::new();
        for at in 0..20_000 {
            Problem::of(Kind::Commit, format!("hour/{at:05}"), "passed over").add(&mut problems);
        }
        // Reported before.
        Problem::of(Kind::Commit, "hour/00003", "passed over").add(&mut problems);
        // They hide no other kind and no other directory.
        Problem::new("hour/file", "damaged").add(&mut problems);
        Problem::of(Kind::Commit, "other/00000", "passed over").add(&mut problems);
        assert_eq!(
            (problems.len(), problems[9].more),
            (MAX_LISTED_OF_A_KIND + 2, 20_000 - MAX_LISTED_OF_A_KIND as u64)
        );
        assert_eq!(problems.iter().map(|problem| problem.more).sum::<u64>(), 20_000 - MAX_LISTED_OF_A_KIND as u64);
        // Many directories do not fill memory either.
        for at in 0..5000 {
            Problem::of(Kind::Place, format!("table=a{at}/x"), "left alone").add(&mut problems);
        }
        assert_eq!(problems.len(), MAX_LISTED + 1);
        assert_eq!(
            (problems[MAX_LISTED].more, problems[MAX_LISTED].kind),
            (4000 + MAX_LISTED_OF_A_KIND as u64 + 2, Kind::Rest)
        );
    }

    #[test]
    fn what_is_not_listed_is_counted_in_json_too() {
        let mut problem = Problem::new("a", "damaged");
        assert_eq!(serde_json::to_string(&problem).expect("JSON"), r#"{"path":"a","why":"damaged"}"#);
        problem.more = 7;
        assert_eq!(serde_json::to_string(&problem).expect("JSON"), r#"{"path":"a","why":"damaged","more":7}"#);
    }
}
