use crate::{FEATURES, Row, Version};

/// Whether a kernel has a feature bit of the scheduler, and how it is by default.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FeatureState {
    /// There and on.
    On,
    /// There and off.
    Off,
    /// Not there.
    Absent,
    /// It depends: on the build, or on a stable level. The text is the table's.
    Depends(&'static str),
}

impl FeatureState {
    /// `on`, `off`, `-`, `depends`.
    pub fn word(self) -> &'static str {
        match self {
            FeatureState::On => "on",
            FeatureState::Off => "off",
            FeatureState::Absent => "-",
            FeatureState::Depends(_) => "depends",
        }
    }
}

/// Trees whose features were read, in the order of the table's columns.
const TREES: [(&str, u32, u32); 4] =
    [("snap_5.10.223", 5, 10), ("snap_6.1.176", 6, 1), ("snap_6.12.107", 6, 12), ("snap_7.2.13", 7, 2)];

/// The state of a feature in a kernel: as it was read in the tree of that series; else by when it was added and removed, and
/// by the trees before and after.
pub fn feature_at(row: Row, version: Version) -> FeatureState {
    let series = (version.major, version.minor);
    if let Some((column, ..)) = TREES.iter().find(|(_, major, minor)| (*major, *minor) == series) {
        return in_tree(row, column);
    }
    if row.get("added").is_some_and(|text| !is_reached(text, version)) {
        return FeatureState::Absent;
    }
    if row.get("removed").is_some_and(|text| is_reached(text, version)) {
        return FeatureState::Absent;
    }
    let before = TREES.iter().rfind(|(_, major, minor)| (*major, *minor) < series);
    let after = TREES.iter().find(|(_, major, minor)| (*major, *minor) > series);
    let near = [before, after].map(|tree| tree.map(|(column, ..)| in_tree(row, column)));
    match near.map(|state| state.filter(|state| *state != FeatureState::Absent)) {
        [Some(a), Some(b)] if a == b => a,
        [Some(a), None] if row.get("default_changes").is_none() => a,
        [None, Some(b)] if row.get("default_changes").is_none() => b,
        _ => by_default(row),
    }
}

fn in_tree(row: Row, column: &'static str) -> FeatureState {
    match row.get(column).unwrap_or("-") {
        "1" => FeatureState::On,
        "0" | "0 (dead)" => FeatureState::Off,
        "-" => FeatureState::Absent,
        "1*" => FeatureState::Depends("the architecture: on with CONFIG_HRTIMER_REARM_DEFERRED, as on x86"),
        other if other.starts_with("0 (1 on RT)") => FeatureState::Off,
        other if other.starts_with("1 (0 on RT)") => FeatureState::On,
        other => FeatureState::Depends(other),
    }
}

fn by_default(row: Row) -> FeatureState {
    match (row.get("default_when_added"), row.get("default_changes")) {
        (_, Some(changes)) => FeatureState::Depends(changes),
        (Some(text), None) if text.starts_with("on") => FeatureState::On,
        (Some("off"), None) => FeatureState::Off,
        (Some(text), None) => FeatureState::Depends(text),
        (None, None) => FeatureState::Depends("its default is not known"),
    }
}

/// Whether a kernel is at least the first version in a text such as `6.6`, `<=3.10`, `~4.11`, `between 6.13 and 7.2`.
fn is_reached(text: &str, version: Version) -> bool {
    if text.starts_with("<=") {
        return true;
    }
    let mut versions =
        text.split(|c: char| !c.is_ascii_digit() && c != '.').filter_map(|word| word.parse::<Version>().ok());
    // Of a range, only the end is sure.
    let sure = if text.starts_with("between") { versions.next_back() } else { versions.next() };
    sure.is_some_and(|first| version.is_at_least(first.major, first.minor))
}

/// The names in a row: one, or a pair that was renamed.
pub(super) fn name(row: Row) -> &'static str {
    row.name().split([' ', '(']).next().unwrap_or_default()
}

/// Rows that may be told to people.
pub(super) fn rows() -> impl Iterator<Item = Row> {
    FEATURES.rows().filter(|row| row.is_stated())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_that_were_read_decide_and_dates_fill_the_rest() {
        let mut table =
            String::from("feature              5.4     5.10    5.15    6.1     6.6     6.12    6.18    7.2\n");
        for name in [
            "GENTLE_FAIR_SLEEPERS",
            "PLACE_LAG",
            "PREEMPT_SHORT",
            "RT_RUNTIME_SHARE",
            "SIS_UTIL",
            "NEXT_BUDDY",
            "HRTICK",
            "NI_RANDOM",
            "UTIL_EST_FASTUP",
        ] {
            let row = FEATURES.row(name).expect("a row");
            let states = ["5.4", "5.10", "5.15", "6.1", "6.6", "6.12", "6.18", "7.2"]
                .map(|text| feature_at(row, text.parse().expect("a version")).word());
            table += &format!("{name:<21}{}\n", states.map(|word| format!("{word:<8}")).concat().trim_end());
        }
        insta::assert_snapshot!(table, @"
        feature              5.4     5.10    5.15    6.1     6.6     6.12    6.18    7.2
        GENTLE_FAIR_SLEEPERS on      on      on      on      -       -       -       -
        PLACE_LAG            -       -       -       -       on      on      on      on
        PREEMPT_SHORT        -       -       -       -       -       on      on      on
        RT_RUNTIME_SHARE     depends off     off     off     off     off     off     off
        SIS_UTIL             -       -       -       on      on      on      on      on
        NEXT_BUDDY           depends off     off     off     off     off     off     off
        HRTICK               depends off     off     off     off     off     depends depends
        NI_RANDOM            -       -       -       depends -       on      -       on
        UTIL_EST_FASTUP      -       on      on      on      on      -       -       -
        ");
    }
}
