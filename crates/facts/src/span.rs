//! Decides on which kernels a table row applies, from its columns `since`, `until`, `also_from`, `fixed_in` and
//! `unclear_in`.

use crate::{Holds, Row, Version};

/// What would decide it, if it depends on the unknown stable level of a kernel.
pub(crate) const STABLE_LEVEL: &str = "the stable level of this kernel, which its release does not say";
const KERNEL_CHANGELOG: &str =
    "the changelog of this kernel: from which level of its series on this changed is not established";

/// Whether a row applies to a kernel: from series `since` to series `until` (empty: still applies), and in stable
/// series with a backport, from the level in `also_from`; up to the level in `fixed_in`. For series in `unclear_in` it
/// is unknown, or only below the given level.
pub(crate) fn holds_on(row: Row, version: Version) -> Holds {
    let level = |column: &str| entries(row, column, version).find_map(|entry| entry.patch);
    let (begun, fixed) = (level("also_from"), level("fixed_in"));
    let unclear = entries(row, "unclear_in", version).next();
    if unclear.is_none() && begun.is_none() && !is_in_series(row, version) {
        return Holds::No;
    }
    let Some(patch) = version.patch else {
        return match unclear {
            Some(from) if from.patch.is_none() => Holds::Depends(KERNEL_CHANGELOG),
            _ if begun.is_none() && fixed.is_none() && unclear.is_none() => Holds::Yes,
            _ => Holds::Depends(STABLE_LEVEL),
        };
    };
    if fixed.is_some_and(|first| patch >= first) || begun.is_some_and(|first| patch < first) {
        return Holds::No;
    }
    match unclear {
        Some(from) if from.patch.is_none_or(|first| patch >= first) => Holds::Depends(KERNEL_CHANGELOG),
        _ => Holds::when(begun.is_some() || is_in_series(row, version)),
    }
}

/// Whether a row says to which kernels it applies.
pub(crate) fn has_one(row: Row) -> bool {
    row.get("since").is_some()
}

/// The stable levels of a series at which a row begins and ends to apply, as far as it names them.
pub(crate) fn levels(row: Row, version: Version) -> (Option<Version>, Option<Version>) {
    let level = |column: &str| entries(row, column, version).find(|entry| entry.patch.is_some());
    (level("also_from"), level("fixed_in"))
}

/// The kernels to which a row applies, in words. Series in `unclear_in` are not mentioned.
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

/// The entries for the series of `version` in a list such as `6.12.43 6.1.149`.
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
