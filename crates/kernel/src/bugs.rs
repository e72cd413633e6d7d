use crate::facts::UNKNOWN_VERSION;
use crate::{Facts, Holds, Row, Table, Version};

/// Known starvation bugs and the kernels that have them.
pub const BUGS: Table = Table::new(include_str!("../data/bugs.tsv"), "bug", "confidence");

/// A row of [`BUGS`].
#[derive(Clone, Copy, Debug)]
pub struct Bug(Row);

impl Bug {
    /// A row that may be told to people.
    pub fn of(row: Row) -> Option<Bug> {
        row.is_stated().then_some(Bug(row))
    }

    /// Its id.
    pub fn id(self) -> &'static str {
        self.0.name()
    }

    fn text(self, column: &str) -> &'static str {
        self.0.get(column).unwrap_or_default()
    }

    /// `critical`, `warning` or `info`.
    pub fn severity(self) -> &'static str {
        self.text("severity")
    }

    /// One sentence.
    pub fn says(self) -> &'static str {
        self.text("says")
    }

    /// What people see.
    pub fn symptom(self) -> &'static str {
        self.text("symptom")
    }

    /// The change that brought it.
    pub fn cause(self) -> &'static str {
        self.text("cause")
    }

    /// What helps.
    pub fn fix(self) -> &'static str {
        self.text("fix")
    }

    /// The command that helps, if there is one.
    pub fn command(self) -> &'static str {
        self.text("command")
    }

    /// The command that takes that back.
    pub fn undo(self) -> &'static str {
        self.text("undo")
    }

    /// What a host must have for it to matter; empty is nothing.
    pub fn needs(self) -> &'static str {
        self.text("needs")
    }

    /// Where this is known from.
    pub fn source(self) -> &'static str {
        self.text("source")
    }

    /// Whether the kernel has the bug: its series, and where the row names stable levels, that level. A feature bit that
    /// is off or absent rules it out.
    pub fn affects(self, facts: &Facts<'_>) -> Holds {
        const LEVEL: &str = "the stable level of this kernel, which its release does not say";
        const CHANGELOG: &str =
            "the changelog of this kernel: the fix went to its series at a level that is not established";
        let Some(version) = facts.version() else { return UNKNOWN_VERSION };
        if self.is_switched_off(facts) {
            return Holds::No;
        }
        if self.0.get("unclear_in").is_some_and(|list| list.split(' ').any(|text| same_series(text, version))) {
            return Holds::Depends(CHANGELOG);
        }
        let fixed = level_in(self.text("fixed_in"), version);
        let begun = level_in(self.text("also_from"), version);
        if begun.is_none() && !self.is_in_series(version) {
            return Holds::No;
        }
        match (version.patch, begun, fixed) {
            (_, None, None) => Holds::Yes,
            (Some(level), begun, fixed) => {
                Holds::when(begun.is_none_or(|first| level >= first) && fixed.is_none_or(|first| level < first))
            }
            (None, _, _) => Holds::Depends(LEVEL),
        }
    }

    fn is_switched_off(self, facts: &Facts<'_>) -> bool {
        let features = facts.snapshot.and_then(|snapshot| snapshot.features.as_ref());
        match (self.0.get("feature"), features) {
            (Some(name), Some(features)) => features.get(name) != Some(&true),
            _ => false,
        }
    }

    fn is_in_series(self, version: Version) -> bool {
        let bound = |column: &str| self.text(column).parse::<Version>().ok();
        let (Some(since), Some(until)) = (bound("since"), bound("until")) else { return false };
        version.is_at_least(since.major, since.minor) && (version.major, version.minor) <= (until.major, until.minor)
    }
}

fn same_series(text: &str, version: Version) -> bool {
    text.parse::<Version>().is_ok_and(|other| (other.major, other.minor) == (version.major, version.minor))
}

/// The stable level that a list such as `6.12.43 6.1.149` names for the series of `version`.
fn level_in(list: &str, version: Version) -> Option<u32> {
    list.split(' ').filter(|text| same_series(text, version)).find_map(|text| text.parse::<Version>().ok()?.patch)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn which_kernels_have_which_bug() {
        let releases = ["5.10.30", "5.10.223", "5.3.8", "5.3.9", "6.1.0-32-amd64", "6.1.150", "6.1.176", "6.6.30"];
        let later = ["6.12.20", "6.12.50", "6.12.107", "6.17.3", "6.18.44", "6.18.45", "7.2.13", "?"];
        let mut table = String::new();
        for release in releases.into_iter().chain(later) {
            let facts = Facts::of_release(Some(release));
            let reweight = BUGS.row("reweight-lag").and_then(Bug::of).expect("a row").affects(&facts);
            let stated = facts.reweight_starves_workers();
            assert_eq!(std::mem::discriminant(&reweight), std::mem::discriminant(&stated), "{release}: said twice");
            let bugs = BUGS.rows().filter_map(Bug::of).filter_map(|bug| match bug.affects(&facts) {
                Holds::Yes => Some(bug.id().to_owned()),
                Holds::Depends(_) if release != "?" => Some(format!("{}?", bug.id())),
                _ => None,
            });
            table += &format!("{release:<15} {}\n", bugs.collect::<Vec<_>>().join(" "));
        }
        insta::assert_snapshot!(table, @"
        5.10.30         rt-push-ipi pinned-kthread-imbalance
        5.10.223        rt-push-ipi
        5.3.8           rt-push-ipi quota-expiry pinned-kthread-imbalance
        5.3.9           rt-push-ipi pinned-kthread-imbalance
        6.1.0-32-amd64  newidle-cost? rt-push-ipi?
        6.1.150         newidle-cost rt-push-ipi?
        6.1.176         rt-push-ipi?
        6.6.30          yield-deadline? idle-slice? rt-push-ipi
        6.12.20         reweight-lag? yield-deadline idle-slice rt-push-ipi dl-server-cost
        6.12.50         reweight-lag? newidle-cost yield-deadline rt-push-ipi dl-server-cost
        6.12.107        reweight-lag?
        6.17.3          reweight-lag newidle-cost yield-deadline rt-push-ipi
        6.18.44         reweight-lag newidle-cost yield-deadline? rt-push-ipi
        6.18.45         newidle-cost yield-deadline? rt-push-ipi
        7.2.13          
        ?
        ");
    }

    #[test]
    fn every_row_is_whole() {
        for row in BUGS.rows() {
            let bug = Bug::of(row).expect("known better than from memory");
            assert!(["critical", "warning", "info"].contains(&bug.severity()), "{}", bug.id());
            for column in ["since", "until"] {
                assert!(row.get(column).is_some_and(|text| text.parse::<Version>().is_ok()), "{}: {column}", bug.id());
            }
            for column in ["also_from", "fixed_in", "unclear_in"] {
                for text in row.get(column).unwrap_or_default().split(' ').filter(|text| !text.is_empty()) {
                    let version: Version = text.parse().expect("a version");
                    assert!(column == "unclear_in" || version.patch.is_some(), "{}: {text}", bug.id());
                }
            }
            let regression = row.get("regression").and_then(|id| crate::REGRESSIONS.row(id));
            assert!(regression.is_some(), "{}: {:?}", bug.id(), row.get("regression"));
            assert_eq!(bug.command().is_empty(), bug.undo().is_empty(), "{}", bug.id());
        }
    }
}
