//! Known starvation bugs of the kernel.

use crate::facts::UNKNOWN_VERSION;
use crate::{Facts, Holds, Row, Table, span};

/// Known starvation bugs and the kernels that have them.
pub const BUGS: Table = Table::new(include_str!("../data/bugs.tsv"), "bug", "confidence");

/// A row of [`BUGS`].
#[derive(Clone, Copy, Debug)]
pub struct Bug(Row);

impl Bug {
    /// The row as a bug, if its source is good enough to be reported.
    pub fn of(row: Row) -> Option<Bug> {
        row.is_stated().then_some(Bug(row))
    }

    /// Bugs by which a task of the fair class waits behind an equal for long.
    pub fn that_look_like_an_equal() -> impl Iterator<Item = Bug> {
        const IDS: [&str; 5] = ["reweight-lag", "zero-vruntime", "yield-leapfrog", "yield-deadline", "idle-slice"];
        IDS.into_iter().filter_map(|id| BUGS.row(id).and_then(Bug::of))
    }

    /// Its id.
    pub fn id(self) -> &'static str {
        self.0.name()
    }

    fn text(self, column: &str) -> &'static str {
        self.0.get(column).unwrap_or_default()
    }

    /// Its row.
    pub fn row(self) -> Row {
        self.0
    }

    /// The id of the public report about it in [`crate::REGRESSIONS`].
    pub fn report(self) -> &'static str {
        self.text("regression")
    }

    /// `critical`, `warning` or `info`.
    pub fn severity(self) -> &'static str {
        self.text("severity")
    }

    /// What it does, in one sentence.
    pub fn says(self) -> &'static str {
        self.text("says")
    }

    /// What users see.
    pub fn symptom(self) -> &'static str {
        self.text("symptom")
    }

    /// The commit that introduced it.
    pub fn cause(self) -> &'static str {
        self.text("cause")
    }

    /// What helps.
    pub fn fix(self) -> &'static str {
        self.text("fix")
    }

    /// The scheduler feature bit to turn off to reduce the harm, if there is one.
    pub fn turn_off(self) -> Option<&'static str> {
        self.0.get("turn_off")
    }

    /// What a host must have for the bug to matter; empty if nothing special.
    pub fn needs(self) -> &'static str {
        self.text("needs")
    }

    /// The source of this knowledge.
    pub fn source(self) -> &'static str {
        self.text("source")
    }

    /// Whether the kernel has the bug: by its series, and by its stable level if the row names levels. Not if the
    /// feature bit that the bug needs is off or absent.
    pub fn affects(self, facts: &Facts<'_>) -> Holds {
        const DEFAULT: &str = "whether this kernel has the feature on, which is not established for its version";
        let Some(version) = facts.version() else { return UNKNOWN_VERSION };
        match (span::holds_on(self.0, version), self.switch(facts)) {
            (_, Switch::Off) => Holds::No,
            (Holds::Yes, Switch::NotKnown) => Holds::Depends(DEFAULT),
            (holds, _) => holds,
        }
    }

    /// The state of the feature bit that the bug needs. Unknown in a preview of another kernel does not mean off.
    fn switch(self, facts: &Facts<'_>) -> Switch {
        let Some(snapshot) = facts.snapshot else { return Switch::On };
        match (self.0.get("feature"), &snapshot.features) {
            (Some(name), Some(_)) if snapshot.undecided_features.contains(name) => Switch::NotKnown,
            (Some(name), Some(features)) if features.get(name) != Some(&true) => Switch::Off,
            _ => Switch::On,
        }
    }
}

