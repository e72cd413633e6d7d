//! Whether a preview is of an upgrade or a downgrade.

use unstarve_facts::Version;

/// Whether one kernel is older than another. Stable levels count only if both are known.
pub(crate) fn is_older(version: Version, than: Version) -> bool {
    let series = |version: Version| (version.major, version.minor);
    match (version.patch, than.patch) {
        (Some(patch), Some(other)) => (series(version), patch) < (series(than), other),
        _ => series(version) < series(than),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stable_level_counts_where_both_have_one() {
        let version = |text: &str| Version::named(text).expect("a version");
        for (one, other, older) in [
            ("6.12", "6.18.44", true),
            ("6.18", "6.18.44", false),
            ("6.18.43", "6.18.44", true),
            ("6.18.44", "6.18.44", false),
            ("7.0", "6.18.44", false),
            ("5.19.17", "6.1.1", true),
        ] {
            assert_eq!(is_older(version(one), version(other)), older, "{one} {other}");
        }
    }
}
