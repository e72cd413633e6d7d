//! On which kernels something holds, by the columns `since`, `until`, `also_from`, `fixed_in` and `unclear_in` of a row.

use crate::{Holds, Row, Version};

/// What would settle it where the stable level of a kernel decides and is not known.
pub(crate) const LEVEL: &str = "the stable level of this kernel, which its release does not say";
const CHANGELOG: &str =
    "the changelog of this kernel: from which level of its series on this changed is not established";

/// Whether what a row says holds on a kernel: in the series from `since` to `until` (to this day if that is empty), and in
/// the stable series that took it over, from the level in `also_from`; up to the level in `fixed_in`. A series that
/// `unclear_in` names cannot be told, or only below the level that it names.
pub(crate) fn holds_on(row: Row, version: Version) -> Holds {
    let level = |column: &str| entries(row, column, version).find_map(|entry| entry.patch);
    let (begun, fixed) = (level("also_from"), level("fixed_in"));
    let unclear = entries(row, "unclear_in", version).next();
    if unclear.is_none() && begun.is_none() && !is_in_series(row, version) {
        return Holds::No;
    }
    let Some(patch) = version.patch else {
        return match unclear {
            Some(from) if from.patch.is_none() => Holds::Depends(CHANGELOG),
            _ if begun.is_none() && fixed.is_none() && unclear.is_none() => Holds::Yes,
            _ => Holds::Depends(LEVEL),
        };
    };
    if fixed.is_some_and(|first| patch >= first) || begun.is_some_and(|first| patch < first) {
        return Holds::No;
    }
    match unclear {
        Some(from) if from.patch.is_none_or(|first| patch >= first) => Holds::Depends(CHANGELOG),
        _ => Holds::when(begun.is_some() || is_in_series(row, version)),
    }
}

/// Whether a row says on which kernels it holds.
pub(crate) fn has_one(row: Row) -> bool {
    row.get("since").is_some()
}

/// On which kernels a row holds, by the same columns. Of series that `unclear_in` names nothing is said.
pub(crate) fn words(row: Row) -> Option<String> {
    let since = row.get("since")?;
    let mut text = match row.get("until") {
        None => format!("Linux {since} and later have it"),
        Some(until) if until == since => format!("Linux {since} has it"),
        Some(until) => format!("Linux {since} to {until} have it"),
    };
    if let Some(levels) = row.get("also_from") {
        text += &format!(", and stable kernels from {} on", listed(levels));
    }
    if let Some(levels) = row.get("fixed_in") {
        text += &format!("; it is fixed in {}", listed(levels));
    }
    Some(text)
}

/// `6.12.31 and 6.14.9`.
fn listed(levels: &str) -> String {
    match levels.rsplit_once(' ') {
        Some((others, last)) => format!("{} and {last}", others.replace(' ', ", ")),
        None => levels.to_owned(),
    }
}

/// The entries of a list such as `6.12.43 6.1.149` about the series of `version`.
fn entries(row: Row, column: &str, version: Version) -> impl Iterator<Item = Version> {
    let all = row.get(column).unwrap_or_default().split(' ').filter_map(|text| text.parse::<Version>().ok());
    all.filter(move |entry| (entry.major, entry.minor) == (version.major, version.minor))
}

fn is_in_series(row: Row, version: Version) -> bool {
    let bound = |column: &str| row.get(column).and_then(|text| text.parse::<Version>().ok());
    let until = bound("until");
    bound("since").is_some_and(|since| version.is_at_least(since.major, since.minor))
        && until.is_none_or(|until| (version.major, version.minor) <= (until.major, until.minor))
}
