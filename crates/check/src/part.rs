//! What kind of thing a hit is, what this host has of it, and to which part of the page it belongs.

use serde::{Deserialize, Serialize};

use crate::hit::{Hit, When};

/// The kind of thing that a hit is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Something on this host starves tasks, or will.
    #[default]
    Problem,
    /// A setting that the kernel does not have.
    Gone,
    /// A setting that has another name on the kernel.
    Renamed,
    /// A setting that is at another path.
    Moved,
    /// A setting whose number means something else.
    Redefined,
    /// A value that no file sets and that a reboot loses.
    Lost,
    /// A default that differs.
    Default,
    /// A known bug of the kernel.
    Bug,
    /// A change of the kernel that was reported to make a load slower.
    Change,
}

/// What this host has of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum OnHost {
    /// The host sets it, or runs what it is about.
    #[default]
    Has,
    /// The host has the default, or it concerns every host.
    Default,
    /// The host does not have it.
    Lacks,
    /// The snapshot does not show it.
    Unknown,
}

/// A part of the page, in the page's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// Problems that the other kernel brings.
    New,
    /// Settings of this host that the other kernel does not take as they are.
    Settings,
    /// Defaults that differ.
    Defaults,
    /// Bugs and changes of the other kernel that hit what this host runs.
    Hits,
    /// Bugs and changes that some stable levels of the other kernel have.
    Levels,
    /// What is wrong today, and stays.
    Today,
    /// What the other kernel ends.
    Ends,
    /// Changes that were reported for loads that this host does not run.
    OtherLoads,
    /// Changes of which a snapshot does not show whether they hit.
    Unseen,
}

impl Part {
    /// All parts, in the page's order.
    pub const ALL: [Part; 9] = [
        Part::New,
        Part::Settings,
        Part::Defaults,
        Part::Hits,
        Part::Levels,
        Part::Today,
        Part::Ends,
        Part::OtherLoads,
        Part::Unseen,
    ];

    /// The part for a hit. `is_certain` is whether the kernel certainly has it, whatever its stable level.
    pub fn of(kind: Kind, host: OnHost, holds: Option<When>, is_certain: bool) -> Part {
        match (holds, kind, host) {
            (None | Some(When::Both), ..) => Part::Today,
            (Some(When::Now), ..) => Part::Ends,
            (_, _, OnHost::Lacks) => Part::OtherLoads,
            (_, _, OnHost::Unknown) => Part::Unseen,
            (_, Kind::Problem, _) => Part::New,
            (_, Kind::Default, _) => Part::Defaults,
            (_, Kind::Bug | Kind::Change, _) => {
                if is_certain {
                    Part::Hits
                } else {
                    Part::Levels
                }
            }
            (_, _, OnHost::Default) => Part::Defaults,
            (_, Kind::Gone | Kind::Renamed | Kind::Moved | Kind::Redefined | Kind::Lost, OnHost::Has) => Part::Settings,
        }
    }

    /// Whether it is there because of the upgrade.
    pub fn is_of_the_upgrade(self) -> bool {
        matches!(self, Part::New | Part::Settings | Part::Defaults | Part::Hits | Part::Levels)
    }
}

impl Hit {
    /// The part of the page to which it belongs.
    pub fn part(&self) -> Part {
        Part::of(self.kind, self.on_host, self.holds, self.levels.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kind, then the part for a host that has it, has the default, lacks it, and of which it is not known.
    const PARTS_OF_THE_PAGE: &str = "
        problem    new       new       other-loads unseen
        gone       settings  defaults  other-loads unseen
        renamed    settings  defaults  other-loads unseen
        moved      settings  defaults  other-loads unseen
        redefined  settings  defaults  other-loads unseen
        lost       settings  defaults  other-loads unseen
        default    defaults  defaults  other-loads unseen
        bug        hits      hits      other-loads unseen
        change     hits      hits      other-loads unseen
    ";

    fn part_named(word: &str) -> Part {
        match word {
            "new" => Part::New,
            "settings" => Part::Settings,
            "defaults" => Part::Defaults,
            "hits" => Part::Hits,
            "other-loads" => Part::OtherLoads,
            "unseen" => Part::Unseen,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn every_kind_on_every_host_has_its_part() {
        let hosts = [OnHost::Has, OnHost::Default, OnHost::Lacks, OnHost::Unknown];
        let mut rows = 0;
        for line in PARTS_OF_THE_PAGE.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let mut words = line.split_whitespace();
            let kind: Kind = serde_json::from_value(words.next().expect("a kind").into()).expect("a kind");
            for (host, word) in hosts.into_iter().zip(words) {
                let part = |holds, is_certain| Part::of(kind, host, holds, is_certain);
                let expected = part_named(word);
                assert_eq!(part(Some(When::After), true), expected, "{kind:?} {host:?}");
                let by_level = if expected == Part::Hits { Part::Levels } else { expected };
                assert_eq!(part(Some(When::After), false), by_level, "{kind:?} {host:?}");
                for is_certain in [false, true] {
                    assert_eq!(part(None, is_certain), Part::Today);
                    assert_eq!(part(Some(When::Both), is_certain), Part::Today);
                    assert_eq!(part(Some(When::Now), is_certain), Part::Ends);
                }
            }
            rows += 1;
        }
        assert_eq!(rows, 9);
    }
}