enum Switch {
    /// On, or the bug needs none, or the bits could not be read.
    On,
    Off,
    NotKnown,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn which_kernels_have_which_bug() {
        let releases = [
            "5.3.8",
            "5.3.9",
            "5.4.117",
            "5.4.118",
            "5.10.30",
            "5.10.223",
            "5.10.261",
            "5.15.212",
            "6.1.0-32-amd64",
            "6.1.148",
            "6.1.149",
            "6.1.159",
            "6.1.160",
            "6.1.178",
            "6.6.30",
            "6.6.110",
            "6.6.120",
            "6.6.145",
            "6.12",
            "6.12.20",
            "6.12.23",
            "6.12.50",
            "6.12.64",
            "6.12.77",
            "6.12.78",
            "6.12.81",
            "6.12.92",
            "6.12.107",
            "6.14.1",
            "6.14.2",
            "6.16.1",
            "6.16.2",
            "6.17.3",
            "6.17.13",
            "6.18",
            "6.18.2",
            "6.18.3",
            "6.18.4",
            "6.18.17",
            "6.18.22",
            "6.18.39",
            "6.18.44",
            "6.18.45",
            "6.19.6",
            "6.19.7",
            "6.19.11",
            "6.19.12",
            "6.19.14",
            "7.0.0",
            "7.0.9",
            "7.1.3",
            "7.1.4",
            "7.2.13",
            "?",
        ];
        let mut table = String::new();
        for release in releases {
            let facts = Facts::of_release(Some(release));
            let bugs = BUGS.rows().filter_map(Bug::of).filter_map(|bug| match bug.affects(&facts) {
                Holds::Yes => Some(bug.id().to_owned()),
                Holds::Depends(_) if release != "?" => Some(format!("{}?", bug.id())),
                _ => None,
            });
            table += &format!("{release:<15} {}\n", bugs.collect::<Vec<_>>().join(" "));
        }
        insta::assert_snapshot!(table, @"
        5.3.8           rt-push-ipi quota-expiry pinned-kthread-imbalance
        5.3.9           rt-push-ipi pinned-kthread-imbalance
        5.4.117         rt-push-ipi pinned-kthread-imbalance
        5.4.118         rt-push-ipi
        5.10.30         rt-push-ipi pinned-kthread-imbalance
        5.10.223        rt-push-ipi
        5.10.261        
        5.15.212        
        6.1.0-32-amd64  newidle-cost? rt-push-ipi?
        6.1.148         rt-push-ipi
        6.1.149         newidle-cost rt-push-ipi
        6.1.159         newidle-cost rt-push-ipi
        6.1.160         rt-push-ipi
        6.1.178         
        6.6.30          yield-deadline? idle-slice? rt-push-ipi
        6.6.110         newidle-cost yield-deadline? idle-slice? rt-push-ipi
        6.6.120         yield-deadline? idle-slice? rt-push-ipi
        6.6.145         yield-deadline? idle-slice?
        6.12            newidle-cost? yield-deadline? idle-slice? rt-push-ipi? dl-server-cost? zero-vruntime? yield-leapfrog?
        6.12.20         yield-deadline idle-slice rt-push-ipi dl-server-cost
        6.12.23         yield-deadline rt-push-ipi dl-server-cost
        6.12.50         newidle-cost yield-deadline rt-push-ipi dl-server-cost
        6.12.64         rt-push-ipi dl-server-cost zero-vruntime
        6.12.77         rt-push-ipi dl-server-cost zero-vruntime
        6.12.78         rt-push-ipi dl-server-cost yield-leapfrog
        6.12.81         rt-push-ipi dl-server-cost
        6.12.92         rt-push-ipi
        6.12.107        
        6.14.1          reweight-lag yield-deadline idle-slice rt-push-ipi dl-server-cost
        6.14.2          reweight-lag yield-deadline rt-push-ipi dl-server-cost
        6.16.1          reweight-lag yield-deadline rt-push-ipi dl-server-cost
        6.16.2          reweight-lag newidle-cost yield-deadline rt-push-ipi dl-server-cost
        6.17.3          reweight-lag newidle-cost yield-deadline rt-push-ipi
        6.17.13         reweight-lag newidle-cost rt-push-ipi
        6.18            reweight-lag? newidle-cost? yield-deadline? rt-push-ipi? zero-vruntime? yield-leapfrog?
        6.18.2          reweight-lag newidle-cost yield-deadline? rt-push-ipi
        6.18.3          reweight-lag yield-deadline? rt-push-ipi
        6.18.4          reweight-lag yield-deadline? rt-push-ipi zero-vruntime
        6.18.17         reweight-lag rt-push-ipi yield-leapfrog
        6.18.22         reweight-lag rt-push-ipi
        6.18.39         reweight-lag
        6.18.44         reweight-lag
        6.18.45         
        6.19.6          reweight-lag rt-push-ipi zero-vruntime
        6.19.7          reweight-lag rt-push-ipi yield-leapfrog
        6.19.11         reweight-lag rt-push-ipi yield-leapfrog
        6.19.12         reweight-lag? rt-push-ipi
        6.19.14         reweight-lag? rt-push-ipi
        7.0.0           reweight-lag rt-push-ipi
        7.0.9           reweight-lag? rt-push-ipi
        7.1.3           rt-push-ipi
        7.1.4           
        7.2.13          
        ?
        ");
    }

    #[test]
    fn a_preview_that_does_not_know_a_feature_does_not_call_it_off() {
        let json = r#"{"schema":"unstarve.snapshot/1","kernel":{"release":"6.1.176"},"features":{"RT_PUSH_IPI":true}}"#;
        let host = crate::Snapshot::from_json(json).expect("a snapshot");
        let bug = BUGS.row("rt-push-ipi").and_then(Bug::of).expect("a row");
        let word = |text: &str| match bug.affects(&Facts::of_host(&host.under(text.parse().expect("a version")))) {
            Holds::Yes => "has it",
            Holds::No => "has it not",
            Holds::Depends(_) => "not known",
        };
        let of = |versions: &[&str]| versions.iter().map(|text| word(text)).collect::<BTreeSet<_>>();
        assert_eq!(
            of(&["5.4", "5.4.290", "5.10.200", "5.19", "6.5", "6.8", "6.14", "6.17", "6.19", "7.0"]),
            ["has it"].into()
        );
        assert_eq!(of(&["5.10", "5.15", "6.1", "6.6", "6.12", "6.18", "7.1"]), ["not known"].into());
        assert_eq!(of(&["5.10.261", "6.1.178", "6.12.96", "7.1.4", "7.2"]), ["has it not"].into());
        for row in crate::FEATURES.rows() {
            for text in ["5.4", "5.10", "5.12", "5.15", "6.1", "6.6", "6.12", "6.18", "7.1", "7.2", "6.12.107"] {
                let version = text.parse().expect("a version");
                let (name, preview) = (row.name().split(' ').next().unwrap_or_default(), host.under(version));
                let stated = preview.features.as_ref().and_then(|features| features.get(name)).copied();
                let known = match crate::feature_at(row, version) {
                    crate::FeatureState::On => Some(true),
                    crate::FeatureState::Off => Some(false),
                    _ => None,
                };
                assert_eq!(stated, known, "{name} in {text}");
                let is_open = matches!(
                    crate::feature_at(row, version),
                    crate::FeatureState::Unknown(_) | crate::FeatureState::Depends(_)
                );
                assert_eq!(preview.undecided_features.contains(name), is_open, "{name} in {text}");
            }
        }
    }

    #[test]
    fn every_row_is_whole() {
        for row in BUGS.rows() {
            let bug = Bug::of(row).expect("known better than from memory");
            assert!(["critical", "warning", "info"].contains(&bug.severity()), "{}", bug.id());
            assert!(row.get("since").is_some() && row.get("until").is_some(), "{}", bug.id());
            let regression = row.get("regression").and_then(|id| crate::REGRESSIONS.row(id));
            assert!(regression.is_some(), "{}: {:?}", bug.id(), row.get("regression"));
            let feature = bug.turn_off().is_none_or(|name| crate::FEATURES.row(name).is_some());
            assert!(feature, "{}: {:?} is no feature", bug.id(), bug.turn_off());
        }
    }
}
